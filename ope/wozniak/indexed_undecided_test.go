package wozniak

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/memindex"
)

// An undecidedIndex shows units as they were, until what came after that is decided.
type undecidedIndex struct {
	ope.Index
	old atomic.Pointer[memindex.Index] // nil: reads show everything
}

func (x *undecidedIndex) Read(ctx context.Context, u ope.Unit, from, to []byte, limit int) (ope.View, error) {
	if old := x.old.Load(); old != nil {
		return old.Read(ctx, u, from, to, limit)
	}
	return x.Index.Read(ctx, u, from, to, limit)
}

func (x *undecidedIndex) Commit(ctx context.Context, u ope.Unit, cond ope.Condition, change ope.Change) (bool, error) {
	x.old.Store(nil)
	return x.Index.Commit(ctx, u, cond, change)
}

func (x *undecidedIndex) Decide(context.Context, ope.Unit) error {
	x.old.Store(nil)
	return nil
}

// copyOf returns units of an index as they are.
func copyOf(t *testing.T, ix ope.Index, units ...ope.Unit) *memindex.Index {
	to := memindex.New()
	for _, u := range units {
		view, err := ix.Read(bg, u, nil, nil, 0)
		require.NoError(t, err)
		if view.Meta.State == ope.StateAbsent && len(view.Records) == 0 {
			continue
		}
		_, err = to.Commit(bg, u, ope.Condition{}, ope.Change{Puts: view.Records, Meta: view.Meta})
		require.NoError(t, err)
	}
	return to
}

// begun returns an index, a client of it and a copy, of before it was opened or since.
func begun(t *testing.T, first bool) (*memindex.Index, *Indexed, *memindex.Index) {
	t.Helper()
	ix := memindex.New()
	writer := newIndexed(t, ix, ope.Int32, &IndexedOptions{TargetsOnly: true})
	if !first {
		_, err := writer.Encrypt(bg, 5)
		require.NoError(t, err)
	}
	return ix, writer, copyOf(t, ix, writer.root.name)
}

// What one read has shown and the next one misses is missing only if that is decided.
func TestUndecidedPairs(t *testing.T) {
	calls := map[string]func(s *Indexed) error{
		"Encrypt":   func(s *Indexed) error { _, err := s.Encrypt(bg, 1001); return err },
		"Intervals": func(s *Indexed) error { _, err := s.Intervals(bg, 1002, 3000); return err },
	}
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			for _, first := range []bool{true, false} { // the root is open, or is not
				ix, writer, old := begun(t, first)
				given, err := writer.Encrypt(bg, 1000)
				require.NoError(t, err)

				x := &undecidedIndex{Index: ix}
				s := newIndexed(t, x, ope.Int32, &IndexedOptions{TargetsOnly: true})
				_, err = s.Intervals(bg, 900, 1000) // learns it
				require.NoError(t, err)
				x.old.Store(old)
				require.NoError(t, call(s))
				c, err := s.Encrypt(bg, 1000)
				require.NoError(t, err)
				require.Equal(t, given, c)

				x.Index = old // an operator has put it back
				err = call(s)
				if name == "Encrypt" {
					_, err = s.Encrypt(bg, 999)
				}
				require.ErrorIs(t, err, ope.ErrIndex)
			}
		})
	}
}

// A part of a divided unit that was open and is not is gone only if that is decided.
func TestUndecidedParts(t *testing.T) {
	ix := memindex.New()
	opts := &IndexedOptions{TargetsOnly: true, UnitValues: 64}
	writer := newIndexed(t, ix, ope.Int32, opts)
	for i := range int64(100) {
		_, err := writer.Encrypt(bg, i*100)
		require.NoError(t, err)
	}
	require.NotEmpty(t, writer.root.parts)
	for _, p := range writer.root.parts {
		if p.low.x == 0 || p.high.x == writer.domain.Span() {
			continue
		}
		x := &undecidedIndex{Index: ix}
		s := newIndexed(t, x, ope.Int32, opts)
		at := writer.domain.At(p.low.x)
		_, err := writer.Encrypt(bg, at+2) // opens it
		require.NoError(t, err)
		_, err = s.Encrypt(bg, at+3)
		require.NoError(t, err)
		old := copyOf(t, ix, writer.root.name) // without the parts
		x.old.Store(old)
		_, err = s.Encrypt(bg, at+4)
		require.NoError(t, err)
		x.old.Store(old)
		_, err = s.Intervals(bg, at+7, at+8)
		require.NoError(t, err)
	}
}

// A ciphertext that a client was given for what it has read is one for all others, although the database has not decided that yet.
func TestUndecidedCiphertexts(t *testing.T) {
	for _, first := range []bool{true, false} { // the root is open, or is not
		ix, writer, old := begun(t, first)
		_, err := writer.Encrypt(bg, 1000)
		require.NoError(t, err)
		given, err := newIndexed(t, ix, ope.Int32, &IndexedOptions{TargetsOnly: true}).Encrypt(bg, 1000)
		require.NoError(t, err)

		for _, knows := range []bool{true, false} { // that the root is open
			x := &undecidedIndex{Index: ix}
			s := newIndexed(t, x, ope.Int32, &IndexedOptions{TargetsOnly: true})
			if knows {
				_, err := s.ready(bg)
				require.NoError(t, err)
			}
			x.old.Store(old)
			got, err := s.Decrypt(bg, given)
			require.NoError(t, err)
			require.EqualValues(t, 1000, got)
			_, err = s.Decrypt(bg, s.bytes(fromBytes(given).add(u192{lo: 1})))
			require.ErrorIs(t, err, ope.ErrCiphertext)
		}
	}
}
