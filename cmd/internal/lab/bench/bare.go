package bench

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"iter"
	"math/bits"
	"math/rand/v2"
	"sync/atomic"

	"github.com/rangecrypt/rangecrypt/cmd/internal/lab/bare"
	"github.com/rangecrypt/rangecrypt/internal/cli/exit"
	"github.com/rangecrypt/rangecrypt/ope"
)

// Bare is the name of what is measured without package store: the database's client library alone.
const Bare = "bare"

// bareTable is rows in a bare store. Their keys are those of a plain table with the value in the key, and
// their only cell is as long as that table's.
type bareTable struct {
	store  bare.Store
	domain ope.Domain
	width  int // of the value in a key, in bytes
	bytes  atomic.Int64
}

// plainCell is by how much the cell of a row that has nothing but a plain key is longer than the key: the
// format, the version, the write id and the length.
const plainCell = 23

func newBareTable(st bare.Store, d ope.Domain) *bareTable {
	width := 1
	for 8*width < bits.Len64(d.Span()) {
		width *= 2
	}
	return &bareTable{store: st, domain: d, width: width}
}

// appendValue appends a value so that the order of bytes is that of values.
func (t *bareTable) appendValue(dst []byte, x int64) []byte {
	b := binary.BigEndian.AppendUint64(nil, t.domain.Offset(x))
	return append(dst, b[8-t.width:]...)
}

func (t *bareTable) Insert(ctx context.Context, rows []Row) error {
	put := make([]bare.Row, len(rows))
	n := 0
	for i, r := range rows {
		key := append(t.appendValue(make([]byte, 0, t.width+TieSize), r.Value), r.Tie[:]...)
		// Random as a write id is, so that a disk has them all.
		value := make([]byte, 0, plainCell+8+len(key))
		for len(value) < plainCell {
			value = binary.BigEndian.AppendUint64(value, rand.Uint64())
		}
		put[i] = bare.Row{Key: key, Value: append(value[:plainCell], key...)}
		n += len(put[i].Key) + len(put[i].Value)
	}
	if err := t.store.Put(ctx, put); err != nil {
		return err
	}
	t.bytes.Add(int64(n))
	return nil
}

func (t *bareTable) Range(ctx context.Context, lo, hi int64, limit int) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		d, ok := t.domain.Intersect(lo, hi)
		if !ok {
			return
		}
		from := t.appendValue(nil, d.Min)
		var to []byte
		if d.Max < t.domain.Max {
			to = t.appendValue(nil, d.Max+1)
		}
		n := 0
		for stored, err := range t.store.Scan(ctx, from, to) {
			var row Row
			if err == nil {
				row, err = t.row(stored)
			}
			if err != nil {
				yield(Row{}, err)
				return
			}
			if n++; !yield(row, nil) || n == limit {
				return
			}
		}
	}
}

func (t *bareTable) row(stored bare.Row) (row Row, err error) {
	if len(stored.Key) != t.width+TieSize || len(stored.Value) != plainCell+len(stored.Key) || !bytes.HasSuffix(stored.Value, stored.Key) {
		return row, fmt.Errorf("%w: a bare row is not as it was put", exit.ErrWrongAnswer)
	}
	var offset [8]byte
	copy(offset[8-t.width:], stored.Key)
	row.Value = t.domain.At(binary.BigEndian.Uint64(offset[:]))
	copy(row.Tie[:], stored.Key[t.width:])
	return row, nil
}

func (t *bareTable) IndexStats() (IndexStats, bool) { return IndexStats{}, false }
