package bench

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/rangecrypt/rangecrypt/store/driver"
)

// A meter passes everything on to a database and counts the bytes that are put into its families.
type meter struct {
	driver.DB

	mu    sync.Mutex
	names []string // of the families that were opened after reset
	bytes map[string]*atomic.Int64
}

func newMeter(db driver.DB) *meter { return &meter{DB: db, bytes: make(map[string]*atomic.Int64)} }

// db returns the meter as a database that can do what the one behind it can.
func (m *meter) db() driver.DB {
	if s, ok := m.DB.(driver.Snapshotter); ok {
		return snapshotMeter{m, s}
	}
	return m
}

type snapshotMeter struct {
	*meter
	s driver.Snapshotter
}

func (m snapshotMeter) Snapshot() (driver.Snapshot, error) { return m.s.Snapshot() }

func (m *meter) Family(ctx context.Context, spec driver.FamilySpec) (driver.Family, error) {
	f, err := m.DB.Family(ctx, spec)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if !slices.Contains(m.names, spec.Name) {
		m.names = append(m.names, spec.Name)
	}
	if m.bytes[spec.Name] == nil {
		m.bytes[spec.Name] = new(atomic.Int64)
	}
	metered := meteredFamily{f, m.bytes[spec.Name]}
	if c, ok := f.(driver.Committer); ok {
		return meteredCommitter{metered, c}, nil
	}
	return metered, nil
}

// reset forgets which families were opened, not what was put into them.
func (m *meter) reset() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.names = nil
}

// opened returns the names of the families that were opened after reset.
func (m *meter) opened() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]string(nil), m.names...)
}

// put returns the length of all keys, qualifiers and values that were put into families.
func (m *meter) put(families []string) (n int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, name := range families {
		n += m.bytes[name].Load()
	}
	return n
}

type meteredFamily struct {
	driver.Family
	bytes *atomic.Int64
}

func (f meteredFamily) Apply(ctx context.Context, mutations ...driver.Mutation) error {
	if err := f.Family.Apply(ctx, mutations...); err != nil {
		return err
	}
	for _, m := range mutations {
		f.count(m.Row, m.Puts)
	}
	return nil
}

func (f meteredFamily) CheckAndPut(ctx context.Context, row []byte, expect driver.Cell, puts ...driver.Cell) (bool, error) {
	applied, err := f.Family.CheckAndPut(ctx, row, expect, puts...)
	if applied {
		f.count(row, puts)
	}
	return applied, err
}

func (f meteredFamily) count(row []byte, puts []driver.Cell) {
	n := 0
	for _, c := range puts {
		n += len(row) + len(c.Qualifier) + len(c.Value)
	}
	f.bytes.Add(int64(n))
}

func (f meteredFamily) Replace(ctx context.Context, replacements ...driver.Replacement) (late []int, err error) {
	if late, err = f.Family.Replace(ctx, replacements...); err != nil {
		return nil, err
	}
	for _, r := range replacements {
		f.count(r.Row, r.Puts)
	}
	return late, nil
}

// A meteredCommitter is a family that can check several cells, which indexes make use of.
type meteredCommitter struct {
	meteredFamily
	committer driver.Committer
}

func (f meteredCommitter) Commit(ctx context.Context, row []byte, expect, puts []driver.Cell, deletes [][]byte) (bool, error) {
	applied, err := f.committer.Commit(ctx, row, expect, puts, deletes)
	if applied {
		f.count(row, puts)
	}
	return applied, err
}
