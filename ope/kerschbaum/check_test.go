package kerschbaum

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/opetest"
	"github.com/stretchr/testify/require"
)

// checked returns what Check yields and reports. Faults are sorted.
func checked(t *testing.T, s *Scheme) (values []int64, faults []string) {
	t.Helper()
	for e, err := range s.Check(t.Context(), func(record []byte, err error) { faults = append(faults, fmt.Sprintf("%x %v", record, err)) }) {
		require.NoError(t, err)
		values = append(values, e.Plaintext)
	}
	slices.Sort(faults)
	return values, faults
}

func filledOneByOne(t *testing.T, index ope.Index, values []int64) *Scheme {
	t.Helper()
	s := newClient(t, index, ope.Int64, nil)
	for _, x := range values {
		_, err := s.Encrypt(t.Context(), x)
		require.NoError(t, err)
	}
	return s
}

// An index as clients leave it is in order: an empty one, one that was filled in any order, with
// and without relabelling, after a pass, and with the ends of the domain in it.
func TestCheckSound(t *testing.T) {
	for name, lambda := range map[string]int{"default": 0, "published": 2} {
		t.Run(name, func(t *testing.T) {
			index := opetest.NewIndex()
			fresh := func() *Scheme { return newClient(t, index, ope.Int32, &Options{Name: "col", Lambda: lambda}) }
			values, faults := checked(t, fresh())
			require.Empty(t, values)
			require.Empty(t, faults)
			s := fresh()
			want := []int64{ope.Int32.Min, ope.Int32.Max}
			for i := range int64(1500) {
				want = append(want, i) // sorted: the published rules relabel again and again
			}
			r := rand.New(rand.NewPCG(1, 2))
			for range 1500 {
				want = append(want, r.Int64N(1<<30))
			}
			_, err := s.EncryptBatch(t.Context(), want[:800])
			require.NoError(t, err)
			for _, x := range want[800:] {
				_, err := s.Encrypt(t.Context(), x)
				require.NoError(t, err)
			}
			slices.Sort(want)
			want = slices.Compact(want)
			for range 2 {
				values, faults = checked(t, fresh())
				require.Empty(t, faults)
				require.Equal(t, want, values)
				for e, err := range fresh().Check(t.Context(), nil) {
					require.NoError(t, err)
					c, err := s.Encrypt(t.Context(), e.Plaintext)
					require.NoError(t, err)
					require.Equal(t, c, e.Ciphertext)
				}
				_, err = s.Rebalance(t.Context(), nil)
				require.NoError(t, err)
			}
		})
	}
}

// Every kind of damage is told with its place; all values that are good are yielded all the same.
func TestCheckTellsDamage(t *testing.T) {
	const unit = ope.Unit("col/000000/0000000000000001")
	var values []int64
	for i := range int64(40) {
		values = append(values, (i*23)%40)
	}
	type tampering struct {
		rebalanced bool
		change     func(r []ope.Record) ope.Change
		faults     []string // parts of the faults, by place
		lost       int      // values that are not yielded
	}
	for name, c := range map[string]tampering{
		"two records altered": {
			change: func(r []ope.Record) ope.Change {
				for _, i := range []int{5, 20} {
					r[i].Value = bytes.Clone(r[i].Value)
					r[i].Value[30] ^= 1
				}
				return ope.Change{Puts: []ope.Record{r[5], r[20]}}
			},
			faults: []string{"was changed", "was changed"}, lost: 2,
		},
		"a record under another's key": {
			change: func(r []ope.Record) ope.Change {
				return ope.Change{Puts: []ope.Record{{Key: r[9].Key, Value: r[8].Value}}}
			},
			faults: []string{"was changed"}, lost: 1,
		},
		"a record with a key that is no label": {
			change: func(r []ope.Record) ope.Change {
				return ope.Change{Puts: []ope.Record{{Key: append(bytes.Clone(r[9].Key), 1), Value: r[8].Value}}}
			},
			faults: []string{"has no place"},
		},
		"the header is gone": {
			change: func(r []ope.Record) ope.Change { return ope.Change{Deletes: [][]byte{r[0].Key}} },
			faults: []string{"its header is missing"},
		},
		"a record is gone after a rebalancing": {
			rebalanced: true,
			change:     func(r []ope.Record) ope.Change { return ope.Change{Deletes: [][]byte{r[40].Key}} },
			faults:     []string{"some are gone"}, lost: 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			index := opetest.NewIndex()
			s := newClient(t, index, ope.Int64, &Options{Name: "col"})
			for _, x := range values {
				_, err := s.Encrypt(t.Context(), x)
				require.NoError(t, err)
			}
			if c.rebalanced {
				_, err := s.Rebalance(t.Context(), nil)
				require.NoError(t, err)
			}
			tamper(t, index, unit, c.change)
			var faults []string
			var got []int64
			for e, err := range newClient(t, index, ope.Int64, &Options{Name: "col"}).Check(t.Context(), func(record []byte, err error) {
				require.ErrorContains(t, err, string(unit))
				faults = append(faults, err.Error())
			}) {
				require.NoError(t, err)
				got = append(got, e.Plaintext)
			}
			require.Len(t, faults, len(c.faults), "%v", faults)
			for i, part := range c.faults {
				require.Contains(t, faults[i], part)
			}
			require.Len(t, got, len(values)-c.lost)
			require.True(t, slices.IsSorted(got))
		})
	}
	// A record is gone beside which others were put: these are both children of it.
	index := opetest.NewIndex()
	filledOneByOne(t, index, []int64{50, 25, 75})
	tamper(t, index, "/000000/0000000000000001", func(r []ope.Record) ope.Change { return ope.Change{Deletes: [][]byte{r[2].Key}} })
	got, faults := checked(t, newClient(t, index, ope.Int64, nil))
	require.Len(t, faults, 1)
	require.Contains(t, faults[0], "equal depth")
	require.Equal(t, []int64{25, 75}, got)

	// Values out of order and there twice, by somebody who has the key.
	index = opetest.NewIndex()
	s := filledOneByOne(t, index, values)
	u := first(s).unit(1)
	name := u.Name
	tamper(t, index, name, func(r []ope.Record) ope.Change {
		e, err := u.OpenElement(r[8])
		require.NoError(t, err)
		f, err := u.OpenElement(r[7])
		require.NoError(t, err)
		e.Value = f.Value
		return ope.Change{Puts: []ope.Record{u.SealElement(e)}}
	})
	got, faults = checked(t, newClient(t, index, ope.Int64, nil))
	require.Len(t, faults, 1)
	require.Contains(t, faults[0], "not above")
	require.Len(t, got, len(values)-1)

	// Another key reads nothing.
	other, err := New(ope.GenerateKey(), ope.Int64, index, nil)
	require.NoError(t, err)
	var last error
	for _, err := range other.Check(t.Context(), func([]byte, error) {}) {
		last = err
	}
	require.ErrorIs(t, last, ope.ErrIndex)
}
