package migrate

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/inspect"
	"github.com/rangecrypt/rangecrypt/store/internal/bykey"
)

// A row of the table that has cells of two writes is a difference, whichever part it is in, and becomes what the source has.
func TestVerifyMendsTornRowsInParts(t *testing.T) {
	s := newStage(t, 20, func(s *store.Schema) { s.CellPerColumn = true })
	s.verified()
	e := s.m.table.Now()
	keys, err := bykey.KeysOf(s.ctx, e, []store.Row{{"id": int64(3)}})
	require.NoError(t, err)
	b := e.ByName["b"].Id
	require.NoError(t, e.Data.Apply(s.ctx, driver.Mutation{Row: keys[0], Deletes: [][]byte{b[:]}}))
	const parts = 8
	verify := func(repair bool) (all Counts, found []error) {
		for i := range parts {
			done, err := s.m.Verify(s.ctx, inspect.Part{Index: i, Of: parts}, &PassOptions{Repair: repair, Finding: func(f Finding) { found = append(found, f.Err) }})
			require.NoError(t, err)
			all.Add(done.Rows)
		}
		return all, found
	}
	all, found := verify(false)
	require.Equal(t, Counts{Equal: 19, Differs: 2}, all)
	require.ElementsMatch(t, []error{errDiffers, errMixture}, found, "as the source and the table have it")
	require.NotEqual(t, "verified", s.phase())
	all, _ = verify(true)
	require.Equal(t, 1, all.Mended)
	all, found = verify(true)
	require.Equal(t, Counts{Equal: 20}, all)
	require.Empty(t, found)
	require.Equal(t, "verified", s.phase())
}
