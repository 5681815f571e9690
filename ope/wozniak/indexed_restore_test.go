package wozniak

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/opetest"
)

// Restored pairs keep their ciphertexts, others are drawn between them, and those that contradict most
// are left out.
func TestIndexedRestore(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 1))
		var xs []int64
		for range 1 + r.IntN(500) {
			xs = append(xs, int64(r.IntN(1<<16))-1<<15)
		}
		if seed%3 == 0 {
			xs = append([]int64{-1 << 15, 1<<15 - 1}, xs...) // the ends
		}
		before := newIndexed(t, opetest.NewIndex(), ope.Int16, &IndexedOptions{TargetsOnly: true})
		cs, err := before.EncryptBatch(bg, xs)
		require.NoError(t, err)
		var pairs []Pair
		for i, x := range xs {
			pairs = append(pairs, Pair{x, cs[i]})
		}
		// One value has the ciphertext of another, far from its own.
		byValue := slices.SortedFunc(slices.Values(pairs), func(a, b Pair) int { return cmp.Compare(a.Plaintext, b.Plaintext) })
		bad := Pair{byValue[len(pairs)/2].Plaintext, byValue[0].Ciphertext}
		ix := opetest.NewIndex()
		ix.Inject(func(_ context.Context, op opetest.Op) opetest.Fault {
			if op.Commit && ix.Commits() == 1 {
				return opetest.Fail
			}
			return opetest.None
		})
		interrupted := newIndexed(t, ix, ope.Int16, &IndexedOptions{TargetsOnly: true})
		if _, err = interrupted.Restore(bg, pairs); len(pairs) > commitRecords {
			require.ErrorIs(t, err, opetest.ErrInjected)
		}
		ix.Inject(nil)
		left, err := newIndexed(t, ix, ope.Int16, &IndexedOptions{TargetsOnly: true}).Restore(bg, append(pairs, bad))
		require.NoError(t, err)
		if len(pairs) > 50 {
			require.Equal(t, []Pair{bad}, left)
		}
		fresh := newIndexed(t, ix, ope.Int16, &IndexedOptions{TargetsOnly: true})
		for range 100 {
			_, err := fresh.Encrypt(bg, int64(r.IntN(1<<16))-1<<15)
			require.NoError(t, err)
		}
		n, last := 0, int64(-1<<15-1)
		for e, err := range newIndexed(t, ix, ope.Int16, &IndexedOptions{TargetsOnly: true}).Check(bg, func(record []byte, err error) { t.Errorf("%x: %v", record, err) }) {
			require.NoError(t, err)
			require.Greater(t, e.Plaintext, last)
			n, last = n+1, e.Plaintext
		}
		require.GreaterOrEqual(t, n, 100)
		if len(pairs) > 50 {
			for i, x := range xs {
				c, err := fresh.EncryptAs(bg, Pair{x, bad.Ciphertext})
				require.NoError(t, err)
				require.Equal(t, cs[i], c)
			}
		}
	}
}

// Of a further list those pairs are taken that fit between those of the lists before.
func TestPairsThatAgree(t *testing.T) {
	of := func(x, c uint64) pair { return pair{x: x, c: u192{lo: c}} }
	chosen := []pair{of(10, 100), of(20, 200)}
	fit := []pair{of(5, 50), of(15, 150), of(25, 300)}
	contrary := []pair{of(5, 100), of(5, 150), of(10, 100), of(10, 110), of(15, 50), of(15, 100), of(15, 198), of(15, 250), of(25, 150), of(25, 202)}
	require.Equal(t, fit, agreeing(slices.Concat(fit, contrary), chosen))
	require.Equal(t, contrary, agreeing(contrary, nil))
}

// A client that has added values notices that the unit is as before.
func TestIndexedNoticesPutBack(t *testing.T) {
	ix := opetest.NewIndex()
	s := newIndexed(t, ix, ope.Int16, &IndexedOptions{TargetsOnly: true})
	_, err := s.EncryptBatch(bg, []int64{1, 2, 3})
	require.NoError(t, err)
	was, err := ix.Read(bg, "unit", headerKey, nil, 0)
	require.NoError(t, err)
	_, err = s.EncryptBatch(bg, []int64{4, 5, 6})
	require.NoError(t, err)
	change := ope.Change{Puts: was.Records, Meta: was.Meta}
	now, err := ix.Read(bg, "unit", headerKey, nil, 0)
	require.NoError(t, err)
	for _, r := range now.Records {
		gone := true
		for _, kept := range was.Records {
			gone = gone && string(kept.Key) != string(r.Key)
		}
		if gone {
			change.Deletes = append(change.Deletes, r.Key)
		}
	}
	done, err := ix.Commit(bg, "unit", ope.Condition{State: ope.StateOpen}, change)
	require.NoError(t, err)
	require.True(t, done)
	_, err = s.EncryptBatch(bg, []int64{100, 200})
	require.ErrorIs(t, err, ope.ErrIndex)
	require.ErrorContains(t, err, "if the database was restored from a backup, open it again")
}

// A sealed unit takes nothing any more and yields all its pairs, which another unit takes before those that contradict
// them, and one that was never opened stays so.
func TestIndexedSeal(t *testing.T) {
	for seed := range uint64(10) {
		r := rand.New(rand.NewPCG(seed, 2))
		ix := opetest.NewIndex()
		writer := newIndexed(t, ix, ope.Int16, &IndexedOptions{TargetsOnly: true})
		var xs []int64
		for range 1 + r.IntN(100) {
			xs = append(xs, int64(r.IntN(1<<16))-1<<15)
		}
		cs, err := writer.EncryptBatch(bg, xs)
		require.NoError(t, err)
		for range 2 { // it may be called again
			pairs, sound, err := newIndexed(t, ix, ope.Int16, &IndexedOptions{TargetsOnly: true}).Seal(bg)
			require.NoError(t, err)
			require.True(t, sound)
			has := make(map[int64]ope.Ciphertext)
			for _, p := range pairs {
				has[p.Plaintext] = p.Ciphertext
			}
			for i, x := range xs {
				require.Equal(t, cs[i], has[x])
			}
			next := newIndexed(t, opetest.NewIndex(), ope.Int16, &IndexedOptions{TargetsOnly: true})
			wrong := []Pair{{pairs[0].Plaintext, pairs[len(pairs)-1].Ciphertext}, {pairs[len(pairs)-1].Plaintext, pairs[0].Ciphertext}}
			left, err := next.Restore(bg, nil, pairs, slices.Concat(wrong, pairs[:1]))
			require.NoError(t, err)
			require.Equal(t, wrong, left)
			for i, x := range xs {
				c, err := next.Encrypt(bg, x)
				require.NoError(t, err)
				require.Equal(t, cs[i], c)
			}
		}
		c, err := writer.Encrypt(bg, xs[0])
		require.NoError(t, err)
		require.Equal(t, cs[0], c) // it is remembered, and for ever
		for _, s := range []*Indexed{writer, newIndexed(t, ix, ope.Int16, &IndexedOptions{TargetsOnly: true})} {
			for x := int64(-1 << 15); ; x++ {
				if !slices.Contains(xs, x) && x != -1<<15 {
					_, err := s.Encrypt(bg, x)
					require.ErrorIs(t, err, ope.ErrIndex)
					break
				}
			}
		}
		never := opetest.NewIndex()
		for _, x := range []ope.Index{&forgetful{Index: never}, never} {
			pairs, sound, err := newIndexed(t, x, ope.Int16, &IndexedOptions{TargetsOnly: true}).Seal(bg)
			require.NoError(t, err)
			require.True(t, sound)
			require.Empty(t, pairs)
		}
		_, err = newIndexed(t, never, ope.Int16, &IndexedOptions{TargetsOnly: true}).Encrypt(bg, 1)
		require.ErrorIs(t, err, ope.ErrIndex)
	}
}

// A forgetful index does not say what became of its first commit.
type forgetful struct {
	ope.Index
	once sync.Once
}

func (x *forgetful) Commit(ctx context.Context, u ope.Unit, cond ope.Condition, change ope.Change) (applied bool, err error) {
	applied, err = x.Index.Commit(ctx, u, cond, change)
	x.once.Do(func() { applied, err = false, ope.ErrUnknownOutcome })
	return applied, err
}

// A damagedUnit is an index that cannot read the records of a unit.
type damagedUnit struct {
	ope.Index
	unit ope.Unit
}

var errDamaged = errors.New("damaged")

func (x damagedUnit) Read(ctx context.Context, u ope.Unit, from, to []byte, limit int) (ope.View, error) {
	if u == x.unit && limit > 1 {
		return ope.View{}, errDamaged
	}
	return x.Index.Read(ctx, u, from, to, limit)
}

// All parts of an index are sealed, whatever is wrong with one.
func TestSealGoesOn(t *testing.T) {
	ix := opetest.NewIndex()
	opts := &IndexedOptions{TargetsOnly: true, UnitValues: 64}
	s := newIndexed(t, ix, ope.Int32, opts)
	for i := range int64(100) {
		_, err := s.Encrypt(bg, i*100)
		require.NoError(t, err)
	}
	damaged := s.root.parts[3]
	_, _, err := newIndexed(t, damagedUnit{ix, damaged.name}, ope.Int32, opts).Seal(bg)
	require.ErrorIs(t, err, errDamaged)
	for _, p := range s.root.parts {
		view, err := ix.Read(bg, p.name, nil, nil, 1)
		require.NoError(t, err)
		require.Equal(t, ope.StateSealed, view.Meta.State)
	}
}

// The lowest value may have the lowest ciphertext of all, for which the ends of the domain leave room as for any other.
func TestRestoreOfTheLowestCiphertext(t *testing.T) {
	left, err := newIndexed(t, opetest.NewIndex(), ope.Domain{}, nil).Restore(t.Context(), []Pair{{Ciphertext: make(ope.Ciphertext, 8)}})
	require.NoError(t, err)
	require.Empty(t, left)
}

// A pair whose ciphertext leaves too few for the values below or above it is not taken, and those beside it are.
func TestRestoreLeavesRoomAtTheEnds(t *testing.T) {
	s := newIndexed(t, opetest.NewIndex(), ope.Uint16, nil)
	top := ones(s.bits)
	good := []Pair{{1000, s.bytes(u192{lo: 1 << 40})}, {2000, s.bytes(u192{lo: 1 << 50})}}
	bad := []Pair{{3, s.bytes(u192{lo: 2})}, {1<<16 - 4, s.bytes(top.sub(u192{lo: 2}))}}
	left, err := s.Restore(bg, slices.Concat(good, bad))
	require.NoError(t, err)
	require.Equal(t, bad, left)
	small := func() *Indexed {
		return newIndexed(t, opetest.NewIndex(), ope.Uint16, &IndexedOptions{RangeBits: 20, AllowSmallRange: true})
	}
	for s, p := range map[*Indexed]Pair{
		newIndexed(t, opetest.NewIndex(), ope.Uint16, nil): bad[0],
		newIndexed(t, opetest.NewIndex(), ope.Uint16, nil): bad[1],
		small(): {1000, small().bytes(u192{lo: 1 << 20})}, // more bits than the range has
	} {
		left, err = s.Restore(bg, []Pair{p})
		require.NoError(t, err)
		require.Equal(t, []Pair{p}, left)
	}
	exact := []Pair{{3, s.bytes(u192{lo: 3})}, {1<<16 - 4, s.bytes(top.sub(u192{lo: 3}))}}
	left, err = newIndexed(t, opetest.NewIndex(), ope.Uint16, nil).Restore(bg, slices.Concat(good, exact))
	require.NoError(t, err)
	require.Empty(t, left)
}

// A record that another index of the same key and name has at its place, as of another backup, contradicts the records beside it:
// who needs them refuses, and adds nothing to them, and a check names the one that does not follow.
func TestRecordsOfTwoIndexes(t *testing.T) {
	for _, c := range []struct {
		name  string
		other func(s *Indexed) Pair
	}{
		{"a higher value", func(s *Indexed) Pair { return Pair{3000, s.bytes(u192{lo: 1 << 45})} }},
		{"the same value", func(s *Indexed) Pair { return Pair{1000, s.bytes(u192{lo: 1 << 45})} }},
		{"no ciphertexts for values between", func(s *Indexed) Pair { return Pair{1100, s.bytes(u192{lo: 1<<40 + 50})} }},
	} {
		t.Run(c.name, func(t *testing.T) {
			ix, other := opetest.NewIndex(), opetest.NewIndex()
			s := newIndexed(t, ix, ope.Uint16, &IndexedOptions{TargetsOnly: true})
			odd := c.other(s)
			for in, ps := range map[ope.Index][]Pair{ix: {{1000, s.bytes(u192{lo: 1 << 40})}, {2000, s.bytes(u192{lo: 1 << 50})}}, other: {odd}} {
				left, err := newIndexed(t, in, ope.Uint16, &IndexedOptions{TargetsOnly: true}).Restore(bg, ps)
				require.NoError(t, err)
				require.Empty(t, left)
			}
			v, err := other.Read(bg, "unit", odd.Ciphertext, nil, 1)
			require.NoError(t, err)
			was, err := ix.Read(bg, "unit", headerKey, nil, 1)
			require.NoError(t, err)
			done, err := ix.Commit(bg, "unit", ope.Condition{State: ope.StateOpen}, ope.Change{Puts: v.Records, Meta: was.Meta})
			require.NoError(t, err)
			require.True(t, done)

			fresh := newIndexed(t, ix, ope.Uint16, &IndexedOptions{TargetsOnly: true})
			_, err = fresh.Encrypt(bg, 1050)
			require.ErrorIs(t, err, ope.ErrIndex)
			require.ErrorContains(t, err, "contradicts its neighbours")
			named := 0
			for _, err := range fresh.Check(bg, func(_ []byte, err error) {
				require.ErrorContains(t, err, "contradicts its neighbours")
				named++
			}) {
				require.NoError(t, err)
			}
			require.Equal(t, 1, named)
		})
	}
}
