package repro

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"sync"

	"github.com/rangecrypt/rangecrypt/internal/measure"
	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/driver"
)

// A workspace is what an experiment makes in the configured database for itself, under names that
// nobody else has.
type workspace struct {
	db       driver.DB
	master   store.KMS
	key      ope.Key // of what is no table of the store
	store    *store.Store
	prefix   string
	tables   []string
	tenants  []string
	families []string
}

func newWorkspace(ctx context.Context, cfg Config) (*workspace, error) {
	st, err := store.OpenKMS(ctx, cfg.Database.DB, cfg.Database.Key, nil)
	if err != nil {
		return nil, err
	}
	var id [8]byte
	rand.Read(id[:])
	return &workspace{db: cfg.Database.DB, master: cfg.Database.Key, key: ope.GenerateKey(), store: st, prefix: "repro" + hex.EncodeToString(id[:])}, nil
}

// name returns the name that a table of the experiment has in the store.
func (w *workspace) name(table string) string { return w.prefix + " " + table }

// create makes a table, whose name is of the experiment.
func (w *workspace) create(ctx context.Context, schema store.Schema) (*store.Table, error) {
	schema.Name = w.name(schema.Name)
	w.tables = append(w.tables, schema.Name) // also where it fails: it may be there
	return w.store.Create(ctx, schema)
}

// tenant makes a tenant, whose name is of the experiment, unless it did so before.
func (w *workspace) tenant(ctx context.Context, name string) error {
	if name = w.name(name); slices.Contains(w.tenants, name) {
		return nil
	}
	w.tenants = append(w.tenants, name)
	return w.store.CreateTenant(ctx, name)
}

// spec describes a family whose row keys begin with a prefix that names the partition. The name
// has at most 19 bytes.
func (w *workspace) spec(name string, prefixBytes int) driver.FamilySpec {
	return driver.FamilySpec{Name: w.prefix + name, Layout: driver.LayoutOrdered, PrefixBytes: prefixBytes}
}

func (w *workspace) family(ctx context.Context, spec driver.FamilySpec) (driver.Family, error) {
	w.families = append(w.families, spec.Name)
	return w.db.Family(ctx, spec)
}

// drop removes all that was made.
func (w *workspace) drop(ctx context.Context) (err error) {
	ctx = context.WithoutCancel(ctx)
	for _, name := range w.tables {
		if e := w.store.Drop(ctx, name); !errors.Is(e, store.ErrNoTable) {
			err = errors.Join(err, e)
		}
	}
	for _, name := range w.tenants {
		if e := w.store.DropTenant(ctx, name); !errors.Is(e, store.ErrNoTenant) {
			err = errors.Join(err, e)
		}
	}
	for _, name := range w.families {
		err = errors.Join(err, w.db.Drop(ctx, name))
	}
	return err
}

// A tally is what was asked of a database.
type tally struct {
	trips    int // one after the other; requests that are under way together are one
	requests int // reads, scans, and mutations of a row
	bytes    int // of the row keys, qualifiers and values that were put
}

func (t tally) since(before tally) tally {
	return tally{t.trips - before.trips, t.requests - before.requests, t.bytes - before.bytes}
}

// A counter passes everything on to a database and counts it. Of the optional interfaces it has
// driver.Committer, in families that have it.
type counter struct {
	driver.DB

	mu   sync.Mutex
	open int // requests under way
	n    tally
}

func (c *counter) now() tally {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n
}

func (c *counter) begin(requests int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open == 0 {
		c.n.trips++
	}
	c.open++
	c.n.requests += requests
}

func (c *counter) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open--
}

func (c *counter) put(row []byte, cells []driver.Cell) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, cell := range cells {
		c.n.bytes += len(row) + len(cell.Qualifier) + len(cell.Value)
	}
}

func (c *counter) Family(ctx context.Context, spec driver.FamilySpec) (driver.Family, error) {
	f, err := c.DB.Family(ctx, spec)
	if err != nil {
		return nil, err
	}
	if committer, ok := f.(driver.Committer); ok {
		return countedCommitter{countedFamily{f, c}, committer}, nil
	}
	return countedFamily{f, c}, nil
}

type countedFamily struct {
	driver.Family
	c *counter
}

func (f countedFamily) Get(ctx context.Context, row []byte, cells driver.Slice) ([]driver.Cell, error) {
	f.c.begin(1)
	defer f.c.end()
	return f.Family.Get(ctx, row, cells)
}

// Scan is under way until it yields something: what the caller does then comes after it.
func (f countedFamily) Scan(ctx context.Context, r driver.Range) iter.Seq2[driver.Row, error] {
	return func(yield func(driver.Row, error) bool) {
		f.c.begin(1)
		end := sync.OnceFunc(f.c.end)
		defer end()
		for row, err := range f.Family.Scan(ctx, r) {
			end()
			if !yield(row, err) {
				return
			}
		}
	}
}

func (f countedFamily) Apply(ctx context.Context, mutations ...driver.Mutation) error {
	if len(mutations) == 0 {
		return nil
	}
	f.c.begin(len(mutations))
	defer f.c.end()
	for _, m := range mutations {
		f.c.put(m.Row, m.Puts)
	}
	return f.Family.Apply(ctx, mutations...)
}

func (f countedFamily) Replace(ctx context.Context, replacements ...driver.Replacement) (late []int, err error) {
	if len(replacements) == 0 {
		return nil, nil
	}
	f.c.begin(len(replacements))
	defer f.c.end()
	for _, r := range replacements {
		f.c.put(r.Row, r.Puts)
	}
	return f.Family.Replace(ctx, replacements...)
}

func (f countedFamily) CheckAndPut(ctx context.Context, row []byte, expect driver.Cell, puts ...driver.Cell) (bool, error) {
	f.c.begin(1)
	defer f.c.end()
	f.c.put(row, puts)
	return f.Family.CheckAndPut(ctx, row, expect, puts...)
}

type countedCommitter struct {
	countedFamily
	committer driver.Committer
}

func (f countedCommitter) Commit(ctx context.Context, row []byte, expect, puts []driver.Cell, deletes [][]byte) (bool, error) {
	f.c.begin(1)
	defer f.c.end()
	f.c.put(row, puts)
	return f.committer.Commit(ctx, row, expect, puts, deletes)
}

// medianOf returns the median of values with its 95 % confidence interval.
func medianOf(values []float64) ratio {
	low, mid, high := measure.Median(values)
	return ratio{low, mid, high}
}

// ratioOf returns the median of the ratios of xs to ys, whose elements are pairs.
func ratioOf(xs, ys []float64) ratio {
	var all []float64
	for i := range min(len(xs), len(ys)) {
		all = append(all, xs[i]/ys[i])
	}
	return medianOf(all)
}

// at returns the point of a curve at x.
func (r ratio) at(x float64) Point {
	p := Point{X: x, Y: r.mid}
	if !math.IsNaN(r.low) {
		p.Low, p.High = r.low, r.high
	}
	return p
}

// every says whether all are so.
func every(all ...verdict) verdict {
	v := isSo
	for _, x := range all {
		v = both(v, x)
	}
	return v
}

// early notes that fewer rounds were done than planned.
func (r *Result) early(planned int) {
	if r.Runs < planned {
		r.Notes = append(r.Notes, fmt.Sprintf("It ended early: %d of %d rounds.", r.Runs, planned))
	}
}
