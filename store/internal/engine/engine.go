// Package engine reads and writes the rows of a table as of one view: what is read is verified, what is written is
// findable at any moment, and is settled in the end, so that others find it as the newest schema says. It takes a narrow
// [Environment] in place of a database.
package engine

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/rangecrypt/rangecrypt/internal/pause"
	"github.com/rangecrypt/rangecrypt/internal/relay"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/internal/catalogue"
	"github.com/rangecrypt/rangecrypt/store/internal/chunks"
	"github.com/rangecrypt/rangecrypt/store/internal/fault"
	"github.com/rangecrypt/rangecrypt/store/internal/meta"
	"github.com/rangecrypt/rangecrypt/store/internal/rowcodec"
	"github.com/rangecrypt/rangecrypt/store/internal/structs"
)

// An Engine reads and writes the rows of a table as of one view. It has no state: what it knows is in the view,
// and what it needs besides the families of the table is in its environment.
type Engine struct {
	*rowcodec.View
	Env            *Environment
	Data, Postings driver.Family // postings is nil where no column is searched
}

// An Environment is all that an engine needs of the world, so that it can be tested without a database.
type Environment struct {
	Concurrency int // requests of one call that are under way at a time
	Warn        func(ctx context.Context, message, family string, err error)

	// Later does what a call that has written its rows leaves to do, soon after the call or before it returns. Nobody is told
	// of an error.
	Later func(ctx context.Context, do func(context.Context))

	// Spare does something that nothing depends on, unless others use what there is for that; nil where the client is not to.
	Spare func(ctx context.Context, do func(context.Context) error)

	Now      func() *Engine                                    // of what this client knows of the table
	Refresh  func(context.Context) (*Engine, error)            // of what the catalogue says of it
	Snapshot func() (driver.Snapshot, error)                   // nil where the database has none
	Fill     func(ctx context.Context, of meta.IndexRef) error // finishes an index that is being made again

	// Writes is told how many rows a Put is going to write, and what it returns is called when they are, right before Version.
	// So the reads of concurrent Puts can be shared.
	Writes func(rows int) (written func())

	// Version returns that of the catalogue; VersionIn returns a function that does, as a snapshot has it. Leased reports whether
	// that is a given one, or has been so shortly: then whoever changed it waits, and finds the rows that are written by now.
	Leased    func(version uint32) bool
	Version   func(context.Context) (uint32, error)
	VersionIn func(context.Context, driver.Snapshot) (func(context.Context) (uint32, error), error)
}

// At returns the engine for a later version of the catalogue that says nothing else of the table.
func (t *Engine) At(version uint32) *Engine {
	v, next := *t.View, *t
	v.Version, next.View = version, &v
	return &next
}

// Expiring returns the engine with another time to live of the rows that are put; 0 is for ever.
func (t *Engine) Expiring(ttl time.Duration) *Engine {
	return &Engine{t.View.Expiring(ttl), t.Env, t.Data, t.Postings}
}

// Slow returns the engine with the view's Late.
func (t *Engine) Slow() *Engine {
	return &Engine{t.View.Late(), t.Env, t.Data, t.Postings}
}

// AtLeast returns an engine as of some version or a later one, at which a row was written. Its writer had it from the catalogue.
func (env *Environment) AtLeast(ctx context.Context, version uint32) (*Engine, error) {
	for attempt := 0; ; attempt++ {
		if now := env.Now(); now.Version >= version {
			return now, structs.Guards(ctx, now.View)
		}
		now, err := env.Refresh(ctx)
		if err != nil || now.Version >= version {
			return now, err
		}
		if attempt == TornReads {
			return nil, catalogue.PutBack(fmt.Sprintf("it has version %d, and a row was written at version %d", now.Version, version))
		}
		if err := WaitAgain(ctx, "stale_catalogue", attempt); err != nil {
			return nil, err
		}
	}
}

// WithSecondLook calls do with what a caller says of rows. What this client knows may be old: before a name or a value is
// refused, or an index, an order or a page token, the catalogue is read, and where the schema is another by now that one
// counts. It returns the engine that counts.
func (t *Engine) WithSecondLook(ctx context.Context, do func(*Engine) error) (*Engine, error) {
	for {
		err := do(t)
		if !fault.BySchema(err) {
			return t, err
		}
		now, failed := t.Env.Refresh(ctx)
		switch {
		case errors.Is(failed, fault.ErrSchemaChanged), errors.Is(failed, fault.ErrNoTable):
			return t, failed
		case failed != nil:
			return t, fmt.Errorf("%w; whether the schema was changed could not be read: %w", err, failed)
		case now.Same(t.View):
			return t, err
		}
		if t.OwnTTL {
			now = now.Expiring(t.TTL)
		}
		t = now
		pause.Repeats(ctx, "schema_changed")
	}
}

// Concurrently calls do for 0 to n-1, as many at a time as requests may be under way, and returns the first error.
// A goroutine does many, so that it need not grow its stack for each.
func (env *Environment) Concurrently(ctx context.Context, n int, do func(ctx context.Context, i int) error) error {
	var taken atomic.Int64
	return relay.Each(ctx, min(env.Concurrency, n), func(ctx context.Context, _ int) error {
		for {
			i := int(taken.Add(1)) - 1
			if i >= n {
				return nil
			}
			if ctx.Err() != nil {
				return pause.Ended(ctx)
			}
			if err := do(ctx, i); err != nil {
				return err
			}
		}
	})
}

// onProcessors calls do for 0 to n-1 on all processors.
func onProcessors(ctx context.Context, n int, do func(ctx context.Context, i int, s *rowcodec.Scratch) error) error {
	workers := min(runtime.GOMAXPROCS(0), n)
	return relay.Each(ctx, workers, func(ctx context.Context, w int) error {
		s := new(rowcodec.Scratch)
		for i := w; i < n; i += workers {
			if err := do(ctx, i, s); err != nil {
				return err
			}
		}
		return nil
	})
}

// WaitAgain waits before the next attempt, about 2 ms at first and twice as long each time, at most 200 ms, and says why there is one.
func WaitAgain(ctx context.Context, why string, attempt int) error {
	return pause.Again(ctx, why, 2*time.Millisecond, 200*time.Millisecond, attempt)
}

// Rows returns the range of a part of the rows, with all their cells.
func (t *Engine) Rows(part, parts int) driver.Range {
	r := chunks.Under(t.Prefix)
	r.Part, r.Parts = part, parts
	return r
}
