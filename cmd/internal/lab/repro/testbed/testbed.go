// Package testbed is where experiments run: tables of their own in the configured database, a network to it whose weather they
// set, and counts of what is asked of it.
package testbed

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/rangecrypt/rangecrypt/cmd/internal/lab/repro/experiment"
	"github.com/rangecrypt/rangecrypt/internal/intercept"
	"github.com/rangecrypt/rangecrypt/internal/pause"
	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/kms"
	"github.com/rangecrypt/rangecrypt/store/paged"
)

// A Workspace is what an experiment makes in the configured database for itself, under names that
// nobody else has.
type Workspace struct {
	DB       driver.DB
	Master   kms.KMS
	Key      ope.Key // of what is no table of the store
	Store    *store.Store
	prefix   string
	tables   []string
	tenants  []string
	families []string
}

// NewWorkspace opens the store of the configured database, and makes nothing yet.
func NewWorkspace(ctx context.Context, cfg experiment.Config) (*Workspace, error) {
	st, err := store.Open(ctx, cfg.Database.DB, cfg.Database.Key, nil)
	if err != nil {
		return nil, err
	}
	var id [8]byte
	rand.Read(id[:])
	return &Workspace{DB: cfg.Database.DB, Master: cfg.Database.Key, Key: ope.GenerateKey(), Store: st, prefix: "repro" + hex.EncodeToString(id[:])}, nil
}

// Name returns the name that a table of the experiment has in the store.
func (w *Workspace) Name(table string) string { return w.prefix + " " + table }

// Create makes a table, whose name is of the experiment.
func (w *Workspace) Create(ctx context.Context, schema store.Schema) (*store.Table, error) {
	schema.Name = w.Name(schema.Name)
	w.tables = append(w.tables, schema.Name) // also where it fails: it may be there
	return w.Store.Create(ctx, schema)
}

// CreatePages makes a table of pages, whose name is of the experiment.
func (w *Workspace) CreatePages(ctx context.Context, schema store.Schema) (*paged.Table, error) {
	schema.Name = w.Name(schema.Name)
	w.tables = append(w.tables, schema.Name) // also where it fails: it may be there
	return paged.Create(ctx, w.Store, schema, paged.Rows)
}

// Tenant makes a tenant, whose name is of the experiment, unless it did so before.
func (w *Workspace) Tenant(ctx context.Context, name string) error {
	if name = w.Name(name); slices.Contains(w.tenants, name) {
		return nil
	}
	w.tenants = append(w.tenants, name)
	return w.Store.CreateTenant(ctx, name)
}

// Spec describes a family whose row keys begin with a prefix that names the partition. The name
// has at most 19 bytes.
func (w *Workspace) Spec(name string, prefixBytes int) driver.FamilySpec {
	return driver.FamilySpec{Name: w.prefix + name, Layout: driver.LayoutOrdered, PrefixBytes: prefixBytes}
}

// Family makes a family.
func (w *Workspace) Family(ctx context.Context, spec driver.FamilySpec) (driver.Family, error) {
	w.families = append(w.families, spec.Name)
	return w.DB.Family(ctx, spec)
}

// Drop removes all that was made.
func (w *Workspace) Drop(ctx context.Context) (err error) {
	ctx = context.WithoutCancel(ctx)
	for _, name := range w.tables {
		if e := w.Store.Drop(ctx, name); !errors.Is(e, store.ErrNoTable) {
			err = errors.Join(err, e)
		}
	}
	for _, name := range w.tenants {
		if e := w.Store.DropTenant(ctx, name); !errors.Is(e, store.ErrNoTenant) {
			err = errors.Join(err, e)
		}
	}
	for _, name := range w.families {
		err = errors.Join(err, w.DB.Drop(ctx, name))
	}
	return err
}

// DiskOf returns how many bytes of the disk each of n things takes, in families that fill makes and fills for it one after
// the other. It is for databases that know it.
func DiskOf(ctx context.Context, cfg experiment.Config, n int, fill func(ctx context.Context, w *Workspace, db driver.DB, i int) error) ([]uint64, error) {
	of := make(map[string]int) // by family
	sizes, err := cfg.Database.Disk(ctx, func(ctx context.Context, db driver.DB) error {
		w, err := NewWorkspace(ctx, experiment.Config{Database: experiment.Database{DB: db, Key: cfg.Database.Key}})
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

// A Tally is what was asked of a database.
type Tally struct {
	Trips    int // one after the other; requests that are under way together are one
	Requests int // reads, scans, and mutations of a row
	Bytes    int // of the row keys, qualifiers and values that were put
}

// Since returns what was asked after an earlier tally.
func (t Tally) Since(before Tally) Tally {
	return Tally{t.Trips - before.Trips, t.Requests - before.Requests, t.Bytes - before.Bytes}
}

// A Counter counts what is asked of a database through [Counter.Over].
type Counter struct {
	mu   sync.Mutex
	open int // requests under way
	n    Tally
}

// Over returns the database with what is asked of it counted, without snapshots, so that every
// database is asked for the same.
func (c *Counter) Over(db driver.DB) driver.DB {
	return intercept.New(struct{ driver.DB }{db}, c.call, nil)
}

// Now returns what was asked so far.
func (c *Counter) Now() Tally {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n
}

func (c *Counter) call(_ context.Context, op intercept.Op, call intercept.Call) error {
	var asked Tally
	switch {
	case op.Method == "Get" || op.Method == "GetBatch" || op.Method == "Scan":
		asked.Requests = 1
	case call.Size == nil:
		return call.Make(nil)
	default:
		if asked.Requests, asked.Bytes = call.Size(); asked.Requests == 0 {
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

func (c *Counter) begin(asked Tally) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open == 0 {
		c.n.Trips++
	}
	c.open++
	c.n.Requests += asked.Requests
	c.n.Bytes += asked.Bytes
}

// A Holding is a database that knows which families were used through it.
type Holding struct {
	driver.DB
	mu   sync.Mutex
	used map[string]driver.FamilySpec
}

func (h *Holding) Family(ctx context.Context, spec driver.FamilySpec) (driver.Family, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.used == nil {
		h.used = make(map[string]driver.FamilySpec)
	}
	h.used[spec.Name] = spec
	return h.DB.Family(ctx, spec)
}

// Stored returns how many bytes of cells the families have that were used, each cell with its row key and its qualifier.
func (h *Holding) Stored(ctx context.Context) (bytes int, err error) {
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

// Quiet waits until nothing was asked for some time: what goes on after an answer has ended then.
func (c *Counter) Quiet(ctx context.Context, d time.Duration) error {
	before := -1
	for range mostQuiet {
		c.mu.Lock()
		now, open := c.n.Requests, c.open
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

func (c *Counter) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open--
}
