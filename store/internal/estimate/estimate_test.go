package estimate

import (
	"context"
	"encoding/binary"
	"iter"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
)

// A dying is a family whose rows are all deleted after some scans.
type dying struct {
	driver.Family
	left int
}

func (d *dying) Scan(ctx context.Context, r driver.Range) iter.Seq2[driver.Row, error] {
	if d.left--; d.left < 0 {
		return func(func(driver.Row, error) bool) {}
	}
	return d.Family.Scan(ctx, r)
}

// Others delete rows while they are counted, also all of them.
func TestRowsThatGoMeanwhile(t *testing.T) {
	const rows = 1000
	f, err := drivertest.NewMemory().Family(t.Context(), driver.FamilySpec{Name: "rows", Layout: driver.LayoutOrdered})
	require.NoError(t, err)
	for i := range rows {
		m := driver.Mutation{Row: binary.BigEndian.AppendUint32(nil, uint32(i)), Puts: []driver.Cell{{Value: []byte("v")}}}
		require.NoError(t, f.Apply(t.Context(), m))
	}
	all := func(rows []driver.Row) (int, error) { return len(rows), nil }
	for scans := range 40 {
		k := Keys{Family: &dying{f, scans}, Scans: []driver.Range{{}}}
		s, err := k.Draw(t.Context(), 4, 8, all)
		require.NoError(t, err)
		require.LessOrEqual(t, s.Rows, 10.0*rows)
	}
}
