package repro

import (
	"context"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/rangecrypt/rangecrypt/internal/intercept"
	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
	"github.com/rangecrypt/rangecrypt/store/kms"
)

// memory returns an empty database in memory.
func memory() Database {
	return Database{Name: "test", DB: drivertest.NewMemory(), Key: kms.NewLocal(ope.GenerateKey())}
}

// diskInMemory is [Database.Disk] of databases in memory whose families have the sizes that size says.
func diskInMemory(size func(family string) uint64) func(context.Context, func(context.Context, driver.DB) error) (map[string]uint64, error) {
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

// families returns the families that an experiment can leave behind: all but those of the catalogue.
func families(t *testing.T, d Database) int {
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

func TestWorkspaceIsDropped(t *testing.T) {
	ctx := context.Background()
	d := memory()
	_, err := store.Open(ctx, d.DB, d.Key, nil)
	require.NoError(t, err)
	before := families(t, d)
	w, err := newWorkspace(ctx, Config{Database: d})
	require.NoError(t, err)
	_, err = w.create(ctx, orderSchema(orderEncrypted))
	require.NoError(t, err)
	_, err = w.family(ctx, w.spec("f", 4))
	require.NoError(t, err)
	require.NoError(t, w.drop(ended()), "also when the experiment was interrupted")
	require.Equal(t, before, families(t, d))
}

func TestCounter(t *testing.T) {
	ctx := context.Background()
	c := new(counter)
	db := c.over(intercept.WithLatency(drivertest.NewMemory(), func() time.Duration { return 20 * time.Millisecond }))
	f, err := db.Family(ctx, driver.FamilySpec{Name: "f", Layout: driver.LayoutOrdered})
	require.NoError(t, err)
	require.Implements(t, (*driver.Committer)(nil), f)
	require.Equal(t, tally{}, c.now())

	put := func(row string) driver.Mutation {
		return driver.Mutation{Row: []byte(row), Puts: []driver.Cell{{Qualifier: []byte("q"), Value: []byte("value")}}}
	}
	require.NoError(t, f.Apply(ctx))
	require.Equal(t, tally{}, c.now(), "nothing is sent for no mutation")
	require.NoError(t, f.Apply(ctx, put("row"), put("row2")))
	require.Equal(t, tally{trips: 1, requests: 2, bytes: 3 + 4 + 2*6}, c.now())

	before := c.now()
	var group errgroup.Group
	for range 3 {
		group.Go(func() error {
			_, err := f.Get(ctx, []byte("row"), driver.Slice{})
			return err
		})
	}
	require.NoError(t, group.Wait())
	require.Equal(t, tally{trips: 1, requests: 3}, c.now().since(before), "together")

	// What is asked for while rows come is asked for after they were.
	before = c.now()
	for row, err := range f.Scan(ctx, driver.Range{}) {
		require.NoError(t, err)
		_, err = f.Get(ctx, row.Key, driver.Slice{})
		require.NoError(t, err)
	}
	require.Equal(t, tally{trips: 3, requests: 3}, c.now().since(before))

	before = c.now()
	ok, err := f.CheckAndPut(ctx, []byte("other"), driver.Cell{Qualifier: []byte("q")}, driver.Cell{Qualifier: []byte("q"), Value: []byte("v")})
	require.NoError(t, err)
	require.True(t, ok)
	ok, err = f.(driver.Committer).Commit(ctx, []byte("other"), []driver.Cell{{Qualifier: []byte("q"), Value: []byte("v")}}, nil, [][]byte{[]byte("q")})
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, tally{trips: 2, requests: 2, bytes: 7}, c.now().since(before))
}

func TestRatios(t *testing.T) {
	r := ratioOf([]float64{2, 4, 6, 8, 10, 12}, []float64{1, 2, 3, 4, 5, 6})
	require.Equal(t, ratio{2, 2, 2}, r)
	require.Equal(t, Point{X: 7, Y: 2, Low: 2, High: 2}, r.at(7))
	require.Equal(t, Point{X: 7, Y: 2}, ratio{math.NaN(), 2, math.NaN()}.at(7))
	require.Equal(t, isSo, every())
	require.Equal(t, isNot, every(isSo, unclear, isNot))
	require.Equal(t, unclear, every(isSo, unclear, isSo))
}

// ended returns a context that has ended.
func ended() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// wellFormed checks that rows have a cell for each column, and that findings say all that they are
// given.
func wellFormed(t *testing.T, r *Result) {
	t.Helper()
	for _, row := range r.Table.Rows {
		require.Len(t, row, len(r.Table.Columns))
	}
	for _, f := range r.Findings {
		require.NotContains(t, f.Text, "%!")
	}
}

// smaller asks that a result says that it was measured with less than the paper has, and each verdict, too.
func smaller(t *testing.T, r *Result) {
	t.Helper()
	require.Contains(t, strings.Join(r.Notes, "\n"), "The paper's size is ")
	require.NotEmpty(t, r.Findings)
	for _, f := range r.Findings {
		require.Contains(t, f.Text, "(Not at the paper's size.)")
	}
}

// marks writes the verdicts of findings as signs.
func marks(all []Finding) (text string) {
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

// steady returns so many measurements of about x.
func steady(n int, x float64) (all []float64) {
	for i := range n {
		all = append(all, x*(1+0.001*float64(i%3)))
	}
	return all
}
