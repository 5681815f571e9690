package repro

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/rangecrypt/rangecrypt/internal/intercept"
	"github.com/rangecrypt/rangecrypt/internal/median"
	"github.com/rangecrypt/rangecrypt/internal/pause"
	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/kms"
	"github.com/rangecrypt/rangecrypt/store/paged"
)

// A workspace is what an experiment makes in the configured database for itself, under names that
// nobody else has.
type workspace struct {
	db       driver.DB
	master   kms.KMS
	key      ope.Key // of what is no table of the store
	store    *store.Store
	prefix   string
	tables   []string
	tenants  []string
	families []string
}

func newWorkspace(ctx context.Context, cfg Config) (*workspace, error) {
	st, err := store.Open(ctx, cfg.Database.DB, cfg.Database.Key, nil)
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

// createPages makes a table of pages, whose name is of the experiment.
func (w *workspace) createPages(ctx context.Context, schema store.Schema) (*paged.Table, error) {
	schema.Name = w.name(schema.Name)
	w.tables = append(w.tables, schema.Name) // also where it fails: it may be there
	return paged.Create(ctx, w.store, schema, paged.Rows)
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

// diskOf returns how many bytes of the disk each of n things takes, in families that fill makes and fills for it one after
// the other. It is for databases that know it.
func diskOf(ctx context.Context, cfg Config, n int, fill func(ctx context.Context, w *workspace, db driver.DB, i int) error) ([]uint64, error) {
	of := make(map[string]int) // by family
	sizes, err := cfg.Database.Disk(ctx, func(ctx context.Context, db driver.DB) error {
		w, err := newWorkspace(ctx, Config{Database: Database{DB: db, Key: cfg.Database.Key}})
		if err != nil {
			return err
		}
		before, err := db.Families(ctx)
		if err != nil {
			return err
		}
		for i := range n {
			if err := fill(ctx, w, db, i); err != nil {
				return err
			}
			after, err := db.Families(ctx)
			if err != nil {
				return err
			}
			for _, family := range after {
				if !slices.Contains(before, family) {
					of[family] = i
				}
			}
			before = after
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("space on the disk: %w", err)
	}
	all := make([]uint64, n)
	for family, i := range of {
		all[i] += sizes[family]
	}
	return all, nil
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

// A counter counts what is asked of a database through [counter.over].
type counter struct {
	mu   sync.Mutex
	open int // requests under way
	n    tally
}

// over returns the database with what is asked of it counted, without snapshots, so that every
// database is asked for the same.
func (c *counter) over(db driver.DB) driver.DB {
	return intercept.New(struct{ driver.DB }{db}, c.call, nil)
}

func (c *counter) now() tally {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n
}

func (c *counter) call(_ context.Context, op intercept.Op, call intercept.Call) error {
	var asked tally
	switch {
	case op.Method == "Get" || op.Method == "GetBatch" || op.Method == "Scan":
		asked.requests = 1
	case call.Size == nil:
		return call.Make(nil)
	default:
		if asked.requests, asked.bytes = call.Size(); asked.requests == 0 {
			return nil // nothing is sent
		}
	}
	c.begin(asked)
	end := sync.OnceFunc(c.end)
	defer end()
	// A scan is under way until it has a row: what the caller does then comes after it.
	return call.Make(func(int) error {
		end()
		return nil
	})
}

func (c *counter) begin(asked tally) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open == 0 {
		c.n.trips++
	}
	c.open++
	c.n.requests += asked.requests
	c.n.bytes += asked.bytes
}

// A holding is a database that knows which families were used through it.
type holding struct {
	driver.DB
	mu   sync.Mutex
	used map[string]driver.FamilySpec
}

func (h *holding) Family(ctx context.Context, spec driver.FamilySpec) (driver.Family, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.used == nil {
		h.used = make(map[string]driver.FamilySpec)
	}
	h.used[spec.Name] = spec
	return h.DB.Family(ctx, spec)
}

// stored returns how many bytes of cells the families have that were used, each cell with its row key and its qualifier.
func (h *holding) stored(ctx context.Context) (bytes int, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, spec := range h.used {
		f, err := h.DB.Family(ctx, spec)
		if err != nil {
			return 0, err
		}
		for row, err := range f.Scan(ctx, driver.Range{AnyOrder: true}) {
			if err != nil {
				return 0, err
			}
			for _, c := range row.Cells {
				bytes += len(row.Key) + len(c.Qualifier) + len(c.Value)
			}
		}
	}
	return bytes, nil
}

// mostQuiet is how many times quiet waits.
const mostQuiet = 100

// quiet waits until nothing was asked for some time: what goes on after an answer has ended then.
func (c *counter) quiet(ctx context.Context, d time.Duration) error {
	before := -1
	for range mostQuiet {
		c.mu.Lock()
		now, open := c.n.requests, c.open
		c.mu.Unlock()
		if open == 0 && now == before {
			return nil
		}
		before = now
		if err := pause.For(ctx, d); err != nil {
			return err
		}
	}
	return nil
}

func (c *counter) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open--
}

// medianOf returns the median of values with its 95 % confidence interval.
func medianOf(values []float64) ratio {
	low, mid, high := median.Of(values)
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

// meanRatio returns the median, over the rounds, of the mean of the ratios of several xs to ys, each by round.
func meanRatio(xs, ys [][]float64) ratio {
	var all []float64
	for round := range xs[0] {
		sum := 0.0
		for i := range xs {
			sum += xs[i][round] / ys[i][round]
		}
		all = append(all, sum/float64(len(xs)))
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
