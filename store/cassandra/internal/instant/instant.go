// Package instant reads the cells of a row until they are of one instant, where an answer of Cassandra may not be.
//
// The pieces of a row that is read one after the other are not. Nor is a slice with a limit, where copies of the row differ: what one
// says is deleted is missing from the answer of another, which was cut at the limit, so that the server asks that one for more, later.
package instant

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/rangecrypt/rangecrypt/internal/pause"
	"github.com/rangecrypt/rangecrypt/store/driver"
)

// attempts is how often a row is read before it is said to change too fast, over some ten seconds.
const attempts = 12

// Agreed reads cells with their write times until what was read is whole, or two times agree in every cell. Then nothing that is
// there has changed from the end of the first to the beginning of the second. Without stamps it returns them as zero.
func Agreed(ctx context.Context, stamps bool, whole func([]driver.Cell) bool, read func() ([]driver.Cell, error)) ([]driver.Cell, error) {
	var before []driver.Cell
	for attempt := range attempts {
		out, err := read()
		if err != nil {
			return nil, err
		}
		if whole != nil && whole(out) || attempt > 0 && slices.EqualFunc(before, out, same) {
			if !stamps {
				for i := range out {
					out[i].Stamp = 0
				}
			}
			return out, nil
		}
		if before = out; attempt > 0 {
			if err := pause.Again(ctx, "row_changed", 10*time.Millisecond, 2*time.Second, attempt); err != nil {
				return nil, err
			}
		}
	}
	return nil, fmt.Errorf("%w: the row cannot be read as of one instant, since it changes faster than that: its copies differ, or it has so many markers of deleted cells that it is read in pieces", driver.ErrUnavailable)
}

func same(a, b driver.Cell) bool {
	return a.Stamp == b.Stamp && bytes.Equal(a.Qualifier, b.Qualifier) && bytes.Equal(a.Value, b.Value)
}

// OfHead reports whether no cell is newer than the head in front of them. The head is of the time when the server asked first. So
// where each change of the row changes the head, a newer cell is of a later time.
func OfHead(cells []driver.Cell) bool {
	var head int64
	for _, c := range cells {
		if driver.InHead(c.Qualifier) {
			head = max(head, c.Stamp)
		} else if c.Stamp > head {
			return false
		}
	}
	return true
}
