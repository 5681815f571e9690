package ope_test

import (
	"bytes"
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/kerschbaum"
	"github.com/rangecrypt/rangecrypt/ope/memindex"
	"github.com/rangecrypt/rangecrypt/ope/wozniak"
)

// A packed index returns records that lie side by side in one array, as one does that reads them from a file. It keeps what it
// has returned.
type packed struct {
	ope.Index
	mu       sync.Mutex
	returned []ope.View
	was      []ope.View
}

func (p *packed) Read(ctx context.Context, unit ope.Unit, from, to []byte, limit int) (ope.View, error) {
	v, err := p.Index.Read(ctx, unit, from, to, limit)
	var all []byte
	for _, r := range v.Records {
		all = slices.Concat(all, r.Key, r.Value)
	}
	was := v
	was.Records = slices.Clone(v.Records)
	for i, r := range v.Records {
		n := len(r.Key)
		v.Records[i] = ope.Record{Key: all[:n], Value: all[n:][:len(r.Value)]}
		all = all[n+len(r.Value):]
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.returned, p.was = append(p.returned, v), append(p.was, was)
	return v, err
}

// An index may go on to use what it has returned, whatever its documentation says: schemes do not write there.
func TestSchemesDoNotWriteToWhatAnIndexReturns(t *testing.T) {
	ctx, key := t.Context(), ope.GenerateKey()
	p := &packed{Index: memindex.New()}
	values := make([]int64, 300)
	for i := range values {
		values[i] = int64(i * 100 % 30_000)
	}
	for range 2 { // clients
		// The lowest value has the lowest ciphertext of all, beside which an index has what says how it was divided.
		indexed, err := wozniak.NewIndexed(key, ope.Uint16, p, "unit", &wozniak.IndexedOptions{RangeBits: 16, AllowSmallRange: true, UnitValues: 64})
		require.NoError(t, err)
		labels, err := kerschbaum.New(key, ope.Uint16, p, &kerschbaum.Options{Name: "labels", UnitValues: 64})
		require.NoError(t, err)
		for part := range slices.Chunk(values, 50) {
			for _, s := range []ope.BatchEncrypter{indexed, labels} {
				_, err := s.EncryptBatch(ctx, part)
				require.NoError(t, err)
			}
		}
		for range 3 {
			_, err = indexed.Intervals(ctx, 1, 29_999)
			require.NoError(t, err)
		}
		_, err = labels.Rebalance(ctx, nil)
		require.NoError(t, err)
		values = append(values, 1, 2, 3)
	}
	for i, v := range p.returned {
		for k, r := range v.Records {
			require.True(t, bytes.Equal(p.was[i].Records[k].Key, r.Key) && bytes.Equal(p.was[i].Records[k].Value, r.Value), "read %d, record %d", i, k)
		}
	}
}
