package kerschbaum

import (
	"encoding/hex"
	"encoding/json"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/sim"
	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/internal/vectortest"
	"github.com/rangecrypt/rangecrypt/ope/memindex"
)

const rankedVectors = "../../testdata/vectors/kerschbaum-ranked-1.json"

// The format of the vector file.
type vectorFile struct {
	Scheme   string
	Key      string // master key, hex
	Arrivals []struct {
		Name, ID    string
		Min, Max    int64
		Values      []int64  // in the order in which they come to an empty index
		Ciphertexts []string // hex
		Shared      int      // values that share a rank
	}
}

// Ranks and ciphertexts are those that an independent reference has made, whatever happens to labels meanwhile.
func TestRankedVectors(t *testing.T) {
	text, err := os.ReadFile(rankedVectors)
	require.NoError(t, err)
	var f vectorFile
	require.NoError(t, json.Unmarshal(text, &f))
	key := vectortest.Key(t, 0)
	require.Equal(t, "kerschbaum-ranked/1", f.Scheme)
	require.Equal(t, hex.EncodeToString(key.Secret()), f.Key)
	require.NotEmpty(t, f.Arrivals)
	for _, a := range f.Arrivals {
		t.Run(a.Name, func(t *testing.T) {
			index := memindex.New()
			client := func() *Ranked {
				r, err := NewRanked(key, ope.Domain{Min: a.Min, Max: a.Max}, index, nil)
				require.NoError(t, err)
				require.Equal(t, a.ID, r.ID())
				return r
			}
			r := client()
			require.NotEmpty(t, a.Values)
			require.Len(t, a.Ciphertexts, len(a.Values))
			shared := map[int64]bool{}
			for i, x := range a.Values {
				c, err := r.Encrypt(t.Context(), x)
				require.NoError(t, err)
				require.Equal(t, a.Ciphertexts[i], hex.EncodeToString(c), "value %d, the %d-th", x, i)
				if c[RankSize-1] == 1 {
					shared[x] = true
				}
			}
			require.Len(t, shared, a.Shared)

			// Nothing changes for one who comes later, after labels have moved.
			_, err := r.of.Rebalance(t.Context(), nil)
			require.NoError(t, err)
			r = client()
			for i, x := range a.Values {
				c, err := hex.DecodeString(a.Ciphertexts[i])
				require.NoError(t, err)
				back, err := r.Decrypt(t.Context(), c)
				require.NoError(t, err)
				require.Equal(t, x, back)
			}
			cs, err := r.EncryptBatch(t.Context(), a.Values)
			require.NoError(t, err)
			for i, c := range cs {
				require.Equal(t, a.Ciphertexts[i], hex.EncodeToString(c))
			}
		})
	}
}

func TestRankedReference(t *testing.T) {
	t.Parallel()
	python, err := exec.LookPath("python3")
	if err != nil {
		if sim.Required("python") {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	cmd := exec.Command(python, "kerschbaum.py")
	cmd.Dir = "../../testdata/reference"
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	t.Logf("%s", out)
}
