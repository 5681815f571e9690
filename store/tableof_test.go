package store_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"math/big"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
	"github.com/stretchr/testify/require"
	"gopkg.in/inf.v0"

	"github.com/rangecrypt/rangecrypt/internal/testdb"
	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/encode"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
)

type (
	celsius  float64
	serial   int16
	label    string
	stamp    time.Time
	document []byte
)

// everything has a field of every Go type that a column takes.
type everything struct {
	ID       int64                `rangecrypt:"id,key=1,hashed"`
	Int      int                  `rangecrypt:"int,ordered=mope"`
	Uint     uint                 `rangecrypt:"uint"`
	Int8     int8                 `rangecrypt:"int8,type=int8 from 0 to 120,ordered=wozniak"`
	Int16    serial               `rangecrypt:"int16,deterministic"`
	Int32    int32                `rangecrypt:"int32,ordered=kerschbaum"`
	Uint8    uint8                `rangecrypt:"uint8"`
	Uint16   uint16               `rangecrypt:"uint16"`
	Uint32   uint32               `rangecrypt:"uint32"`
	Uint64   uint64               `rangecrypt:"uint64,ordered=boldyreva"`
	Float32  float32              `rangecrypt:"float32"`
	Float64  celsius              `rangecrypt:"float64,ordered=boldyreva"`
	Bool     bool                 `rangecrypt:"bool,plain"`
	String   label                `rangecrypt:"string,ordered=boldyreva"`
	Bytes    document             `rangecrypt:"bytes"`
	UUID     [16]byte             `rangecrypt:"uuid,deterministic"`
	CQL      gocql.UUID           `rangecrypt:"cql,deterministic"`
	Duration time.Duration        `rangecrypt:"duration,ordered=mope"`
	Time     time.Time            `rangecrypt:"time,unit=ns"`
	Stamp    stamp                `rangecrypt:"stamp,unit=s"`
	Date     encode.CivilDate     `rangecrypt:"date,ordered=mope"`
	IPv4     netip.Addr           `rangecrypt:"ipv4,type=ipv4"`
	IPv6     netip.Addr           `rangecrypt:"ipv6,type=ipv6"`
	Decimal  encode.Decimal       `rangecrypt:"decimal,scale=3"`
	Inf      inf.Dec              `rangecrypt:"inf,ordered=wozniak,scale=2"`
	Big      big.Int              `rangecrypt:"big,scale=0"`
	BigCents *big.Int             `rangecrypt:"bigcents,scale=2"`
	Ptr      *celsius             `rangecrypt:"ptr"`
	PtrText  *label               `rangecrypt:"ptrtext"`
	PtrInf   *inf.Dec             `rangecrypt:"ptrinf,scale=2"`
	PtrTime  *time.Time           `rangecrypt:"ptrtime,unit=ms"`
	Null     sql.Null[serial]     `rangecrypt:"null"`
	NullText sql.NullString       `rangecrypt:"nulltext"`
	NullInt  sql.NullInt32        `rangecrypt:"nullint"`
	NullTime sql.NullTime         `rangecrypt:"nulltime,unit=us"`
	NullUUID sql.Null[gocql.UUID] `rangecrypt:"nulluuid"`
	Skipped  map[string]int       `rangecrypt:"-"`
}

func pointerTo[T any](v T) *T { return &v }

// opened returns a table of structs that was just made.
func opened[T any](t testing.TB, st *store.Store, name string, change func(*store.Schema)) *store.TableOf[T] {
	t.Helper()
	schema, err := store.SchemaOf[T](name)
	require.NoError(t, err)
	if change != nil {
		change(&schema)
	}
	create(t, st, schema)
	tbl, err := store.For[T](background, st, name)
	require.NoError(t, err)
	return tbl
}

func TestStructsOfAllTypes(t *testing.T) {
	tbl := opened[everything](t, open(t, testdb.All[0].Open(t, nil)), "everything", nil)
	at := time.Date(2026, 5, 1, 8, 0, 0, 123_456_789, time.UTC)
	rows := []*everything{
		{
			ID: 1, Int: math.MinInt, Uint: math.MaxUint, Int8: 120, Int16: -7, Int32: math.MinInt32, Uint8: 255, Uint16: 65535, Uint32: math.MaxUint32,
			Uint64: math.MaxUint64, Float32: -1.5, Float64: celsius(math.Inf(1)), Bool: true, String: "häuser", Bytes: document{0, 1}, UUID: [16]byte{1},
			CQL: gocql.UUID{2}, Duration: -time.Minute, Time: at, Stamp: stamp(at.Truncate(time.Second)), Date: encode.CivilDate{Year: 2026, Month: 2, Day: 28},
			IPv4: netip.MustParseAddr("10.0.0.1"), IPv6: netip.MustParseAddr("::1"), Decimal: encode.Decimal{Unscaled: big.NewInt(-12345), Scale: 3},
			Inf: *inf.NewDec(1250, 2), Big: *big.NewInt(1 << 60), BigCents: big.NewInt(-100), Ptr: pointerTo(celsius(2)), PtrText: pointerTo(label("")), PtrInf: inf.NewDec(-1, 2),
			PtrTime: pointerTo(at.Truncate(time.Millisecond)), Null: sql.Null[serial]{V: 3, Valid: true}, NullText: sql.NullString{String: "x", Valid: true},
			NullInt: sql.NullInt32{Int32: 4, Valid: true}, NullTime: sql.NullTime{Time: at.Truncate(time.Microsecond), Valid: true},
			NullUUID: sql.Null[gocql.UUID]{V: gocql.UUID{9}, Valid: true},
		},
		{
			ID: 2, Bytes: document{}, Date: encode.CivilDate{Year: 1, Month: 1, Day: 1}, Time: time.Unix(0, 0).UTC(), Stamp: stamp(time.Unix(0, 0).UTC()),
			IPv4: netip.MustParseAddr("0.0.0.0"), IPv6: netip.MustParseAddr("::"), Decimal: encode.Decimal{Unscaled: new(big.Int), Scale: 3}, Inf: *inf.NewDec(0, 2),
		},
	}
	require.NoError(t, tbl.Put(background, rows...))
	batch, err := tbl.GetBatch(background, rows[1], &everything{ID: 3}, rows[0])
	require.NoError(t, err)
	require.Nil(t, batch[1])
	for i, got := range map[int]*everything{0: batch[2], 1: batch[0]} {
		requireSame(t, rows[i], got)
		one, err := tbl.Get(background, &everything{ID: rows[i].ID})
		require.NoError(t, err)
		requireSame(t, rows[i], one)
	}
	found := map[int64]*everything{}
	for row, err := range tbl.Query(background, store.Query{}) {
		require.NoError(t, err)
		found[row.ID] = row
	}
	require.Len(t, found, 2)
	requireSame(t, rows[0], found[1])
	requireSame(t, rows[1], found[2])

	// The same row as a map.
	row, err := tbl.Table().Get(background, store.Row{"id": 1})
	require.NoError(t, err)
	require.Equal(t, -1.5, float64(row["float32"].(float32)))
	require.Equal(t, []byte{0, 1}, row["bytes"])
	require.Equal(t, "12.50", row["inf"].(encode.Decimal).String())
	require.Equal(t, int64(-time.Minute), row["duration"])
	row, err = tbl.Table().Get(background, store.Row{"id": 2})
	require.NoError(t, err)
	require.NotContains(t, row, "ptr")
	require.NotContains(t, row, "nulltext")
	require.Contains(t, row, "bytes")

	require.NoError(t, tbl.Delete(background, rows[0]))
	_, err = tbl.Get(background, rows[0])
	require.ErrorIs(t, err, store.ErrNoRow)
}

// requireSame compares by text, which shows the values of decimals, and instants.
func requireSame(t *testing.T, want, got *everything) {
	t.Helper()
	for i := range reflect.TypeFor[everything]().NumField() {
		a, b := reflect.ValueOf(want).Elem().Field(i), reflect.ValueOf(got).Elem().Field(i)
		if !a.CanInterface() {
			continue
		}
		text := func(v reflect.Value) string {
			switch x := v.Addr().Interface().(type) {
			case fmt.Stringer:
				return x.String()
			case *stamp:
				return time.Time(*x).String()
			case **inf.Dec:
				return fmt.Sprint(*x)
			}
			if v.Kind() == reflect.Pointer && !v.IsNil() {
				v = v.Elem()
			}
			return fmt.Sprintf("%#v", v.Interface())
		}
		require.Equal(t, text(a), text(b), reflect.TypeFor[everything]().Field(i).Name)
	}
}

type stamped struct{ netip.Addr }

type reading struct {
	Device  string    `rangecrypt:"device,key=1,hashed"`
	At      time.Time `rangecrypt:"at,key=2,ordered=mope,unit=ms"`
	ID      store.Tie `rangecrypt:"id,key=3"`
	Celsius *float64  `rangecrypt:"celsius,ordered=boldyreva"`
	Note    string    `rangecrypt:"note"`
	Model   string    `rangecrypt:"model,plain"`
}

func TestStructsQueryAndPage(t *testing.T) {
	tbl := opened[reading](t, open(t, testdb.All[0].Open(t, nil)), "readings", nil)
	at := time.Date(2026, 5, 1, 8, 0, 0, 0, time.UTC)
	var rows []*reading
	for i := range 10 {
		rows = append(rows, &reading{Device: "pump", At: at.Add(time.Duration(i) * time.Hour), Celsius: pointerTo(float64(i)), Note: fmt.Sprint(i)})
	}
	require.NoError(t, tbl.Put(background, rows...))
	for _, row := range rows {
		require.NotZero(t, row.ID, "it was drawn")
		got, err := tbl.Get(background, row)
		require.NoError(t, err)
		require.Equal(t, row, got)
	}
	// Again, the same rows.
	require.NoError(t, tbl.Put(background, rows...))
	device, hot := store.Field[string]("device"), store.Field[float64]("celsius")
	page, next, err := tbl.Page(background, store.Query{Where: device.Equal("pump"), Limit: 4})
	require.NoError(t, err)
	require.Equal(t, rows[:4], page)
	page, next, err = tbl.Page(background, store.Query{Where: device.Equal("pump"), Limit: 6, PageToken: next})
	require.NoError(t, err)
	require.Equal(t, rows[4:], page)
	require.Empty(t, next)
	_, _, err = tbl.Page(background, store.Query{})
	require.Error(t, err)
	n := 0
	for row, err := range tbl.Query(background, store.Query{Where: hot.AtLeast(7), Columns: []string{"note"}}) {
		require.NoError(t, err)
		require.Nil(t, row.Celsius)
		require.Equal(t, fmt.Sprint(n+7), row.Note)
		require.Equal(t, rows[n+7].ID, row.ID)
		n++
	}
	require.Equal(t, 3, n)
	for _, err := range tbl.Query(background, store.Query{Columns: []string{"nothing"}}) {
		require.ErrorIs(t, err, store.ErrColumn)
		require.NotErrorIs(t, err, store.ErrSchemaChanged)
	}
	require.ErrorIs(t, tbl.Put(background, nil), store.ErrColumn)
	_, err = tbl.Get(background, nil)
	require.ErrorIs(t, err, store.ErrColumn)
	_, err = tbl.Get(background, &reading{Device: "pump", At: at})
	require.ErrorContains(t, err, `key part "id" is null: name the tie-breaker of the row, as Put drew it or a query returned it; a Tie of zeros is none`)
	require.ErrorIs(t, tbl.Put(background, &reading{Note: "\xff", At: at}), ope.ErrDomain)
	require.ErrorContains(t, tbl.Put(background, &reading{At: at.Add(1)}), `"at"`)

	// A map has a tie-breaker as a struct has it: the second row does not replace the first one.
	for range 2 {
		require.NoError(t, tbl.Table().Put(background, store.Row{"device": "tied", "at": at, "id": store.Tie{}}))
	}
	tied, err := tbl.Table().Count(background, device.Equal("tied"))
	require.NoError(t, err)
	require.Equal(t, 2, tied)
	for _, zeros := range []any{store.Tie{}, new(store.Tie)} {
		_, err = tbl.Table().Get(background, store.Row{"device": "tied", "at": at, "id": zeros})
		require.ErrorContains(t, err, "a Tie of zeros is none")
	}
	named := store.Row{"device": "tied", "at": at, "id": [16]byte{}}
	require.NoError(t, tbl.Table().Put(background, named))
	found, err := tbl.Table().Get(background, named)
	require.NoError(t, err)
	require.NotNil(t, found)
}

// Each mistake in tags is an error that names the field and says what to write.
func TestStructTagsAreStrict(t *testing.T) {
	schemaOf := map[string]func() (store.Schema, error){}
	expect := func(err string, of func(string) (store.Schema, error)) {
		schemaOf[err] = func() (store.Schema, error) { return of("table") }
	}
	expect("struct.A: unknown option \"secret\": there is key=N, hashed", store.SchemaOf[struct {
		A int64 `rangecrypt:"a,key=1,secret"`
	}])
	expect("struct.A has no tag: write `rangecrypt:\"a\"`", store.SchemaOf[struct{ A int64 }])
	expect("struct.a is not exported", store.SchemaOf[struct {
		a int64 `rangecrypt:"a,key=1,hashed"` //nolint:unused // only its tag is read
	}])
	expect("fields struct.A and struct.B both have column \"a\"", store.SchemaOf[struct {
		A int64 `rangecrypt:"a,key=1,hashed"`
		B int64 `rangecrypt:"a"`
	}])
	expect("no field of struct has key=1", store.SchemaOf[struct {
		A int64 `rangecrypt:"a"`
	}])
	expect("struct.A has key=2, and no field has key=1", store.SchemaOf[struct {
		A int64 `rangecrypt:"a,key=2,hashed"`
	}])
	expect("fields struct.A and struct.B both have key=1", store.SchemaOf[struct {
		A int64 `rangecrypt:"a,key=1,hashed"`
		B int64 `rangecrypt:"b,key=1,hashed"`
	}])
	expect("struct.A: option key needs the position", store.SchemaOf[struct {
		A int64 `rangecrypt:"a,key,hashed"`
	}])
	expect("struct.A: option key needs the position in the row key, from 1 on", store.SchemaOf[struct {
		A int64 `rangecrypt:"a,key=0,hashed"`
	}])
	expect("struct.A: how is the key part encrypted? Write hashed", store.SchemaOf[struct {
		A int64 `rangecrypt:"a,key=1"`
	}])
	expect("struct.A: a key part cannot be deterministic", store.SchemaOf[struct {
		A int64 `rangecrypt:"a,key=1,deterministic"`
	}])
	expect("struct.A: a key part cannot be null", store.SchemaOf[struct {
		A *int64 `rangecrypt:"a,key=1,hashed"`
	}])
	expect("struct.A: scheme kerschbaum encrypts columns only", store.SchemaOf[struct {
		A int64 `rangecrypt:"a,key=1,ordered=kerschbaum"`
	}])
	expect("struct.A: unknown scheme \"rot13\": there is boldyreva", store.SchemaOf[struct {
		A int64 `rangecrypt:"a,key=1,ordered=rot13"`
	}])
	expect("struct.A: option ordered needs a scheme", store.SchemaOf[struct {
		A int64 `rangecrypt:"a,key=1,ordered"`
	}])
	expect("struct.A: hashed and plain exclude each other", store.SchemaOf[struct {
		A int64 `rangecrypt:"a,key=1,hashed,plain"`
	}])
	expect("struct.A: option hashed is there twice", store.SchemaOf[struct {
		A int64 `rangecrypt:"a,key=1,hashed,hashed"`
	}])
	expect("struct.A: option hashed takes no value", store.SchemaOf[struct {
		A int64 `rangecrypt:"a,key=1,hashed=1"`
	}])
	expect("struct.A: a key part has no index entries to cover: drop covering, or key=N", store.SchemaOf[struct {
		A int64 `rangecrypt:"a,key=1,ordered=mope,covering"`
	}])
	expect("struct.B: only ordered and deterministic columns have index entries to cover", store.SchemaOf[struct {
		B int64 `rangecrypt:"b,covering"`
	}])
	expect("struct.B: only ordered and deterministic columns have index entries to cover", store.SchemaOf[struct {
		B int64 `rangecrypt:"b,covering,plain"`
	}])
	expect("the name of the column itself for no others", store.SchemaOf[struct {
		B int64 `rangecrypt:"b,deterministic,covering="`
	}])
	s, err := store.SchemaOf[struct {
		A int64 `rangecrypt:"a,key=1,hashed"`
		B int64 `rangecrypt:"b,deterministic,covering"`
	}]("t")
	require.NoError(t, err)
	require.True(t, s.Conditional && !s.AppendOnly, "whose rows have no tie-breaker")
	s, err = store.SchemaOf[struct {
		A int64 `rangecrypt:"a,key=1,hashed"`
		B int64 `rangecrypt:"b,deterministic,covering=b"`
		C int64 `rangecrypt:"c"`
	}]("least")
	require.NoError(t, err)
	least, err := open(t, drivertest.NewMemory()).Create(background, s)
	require.NoError(t, err)
	described, err := least.Describe(background)
	require.NoError(t, err)
	require.Empty(t, described.Columns[0].Copied, "of no other column than itself")
	require.NotNil(t, described.Columns[0].Copied, "as of all columns")
	type some struct {
		A int64 `rangecrypt:"a,key=1,hashed"`
		B int64 `rangecrypt:"b,deterministic,covering= d c "`
		C int64 `rangecrypt:"c"`
		D int64 `rangecrypt:"d"`
	}
	s, err = store.SchemaOf[some]("some")
	require.NoError(t, err)
	require.Equal(t, []string{"d", "c"}, s.Columns[0].Describe().Copied)
	st := open(t, drivertest.NewMemory())
	_, err = st.Create(background, s)
	require.NoError(t, err)
	_, err = store.For[some](background, st, "some")
	require.NoError(t, err, "the order of the names means nothing")
	_, err = store.For[struct {
		A int64 `rangecrypt:"a,key=1,hashed"`
		B int64 `rangecrypt:"b,deterministic,covering=d a b c d"`
	}](background, st, "some", store.AllowUnmapped)
	require.NoError(t, err, "nor do names that stand twice, the column itself and the row key")
	_, err = store.For[struct {
		A int64 `rangecrypt:"a,key=1,hashed"`
		B int64 `rangecrypt:"b,deterministic,covering=c"`
	}](background, st, "some", store.AllowUnmapped)
	require.NoError(t, err, "they say what SchemaOf makes, and the column may have been changed since")
	expect("column \"b\" covers \"x\", and table \"table\" has no such column", store.SchemaOf[struct {
		A int64 `rangecrypt:"a,key=1,hashed"`
		B int64 `rangecrypt:"b,deterministic,covering=x"`
	}])
	expect("column \"b\" cannot cover with scheme \"wozniak-indexed\"", store.SchemaOf[struct {
		A int64     `rangecrypt:"a,key=1,hashed"`
		T store.Tie `rangecrypt:"t,key=2"`
		B int64     `rangecrypt:"b,ordered=wozniak-indexed,covering"`
	}])
	expect("struct.T: a Tie is drawn at random: it takes no option but key=N", store.SchemaOf[struct {
		A int64         `rangecrypt:"a,key=1,hashed"`
		T store.LoadTie `rangecrypt:"t,key=2,hashed"`
	}])
	expect("struct.B: only key parts are hashed", store.SchemaOf[struct {
		B int64 `rangecrypt:"b,hashed"`
	}])
	expect("struct.B: a field of Go type int64 does not take unit=, which is for time.Time", store.SchemaOf[struct {
		B int64 `rangecrypt:"b,unit=ms"`
	}])
	expect("struct.B: a field of Go type time.Duration does not take unit=", store.SchemaOf[struct {
		B time.Duration `rangecrypt:"b,unit=ms"`
	}])
	expect("struct.B: a field of Go type string does not take scale=", store.SchemaOf[struct {
		B string `rangecrypt:"b,scale=2"`
	}])
	expect("struct.B: a field of Go type string does not take type=ipv4", store.SchemaOf[struct {
		B string `rangecrypt:"b,type=ipv4"`
	}])
	expect("struct.B: option unit=h: write unit=ns, us, ms or s", store.SchemaOf[struct {
		B time.Time `rangecrypt:"b,unit=h"`
	}])
	expect("struct.B: option scale=9999: write", store.SchemaOf[struct {
		B encode.Decimal `rangecrypt:"b,scale=9999"`
	}])
	expect("struct.B: unknown type \"int7\"", store.SchemaOf[struct {
		B int8 `rangecrypt:"b,type=int7"`
	}])
	expect("struct.B: only one of unit, scale and type", store.SchemaOf[struct {
		B time.Time `rangecrypt:"b,unit=ms,type=timestamp/ms"`
	}])
	expect("struct.B: which type has the column? Write unit=ns, us, ms or s", store.SchemaOf[struct {
		A int64     `rangecrypt:"a,key=1,hashed"`
		B time.Time `rangecrypt:"b"`
	}])
	expect("struct.B: which type has the column? Write type=ipv4 or type=ipv6", store.SchemaOf[struct {
		A int64      `rangecrypt:"a,key=1,hashed"`
		B netip.Addr `rangecrypt:"b"`
	}])
	expect("struct.B: which type has the column? Write scale=N", store.SchemaOf[struct {
		A int64   `rangecrypt:"a,key=1,hashed"`
		B inf.Dec `rangecrypt:"b"`
	}])
	expect("struct.B: values of type uuid have no order: write deterministic", store.SchemaOf[struct {
		B [16]byte `rangecrypt:"b,ordered=mope"`
	}])
	expect("struct.B: no column has values of Go type map[string]int; leave the field out with `rangecrypt:\"-\"`", store.SchemaOf[struct {
		B map[string]int `rangecrypt:"b"`
	}])
	for _, of := range []func(string) (store.Schema, error){store.SchemaOf[struct {
		B big.Rat `rangecrypt:"b,scale=2"`
	}], store.SchemaOf[struct {
		B *big.Rat `rangecrypt:"b"`
	}]} {
		_, err := of("table")
		require.ErrorIs(t, err, store.ErrSchema)
		require.ErrorContains(t, err, "struct.B: a big.Rat is not always a decimal number: use inf.Dec, big.Int or encode.Decimal")
	}
	expect("struct.B: a big.Float is not always a decimal number: use inf.Dec, big.Int or encode.Decimal", store.SchemaOf[struct {
		B sql.Null[big.Float] `rangecrypt:"b,scale=2"`
	}])
	expect("struct.B: no column has values of Go type **int64", store.SchemaOf[struct {
		B **int64 `rangecrypt:"b"`
	}])
	expect("struct.B: a Tie is the last part of the row key, and no pointer", store.SchemaOf[struct {
		B store.Tie `rangecrypt:"b"`
	}])
	expect("struct.B: a Tie is drawn at random: it takes no option", store.SchemaOf[struct {
		B store.Tie `rangecrypt:"b,key=2,hashed"`
	}])
	expect("struct.A: a Tie is the last part of the row key: write key=2, and at each part after it a number that is one less", store.SchemaOf[struct {
		A store.Tie `rangecrypt:"a,key=1"`
		B int64     `rangecrypt:"b,key=2,hashed"`
	}])
	expect("fields struct.A and struct.B are both a Tie: a row key has one, as its last part; leave the other out", store.SchemaOf[struct {
		A store.Tie `rangecrypt:"a,key=1"`
		B store.Tie `rangecrypt:"b,key=2"`
	}])
	expect("struct.A: the tag begins with a comma, or is empty", store.SchemaOf[struct {
		A int64 `rangecrypt:",key=1"`
	}])
	expect("struct.reading: an embedded pointer is not followed", store.SchemaOf[struct{ *reading }])
	expect("struct.Time has no tag: write `rangecrypt:\"time\"`", store.SchemaOf[struct {
		reading
		time.Time
	}])
	expect("struct.stamped.Addr has no tag", store.SchemaOf[struct {
		reading
		stamped
	}])
	expect("struct.NullString has no tag", store.SchemaOf[struct {
		reading
		sql.NullString
	}])
	expect("int is no struct", store.SchemaOf[int])
	expect("a column name neither begins nor ends with a space", store.SchemaOf[struct {
		A int64 `rangecrypt:"a,key=1,hashed"`
		B int64 `rangecrypt:" b"`
	}])
	for want, of := range schemaOf {
		_, err := of()
		require.ErrorIs(t, err, store.ErrSchema, want)
		require.ErrorContains(t, err, want)
	}
	// All mistakes at once.
	_, err = store.SchemaOf[struct {
		A int64 `rangecrypt:"a,key=1,secret"`
		B int64
	}]("table")
	require.ErrorContains(t, err, "struct.A: unknown")
	require.ErrorContains(t, err, "struct.B has no tag")
}

type noted struct {
	ID   int64  `rangecrypt:"id,key=1,hashed"`
	Note string `rangecrypt:"note"`
}

// Embedded structs, exported or not, count as the struct's own; and a struct with a tag is a value.
func TestStructsAreEmbedded(t *testing.T) {
	type inner struct {
		noted
		Area int32 `rangecrypt:"zone"`
	}
	type outer struct {
		Model string `rangecrypt:"model"`
		inner
		time.Time `rangecrypt:"at,unit=s"`
	}
	tbl := opened[outer](t, open(t, testdb.All[0].Open(t, nil)), "outer", nil)
	row := &outer{Model: "m", Time: time.Unix(7, 0).UTC()}
	row.ID, row.Note, row.Area = 4, "n", 5
	require.NoError(t, tbl.Put(background, row))
	got, err := tbl.Get(background, row)
	require.NoError(t, err)
	require.Equal(t, row, got)
}

// What contradicts a table is an error of For that names the field and says what to write.
func TestStructsThatDoNotFit(t *testing.T) {
	st := open(t, testdb.All[0].Open(t, nil))
	create(t, st, store.Schema{
		Name: "table",
		Key:  []store.KeyPart{store.HashedPart("a", store.Int64), store.TiePart("t")},
		Columns: []store.Column{
			store.OrderedColumn("o", store.Float64, store.MOPE), store.PlainColumn("p", store.String), store.RandomisedColumn("w", store.Int8.Within(0, 9)),
			store.RandomisedColumn("at", store.Time(time.Second)),
		},
	})
	type whole struct {
		A  int64     `rangecrypt:"a,key=1"`
		T  [16]byte  `rangecrypt:"t,key=2"`
		O  float64   `rangecrypt:"o"`
		P  string    `rangecrypt:"p,plain"`
		W  int8      `rangecrypt:"w"`
		At time.Time `rangecrypt:"at"`
	}
	tbl, err := store.For[whole](background, st, "table")
	require.NoError(t, err)
	row := &whole{A: 1, At: time.Unix(1, 0).UTC()}
	require.NoError(t, tbl.Put(background, row))
	require.NotZero(t, row.T)

	refused := map[string]error{}
	expect := func(err string, _ any, got error) { refused[err] = got }
	type key struct {
		A int64     `rangecrypt:"a,key=1,hashed"`
		T store.Tie `rangecrypt:"t,key=2"`
	}
	get := func(tbl any, err error) (any, error) { return tbl, err }
	check := func(want string, tbl any, err error) { expect(want, tbl, err) }
	a, err := get(store.For[struct {
		key
		X int8 `rangecrypt:"x"`
	}](background, st, "table", store.AllowUnmapped))
	check(`field struct.X: there is no column "x"`, a, err)
	a, err = get(store.For[key](background, st, "table"))
	check(`key does not fit`, a, nil)
	require.ErrorContains(t, err, `without a field: column "o", "p", "w", "at"; add fields, or give store.AllowUnmapped to For`)
	require.ErrorIs(t, err, store.ErrColumn)
	delete(refused, `key does not fit`)
	a, err = get(store.For[struct {
		A int64 `rangecrypt:"a,key=1"`
	}](background, st, "table", store.AllowUnmapped))
	check("key part \"t\" has no field: add one with `rangecrypt:\"t,key=2\"`", a, err)
	a, err = get(store.For[struct {
		key
		O float32 `rangecrypt:"o"`
	}](background, st, "table", store.AllowUnmapped))
	check(`field struct.O: column "o" has type float64, with values of Go type float64: the field has float32`, a, err)
	a, err = get(store.For[struct {
		key
		P string `rangecrypt:"p,ordered=wozniak"`
	}](background, st, "table", store.AllowUnmapped))
	check(`field struct.P: column "p" is plain, and the tag says ordered=wozniak: write plain, or encrypt the column with store.ChangeColumn`, a, err)
	a, err = get(store.For[struct {
		key
		P string `rangecrypt:"p,randomised"`
	}](background, st, "table", store.AllowUnmapped))
	check(`field struct.P: column "p" is plain, and the tag says randomised`, a, err)
	a, err = get(store.For[struct {
		A int64     `rangecrypt:"a,key=1,ordered=mope"`
		T store.Tie `rangecrypt:"t,key=2"`
	}](background, st, "table", store.AllowUnmapped))
	check(`field struct.A: key part "a" is hashed: write so, or nothing`, a, err)
	a, err = get(store.For[struct {
		key
		P string `rangecrypt:"p"`
	}](background, st, "table", store.AllowUnmapped))
	check(`field struct.P: column "p" is not encrypted: write plain`, a, err)
	a, err = get(store.For[struct {
		key
		W int8 `rangecrypt:"w,type=int8"`
	}](background, st, "table", store.AllowUnmapped))
	check(`field struct.W: column "w" has type int8 from 0 to 9: write so, or nothing`, a, err)
	a, err = get(store.For[struct {
		key
		At time.Time `rangecrypt:"at,unit=ms"`
	}](background, st, "table", store.AllowUnmapped))
	check(`field struct.At: column "at" has type timestamp/s: write so, or nothing`, a, err)
	a, err = get(store.For[struct {
		A int64 `rangecrypt:"a"`
		O int64 `rangecrypt:"o,key=1"`
	}](background, st, "table", store.AllowUnmapped))
	check(`field struct.A: column "a" is part 1 of the row key: write key=1`, a, err)
	a, err = get(store.For[struct {
		A int64   `rangecrypt:"a,key=1"`
		O float64 `rangecrypt:"o,key=2"`
	}](background, st, "table", store.AllowUnmapped))
	check(`field struct.O: column "o" is no part of the row key: drop key=2`, a, err)
	a, err = get(store.For[struct {
		A int64    `rangecrypt:"a,key=1"`
		T [16]byte `rangecrypt:"t,key=2,hashed"`
	}](background, st, "table", store.AllowUnmapped))
	check(`field struct.T: key part "t" is a tie-breaker: drop option hashed`, a, err)
	for want, err := range refused {
		require.ErrorIs(t, err, store.ErrColumn, want)
		require.ErrorContains(t, err, want)
	}
	_, err = store.For[key](background, st, "other")
	require.ErrorIs(t, err, store.ErrNoTable)
	_, err = store.For[int](background, st, "table")
	require.ErrorIs(t, err, store.ErrSchema)
}

// With AllowUnmapped, reads leave columns out, Put is refused, and Update leaves them alone.
func TestStructsOfSomeColumns(t *testing.T) {
	st := open(t, testdb.All[0].Open(t, nil))
	all := opened[noted](t, st, "table", func(s *store.Schema) {
		s.Conditional = true
	})
	require.NoError(t, st.Alter(background, "table", store.AddColumn(store.RandomisedColumn("more", store.Int64))))
	tbl, err := store.For[noted](background, st, "table", store.AllowUnmapped)
	require.NoError(t, err)
	err = tbl.Put(background, &noted{ID: 1})
	require.ErrorIs(t, err, store.ErrColumn)
	require.ErrorContains(t, err, `column "more"; a row that is written as a whole would have null there: use Update, if the table has Conditional, or add fields`)
	require.NoError(t, tbl.Table().Put(background, store.Row{"id": 1, "note": "a", "more": 7}))
	require.NoError(t, tbl.Update(background, &noted{ID: 1, Note: "b"}))
	row, err := tbl.Table().Get(background, store.Row{"id": 1})
	require.NoError(t, err)
	require.Equal(t, store.Row{"id": int64(1), "note": "b", "more": int64(7)}, row)
	require.NoError(t, tbl.Update(background, &noted{ID: 1, Note: "c"}, "note"))
	got, err := tbl.Get(background, &noted{ID: 1})
	require.NoError(t, err)
	require.Equal(t, &noted{ID: 1, Note: "c"}, got)
	for row, err := range tbl.Query(background, store.Query{}) {
		require.NoError(t, err)
		require.Equal(t, got, row)
	}
	require.ErrorIs(t, tbl.Update(background, &noted{ID: 1}, "more"), store.ErrColumn)
	require.ErrorIs(t, tbl.Update(background, &noted{ID: 1}, "nothing"), store.ErrColumn)
	require.ErrorIs(t, tbl.Update(background, &noted{ID: 2}), store.ErrNoRow)

	// The table that was open before takes no column without a field.
	_, err = all.Get(background, got)
	require.ErrorIs(t, err, store.ErrSchemaChanged)
	require.ErrorContains(t, err, `"more"`)
	require.False(t, store.Retryable(err))
}

// A null that the field cannot hold is an error, and not zero.
func TestStructsWithNull(t *testing.T) {
	tbl := opened[noted](t, open(t, testdb.All[0].Open(t, nil)), "table", nil)
	require.NoError(t, tbl.Table().Put(background, store.Row{"id": 1}))
	_, err := tbl.Get(background, &noted{ID: 1})
	require.ErrorIs(t, err, store.ErrNull)
	require.ErrorContains(t, err, "noted.Note")
	for _, err := range tbl.Query(background, store.Query{}) {
		require.ErrorIs(t, err, store.ErrNull)
	}
	_, _, err = tbl.Page(background, store.Query{Where: store.Field[int64]("id").Equal(1), Limit: 1})
	require.ErrorIs(t, err, store.ErrNull)
	n := 0
	for row, err := range tbl.Query(background, store.Query{Columns: []string{}}) {
		require.NoError(t, err)
		require.Equal(t, int64(1), row.ID)
		n++
	}
	require.Equal(t, 1, n)
}

// A schema that another client changes: what fits goes on, the rest is ErrSchemaChanged once it is known.
func TestStructsWhenTheSchemaChanges(t *testing.T) {
	for _, change := range []struct {
		name  string
		to    store.Change
		fits  bool
		wants string
	}{
		{"encrypted otherwise", store.ChangeColumn(store.OrderedColumn("note", store.String, store.MOPE)), true, ""},
		{"renamed", store.RenameColumn("note", "remark"), false, `field noted.Note: there is no column "note"`},
		{"dropped", store.DropColumn("note"), false, `field noted.Note: there is no column "note"`},
		{"added", store.AddColumn(store.RandomisedColumn("more", store.Int8)), false, `without a field: column "more"`},
		{"plain", store.ChangeColumn(store.PlainColumn("note", store.String)), false, `column "note" is not encrypted: write plain`},
		{"searched in the clear", store.ChangeColumn(store.OrderedColumn("note", store.String, store.Plaintext)), false, `column "note" is not encrypted: write plain`},
	} {
		t.Run(change.name, func(t *testing.T) {
			db := drivertest.NewMemory()
			own, other := open(t, db), open(t, db)
			tbl := opened[noted](t, own, "table", nil)
			require.NoError(t, tbl.Put(background, &noted{1, "a"}))
			require.NoError(t, other.Alter(background, "table", change.to))
			// It does not know yet, and is told by its write, which cannot be undone. But nothing becomes plain by it.
			err := tbl.Put(background, &noted{2, "b"})
			switch {
			case change.fits:
				require.NoError(t, err)
			case change.name == "plain", change.name == "searched in the clear":
				require.ErrorContains(t, err, change.wants)
				require.ErrorContains(t, err, "the rows may be stored as the schema was")
				require.NotErrorIs(t, err, store.ErrWritten)
			default:
				requireWritten(t, err, change.wants)
			}
			row, err := tbl.Table().Get(background, store.Row{"id": 2})
			require.NoError(t, err)
			require.NotNil(t, row)
			calls := map[string]func() error{
				"put": func() error { return tbl.Put(background, &noted{3, "c"}) },
				"get": func() error { _, err := tbl.Get(background, &noted{ID: 2}); return err },
				"page": func() error {
					_, _, err := tbl.Page(background, store.Query{Where: store.Field[int64]("id").Equal(2), Limit: 1})
					return err
				},
				"delete": func() error { return tbl.Delete(background, &noted{ID: 1}) },
				"query": func() (err error) {
					for _, err = range tbl.Query(background, store.Query{}) {
						if err != nil {
							return err
						}
					}
					return nil
				},
			}
			for name, call := range calls {
				err := call()
				if change.fits {
					require.NoError(t, err, name)
					continue
				}
				require.ErrorIs(t, err, store.ErrSchemaChanged, name)
				require.ErrorContains(t, err, change.wants, name)
				require.NotContains(t, err.Error(), "row 0", name)
				require.NotErrorIs(t, err, store.ErrWritten, name)
				require.False(t, store.Retryable(err))
			}
		})
	}
}

// requireWritten expects the error of a write that learned after it that its struct does not fit any more.
func requireWritten(t *testing.T, err error, wants string) {
	t.Helper()
	require.ErrorIs(t, err, store.ErrSchemaChanged)
	require.ErrorIs(t, err, store.ErrColumn)
	require.False(t, store.Retryable(err))
	require.ErrorContains(t, err, wants)
	require.ErrorContains(t, err, `store: table "table": store: the schema was changed: `)
	require.ErrorContains(t, err, "the rows were written, by the new schema")
	require.ErrorIs(t, err, store.ErrWritten)
	require.NotContains(t, err.Error(), store.ErrColumn.Error())
	require.NotContains(t, err.Error(), "\n")
}

// Every write of structs says that they do not fit any more, if it learns so after it; with AllowUnmapped too, if the rows
// are written as a whole.
func TestStructWritesLearnOfAChange(t *testing.T) {
	more := store.AddColumn(store.RandomisedColumn("more", store.Int8))
	for name, write := range map[string]func(*store.TableOf[noted]) error{
		"put":    func(tbl *store.TableOf[noted]) error { return tbl.Put(background, &noted{1, "b"}) },
		"insert": func(tbl *store.TableOf[noted]) error { return tbl.Insert(background, &noted{2, "b"}) },
		"update": func(tbl *store.TableOf[noted]) error { return tbl.Update(background, &noted{1, "b"}) },
		"upsert": func(tbl *store.TableOf[noted]) error { return tbl.Upsert(background, &noted{2, "b"}) },
		"update if": func(tbl *store.TableOf[noted]) error {
			return tbl.UpdateIf(background, &noted{1, "b"}, &noted{1, "a"})
		},
		"delete": func(tbl *store.TableOf[noted]) error { return tbl.Delete(background, &noted{ID: 1}) },
	} {
		for _, options := range [][]store.ForOption{nil, {store.AllowUnmapped}} {
			t.Run(fmt.Sprint(name, options), func(t *testing.T) {
				db := drivertest.NewMemory()
				own, other := open(t, db), open(t, db)
				opened[noted](t, own, "table", func(s *store.Schema) { s.Conditional = true })
				tbl, err := store.For[noted](background, own, "table", options...)
				require.NoError(t, err)
				require.NoError(t, tbl.Put(background, &noted{1, "a"}))
				require.NoError(t, other.Alter(background, "table", more))
				err = write(tbl)
				whole := name == "put" || name == "insert"
				if name == "delete" || options != nil && !whole {
					require.NoError(t, err)
					return
				}
				requireWritten(t, err, `without a field: column "more"`)
				found := collect(t, tbl.Table(), store.Query{Where: store.Field[string]("note").Equal("b")})
				require.Len(t, found, 1)
			})
		}
	}
}

// A handle whose Puts have a time to live of their own.
func TestStructsThatExpire(t *testing.T) {
	st := open(t, drivertest.NewMemory())
	tbl := opened[noted](t, st, "table", func(s *store.Schema) { s.TTL = store.TTLByRow })
	short := tbl.Expiring(time.Second)
	require.NoError(t, tbl.Put(background, &noted{1, "a"}))
	require.NoError(t, short.Put(background, &noted{2, "b"}))
	_, err := short.Get(background, &noted{ID: 1})
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		_, err := tbl.Get(background, &noted{ID: 2})
		return errors.Is(err, store.ErrNoRow)
	}, 10*time.Second, 50*time.Millisecond)
	_, err = tbl.Get(background, &noted{ID: 1})
	require.NoError(t, err)
	require.ErrorIs(t, tbl.Expiring(-time.Second).Put(background, &noted{3, "c"}), store.ErrSchema)
}

// Errors say of which package they are once, and have one line, however many mistakes they list.
func TestStructErrorsSayThingsOnce(t *testing.T) {
	st := open(t, drivertest.NewMemory())
	opened[noted](t, st, "table", nil)
	_, noSchema := store.SchemaOf[struct {
		A int64 `rangecrypt:"a,key=1,secret"`
		B int64
	}]("table")
	_, vague := store.SchemaOf[struct {
		A int64      `rangecrypt:"a,key=1"`
		B netip.Addr `rangecrypt:"b"`
	}]("table")
	_, unchecked := store.SchemaOf[noted](" ")
	_, unfit := store.For[struct {
		ID   int32 `rangecrypt:"id,key=1"`
		Note int64 `rangecrypt:"note"`
		More int64 `rangecrypt:"more"`
	}](background, st, "table")
	_, lacking := store.For[struct {
		ID int64 `rangecrypt:"id,key=1"`
	}](background, st, "table")
	for _, err := range []error{noSchema, vague, unchecked, unfit, lacking} {
		require.Error(t, err)
		require.NotContains(t, err.Error(), "\n")
		require.NotContains(t, err.Error(), "store: store:")
		require.LessOrEqual(t, strings.Count(err.Error(), `table "table"`), 1, err.Error())
	}
	require.ErrorContains(t, noSchema, "; field struct.B has no tag")
	require.ErrorContains(t, unfit, "; field struct.Note: ")
	require.ErrorContains(t, unfit, "; field struct.More: ")
	require.ErrorContains(t, st.CreateTenant(background, " "), "store: ")
	require.NotContains(t, st.CreateTenant(background, " ").Error(), "store: store:")
}

// A client that sleeps over a change of the schema that a row tells it of.
func TestStructsReadRowsOfALaterSchema(t *testing.T) {
	db := drivertest.NewMemory()
	own, other := open(t, db), open(t, db)
	tbl := opened[noted](t, own, "table", nil)
	require.NoError(t, other.Alter(background, "table", store.RenameColumn("note", "remark")))
	now, err := other.Table(background, "table")
	require.NoError(t, err)
	require.NoError(t, now.Put(background, store.Row{"id": 1, "remark": "a"}))
	got, err := tbl.Get(background, &noted{ID: 1})
	require.NoError(t, err, "the column is the same, whatever it is named")
	require.Equal(t, &noted{1, "a"}, got)
	_, err = tbl.Get(background, &noted{ID: 1})
	require.ErrorIs(t, err, store.ErrSchemaChanged)
}

func TestStructsOfTenants(t *testing.T) {
	st := open(t, testdb.All[0].Open(t, nil))
	tbl := opened[reading](t, st, "readings", func(s *store.Schema) { s.Tenants = true })
	for _, name := range []string{"one", "two"} {
		require.NoError(t, st.CreateTenant(background, name))
	}
	require.ErrorIs(t, tbl.Put(background, &reading{}), store.ErrTenant)
	// A policy that seals a plain column is no contradiction.
	require.NoError(t, st.SetPolicy(background, "one", "readings", store.Policy{Whole: true}))
	one, err := tbl.Tenant(background, "one")
	require.NoError(t, err)
	two, err := tbl.Tenant(background, "two")
	require.NoError(t, err)
	row := &reading{Device: "pump", At: time.Unix(0, 0).UTC()}
	require.NoError(t, one.Put(background, row))
	got, err := one.Get(background, row)
	require.NoError(t, err)
	require.Equal(t, row, got)
	_, err = two.Get(background, row)
	require.ErrorIs(t, err, store.ErrNoRow)
	_, err = tbl.Tenant(background, "three")
	require.ErrorIs(t, err, store.ErrNoTenant)
}

// What a field may be, a predicate may name, and a Field may read from a row.
func TestFieldsOfTheTypesOfStructs(t *testing.T) {
	tbl := opened[everything](t, open(t, drivertest.NewMemory()), "everything", nil)
	row := &everything{
		ID: 1, Int: 7, Float64: 20, String: "häuser", Time: time.Unix(9, 0), Inf: *inf.NewDec(125, 2), Stamp: stamp(time.Unix(9, 0).UTC()), CQL: gocql.UUID{3}, Uint: 4, Duration: time.Minute,
		Date: encode.CivilDate{Year: 1, Month: 1, Day: 1}, IPv4: netip.MustParseAddr("0.0.0.0"), IPv6: netip.MustParseAddr("::"),
	}
	require.NoError(t, tbl.Put(background, row))
	for name, where := range map[string]store.Predicate{
		"named float": store.Field[celsius]("float64").Between(19, 21), "named string": store.Field[label]("string").Equal("häuser"),
		"int": store.Field[int]("int").AtLeast(7), "uint": store.Field[uint]("uint").Equal(4), "decimal": store.Field[inf.Dec]("inf").Greater(*inf.NewDec(124, 2)),
		"time": store.Field[stamp]("stamp").Equal(row.Stamp), "uuid": store.Field[gocql.UUID]("cql").Equal(gocql.UUID{3}),
		"duration": store.Field[time.Duration]("duration").AtMost(time.Minute),
	} {
		require.Len(t, collect(t, tbl.Table(), store.Query{Where: where}), 1, name)
	}
	values := collect(t, tbl.Table(), store.Query{})[0]
	degrees, err := store.Field[celsius]("float64").Of(values)
	require.NoError(t, err)
	require.Equal(t, celsius(20), degrees)
	took, err := store.Field[time.Duration]("duration").Of(values)
	require.NoError(t, err)
	require.Equal(t, time.Minute, took)
	price, err := store.Field[inf.Dec]("inf").Of(values)
	require.NoError(t, err)
	require.Equal(t, "1.25", price.String())
	number, err := store.Field[int]("int").Of(values)
	require.NoError(t, err)
	require.Equal(t, 7, number)
	for _, err := range []error{
		errOf(store.Field[float32]("float64").Of(values)), errOf(store.Field[string]("int").Of(values)), errOf(store.Field[int64]("string").Of(values)),
	} {
		require.ErrorIs(t, err, store.ErrColumn)
	}
	for _, err := range tbl.Table().Query(background, store.Query{Where: store.Field[float32]("float64").Equal(1)}) {
		require.ErrorIs(t, err, store.ErrColumn)
	}
	require.NoError(t, tbl.Table().Put(background, store.Row{
		"id": 2, "float64": celsius(3), "inf": *inf.NewDec(5, 1), "duration": time.Second, "string": label("x"), "cql": gocql.UUID{1},
	}))
	require.ErrorIs(t, tbl.Table().Put(background, store.Row{"id": 2, "inf": *inf.NewDec(5, 5)}), ope.ErrDomain)
}

func errOf[T any](_ T, err error) error { return err }

// No value is in an error.
func TestStructErrorsKeepSecrets(t *testing.T) {
	tbl := opened[everything](t, open(t, testdb.All[0].Open(t, nil)), "everything", nil)
	for _, row := range []*everything{
		{String: "secret\xff"}, {Int8: 121}, {Inf: *inf.NewDec(31337, 5)}, {Big: *new(big.Int).Lsh(big.NewInt(31337), 99)}, {Decimal: encode.Decimal{Unscaled: big.NewInt(31337), Scale: 9}},
	} {
		row.Date, row.IPv4, row.IPv6 = encode.CivilDate{Year: 1, Month: 1, Day: 1}, netip.MustParseAddr("0.0.0.0"), netip.MustParseAddr("::")
		err := tbl.Put(background, row)
		require.ErrorIs(t, err, ope.ErrDomain)
		for _, secret := range []string{"secret", "121", "31337"} {
			require.False(t, strings.Contains(err.Error(), secret), err.Error())
		}
	}
	_, err := tbl.Get(context.Background(), nil)
	require.Error(t, err)
}

// Updates under a condition and increments of structs do what those of rows do.
func TestStructsChangeByWhatTheyHad(t *testing.T) {
	type counter struct {
		ID    int64         `rangecrypt:"id,key=1,hashed"`
		Count *int32        `rangecrypt:"count"`
		Seen  sql.NullInt64 `rangecrypt:"seen,ordered=mope"`
		Note  string        `rangecrypt:"note"`
	}
	st := open(t, drivertest.NewMemory())
	tbl := opened[counter](t, st, "counters", func(s *store.Schema) { s.Conditional = true })
	was := &counter{ID: 1, Count: pointerTo[int32](5), Note: "a"}
	require.NoError(t, tbl.Insert(background, was))

	// Named columns are compared and changed, and the key parts of what was there are not looked at.
	row := &counter{ID: 1, Count: pointerTo[int32](6), Note: "b"}
	require.ErrorIs(t, tbl.UpdateIf(background, row, &counter{Count: pointerTo[int32](4)}, "count"), store.ErrConflict)
	require.NoError(t, tbl.UpdateIf(background, row, &counter{Count: pointerTo[int32](5), Note: "other"}, "count"))
	got, err := tbl.Get(background, row)
	require.NoError(t, err)
	require.Equal(t, &counter{ID: 1, Count: pointerTo[int32](6), Note: "a"}, got)

	// All are, where none is named; null is a value.
	require.ErrorIs(t, tbl.UpdateIf(background, row, was), store.ErrConflict)
	require.NoError(t, tbl.UpdateIf(background, row, got))
	got, err = tbl.Get(background, row)
	require.NoError(t, err)
	require.Equal(t, row, got)
	require.ErrorIs(t, tbl.UpdateIf(background, row, &counter{Seen: sql.NullInt64{Valid: true}}, "seen"), store.ErrConflict)

	require.ErrorIs(t, tbl.UpdateIf(background, row, nil), store.ErrColumn)
	require.ErrorIs(t, tbl.UpdateIf(background, nil, row), store.ErrColumn)
	require.ErrorIs(t, tbl.UpdateIf(background, row, row, "nothing"), store.ErrColumn)

	// A part of the row key says which row it is, and is neither changed nor compared.
	for _, do := range []func(columns ...string) error{
		func(columns ...string) error { return tbl.Update(background, row, columns...) },
		func(columns ...string) error { return tbl.Upsert(background, row, columns...) },
		func(columns ...string) error { return tbl.UpdateIf(background, row, row, columns...) },
	} {
		require.ErrorIs(t, do("id"), store.ErrColumn)
		require.ErrorContains(t, do("note", "id"), `"id" is a part of the row key`)
	}
	require.ErrorIs(t, tbl.UpdateIf(background, &counter{ID: 2}, &counter{}, "note"), store.ErrNoRow)

	// The field of the column has the sum, whatever it had, and no other is changed.
	key := &counter{ID: 1, Note: "mine"}
	require.NoError(t, tbl.Increment(background, key, "count", 4))
	require.Equal(t, &counter{ID: 1, Count: pointerTo[int32](10), Note: "mine"}, key)
	require.ErrorIs(t, tbl.Increment(background, key, "seen", 1), store.ErrNull)
	require.False(t, key.Seen.Valid)
	require.NoError(t, tbl.Update(background, &counter{ID: 1, Seen: sql.NullInt64{Int64: 1, Valid: true}}, "seen"))
	require.NoError(t, tbl.Increment(background, key, "seen", -3))
	require.Equal(t, sql.NullInt64{Int64: -2, Valid: true}, key.Seen)
	require.ErrorIs(t, tbl.Increment(background, key, "count", math.MaxInt32), ope.ErrDomain)
	require.ErrorIs(t, tbl.Increment(background, key, "note", 1), store.ErrColumn)
	require.ErrorContains(t, tbl.Increment(background, key, "id", 1), "part of the row key")
	require.ErrorIs(t, tbl.Increment(background, key, "nothing", 1), store.ErrColumn)
	require.ErrorIs(t, tbl.Increment(background, nil, "count", 1), store.ErrColumn)
	require.ErrorIs(t, tbl.Increment(background, &counter{ID: 2}, "count", 1), store.ErrNoRow)

	// A column without a field is neither changed nor compared.
	type part struct {
		ID   int64  `rangecrypt:"id,key=1,hashed"`
		Note string `rangecrypt:"note"`
	}
	parts, err := store.For[part](background, st, "counters", store.AllowUnmapped)
	require.NoError(t, err)
	require.NoError(t, parts.UpdateIf(background, &part{1, "c"}, &part{1, "b"}))
	require.ErrorContains(t, parts.Increment(background, &part{ID: 1}, "count", 1), `column "count" has no field`)
	require.ErrorContains(t, parts.UpdateIf(background, &part{ID: 1}, &part{ID: 1}, "count"), `column "count" has no field`)
	sum, err := parts.Table().Increment(background, store.Row{"id": 1}, "count", 0)
	require.NoError(t, err)
	require.Equal(t, int32(10), sum)
}

// A program may use the names of columns for something else as soon as it has the sequence, which reads when it is ranged over.
func TestQueriesHaveNamesOfTheirOwn(t *testing.T) {
	type pair struct {
		ID int64 `rangecrypt:"id,key=1,hashed"`
		A  int64 `rangecrypt:"a,deterministic"`
		B  int64 `rangecrypt:"b"`
	}
	st := open(t, drivertest.NewMemory())
	of := opened[pair](t, st, "t", nil)
	require.NoError(t, of.Put(background, &pair{1, 2, 3}))
	names := []string{"a"}
	options := &store.JoinOptions{Left: names, Right: []string{}}
	structs, maps := of.Query(background, store.Query{Columns: names}), of.Table().Query(background, store.Query{Columns: names})
	pairs := store.Join(background, of.Table(), "a", of.Table(), "a", options)
	names[0], options.Right = "b", nil
	for row, err := range structs {
		require.NoError(t, err)
		require.Equal(t, &pair{ID: 1, A: 2}, row)
	}
	for row, err := range maps {
		require.NoError(t, err)
		require.Equal(t, store.Row{"id": int64(1), "a": int64(2)}, row)
	}
	for rows, err := range pairs {
		require.NoError(t, err)
		require.Equal(t, [2]store.Row{{"id": int64(1), "a": int64(2)}, {"id": int64(1)}}, rows)
	}
}

// Who unseals a column for a tenant says so by name. The structs of the application serve the other tenants, too, and go on.
func TestStructsOfTenantsWithUnsealedColumns(t *testing.T) {
	type person struct {
		ID   int64  `rangecrypt:"id,key=1,plain"`
		Note string `rangecrypt:"note,randomised"`
	}
	st := open(t, drivertest.NewMemory())
	tbl := opened[person](t, st, "people", func(s *store.Schema) { s.Tenants = true })
	require.NoError(t, st.CreateTenant(background, "one"))
	one, err := tbl.Tenant(background, "one")
	require.NoError(t, err)
	require.Error(t, st.SetPolicy(background, "one", "people", store.Policy{}), "it has to be named")
	require.NoError(t, st.SetPolicy(background, "one", "people", store.Policy{}, "note"))
	require.NoError(t, one.Put(background, &person{1, "a"}))
	for row, err := range one.Query(background, store.Query{Unauthenticated: true}) {
		require.NoError(t, err)
		require.Equal(t, &person{1, "a"}, row, "it is in the clear")
	}
	again, err := tbl.Tenant(background, "one")
	require.NoError(t, err)
	require.NoError(t, again.Put(background, &person{2, "b"}))
}
