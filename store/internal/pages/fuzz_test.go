package pages

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/internal/fault"
	"github.com/rangecrypt/rangecrypt/store/internal/meta"
	"github.com/rangecrypt/rangecrypt/store/internal/rowcodec"
	"github.com/rangecrypt/rangecrypt/store/internal/value"
)

// FuzzPlain reads plain mini-pages, which anybody who has the database may have written: each is read or is damage, and one
// that is read has as many rows as it says, within the bytes that are there.
func FuzzPlain(f *testing.F) {
	first := &page{rows: 3, high: []byte("z"), cuts: []cut{{1, []byte("m")}}}
	f.Add(first.appendHead(nil))
	f.Add(appendColumn(first.appendHead(nil), 1, value.Bytes, 0, records("ab", "", "cdef")))
	f.Fuzz(func(t *testing.T, b []byte) {
		p := &page{key: []byte("a")}
		if err := p.readPlain(b, 1<<16); err != nil {
			require.True(t, errors.Is(err, fault.ErrTampered), err)
			return
		}
		require.LessOrEqual(t, p.rows, 1<<16)
		if p.rows > 1000 {
			return
		}
		least := p.key
		for _, c := range p.cuts {
			require.Positive(t, bytes.Compare(c.key, least))
			require.Positive(t, c.row)
			require.Less(t, c.row, p.rows)
			least = c.key
		}
		for _, one := range p.cells[0] {
			rows := make([]*rowcodec.Record, p.rows)
			for i := range rows {
				rows[i] = &rowcodec.Record{Values: make([]any, 1)}
			}
			n := 0
			if err := one.read(value.Bytes, 0, rows); err != nil {
				continue
			}
			for _, r := range rows {
				if r.Values[0] != nil {
					n += len(r.Values[0].([]byte))
				}
			}
			require.Equal(t, len(one.values), n)
		}
	})
}

// records returns records with one value each.
func records(values ...string) (all []*rowcodec.Record) {
	for _, v := range values {
		all = append(all, &rowcodec.Record{Values: []any{[]byte(v)}})
	}
	return all
}

// A key that is too short for its part is damage, wherever it comes from.
func TestShortKey(t *testing.T) {
	v := &rowcodec.View{Spec: driver.FamilySpec{PrefixBytes: 16}, Meta: &meta.Table{PageRows: 64}}
	_, err := new(Table).open(v, driver.Row{Key: []byte{9}, Cells: []driver.Cell{{Qualifier: plainCell, Value: new(page).appendHead(nil)}}}, false)
	require.ErrorIs(t, err, fault.ErrTampered)
}

// A plain mini-page that says what no writer says is damage.
func TestForgedHeads(t *testing.T) {
	key := func(s string) []byte { return []byte(s) }
	for what, p := range map[string]*page{
		"more rows than a page has":     {rows: 101},
		"more cuts than rows":           {rows: 2, cuts: []cut{{1, key("m")}, {2, key("n")}, {3, key("o")}}},
		"a cut before its page":         {rows: 9, cuts: []cut{{1, key("A")}}},
		"cuts whose keys descend":       {rows: 9, cuts: []cut{{1, key("n")}, {2, key("m")}}},
		"cuts whose rows descend":       {rows: 9, cuts: []cut{{2, key("m")}, {1, key("n")}}},
		"a cut behind the last row":     {rows: 9, cuts: []cut{{9, key("m")}}},
		"the next page before this one": {rows: 9, high: key("A")},
		"the next page before a cut":    {rows: 9, high: key("b"), cuts: []cut{{1, key("m")}}},
	} {
		require.ErrorIs(t, (&page{key: key("a")}).readPlain(p.appendHead(nil), 100), fault.ErrTampered, what)
	}
	lengths := append((&page{rows: 2}).appendHead(nil), 1, 0) // of the values of column 1, which overflow together
	lengths = binary.AppendUvarint(binary.AppendUvarint(lengths, 1<<63), 1<<63)
	require.ErrorIs(t, (&page{key: key("a")}).readPlain(lengths, 100), fault.ErrTampered)
}
