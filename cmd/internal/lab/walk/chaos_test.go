package walk

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/rangecrypt/rangecrypt/internal/intercept"
	"github.com/rangecrypt/rangecrypt/internal/sim"
	"github.com/rangecrypt/rangecrypt/store/driver"
)

var (
	chaosRuns = flag.Int("walk.chaos", sim.Share(40, 8), "runs of TestClientsInChaos")
	chaosSeed = flag.Uint64("walk.seed", rand.Uint64(), "seed of the first of them")
)

// possible are the values that keys may have, "" where there may be no entry.
type possible map[string]map[string]bool

// replace makes changes of a client's own keys, and notes what may be there afterwards: what a failed call was to make may come
// later.
func (p possible) replace(ctx context.Context, tree *Tree, failed possible, keys [][]byte, entries []Entry) error {
	wanted := make(map[string]string)
	for _, key := range keys {
		wanted[string(key)] = ""
	}
	for _, e := range entries {
		wanted[string(e.Key)] = string(e.Value)
	}
	err := tree.Replace(ctx, keys, entries)
	for key, value := range wanted {
		if err == nil {
			p[key] = map[string]bool{value: true}
			for late := range failed[key] {
				p[key][late] = true
			}
			continue
		}
		for _, m := range []possible{p, failed} {
			if m[key] == nil {
				m[key] = make(map[string]bool)
				if m[key][value] = true; len(p[key]) == 1 {
					p[key][""] = true
				}
			}
			m[key][value] = true
		}
	}
	return err
}

func (p possible) check(key string, value []byte) error {
	if !p[key][string(value)] {
		return fmt.Errorf("key %x has the value %q, and may have %v", key, value, p[key])
	}
	return nil
}

const stay, stayEvery = 60, 10 // entries that stay, and how far apart they are

// write changes keys of the client's own for a while, and reads them.
func write(ctx context.Context, tree *Tree, r *rand.Rand, client int, p possible) error {
	failed := make(possible)
	for range 40 {
		var keys [][]byte
		var entries []Entry
		for range 1 + r.IntN(6)*r.IntN(8) {
			key := append(number(r.IntN(stay)*stayEvery+1), byte(client))
			if r.IntN(3) == 0 {
				keys = append(keys, key)
			} else {
				entries = append(entries, Entry{key, []byte(strconv.Itoa(1 + r.IntN(1000)))})
			}
		}
		if err := p.replace(ctx, tree, failed, keys, entries); err != nil && !errors.Is(err, errDead) {
			return err
		}
		for key := range p {
			got, err := tree.Get(ctx, []byte(key))
			if err == nil {
				err = p.check(key, got[0])
			}
			if err != nil {
				return err
			}
			if r.IntN(4) > 0 {
				break
			}
		}
	}
	return nil
}

// read asks for ranges until stop is closed: what stays is in each, in order and once.
func read(ctx context.Context, tree *Tree, r *rand.Rand, stop <-chan struct{}) error {
	for {
		lo, hi := r.IntN(stay), r.IntN(stay+1)
		lo, hi = min(lo, hi), max(lo, hi)
		found, last := 0, ""
		for e, err := range tree.Range(ctx, number(lo*stayEvery), number(hi*stayEvery), 0) {
			switch {
			case err != nil:
				return err
			case last >= string(e.Key):
				return errors.New("an entry comes twice or in another order")
			case string(e.Value) == "stays":
				found++
			}
			last = string(e.Key)
		}
		if found != hi-lo {
			return fmt.Errorf("%d entries of %d that stay", found, hi-lo)
		}
		select {
		case <-stop:
			return nil
		default:
		}
	}
}

// TestClientsInChaos has clients of several goroutines each change what is theirs, through connections that fail in all ways.
func TestClientsInChaos(t *testing.T) {
	for i := range *chaosRuns {
		seed := *chaosSeed + uint64(i)
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(seed, 0))
			db := memory(t)
			base := opened(t, db, Options{Entries: 4})
			var stays []Entry
			for i := range stay {
				stays = append(stays, Entry{number(i * stayEvery), []byte("stays")})
			}
			require.NoError(t, base.Insert(t.Context(), stays...))
			var late, writers sync.WaitGroup
			unknown, fail := 0.3*r.Float64(), 0.02*float64(r.IntN(2))
			foggy := func(unknown, fail float64) *Tree {
				f := &intercept.Fog{Random: rand.New(rand.NewPCG(seed, r.Uint64())), Unknown: unknown, Fail: fail, Refused: errDead, Late: &late}
				return opened(t, intercept.New(db, f.Call, nil), Options{Entries: 4 + r.IntN(5), Cached: []int{0, 1, 3, 10, 1000}[r.IntN(5)]})
			}
			group, ctx := errgroup.WithContext(t.Context())
			stop := make(chan struct{})
			var all []possible
			for range 2 + r.IntN(3) {
				tree := foggy(unknown, fail)
				for range 1 + r.IntN(3) {
					p, client, random := make(possible), len(all), rand.New(rand.NewPCG(seed, r.Uint64()))
					all = append(all, p)
					writers.Add(1)
					group.Go(func() error {
						defer writers.Done()
						return write(ctx, tree, random, client, p)
					})
				}
			}
			go func() { writers.Wait(); close(stop) }()
			for range 2 {
				tree, random := foggy(0, 0), rand.New(rand.NewPCG(seed, r.Uint64()))
				group.Go(func() error { return read(ctx, tree, random, stop) })
			}
			require.NoError(t, group.Wait())
			late.Wait()
			check(t, base)
			there := 0
			for e, err := range base.Range(t.Context(), nil, nil, 0) {
				require.NoError(t, err)
				if there++; len(e.Key) == 5 {
					require.NoError(t, all[e.Key[4]].check(string(e.Key), e.Value))
					delete(all[e.Key[4]], string(e.Key))
					there--
				}
			}
			require.Equal(t, stay, there)
			for _, p := range all {
				for key := range p {
					require.NoError(t, p.check(key, nil))
				}
			}
			var every []Entry // so that each node is written
			for i := range stay * stayEvery {
				every = append(every, Entry{number(i), []byte{3}})
				for client := range all {
					every = append(every, Entry{append(number(i), byte(client)), []byte{3}})
				}
			}
			require.NoError(t, base.Insert(t.Context(), every...))
			require.Zero(t, check(t, base))
		})
	}
}

// A root of which nobody knows whether it was made is there when the tree is open.
func TestRootIsThere(t *testing.T) {
	refused := false
	tree := opened(t, intercept.New(memory(t), func(_ context.Context, op intercept.Op, c intercept.Call) error {
		if op.Conditional() && !refused {
			refused = true
			return driver.ErrUnknownOutcome
		}
		return c.Make(nil)
	}, nil), Options{})
	require.True(t, refused)
	require.NoError(t, tree.Insert(t.Context(), Entry{number(1), nil}))
}

// Callers use their buffers again.
func TestKeysAreCopied(t *testing.T) {
	tree := opened(t, memory(t), Options{Entries: 4, Cached: 1000})
	key, value := make([]byte, 4), make([]byte, 4)
	for i := range 200 {
		copy(key, number(i*7919%1000))
		copy(value, key)
		require.NoError(t, tree.Insert(t.Context(), Entry{key, value}))
	}
	clear(key)
	for i := range 200 {
		want := number(i * 7919 % 1000)
		got, err := tree.Get(t.Context(), want)
		require.NoError(t, err)
		require.Equal(t, want, got[0])
	}
}

// A client that knows a tree as it was small learns what it is now, for a few round trips.
func TestOutdatedCacheIsNoticed(t *testing.T) {
	db := memory(t)
	writer := opened(t, db, Options{Entries: 8})
	insert := func(from, to int) {
		var entries []Entry
		for i := from; i < to; i++ {
			entries = append(entries, Entry{number(i), nil})
		}
		require.NoError(t, writer.Insert(t.Context(), entries...))
	}
	for _, ask := range []func(tree *Tree, key int){
		func(tree *Tree, key int) { require.Len(t, all(t, tree, number(key), number(key+1), 0), 1) },
		func(tree *Tree, key int) {
			got, err := tree.Get(t.Context(), number(key))
			require.NoError(t, err)
			require.NotNil(t, got[0])
		},
	} {
		insert(0, 20)
		counted, n := trips(db)
		reader := opened(t, counted, Options{Entries: 8, Cached: 1000})
		ask(reader, 3)
		insert(20, 20_000)
		height, err := writer.Height(t.Context())
		require.NoError(t, err)
		*n = 0
		ask(reader, 19_000)
		require.LessOrEqual(t, *n, 4*height)
		*n = 0
		ask(reader, 19_000)
		require.Equal(t, 1, *n)
	}
}

// However many nodes a call changes, only some are under way at once.
func TestChangesUnderWayAreBounded(t *testing.T) {
	var now, most atomic.Int64
	tree := opened(t, intercept.New(memory(t), func(ctx context.Context, op intercept.Op, c intercept.Call) error {
		if op.Conditional() {
			for n := now.Add(1); n > most.Load(); {
				most.Store(n)
			}
			defer now.Add(-1)
			time.Sleep(100 * time.Microsecond)
		}
		return c.Make(nil)
	}, nil), Options{Entries: 4})
	for part := range 3 {
		var entries []Entry
		for i := range 3000 {
			entries = append(entries, Entry{number(i*3 + part), nil})
		}
		require.NoError(t, tree.Insert(t.Context(), entries...))
	}
	require.Greater(t, most.Load(), int64(together/2))
	require.LessOrEqual(t, most.Load(), int64(together))
	check(t, tree)
}
