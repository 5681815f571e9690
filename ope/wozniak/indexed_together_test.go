package wozniak

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/memindex"
	"github.com/rangecrypt/rangecrypt/ope/opetest"
)

// A reader that was to see whether the index is open may learn that late. Where the places of values were looked up before
// another client's commit, and the reader looks after it, the commit that follows must not take them for places of now.
func TestLateReaderDoesNotRenewTheView(t *testing.T) {
	for range 20 {
		opts := &IndexedOptions{TargetsOnly: true}
		ix := opetest.NewIndex()
		_, err := newIndexed(t, ix, ope.Int32, opts).Encrypt(bg, -5)
		require.NoError(t, err)

		s := newIndexed(t, ix, ope.Int32, opts)
		open, err := s.ready(bg)
		require.NoError(t, err)
		require.True(t, open)
		j := &job{u: s.root, lot: []uint64{s.domain.Offset(1000)}, rest: 1}
		require.NoError(t, s.locate(bg, j))

		other := newIndexed(t, ix, ope.Int32, opts)
		first, err := other.Encrypt(bg, 2000)
		require.NoError(t, err)
		_, err = s.enter(bg, s.root) // the late reader
		require.NoError(t, err)

		j.plan, j.err = s.plan(j.u, j.lot, nil)
		_, err = s.finish(bg, j)
		require.NoError(t, err)

		c, err := newIndexed(t, ix, ope.Int32, opts).Encrypt(bg, 1000)
		require.NoError(t, err)
		require.Less(t, string(c), string(first))
	}
}

// Coins are read by one goroutine at a time, whoever opens the index.
func TestCoinsAreReadByOneAtATime(t *testing.T) {
	for range 200 {
		s := newIndexed(t, opetest.NewIndex(), ope.Int32, nil)
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				_, err := s.Restore(bg, nil)
				require.NoError(t, err)
			})
		}
		wg.Go(func() {
			_, err := s.Encrypt(bg, 7)
			require.NoError(t, err)
		})
		wg.Wait()
	}
}

// brokenCoins panic once.
type brokenCoins struct {
	io.Reader
	once sync.Once
}

func (b *brokenCoins) Read(p []byte) (int, error) {
	b.once.Do(func() { panic("no coins") })
	return b.Reader.Read(p)
}

// Coins that panic end the call that needed them, and none that comes later.
func TestCoinsThatPanic(t *testing.T) {
	ix := opetest.NewIndex()
	_, err := newIndexed(t, ix, ope.Int32, &IndexedOptions{TargetsOnly: true}).Encrypt(bg, 1)
	require.NoError(t, err)
	for _, x := range []ope.Index{ix, opetest.NewIndex()} {
		s := newIndexed(t, x, ope.Int32, &IndexedOptions{TargetsOnly: true, Coins: &brokenCoins{Reader: rand.NewChaCha8([32]byte{1})}})
		require.Panics(t, func() { _, _ = s.Encrypt(bg, 2) })
		ctx, cancel := context.WithTimeout(bg, 10*time.Second)
		defer cancel()
		_, err := s.Encrypt(ctx, 2)
		require.NoError(t, err)
	}
}

// A client may be sealed and checked while it encrypts.
func TestSealBesideEncrypt(t *testing.T) {
	for range 50 {
		ix := memindex.New()
		_, err := newIndexed(t, ix, ope.Int32, nil).Encrypt(bg, 1)
		require.NoError(t, err)
		s := newIndexed(t, ix, ope.Int32, nil)
		var wg sync.WaitGroup
		wg.Go(func() {
			for x := range int64(20) {
				if _, err := s.Encrypt(bg, x*1000); err != nil {
					require.ErrorIs(t, err, ope.ErrIndex)
				}
			}
		})
		wg.Go(func() {
			for _, err := range s.Check(bg, func(_ []byte, err error) { require.NoError(t, err) }) {
				if errors.Is(err, ope.ErrIndex) {
					return
				}
				require.NoError(t, err)
			}
		})
		wg.Go(func() {
			_, sound, err := s.Seal(bg)
			require.NoError(t, err)
			require.True(t, sound)
		})
		wg.Wait()
	}
}

// Of an index that was made again, or is gone, nobody can say which strings are ciphertexts.
func TestDecryptAfterTheEnd(t *testing.T) {
	for _, again := range []bool{true, false} {
		opts := &IndexedOptions{TargetsOnly: true}
		ix := opetest.NewIndex()
		s := newIndexed(t, ix, ope.Int32, opts)
		_, err := s.Encrypt(bg, 1)
		require.NoError(t, err)
		c, err := newIndexed(t, ix, ope.Int32, opts).Encrypt(bg, 2)
		require.NoError(t, err)
		s.index = memindex.New()
		if again {
			done, err := s.index.Commit(bg, "unit", ope.Condition{}, ope.Change{Meta: ope.Meta{State: ope.StateRetired}})
			require.NoError(t, err)
			require.True(t, done)
		}
		_, err = s.Decrypt(bg, c)
		require.ErrorIs(t, err, ope.ErrIndex)
		require.NotErrorIs(t, err, ope.ErrCiphertext)
	}
}

// Values to look up may be known by the time that they are, since others look for some, too. Those next to them are found all the same.
func TestSearchBesideKnownValues(t *testing.T) {
	opts := &IndexedOptions{TargetsOnly: true}
	ix := opetest.NewIndex()
	_, err := newIndexed(t, ix, ope.Int32, opts).EncryptBatch(bg, []int64{-7, 10, 900, 1000})
	require.NoError(t, err)
	s := newIndexed(t, ix, ope.Int32, opts)
	c, err := newIndexed(t, ix, ope.Int32, opts).Encrypt(bg, 10)
	require.NoError(t, err)
	x, err := s.Decrypt(bg, c) // it is the lower neighbour of all that are above it, as far as is known
	require.NoError(t, err)
	require.EqualValues(t, 10, x)
	ctx, cancel := context.WithTimeout(bg, 10*time.Second)
	defer cancel()
	at := s.domain.Offset
	found, err := s.gaps(ctx, []uint64{at(10), at(500), at(900)})
	require.NoError(t, err)
	require.Equal(t, [2]uint64{at(10), at(10)}, [2]uint64{found[at(10)].low.x, found[at(10)].high.x})
	require.Equal(t, [2]uint64{at(10), at(900)}, [2]uint64{found[at(500)].low.x, found[at(500)].high.x})
	require.Equal(t, at(900), found[at(900)].low.x)
}

// A lateIndex reads the first page of a look-up late, after others have put something.
type lateIndex struct {
	ope.Index
	once sync.Once
	from []byte
	put  func()
}

func (ix *lateIndex) Read(ctx context.Context, unit ope.Unit, from, to []byte, limit int) (ope.View, error) {
	if ix.from != nil && bytes.Equal(from, ix.from) {
		ix.once.Do(func() {
			time.Sleep(50 * time.Millisecond) // the other pages are read meanwhile
			ix.put()
		})
	}
	return ix.Index.Read(ctx, unit, from, to, limit)
}

// Pages of a look-up are of different instants. One may end above where another, of an earlier one, saw nothing.
func TestPagesOfDifferentInstants(t *testing.T) {
	opts := &IndexedOptions{TargetsOnly: true}
	late := &lateIndex{Index: opetest.NewIndex()}
	var high []int64
	for x := range int64(100) {
		high = append(high, 1<<62+x<<40)
	}
	_, err := newIndexed(t, late, ope.Int64, opts).EncryptBatch(bg, high)
	require.NoError(t, err)
	s := newIndexed(t, late, ope.Int64, opts)
	_, err = s.ready(bg)
	require.NoError(t, err)
	late.from = s.bytes(s.root.low.c)
	late.put = func() {
		var low []int64
		for x := range int64(200) {
			low = append(low, -1<<62+x<<40)
		}
		_, err := newIndexed(t, late.Index, ope.Int64, opts).EncryptBatch(bg, low)
		require.NoError(t, err)
	}
	_, err = s.Intervals(bg, 0, math.MaxInt64)
	require.NoError(t, err)
}
