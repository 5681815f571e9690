// Package intercept wraps a database so that every call goes through a function, which may delay
// it, refuse it or lose its answer. Programs that are shipped use it, so it links no test library.
package intercept

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"slices"
	"time"

	"github.com/rangecrypt/rangecrypt/internal/pause"
	"github.com/rangecrypt/rangecrypt/store/driver"
)

// An Op says which call of a database it is.
type Op struct {
	Method string // "Family", "Families", "Drop", "AddIndex", "DropIndex", "Snapshot", "Get", "GetBatch", "Scan", "Apply", "Replace", "CheckAndPut", "PutGuarded" or "Commit"
	Family string // its name, where the call has one
	Row    []byte // of Get, CheckAndPut, PutGuarded and Commit; not to be changed
}

// Reads reports whether the call changes nothing.
func (o Op) Reads() bool {
	switch o.Method {
	case "Families", "Snapshot", "Get", "GetBatch", "Scan":
		return true
	}
	return false
}

// Conditional reports whether the call is a CheckAndPut, PutGuarded or Commit.
func (o Op) Conditional() bool {
	return o.Method == "CheckAndPut" || o.Method == "PutGuarded" || o.Method == "Commit"
}

// A Call is what a [Hook] may do with a call.
type Call struct {
	// Make makes the call. A scan asks rows whether to go on: with 0 when it has its first row,
	// and after each row with the number yielded so far. rows may be nil.
	Make func(rows func(int) error) error

	// Partly, of Apply and Replace, makes every other change; nil otherwise.
	Partly func() error

	// Later, of mutations, copies what was passed and returns a function that makes the call; nil
	// otherwise.
	Later func() func()

	// Size, of mutations, returns how many rows they change, and how many bytes the row keys,
	// qualifiers and values have that they put; nil otherwise. Once Make has found that a
	// condition does not hold, nothing is put.
	Size func() (rows, bytes int)

	// Got, of reads of rows, returns how many bytes the row keys, qualifiers and values have that came so far; nil otherwise.
	Got func() int
}

// A Hook handles a call: the caller gets its error, and results only where it returns none.
type Hook func(ctx context.Context, op Op, c Call) error

// New returns db with all calls going through the hook, Close excepted, which calls closing first
// where it is not nil. The result has the optional interfaces that db has, and is a [driver.Indexer] of what db has.
func New(db driver.DB, h Hook, closing func()) driver.DB {
	w := &wrappedDB{db: db, hook: h, closing: closing}
	if s, ok := db.(driver.Snapshotter); ok {
		return &wrappedSnapshotter{w, s}
	}
	return w
}

// WithLatency wraps a database so that every call, and every thousand rows of a scan, takes as
// much longer as delay says. The result has the optional interfaces that db has.
func WithLatency(db driver.DB, delay func() time.Duration) driver.DB {
	return New(db, func(ctx context.Context, _ Op, c Call) error {
		if err := pause.For(ctx, delay()); err != nil {
			return err
		}
		return c.Make(func(rows int) error {
			if rows > 0 && rows%1000 == 0 {
				return pause.For(ctx, delay())
			}
			return nil
		})
	}, nil)
}

// through sends a call with one result through the hook.
func through[T any](ctx context.Context, h Hook, op Op, c Call, do func() (T, error)) (result T, err error) {
	c.Make = func(func(int) error) error {
		var err error
		result, err = do()
		return err
	}
	if err = h(ctx, op, c); err != nil {
		var none T
		return none, err
	}
	return result, nil
}

type wrappedDB struct {
	db      driver.DB
	hook    Hook
	closing func()
}

// opens is Family of a database or of a snapshot.
type opens func(context.Context, driver.FamilySpec) (driver.Family, error)

func (h Hook) family(ctx context.Context, spec driver.FamilySpec, open opens) (driver.Family, error) {
	return through(ctx, h, Op{Method: "Family", Family: spec.Name}, Call{}, func() (driver.Family, error) {
		f, err := open(ctx, spec)
		if err != nil {
			return nil, err
		}
		return wrapFamily(f, spec.Name, h), nil
	})
}

func (w *wrappedDB) Family(ctx context.Context, spec driver.FamilySpec) (driver.Family, error) {
	return w.hook.family(ctx, spec, w.db.Family)
}

func (w *wrappedDB) Families(ctx context.Context) ([]string, error) {
	return through(ctx, w.hook, Op{Method: "Families"}, Call{}, func() ([]string, error) { return w.db.Families(ctx) })
}

func (w *wrappedDB) Drop(ctx context.Context, name string) error {
	return w.hook(ctx, Op{Method: "Drop", Family: name}, Call{Make: func(func(int) error) error {
		return w.db.Drop(ctx, name)
	}})
}

// AddIndex fails if the wrapped database is no [driver.Indexer].
func (w *wrappedDB) AddIndex(ctx context.Context, spec driver.FamilySpec, name string) error {
	return w.hook(ctx, Op{Method: "AddIndex", Family: spec.Name}, Call{Make: func(func(int) error) error {
		return driver.AddIndex(ctx, w.db, spec, name)
	}})
}

func (w *wrappedDB) DropIndex(ctx context.Context, spec driver.FamilySpec, name string) error {
	return w.hook(ctx, Op{Method: "DropIndex", Family: spec.Name}, Call{Make: func(func(int) error) error {
		return driver.DropIndex(ctx, w.db, spec, name)
	}})
}

func (w *wrappedDB) Describe() driver.Description { return driver.Describe(w.db) }

func (w *wrappedDB) Close() error {
	if w.closing != nil {
		w.closing()
	}
	return w.db.Close()
}

type wrappedSnapshotter struct {
	*wrappedDB
	db driver.Snapshotter
}

func (w *wrappedSnapshotter) Snapshot() (s driver.Snapshot, err error) {
	err = w.hook(context.Background(), Op{Method: "Snapshot"}, Call{Make: func(func(int) error) error {
		s, err = w.db.Snapshot()
		return err
	}})
	if err != nil {
		if s != nil {
			err = errors.Join(err, s.Close())
		}
		return nil, err
	}
	return &wrappedSnapshot{s, w.hook}, nil
}

type wrappedSnapshot struct {
	driver.Snapshot
	hook Hook
}

func (w *wrappedSnapshot) Family(ctx context.Context, spec driver.FamilySpec) (driver.Family, error) {
	return w.hook.family(ctx, spec, w.Snapshot.Family)
}

func wrapFamily(f driver.Family, name string, h Hook) driver.Family {
	w := &wrappedFamily{family: f, name: name, hook: h}
	if c, ok := f.(driver.Committer); ok {
		return &wrappedCommitter{w, c}
	}
	if g, ok := f.(driver.Guarder); ok {
		return &wrappedGuarder{w, g}
	}
	return w
}

type wrappedFamily struct {
	family driver.Family
	name   string
	hook   Hook
}

func (w *wrappedFamily) Get(ctx context.Context, row []byte, s driver.Slice) ([]driver.Cell, error) {
	got := 0
	return through(ctx, w.hook, Op{Method: "Get", Family: w.name, Row: row}, Call{Got: func() int { return got }}, func() ([]driver.Cell, error) {
		cells, err := w.family.Get(ctx, row, s)
		got = size(row, cells)
		return cells, err
	})
}

func (w *wrappedFamily) GetBatch(ctx context.Context, rows [][]byte, s driver.Slice) ([][]driver.Cell, error) {
	got := 0
	return through(ctx, w.hook, Op{Method: "GetBatch", Family: w.name}, Call{Got: func() int { return got }}, func() ([][]driver.Cell, error) {
		all, err := w.family.GetBatch(ctx, rows, s)
		for i, cells := range all {
			got += size(rows[i], cells)
		}
		return all, err
	})
}

func (w *wrappedFamily) Scan(ctx context.Context, r driver.Range) iter.Seq2[driver.Row, error] {
	return func(yield func(driver.Row, error) bool) {
		stopped, got := false, 0
		err := w.hook(ctx, Op{Method: "Scan", Family: w.name}, Call{Got: func() int { return got }, Make: func(rows func(int) error) error {
			n := 0
			for row, err := range w.family.Scan(ctx, r) {
				if err != nil {
					return err
				}
				got += size(row.Key, row.Cells)
				if n == 0 && rows != nil {
					if err := rows(0); err != nil {
						return err
					}
				}
				if !yield(row, nil) {
					stopped = true
					return nil
				}
				if n++; rows != nil {
					if err := rows(n); err != nil {
						return err
					}
				}
			}
			return nil
		}})
		if err != nil && !stopped {
			yield(driver.Row{}, err)
		}
	}
}

func (w *wrappedFamily) Apply(ctx context.Context, mutations ...driver.Mutation) error {
	return w.hook(ctx, Op{Method: "Apply", Family: w.name}, Call{
		Make:   func(func(int) error) error { return w.family.Apply(ctx, mutations...) },
		Partly: func() error { return w.family.Apply(ctx, everyOther(mutations)...) },
		Later: func() func() {
			kept := slices.Clone(mutations)
			for i, m := range kept {
				kept[i].Row, kept[i].Puts, kept[i].Deletes = bytes.Clone(m.Row), cloneCells(m.Puts), cloneAll(m.Deletes)
			}
			return func() { _ = w.family.Apply(context.Background(), kept...) }
		},
		Size: func() (rows, bytes int) {
			for _, m := range mutations {
				bytes += size(m.Row, m.Puts)
			}
			return len(mutations), bytes
		},
	})
}

func (w *wrappedFamily) Replace(ctx context.Context, replacements ...driver.Replacement) (late []int, err error) {
	return through(ctx, w.hook, Op{Method: "Replace", Family: w.name}, Call{
		Partly: func() error {
			_, err := w.family.Replace(ctx, everyOther(replacements)...)
			return err
		},
		Later: func() func() {
			kept := slices.Clone(replacements)
			for i, r := range kept {
				kept[i].Row, kept[i].Seen = bytes.Clone(r.Row), cloneCells([]driver.Cell{r.Seen})[0]
				kept[i].Puts, kept[i].Deletes = cloneCells(r.Puts), cloneAll(r.Deletes)
			}
			return func() { _, _ = w.family.Replace(context.Background(), kept...) }
		},
		Size: func() (rows, bytes int) {
			for _, r := range replacements {
				bytes += size(r.Row, r.Puts)
			}
			return len(replacements), bytes
		},
	}, func() ([]int, error) { return w.family.Replace(ctx, replacements...) })
}

// size returns the length of cells, each with the key of its row.
func size(row []byte, cells []driver.Cell) (bytes int) {
	for _, c := range cells {
		bytes += len(row) + len(c.Qualifier) + len(c.Value)
	}
	return bytes
}

// conditional sends a CheckAndPut, PutGuarded or Commit through the hook.
func (w *wrappedFamily) conditional(ctx context.Context, method string, row []byte, puts []driver.Cell, c Call, do func() (bool, error)) (bool, error) {
	refused := false
	c.Size = func() (int, int) {
		if refused {
			return 1, 0
		}
		return 1, size(row, puts)
	}
	return through(ctx, w.hook, Op{Method: method, Family: w.name, Row: row}, c, func() (applied bool, err error) {
		applied, err = do()
		refused = !applied
		return applied, err
	})
}

func everyOther[T any](all []T) (some []T) {
	for i := 0; i < len(all); i += 2 {
		some = append(some, all[i])
	}
	return some
}

func (w *wrappedFamily) CheckAndPut(ctx context.Context, row []byte, expect driver.Cell, puts ...driver.Cell) (bool, error) {
	return w.conditional(ctx, "CheckAndPut", row, puts, Call{
		Later: func() func() {
			row, expect, puts := bytes.Clone(row), cloneCells([]driver.Cell{expect}), cloneCells(puts)
			return func() { _, _ = w.family.CheckAndPut(context.Background(), row, expect[0], puts...) }
		},
	}, func() (bool, error) { return w.family.CheckAndPut(ctx, row, expect, puts...) })
}

type wrappedCommitter struct {
	*wrappedFamily
	committer driver.Committer
}

func (w *wrappedCommitter) Commit(ctx context.Context, row []byte, expect, puts []driver.Cell, deletes [][]byte) (bool, error) {
	return w.conditional(ctx, "Commit", row, puts, Call{
		Later: func() func() {
			row, expect, puts, deletes := bytes.Clone(row), cloneCells(expect), cloneCells(puts), cloneAll(deletes)
			return func() { _, _ = w.committer.Commit(context.Background(), row, expect, puts, deletes) }
		},
	}, func() (bool, error) { return w.committer.Commit(ctx, row, expect, puts, deletes) })
}

type wrappedGuarder struct {
	*wrappedFamily
	guarder driver.Guarder
}

func (w *wrappedGuarder) PutGuarded(ctx context.Context, row []byte, guard driver.Guard, puts ...driver.Cell) (bool, error) {
	return w.conditional(ctx, "PutGuarded", row, puts, Call{
		Later: func() func() {
			row, puts := bytes.Clone(row), cloneCells(puts)
			guard := driver.Guard{Prefix: bytes.Clone(guard.Prefix), Free: cloneAll(guard.Free), Gone: bytes.Clone(guard.Gone)}
			return func() { _, _ = w.guarder.PutGuarded(context.Background(), row, guard, puts...) }
		},
	}, func() (bool, error) { return w.guarder.PutGuarded(ctx, row, guard, puts...) })
}

// Clones keep nil and empty apart.

func cloneAll(bs [][]byte) [][]byte {
	out := slices.Clone(bs)
	for i := range out {
		out[i] = bytes.Clone(out[i])
	}
	return out
}

func cloneCells(cells []driver.Cell) []driver.Cell {
	out := slices.Clone(cells)
	for i, c := range out {
		out[i].Qualifier, out[i].Value = bytes.Clone(c.Qualifier), bytes.Clone(c.Value)
		out[i].Index = slices.Clone(c.Index)
		for j, v := range c.Index {
			out[i].Index[j].Value = bytes.Clone(v.Value)
		}
	}
	return out
}
