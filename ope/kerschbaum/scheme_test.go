package kerschbaum

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/cryptotest"

	"github.com/rangecrypt/rangecrypt/internal/sim"
	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/kerschbaum/internal/arrival"
	"github.com/rangecrypt/rangecrypt/ope/memindex"
	"github.com/rangecrypt/rangecrypt/ope/opetest"
	"github.com/stretchr/testify/require"
)

// A scheme with an index takes long for the trials of opetest.
func init() {
	if !sim.Full() {
		_ = flag.Set("rapid.checks", "30")
	}
}

// testKey is the key of all tests that do not need two.
func testKey(t testing.TB) ope.Key {
	t.Helper()
	secret := make([]byte, ope.KeySize)
	for i := range secret {
		secret[i] = byte(i)
	}
	key, err := ope.NewKey(secret)
	require.NoError(t, err)
	return key
}

// client returns a new client of an index.
func newClient(t testing.TB, index ope.Index, d ope.Domain, opts *Options) *Scheme {
	t.Helper()
	s, err := New(testKey(t), d, index, opts)
	require.NoError(t, err)
	return s
}

func TestContract(t *testing.T) {
	for name, opts := range map[string]*Options{
		"default":   nil,
		"published": {Lambda: 2},
	} {
		t.Run(name, func(t *testing.T) {
			opetest.TestScheme(t, func(tb testing.TB, d ope.Domain) ope.Scheme {
				s, err := New(testKey(t), d, opetest.NewIndex(), opts)
				if opts != nil && errors.Is(err, ope.ErrParams) {
					tb.Skip("labels of more than 128 bits")
				}
				require.NoError(tb, err)
				return s
			})
		})
	}
}

// tight makes a client whose labels have so few bits that it relabels all the time, and moves so
// few elements at once that it often has to make a pass.
func tight(s *Scheme, bits uint) *Scheme {
	s.rules.Bits = bits
	s.window, s.page, s.chunk, s.probes, s.cache = 8, 6, 4, 3, 0
	s.batch = s.chunk
	s.shards = newShards(s)
	return s
}

// first returns the shard that most indexes have alone.
func first(s *Scheme) *shard { return s.shards.first() }

// A recorder is an index that notes what the database sees: everything but the content of records.
type recorder struct {
	ope.Index
	mu    sync.Mutex
	calls []string // in order, but for reads between two commits, which may be parallel
	reads []string
}

func (r *recorder) Read(ctx context.Context, unit ope.Unit, from, to []byte, limit int) (ope.View, error) {
	view, err := r.Index.Read(ctx, unit, from, to, limit)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reads = append(r.reads, fmt.Sprintf("read %s [%x,%x) %d: %v, %d, %v", unit, from, to, limit, view.Meta, len(view.Records), view.More))
	return view, err
}

func (r *recorder) Commit(ctx context.Context, unit ope.Unit, cond ope.Condition, change ope.Change) (bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.flush()
	line := fmt.Sprintf("commit %s if %d %d", unit, cond.State, cond.Generation)
	if cond.Nonce != nil {
		line += fmt.Sprintf(" nonce %x", *cond.Nonce)
	}
	line += fmt.Sprintf(" absent %x: %v delete %x", cond.Absent, change.Meta, change.Deletes)
	for _, p := range change.Puts {
		line += fmt.Sprintf(" put %x %d", p.Key, len(p.Value))
	}
	r.calls = append(r.calls, line)
	return r.Index.Commit(ctx, unit, cond, change)
}

func (r *recorder) flush() {
	slices.Sort(r.reads)
	r.calls = append(r.calls, r.reads...)
	r.reads = nil
}

// All that the database sees depends on the order of the values, and on coins (IND-OCPA): two
// sequences of the same order pattern, with the same coins, make the same calls.
func TestOrderIsAllThatIsSeen(t *testing.T) {
	const n = 150
	// Two ascending lists of values, one dense and one with gaps of every size.
	var dense, sparse [n]int64
	random := rand.New(rand.NewPCG(5, 6))
	at := int64(math.MinInt64 + 1)
	for i := range n {
		dense[i] = int64(i + 7)
		sparse[i] = at
		at += 1 + random.Int64N(1<<random.IntN(57))
	}
	relabels := 0
	for _, a := range arrival.All {
		arriving := a.Of(t, n)
		sorted := slices.Sorted(slices.Values(arriving))
		sequence := make([]int, n)
		for i, x := range arriving {
			sequence[i], _ = slices.BinarySearch(sorted, x)
		}
		for _, published := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/published=%v", a.Name, published), func(t *testing.T) {
				var transcripts [2][]string
				var stats Stats
				for i, values := range []*[n]int64{&dense, &sparse} {
					t.Run("", func(t *testing.T) {
						cryptotest.SetGlobalRandom(t, 1)
						index := &recorder{Index: memindex.New()}
						s := newClient(t, index, ope.Int64, nil)
						s.rules.Published = published
						play(t, tight(s, 12), values, sequence)
						index.flush()
						transcripts[i], stats = index.calls, s.Stats()
					})
				}
				require.Equal(t, transcripts[0], transcripts[1])
				require.NotEmpty(t, transcripts[0])
				require.NotZero(t, stats.Passes)
				relabels += stats.Relabels
			})
		}
	}
	require.NotZero(t, relabels)
}

func play(t *testing.T, s *Scheme, values *[150]int64, sequence []int) {
	ctx := t.Context()
	for i, at := range sequence {
		switch x := values[at]; {
		case i%25 == 24:
			var xs []int64
			for _, j := range sequence[max(0, i-20):min(i+10, len(sequence))] {
				xs = append(xs, values[j])
			}
			_, err := s.EncryptBatch(ctx, xs)
			require.NoError(t, err)
		case i%10 == 9:
			_, err := s.Intervals(ctx, x, values[min(at+7, len(values)-1)])
			require.NoError(t, err)
			for _, err := range s.Range(ctx, x, values[min(at+20, len(values)-1)]) {
				require.NoError(t, err)
			}
			fallthrough
		default:
			c, err := s.Encrypt(ctx, x)
			require.NoError(t, err)
			_, err = s.Decrypt(ctx, c)
			require.NoError(t, err)
		}
		if i == 100 {
			_, err := s.Rebalance(ctx, nil)
			require.NoError(t, err)
		}
	}
}
