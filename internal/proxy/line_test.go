package proxy

import (
	"bytes"
	"io"
	"math"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestBandwidth(t *testing.T) {
	line, start := NewLine(0, ToServer), time.Now()
	w := Weather{Bandwidth: 1000, Delay: time.Hour} // which is not the line's
	require.Equal(t, start.Add(time.Second), line.Leave(w, start, 1000))
	require.Equal(t, start.Add(1500*time.Millisecond), line.Leave(w, start, 500), "bytes leave one after the other")
	require.Equal(t, start.Add(4*time.Second), line.Leave(w, start.Add(3*time.Second), 1000), "a line that was free keeps no credit")
	require.Equal(t, start, line.Leave(Weather{}, start, 1<<20))
}

// TestLoss compares losses with what the rule says of many packets: with 10^5 of them the mean is within 6 standard errors.
func TestLoss(t *testing.T) {
	const n = 100_000
	start := time.Now()
	for _, loss := range []float64{0.05, 0.5} {
		line, w := NewLine(1, ToServer), Weather{Loss: loss, Delay: 15 * time.Millisecond}
		first := 2*w.Delay + resendAfter
		lost, all := 0, time.Duration(0)
		for range n {
			late := line.Leave(w, start, packetBytes).Sub(start)
			// Waits double: after k losses it is 2^k-1 times the first.
			k := math.Log2(float64(late)/float64(first) + 1)
			require.InDelta(t, math.Round(k), k, 1e-9)
			require.LessOrEqual(t, k, float64(mostResends))
			if k > 0 {
				lost++
			}
			all += late
		}
		require.InDelta(t, loss, float64(lost)/n, 6*math.Sqrt(loss*(1-loss)/n))
	}
	require.Equal(t, start, NewLine(1, ToServer).Leave(Weather{}, start, 1<<20))
	// Of packets that are sent together the one that is lost most often counts: the more there are the later.
	few, many := time.Duration(0), time.Duration(0)
	line := NewLine(1, ToServer)
	for range 1000 {
		few += line.Leave(Weather{Loss: 0.1}, start, 1).Sub(start)
		many += line.Leave(Weather{Loss: 0.1}, start, 20*packetBytes).Sub(start)
	}
	require.Greater(t, many, 4*few)
	require.Equal(t, NewLine(1, ToServer).Leave(Weather{Loss: 0.5}, start, 1<<20), NewLine(1, ToServer).Leave(Weather{Loss: 0.5}, start, 1<<20))
	// What is lost there says nothing of what is lost on the way back: of 10^4 exchanges both are lost of one in a hundred.
	there, back := NewLine(1, ToServer), NewLine(1, ToClient)
	both := 0
	for range 10_000 {
		a, b := there.Leave(Weather{Loss: 0.1}, start, 1), back.Leave(Weather{Loss: 0.1}, start, 1)
		if a != start && b != start {
			both++
		}
	}
	require.InDelta(t, 100, both, 6*math.Sqrt(100))
}

// TestWeatherOfALine sends bytes through a proxy with a narrow line that loses packets: all arrive, in their order, and late.
func TestWeatherOfALine(t *testing.T) {
	server, p := newEcho(t), New(nil)
	t.Cleanup(p.Close)
	at, err := p.Listen(server.Addr().String())
	require.NoError(t, err)
	for name, w := range map[string]Weather{"bandwidth": {Bandwidth: 1_000_000}, "loss": {Loss: 0.02}} {
		p.Set(w)
		conn, err := net.Dial("tcp", at)
		require.NoError(t, err)
		sent := bytes.Repeat([]byte("0123456789abcdef\n"), 20_000)
		start := time.Now()
		go func() {
			_, _ = conn.Write(sent)
			_ = conn.(*net.TCPConn).CloseWrite()
		}()
		got, err := io.ReadAll(conn)
		require.NoError(t, err)
		require.True(t, bytes.Equal(sent, got), name)
		// 340,000 bytes take a third of a second there. Of the first packets some are lost: one is late by 200 ms at least.
		require.Greater(t, time.Since(start), 200*time.Millisecond, name)
		require.NoError(t, conn.Close())
	}
}
