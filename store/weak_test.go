package store_test

import (
	"cmp"
	"context"
	"encoding/binary"
	"hash/fnv"
	"iter"
	"slices"

	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
)

// weakDB promises no more than a driver must: no snapshots, no commits of several conditions, and
// rows in any order where any will do.
type weakDB struct {
	driver.DB
	seed uint64
}

type weakFamily struct {
	driver.Family
	seed uint64
}

func newWeak(seed uint64) driver.DB { return weakDB{drivertest.NewMemory(), seed} }

func (db weakDB) Family(ctx context.Context, spec driver.FamilySpec) (driver.Family, error) {
	f, err := db.DB.Family(ctx, spec)
	if err != nil {
		return nil, err
	}
	return weakFamily{f, db.seed}, nil
}

func (db weakDB) AddIndex(ctx context.Context, spec driver.FamilySpec, name string) error {
	return driver.AddIndex(ctx, db.DB, spec, name)
}

func (db weakDB) DropIndex(ctx context.Context, spec driver.FamilySpec, name string) error {
	return driver.DropIndex(ctx, db.DB, spec, name)
}

func (f weakFamily) Scan(ctx context.Context, r driver.Range) iter.Seq2[driver.Row, error] {
	if !r.AnyOrder {
		return f.Family.Scan(ctx, r)
	}
	return func(yield func(driver.Row, error) bool) {
		after := r.After
		r.After = nil
		var rows []driver.Row
		for row, err := range f.Family.Scan(ctx, r) {
			if err != nil {
				yield(driver.Row{}, err)
				return
			}
			rows = append(rows, row)
		}
		place := func(key []byte) uint64 {
			h := fnv.New64a()
			h.Write(binary.BigEndian.AppendUint64(nil, f.seed))
			h.Write(key)
			return h.Sum64()
		}
		slices.SortFunc(rows, func(a, b driver.Row) int { return cmp.Compare(place(a.Key), place(b.Key)) })
		if after != nil {
			rows = slices.DeleteFunc(rows, func(row driver.Row) bool { return place(row.Key) <= place(after) })
		}
		for _, row := range slices.Clip(rows) {
			if !yield(row, nil) {
				return
			}
		}
	}
}
