package bench

import (
	"context"
	"slices"
	"sync"

	"github.com/rangecrypt/rangecrypt/internal/intercept"
	"github.com/rangecrypt/rangecrypt/store/driver"
)

// A meter counts the bytes that are put into the families of a database.
type meter struct {
	mu    sync.Mutex
	names []string // of the families that were opened after reset
	bytes map[string]int64
}

// metered returns the database with a meter of what is done with it.
func metered(db driver.DB) (driver.DB, *meter) {
	m := &meter{bytes: make(map[string]int64)}
	return intercept.New(db, m.call, nil), m
}

func (m *meter) call(_ context.Context, op intercept.Op, c intercept.Call) error {
	if err := c.Make(nil); err != nil {
		return err
	}
	opened := op.Method == "Family"
	if !opened && c.Size == nil {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if opened && !slices.Contains(m.names, op.Family) {
		m.names = append(m.names, op.Family)
	}
	if c.Size != nil {
		_, bytes := c.Size()
		m.bytes[op.Family] += int64(bytes)
	}
	return nil
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
	return slices.Clone(m.names)
}

// put returns the length of all keys, qualifiers and values that were put into families.
func (m *meter) put(families []string) (n int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, name := range families {
		n += m.bytes[name]
	}
	return n
}
