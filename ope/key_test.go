package ope

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// counting is the key whose secret is 00 01 02 ... 1f.
func counting(t *testing.T) (Key, []byte) {
	secret := make([]byte, KeySize)
	for i := range secret {
		secret[i] = byte(i)
	}
	k, err := NewKey(secret)
	require.NoError(t, err)
	return k, secret
}

// conspicuous is a key whose secret is recognised in any output: each byte is 0xa7, 167.
func conspicuous(t *testing.T) Key {
	k, err := NewKey(bytes.Repeat([]byte{0xa7}, KeySize))
	require.NoError(t, err)
	return k
}

func requireHidden(t *testing.T, what, output string) {
	t.Helper()
	lower := strings.ToLower(output)
	secret := bytes.Repeat([]byte{0xa7}, KeySize)
	// Four bytes in a row: fewer occur in the addresses that are printed for pointers.
	for _, form := range []string{
		"a7a7a7a7", "167 167", "167,167", "a7, 0xa7", "a7 a7", `\xa7`, "247247247247", "247 247",
		strings.Repeat("10100111", 4), "10100111 10100111", string(secret[:2]),
		strings.ToLower(base64.StdEncoding.EncodeToString(secret)[:8]), "§",
	} {
		require.NotContains(t, lower, form, what)
	}
}

func TestKeyPrintsAPlaceholder(t *testing.T) {
	k := conspicuous(t)
	for _, v := range []struct {
		name  string
		value any
	}{
		{"key", k},
		{"pointer", &k},
		{"exported field", struct{ Key Key }{k}},
		{"unexported field", struct{ key Key }{k}},
		{"pointer to a struct", &struct{ key Key }{k}},
		{"pointer in a struct", struct{ key *Key }{&k}},
		{"nested", struct{ a struct{ b []any } }{struct{ b []any }{[]any{struct{ key Key }{k}}}}},
		{"slice", []Key{k}},
		{"map", map[string]Key{"k": k}},
		{"interface", []any{k, &k}},
		{"error", fmt.Errorf("with %v", k)},
	} {
		for _, verb := range "vsqxXdboOUcetTpgGEF" {
			for _, flag := range []string{"", "+", "#", " ", "0", "-60", "+#"} {
				format := "%" + flag + string(verb)
				output := fmt.Sprintf(format, v.value)
				requireHidden(t, v.name+" "+format, output)
				if v.name == "key" && verb != 'T' && verb != 'p' {
					require.Equal(t, "ope.Key(secret)", output, format)
				}
			}
		}
		requireHidden(t, v.name, fmt.Sprint(v.value)+fmt.Sprintln(v.value))

		var out bytes.Buffer
		slog.New(slog.NewTextHandler(&out, nil)).Info("m", "k", v.value)
		slog.New(slog.NewJSONHandler(&out, nil)).Info("m", "k", v.value)
		requireHidden(t, v.name+" in slog", out.String())
		if v.name == "key" || v.name == "pointer" {
			require.Equal(t, 2, strings.Count(out.String(), "ope.Key(secret)"), out.String())
		}
	}
	require.Equal(t, "ope.Key(zero)", fmt.Sprintf("%v", Key{}))
}

// Dumpers such as those of test libraries follow pointers by reflection.
func TestReflectionDoesNotReachTheSecret(t *testing.T) {
	var walk func(v reflect.Value) bool
	walk = func(v reflect.Value) bool {
		switch v.Kind() {
		case reflect.Pointer, reflect.Interface:
			return !v.IsNil() && walk(v.Elem())
		case reflect.Struct:
			for i := range v.NumField() {
				if walk(v.Field(i)) {
					return true
				}
			}
		case reflect.Array, reflect.Slice:
			return v.Len() > 0 && v.Index(0).Kind() == reflect.Uint8 && v.Index(0).Uint() == 0xa7
		}
		return false
	}
	require.True(t, walk(reflect.ValueOf(struct{ p *[]byte }{&[]byte{0xa7}})), "the walk finds nothing")
	require.False(t, walk(reflect.ValueOf(conspicuous(t))))
}

func TestKeyIsNotMarshalled(t *testing.T) {
	k := conspicuous(t)
	for _, v := range []any{k, &k, struct{ Key Key }{k}, []Key{k}} {
		out, err := json.Marshal(v)
		require.Error(t, err)
		require.Empty(t, out)
		requireHidden(t, "json error", err.Error())
	}
	out, err := xml.Marshal(struct{ Key Key }{k})
	require.Error(t, err)
	requireHidden(t, "xml", string(out)+err.Error())
}

func TestNewKey(t *testing.T) {
	for _, n := range []int{0, 1, 16, 31, 33, 64} {
		k, err := NewKey(bytes.Repeat([]byte{0xa7}, n))
		require.ErrorIs(t, err, ErrKey)
		requireHidden(t, "error", err.Error())
		require.True(t, k.IsZero())
	}
	k, secret := counting(t)
	want := bytes.Clone(secret)
	clear(secret)
	require.Equal(t, want, k.Secret(), "NewKey copies the secret")
	clear(k.Secret())
	require.Equal(t, want, k.Secret(), "Secret returns a copy")
}

func TestGenerateKey(t *testing.T) {
	seen := map[string]bool{}
	for range 100 {
		k := GenerateKey()
		require.False(t, k.IsZero())
		require.Len(t, k.Secret(), KeySize)
		seen[string(k.Secret())] = true
	}
	require.Len(t, seen, 100)
}

func TestKeyEqual(t *testing.T) {
	a, _ := counting(t)
	b, _ := counting(t)
	require.True(t, a.Equal(b))
	require.False(t, a.Equal(conspicuous(t)))
	require.False(t, a.Equal(Key{}))
	require.False(t, Key{}.Equal(a))
	require.True(t, Key{}.Equal(Key{}))
}

// The values were computed from RFC 5869 with an independent implementation of HKDF on HMAC-SHA256,
// in Python's hmac and hashlib.
func TestDeriveVectors(t *testing.T) {
	k, _ := counting(t)
	for _, v := range []struct {
		labels []string
		want   string
	}{
		{nil, "49c1e6bb36c2fba211e3d47bc4a917c472988af547fbcac9ef59cd47540816c9"},
		{[]string{""}, "28984caccb38dbcf26f79db781a400e28585e957af5c0f1db9a2857284459f96"},
		{[]string{"table", "temperature"}, "13b73443a8c0f9f493f5a1fd96ef04ac285d855be776247796d471fa6fb11650"},
		{[]string{"ab", "c"}, "300fe0cd256545450fd7afe7c0a94f183319e5ba7f0ec7b45d55a7ec1f34ef6e"},
		{[]string{"a", "bc"}, "06ce4c4eb2f46857640eb77a522dc203edc0fd1e6d3570c0cd37c417eceaf72a"},
		{[]string{"größe"}, "1d0276cab34ee7127aea8ef3d8ddd30e25b6111000d9c15f6641d7cc8d36d4d2"},
	} {
		require.Equal(t, v.want, hex.EncodeToString(k.Derive(v.labels...).Secret()), "%q", v.labels)
	}
	long := "f6d2fa85a12e14c71451af05f4ab514fd5931ffd73105ae99f0b84bbd5a8cf1dbc7f1d87f780fc23118b69dcf54ec8e045e64bcf7e206c9cfc8185d02c05d3f121c435b7b50a8fe2d75cb9b50a7b877f"
	require.Equal(t, long, hex.EncodeToString(k.Expand(80, "cells")))
	require.Equal(t, long[:64], hex.EncodeToString(k.Expand(32, "cells")), "a longer expansion begins with the shorter")
	require.Equal(t, long[:64], hex.EncodeToString(k.Derive("cells").Secret()))
}

// Different lists of labels give different keys, however their bytes run together.
func TestDeriveLabelsAreUnambiguous(t *testing.T) {
	k, _ := counting(t)
	lists := [][]string{
		nil, {""}, {"", ""}, {"", "", ""},
		{"abc"}, {"ab", "c"}, {"a", "bc"}, {"a", "b", "c"}, {"", "abc"}, {"abc", ""}, {"", "ab", "c"},
		{"\x00\x00\x00\x01a"}, {"a\x00\x00\x00\x02bc"}, {"\x00\x00\x00\x00"}, {"c", "ab"}, {"bc", "a"},
		{"rangecrypt/key/1"}, {strings.Repeat("a", 256)}, {strings.Repeat("a", 257)},
	}
	seen := map[string][]string{}
	for _, labels := range lists {
		secret := string(k.Derive(labels...).Secret())
		if other, dup := seen[secret]; dup {
			t.Errorf("the labels %q and %q give the same key", labels, other)
		}
		seen[secret] = labels
		require.True(t, k.Derive(labels...).Equal(k.Derive(labels...)))
		require.False(t, k.Derive(labels...).Equal(conspicuous(t).Derive(labels...)))
	}
	// Deriving in two steps is another key than in one.
	require.False(t, k.Derive("a").Derive("b").Equal(k.Derive("a", "b")))
	require.False(t, k.Derive().Equal(k))
}

func TestZeroKeyIsRefused(t *testing.T) {
	require.True(t, Key{}.IsZero())
	require.Panics(t, func() { Key{}.Secret() })
	require.Panics(t, func() { Key{}.Derive("a") })
	require.Panics(t, func() { Key{}.Expand(1) })
	k, _ := counting(t)
	require.Len(t, k.Expand(8160), 8160)
	for _, n := range []int{-1, 8161} {
		require.PanicsWithValue(t, fmt.Sprintf("ope: Expand to %d bytes, need 0 to 8160", n), func() { k.Expand(n) })
	}
}

func TestErrorsAreDistinct(t *testing.T) {
	all := []error{ErrParams, ErrKey, ErrDomain, ErrCiphertext, ErrStale, ErrUnknownOutcome, ErrIndex, ErrFull}
	for i, a := range all {
		for j, b := range all {
			require.Equal(t, i == j, errors.Is(fmt.Errorf("context: %w", a), b))
		}
	}
}
