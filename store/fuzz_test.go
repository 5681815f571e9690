package store

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"math/big"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/seal"
	"github.com/rangecrypt/rangecrypt/ope/encode"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
)

func fuzzTable(tb testing.TB) *Table {
	tb.Helper()
	st, err := Open(context.Background(), drivertest.NewMemory(), testMaster, nil)
	require.NoError(tb, err)
	tbl, err := st.Create(context.Background(), tamperSchema("fuzzed", CellPerColumn))
	require.NoError(tb, err)
	return tbl
}

// Bytes of whatever type either do not parse, or parse to a value that has these bytes.
func FuzzParseValue(f *testing.F) {
	types := []Type{
		Int8, Int16, Int32, Int64, Uint8, Uint16, Uint32, Uint64, Float32, Float64, Bool, Date, IPv4, IPv6, String, Bytes, UUID,
		Time(1), Time(1e9), Decimal(2), Int64.Within(-5, 5), Uint64.Within(1<<62, 1<<63+5),
	}
	for i, t := range types {
		f.Add(uint8(i), make([]byte, t.width()))
		f.Add(uint8(i), bytes.Repeat([]byte{0xff}, t.width()))
		f.Add(uint8(i), append([]byte{0x80}, make([]byte, max(0, t.width()-1))...))
	}
	f.Add(uint8(9), []byte{0xff, 0xf8, 0, 0, 0, 0, 0, 0}) // NaN
	f.Fuzz(func(t *testing.T, i uint8, b []byte) {
		typ := types[int(i)%len(types)]
		v, err := typ.parse(b)
		if err != nil {
			return
		}
		normal, err := typ.normalize(v)
		if err != nil {
			// Outside a restriction, or not UTF-8: written by nobody.
			return
		}
		if again := typ.append(nil, normal); !bytes.Equal(again, b) {
			t.Fatalf("%s: %x parses to %v, which has %x", typ.id(), b, v, again)
		}
		if typ.compare(v, normal) != 0 {
			t.Fatalf("%s: reading changes %v to %v", typ.id(), v, normal)
		}
	})
}

// A type whose id parses has that id.
func FuzzParseType(f *testing.F) {
	for _, id := range []string{"int/1 bits=8", "string/1", Int8.Within(-1, 1).id(), Decimal(2).id(), Decimal(-3).Within(decimalOf(-5), decimalOf(5)).id(), "decimal/1 scale=+2", "decimal/1 scale=02", "string/1 within=[0,1]", Date.id(), Bool.id() + " within=[1,0]", Int8.id() + " within=[0,1] "} {
		f.Add(id)
	}
	f.Fuzz(func(t *testing.T, id string) {
		typ, err := parseType(id)
		if err != nil {
			if !errors.Is(err, ErrFormat) && typ != nil {
				t.Fatalf("%q: %v", id, err)
			}
			return
		}
		if typ.id() != id || typ.valid() != nil {
			t.Fatalf("%q is %q, %v", id, typ.id(), typ.valid())
		}
	})
}

// What a key cell says of columns is found, whatever columns are asked for in ascending order, and
// no bytes are too strange.
func FuzzEntries(f *testing.F) {
	f.Add([]byte("aaaa\x00bbbb\x03xycccc\x01"), []byte("aaabbbbbccccdddd"))
	f.Add([]byte("aaaa\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), []byte("aaaa"))
	f.Add([]byte("aaaa\x80"), []byte("aaaa"))
	f.Add([]byte("aaa"), []byte("zzzz"))
	f.Fuzz(func(t *testing.T, b, ids []byte) {
		es := entries{rest: b}
		for asked := range slices.Chunk(ids, 4) {
			if len(asked) == 4 {
				es.find(columnID(asked)) // must not panic
			}
		}
		// The same bytes as values of a well-formed key cell.
		said := map[columnID][]byte{}
		var content []byte
		for i, value := range slices.Collect(slices.Chunk(b, 5)) {
			id := columnID{byte(i >> 8), byte(i), value[0]}
			content = append(content, id[:]...)
			if len(value) == 5 {
				content, said[id] = append(content, sealedCell), nil
			} else {
				content, said[id] = append(append(content, byte(len(value)+packedCell)), value...), value
			}
		}
		es = entries{rest: content}
		for i := range len(said) + 1 {
			for last := range 256 {
				id := columnID{byte(i >> 8), byte(i), byte(last)}
				value, present := said[id]
				e, err := es.find(id)
				if err != nil || e.present != present || e.packed != (value != nil) || !bytes.Equal(e.value, value) {
					t.Fatalf("entry of %x in %x: %+v, %v", id, content, e, err)
				}
			}
		}
	})
}

// What is cut off is a prefix with its length before it, and nothing is lost.
func FuzzCutSized(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{0})
	f.Add([]byte{3, 'a', 'b'})
	f.Add(appendSized(appendSized(nil, []byte("one")), []byte("two")))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})
	f.Add([]byte{0x80, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		sized, rest, err := cutSized(b)
		if err != nil {
			return
		}
		if !bytes.HasSuffix(b, append(bytes.Clone(sized), rest...)) {
			t.Fatalf("%x was cut to %x and %x", b, sized, rest)
		}
		again, none, err := cutSized(appendSized(nil, sized))
		if err != nil || !bytes.Equal(again, sized) || len(none) > 0 {
			t.Fatalf("%x: %x, %x, %v", sized, again, none, err)
		}
	})
}

// The parts of a posting make the posting again.
func FuzzCutPosting(f *testing.F) {
	tbl := fuzzTable(f)
	for _, c := range tbl.now().columns {
		if c.searched() {
			f.Add(make([]byte, len(c.id)+c.size+17))
			f.Add(make([]byte, len(c.id)+c.size+16))
		}
	}
	f.Fuzz(func(t *testing.T, key []byte) {
		for _, c := range tbl.now().columns {
			if !c.searched() {
				continue
			}
			search, row, write, err := c.cutPosting(key)
			if (err != nil) != (len(key) <= len(c.id)+c.size+len(write)) {
				t.Fatalf("%d bytes: %v", len(key), err)
			}
			if err == nil && !bytes.Equal(bytes.Join([][]byte{key[:len(c.id)], search, row, write[:]}, nil), key) {
				t.Fatalf("%x was cut to %x, %x, %x", key, search, row, write)
			}
		}
	})
}

// Only rows that were written decode; here cells are what was sealed, with any contents.
func FuzzDecodeRow(f *testing.F) {
	tbl := fuzzTable(f)
	row := Row{"id": int64(1), "at": int64(2), "ordered": int64(3), "also": int64(4), "token": "t", "secret": "s", "other": "o", "plain": "p"}
	r, err := tbl.now().check(row)
	require.NoError(f, err)
	require.NoError(f, tbl.now().encode(context.Background(), r))
	where := tbl.now().places(r.key)
	contents := func(r *record) (key, ordered, plain []byte) {
		for _, put := range tbl.now().mutation(r).Puts {
			switch {
			case len(put.Qualifier) == 0:
				key, _, err = tbl.now().keySealer.Open(nil, put.Value, where.at(keyQualifier))
			case bytes.Equal(put.Qualifier, tbl.now().byName["ordered"].id[:]):
				ordered, _, err = tbl.now().byName["ordered"].sealer.Open(nil, put.Value, where.at(put.Qualifier))
			case bytes.Equal(put.Qualifier, tbl.now().byName["plain"].id[:]):
				plain = put.Value
			}
			require.NoError(f, err)
		}
		return key, ordered, plain
	}
	key, ordered, plain := contents(r)
	f.Add(key, ordered, plain)
	f.Add([]byte{}, []byte{}, []byte{})
	f.Add(key[:len(key)-3], ordered[:len(ordered)-1], plain[:5])
	f.Add(key, ordered, []byte{1})
	f.Fuzz(func(t *testing.T, key, ordered, plain []byte) {
		m := tbl.now().mutation(r)
		header := seal.Header{Write: r.write}
		where := tbl.now().places(r.key)
		for i, put := range m.Puts {
			switch {
			case len(put.Qualifier) == 0:
				m.Puts[i].Value = tbl.now().keySealer.Seal(nil, header, key, where.at(keyQualifier))
			case bytes.Equal(put.Qualifier, tbl.now().byName["ordered"].id[:]):
				m.Puts[i].Value = tbl.now().byName["ordered"].sealer.Seal(nil, header, ordered, where.at(put.Qualifier))
			case bytes.Equal(put.Qualifier, tbl.now().byName["plain"].id[:]):
				m.Puts[i].Value = plain
			}
		}
		got, err := tbl.now().decode(driver.Row{Key: r.key, Cells: m.Puts}, nil, new(scratch))
		if err != nil {
			if !errors.Is(err, ErrFormat) && !errors.Is(err, errTornRow) {
				t.Fatalf("%v", err)
			}
			return
		}
		if got == nil {
			return // an empty key cell: the row was deleted
		}
		values := tbl.now().row(got, nil)
		if len(values) != len(row) || values["secret"] != "s" {
			t.Fatalf("%v", values)
		}
		if c := tbl.now().byName["ordered"]; !bytes.Equal(append(bytes.Clone(got.search[c.position]), c.typ.append(nil, values["ordered"])...), ordered) {
			t.Fatalf("%x was read as %v", ordered, values["ordered"])
		}
	})
}

// A token that was not made here is refused; one that was, with any position in it, does no harm.
func FuzzPageToken(f *testing.F) {
	tbl := fuzzTable(f)
	ctx := context.Background()
	for i := range int64(5) {
		require.NoError(f, tbl.Put(ctx, Row{"id": int64(1), "at": i, "ordered": i}))
	}
	q := Query{Where: Field[int64]("ordered").Between(0, 3), Limit: 2}
	pl, err := tbl.now().plan(ctx, q.Where)
	require.NoError(f, err)
	print := pl.fingerprint(false)
	f.Add("", 0, []byte{})
	f.Add("AAAA", 1, pl.ranges[0].start)
	f.Add("%", 0, append(bytes.Clone(pl.ranges[0].start), make([]byte, 60)...))
	f.Fuzz(func(t *testing.T, token string, index int, key []byte) {
		if _, err := tbl.now().parseToken(token, pl, false); err == nil {
			t.Fatalf("a token was accepted: %q", token)
		}
		b, err := json.Marshal(position{Range: index, Key: key})
		require.NoError(t, err)
		q.PageToken = tokenOf(tbl, b, print)
		rows, _, err := tbl.Page(ctx, q)
		if err != nil && !errors.Is(err, ErrToken) {
			t.Fatalf("%v", err)
		}
		for _, row := range rows {
			if n := row["ordered"].(int64); n < 0 || n > 3 {
				t.Fatalf("a row outside the query: %d", n)
			}
		}
	})
}

// An entry of the catalogue is a table that can be described, or an error.
func FuzzCatalogue(f *testing.F) {
	st, err := Open(context.Background(), drivertest.NewMemory(), testMaster, nil)
	require.NoError(f, err)
	tbl, err := st.Create(context.Background(), tamperSchema("t", CellPerColumn))
	require.NoError(f, err)
	b, err := json.Marshal(metaEntry{Table: tbl.now().meta})
	require.NoError(f, err)
	f.Add(b)
	f.Add([]byte(`{"table":{"name":"t"}}`))
	f.Add([]byte(`{"table":{"name":"t","key":[{"id":"00","type":"int/1"}]}}`))
	f.Add([]byte(`{"table":{"name":"t","columns":[{"confidentiality":"multicolumn"}],"row_keys":["AAAA"]}}`))
	f.Add([]byte{})
	c := st.catalogue
	q := c.qualifier("t")
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, value := range [][]byte{b, c.sealer.Seal(nil, newHeader(), b, place("catalogue", q))} {
			entry, err := c.openEntry(driver.Cell{Qualifier: q, Value: value})
			meta := entry.Table
			if err != nil || meta == nil {
				continue
			}
			if meta.Name != "t" {
				t.Fatalf("the entry of another table: %q", meta.Name)
			}
			schema, err := meta.schema()
			if err == nil && (schema.Name != "t" || len(schema.Key) != len(meta.Key)) {
				t.Fatalf("%+v", schema)
			}
			_, err = newTable(context.Background(), st, meta, meta.Version)
			if err != nil && !errors.Is(err, ErrFormat) && !errors.Is(err, ErrTampered) && !errors.Is(err, ErrWrongKey) && !errors.Is(err, driver.ErrNoFamily) {
				t.Fatalf("%v", err)
			}
		}
		if _, err := c.openRoot(b); err == nil {
			t.Fatal("a root was accepted")
		}
		sealed := c.sealer.Seal([]byte{catalogueFormat, 0, 1, 'w'}, newHeader(), b, rootPlace([]byte("w")))
		_, err := c.openRoot(sealed)
		if err != nil && !errors.Is(err, ErrFormat) && !errors.Is(err, ErrTampered) {
			t.Fatalf("%v", err)
		}
	})
}

func tokenOf(tbl *Table, b, print []byte) string {
	return base64.RawURLEncoding.EncodeToString(tbl.now().tokens.Seal(nil, newHeader(), b, place("page", print)))
}

func decimalOf(n int64) encode.Decimal { return encode.Decimal{Unscaled: big.NewInt(n)} }
