package hbasesource

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/store/hbase"
)

// A row lives as long as the last of its cells. What HBase keeps beyond its time does not expire.
func TestHowLongRowsLive(t *testing.T) {
	family := func(name string, kv ...string) hbase.ForeignFamily {
		f := hbase.ForeignFamily{Name: name, Attributes: make(map[string]string)}
		for i := 0; i < len(kv); i += 2 {
			f.Attributes[kv[i]] = kv[i+1]
		}
		return f
	}
	src, err := New(nil, "orders", Mapping{
		Key: []KeyPart{{"id", "int8", ""}}, Columns: []Column{{"a", "a:a", "int8"}, {"more", "a:more", "int8"}, {"b", "b:b", "int8"}}, Ignore: []string{"c:*"},
	})
	require.NoError(t, err)
	ever := family("c", "TTL", "2147483647")
	for name, c := range map[string]struct {
		families []hbase.ForeignFamily
		lives    time.Duration
		note     string
	}{
		"one TTL":                  {[]hbase.ForeignFamily{family("a", "TTL", "600"), family("b", "TTL", "600", "MIN_VERSIONS", "0"), ever}, 10 * time.Minute, ""},
		"none":                     {[]hbase.ForeignFamily{family("a"), family("b", "TTL", "2147483647"), ever}, 0, ""},
		"two":                      {[]hbase.ForeignFamily{family("a", "TTL", "600"), family("b", "TTL", "60"), ever}, 10 * time.Minute, "longer than others"},
		"one lasts":                {[]hbase.ForeignFamily{family("a", "TTL", "600"), family("b"), ever}, 0, "longer than others"},
		"the first one lasts":      {[]hbase.ForeignFamily{family("a"), family("b", "TTL", "600"), ever}, 0, "longer than others"},
		"newest versions are kept": {[]hbase.ForeignFamily{family("a", "TTL", "600", "MIN_VERSIONS", "1"), family("b", "MIN_VERSIONS", "2"), ever}, 0, `"a" keeps the newest versions beyond its TTL of 10m0s`},
	} {
		lives, notes := src.life(&table{nil, livesOf(c.families)})
		require.Equal(t, c.lives, lives, name)
		require.Contains(t, notes[len(notes)-1], "setTTL")
		if c.note == "" {
			require.Len(t, notes, 1, name)
		} else {
			require.Len(t, notes, 2, name)
			require.Contains(t, notes[0], c.note, name)
		}
	}
	of := &table{nil, livesOf([]hbase.ForeignFamily{family("a", "TTL", "600"), family("b", "TTL", "600", "MIN_VERSIONS", "1")})}
	end, expires := of.expiry("a:a", 1000)
	require.True(t, expires)
	require.Equal(t, time.UnixMilli(601_000), end)
	_, expires = of.expiry("b:b", 1000)
	require.False(t, expires)
	require.Equal(t, `{[{"id" "int8" ""}] [{"a" "a:a" "int8"} {"more" "a:more" "int8"} {"b" "b:b" "int8"}] ["c:*"]} [{"a" "10m0s"} {"b" "0s"}]`, src.print(of))
}
