package check

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/kerschbaum/internal/order"
	"github.com/rangecrypt/rangecrypt/ope/kerschbaum/internal/unit"
	"github.com/rangecrypt/rangecrypt/ope/kerschbaum/internal/unitio"
	"github.com/rangecrypt/rangecrypt/ope/opetest"
)

// A world is an index of one unit, with a checker for it whose client knows nothing.
type world struct {
	t       *testing.T
	index   ope.Index
	shard   *unitio.Shard
	checker Checker
	meta    ope.Meta
}

func newWorld(t *testing.T) *world { return worldOf(t, order.DefaultRules()) }

func worldOf(t *testing.T, rules order.Rules) *world {
	w := &world{t: t, index: opetest.NewIndex()}
	key := ope.GenerateKey()
	units := unitio.New(w.index, &unit.Codec{Name: "column", ID: "test", Key: key, Rules: rules, Domain: ope.Int64})
	w.shard = units.Shard(0, func(uint64, []byte) (ope.Meta, bool, bool) { return ope.Meta{}, false, false }, new(sync.Mutex), order.NewList(rules, 0))
	w.checker = Checker{
		Domain: ope.Int64, Rules: rules, Page: 4,
		Units: func(uint32, uint64) *unitio.Shard { return w.shard },
		Locate: func(context.Context, uint32, unit.Page, int64) (order.Label, ope.Version, error) {
			return order.Label{}, ope.Version{}, errors.New("nothing is known")
		},
	}
	return w
}

// commit begins a generation of the unit.
func (w *world) commit(puts []ope.Record, deletes ...[]byte) {
	was := w.meta
	w.meta = ope.Meta{State: ope.StateOpen, Generation: was.Generation + 1, Nonce: unitio.NewNonce()}
	applied, err := w.shard.Commit(context.Background(), w.unit(), ope.Condition{State: was.State, Generation: was.Generation}, ope.Change{Puts: puts, Deletes: deletes, Meta: w.meta})
	require.NoError(w.t, err)
	require.True(w.t, applied)
}

func (w *world) unit() *unit.Unit { return w.shard.Unit(1) }

// fill opens the unit with the values 0 to n-1, and returns them.
func (w *world) fill(n int) []order.Element {
	values := make([]int64, n)
	for i := range values {
		values[i] = int64(i)
	}
	elements, err := w.checker.Rules.Spread(values)
	require.NoError(w.t, err)
	puts := []ope.Record{w.unit().SealHeader(unit.Header{Values: uint64(n)})}
	for _, e := range elements {
		puts = append(puts, w.unit().SealElement(e))
	}
	w.commit(puts)
	return elements
}

// check returns the values and the faults that are found. It calls do for each value.
func (w *world) check(do func(x int64)) (values []int64, faults []string) {
	err := w.checker.Run(w.t.Context(), 0,
		func(record []byte, err error) { faults = append(faults, fmt.Sprintf("%x: %v", record, err)) },
		func(e order.Element, _ ope.Version) bool {
			values = append(values, e.Value)
			do(e.Value)
			return true
		})
	require.NoError(w.t, err)
	return values, faults
}

func nothing(int64) {}

func TestFaultsOfOneUnit(t *testing.T) {
	w := newWorld(t)
	elements := w.fill(10)
	values, faults := w.check(nothing)
	require.Equal(t, []int64{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, values)
	require.Empty(t, faults)

	at := func(i int) []byte { return elements[i].Label.Bytes() }
	w.commit([]ope.Record{{Key: at(3), Value: []byte("damaged")}}, at(7), at(9))
	values, faults = w.check(nothing)
	require.Equal(t, []int64{0, 1, 2, 4, 5, 6, 8}, values, "it goes on after a fault")
	require.Len(t, faults, 2)
	require.Contains(t, faults[0], fmt.Sprintf("%x", at(3)))
	require.Contains(t, faults[1], "it had 10 values and has 8 records")
}

// When values move while they are checked, each is yielded once. It begins again where nobody knows a place to go on from,
// and else goes on from there.
func TestCheckBesideMoves(t *testing.T) {
	reads := map[bool]int{}
	for name, known := range map[string]bool{"unknown": false, "known": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			elements := w.fill(20)
			asked := 0
			locate := w.checker.Locate
			w.checker.Locate = func(ctx context.Context, shard uint32, p unit.Page, x int64) (order.Label, ope.Version, error) {
				if asked++; !known {
					return locate(ctx, shard, p, x)
				}
				return elements[x].Label, ope.Version{Epoch: 1, Generation: p.Meta.Generation}, nil
			}
			values, faults := w.check(func(x int64) {
				if x == 14 {
					w.commit(nil)
				}
			})
			require.Empty(t, faults)
			require.Len(t, values, 20)
			for i, x := range values {
				require.Equal(t, int64(i), x)
			}
			require.Equal(t, 1, asked)
			reads[known] = w.shard.Stats().Reads
		})
	}
	require.Less(t, reads[true], reads[false])
}

// What reads a unit of a later version of the scheme refuses it.
func TestUnknownState(t *testing.T) {
	w := newWorld(t)
	_, err := w.index.Commit(t.Context(), w.unit().Name, ope.Condition{}, ope.Change{Meta: ope.Meta{State: ope.StateDivided + 1}})
	require.NoError(t, err)
	err = w.checker.Run(t.Context(), 0, nil, nil)
	require.ErrorIs(t, err, ope.ErrIndex)
	require.ErrorContains(t, err, "newer version")
}

// Ranks that no client gives are faults: one that is not above the one before it, and one that is shared with nobody.
func TestRanksAreChecked(t *testing.T) {
	for name, harm := range map[string]func(e *order.Element){
		"as it was":          func(*order.Element) {},
		"out of order":       func(e *order.Element) { e.Rank.Hi = 1 },
		"shared with nobody": func(e *order.Element) { e.Rank.Shared = true },
	} {
		t.Run(name, func(t *testing.T) {
			rules := order.DefaultRules()
			rules.RankBits = order.RankBits
			w := worldOf(t, rules)
			elements := w.fill(9)
			harm(&elements[4])
			w.commit([]ope.Record{w.unit().SealElement(elements[4])})
			_, faults := w.check(nothing)
			require.Equal(t, name != "as it was", len(faults) > 0, faults)
		})
	}
}
