package reads

import (
	"bytes"
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/stretchr/testify/require"
)

// A unit has the keys 1 to n, and is read three at a time.
func unit(n byte, reads *atomic.Int32) func(ctx context.Context, from, to []byte) (ope.View, error) {
	return func(ctx context.Context, from, to []byte) (v ope.View, err error) {
		reads.Add(1)
		for key := max(from[0], 1); key <= n && key < to[0] && err == nil; key++ {
			if len(v.Records) == 3 {
				v.More = true
				break
			}
			v.Records = append(v.Records, ope.Record{Key: []byte{key}})
		}
		return v, ctx.Err()
	}
}

func keys(t *testing.T, v ope.View, err error) (keys []byte) {
	t.Helper()
	require.NoError(t, err)
	for _, r := range v.Records {
		keys = append(keys, r.Key...)
	}
	return keys
}

func TestPagesFollowEachOther(t *testing.T) {
	var reads atomic.Int32
	r := NewAhead(t.Context(), unit(6, &reads))
	defer r.Stop()
	for from, all := byte(0), []byte(nil); ; {
		v, err := r.Read([]byte{from}, []byte{9})
		page := keys(t, v, err)
		if from > 0 {
			require.Equal(t, from, page[0], "the last record comes again")
			page = page[1:]
		}
		all = append(all, page...)
		from = all[len(all)-1]
		if !v.More {
			require.Equal(t, []byte{1, 2, 3, 4, 5, 6}, all)
			break
		}
	}
	require.Equal(t, int32(3), reads.Load(), "what was read before it was asked for is not read again")
}

func TestWhatIsNotAskedForIsDropped(t *testing.T) {
	var reads atomic.Int32
	r := NewAhead(t.Context(), unit(9, &reads))
	v, err := r.Read([]byte{1}, []byte{8})
	require.Equal(t, []byte{1, 2, 3}, keys(t, v, err))
	v, err = r.Read([]byte{3}, []byte{5}) // up to another end
	require.Equal(t, []byte{3, 4}, keys(t, v, err))
	v, err = r.Read([]byte{5}, []byte{8}) // from elsewhere
	require.Equal(t, []byte{5, 6, 7}, keys(t, v, err))
	r.Stop()
	require.Equal(t, int32(4), reads.Load())
}

func TestStopEndsWhatIsBeingRead(t *testing.T) {
	ended := false
	r := NewAhead(t.Context(), func(ctx context.Context, from, to []byte) (ope.View, error) {
		if bytes.Equal(from, []byte{2}) {
			<-ctx.Done()
			ended = true
		}
		return ope.View{Records: []ope.Record{{Key: []byte{2}}}, More: true}, ctx.Err()
	})
	_, err := r.Read([]byte{1}, []byte{9})
	require.NoError(t, err)
	r.Stop()
	require.True(t, ended)
	r.Stop()
}

// An error is for who asks for the page.
func TestErrorsComeWithTheirPage(t *testing.T) {
	broken := errors.New("broken")
	r := NewAhead(t.Context(), func(_ context.Context, from, _ []byte) (v ope.View, err error) {
		if from[0] > 1 {
			err = broken
		}
		return ope.View{Records: []ope.Record{{Key: []byte{2}}}, More: true}, err
	})
	defer r.Stop()
	_, err := r.Read([]byte{1}, []byte{9})
	require.NoError(t, err)
	_, err = r.Read([]byte{2}, []byte{9})
	require.ErrorIs(t, err, broken)
}
