// Package recopy looks after the copies of rows that postings have: it compares them with their rows, and puts those that
// are missing.
package recopy

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/internal/catalogue"
	"github.com/rangecrypt/rangecrypt/store/internal/chunks"
	"github.com/rangecrypt/rangecrypt/store/internal/engine"
	"github.com/rangecrypt/rangecrypt/store/internal/fault"
	"github.com/rangecrypt/rangecrypt/store/internal/rowcodec"
)

// All puts copies into all postings of the columns that cover which have none, or others than the table's view makes.
func All(ctx context.Context, t *engine.Engine) (done engine.Copied, err error) {
	t = t.Slow()
	err = Each(ctx, t, func(c *rowcodec.Column, postings []driver.Row) error {
		some, err := t.CopyScanned(ctx, c, postings)
		done = engine.Copied{Pending: done.Pending + some.Pending, Put: done.Put + some.Put, Doubtful: done.Doubtful + some.Doubtful}
		return err
	})
	return done, err
}

// Each hands the postings of the columns that cover to do, in batches, with their stamps.
func Each(ctx context.Context, t *engine.Engine, do func(*rowcodec.Column, []driver.Row) error) error {
	for _, c := range t.Stored {
		if !c.Covers() {
			continue
		}
		r := chunks.Under(c.Lead)
		r.Cells.Stamps = true
		if err := chunks.InBatches(ctx, t.Postings, r, func(postings []driver.Row) error { return do(c, postings) }); err != nil {
			return err
		}
	}
	return nil
}

var (
	errCopy  = errors.New("the copy is not of the row: queries by the column return what is not there")
	errAhead = errors.New("the copy is of a row that is yet to be converted: who deletes the row leaves the copy, and queries by the column return it")
)

// Check compares the copy in a posting with its row. It reports whether the posting of a row has none, and may get one,
// and what is wrong with one that it has.
func Check(ctx context.Context, t *engine.Engine, c *rowcodec.Column, posting driver.Row, r *rowcodec.Record) (uncopied bool, wrong, err error) {
	value := rowcodec.PostingValue(posting.Cells)
	switch {
	case rowcodec.HasCopy(value):
	case r == nil || rowcodec.Doubtful(value) && !t.Meta.Conditional:
		return false, nil, nil
	case t.Meta.Conditional:
		return true, nil, nil
	default: // a client may have been about to delete the row
		deleted, err := chunks.Exists(ctx, t.Postings, t.DeletionKey(r.Key))
		return !deleted, nil, err
	}
	copied, wrong := t.OpenCopy(c, posting.Key, value, nil, new(rowcodec.Scratch))
	if newer := rowcodec.NewerRow(0); errors.As(wrong, &newer) {
		if t, err = known(ctx, t, newer); err == nil {
			copied, wrong = t.OpenCopy(c, posting.Key, value, nil, new(rowcodec.Scratch))
		} else if wrong = err; !errors.Is(err, catalogue.ErrPutBack) {
			return false, nil, err
		}
	}
	// Of what says that it is newer, or of another key, queries read the row. It is a fault unless the schema has changed since.
	switch {
	case wrong != nil && !errors.As(wrong, new(rowcodec.NewerRow)) && !fault.Refused(wrong):
		return false, nil, wrong
	case wrong == nil && copied == nil:
		return false, nil, nil // it has expired
	}
	// The row is read whole and, after that, the posting: whoever deletes a row makes the posting doubtful before.
	_, key, _, _ := c.CutPosting(posting.Key)
	r, err = t.Read(ctx, key, nil)
	if fault.Refused(err) || errors.Is(err, fault.ErrTorn) {
		return false, nil, nil // which is a fault of the row
	}
	converted := r != nil && r.Search[c.Position] != nil
	if r != nil {
		c.Trim(t.View, r)
	}
	if same := wrong == nil && r != nil && r.Write == copied.Write && t.SameValues(r, copied); same && !converted {
		wrong = errAhead // as it is where rows were put back to before a conversion
	} else if err != nil || same {
		return false, nil, err
	}
	if wrong == nil && r == nil && t.Over(copied) {
		return false, nil, nil // it has expired in between
	}
	cells, err := t.Postings.Get(ctx, posting.Key, driver.Slice{})
	if err != nil || !bytes.Equal(rowcodec.PostingValue(cells), value) {
		return false, nil, err
	}
	return false, cmp.Or(wrong, errCopy), nil
}

// known returns the engine as of a version of the catalogue at which a copy was made. A change of another table makes a later
// version, too, and then the engine is the same but for that. It is returned as it is if the schema of the table has changed,
// after which the copy is looked at again.
func known(ctx context.Context, t *engine.Engine, newer rowcodec.NewerRow) (*engine.Engine, error) {
	now, err := t.Env.AtLeast(ctx, uint32(newer))
	switch {
	case err != nil:
		return t, err
	case now.Same(t.View):
		return t.At(now.Version), nil
	}
	return t, nil
}

// Mend puts another copy into a posting whose copy is not of its row, or makes it doubtful where there is no such row,
// and reports whether it was as it was read before.
func Mend(ctx context.Context, t *engine.Engine, c *rowcodec.Column, posting driver.Row) (bool, error) {
	cells, err := t.Postings.Get(ctx, posting.Key, driver.Slice{Stamps: true})
	if err != nil || len(cells) == 0 || !bytes.Equal(rowcodec.PostingValue(cells), rowcodec.PostingValue(posting.Cells)) {
		return false, err
	}
	_, key, _, err := c.CutPosting(posting.Key)
	if err != nil {
		return false, err
	}
	keys := [][]byte{key}
	if err := t.UnderDeletion(ctx, keys); err != nil {
		return false, err
	}
	r, err := t.Read(ctx, key, nil)
	if err != nil || r != nil && t.Outgrown(r) {
		return false, err
	}
	var replacement driver.Replacement
	if r != nil && keys[0] != nil && r.Search[c.Position] != nil && bytes.Equal(t.PostingKey(r, c.Position), posting.Key) {
		replacement = t.CopyInto(c, posting.Key, cells[0], r)
	} else {
		gone := new(rowcodec.Record)
		gone.NewAttempt()
		replacement = driver.Replacement{Row: posting.Key, Seen: cells[0], Puts: t.Doubt(posting.Key, gone).Puts}
	}
	late, err := t.Postings.Replace(ctx, replacement)
	return len(late) == 0, err
}

// Met puts copies into postings of a column that a query has met pending, if they led to rows and this client is to do so. The
// query neither waits for that nor fails by it. The postings are read again: the query needed no stamps.
func Met(ctx context.Context, t *engine.Engine, c *rowcodec.Column, postings []driver.Row, led func(i int) bool) {
	if t.Env.Spare == nil {
		return
	}
	var pending [][]byte
	for i, p := range postings {
		if led(i) && rowcodec.Pending(rowcodec.PostingValue(p.Cells)) {
			pending = append(pending, p.Key)
		}
	}
	if len(pending) == 0 {
		return
	}
	t.Env.Spare(ctx, func(ctx context.Context) error {
		return chunks.GetEach(ctx, t.Postings, pending, driver.Slice{Stamps: true}, func(rows []driver.Row, _ []int) error {
			_, err := t.CopyScanned(ctx, c, rows)
			return err
		})
	})
}

// Missing puts copies into postings of a column that have none. In a conditional table it writes the rows of doubtful ones
// again, since these never have copies.
func Missing(ctx context.Context, t *engine.Engine, c *rowcodec.Column, postings []driver.Row) error {
	if _, err := t.CopyScanned(ctx, c, postings); err != nil || !t.Meta.Conditional {
		return err
	}
	var rows [][]byte
	for _, p := range postings {
		if _, row, _, err := c.CutPosting(p.Key); err == nil && rowcodec.Doubtful(rowcodec.PostingValue(p.Cells)) {
			rows = append(rows, row)
		}
	}
	slices.SortFunc(rows, bytes.Compare)
	rows = slices.CompactFunc(rows, bytes.Equal)
	// One that a client has written meanwhile which knows more of the table is left to that client.
	if err := t.Renew(ctx, rows); !errors.As(err, new(rowcodec.NewerRow)) {
		return err
	}
	return nil
}

// Fits reports whether the content of a posting is such as clients give it. What is no copy in a column that covers gets one.
func Fits(t *engine.Engine, c *rowcodec.Column, cells []driver.Cell) bool {
	value := rowcodec.PostingValue(cells)
	switch {
	case len(value) == 0 || len(cells) > 1 || len(cells[0].Qualifier) > 0:
		return len(value) == 0 || t.Meta.Copies()
	case c.Covers():
		return true
	}
	return t.Meta.Copies() && !rowcodec.HasCopy(value) && len(value) == rowcodec.HintSize
}

// Empty takes the content out of a posting of a row.
func Empty(ctx context.Context, t *engine.Engine, posting driver.Row, r *rowcodec.Record) error {
	put := t.PutPosting(posting.Key, r)
	for _, cell := range posting.Cells {
		if len(cell.Qualifier) > 0 {
			put.Deletes = append(put.Deletes, cell.Qualifier)
		}
	}
	return t.Post(ctx, []driver.Mutation{put})
}

// Filled counts the cells of a row. An empty one was deleted under a condition, where the database has no other way.
func Filled(cells []driver.Cell) (n int) {
	for _, cell := range cells {
		if len(cell.Value) > 0 {
			n++
		}
	}
	return n
}
