package store_test

import (
	"context"
	"iter"
	"math/rand/v2"
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

func (f weakFamily) Scan(ctx context.Context, r driver.Range) iter.Seq2[driver.Row, error] {
	if !r.AnyOrder {
		return f.Family.Scan(ctx, r)
	}
	return func(yield func(driver.Row, error) bool) {
		var rows []driver.Row
		for row, err := range f.Family.Scan(ctx, r) {
			if err != nil {
				yield(driver.Row{}, err)
				return
			}
			rows = append(rows, row)
		}
		rng := rand.New(rand.NewPCG(f.seed, uint64(len(rows))))
		rng.Shuffle(len(rows), func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
		for _, row := range slices.Clip(rows) {
			if !yield(row, nil) {
				return
			}
		}
	}
}
