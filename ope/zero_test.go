package ope_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/boldyreva"
	"github.com/rangecrypt/rangecrypt/ope/encode"
	"github.com/rangecrypt/rangecrypt/ope/kerschbaum"
	"github.com/rangecrypt/rangecrypt/ope/wozniak"
)

// A scheme that no function has made has no key. All schemes say so, whatever they are asked, and none encrypts.
func TestZeroSchemesHaveNoKey(t *testing.T) {
	type scheme interface {
		ope.Scheme
		ope.BatchEncrypter
	}
	ctx := context.Background()
	for _, s := range []scheme{
		new(boldyreva.Scheme), new(boldyreva.ModularScheme), new(wozniak.Scheme), new(wozniak.Indexed),
		new(kerschbaum.Scheme), new(kerschbaum.Ranked),
	} {
		require.Empty(t, s.ID())
		require.Zero(t, s.Domain())
		for _, x := range []int64{0, 1, -7} {
			c, err := s.Encrypt(ctx, x)
			require.ErrorIs(t, err, ope.ErrKey, "%T", s)
			require.ErrorContains(t, err, "make it with ")
			require.NotErrorIs(t, err, ope.ErrDomain)
			require.Nil(t, c)
			_, err = s.EncryptBatch(ctx, []int64{x})
			require.ErrorIs(t, err, ope.ErrKey, "%T", s)
			_, err = s.Intervals(ctx, 0, x)
			require.ErrorIs(t, err, ope.ErrKey, "%T", s)
			if a, ok := s.(ope.Appender); ok {
				dst, err := a.AppendEncrypt([]byte("before"), x)
				require.ErrorIs(t, err, ope.ErrKey, "%T", s)
				require.Equal(t, []byte("before"), dst)
			}
		}
		for _, c := range []ope.Ciphertext{nil, {0}, make(ope.Ciphertext, 32)} {
			_, err := s.Decrypt(ctx, c)
			require.ErrorIs(t, err, ope.ErrKey, "%T", s)
		}
		if m, ok := s.(ope.Mutable); ok {
			_, err := m.Rebalance(ctx, nil)
			require.ErrorIs(t, err, ope.ErrKey)
			for _, err := range m.Range(ctx, 0, 0) {
				require.ErrorIs(t, err, ope.ErrKey)
			}
		}
	}
}

func TestZeroClientsOfAnIndexHaveNoKey(t *testing.T) {
	ctx := context.Background()
	indexed := new(wozniak.Indexed)
	require.Zero(t, indexed.Stats())
	_, err := indexed.Restore(ctx, nil)
	require.ErrorIs(t, err, ope.ErrKey)
	_, _, err = indexed.Seal(ctx)
	require.ErrorIs(t, err, ope.ErrKey)
	_, err = indexed.EncryptAs(ctx, wozniak.Pair{})
	require.ErrorIs(t, err, ope.ErrKey)
	ranked := new(kerschbaum.Ranked)
	require.Zero(t, ranked.Stats())
	require.Zero(t, new(kerschbaum.Scheme).Stats())
	_, err = ranked.Parse(nil)
	require.ErrorIs(t, err, ope.ErrKey)
	fault := func([]byte, error) {}
	for _, check := range []func(func(ope.Entry, error) bool){
		indexed.Check(ctx, fault), ranked.Check(ctx, fault), new(kerschbaum.Scheme).Check(ctx, fault),
	} {
		n := 0
		for _, err := range check {
			require.ErrorIs(t, err, ope.ErrKey)
			n++
		}
		require.Equal(t, 1, n)
	}
}

// The text scheme encrypts without an error to return, so that it panics instead.
func TestZeroTextSchemeHasNoKey(t *testing.T) {
	s := new(boldyreva.TextScheme)
	require.Empty(t, s.ID())
	require.Zero(t, s.Size())
	_, err := s.Decrypt(nil)
	require.ErrorIs(t, err, ope.ErrKey)
	const says = "boldyreva: use of a zero TextScheme; make it with NewText"
	require.PanicsWithValue(t, says, func() { s.Encrypt(nil) })
	require.PanicsWithValue(t, says, func() { s.AppendEncrypt(nil, nil) })
	require.PanicsWithValue(t, says, func() { s.Interval(nil, []byte("x")) })
	require.PanicsWithValue(t, says, func() { s.Interval(nil, nil) })
}

func TestZeroColumnsHaveNoKey(t *testing.T) {
	ctx := context.Background()
	c, p := new(encode.Column[string]), new(encode.PrefixColumn[string])
	require.Empty(t, c.ID())
	require.Empty(t, p.ID())
	for what, call := range map[string]func() error{
		"Encrypt":      func() error { _, err := c.Encrypt(ctx, ""); return err },
		"EncryptBatch": func() error { _, err := c.EncryptBatch(ctx, nil); return err },
		"Decrypt":      func() error { _, err := c.Decrypt(ctx, nil); return err },
		"Range":        func() error { _, err := c.Range(ctx, nil, nil); return err },
		"Between":      func() error { _, err := c.Between(ctx, "", ""); return err },
		"All":          func() error { _, err := c.All(ctx); return err },
		"prefix":       func() error { _, err := p.Encrypt(ctx, ""); return err },
	} {
		require.ErrorIs(t, call(), ope.ErrKey, what)
	}
}

func TestZeroCodecs(t *testing.T) {
	var e encode.Exact[int64]
	var p encode.Prefix[string]
	for what, call := range map[string]func() error{
		"Encode": func() error { _, err := e.Encode(0); return err },
		"Decode": func() error { _, err := e.Decode(0); return err },
		"Low":    func() error { _, _, err := e.Low(0); return err },
		"High":   func() error { _, _, err := e.High(0); return err },
		"Within": func() error { _, err := e.Within(0, 0); return err },
		"prefix": func() error { _, err := p.Encode(""); return err },
		"low":    func() error { _, _, err := p.Low(""); return err },
		"high":   func() error { _, _, err := p.High(""); return err },
		"within": func() error { _, err := p.Within("", ""); return err },
	} {
		require.ErrorIs(t, call(), ope.ErrParams, what)
	}
}
