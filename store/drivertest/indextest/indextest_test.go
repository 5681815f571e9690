package indextest

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/intercept"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
)

func TestMemory(t *testing.T) { TestIndexer(t, drivertest.NewMemory().(driver.Indexer)) }

func TestIntercepted(t *testing.T) {
	db := intercept.New(drivertest.NewMemory(), func(_ context.Context, _ intercept.Op, c intercept.Call) error { return c.Make(nil) }, nil)
	TestIndexer(t, db.(driver.Indexer))
}

// A broken database changes what a family is asked or answers.
type broken struct {
	driver.Indexer
	mutate  func(*driver.Mutation)
	replace func(*driver.Replacement)
	scan    func(*driver.Range)
	cells   func([]driver.Cell)
	added   bool // AddIndex is no error without a family
	dropped bool // DropIndex does nothing
}

func (db *broken) AddIndex(ctx context.Context, spec driver.FamilySpec, name string) error {
	err := db.Indexer.AddIndex(ctx, spec, name)
	if db.added && errors.Is(err, driver.ErrNoFamily) {
		return nil
	}
	return err
}

func (db *broken) DropIndex(ctx context.Context, spec driver.FamilySpec, name string) error {
	if db.dropped {
		return nil
	}
	err := db.Indexer.DropIndex(ctx, spec, name)
	if errors.Is(err, driver.ErrNoFamily) {
		return nil
	}
	return err
}

func (db *broken) Family(ctx context.Context, spec driver.FamilySpec) (driver.Family, error) {
	f, err := db.Indexer.Family(ctx, spec)
	return &brokenFamily{f, db}, err
}

type brokenFamily struct {
	driver.Family
	db *broken
}

func (f *brokenFamily) Apply(ctx context.Context, mutations ...driver.Mutation) error {
	for i := range mutations {
		mutations[i].Puts = slices.Clone(mutations[i].Puts)
		if f.db.mutate != nil {
			f.db.mutate(&mutations[i])
		}
	}
	return f.Family.Apply(ctx, mutations...)
}

func (f *brokenFamily) Replace(ctx context.Context, replacements ...driver.Replacement) ([]int, error) {
	for i := range replacements {
		if f.db.replace != nil {
			f.db.replace(&replacements[i])
		}
	}
	return f.Family.Replace(ctx, replacements...)
}

func (f *brokenFamily) Scan(ctx context.Context, r driver.Range) iter.Seq2[driver.Row, error] {
	if r.Index != nil {
		in := *r.Index
		r.Index = &in
	}
	if f.db.scan != nil {
		f.db.scan(&r)
	}
	return f.Family.Scan(ctx, r)
}

func (f *brokenFamily) Get(ctx context.Context, row []byte, s driver.Slice) ([]driver.Cell, error) {
	cells, err := f.Family.Get(ctx, row, s)
	if f.db.cells != nil && err == nil {
		f.db.cells(cells)
	}
	return cells, err
}

// watched is a test that is expected to fail.
type watched struct {
	testing.TB
	failed bool
}

func (w *watched) Errorf(string, ...any) { w.failed = true }
func (w *watched) FailNow()              { w.failed = true; runtime.Goexit() }
func (w *watched) Helper()               {}

func fails(t *testing.T, db driver.Indexer) bool {
	w := &watched{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		s := newSuite(w, db)
		for _, c := range checks {
			c.run(w, s, c.name+"/")
		}
	}()
	<-done
	return w.failed
}

// A database that breaks a promise fails the test.
func TestBrokenIndexers(t *testing.T) {
	eachPut := func(do func(*driver.Cell)) func(*driver.Mutation) {
		return func(m *driver.Mutation) {
			for i := range m.Puts {
				do(&m.Puts[i])
			}
		}
	}
	for name, b := range map[string]broken{
		"values are lost":       {mutate: eachPut(func(c *driver.Cell) { c.Index = nil })},
		"of several values one": {mutate: eachPut(func(c *driver.Cell) { c.Index = c.Index[:min(1, len(c.Index))] })},
		"none is kept": {mutate: eachPut(func(c *driver.Cell) {
			c.Index = slices.DeleteFunc(slices.Clone(c.Index), func(v driver.IndexValue) bool { return v.Value == nil })
		})},
		"those not named go":         {mutate: eachPut(func(c *driver.Cell) { c.Index = append([]driver.IndexValue{{Index: two}}, c.Index...) })},
		"a TTL is lost":              {mutate: eachPut(func(c *driver.Cell) { c.TTL = 0 })},
		"a replacement loses values": {replace: func(r *driver.Replacement) { r.Puts[0].Index = nil }},
		"the bounds are lost": {scan: func(r *driver.Range) {
			if r.Index != nil {
				r.Index.Start = nil
			}
		}},
		"the end is included": {scan: func(r *driver.Range) {
			if r.Index != nil && r.Index.End != nil {
				r.Index.End = append(bytes.Clone(r.Index.End), 0)
			}
		}},
		"the index is not looked at": {scan: func(r *driver.Range) { r.Index = nil }},
		"the keys are not looked at": {scan: func(r *driver.Range) { r.Start, r.End = nil, nil }},
		"a part is all":              {scan: func(r *driver.Range) { r.Part, r.Parts = 0, 0 }},
		"reads have no values": {cells: func(cells []driver.Cell) {
			for i := range cells {
				cells[i].Index = nil
			}
		}},
		"a family is made up": {added: true},
		"nothing is dropped":  {dropped: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // which has the time for values to end
				b.Indexer = drivertest.NewMemory().(driver.Indexer)
				require.True(t, fails(t, &b))
			})
		})
	}
}
