package proxy

import (
	"math/rand/v2"
	"sync"
	"time"
)

// A Line carries bytes in one direction, as far as [Weather.Bandwidth] and [Weather.Loss] are about it.
//
// The rule for losses is that of TCP where nothing but its timer notices them. Each packet, of at most 1,460 bytes, is lost with
// the probability Loss. It is sent again when a round trip and 200 ms have passed, and that time doubles each time that it is lost
// again. Packets that are sent together are sent again together, and what is sent again takes no bandwidth. Where the timer is
// not alone, as in long transfers, TCP is faster.
type Line struct {
	mu    sync.Mutex
	free  time.Time // when the last byte has left, where the bandwidth has a bound
	draws *rand.Rand
}

const (
	packetBytes = 1460                   // of a segment of TCP on Ethernet
	resendAfter = 200 * time.Millisecond // as Linux waits at least
	mostResends = 10                     // then a packet arrives
)

// NewLine returns a line that loses the same packets as all others of the seed and direction, as far as they come in the
// same order.
func NewLine(seed uint64, to Direction) *Line {
	return &Line{draws: rand.New(rand.NewPCG(seed, uint64(to)))}
}

// Leave returns when n bytes that are sent together at a time have left, for the last time that they are sent. They arrive
// [Weather.Delay] later.
func (l *Line) Leave(w Weather, at time.Time, n int) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	if w.Bandwidth > 0 {
		if l.free.After(at) {
			at = l.free
		}
		at = at.Add(time.Duration(float64(n) / float64(w.Bandwidth) * float64(time.Second)))
		l.free = at
	}
	lost := time.Duration(0)
	for ; n > 0 && w.Loss > 0; n -= packetBytes {
		waited, wait := time.Duration(0), 2*w.Delay+resendAfter
		for range mostResends {
			if l.draws.Float64() >= w.Loss {
				break
			}
			waited, wait = waited+wait, 2*wait
		}
		lost = max(lost, waited)
	}
	return at.Add(lost)
}
