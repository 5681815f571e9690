package store

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/rangecrypt/rangecrypt/store/inspect"
	"github.com/rangecrypt/rangecrypt/store/internal/forms"
	"github.com/rangecrypt/rangecrypt/store/internal/scheme"
	"github.com/rangecrypt/rangecrypt/store/kms"
	"github.com/rangecrypt/rangecrypt/store/pebble"
)

// A rebuiltWorld is a simulation in which writers put rows whose key has an index, with values that are new to it, while
// other clients make the index again. After every step each row must be there once, as it was last acknowledged or as a
// call under way or of a client that died has it; and no call may fail for another reason than that its client dies.
//
// With ranks the key has no index, but a column has one, by which queries must find each row that is at rest. A writer that died
// may have stored its row as the schema was, so that the column leads to it after the next conversion.
type rebuiltWorld struct {
	*schemaWorld
	ranks    bool
	writes   map[[2]int64][]rowWrite // by writer and value
	rebuilds int
}

// simulateRebuilds lets two writers put what they have in common, and two clients make the index again twice each.
func simulateRebuilds(t *testing.T, seed uint64, crashes float64, ranks bool) *rebuiltWorld {
	t.Helper()
	s := &rebuiltWorld{schemaWorld: newSchemaWorld(t, schemaVariant{}, seed), ranks: ranks, writes: make(map[[2]int64][]rowWrite)}
	s.tenant = false
	s.watch = s.lookAtRows
	synctest.Test(t, func(t *testing.T) {
		observer, err := Open(context.Background(), noSnapshots{s.db, true}, kms.NewLocal(s.key), nil)
		require.NoError(t, err)
		schema := Schema{
			Name: "t", CellPerColumn: seed%2 == 1, Key: []KeyPart{HashedPart("w", Int64), OrderedPart("k", Int8, WozniakIndexed)},
			Columns: []Column{RandomisedColumn("note", Int64)},
		}
		if ranks {
			schema.Key[1], schema.Columns = HashedPart("k", Int8), append(schema.Columns, OrderedColumn("v", Int8, KerschbaumRanked))
		}
		_, err = observer.Create(context.Background(), schema)
		require.NoError(t, err)
		var group sync.WaitGroup
		for w := range int64(2) {
			s.start(&group, func() { s.putsNew(w, rand.New(rand.NewPCG(seed, uint64(w)+10))) })
			s.start(&group, s.rebuildsIt)
		}
		s.steps(crashes)
		group.Wait()
		s.lookAtRows()
		st, err := Open(context.Background(), noSnapshots{s.db, true}, kms.NewLocal(s.key), nil)
		require.NoError(t, err)
		tbl, err := st.Table(context.Background(), "t")
		require.NoError(t, err)
		switch {
		case ranks: // what dead clients left
			_, err := tbl.Convert(context.Background(), nil)
			require.NoError(t, err)
			s.lookAtRows()
		case s.fresh.now().ByName["k"].Filling: // who did it has died
			require.NoError(t, tbl.RebuildIndex(context.Background(), "k", nil))
		}
		report, err := tbl.Verify(context.Background(), &VerifyOptions{Fault: func(f inspect.Fault) { s.fail("%s: %v", f.Kind, f.Err) }})
		require.NoError(t, err)
		if report.Rows > len(s.writes) {
			s.fail("there are %d rows of %d", report.Rows, len(s.writes))
		}
	})
	return s
}

func (s *rebuiltWorld) putsNew(w int64, r *rand.Rand) {
	tbl := s.tableOf(true)
	for n := int64(1); n <= 8; n++ {
		k := int64(r.IntN(8)*30 - 120)
		of, note := [2]int64{w, k}, 100*n+w
		s.mu.Lock()
		s.writes[of] = append(s.writes[of], rowWrite{note: note, began: s.step})
		s.mu.Unlock()
		row := Row{"w": w, "k": int8(k), "note": note}
		if s.ranks {
			row["v"] = int8(note * 37)
		}
		err := tbl.Put(context.Background(), row)
		switch {
		case errors.Is(err, errDead):
			tbl = s.tableOf(true)
		case err != nil:
			s.fail("put: %v", err)
		default:
			s.mu.Lock()
			s.writes[of][len(s.writes[of])-1].acked = s.step
			s.mu.Unlock()
		}
	}
}

func (s *rebuiltWorld) rebuildsIt() {
	tbl := s.tableOf(true)
	for range 2 {
		column := "k"
		if s.ranks {
			column = "v"
		}
		err := tbl.RebuildIndex(context.Background(), column, nil)
		switch {
		case errors.Is(err, errDead):
			tbl = s.tableOf(true)
		case err != nil:
			s.fail("rebuild: %v", err)
		default:
			s.mu.Lock()
			s.rebuilds++
			s.mu.Unlock()
		}
	}
}

func (s *rebuiltWorld) lookAtRows() {
	ctx, at := context.Background(), s.now()+1
	st, err := Open(ctx, noSnapshots{s.db, true}, kms.NewLocal(s.key), nil)
	if err == nil {
		s.fresh, err = st.Table(ctx, "t")
	}
	if err != nil {
		s.fail("a new client: %v", err)
		return
	}
	s.mu.Lock()
	all := make(map[[2]int64][]rowWrite, len(s.writes))
	for of, writes := range s.writes {
		all[of] = slices.Clone(writes)
	}
	s.mu.Unlock()
	found := make(map[[2]int64]any)
	for row, err := range s.fresh.Query(ctx, Query{}) {
		if err != nil {
			s.fail("query: %v", err)
			return
		}
		of := [2]int64{row["w"].(int64), int64(row["k"].(int8))}
		if found[of] != nil {
			s.fail("a row is there twice")
		}
		found[of] = row["note"]
	}
	for of, writes := range all {
		s.checks++
		// A call that died may have taken effect, and none after it was acknowledged.
		if !allowed(writes, found[of] != nil, int8(0), found[of], at, at) {
			s.fail("an acknowledged row is lost: %v, has %v of %v", of, found[of], writes)
		}
		row, err := s.fresh.Get(ctx, Row{"w": of[0], "k": int8(of[1])})
		if err != nil || (row == nil) != (found[of] == nil) {
			s.fail("a row is not found by its key: %v", err)
		}
	}
	if s.ranks {
		s.lookByColumn(all, at)
	}
}

// lookByColumn looks for rows that are at rest by the column with ranks, where that leads to all rows.
func (s *rebuiltWorld) lookByColumn(all map[[2]int64][]rowWrite, at int) {
	tied := s.clock != nil && s.clock.ties > 0
	if !forms.Drive(s.fresh.now().ByName["v"]) || tied && (s.running > 0 || s.clients > 4) {
		return // see schemaWorld.look
	}
	found := make(map[[2]int64]any)
	for row, err := range s.fresh.Query(context.Background(), Query{Where: Int8.Field("v").AtLeast(-128), By: "v"}) {
		if err != nil {
			s.fail("query by column: %v", err)
			return
		}
		found[[2]int64{row["w"].(int64), int64(row["k"].(int8))}] = row["note"]
	}
	for of, writes := range all {
		if last, rests := atRest(writes, at); rests {
			if s.driven++; found[of] != any(last.note) {
				s.fail("an acknowledged row is not found by the column: %v, has %v of %v", of, found[of], writes)
			}
		}
	}
}

func TestRebuildsUnderWritersSimulated(t *testing.T) {
	for name, ranks := range map[string]bool{"part of the key": false, "column with ranks": true} {
		t.Run(name, func(t *testing.T) {
			var checks, driven, rebuilds, crashes int
			runs := max(10, *simRuns/4)
			for i := range runs {
				seed := *simSeed + uint64(i)
				s := simulateRebuilds(t, seed, []float64{0, 0.004}[i%2], ranks)
				require.Empty(t, s.bad[:min(3, len(s.bad))], "-store.simseed=%d", seed)
				checks, driven, rebuilds, crashes = checks+s.checks, driven+s.driven, rebuilds+s.rebuilds, crashes+s.clients-4
			}
			t.Logf("%d runs, %d checks, %d by the column, %d indexes made again, %d crashes", runs, checks, driven, rebuilds, crashes)
			require.Greater(t, rebuilds, runs)
			require.Positive(t, crashes)
			require.Equal(t, ranks, driven > runs)
		})
	}
}

// On a database with snapshots, where clients run as they like: no Put fails, no query returns a row twice or misses one that
// was acknowledged before, or fails.
func TestRebuildsUnderWriters(t *testing.T) {
	t.Run("one unit", rebuildsUnderWriters)
	t.Run("divided units", func(t *testing.T) {
		scheme.UnitValues.Store(64)
		t.Cleanup(func() { scheme.UnitValues.Store(0) })
		rebuildsUnderWriters(t)
	})
}

func rebuildsUnderWriters(t *testing.T) {
	ctx := t.Context()
	db, err := pebble.Open(t.TempDir(), nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	const writers, puts = 3, 12
	clients := stores(t, db, writers+2)
	_, err = clients[0].Create(ctx, Schema{
		Name: "t", Key: []KeyPart{HashedPart("w", Int64), OrderedPart("k", Int64, WozniakIndexed)},
		Columns: []Column{RandomisedColumn("v", Int64)},
	})
	require.NoError(t, err)
	var acked [writers]atomic.Int64
	var group errgroup.Group
	var writing atomic.Int64
	writing.Store(writers)
	for w := range int64(writers) {
		group.Go(func() error {
			defer writing.Add(-1)
			tbl, err := clients[w].Table(ctx, "t")
			for i := int64(0); i < puts && err == nil; i++ {
				var rows []Row
				for k := i * 10; k < i*10+10; k++ {
					rows = append(rows, Row{"w": w, "k": k * 7919 % 1000, "v": k})
				}
				if err = tbl.Put(ctx, rows...); err == nil {
					acked[w].Add(10)
				}
			}
			return err
		})
	}
	group.Go(func() error {
		tbl, err := clients[writers].Table(ctx, "t")
		for err == nil && writing.Load() > 0 {
			err = tbl.RebuildIndex(ctx, "k", nil)
		}
		return err
	})
	tbl, err := clients[writers+1].Table(ctx, "t")
	require.NoError(t, err)
	for last := false; !last; {
		last = writing.Load() == 0
		var before [writers]int64
		for w := range before {
			before[w] = acked[w].Load()
		}
		for w := range int64(writers) {
			seen := make(map[any]bool)
			for row, err := range tbl.Query(ctx, Query{Where: And(Field[int64]("w").Equal(w), Field[int64]("k").AtLeast(0))}) {
				require.NoError(t, err)
				require.False(t, seen[row["k"]], "twice")
				seen[row["k"]] = true
			}
			require.GreaterOrEqual(t, int64(len(seen)), before[w])
		}
	}
	require.NoError(t, group.Wait())
	report, err := tbl.Verify(ctx, nil)
	require.NoError(t, err)
	require.True(t, report.Sound())
	require.Equal(t, writers*puts*10, report.Rows)
}
