package bare

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"

	"github.com/cockroachdb/pebble/v2"
)

type pebbleStore struct {
	dir string
	db  *pebble.DB
}

// OpenPebble keeps rows in a folder that it makes in the one named, and removes in the end.
func OpenPebble(parent string) (_ Store, err error) {
	dir, err := os.MkdirTemp(parent, "opebench-bare-")
	if err != nil {
		return nil, fmt.Errorf("make a folder for bare rows: %w", err)
	}
	cache := pebble.NewCache(128 << 20) // as the tables beside it
	defer cache.Unref()
	db, err := pebble.Open(dir, &pebble.Options{Cache: cache, Logger: quiet{}})
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return &pebbleStore{dir, db}, nil
}

// quiet leaves out what the engine says of its work. What fails comes back as an error.
type quiet struct{}

func (quiet) Infof(string, ...any)           {}
func (quiet) Errorf(string, ...any)          {}
func (quiet) Fatalf(format string, a ...any) { panic("pebble: " + fmt.Sprintf(format, a...)) }

func (s *pebbleStore) Put(_ context.Context, rows []Row) error {
	b := s.db.NewBatch()
	defer b.Close()
	for _, r := range rows {
		if err := b.Set(r.Key, r.Value, nil); err != nil {
			return err
		}
	}
	return b.Commit(pebble.Sync)
}

func (s *pebbleStore) Scan(ctx context.Context, from, to []byte) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		it, err := s.db.NewIterWithContext(ctx, &pebble.IterOptions{LowerBound: from, UpperBound: to})
		if err != nil {
			yield(Row{}, err)
			return
		}
		for it.First(); it.Valid(); it.Next() {
			if !yield(Row{it.Key(), it.Value()}, nil) {
				_ = it.Close()
				return
			}
		}
		if err := it.Close(); err != nil {
			yield(Row{}, err)
		}
	}
}

func (s *pebbleStore) DiskUsage() (uint64, error) {
	if err := s.db.Flush(); err != nil {
		return 0, err
	}
	return s.db.EstimateDiskUsage([]byte{0}, []byte{0xff, 0xff})
}

func (s *pebbleStore) Close(context.Context) error {
	return errors.Join(s.db.Close(), os.RemoveAll(s.dir))
}
