package kerschbaum

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/kerschbaum/internal/order"
	"github.com/rangecrypt/rangecrypt/ope/kerschbaum/internal/unit"
	"github.com/rangecrypt/rangecrypt/ope/kerschbaum/internal/unitio"
	"github.com/rangecrypt/rangecrypt/ope/opetest"
	"github.com/stretchr/testify/require"
)

func TestNewRefuses(t *testing.T) {
	index := opetest.NewIndex()
	for name, c := range map[string]struct {
		key   ope.Key
		d     ope.Domain
		index ope.Index
		opts  Options
		want  error
	}{
		"zero key":         {ope.Key{}, ope.Int32, index, Options{}, ope.ErrKey},
		"empty domain":     {testKey(t), ope.Domain{Min: 1, Max: 0}, index, Options{}, ope.ErrParams},
		"no index":         {testKey(t), ope.Int32, nil, Options{}, ope.ErrParams},
		"long name":        {testKey(t), ope.Int32, index, Options{Name: strings.Repeat("n", 41)}, ope.ErrParams},
		"small cache":      {testKey(t), ope.Int32, index, Options{CacheValues: 100}, ope.ErrParams},
		"negative limit":   {testKey(t), ope.Int32, index, Options{Limit: -1}, ope.ErrParams},
		"lambda 1":         {testKey(t), ope.Int32, index, Options{Lambda: 1}, ope.ErrParams},
		"negative lambda":  {testKey(t), ope.Int32, index, Options{Lambda: -2}, ope.ErrParams},
		"129 bits":         {testKey(t), ope.Int64, index, Options{Lambda: 2}, ope.ErrParams},
		"lambda too large": {testKey(t), ope.Int32, index, Options{Lambda: 4}, ope.ErrParams},
	} {
		_, err := New(c.key, c.d, c.index, &c.opts)
		require.ErrorIs(t, err, c.want, name)
	}
	s, err := New(testKey(t), ope.Int32, index, &Options{Name: strings.Repeat("n", 40), Lambda: 3})
	require.NoError(t, err)
	_, err = s.Encrypt(t.Context(), 1) // the unit's name has 64 bytes, which the index allows
	require.NoError(t, err)
	require.Equal(t, "kerschbaum-published/1 domain=[-2147483648,2147483647] lambda=3", s.ID())
	require.Equal(t, "kerschbaum/1 domain=[0,255]", newClient(t, index, ope.Uint8, nil).ID())
}

// tamper lets a change be made to the records of a unit that a database holds.
func tamper(t *testing.T, index ope.Index, unit ope.Unit, do func(records []ope.Record) ope.Change) {
	t.Helper()
	view, err := index.Read(t.Context(), unit, nil, nil, 0)
	require.NoError(t, err)
	require.NotEmpty(t, view.Records)
	change := do(view.Records)
	change.Meta = view.Meta
	applied, err := index.Commit(t.Context(), unit, ope.Condition{State: view.Meta.State, Generation: view.Meta.Generation}, change)
	require.NoError(t, err)
	require.True(t, applied)
}

// everything calls every method on a client that knows nothing, and returns their errors.
func everything(t *testing.T, make func() *Scheme, c ope.Ciphertext) map[string]error {
	ctx := t.Context()
	errs := map[string]error{}
	_, errs["Encrypt"] = make().Encrypt(ctx, 55)
	_, errs["EncryptBatch"] = make().EncryptBatch(ctx, []int64{54, 55})
	_, errs["Decrypt"] = make().Decrypt(ctx, c)
	_, errs["Intervals"] = make().Intervals(ctx, 20, 70)
	for _, err := range make().Range(ctx, 0, 255) {
		errs["Range"] = err
	}
	_, errs["Rebalance"] = make().Rebalance(ctx, nil)
	return errs
}

// An index that another scheme wrote, or that was changed, is refused by every method, with an
// error that says what is wrong and where.
func TestForeignIndex(t *testing.T) {
	const unit = "col/000000/0000000000000001"
	zero := order.Label{}.Bytes()
	put := func(records ...ope.Record) ope.Change { return ope.Change{Puts: records} }
	for name, c := range map[string]struct {
		client func(index ope.Index) (*Scheme, error)
		change func(r []ope.Record) ope.Change
		words  []string
		spares []string // methods that need not notice
	}{
		"another key": {
			client: func(index ope.Index) (*Scheme, error) {
				return New(ope.GenerateKey(), ope.Uint8, index, &Options{Name: "col"})
			},
			words:  []string{"another key", unit},
			spares: []string{"Decrypt"}, // the ciphertext is foreign as well
		},
		"another domain": {
			client: func(index ope.Index) (*Scheme, error) {
				return New(testKey(t), ope.Int16, index, &Options{Name: "col"})
			},
			words: []string{"[0,255]", "[-32768,32767]", unit},
		},
		"other rules": {
			client: func(index ope.Index) (*Scheme, error) {
				return New(testKey(t), ope.Uint8, index, &Options{Name: "col", Lambda: 2})
			},
			words: []string{"kerschbaum/1", "kerschbaum-published/1"},
		},
		"newer format of the unit": {
			change: func(r []ope.Record) ope.Change {
				return put(ope.Record{Key: zero, Value: append([]byte{9}, r[0].Value[1:]...)})
			},
			words: []string{"format 9", "newer version", unit},
		},
		"newer format of a record": {
			change: func(r []ope.Record) ope.Change {
				return put(ope.Record{Key: r[3].Key, Value: append([]byte{9}, r[3].Value[1:]...)})
			},
			words: []string{"format 9", unit},
		},
		"changed record": {
			change: func(r []ope.Record) ope.Change {
				v := bytes.Clone(r[3].Value)
				v[len(v)/2] ^= 1
				return put(ope.Record{Key: r[3].Key, Value: v})
			},
			words: []string{"changed", unit},
		},
		"record at another's place": {
			change: func(r []ope.Record) ope.Change { return put(ope.Record{Key: r[3].Key, Value: r[4].Value}) },
			words:  []string{"moved from another place", unit},
		},
		"record of something else": {
			change: func(r []ope.Record) ope.Change {
				return put(ope.Record{Key: []byte("\x80mine"), Value: []byte("hello")})
			},
			words:  []string{"806d696e65", unit},
			spares: []string{"Decrypt"},
		},
		"header missing": {
			change: func(r []ope.Record) ope.Change { return ope.Change{Deletes: [][]byte{zero}} },
			words:  []string{"header", unit},
		},
	} {
		t.Run(name, func(t *testing.T) {
			index := opetest.NewIndex()
			s := newClient(t, index, ope.Uint8, &Options{Name: "col"})
			_, err := s.EncryptBatch(t.Context(), []int64{10, 20, 30, 40, 50, 60, 70})
			require.NoError(t, err)
			ct, err := s.Encrypt(t.Context(), 30)
			require.NoError(t, err)
			if c.change != nil {
				tamper(t, index, unit, c.change)
			}
			commits := index.Commits()
			errs := everything(t, func() *Scheme {
				s := newClient(t, index, ope.Uint8, &Options{Name: "col"})
				if c.client != nil {
					s, err = c.client(index)
					require.NoError(t, err)
				}
				return s
			}, ct)
			for method, err := range errs {
				if slices.Contains(c.spares, method) {
					continue
				}
				require.ErrorIs(t, err, ope.ErrIndex, method)
				for _, w := range c.words {
					require.ErrorContains(t, err, w, method)
				}
			}
			if c.client != nil || name == "header missing" {
				require.Equal(t, commits, index.Commits(), "nothing was written into a foreign index")
			}
		})
	}
}

// Neighbours that no insertions can have produced are an error.
func TestCorruptShapes(t *testing.T) {
	high := order.DefaultRules().High()
	for name, change := range map[string]func(e *[3]order.Element){
		"equal depths":  func(e *[3]order.Element) { e[1].Shape.Depth = e[0].Shape.Depth },
		"equal values":  func(e *[3]order.Element) { e[1].Value = e[0].Value },
		"out of order":  func(e *[3]order.Element) { e[0].Value, e[1].Value = e[1].Value, e[0].Value },
		"no depth":      func(e *[3]order.Element) { e[1].Shape.Depth = 0 },
		"out of domain": func(e *[3]order.Element) { e[2].Value = math.MaxInt64 },
	} {
		t.Run(name, func(t *testing.T) {
			index := opetest.NewIndex()
			s := newClient(t, index, ope.Int32, nil)
			elements, err := s.rules.Spread([]int64{10, 20, 30})
			require.NoError(t, err)
			es := [3]order.Element(elements)
			change(&es)
			u := first(s).unit(1)
			puts := []ope.Record{u.SealHeader(unit.Header{})}
			for _, e := range es {
				require.True(t, e.Label.Less(high.Label))
				puts = append(puts, u.SealElement(e))
			}
			_, err = index.Commit(t.Context(), u.Name, ope.Condition{}, ope.Change{Puts: puts, Meta: ope.Meta{State: ope.StateOpen}})
			require.NoError(t, err)
			_, err = s.Encrypt(t.Context(), 15)
			require.ErrorIs(t, err, ope.ErrIndex)
			require.ErrorContains(t, err, string(u.Name))
		})
	}
}

// An index takes as many values as it was told to, and still serves those that it has.
func TestLimit(t *testing.T) {
	index := opetest.NewIndex()
	opts := &Options{Limit: 100}
	s := newClient(t, index, ope.Int64, opts)
	other := newClient(t, index, ope.Int64, opts)
	for x := range int64(100) {
		client := s
		if x%3 == 0 {
			client = other
		}
		_, err := client.Encrypt(t.Context(), x*x)
		require.NoError(t, err, x)
	}
	for _, client := range []*Scheme{s, other, newClient(t, index, ope.Int64, opts)} {
		_, err := client.Encrypt(t.Context(), 5)
		require.ErrorIs(t, err, ope.ErrFull)
		_, err = client.EncryptBatch(t.Context(), []int64{0, 1, 4, 5})
		require.ErrorIs(t, err, ope.ErrFull)
		c, err := client.Encrypt(t.Context(), 81)
		require.NoError(t, err)
		x, err := client.Decrypt(t.Context(), c)
		require.NoError(t, err)
		require.EqualValues(t, 81, x)
	}
	_, err := s.Rebalance(t.Context(), nil)
	require.NoError(t, err)
	_, err = other.Encrypt(t.Context(), 5)
	require.ErrorIs(t, err, ope.ErrFull, "the pass counts what it copies")

	// Larger indexes are counted by samples, and take what they were told to all the same.
	const limit = 40_000
	for range 2 {
		s = newClient(t, opetest.NewIndex(), ope.Int64, &Options{Limit: limit})
		n := 0
		for ; n < 2*limit; n += 100 {
			var xs [100]int64
			for i := range xs {
				xs[i] = int64(n + i)
			}
			if _, err = s.EncryptBatch(t.Context(), xs[:]); err != nil {
				break
			}
		}
		require.ErrorIs(t, err, ope.ErrFull)
		require.GreaterOrEqual(t, n, limit, "four standard deviations")
		require.InEpsilon(t, limit+limit/8, n, 0.125, "four standard deviations")
	}
}

// The largest numbers there are bound nothing.
func TestLargestLimits(t *testing.T) {
	for _, opts := range []*Options{
		{Limit: math.MaxInt}, {UnitValues: math.MaxInt}, {Limit: math.MaxInt, UnitValues: math.MaxInt, CacheValues: math.MaxInt},
		{Limit: math.MaxInt, UnitValues: math.MaxInt, Lambda: 2},
	} {
		s := newClient(t, opetest.NewIndex(), ope.Int32, opts)
		for x := range int64(100) {
			_, err := s.Encrypt(t.Context(), x)
			require.NoError(t, err, "%+v", opts)
		}
	}
}

// A failing index fails the call that needed it, and the next call works.
func TestFailingIndex(t *testing.T) {
	index := opetest.NewIndex()
	s := newClient(t, index, ope.Int64, nil)
	for _, fault := range []opetest.Fault{opetest.Fail, opetest.None} {
		index.Inject(func(context.Context, opetest.Op) opetest.Fault { return fault })
		_, err := s.Encrypt(t.Context(), 7)
		_, err2 := s.EncryptBatch(t.Context(), []int64{1, 2})
		_, err3 := s.Intervals(t.Context(), 1, 2)
		_, err4 := s.Rebalance(t.Context(), nil)
		for i, err := range []error{err, err2, err3, err4} {
			if fault == opetest.None {
				require.NoError(t, err, i)
				continue
			}
			require.ErrorIs(t, err, opetest.ErrInjected, fmt.Sprint(i))
		}
	}
}

// An index that was put back is an error to a client that has seen it later: it does not wait for what
// is gone. One that only answered an old question, or has a change that is not yet decided, is none.
func TestPutBack(t *testing.T) {
	const unit = "col/000000/0000000000000001"
	copied := func(from ope.Index) ope.Index {
		to := opetest.NewIndex()
		view, err := from.Read(t.Context(), unit, nil, nil, 0)
		require.NoError(t, err)
		if view.Meta.State > ope.StateAbsent {
			_, err = to.Commit(t.Context(), unit, ope.Condition{}, ope.Change{Puts: view.Records, Meta: view.Meta})
			require.NoError(t, err)
		}
		return to
	}
	for name, before := range map[string]bool{"to an earlier generation": true, "to nothing": false} {
		for op, call := range map[string]func(ctx context.Context, s *Scheme) error{
			"Encrypt":   func(ctx context.Context, s *Scheme) error { _, err := s.Encrypt(ctx, 100); return err },
			"Intervals": func(ctx context.Context, s *Scheme) error { _, err := s.Intervals(ctx, 50, 150); return err },
			"Range": func(ctx context.Context, s *Scheme) error {
				for _, err := range s.Range(ctx, 50, 150) {
					if err != nil {
						return err
					}
				}
				return nil
			},
			"Rebalance": func(ctx context.Context, s *Scheme) error { _, err := s.Rebalance(ctx, nil); return err },
		} {
			t.Run(name+", "+op, func(t *testing.T) {
				index := opetest.NewIndex()
				swapped := &swappedIndex{Index: index}
				s := newClient(t, swapped, ope.Uint8, &Options{Name: "col"})
				old := copied(index)
				_, err := s.EncryptBatch(t.Context(), []int64{1, 60, 120, 180})
				require.NoError(t, err)
				if before {
					old = copied(index)
				}
				view, err := index.Read(t.Context(), unit, nil, nil, 0)
				require.NoError(t, err)
				later := view.Meta
				later.Generation++
				_, err = index.Commit(t.Context(), unit, ope.Condition{State: later.State}, ope.Change{Meta: later})
				require.NoError(t, err)
				_, err = s.Intervals(t.Context(), 30, 200)
				require.NoError(t, err)

				swapped.Index = old
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				defer cancel()
				err = call(ctx, s)
				require.ErrorIs(t, err, ope.ErrIndex)
				require.ErrorContains(t, err, "put back")
				require.ErrorContains(t, err, "if the database was restored from a backup, open it again")
				require.ErrorContains(t, err, unit)
			})
		}
	}

	t.Run("undecided", func(t *testing.T) {
		index := opetest.NewIndex()
		swapped := &swappedIndex{Index: index}
		s := newClient(t, swapped, ope.Uint8, &Options{Name: "col"})
		_, err := s.EncryptBatch(t.Context(), []int64{1, 60, 120, 180})
		require.NoError(t, err)
		old := copied(index)
		view, err := index.Read(t.Context(), unit, nil, nil, 0)
		require.NoError(t, err)
		later := view.Meta
		later.Generation++
		later.Nonce = unitio.NewNonce()
		_, err = index.Commit(t.Context(), unit, ope.Condition{State: later.State}, ope.Change{Meta: later})
		require.NoError(t, err)
		_, err = s.Intervals(t.Context(), 30, 200)
		require.NoError(t, err)
		swapped.reads.Store(&old) // until a commit has decided it
		_, err = s.Intervals(t.Context(), 30, 200)
		require.NoError(t, err)
		require.Nil(t, swapped.reads.Load())
	})

	t.Run("undecided value", func(t *testing.T) {
		index := opetest.NewIndex()
		writer := newClient(t, index, ope.Uint8, &Options{Name: "col"})
		_, err := writer.EncryptBatch(t.Context(), []int64{1, 60, 120, 180})
		require.NoError(t, err)
		old := copied(index)
		_, err = writer.Encrypt(t.Context(), 90)
		require.NoError(t, err)
		swapped := &swappedIndex{Index: index}
		s := newClient(t, swapped, ope.Uint8, &Options{Name: "col"})
		_, err = s.Intervals(t.Context(), 95, 200) // above the new value
		require.NoError(t, err)
		swapped.reads.Store(&old) // until a commit has decided it
		_, err = s.Intervals(t.Context(), 95, 200)
		require.NoError(t, err)
		require.Nil(t, swapped.reads.Load())

		swapped.Index = old // for good
		_, err = s.Intervals(t.Context(), 95, 200)
		require.ErrorIs(t, err, ope.ErrIndex)
		require.ErrorContains(t, err, "is gone")
	})
}

// A swappedIndex is one whose content an operator exchanges.
type swappedIndex struct {
	ope.Index
	reads atomic.Pointer[ope.Index] // what reads see until the next commit
}

func (x *swappedIndex) Read(ctx context.Context, unit ope.Unit, from, to []byte, limit int) (ope.View, error) {
	if old := x.reads.Load(); old != nil {
		return (*old).Read(ctx, unit, from, to, limit)
	}
	return x.Index.Read(ctx, unit, from, to, limit)
}

func (x *swappedIndex) Commit(ctx context.Context, unit ope.Unit, cond ope.Condition, change ope.Change) (bool, error) {
	x.reads.Store(nil)
	return x.Index.Commit(ctx, unit, cond, change)
}
