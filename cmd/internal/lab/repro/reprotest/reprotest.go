// Package reprotest has what tests of experiments share.
package reprotest

import (
	"context"
	"strings"
	"testing"

	"github.com/rangecrypt/rangecrypt/cmd/internal/lab/bench"
	"github.com/rangecrypt/rangecrypt/cmd/internal/lab/repro/experiment"
	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
	"github.com/rangecrypt/rangecrypt/store/kms"
	"github.com/rangecrypt/rangecrypt/store/pebble"
	"github.com/stretchr/testify/require"
)

// Memory returns an empty database in memory.
func Memory() experiment.Database {
	return experiment.Database{Name: "test", DB: drivertest.NewMemory(), Key: kms.NewLocal(ope.GenerateKey())}
}

// DiskInMemory is [experiment.Database.Disk] of databases in memory whose families have the sizes that size says.
func DiskInMemory(size func(family string) uint64) func(context.Context, func(context.Context, driver.DB) error) (map[string]uint64, error) {
	return func(ctx context.Context, fill func(context.Context, driver.DB) error) (map[string]uint64, error) {
		db := drivertest.NewMemory()
		if err := fill(ctx, db); err != nil {
			return nil, err
		}
		names, err := db.Families(ctx)
		sizes := make(map[string]uint64)
		for _, name := range names {
			sizes[name] = size(name)
		}
		return sizes, err
	}
}

// Families returns the families that an experiment can leave behind: all but those of the catalogue.
func Families(t *testing.T, d experiment.Database) int {
	t.Helper()
	ctx := context.Background()
	names, err := d.DB.Families(ctx)
	require.NoError(t, err)
	st, err := store.Open(ctx, d.DB, d.Key, nil)
	require.NoError(t, err)
	tables, err := st.Tables(ctx)
	require.NoError(t, err)
	require.Empty(t, tables)
	tenants, err := st.Tenants(ctx)
	require.NoError(t, err)
	require.Empty(t, tenants)
	return len(names)
}

// Ended returns a context that has ended.
func Ended() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// WellFormed checks that rows have a cell for each column, and that findings say all that they are
// given.
func WellFormed(t *testing.T, r *experiment.Result) {
	t.Helper()
	for _, row := range r.Table.Rows {
		require.Len(t, row, len(r.Table.Columns))
	}
	for _, f := range r.Findings {
		require.NotContains(t, f.Text, "%!")
	}
}

// Smaller asks that a result says that it was measured with less than the paper has, and each verdict, too.
func Smaller(t *testing.T, r *experiment.Result) {
	t.Helper()
	require.Contains(t, strings.Join(r.Notes, "\n"), "The paper's size is ")
	require.NotEmpty(t, r.Findings)
	for _, f := range r.Findings {
		require.Contains(t, f.Text, "(Not at the paper's size.)")
	}
}

// Marks writes the verdicts of findings as signs.
func Marks(all []experiment.Finding) (text string) {
	for _, f := range all {
		switch {
		case f.Unclear:
			text += "?"
		case f.Holds:
			text += "+"
		default:
			text += "-"
		}
	}
	return text
}

// Steady returns so many measurements of about x.
func Steady(n int, x float64) (all []float64) {
	for i := range n {
		all = append(all, x*(1+0.001*float64(i%3)))
	}
	return all
}

// Database returns an empty embedded database.
func Database(t testing.TB) experiment.Database {
	ctx, key := context.Background(), kms.NewLocal(ope.GenerateKey())
	db, err := pebble.Open(t.TempDir(), nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	st, err := bench.OpenStore(ctx, db, key, true)
	require.NoError(t, err)
	return experiment.Database{Name: "test", DB: db, Key: key, Store: st}
}
