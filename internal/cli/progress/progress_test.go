package progress

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Each frame fits the terminal, and says no rate before there is one.
func TestFramesOfTheBar(t *testing.T) {
	frame := func(width, total int, phase string, after time.Duration, done int) string {
		var out bytes.Buffer
		now := time.Unix(0, 0)
		b := &bar{w: &out, width: width, now: func() time.Time { return now }}
		b.Start(phase, total)
		require.Equal(t, 1, strings.Count(out.String(), "\r"))
		now = now.Add(after)
		out.Reset()
		b.Add(done)
		text := out.String()
		return text[strings.LastIndex(text, "\r")+1:]
	}
	for _, test := range []struct {
		width, total int
		after        time.Duration
		done         int
		want         string
	}{
		{120, 300_000, 200 * time.Millisecond, 100_000, "inserting [======..............]  33% 100000/300000"},
		{120, 300_000, 10 * time.Second, 100_000, "inserting [======..............]  33% 100000/300000 10000/s 20s left"},
		{80, 300_000, 10 * time.Second, 300_000, "inserting [====================] 100% 300000/300000 30000/s 0s left"},
		{80, 300_000, 10 * time.Second, 3, "inserting [....................]   0% 3/300000 0.3/s 277h46m30s left"},
		{40, 300_000, 10 * time.Second, 100_000, "inserting  33% 100000/300000 20s left"},
		{20, 300_000, 10 * time.Second, 100_000, "  33% 100000/300000"},
		{80, -1, 200 * time.Millisecond, 100_000, "inserting 100000"},
		{80, -1, 15 * time.Second, 100_000, "inserting 100000 6667/s 15s"},
		{40, -1, 15 * time.Second, 0, "inserting 0 15s"},
	} {
		got := frame(test.width, test.total, "inserting", test.after, test.done)
		require.Equal(t, test.want, got)
	}
	for width := 10; width < 130; width++ {
		for _, total := range []int{-1, 10, 100_000_000} {
			require.LessOrEqual(t, len(frame(width, total, "verifying a table: rows", 70*time.Second, 9)), width-1)
		}
	}

	// A shorter frame leaves nothing of a longer one, and nothing is left in the end.
	var out bytes.Buffer
	b := &bar{w: &out, width: 80, now: time.Now}
	b.Start("a long phase", 5)
	b.Start("b", -1)
	b.Done()
	screen := make([]byte, 80)
	at := 0
	for _, c := range out.Bytes() {
		if c == '\r' {
			at = 0
			continue
		}
		screen[at] = c
		at++
	}
	require.Empty(t, strings.Trim(string(screen), " \x00"))
	require.Zero(t, at)
}

// Where no bar can be drawn, what takes long says how far it is, and what does not says nothing.
func TestProgressInLines(t *testing.T) {
	var b bytes.Buffer
	now := time.Unix(0, 0)
	l := newLines(&b, "opebench")
	l.now = func() time.Time { return now }
	step := func(seconds, done int, want string) {
		b.Reset()
		now = now.Add(time.Duration(seconds) * time.Second)
		l.Add(done)
		require.Equal(t, want, b.String())
	}
	l.Start("inserting", 200)
	step(14, 40, "")
	step(1, 10, "opebench: inserting: 50 of 200 after 15 s, about 45 s left\n")
	step(59, 10, "")
	step(1, 90, "opebench: inserting: 150 of 200 after 75 s, about 25 s left\n")
	l.Start("reading", -1)
	step(14, 7, "")
	step(6, 7, "opebench: reading: 14 after 20 s\n")
	step(59, 7, "")
	l.Done()
}
