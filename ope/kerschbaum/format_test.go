package kerschbaum

import (
	"crypto/aes"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"slices"
	"strings"
	"testing"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/opetest"
	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/chacha20poly1305"
)

// derive is HKDF as docs/format.md has it, with nothing of package ope.
func derive(t *testing.T, secret []byte, n int, labels ...string) []byte {
	info := "rangecrypt/key/1"
	for _, l := range labels {
		info += string(binary.BigEndian.AppendUint32(nil, uint32(len(l)))) + l
	}
	out, err := hkdf.Key(sha256.New, secret, nil, info, n)
	require.NoError(t, err)
	return out
}

func unhex(t *testing.T, s string) []byte {
	b, err := hex.DecodeString(s)
	require.NoError(t, err)
	return b
}

// recordsOf returns a function that opens the records of a unit of an index of the scheme id, and returns them in hex. Of a header
// it returns what follows the identifier.
func recordsOf(t *testing.T, index ope.Index, id string) func(unit string) (ope.Meta, map[string]string) {
	recordKey := derive(t, testKey(t).Secret(), 32, "kerschbaum", "record")
	aead, err := chacha20poly1305.NewX(derive(t, recordKey, 32, "index", "record"))
	require.NoError(t, err)
	open := func(unit, key string, value []byte) string {
		require.EqualValues(t, 1, value[0])
		ad := "\x01" + string([]byte{byte(len(unit))}) + unit + key
		b, err := aead.Open(nil, value[1:25], value[25:], []byte(ad))
		require.NoError(t, err)
		return hex.EncodeToString(b)
	}
	return func(unit string) (ope.Meta, map[string]string) {
		view, err := index.Read(t.Context(), ope.Unit(unit), nil, nil, 0)
		require.NoError(t, err)
		out := map[string]string{}
		for _, r := range view.Records {
			value, key := r.Value, string(r.Key)
			if len(r.Key) == 16 && [16]byte(r.Key) == [16]byte{} {
				require.EqualValues(t, 2, value[0])
				require.Equal(t, derive(t, recordKey, 16, "index", "key id"), value[1:17])
				key += string(value[:17])
				value = value[17:]
			}
			name := hex.EncodeToString(r.Key)
			if len(r.Key) > 17 && r.Key[16] == 'm' {
				require.Len(t, r.Key, 33)
				name = "mark"
			}
			content := open(unit, key, value)
			if name == hex.EncodeToString(make([]byte, 16)) {
				head := hex.EncodeToString(slices.Concat([]byte{0, byte(len(id))}, []byte(id), make([]byte, 128-2-len(id))))
				require.Equal(t, head, content[:len(head)])
				content = content[len(head):]
			}
			out[name] += content
		}
		return view.Meta, out
	}
}

// What docs/format.md says is what is stored, read here with standard primitives only.
func TestFormat(t *testing.T) {
	index := opetest.NewIndex()
	s := newClient(t, index, ope.Int64, &Options{Name: "column", Limit: 10})
	values := []int64{-7, 1 << 40, 3}
	for _, x := range values {
		_, err := s.Encrypt(t.Context(), x)
		require.NoError(t, err)
	}
	const zero, tail = "00000000000000000000000000000000", "ffffffffffffffffffffffffffffffff"
	read := recordsOf(t, index, "kerschbaum/1 domain=[-9223372036854775808,9223372036854775807]")
	meta, records := read("column/000000/0000000000000001")
	require.Equal(t, ope.StateOpen, meta.State)
	require.Equal(t, map[string]string{
		zero:                               "0000000000000000" + "0000000000000000",
		"7fffffffffffffffffffffffffffffff": "fffffffffffffff9" + "00000001" + "00000000" + "00000000" + "00",
		"bfffffffffffffffffffffffffffffff": "0000010000000000" + "00000002" + "00000001" + "00000000" + "01",
		"9fffffffffffffffffffffffffffffff": "0000000000000003" + "00000003" + "00000001" + "00000001" + "ff",
		"mark":                             "0000000000000001" + "0000000000000001" + "0000000000000001",
	}, records)

	// Ciphertexts.
	keys := derive(t, testKey(t).Secret(), 64, "kerschbaum", "ciphertext")
	inner, err := aes.NewCipher(keys[:32])
	require.NoError(t, err)
	outer, err := aes.NewCipher(keys[32:])
	require.NoError(t, err)
	tag := func(label string, x int64, epoch uint32) string {
		b := unhex(t, label)
		inner.Encrypt(b, b)
		binary.BigEndian.PutUint64(b, binary.BigEndian.Uint64(b)^uint64(x))
		binary.BigEndian.PutUint32(b[8:], binary.BigEndian.Uint32(b[8:])^epoch)
		outer.Encrypt(b, b)
		return label + hex.EncodeToString(b)
	}
	c, err := s.Encrypt(t.Context(), 3)
	require.NoError(t, err)
	require.Equal(t, tag("9fffffffffffffffffffffffffffffff", 3, 1), hex.EncodeToString(c))

	// After a rebalancing in place.
	_, err = s.Rebalance(t.Context(), nil)
	require.NoError(t, err)
	meta, records = read("column/000000/0000000000000001")
	require.Equal(t, ope.Meta{State: ope.StateOpen, Generation: 1, Nonce: meta.Nonce}, meta)
	require.Equal(t, map[string]string{
		zero:                               "0000000000000000" + "0000000000000000",
		"3fffffffffffffffffffffffffffffff": "fffffffffffffff9" + "00000002" + "00000001" + "00000000" + "ff",
		"7ffffffffffffffffffffffffffffffe": "0000000000000003" + "00000001" + "00000000" + "00000000" + "00",
		"bffffffffffffffffffffffffffffffd": "0000010000000000" + "00000002" + "00000001" + "00000000" + "01",
		"mark":                             "0000000000000001" + "0000000000000001" + "0000000000000001",
		tail + "6e":                        "0000000000000003",
		tail + "77" + "0000000000000001":   zero + tail,
	}, records)
	c, err = s.Encrypt(t.Context(), -7)
	require.NoError(t, err)
	require.Equal(t, tag("3fffffffffffffffffffffffffffffff", -7, 1), hex.EncodeToString(c))
}

// With ranks, elements and edges have them after the shape.
func TestFormatOfRankedRecords(t *testing.T) {
	const (
		zero = "00000000000000000000000000000000"
		id   = "kerschbaum-ranked/1 domain=[-9223372036854775808,9223372036854775807]"
		unit = "column/000000/0000000000000001"
	)
	f := func(n int) string { return strings.Repeat("f", n) }
	index := opetest.NewIndex()
	r := newRanked(t, index, ope.Int64, &Options{Name: "column", UnitValues: 64})
	for _, x := range []int64{-7, 1 << 40, 3} {
		_, err := r.Encrypt(t.Context(), x)
		require.NoError(t, err)
	}
	_, records := recordsOf(t, index, id)(unit)
	delete(records, "mark")
	require.Equal(t, map[string]string{
		zero:         "0000000000000000" + "0000000000000000",
		"7f" + f(30): "fffffffffffffff9" + "00000001" + "00000000" + "00000000" + "00" + "7f" + f(46) + "00",
		"bf" + f(30): "0000010000000000" + "00000002" + "00000001" + "00000000" + "01" + "bf" + f(46) + "00",
		"9f" + f(30): "0000000000000003" + "00000003" + "00000001" + "00000001" + "ff" + "9f" + f(46) + "00",
	}, records)

	for i := range int64(200) {
		_, err := r.Encrypt(t.Context(), 1<<41+i)
		require.NoError(t, err)
	}
	meta, records := recordsOf(t, index, id)(unit)
	require.Equal(t, ope.StateDivided, meta.State)
	part := records[zero+"72"]
	require.Len(t, part, 2*235)
	low, high, given, rest := part[:124], part[124:248], part[248:372], part[372:]
	value := int64(binary.BigEndian.Uint64(unhex(t, low[32:48])))
	c, err := r.Encrypt(t.Context(), value)
	require.NoError(t, err)
	require.Equal(t, hex.EncodeToString(c[:25]), low[74:], "the rank of the lowest value")
	require.Equal(t, strings.Repeat("0", 124), high, "the unit has the top")
	require.Equal(t, "01", rest[:2])
	require.NotEqual(t, "00000000", rest[2:10], "the left neighbour")
	_, left := recordsOf(t, index, id)("column/" + rest[4:10] + "/0000000000000001")
	edge := func(s string) string { return s[:48] + s[74:] } // each has a shape of its own
	require.Contains(t, []string{edge(low), edge(given)}, edge(left[zero+"72"][124:248]), "the edge of both")
}
