package ppc

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/sha256"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/cmd/internal/lab/repro/experiment"
	"github.com/rangecrypt/rangecrypt/cmd/internal/lab/repro/reprotest"
	"github.com/rangecrypt/rangecrypt/cmd/internal/lab/repro/testbed"
	"github.com/rangecrypt/rangecrypt/internal/cli/exit"
	"github.com/rangecrypt/rangecrypt/internal/seal"
	"github.com/rangecrypt/rangecrypt/store"
)

// What is measured are encryptions: they open again, and no two are equal.
func TestPieceCiphers(t *testing.T) {
	key := bytes.Repeat([]byte{7}, 32)
	open := map[string]func(sealed []byte) []byte{
		"cell cipher": func(sealed []byte) []byte {
			s, err := seal.New(key)
			require.NoError(t, err)
			plaintext, _, err := s.Open(nil, sealed, seal.Place(nil).Append([]byte("table"), []byte("row"), []byte("cell")))
			require.NoError(t, err)
			return plaintext
		},
		"AES-128-GCM": func(sealed []byte) []byte {
			block, err := aes.NewCipher(key[:16])
			require.NoError(t, err)
			aead, err := cipher.NewGCM(block)
			require.NoError(t, err)
			plaintext, err := aead.Open(nil, sealed[:12], sealed[12:], nil)
			require.NoError(t, err)
			return plaintext
		},
		"AES-128-CBC, HMAC": func(sealed []byte) []byte {
			body, tag := sealed[:len(sealed)-sha256.Size], sealed[len(sealed)-sha256.Size:]
			mac := hmac.New(sha256.New, key[16:])
			mac.Write(body)
			require.Equal(t, mac.Sum(nil), tag)
			block, err := aes.NewCipher(key[:16])
			require.NoError(t, err)
			plaintext := make([]byte, len(body)-aes.BlockSize)
			cipher.NewCBCDecrypter(block, body[:aes.BlockSize]).CryptBlocks(plaintext, body[aes.BlockSize:])
			return plaintext[:len(plaintext)-int(plaintext[len(plaintext)-1])]
		},
	}
	require.Len(t, open, len(pieceCiphers))
	for _, c := range pieceCiphers {
		encrypt, err := c.setUp(key)
		require.NoError(t, err)
		for _, size := range append([]int{0, 16}, pieceSizes[:]...) {
			plaintext := bytes.Repeat([]byte{'x'}, size)
			one, other := encrypt([]byte("before"), plaintext), encrypt(nil, plaintext)
			require.Equal(t, "before", string(one[:6]), c.name)
			require.NotEqual(t, one[6:], other, c.name)
			require.True(t, bytes.Equal(plaintext, open[c.name](one[6:])), c.name)
			require.True(t, bytes.Equal(plaintext, open[c.name](other)), c.name)
		}
	}
}

func TestPPCTable1(t *testing.T) {
	r, err := piecesTable(context.Background(), experiment.Config{Seed: 1, Quick: true})
	require.NoError(t, err)
	require.Len(t, r.Table.Rows, 2*len(pieceCiphers)+len(paperPieces))
	reprotest.WellFormed(t, r)
	reprotest.Smaller(t, r)
	require.Equal(t, float64(seal.Overhead), *r.Table.Rows[0][8].Number)
	require.Equal(t, 28.0, *r.Table.Rows[2][8].Number, "nonce and tag")
	require.Equal(t, 16.0+12+32, *r.Table.Rows[4][8].Number, "nonce, padding and tag")
	require.Equal(t, "???+", reprotest.Marks(r.Findings), "so few rounds have no interval")

	_, err = piecesTable(reprotest.Ended(), experiment.Config{Quick: true})
	require.ErrorIs(t, err, context.Canceled)
}

func TestPieceFindings(t *testing.T) {
	const n = 10_000_000
	// Pieces that cost start ns and each ns a byte.
	made := func(start, each float64) []*pieceTiming {
		var all []*pieceTiming
		for _, c := range pieceCiphers {
			for _, key := range []string{keyKept, keyEach} {
				t := &pieceTiming{name: c.name, key: key, added: 77}
				for i, size := range pieceSizes {
					t.seconds[i] = reprotest.Steady(9, 1e-9*float64(n/size)*(start+each*float64(size)))
				}
				all = append(all, t)
			}
		}
		return all
	}
	require.Equal(t, "++++", reprotest.Marks(pieceFindings(made(400, 1), n)))
	require.Equal(t, "+--+", reprotest.Marks(pieceFindings(made(4000, 100), n)))
	start, each := made(400, 2)[0].costs(n)
	require.InEpsilon(t, 400, start.Mid, 0.01)
	require.InEpsilon(t, 2, each.Mid, 0.01)
}

func TestPPCFig3(t *testing.T) {
	ctx := context.Background()
	cfg := experiment.Config{Seed: 1, Quick: true, Rounds: 2, Batch: 30, Database: reprotest.Memory()}
	r, err := figure3(ctx, cfg)
	require.NoError(t, err)
	var names []string
	for _, c := range r.Curves {
		names = append(names, c.Name)
		for _, p := range c.Points {
			require.Positive(t, p.Y)
		}
	}
	require.Equal(t, []string{formPlain, formOne, formWhole, formPages, formPacked, formCells}, names)
	require.Len(t, r.Curves[0].Points, 2)
	require.Len(t, r.Curves[3].Points, 1+len(attributeSteps))
	require.Len(t, r.Curves[4].Points, len(attributeSteps))
	put := make(map[string]float64)
	reprotest.WellFormed(t, r)
	reprotest.Smaller(t, r)
	for _, row := range r.Table.Rows {
		put[row[0].Text+row[1].Text] = *row[6].Number
	}
	require.Equal(t, put["packed16"], put["whole row16"])
	require.Greater(t, put["plain0"], put["plain, one cell0"])
	for _, n := range []string{"1", "8", "16"} {
		require.Greater(t, put["cell per column"+n], put["plain0"])
		require.LessOrEqual(t, put["packed"+n], put["cell per column"+n])
		require.Less(t, put["pages"+n], put["packed"+n])
	}
	require.Equal(t, "????+??++-", reprotest.Marks(r.Findings), "pages of 50 rows add more than 3 bytes")
	require.Equal(t, "7", r.Table.Rows[2][2].Text, "of the whole row")
	require.NotZero(t, reprotest.Families(t, cfg.Database))
}

// A query that gives other rows than were written ends the measurement.
func TestPPCAnswersAreChecked(t *testing.T) {
	ctx := context.Background()
	w, err := testbed.NewWorkspace(ctx, experiment.Config{Database: reprotest.Memory()})
	require.NoError(t, err)
	table, err := w.Create(ctx, attributeSchema(formPacked, 3))
	require.NoError(t, err)
	timing := &readTiming{form: formPacked, encrypted: 3}
	for n := range 4 {
		require.NoError(t, table.Put(ctx, attributeRow(1, n)))
	}
	q := store.Query{Columns: []string{attribute(0), attribute(15)}}
	_, err = timing.query(ctx, table, q, 4, 1, true)
	require.NoError(t, err)
	_, err = timing.query(ctx, table, q, 5, 1, false)
	require.ErrorIs(t, err, exit.ErrWrongAnswer)
	row := attributeRow(1, 2)
	row[attribute(15)] = "other"
	require.NoError(t, table.Put(ctx, row))
	_, err = timing.query(ctx, table, q, 4, 1, true)
	require.ErrorIs(t, err, exit.ErrWrongAnswer)
}

func TestPageFindings(t *testing.T) {
	made := func(encrypted, opened, proof uint64, x, unproven, bytes float64) []*readTiming {
		all := []*readTiming{{form: formPacked, encrypted: attributes}}
		for _, n := range append([]int{0}, attributeSteps...) {
			timing := &readTiming{form: formPages, encrypted: n, seconds: reprotest.Steady(9, 1+x*float64(n)), plain: reprotest.Steady(9, 1), unproven: reprotest.Steady(9, unproven), bytes: bytes}
			timing.opened = [3]uint64{opened, proof, encrypted}
			all = append(all, timing)
		}
		return all
	}
	require.Equal(t, "+++++", reprotest.Marks(pageFindings(made(0, 16, 16, 0, 1, 207), 1000)))
	require.Equal(t, "-----", reprotest.Marks(pageFindings(made(1, 1000, 16, 1, 2, 300), 1000)))
}

func TestReadFindings(t *testing.T) {
	made := func(plain, one, whole, packed, cells, only float64) []*readTiming {
		at := func(form string, n int, x, only, bytes float64) *readTiming {
			return &readTiming{form: form, encrypted: n, seconds: reprotest.Steady(9, x), plain: reprotest.Steady(9, only), bytes: bytes}
		}
		all := []*readTiming{at(formPlain, 0, plain, plain, 100), at(formOne, 0, one, one, 50), at(formWhole, attributes, whole, whole, 80)}
		for _, n := range attributeSteps {
			all = append(all, at(formPacked, n, packed, only, 80), at(formCells, n, cells*float64(n), only, 200))
		}
		return all
	}
	require.Equal(t, "+++++", reprotest.Marks(readFindings(made(1, 0.8, 1, 1, 1, 1))))
	require.Equal(t, "+---+", reprotest.Marks(readFindings(made(1, 0.8, 0.9, 1.5, 1, 1.5))))
	for _, f := range readFindings(made(1, 1, 1, 1, 1, 1)) {
		require.False(t, strings.Contains(f.Text, "%!"), f.Text)
	}
}
