package store_test

import (
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
	"github.com/stretchr/testify/require"
	"gopkg.in/inf.v0"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
)

// A nook has a text, as 5/7, by methods of pointers.
type nook struct{ shelf, box int }

func (p *nook) MarshalText() ([]byte, error) { return fmt.Appendf(nil, "%d/%d", p.shelf, p.box), nil }

func (p *nook) UnmarshalText(text []byte) error {
	if _, err := fmt.Sscanf(string(text), "%d/%d", &p.shelf, &p.box); err != nil {
		return fmt.Errorf("secret %s", text)
	}
	return nil
}

// A route has its text by a method of values.
type route struct{ from, to string }

func (r route) MarshalText() ([]byte, error) { return []byte(r.from + ">" + r.to), nil }

func (r *route) UnmarshalText(text []byte) (err error) {
	var ok bool
	if r.from, r.to, ok = strings.Cut(string(text), ">"); !ok {
		err = errors.New("secret")
	}
	return err
}

// A crate writes what it does not read.
type crate struct{ n int }

func (c *crate) MarshalText() ([]byte, error) {
	if c.n == 31337 {
		return nil, errors.New("secret 31337")
	}
	return fmt.Appendf(nil, "crate-%d", c.n), nil
}

func (c *crate) UnmarshalText(text []byte) error {
	if _, err := fmt.Sscanf(string(text), "crate-%d", &c.n); err != nil || c.n > 99 {
		return fmt.Errorf("secret %s", text)
	}
	if c.n > 9 {
		c.n = 9
	}
	return nil
}

// A label that says something else as a text is kept as the string that it is.
type shouted string

func (s shouted) MarshalText() ([]byte, error) { return []byte(strings.ToUpper(string(s))), nil }

func (s *shouted) UnmarshalText(text []byte) error { *s = shouted(text); return nil }

type placed struct {
	ID      netip.Prefix         `rangecrypt:"id,key=1,hashed,type=string"`
	Part    route                `rangecrypt:"part,key=2,ordered=mope,type=string"`
	Place   nook                 `rangecrypt:"place,type=string,ordered=boldyreva"`
	Ptr     *nook                `rangecrypt:"ptr,type=string,deterministic"`
	Route   route                `rangecrypt:"route,type=string(32),ordered=boldyreva"`
	PtrNet  *netip.Prefix        `rangecrypt:"ptrnet,type=string"`
	NullNet sql.Null[netip.Addr] `rangecrypt:"nullnet,type=string"`
	IP      net.IP               `rangecrypt:"ip,type=string"`
	Time    time.Time            `rangecrypt:"time,type=string"`
	Inf     inf.Dec              `rangecrypt:"inf,type=string"`
	Rat     *big.Rat             `rangecrypt:"rat,type=string"`
	Level   slog.Level           `rangecrypt:"level,type=string,plain"`
	UUID    gocql.UUID           `rangecrypt:"uuid,type=string"`
	Shouted shouted              `rangecrypt:"shouted,type=string"`
}

// A type with MarshalText and UnmarshalText is kept as its text, in both directions.
func TestStructsOfTexts(t *testing.T) {
	st := open(t, drivertest.NewMemory())
	tbl := opened[placed](t, st, "placed", func(s *store.Schema) { s.Conditional = true })
	full := &placed{
		ID: netip.MustParsePrefix("10.0.0.0/8"), Part: route{"a", "b"}, Place: nook{5, 7}, Ptr: &nook{1, 2}, Route: route{"x", ""},
		PtrNet: pointerTo(netip.MustParsePrefix("::/0")), NullNet: sql.Null[netip.Addr]{V: netip.MustParseAddr("::1"), Valid: true},
		IP: net.IPv4(10, 0, 0, 1), Time: time.Date(2026, 5, 1, 8, 0, 0, 1, time.UTC), Inf: *inf.NewDec(125, 2), Rat: big.NewRat(1, 3),
		Level: slog.LevelWarn, UUID: gocql.UUID{7}, Shouted: "low",
	}
	nulls := &placed{ID: netip.MustParsePrefix("10.0.0.0/8"), Part: route{"a", "c"}, Time: time.Unix(0, 0).UTC(), Place: nook{40, 1}}
	require.NoError(t, tbl.Put(background, full, nulls))
	for _, want := range []*placed{full, nulls} {
		got, err := tbl.Get(background, &placed{ID: want.ID, Part: want.Part})
		require.NoError(t, err)
		require.Equal(t, want.Inf.String(), got.Inf.String())
		got.Inf = want.Inf
		require.Equal(t, want, got)
	}
	row, err := tbl.Table().Get(background, store.Row{"id": "10.0.0.0/8", "part": "a>b"})
	require.NoError(t, err)
	require.Equal(t, store.Row{
		"id": "10.0.0.0/8", "part": "a>b", "place": "5/7", "ptr": "1/2", "route": "x>", "ptrnet": "::/0", "nullnet": "::1", "ip": "10.0.0.1",
		"time": "2026-05-01T08:00:00.000000001Z", "inf": "1.25", "rat": "1/3", "level": "WARN", "uuid": full.UUID.String(), "shouted": "low",
	}, row)
	row, err = tbl.Table().Get(background, store.Row{"id": "10.0.0.0/8", "part": "a>c"})
	require.NoError(t, err)
	for _, name := range []string{"ptr", "ptrnet", "nullnet", "ip", "rat"} {
		require.NotContains(t, row, name, "null")
	}

	// Predicates name the text, and its order is the column's: 40/1 is before 5/7.
	var order []nook
	for row, err := range tbl.Query(background, store.Query{OrderBy: "place"}) {
		require.NoError(t, err)
		order = append(order, row.Place)
	}
	require.Equal(t, []nook{{40, 1}, {5, 7}}, order)
	for row, err := range tbl.Query(background, store.Query{Where: store.Field[string]("ptr").Equal("1/2"), Columns: []string{"ptr"}}) {
		require.NoError(t, err)
		require.Equal(t, &placed{ID: full.ID, Part: full.Part, Ptr: full.Ptr}, row)
	}
	full.Place = nook{6, 1}
	require.NoError(t, tbl.Update(background, full, "place"))
	require.NoError(t, tbl.UpdateIf(background, full, full, "place", "route", "rat"))

	// A table says that a column is a string, where a tag does not.
	type untyped struct {
		ID    netip.Prefix `rangecrypt:"id,key=1"`
		Part  route        `rangecrypt:"part,key=2"`
		Place *nook        `rangecrypt:"place"`
	}
	few, err := store.For[untyped](background, st, "placed", store.AllowUnmapped)
	require.NoError(t, err)
	got, err := few.Get(background, &untyped{ID: full.ID, Part: full.Part})
	require.NoError(t, err)
	require.Equal(t, &nook{6, 1}, got.Place)
}

// A text that cannot be read back is an error of the write, names the field, and shows no value.
func TestStructTextsThatAreNotReadBack(t *testing.T) {
	type crates struct {
		ID    int64 `rangecrypt:"id,key=1,hashed"`
		Crate crate `rangecrypt:"crate,type=string"`
	}
	tbl := opened[crates](t, open(t, drivertest.NewMemory()), "crates", nil)
	require.NoError(t, tbl.Put(background, &crates{1, crate{9}}))
	for n, want := range map[int]string{
		31337: "MarshalText of store_test.crate returns an error",
		100:   "UnmarshalText of store_test.crate does not read what MarshalText wrote",
		10:    "UnmarshalText of store_test.crate reads another value than MarshalText wrote",
	} {
		err := tbl.Put(background, &crates{2, crate{n}})
		require.ErrorIs(t, err, ope.ErrDomain)
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, "field crates.Crate: ")
		require.NotContains(t, err.Error(), "secret")
		require.NotContains(t, err.Error(), fmt.Sprint(n))
	}
	require.NoError(t, tbl.Table().Put(background, store.Row{"id": 3, "crate": "31337"}))
	_, err := tbl.Get(background, &crates{ID: 3})
	require.ErrorIs(t, err, ope.ErrDomain)
	require.ErrorContains(t, err, "field crates.Crate: ")
	require.ErrorContains(t, err, "UnmarshalText of store_test.crate does not read the text that the column has")
	require.NotContains(t, err.Error(), "31337")
}

type (
	onlyString  struct{ _ int }
	onlyMarshal struct{ _ int }
	onlyRead    struct{ _ int }
	digits      []int
)

func (onlyString) String() string                { return "n" }
func (onlyMarshal) MarshalText() ([]byte, error) { return []byte("n"), nil }
func (*onlyRead) UnmarshalText([]byte) error     { return nil }
func (digits) MarshalText() ([]byte, error)      { return []byte("n"), nil }
func (*digits) UnmarshalText([]byte) error       { return nil }

// What has no text that is read back is an error that names the field and says what to write.
func TestStructTagsOfTexts(t *testing.T) {
	refused := map[string]func(string) (store.Schema, error){
		"struct.B: a field of Go type store_test.onlyString does not take type=string: give the type the methods MarshalText and UnmarshalText, its String method is not read back": store.SchemaOf[struct {
			B onlyString `rangecrypt:"b,type=string"`
		}],
		"struct.B: no column has values of Go type *store_test.onlyString; give the type the methods MarshalText and UnmarshalText and write type=string, or leave the field out": store.SchemaOf[struct {
			B *onlyString `rangecrypt:"b"`
		}],
		"struct.B: a field of Go type store_test.onlyMarshal does not take type=string: give the type the method UnmarshalText, which reads back what MarshalText writes": store.SchemaOf[struct {
			B onlyMarshal `rangecrypt:"b,type=string"`
		}],
		"struct.B: a field of Go type ope.Key does not take type=string: give the type the method UnmarshalText": store.SchemaOf[struct {
			B ope.Key `rangecrypt:"b,type=string"`
		}],
		"struct.B: a field of Go type store_test.onlyRead does not take type=string: give the type the method MarshalText, which writes what UnmarshalText reads": store.SchemaOf[struct {
			B onlyRead `rangecrypt:"b,type=string"`
		}],
		"struct.B: a field of Go type map[string]int does not take type=string: only types that are made of string, or have the methods MarshalText and UnmarshalText, do": store.SchemaOf[struct {
			B map[string]int `rangecrypt:"b,type=string"`
		}],
		"struct.B: a field of Go type store_test.nook does not take scale=, its text is no decimal number: write type=string": store.SchemaOf[struct {
			B nook `rangecrypt:"b,scale=0"`
		}],
		"struct.B: a field of Go type netip.Prefix does not take scale=, its text is no decimal number: write type=string": store.SchemaOf[struct {
			B *netip.Prefix `rangecrypt:"b,scale=0"`
		}],
		"struct.B: a field of Go type netip.Prefix does not take type=decimal(0), its text is no decimal number: write type=string": store.SchemaOf[struct {
			B netip.Prefix `rangecrypt:"b,type=decimal(0)"`
		}],
		"struct.B: a field of Go type store_test.nook does not take type=bytes: write type=string, which keeps the text": store.SchemaOf[struct {
			B nook `rangecrypt:"b,type=bytes"`
		}],
		"struct.B: which type has the column? Write type=string, which keeps the text": store.SchemaOf[struct {
			A int64 `rangecrypt:"a,key=1,hashed"`
			B nook  `rangecrypt:"b"`
		}],
		"struct.B: which type has the column? Write type=string, which keeps the text of MarshalText": store.SchemaOf[struct {
			A int64  `rangecrypt:"a,key=1,hashed"`
			B digits `rangecrypt:"b"`
		}],
		"struct.B: which type has the column? Write scale=N, the digits after the point, or type=string, which keeps the text": store.SchemaOf[struct {
			A int64    `rangecrypt:"a,key=1,hashed"`
			B *inf.Dec `rangecrypt:"b"`
		}],
		"struct.B: which type has the column? Write type=string, which keeps the text, or type=bytes, for which an address of 4 bytes is not the same one of 16": store.SchemaOf[struct {
			A int64  `rangecrypt:"a,key=1,hashed"`
			B net.IP `rangecrypt:"b,deterministic"`
		}],
		"struct.B: a field of Go type net.IP does not take type=ipv4: write type=string": store.SchemaOf[struct {
			B *net.IP `rangecrypt:"b,type=ipv4"`
		}],
		"struct.B: a big.Rat is not always a decimal number: use inf.Dec, big.Int or encode.Decimal, or write type=string": store.SchemaOf[struct {
			B big.Rat `rangecrypt:"b"`
		}],
	}
	for want, of := range refused {
		_, err := of("table")
		require.ErrorIs(t, err, store.ErrSchema, want)
		require.ErrorContains(t, err, want)
	}
}

// A net.IP has two forms, which net.ParseIP and a database driver give for the same address. As a text they are one value; as bytes,
// which a table may have, they are two.
func TestStructsOfAddressesOfTwoForms(t *testing.T) {
	type visit struct {
		ID   int64  `rangecrypt:"id,key=1,hashed"`
		Text net.IP `rangecrypt:"text,deterministic,type=string"`
		Raw  net.IP `rangecrypt:"raw,deterministic,type=bytes"`
	}
	st := open(t, drivertest.NewMemory())
	tbl := opened[visit](t, st, "visits", func(*store.Schema) {})
	long, short := net.IPv4(10, 0, 0, 1), net.IPv4(10, 0, 0, 1).To4()
	require.NoError(t, tbl.Put(background, &visit{1, long, long}, &visit{2, short, short}))
	count := func(p store.Predicate) int {
		n, err := tbl.Table().Count(background, p)
		require.NoError(t, err)
		return n
	}
	require.Equal(t, 2, count(store.String.Field("text").Equal("10.0.0.1")))
	require.Equal(t, 1, count(store.Field[net.IP]("raw").Equal(short)))

	// A tag that leaves the type out takes that of the table.
	type untyped struct {
		ID   int64  `rangecrypt:"id,key=1,hashed"`
		Text net.IP `rangecrypt:"text"`
		Raw  net.IP `rangecrypt:"raw"`
	}
	of, err := store.For[untyped](background, st, "visits")
	require.NoError(t, err)
	got, err := of.Get(background, &untyped{ID: 2})
	require.NoError(t, err)
	require.Equal(t, short, got.Raw)
	require.True(t, long.Equal(got.Text))
}
