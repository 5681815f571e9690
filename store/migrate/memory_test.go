package migrate

import (
	"context"
	"fmt"
	"hash/fnv"
	"iter"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/inspect"
)

// A memorySource is a table in memory, with the key "id" and the columns "a" and "b" of integers.
type memorySource struct {
	tied        bool // the key has a second part, "tie": a tie-breaker, as of rows that are never replaced
	mu          sync.Mutex
	rows        map[int64]Found
	fingerprint string
	ttl         time.Duration
	unmapped    []string
	dropped     bool
	drops       int
	ahead       time.Duration           // of its clock, by which rows are written, beside this machine's
	before      func(what string) error // each call, if not nil
	scanned     func(rows int)          // after each row of a scan, if not nil
}

func newMemorySource() *memorySource {
	return &memorySource{rows: make(map[int64]Found), fingerprint: "1"}
}

func (s *memorySource) appends() bool { return s.tied }

// key returns the key of a row.
func (s *memorySource) key(id int64) store.Row {
	if !s.tied {
		return store.Row{"id": id}
	}
	return store.Row{"id": id, "tie": [16]byte{0: 1, 15: byte(id)}}
}

func (s *memorySource) call(what string) error {
	if s.before == nil {
		return nil
	}
	return s.before(what)
}

func (s *memorySource) Name() string { return "memory:orders" }

func (s *memorySource) Now(context.Context) (time.Time, error) { return time.Now().Add(s.ahead), nil }

func (s *memorySource) Fingerprint(context.Context) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dropped {
		return "", driver.ErrNoFamily
	}
	return s.fingerprint, nil
}

func (s *memorySource) Describe(context.Context) (Description, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dropped {
		return Description{}, driver.ErrNoFamily
	}
	key := []Column{{Name: "id", Type: store.Int64, Foreign: "bigint"}}
	if s.tied {
		key = append(key, Column{Name: "tie", Type: store.UUID, Foreign: "uuid"})
	}
	return Description{
		Key:      key,
		Columns:  []Column{{Name: "a", Type: store.Int64, Foreign: "bigint"}, {Name: "b", Type: store.Int64, Foreign: "bigint"}},
		Unmapped: s.unmapped, Rows: int64(len(s.rows)), TTL: s.ttl, BeforeDrop: []string{"Remove snapshots."},
	}, nil
}

// partOf returns which of some parts a row is in.
func partOf(id int64, parts int) int {
	h := fnv.New32a()
	fmt.Fprint(h, id)
	return int(uint64(h.Sum32()) * uint64(parts) >> 32)
}

func (s *memorySource) Scan(_ context.Context, part inspect.Part) iter.Seq2[Found, error] {
	return func(yield func(Found, error) bool) {
		s.mu.Lock()
		ids := slices.Sorted(maps.Keys(s.rows))
		s.mu.Unlock()
		for n, id := range ids {
			if partOf(id, part.Of) != part.Index {
				continue
			}
			if err := s.call("scan"); err != nil {
				yield(Found{}, err)
				return
			}
			s.mu.Lock()
			f, there := s.rows[id]
			s.mu.Unlock()
			if there && !yield(copyOf(f), nil) {
				return
			}
			if s.scanned != nil {
				s.scanned(n)
			}
		}
	}
}

func copyOf(f Found) Found {
	f.Row = maps.Clone(f.Row)
	return f
}

func (s *memorySource) Read(_ context.Context, keys []store.Row) ([]Found, error) {
	if err := s.call("read"); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]Found, len(keys))
	for i, key := range keys {
		id := key["id"].(int64)
		if f, there := s.rows[id]; there {
			all[i] = copyOf(f)
		} else {
			all[i] = Found{Row: s.key(id)}
		}
	}
	return all, nil
}

func (s *memorySource) Drop(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dropped, s.rows = true, nil
	s.drops++
	return nil
}

func (s *memorySource) Remains(context.Context) ([]Remain, error) {
	return []Remain{{What: "snapshot", Where: "node 1", Seen: true, Advice: "Clear it."}}, nil
}

// change changes a row as the application does: nil is no row, and columns that are not named stay.
func (s *memorySource) change(id int64, row store.Row, life time.Duration) error {
	if err := s.call("write"); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if row == nil {
		delete(s.rows, id)
		return nil
	}
	f := s.rows[id]
	f.Exists, f.Written, f.Expires = true, time.Now().Add(s.ahead), time.Time{}
	if f.Row = maps.Clone(f.Row); f.Row == nil {
		f.Row = s.key(id)
	}
	maps.Copy(f.Row, row)
	if life > 0 {
		f.Expires = time.Now().Add(life)
	}
	s.rows[id] = f
	return nil
}
