package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/rangecrypt/rangecrypt/internal/relay"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/internal/chunks"
	"github.com/rangecrypt/rangecrypt/store/internal/fault"
	"github.com/rangecrypt/rangecrypt/store/internal/rowcodec"
)

// lookBacks is how often rows are written again. Each time, others must have written them in the same microseconds.
const lookBacks = 20

// errLookBack is in errors of reading back what was written.
var errLookBack = errors.New("the rows were written and could not be read back, so that an index of the database may not lead to them until they are written again")

// lookBack reads the version of the catalogue. At the same time it reads back rows that were written under a view, if the
// database has indexes of them, and returns those that it has to write again.
//
// The cell of a row and its values in indexes are written as one. But where two mutations have one timestamp, the database
// may keep the cell of the one and a value of the other. The query by that column would miss the row. Whoever wrote
// it later reads that here, before the write is acknowledged.
func (t *Engine) lookBack(ctx context.Context, of *rowcodec.View, records []*rowcodec.Record) (version uint32, again []*rowcodec.Record, err error) {
	if len(t.IndexNames()) == 0 {
		version, err = t.Env.Version(ctx)
		return version, nil, err
	}
	group, ctx := relay.WithContext(ctx)
	group.Go(func() (err error) {
		version, err = t.Env.Version(ctx)
		return err
	})
	group.Go(func() (err error) {
		if again, err = t.misplaced(ctx, of, records); err != nil {
			err = fmt.Errorf("%w: %w", errLookBack, err)
		}
		return err
	})
	return version, again, group.Wait()
}

// misplaced returns those of the records whose rows are not as one mutation wrote them, and makes them those of other writes.
func (t *Engine) misplaced(ctx context.Context, of *rowcodec.View, records []*rowcodec.Record) (again []*rowcodec.Record, err error) {
	keys := make([][]byte, len(records))
	for i, r := range records {
		// One that was converted has a timestamp of its own. The key of one that is fresh nobody else writes.
		if r != nil && r.Values != nil && !r.Fresh {
			keys[i] = r.Key
		}
	}
	var mu sync.Mutex
	err = chunks.GetEach(ctx, t.Data, keys, t.IndexSlice(), func(rows []driver.Row, places []int) error {
		return onProcessors(ctx, len(rows), func(ctx context.Context, i int, s *rowcodec.Scratch) error {
			as := func(r *rowcodec.Record) *rowcodec.Record {
				if of.Same(t.View) {
					return r
				}
				return t.Inherited(of, r)
			}
			wrong, err := t.Misplaced(ctx, rows[i], as(records[places[i]]), s)
			switch {
			case errors.As(err, new(rowcodec.NewerRow)):
				return nil // its writer knows more of the table, and settles it
			case err != nil && !replaceable(err):
				return err
			case err != nil || len(wrong) > 0:
				mu.Lock()
				defer mu.Unlock()
				records[places[i]] = records[places[i]].Again()
				again = append(again, as(records[places[i]]))
			}
			return nil
		})
	})
	return again, err
}

// writeAgain writes rows once more, as misplaced has returned them, so that all of what is left of them is of one.
func (t *Engine) writeAgain(ctx context.Context, records []*rowcodec.Record, attempt int) error {
	if attempt == lookBacks {
		return fmt.Errorf("%w: %w: others write them at the same time", errLookBack, fault.ErrTorn)
	}
	if err := WaitAgain(ctx, "equal_timestamps", attempt); err != nil {
		return err
	}
	err := t.encryptColumns(ctx, records)
	if err == nil {
		err = chunks.InChunks(len(records), func(from, to int) error { return t.Write(ctx, records[from:to]) })
	}
	if err != nil {
		err = fmt.Errorf("%w: %w", errLookBack, err)
	}
	return err
}
