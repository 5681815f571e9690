package kerschbaum

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/opetest"
)

// frozenIndex returns the index of [dividingIndex] with 8 values frozen, and the client that has frozen them.
func frozenIndex(t *testing.T) (ope.Index, *Scheme) {
	t.Helper()
	index, s, _ := dividingIndex(t)
	_, _, frozen, err := first(s).freeze(t.Context())
	require.NoError(t, err)
	require.Len(t, frozen, 8)
	return index, s
}

// However many clients append, a unit does not grow far beyond what it is to have.
func TestDivisionKeepsPace(t *testing.T) {
	const clients, full, values = 4, 4096, 60_000
	index := opetest.NewIndex()
	var next atomic.Int64
	var writers sync.WaitGroup
	for range clients {
		s := newClient(t, index, ope.Int64, &Options{UnitValues: full})
		writers.Go(func() {
			xs := make([]int64, 256)
			for from := next.Add(256); from < values; from = next.Add(256) {
				for i := range xs {
					xs[i] = from + int64(i)
				}
				if _, err := s.EncryptBatch(t.Context(), xs); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	writers.Wait()
	n, err := first(newClient(t, index, ope.Int64, nil)).units.CountValues(t.Context(), 1)
	require.NoError(t, err)
	require.Less(t, n, 3*full)
}

// Values that another client has put among the lowest ones, which a client remembers, do not keep this from handing them over.
func TestDivisionGoesOnBesideWhatOthersHavePut(t *testing.T) {
	index := opetest.NewIndex()
	s, other := newClient(t, index, ope.Int64, &Options{UnitValues: 64}), newClient(t, index, ope.Int64, nil)
	first(s).chunk = 8
	put := func(s *Scheme, x int64) {
		_, err := s.Encrypt(t.Context(), x)
		require.NoError(t, err)
	}
	for i := range int64(64) {
		put(s, i*10)
	}
	for i := range int64(20) {
		put(other, 105+i*10)
	}
	for i := range int64(40) {
		put(s, 640+i*10)
	}
	require.Less(t, s.Stats().Conflicts, 12)
	require.Greater(t, s.Stats().HandedOver, 20)
	requireCheckPasses(t, index)
}

// A value that was put between two reads of a client, of which the second misses it, as Cassandra may where the commit is known
// to one replica alone, is handed over all the same.
func TestUndecidedValuesAreHandedOver(t *testing.T) {
	index, s, _ := dividingIndex(t)
	of := first(s)
	before := opetest.NewIndex()
	view, err := index.Read(t.Context(), of.unit(1).Name, nil, nil, 0)
	require.NoError(t, err)
	_, err = before.Commit(t.Context(), of.unit(1).Name, ope.Condition{}, ope.Change{Puts: view.Records, Meta: view.Meta})
	require.NoError(t, err)
	_, err = of.insert(t.Context(), []int64{15})
	require.NoError(t, err)

	swapped := &swappedIndex{Index: index}
	other := newClient(t, swapped, ope.Int64, &Options{UnitValues: 64})
	first(other).chunk = 8
	_, err = other.Encrypt(t.Context(), 690) // is there
	require.NoError(t, err)
	first(other).known.list.Clear()
	var old ope.Index = before
	swapped.reads.Store(&old)
	_, _, frozen, err := first(other).freeze(t.Context())
	require.NoError(t, err)
	require.Empty(t, frozen)
	for i := range int64(10) {
		_, err := other.Encrypt(t.Context(), 700+i)
		require.NoError(t, err)
	}
	requireCheckPasses(t, index)
}

// What a client remembers of all units together is bounded.
func TestMemoryOfADividedIndex(t *testing.T) {
	const cache = 4096
	s := newClient(t, opetest.NewIndex(), ope.Int64, &Options{CacheValues: cache, UnitValues: cache})
	xs := make([]int64, 64)
	for from := 0; from < 60_000; from += len(xs) {
		for i := range xs {
			xs[i] = int64(from + i)
		}
		_, err := s.EncryptBatch(t.Context(), xs)
		require.NoError(t, err)
	}
	remembered := 0
	for _, sh := range s.shards.all() {
		remembered += sh.known.list.Len()
	}
	require.Greater(t, len(s.shards.all()), 10)
	require.LessOrEqual(t, remembered, 3*cache)
}

// A client that knows nothing of a unit with too many values finds its middle in steps: no insertion reads all of the unit.
func TestDivisionBeginsInSteps(t *testing.T) {
	index := opetest.NewIndex()
	s := newClient(t, index, ope.Int64, &Options{Limit: 20_000})
	xs := make([]int64, 20_000)
	for i := range xs {
		xs[i] = int64(i) * -0x61c8864680b583eb
	}
	_, err := s.EncryptBatch(t.Context(), xs)
	require.NoError(t, err)
	other := newClient(t, index, ope.Int64, &Options{UnitValues: 16_000})
	other.ahead = 64
	for i := int64(0); len(other.shards.all()) == 1; i++ {
		require.Less(t, i, int64(100))
		before := other.Stats().RoundTrips
		_, err := other.Encrypt(t.Context(), 1_000_003*i)
		require.NoError(t, err)
		require.Less(t, other.Stats().RoundTrips-before, 30)
	}
}

// Values that are damaged while they are being handed over are an error, and a fault, of the unit.
func TestDamagedFrozenValues(t *testing.T) {
	for name, damage := range map[string]func(key []byte) ope.Change{
		"lost":    func(key []byte) ope.Change { return ope.Change{Deletes: [][]byte{key}} },
		"altered": func(key []byte) ope.Change { return ope.Change{Puts: []ope.Record{{Key: key, Value: []byte("x")}}} },
	} {
		t.Run(name, func(t *testing.T) {
			index, s := frozenIndex(t)
			of := first(s)
			u := of.unit(1)
			p, err := of.units.ReadHeader(t.Context(), u)
			require.NoError(t, err)
			frozen, err := of.units.Frozen(t.Context(), p)
			require.NoError(t, err)
			tamper(t, index, u.Name, func([]ope.Record) ope.Change { return damage(frozen[3].Label.Bytes()) })
			_, err = newClient(t, index, ope.Int64, nil).Encrypt(t.Context(), frozen[0].Value)
			require.ErrorIs(t, err, ope.ErrIndex)
			var failed error
			for _, err := range newClient(t, index, ope.Int64, nil).Range(t.Context(), -5, 1000) {
				failed = errors.Join(failed, err)
			}
			require.ErrorIs(t, failed, ope.ErrIndex)
			values, faults := checked(t, newClient(t, index, ope.Int64, nil))
			require.Len(t, values, 62, "it goes on after what is damaged")
			require.Contains(t, strings.Join(faults, "\n"), string(u.Name))
		})
	}
}

// A check goes on in the units to the right of one that lacks what says which part it has.
func TestCheckGoesOnAfterADamagedPart(t *testing.T) {
	index, s := dividedIndex(t)
	left := s.shards.get(first(s).known.part.Left, 1)
	all, _ := checked(t, newClient(t, index, ope.Int64, nil))
	tamper(t, index, left.unit(1).Name, func([]ope.Record) ope.Change {
		return ope.Change{Puts: []ope.Record{{Key: slices.Concat(make([]byte, 16), []byte("r")), Value: []byte("damaged")}}}
	})
	values, faults := checked(t, newClient(t, index, ope.Int64, nil))
	require.NotEmpty(t, faults)
	edge := first(s).known.part.Low.Value
	require.Equal(t, all[slices.IndexFunc(all, func(x int64) bool { return x >= edge }):], values[slices.IndexFunc(values, func(x int64) bool { return x >= edge }):])
}

// Two units that were put back to different moments may both have a value, which a check reports.
func TestCheckNamesUnitsThatOverlap(t *testing.T) {
	index, s := frozenIndex(t)
	of := first(s)
	left := s.shards.get(of.known.part.Left, 1)
	restored := opetest.NewIndex()
	restore := func(name ope.Unit) {
		view, err := index.Read(t.Context(), name, nil, nil, 0)
		require.NoError(t, err)
		_, err = restored.Commit(t.Context(), name, ope.Condition{}, ope.Change{Puts: view.Records, Meta: view.Meta})
		require.NoError(t, err)
	}
	restore(of.unit(1).Name)
	other := newClient(t, index, ope.Int64, &Options{UnitValues: 64})
	for i := range int64(3) {
		_, err := other.Encrypt(t.Context(), 601+i)
		require.NoError(t, err)
	}
	restore(left.unit(1).Name)
	_, faults := checked(t, newClient(t, restored, ope.Int64, nil))
	require.Contains(t, strings.Join(faults, "\n"), "put back")
}

// withoutUnit is an index of which one unit cannot be reached.
type withoutUnit struct {
	ope.Index
	unit ope.Unit
}

var errUnreached = errors.New("the unit cannot be reached")

func (w withoutUnit) Read(ctx context.Context, u ope.Unit, from, to []byte, limit int) (ope.View, error) {
	if u == w.unit {
		return ope.View{}, errUnreached
	}
	return w.Index.Read(ctx, u, from, to, limit)
}

func (w withoutUnit) Commit(ctx context.Context, u ope.Unit, cond ope.Condition, change ope.Change) (bool, error) {
	if u == w.unit {
		return false, errUnreached
	}
	return w.Index.Commit(ctx, u, cond, change)
}

// Insertions into a unit do not fail because its left neighbour, to which it hands values over, cannot be reached.
func TestInsertionsWithoutTheLeftNeighbour(t *testing.T) {
	index, s := frozenIndex(t)
	left := s.shards.get(first(s).known.part.Left, 1)
	other := newClient(t, withoutUnit{index, left.unit(1).Name}, ope.Int64, &Options{UnitValues: 64})
	for i := range int64(5) {
		_, err := other.Encrypt(t.Context(), 700+i)
		require.NoError(t, err)
	}
	_, err := other.Encrypt(t.Context(), 0)
	require.ErrorIs(t, err, errUnreached)
}

// undecided shows a commit of a unit to its next reader only, until another commit of the unit, as Cassandra may where it is
// known to one replica alone.
type undecided struct {
	ope.Index
	before ope.Index
	unit   ope.Unit
	mu     sync.Mutex
	shown  bool
	over   bool
}

func (l *undecided) Read(ctx context.Context, u ope.Unit, from, to []byte, limit int) (ope.View, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if old := u == l.unit && !l.over && l.shown; old {
		return l.before.Read(ctx, u, from, to, limit)
	}
	l.shown = l.shown || u == l.unit
	return l.Index.Read(ctx, u, from, to, limit)
}

func (l *undecided) Commit(ctx context.Context, u ope.Unit, cond ope.Condition, change ope.Change) (bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.over = l.over || u == l.unit
	return l.Index.Commit(ctx, u, cond, change)
}

// unitAsItIs returns an index that has a unit alone, as it is now.
func unitAsItIs(t *testing.T, index ope.Index, name ope.Unit) *opetest.Index {
	t.Helper()
	view, err := index.Read(t.Context(), name, nil, nil, 0)
	require.NoError(t, err)
	alone := opetest.NewIndex()
	_, err = alone.Commit(t.Context(), name, ope.Condition{}, ope.Change{Puts: view.Records, Meta: view.Meta})
	require.NoError(t, err)
	return alone
}

// Who sees that the left neighbour has taken values has it decided, before it deletes them.
func TestTakenValuesAreDecided(t *testing.T) {
	index, s := frozenIndex(t)
	of := first(s)
	left := s.shards.get(of.known.part.Left, 1)
	before := unitAsItIs(t, index, left.unit(1).Name)
	p, err := of.units.ReadHeader(t.Context(), of.unit(1))
	require.NoError(t, err)
	frozen, err := of.units.Frozen(t.Context(), p)
	require.NoError(t, err)
	taken, err := left.takeOver(t.Context(), 1, p.PartOf(), frozen)
	require.NoError(t, err)
	require.True(t, taken)
	seen := &undecided{Index: index, before: before, unit: left.unit(1).Name}
	other := newClient(t, seen, ope.Int64, &Options{UnitValues: 64})
	for _, x := range []int64{601, 602} {
		_, err := other.Encrypt(t.Context(), x)
		require.NoError(t, err)
	}
	n := 0
	for e, err := range newClient(t, seen, ope.Int64, nil).Range(t.Context(), 0, 300) {
		require.NoError(t, err)
		require.Equal(t, int64(n)*10, e.Plaintext)
		n++
	}
	require.Equal(t, 31, n)
	requireCheckPasses(t, seen)
}

// Who sees that a unit has taken values, and then that it has not, has that decided before it takes the index for damaged.
func TestUnitsThatLackValuesAreDecided(t *testing.T) {
	index, s := frozenIndex(t)
	of := first(s)
	left := s.shards.get(of.known.part.Left, 1)
	before := unitAsItIs(t, index, left.unit(1).Name)
	seen := &undecided{Index: index, before: before, unit: left.unit(1).Name, over: true}
	other := newClient(t, seen, ope.Int64, nil)
	requireAll := func() {
		t.Helper()
		n := 0
		for e, err := range other.Range(t.Context(), 0, 300) {
			require.NoError(t, err)
			require.Equal(t, int64(n)*10, e.Plaintext)
			n++
		}
		require.Equal(t, 31, n)
	}
	requireAll()
	p, err := of.units.ReadHeader(t.Context(), of.unit(1))
	require.NoError(t, err)
	frozen, err := of.units.Frozen(t.Context(), p)
	require.NoError(t, err)
	taken, err := left.takeOver(t.Context(), 1, p.PartOf(), frozen)
	require.NoError(t, err)
	require.True(t, taken)
	seen.shown, seen.over = false, false
	requireAll()
}

// Who reads an index may stop at any value, also at one that is being handed over.
func TestReadingStopsAnywhere(t *testing.T) {
	index, s := frozenIndex(t)
	fresh := func() *Scheme { return newClient(t, index, s.Domain(), nil) }
	total := 0
	for _, err := range fresh().Range(t.Context(), s.Domain().Min, s.Domain().Max) {
		require.NoError(t, err)
		total++
	}
	for n := 1; n <= total; n++ {
		for _, entries := range []iter.Seq2[ope.Entry, error]{
			fresh().Range(t.Context(), s.Domain().Min, s.Domain().Max),
			fresh().Check(t.Context(), func(record []byte, err error) { t.Errorf("%x: %v", record, err) }),
		} {
			read := 0
			for _, err := range entries {
				require.NoError(t, err)
				if read++; read == n {
					break
				}
			}
			require.Equal(t, n, read)
		}
	}
}
