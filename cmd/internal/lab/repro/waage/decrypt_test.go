package waage

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/cmd/internal/lab/repro/experiment"
	"github.com/rangecrypt/rangecrypt/cmd/internal/lab/repro/reprotest"
	"github.com/rangecrypt/rangecrypt/internal/cli/exit"
	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/memindex"
)

func TestDecryptTimes(t *testing.T) {
	ctx := context.Background()
	cfg := experiment.Config{Seed: 1, Quick: true, Database: reprotest.Database(t)}
	before, err := cfg.Database.DB.Families(ctx)
	require.NoError(t, err)
	r, err := decryptTimes(ctx, cfg)
	require.NoError(t, err)
	require.Len(t, r.Table.Rows, len(variants))
	reprotest.WellFormed(t, r)
	reprotest.Smaller(t, r)
	for i, row := range r.Table.Rows {
		require.Equal(t, variants[i].name, row[0].Text)
		_, stateful := map[string]bool{wozniakIndexed: true, kerschbaumPublished: true, kerschbaumLocal: true}[variants[i].name]
		require.Equal(t, stateful, *row[5].Number > 0, "round trips of %s", variants[i].name)
	}
	after, err := cfg.Database.DB.Families(ctx)
	require.NoError(t, err)
	require.Equal(t, before, after, "the index is dropped")
}

func TestDecryptionsAreChecked(t *testing.T) {
	ctx := context.Background()
	values := []int64{1, 2, 3}
	d := &decryption{variant: variants[0], key: ope.GenerateKey()}
	require.NoError(t, d.encrypt(ctx, memindex.New(), values))
	require.NoError(t, d.round(ctx, nil, values, 0))
	require.Len(t, d.warm, decryptWarm)
	require.Len(t, d.cold, 1)
	d.ciphertexts[0], d.ciphertexts[1] = d.ciphertexts[1], d.ciphertexts[0]
	require.ErrorIs(t, d.round(ctx, nil, values, 0), exit.ErrWrongAnswer)
}

func TestDecryptFindings(t *testing.T) {
	make := func(mopeWarm, known, asked time.Duration) []*decryption {
		var all []*decryption
		for i, v := range variants {
			d := &decryption{variant: v, warm: []time.Duration{mopeWarm}, cold: []time.Duration{mopeWarm}}
			if i >= 2 {
				d.warm, d.cold, d.trips = []time.Duration{known}, []time.Duration{asked}, 1
			}
			all = append(all, d)
		}
		return all
	}
	require.Equal(t, "++++", reprotest.Marks(decryptFindings(make(4*time.Millisecond, time.Microsecond, 900*time.Microsecond))))
	require.Equal(t, "---+", reprotest.Marks(decryptFindings(make(6*time.Millisecond, 2*time.Millisecond, 2*time.Millisecond))))
	require.Equal(t, "+-+-", reprotest.Marks(decryptFindings(make(time.Microsecond, 2*time.Microsecond, 2*time.Millisecond))))
}
