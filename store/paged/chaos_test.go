package paged_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/rangecrypt/rangecrypt/internal/intercept"
	"github.com/rangecrypt/rangecrypt/internal/sim"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
	"github.com/rangecrypt/rangecrypt/store/paged"
)

var (
	chaosRuns = flag.Int("paged.chaos", sim.Share(12, 4), "runs of TestClientsInChaos")
	chaosSeed = flag.Uint64("paged.seed", rand.Uint64(), "seed of the first of them")
)

var errDead = errors.New("the connection is dead")

const stay, stayEvery = 60, 20 // rows that stay, and how far apart they are

// fate are the values that the rows of one client may have; -1 is no row.
type fate map[int64]map[int64]bool

// write changes rows of a client's own, and reads them. What a failed call was to make may come later.
func write(ctx context.Context, tbl *paged.Table, r *rand.Rand, client int64, known fate) error {
	late := make(fate)
	for range 40 {
		want, remove := make(map[int64]int64), r.IntN(3) == 0
		var rows []store.Row
		for range 1 + r.IntN(6)*r.IntN(8) {
			at, value := r.Int64N(stay)*stayEvery+1+client, r.Int64N(1000)
			if remove {
				value = -1
			}
			if _, twice := want[at]; !twice {
				want[at] = value
				rows = append(rows, store.Row{"at": at, "value": value})
			}
		}
		change := tbl.Put
		if remove {
			change = tbl.Delete
		}
		err := change(ctx, rows...)
		if err != nil && !errors.Is(err, errDead) {
			return err
		}
		for at, value := range want {
			if known[at] == nil {
				known[at] = map[int64]bool{-1: true}
			}
			if err == nil {
				known[at] = map[int64]bool{value: true}
				for v := range late[at] {
					known[at][v] = true
				}
				continue
			}
			if late[at] == nil {
				late[at] = make(map[int64]bool)
			}
			known[at][value], late[at][value] = true, true
		}
		for at := range known {
			row, err := tbl.Get(ctx, store.Row{"at": at})
			if err == nil {
				err = known.check(at, row)
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

func (f fate) check(at int64, row store.Row) error {
	value := int64(-1)
	if row != nil {
		value = row["value"].(int64)
	}
	if f[at] == nil && row == nil || f[at][value] {
		return nil
	}
	return fmt.Errorf("row %d has the value %d, and may have %v", at, value, f[at])
}

// read asks for ranges until stop is closed: what stays is in each, in order and once.
func read(ctx context.Context, tbl *paged.Table, r *rand.Rand, stop <-chan struct{}) error {
	for {
		lo, hi := r.IntN(stay), r.IntN(stay)
		lo, hi = min(lo, hi), max(lo, hi)
		q := store.Query{Where: store.Field[int64]("at").Between(int64(lo*stayEvery), int64(hi*stayEvery)), Unauthenticated: r.IntN(2) == 0}
		found, last := 0, int64(-1)
		for row, err := range tbl.Query(ctx, q) {
			switch {
			case err != nil:
				return err
			case row["at"].(int64) <= last:
				return errors.New("a row comes twice or in another order")
			case row["at"].(int64)%stayEvery == 0:
				found++
			}
			last = row["at"].(int64)
		}
		if found != hi-lo+1 {
			return fmt.Errorf("%d rows of %d that stay", found, hi-lo+1)
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
			chaos(t, seed, rand.New(rand.NewPCG(seed, 0)))
		})
	}
}

func chaos(t *testing.T, seed uint64, r *rand.Rand) {
	db := drivertest.NewMemory()
	base, err := paged.Create(t.Context(), opened(t, db), store.Schema{
		Name: "t", Key: []store.KeyPart{store.OrderedPart("at", store.Int64.Within(0, 2047), store.Plaintext)},
		SpreadBits: []int{-1, 2}[r.IntN(2)], // keys have two bytes
		Columns:    []store.Column{store.RandomisedColumn("value", store.Int64)},
	}, 2+r.IntN(4))
	require.NoError(t, err)
	var stays []store.Row
	for i := range stay {
		stays = append(stays, store.Row{"at": int64(i * stayEvery), "value": int64(i)})
	}
	require.NoError(t, base.Put(t.Context(), stays...))
	var late, writers sync.WaitGroup
	unknown, fail := 0.3*r.Float64(), 0.02*float64(r.IntN(2))
	foggy := func(unknown, fail float64) *paged.Table {
		f := &intercept.Fog{Random: rand.New(rand.NewPCG(seed, r.Uint64())), Refused: errDead, Late: &late}
		tbl, err := paged.Open(t.Context(), opened(t, intercept.New(db, f.Call, nil)), "t")
		require.NoError(t, err)
		f.Unknown, f.Fail = unknown, fail
		return tbl
	}
	group, ctx := errgroup.WithContext(t.Context())
	stop := make(chan struct{})
	var all []fate
	for range 2 + r.IntN(3) {
		tbl := foggy(unknown, fail)
		for range 1 + r.IntN(3) {
			known, client, random := make(fate), int64(len(all)), rand.New(rand.NewPCG(seed, r.Uint64()))
			all = append(all, known)
			writers.Add(1)
			group.Go(func() error {
				defer writers.Done()
				return write(ctx, tbl, random, client, known)
			})
		}
	}
	go func() { writers.Wait(); close(stop) }()
	for range 2 {
		tbl, random := foggy(0, 0), rand.New(rand.NewPCG(seed, r.Uint64()))
		group.Go(func() error { return read(ctx, tbl, random, stop) })
	}
	require.NoError(t, group.Wait())
	late.Wait()
	there, rows := 0, 0
	for row, err := range base.Query(t.Context(), store.Query{}) {
		require.NoError(t, err)
		rows++
		if at := row["at"].(int64); at%stayEvery == 0 {
			there++
		} else {
			client := at%stayEvery - 1
			require.NoError(t, all[client].check(at, row))
			delete(all[client], at)
		}
	}
	require.Equal(t, stay, there)
	for _, known := range all {
		for at := range known {
			require.NoError(t, known.check(at, nil))
		}
	}
	c, err := base.Verify(t.Context())
	require.NoError(t, err)
	require.Equal(t, rows, c.Rows)
	// Whoever writes next cuts what was left uncut.
	var every []store.Row
	for i := range int64(stay * stayEvery) {
		every = append(every, store.Row{"at": i})
	}
	require.NoError(t, base.Put(t.Context(), every...))
	c, err = base.Verify(t.Context())
	require.NoError(t, err)
	require.Zero(t, c.Uncut)
	require.Equal(t, len(every), c.Rows)
}
