package clock

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/store/driver"
)

func TestClockRises(t *testing.T) {
	var c Clock
	before := time.Now().UnixMicro()
	last := c.Next()
	require.GreaterOrEqual(t, last, before)
	for range 10_000 {
		next := c.Next()
		require.Greater(t, next, last)
		last = next
	}
	// A timestamp found in the database, of a clock that is ahead of this one.
	ahead := last + int64(time.Hour/time.Microsecond)
	require.Greater(t, c.After(ahead), ahead)
	require.Greater(t, c.Next(), ahead, "and later mutations win over it")
}

// TestClockLeavesRoom: a replacement has a timestamp that no mutation has, and no later one a lesser.
func TestClockLeavesRoom(t *testing.T) {
	ctx := t.Context()
	c, other := new(Clock), new(Clock)
	other.After(time.Now().Add(time.Hour).UnixMicro())
	for range 1000 {
		seen := other.Next()
		for range Step - 1 {
			stamp, err := c.Behind(ctx, seen, 0)
			require.NoError(t, err)
			require.Equal(t, seen+1, stamp)
			require.NotZero(t, stamp%Step)
			require.Greater(t, c.Next(), stamp)
			require.Greater(t, other.Next(), stamp)
			seen = stamp
		}
	}
	// The next one would have the timestamp of a mutation: that waits, but not for one of long ago.
	full := other.Next() + Step - 1
	short, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
	defer cancel()
	_, err := c.Behind(short, full, 0)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	old := time.Now().Add(-Settled).UnixMicro()
	old -= old%Step + 1
	stamp, err := c.Behind(ctx, old, 0)
	require.NoError(t, err)
	require.Equal(t, old+1, stamp)
	// Whatever was seen, the greater rank has the later timestamp, and none that a mutation has may be on its way.
	for seen := old - Step; seen <= old; seen++ {
		last := seen
		for rank := range driver.MaxRank + 1 {
			stamp, err := c.Behind(ctx, seen, rank)
			require.NoError(t, err)
			require.Greater(t, stamp, last)
			require.LessOrEqual(t, stamp, (seen/Step+2)*Step-1)
			last = stamp
		}
	}
	_, err = c.Behind(short, other.Next()+1, driver.MaxRank)
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

func TestCompare(t *testing.T) {
	node := time.UnixMilli(1_800_000_000_000)
	at := func(d time.Duration) time.Time { return node.Add(d) }
	for name, c := range map[string]struct {
		before, after time.Duration
		says          string
	}{
		"the same":                       {0, 0, ""},
		"ahead, as far as may be":        {10 * time.Second, 10 * time.Second, ""},
		"behind, as far as may be":       {-10 * time.Second, -10 * time.Second, ""},
		"ahead":                          {11 * time.Second, 12 * time.Second, "11s ahead of"},
		"behind":                         {-time.Hour - 20*time.Second, -time.Hour, "1h0m0s behind"},
		"a slow answer says nothing":     {-5 * time.Minute, 5 * time.Minute, ""},
		"a slow answer, and it is ahead": {time.Minute, 10 * time.Minute, "1m0s ahead of"},
		"the clock was set in between":   {time.Minute, -time.Minute, "1m0s"},
	} {
		err := Compare(at(c.before), node, at(c.after), 10*time.Second)
		if c.says == "" {
			require.NoError(t, err, name)
		} else {
			require.ErrorContains(t, err, c.says, name)
		}
	}
}
