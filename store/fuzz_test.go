package store

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	mathrand "math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/seal"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
	"github.com/rangecrypt/rangecrypt/store/internal/query"
	"github.com/rangecrypt/rangecrypt/store/internal/rowcodec"
	"github.com/rangecrypt/rangecrypt/store/internal/value"
	"github.com/rangecrypt/rangecrypt/store/kms"
)

// A fuzzer runs a target in many processes, and a seed is of use only if it fits in each. So ids, keys and
// nonces are the same in all: crypto/rand gives a fixed sequence until the test ends. Fuzz targets
// never run beside other tests.
func sameRandomness(tb testing.TB) {
	usual := rand.Reader
	tb.Cleanup(func() { rand.Reader = usual })
	rand.Reader = &fixedRandom{from: mathrand.NewChaCha8([32]byte{'f', 'u', 'z', 'z'})}
}

type fixedRandom struct {
	mu   sync.Mutex
	from *mathrand.ChaCha8
}

func (s *fixedRandom) Read(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.from.Read(b)
}

func fuzzTable(tb testing.TB) *Table {
	tb.Helper()
	sameRandomness(tb)
	st, err := Open(context.Background(), drivertest.NewMemory(), kms.NewLocal(testMaster), nil)
	require.NoError(tb, err)
	tbl, err := st.Create(context.Background(), tamperSchema("fuzzed", cellPerColumn))
	require.NoError(tb, err)
	return tbl
}

// What a key cell says of columns is found, whatever columns are asked for in ascending order, and
// no bytes are too strange.
func FuzzEntries(f *testing.F) {
	f.Add([]byte("aaaa\x00bbbb\x03xycccc\x01"), []byte("aaabbbbbccccdddd"))
	f.Add([]byte("aaaa\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), []byte("aaaa"))
	f.Add([]byte("aaaa\x80"), []byte("aaaa"))
	f.Add([]byte("aaa"), []byte("zzzz"))
	f.Fuzz(func(t *testing.T, b, ids []byte) {
		es := rowcodec.Entries{Rest: b}
		for asked := range slices.Chunk(ids, 4) {
			if len(asked) == 4 {
				es.Of(columnID(asked)) // must not panic
			}
		}
		// The same bytes as values of a well-formed key cell.
		said := map[columnID][]byte{}
		var content []byte
		for i, value := range slices.Collect(slices.Chunk(b, 5)) {
			id := columnID{byte(i >> 8), byte(i), value[0]}
			content = append(content, id[:]...)
			if len(value) == 5 {
				content, said[id] = append(content, rowcodec.SealedCell), nil
			} else {
				content, said[id] = append(append(content, byte(len(value)+rowcodec.PackedCell)), value...), value
			}
		}
		es = rowcodec.Entries{Rest: content}
		for i := range len(said) + 1 {
			for last := range 256 {
				id := columnID{byte(i >> 8), byte(i), byte(last)}
				value, present := said[id]
				e, err := es.Of(id)
				if err != nil || e.Present != present || e.Packed != (value != nil) || !bytes.Equal(e.Value, value) {
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
	f.Add(value.AppendSized(value.AppendSized(nil, []byte("one")), []byte("two")))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})
	f.Add([]byte{0x80, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		sized, rest, err := value.CutSized(b)
		if err != nil {
			return
		}
		if !bytes.HasSuffix(b, append(bytes.Clone(sized), rest...)) {
			t.Fatalf("%x was cut to %x and %x", b, sized, rest)
		}
		again, none, err := value.CutSized(value.AppendSized(nil, sized))
		if err != nil || !bytes.Equal(again, sized) || len(none) > 0 {
			t.Fatalf("%x: %x, %x, %v", sized, again, none, err)
		}
	})
}

// The parts of a posting make the posting again.
func FuzzCutPosting(f *testing.F) {
	tbl := fuzzTable(f)
	for _, c := range tbl.now().Columns {
		if c.Searched() {
			f.Add(make([]byte, len(c.Id)+c.Size+17))
			f.Add(make([]byte, len(c.Id)+c.Size+16))
		}
	}
	f.Fuzz(func(t *testing.T, key []byte) {
		for _, c := range tbl.now().Columns {
			if !c.Searched() {
				continue
			}
			search, row, write, err := c.CutPosting(key)
			if (err != nil) != (len(key) <= len(c.Id)+c.Size+len(write)) {
				t.Fatalf("%d bytes: %v", len(key), err)
			}
			if err == nil && !bytes.Equal(bytes.Join([][]byte{key[:len(c.Id)], search, row, write[:]}, nil), key) {
				t.Fatalf("%x was cut to %x, %x, %x", key, search, row, write)
			}
		}
	})
}

// A fuzzedRow is a row of a fuzzTable, and what its cells hold before some of them are sealed.
type fuzzedRow struct {
	tbl                 *Table
	values              Row
	r                   *rowcodec.Record
	key, ordered, plain []byte
}

func newFuzzedRow(tb testing.TB) (x fuzzedRow) {
	tb.Helper()
	x.tbl = fuzzTable(tb)
	x.values = Row{"id": int64(1), "at": int64(2), "ordered": int64(3), "also": int64(4), "token": "t", "secret": "s", "other": "o", "plain": "p"}
	t := x.tbl.now()
	var err error
	x.r, err = t.Check(x.values)
	require.NoError(tb, err)
	require.NoError(tb, encoded(context.Background(), t.View, x.r))
	where := t.Places(x.r.Key)
	for _, put := range t.Mutation(x.r).Puts {
		switch {
		case len(put.Qualifier) == 0:
			x.key, _, err = t.KeySealer.Open(nil, put.Value, where.At(rowcodec.KeyQualifier))
		case bytes.Equal(put.Qualifier, t.ByName["ordered"].Id[:]):
			x.ordered, _, err = t.ByName["ordered"].Sealer.Open(nil, put.Value, where.At(put.Qualifier))
		case bytes.Equal(put.Qualifier, t.ByName["plain"].Id[:]):
			x.plain = put.Value
		}
		require.NoError(tb, err)
	}
	return x
}

// decode reads the row with other contents in its cells.
func (x *fuzzedRow) decode(key, ordered, plain []byte) (*rowcodec.Record, error) {
	t := x.tbl.now()
	m := t.Mutation(x.r)
	header := seal.Header{Policy: t.Version, Write: x.r.Write}
	where := t.Places(x.r.Key)
	for i, put := range m.Puts {
		switch {
		case len(put.Qualifier) == 0:
			m.Puts[i].Value = t.KeySealer.Seal(nil, header, key, where.At(rowcodec.KeyQualifier))
		case bytes.Equal(put.Qualifier, t.ByName["ordered"].Id[:]):
			m.Puts[i].Value = t.ByName["ordered"].Sealer.Seal(nil, header, ordered, where.At(put.Qualifier))
		case bytes.Equal(put.Qualifier, t.ByName["plain"].Id[:]):
			m.Puts[i].Value = plain
		}
	}
	return t.Decode(driver.Row{Key: x.r.Key, Cells: m.Puts}, nil, new(rowcodec.Scratch))
}

// hasCell reports whether a key cell says that a column has a cell of its own.
func (x *fuzzedRow) hasCell(key []byte, name string) bool {
	rest := key
	for range x.tbl.now().Parts {
		_, rest, _ = value.CutSized(rest)
	}
	e, err := (&rowcodec.Entries{Rest: rest}).Of(x.tbl.now().ByName[name].Id)
	return err == nil && e.Present && !e.Packed
}

// What one process takes for the contents of a row is that in every other, too: a fuzzer makes its inputs of
// seeds that came from another process.
func TestFuzzedRowsFit(t *testing.T) {
	var first fuzzedRow
	t.Run("one process", func(t *testing.T) { first = newFuzzedRow(t) })
	t.Run("another", func(t *testing.T) {
		x := newFuzzedRow(t)
		got, err := x.decode(first.key, first.ordered, first.plain)
		require.NoError(t, err)
		require.Equal(t, x.values, x.tbl.now().Row(got, nil))
	})
}

// Only rows that were written decode; here cells are what was sealed, with any contents.
func FuzzDecodeRow(f *testing.F) {
	x := newFuzzedRow(f)
	key, ordered, plain := x.key, x.ordered, x.plain
	f.Add(key, ordered, plain)
	f.Add([]byte{}, []byte{}, []byte{})
	f.Add(key[:len(key)-3], ordered[:len(ordered)-1], plain[:5])
	f.Add(key, ordered, []byte{1})
	f.Fuzz(func(t *testing.T, key, ordered, plain []byte) {
		got, err := x.decode(key, ordered, plain)
		if err != nil {
			if !errors.Is(err, ErrFormat) && !errors.Is(err, ErrTampered) && !errors.Is(err, rowcodec.ErrTornRow) {
				t.Fatalf("%v", err)
			}
			return
		}
		if got == nil {
			return // an empty key cell: the row was deleted
		}
		values := x.tbl.now().Row(got, nil)
		if len(values) != len(x.values) {
			t.Fatalf("%v", values)
		}
		// What the key cell has itself counts in the place of a cell.
		if x.hasCell(key, "secret") && values["secret"] != "s" {
			t.Fatalf("%v", values)
		}
		if c := x.tbl.now().ByName["ordered"]; x.hasCell(key, "ordered") &&
			!bytes.Equal(append(bytes.Clone(got.Search[c.Position]), c.Type.Append(nil, values["ordered"])...), ordered) {
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
	pl, err := query.NewPlan(ctx, tbl.now().View, query.Selection{Where: q.Where.where})
	require.NoError(f, err)
	print := pl.Fingerprint()
	f.Add("", 0, []byte{})
	f.Add("AAAA", 1, pl.Ways[0].Ranges[0].Start)
	f.Add("%", 0, append(bytes.Clone(pl.Ways[0].Ranges[0].Start), make([]byte, 60)...))
	f.Fuzz(func(t *testing.T, token string, index int, key []byte) {
		if _, err := query.ParseToken(tbl.now().View, token, pl); err == nil {
			t.Fatalf("a token was accepted: %q", token)
		}
		b, err := json.Marshal(query.Position{Range: index, Key: key})
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
	sameRandomness(f)
	st, err := Open(context.Background(), drivertest.NewMemory(), kms.NewLocal(testMaster), nil)
	require.NoError(f, err)
	tbl, err := st.Create(context.Background(), tamperSchema("t", cellPerColumn))
	require.NoError(f, err)
	b, err := json.Marshal(metaEntry{Table: tbl.now().Meta})
	require.NoError(f, err)
	f.Add(b)
	f.Add([]byte(`{"table":{"name":"t"}}`))
	f.Add([]byte(`{"table":{"name":"t","key":[{"id":"00","type":"int/1"}]}}`))
	f.Add([]byte(`{"table":{"name":"t","columns":[{"confidentiality":"multicolumn"}],"row_keys":["AAAA"]}}`))
	f.Add([]byte{})
	c := st.db.Catalogue
	q := c.Qualifier("t")
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, value := range [][]byte{b, c.Sealer.Seal(nil, newHeader(), b, place("catalogue", q))} {
			entry, err := c.OpenEntry(driver.Cell{Qualifier: q, Value: value})
			meta := entry.Table
			if err != nil || meta == nil {
				continue
			}
			if meta.Name != "t" {
				t.Fatalf("the entry of another table: %q", meta.Name)
			}
			schema, err := meta.Schema()
			if err == nil && (schema.Name != "t" || len(schema.Key) != len(meta.Key)) {
				t.Fatalf("%+v", schema)
			}
			st.db.Forget(meta.ID)
			_, err = st.db.Table(context.Background(), meta, meta.Version)
			if err != nil && !errors.Is(err, ErrFormat) && !errors.Is(err, ErrTampered) && !errors.Is(err, ErrWrongKey) && !errors.Is(err, driver.ErrNoFamily) {
				t.Fatalf("%v", err)
			}
		}
		if _, err := c.OpenRoot(b); err == nil {
			t.Fatal("a root was accepted")
		}
		sealed := c.Sealer.Seal([]byte{catalogueFormat, 0, 1, 'w'}, newHeader(), b, rootPlace(catalogueFormat, []byte("w")))
		_, err := c.OpenRoot(sealed)
		if err != nil && !errors.Is(err, ErrFormat) && !errors.Is(err, ErrTampered) {
			t.Fatalf("%v", err)
		}
	})
}

func tokenOf(tbl *Table, b, print []byte) string {
	return base64.RawURLEncoding.EncodeToString(tbl.now().Tokens.Seal(nil, newHeader(), b, place("page", print)))
}
