package walk

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/rangecrypt/rangecrypt/internal/intercept"
	"github.com/rangecrypt/rangecrypt/internal/seal"
	"github.com/rangecrypt/rangecrypt/internal/sim"
	"github.com/rangecrypt/rangecrypt/internal/testdb"
	"github.com/rangecrypt/rangecrypt/store/driver"
)

var testKey = bytes.Repeat([]byte{7}, seal.KeySize)

// memory returns an empty database.
func memory(t *testing.T) driver.DB { return testdb.All[0].Open(t, nil) }

func opened(t *testing.T, db driver.DB, opts Options) *Tree {
	f, err := db.Family(t.Context(), Spec("tree"))
	require.NoError(t, err)
	tree, err := Open(t.Context(), f, testKey, 1, opts)
	require.NoError(t, err)
	return tree
}

func number(i int) []byte { return binary.BigEndian.AppendUint32(nil, uint32(i)) }

// all returns what a range yields, which must be in order.
func all(t *testing.T, tree *Tree, from, to []byte, limit int) map[string]string {
	got := make(map[string]string)
	last := []byte(nil)
	for e, err := range tree.Range(t.Context(), from, to, limit) {
		require.NoError(t, err)
		require.Negative(t, bytes.Compare(last, e.Key), "an entry comes twice or in another order")
		got[string(e.Key)], last = string(e.Value), e.Key
	}
	return got
}

// check fails unless the tree is as it should be: of each level the nodes follow one another without a gap, and what an
// inner node names is the node of the level below where these keys are. It returns how many nodes no parent names.
func check(t *testing.T, tree *Tree) (unnamed int) {
	height, err := tree.Height(t.Context())
	require.NoError(t, err)
	first, named := tree.root, map[nodeID][]byte{tree.root: nil}
	for level := height - 1; level >= 0; level-- {
		below, low := make(map[nodeID][]byte), []byte(nil)
		var next nodeID
		for id := first; id != (nodeID{}); {
			nodes, err := tree.read(t.Context(), []nodeID{id})
			require.NoError(t, err)
			n := nodes[id]
			require.EqualValues(t, level, n.level)
			if key, ok := named[id]; !ok {
				unnamed++
			} else {
				require.True(t, bytes.Equal(low, key), "a parent names another key")
			}
			for i, e := range n.entries {
				require.True(t, bytes.Compare(low, e.Key) <= 0 && n.reaches(e.Key), "a key is in the wrong node")
				require.True(t, i == 0 || bytes.Compare(n.entries[i-1].Key, e.Key) < 0)
				if level > 0 {
					below[e.id()] = e.Key
				}
			}
			if id == first && level > 0 {
				require.Empty(t, n.entries[0].Key)
				next = n.entries[0].id()
			}
			require.Equal(t, n.right == (nodeID{}), len(n.high) == 0)
			id, low = n.right, n.high
		}
		first, named = next, below
	}
	return unnamed
}

func TestTreeIsASortedMap(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db testdb.Database) {
		steps := sim.Share(2000, 400)
		if db.Server {
			steps = 60
		}
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		r := rand.New(rand.NewPCG(seed, 0))
		shared := db.Open(t, nil)
		clients := []*Tree{opened(t, shared, Options{Entries: 4}), opened(t, shared, Options{Entries: 5, Cached: 4}), opened(t, shared, Options{Entries: 4, Cached: 1000})}
		want := make(map[string]string)
		for range steps {
			tree := clients[r.IntN(len(clients))]
			n := 1 + r.IntN(4)*r.IntN(20)
			switch r.IntN(5) {
			case 0, 1:
				var entries []Entry
				for range n {
					e := Entry{number(r.IntN(3000)), number(r.IntN(3))}
					entries = append(entries, e)
				}
				var gone [][]byte
				for range r.IntN(3) {
					gone = append(gone, number(r.IntN(3000)))
					delete(want, string(gone[len(gone)-1]))
				}
				for _, e := range entries {
					want[string(e.Key)] = string(e.Value)
				}
				require.NoError(t, tree.Replace(t.Context(), gone, entries))
			case 2:
				var keys [][]byte
				for range n {
					key := number(r.IntN(3000))
					keys = append(keys, key)
					delete(want, string(key))
				}
				require.NoError(t, tree.Delete(t.Context(), keys...))
			case 3:
				keys := [][]byte{number(r.IntN(3000)), number(r.IntN(3000)), {}, number(r.IntN(3000))}
				got, err := tree.Get(t.Context(), keys...)
				require.NoError(t, err)
				for i, key := range keys {
					value, ok := want[string(key)]
					require.Equal(t, ok, got[i] != nil)
					require.Equal(t, value, string(got[i]))
				}
			default:
				from, to, limit := number(r.IntN(3000)), number(r.IntN(3200)), r.IntN(60)
				if r.IntN(4) == 0 {
					to = nil
				}
				if r.IntN(8) == 0 {
					from = nil
				}
				var keys []string
				for key := range want {
					if key >= string(from) && (to == nil || key < string(to)) {
						keys = append(keys, key)
					}
				}
				slices.Sort(keys)
				if limit > 0 {
					keys = keys[:min(len(keys), limit)]
				}
				expected := make(map[string]string)
				for _, key := range keys {
					expected[key] = want[key]
				}
				require.Equal(t, expected, all(t, tree, from, to, limit))
			}
		}
		require.Zero(t, check(t, clients[0]))
		require.Equal(t, want, all(t, clients[1], nil, nil, 0))
	})
}

func TestEntriesInBounds(t *testing.T) {
	tree := opened(t, memory(t), Options{Entries: 4})
	long := bytes.Repeat([]byte{0xFF}, MaxKey)
	entries := []Entry{{long, bytes.Repeat([]byte{1}, MaxValue)}, {[]byte{0}, nil}, {[]byte{0, 0}, nil}, {[]byte{0xFF}, []byte{}}}
	require.NoError(t, tree.Insert(t.Context(), entries...))
	require.NoError(t, tree.Insert(t.Context()))
	require.Len(t, all(t, tree, nil, nil, 0), 4)
	require.Len(t, all(t, tree, []byte{0, 0}, long, 0), 2)
	require.Empty(t, all(t, tree, []byte{1}, []byte{1}, 0))
	require.Empty(t, all(t, tree, []byte{2}, []byte{1}, 0))
	for _, e := range []Entry{{nil, nil}, {append(long, 1), nil}, {[]byte{1}, make([]byte, MaxValue+1)}} {
		require.ErrorIs(t, tree.Insert(t.Context(), e), driver.ErrTooLarge)
	}
	for _, entries := range []int{-1, 3, maxEntries + 1} {
		_, err := Open(t.Context(), tree.family, testKey, 1, Options{Entries: entries})
		require.ErrorContains(t, err, "4 to 4096")
	}
	_, err := Open(t.Context(), tree.family, testKey[1:], 1, Options{})
	require.Error(t, err)
}

// TestClientsShareATree has clients add and remove entries of their own in the same nodes, while others read ranges in
// which nothing but these may be missing.
func TestClientsShareATree(t *testing.T) {
	testdb.Each(t, func(t *testing.T, db testdb.Database) {
		n, writers := sim.Share(400, 150), 4
		if db.Server {
			n = 40
		}
		shared := db.Open(t, nil)
		base := opened(t, shared, Options{Entries: 6})
		var stays []Entry
		for i := range n {
			stays = append(stays, Entry{number(i * 10), []byte("stays")})
		}
		require.NoError(t, base.Insert(t.Context(), stays...))
		group, ctx := errgroup.WithContext(t.Context())
		var done sync.WaitGroup
		for w := range writers {
			tree := opened(t, shared, Options{Entries: 6, Cached: w * 10})
			done.Add(1)
			group.Go(func() error {
				defer done.Done()
				for i := range n {
					key := number(i*10 + 1 + w)
					if err := tree.Insert(ctx, Entry{key, []byte("mine")}); err != nil {
						return err
					}
					if i%2 == 0 {
						if err := tree.Delete(ctx, key); err != nil {
							return err
						}
					}
				}
				return nil
			})
		}
		ended := make(chan struct{})
		go func() { done.Wait(); close(ended) }()
		for w := range 2 {
			tree := opened(t, shared, Options{Entries: 6, Cached: w * 1000})
			group.Go(func() error {
				for {
					found := 0
					last := []byte(nil)
					for e, err := range tree.Range(ctx, nil, nil, 0) {
						if err != nil {
							return err
						}
						if bytes.Compare(last, e.Key) >= 0 {
							return errors.New("an entry comes twice or in another order")
						}
						if last = e.Key; string(e.Value) == "stays" {
							found++
						}
					}
					if found != n {
						return fmt.Errorf("%d entries of %d", found, n)
					}
					select {
					case <-ended:
						return nil
					default:
					}
				}
			})
		}
		require.NoError(t, group.Wait())
		check(t, base)
		require.Len(t, all(t, base, nil, nil, 0), n+writers*(n/2))
	})
}

var errDead = errors.New("the client is dead")

// mortal returns the database for a client that dies at its n-th change: before it, or after it where late says so. Where lost
// says so it does not die: it is told that the outcome is unknown, and the change comes after its next read.
func mortal(db driver.DB, n int, fate string) driver.DB {
	var mu sync.Mutex
	dead := false
	var later func()
	return intercept.New(db, func(_ context.Context, op intercept.Op, c intercept.Call) error {
		mu.Lock()
		defer mu.Unlock()
		if dead {
			return errDead
		}
		if op.Reads() || op.Method == "Family" {
			err := c.Make(nil)
			if later != nil {
				later()
				later = nil
			}
			return err
		}
		if n--; n != 0 {
			return c.Make(nil)
		}
		switch fate {
		case "before":
			dead = true
			return errDead
		case "after":
			dead = true
			return errors.Join(c.Make(nil), errDead)
		case "unknown":
			return errors.Join(c.Make(nil), driver.ErrUnknownOutcome)
		}
		later = c.Later()
		return driver.ErrUnknownOutcome
	}, nil)
}

// TestClientsDie lets a client die, or be left without an answer, at each of its changes. Entries of calls that returned stay,
// those of the call that failed are there or not, and another client goes on and completes what is half done.
func TestClientsDie(t *testing.T) {
	for _, fate := range []string{"before", "after", "unknown", "late"} {
		t.Run(fate, func(t *testing.T) {
			for at, died := 1, true; died; at++ {
				db := memory(t)
				before := opened(t, db, Options{Entries: 4})
				sure := make(map[string]string)
				for i := range 30 {
					require.NoError(t, before.Insert(t.Context(), Entry{number(i * 7), []byte{1}}))
					sure[string(number(i*7))] = "\x01"
				}
				tree := opened(t, mortal(db, at, fate), Options{Entries: 4, Cached: at % 2 * 100})
				died = false
				var perhaps []Entry
				for i := range 12 {
					perhaps = nil
					for j := range 5 {
						perhaps = append(perhaps, Entry{number((i*29+j*3)%200 + 300*(j%2)), []byte{2}})
					}
					if err := tree.Insert(t.Context(), perhaps...); err != nil {
						require.ErrorIs(t, err, errDead)
						died = true
						break
					}
					for _, e := range perhaps {
						sure[string(e.Key)] = string(e.Value)
					}
					perhaps = nil
				}
				if fate == "unknown" || fate == "late" {
					require.False(t, died)
					died = at < 60
				}
				after := opened(t, db, Options{Entries: 4, Cached: at % 3})
				got := all(t, after, nil, nil, 0)
				check(t, after)
				for _, e := range perhaps {
					if value, ok := got[string(e.Key)]; ok && value == string(e.Value) {
						sure[string(e.Key)] = value
					}
				}
				require.Equal(t, sure, got, "%s change %d", fate, at)
				require.NoError(t, after.Insert(t.Context(), perhaps...))
				var every []Entry // so that each node is written
				for i := range 600 {
					every = append(every, Entry{number(i), []byte{3}})
				}
				require.NoError(t, after.Insert(t.Context(), every...))
				require.Zero(t, check(t, after), "%s change %d", fate, at)
			}
		})
	}
}

// trips counts the round trips of a client that makes no two calls at a time.
func trips(db driver.DB) (driver.DB, *int) {
	n := new(int)
	return intercept.New(db, func(_ context.Context, _ intercept.Op, c intercept.Call) error {
		*n++
		return c.Make(nil)
	}, nil), n
}

func TestRoundTripsAreTheHeight(t *testing.T) {
	db := memory(t)
	load := opened(t, db, Options{})
	var entries []Entry
	for i := range 20_000 {
		entries = append(entries, Entry{number(i), number(i)})
	}
	require.NoError(t, load.Insert(t.Context(), entries...))
	height, err := load.Height(t.Context())
	require.NoError(t, err)
	require.Equal(t, 3, height)
	for _, cached := range []int{0, 10_000} {
		counted, n := trips(db)
		tree := opened(t, counted, Options{Cached: cached})
		for i, what := range []func(){
			func() { all(t, tree, number(777), number(778), 0) },
			func() { all(t, tree, number(12_000), number(12_200), 0) },
			func() { _, err := tree.Get(t.Context(), number(5), number(15_000)); require.NoError(t, err) },
			func() { all(t, tree, number(0), number(6_000), 0) },
		} {
			*n = 0
			what()
			if want := height; cached == 0 || i == 0 {
				require.Equal(t, want, *n)
			} else {
				require.LessOrEqual(t, *n, want)
			}
		}
		// Once its parents are known, an entry is one round trip away.
		*n = 0
		_, err := tree.Get(t.Context(), number(776))
		require.NoError(t, err)
		if cached > 0 {
			require.Equal(t, 1, *n)
		}
		*n = 0
		require.NoError(t, tree.Insert(t.Context(), Entry{number(777), fmt.Append(nil, cached)}))
		if cached > 0 {
			require.Equal(t, 2, *n)
		} else {
			require.Equal(t, height+1, *n)
		}
	}
}

// rowsOf returns all that the database holds of a tree.
func rowsOf(t *testing.T, tree *Tree) (rows []driver.Row) {
	for row, err := range tree.family.Scan(t.Context(), driver.Range{AnyOrder: true}) {
		require.NoError(t, err)
		rows = append(rows, row)
	}
	return rows
}

// TestNoOrderAtRest looks at what a database holds as one who has it and no key, and no times at which cells were written: those
// say which leaf was made first. Neither where nodes lie nor what they hold goes with the order of keys, and no key or value is
// in them.
func TestNoOrderAtRest(t *testing.T) {
	tree := opened(t, memory(t), Options{})
	var entries []Entry
	for i := range 20_000 {
		entries = append(entries, Entry{fmt.Appendf(nil, "customer %06d", i), []byte("a value that is secret")})
	}
	require.NoError(t, tree.Insert(t.Context(), entries...))
	rows := rowsOf(t, tree)
	rank := make(map[nodeID]int) // of a leaf, by where its keys are
	for i := range rows {
		for _, c := range rows[i].Cells {
			require.NotContains(t, string(c.Value), "customer")
			require.NotContains(t, string(c.Value), "secret")
		}
	}
	ids, _, err := tree.leaves(t.Context(), nil, nil)
	require.NoError(t, err)
	for i, id := range ids {
		rank[id] = i
	}
	// Spearman's coefficient of n leaves without an order has a standard error of 1/sqrt(n-1): 5 of them are the limit.
	byPlace := slices.SortedFunc(maps.Keys(rank), func(a, b nodeID) int { return bytes.Compare(a[:], b[:]) })
	sum := 0.0
	for place, id := range byPlace {
		d := float64(place - rank[id])
		sum += d * d
	}
	n := float64(len(ids))
	rho := 1 - 6*sum/(n*(n*n-1))
	require.Greater(t, n, 400.0)
	require.InDelta(t, 0, rho, 5/22.0, "%v of %v leaves", rho, n)
}

func TestDamagedNodesAreNoticed(t *testing.T) {
	fresh := func() (*Tree, []nodeID) {
		tree := opened(t, memory(t), Options{Entries: 8})
		for i := range 40 {
			require.NoError(t, tree.Insert(t.Context(), Entry{number(i), []byte{1}}))
		}
		ids, _, err := tree.leaves(t.Context(), nil, nil)
		require.NoError(t, err)
		return tree, ids
	}
	for name, damage := range map[string]func(a, b []driver.Cell) []driver.Cell{
		"missing": func(_, _ []driver.Cell) []driver.Cell { return nil },
		"half":    func(a, _ []driver.Cell) []driver.Cell { return a[:1] },
		"a bit":   func(a, _ []driver.Cell) []driver.Cell { a[1].Value[70] ^= 1; return a },
		"short":   func(a, _ []driver.Cell) []driver.Cell { a[1].Value = a[1].Value[:40]; return a },
		"another": func(_, b []driver.Cell) []driver.Cell { return b },
		"version": func(a, b []driver.Cell) []driver.Cell { a[0].Value = b[0].Value; return a },
	} {
		tree, ids := fresh()
		nodes, err := tree.read(t.Context(), ids[1:2])
		require.NoError(t, err)
		key := nodes[ids[1]].entries[0].Key
		a, err := tree.family.Get(t.Context(), ids[1][:], driver.Slice{})
		require.NoError(t, err)
		b, err := tree.family.Get(t.Context(), ids[2][:], driver.Slice{})
		require.NoError(t, err)
		require.NoError(t, tree.family.Apply(t.Context(), driver.Mutation{Row: ids[1][:], DeleteRow: true}))
		if cells := damage(a, b); cells != nil {
			require.NoError(t, tree.family.Apply(t.Context(), driver.Mutation{Row: ids[1][:], Puts: cells}))
		}
		var failed error
		for _, err := range tree.Range(t.Context(), nil, nil, 0) {
			failed = err
		}
		require.ErrorIs(t, failed, errDamaged, name)
		require.ErrorIs(t, tree.Insert(t.Context(), Entry{key, []byte{2}}), errDamaged, name)
	}
	tree, _ := fresh()
	_, err := Open(t.Context(), tree.family, bytes.Repeat([]byte{8}, seal.KeySize), 1, Options{})
	require.ErrorIs(t, err, seal.ErrWrongKey)
	other, err := Open(t.Context(), tree.family, testKey, 2, Options{})
	require.NoError(t, err)
	require.Empty(t, all(t, other, nil, nil, 0), "two trees of a family have nothing in common")
}

func FuzzDecode(f *testing.F) {
	f.Add((&node{level: 1, entries: []Entry{{nil, make([]byte, idSize)}, {[]byte("key"), make([]byte, idSize)}}, high: []byte("z"), right: nodeID{1}}).encode())
	f.Add(new(node).encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		n, err := decode(b)
		if err != nil {
			require.ErrorIs(t, err, errDamaged)
			return
		}
		again, err := decode(n.encode())
		require.NoError(t, err)
		require.Equal(t, n, again)
	})
}

func TestContextsEnd(t *testing.T) {
	tree := opened(t, memory(t), Options{})
	ctx, cancel := context.WithTimeout(t.Context(), time.Nanosecond)
	defer cancel()
	<-ctx.Done()
	require.ErrorIs(t, tree.Insert(ctx, Entry{number(1), nil}), context.DeadlineExceeded)
	for _, err := range tree.Range(ctx, nil, nil, 0) {
		require.ErrorIs(t, err, context.DeadlineExceeded)
	}
}

// TestOneClientInManyGoroutines adds batches that split many nodes at once.
func TestOneClientInManyGoroutines(t *testing.T) {
	for _, cached := range []int{0, 3, 1000} {
		db := memory(t)
		tree := opened(t, db, Options{Entries: 8, Cached: cached})
		var group errgroup.Group
		for w := range 4 {
			group.Go(func() error {
				r := rand.New(rand.NewPCG(uint64(cached), uint64(w)))
				for range 20 {
					var entries []Entry
					for range 100 {
						entries = append(entries, Entry{number(int(r.Uint32())), number(w)})
					}
					if err := tree.Insert(t.Context(), entries...); err != nil {
						return err
					}
				}
				return nil
			})
		}
		require.NoError(t, group.Wait())
		check(t, tree)
		other := opened(t, db, Options{})
		require.Len(t, all(t, other, nil, nil, 0), 8000)
		require.Len(t, all(t, tree, nil, nil, 0), 8000)
	}
}
