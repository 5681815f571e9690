package progress

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// It is said how far things are where no bar can be drawn: first after a while, and then once a minute. What takes less
// says nothing.
const (
	firstLine  = 15 * time.Second
	linesEvery = time.Minute
)

// lines prints how far things are, for logs and pipes.
type lines struct {
	w       io.Writer
	program string
	now     func() time.Time

	mu          sync.Mutex
	phase       string
	done, total int
	begin, next time.Time
}

func newLines(w io.Writer, program string) *lines {
	return &lines{w: w, program: program, now: time.Now}
}

func (l *lines) Start(phase string, total int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.phase, l.done, l.total = phase, 0, total
	l.begin = l.now()
	l.next = l.begin.Add(firstLine)
}

func (l *lines) Add(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.done += n
	now := l.now()
	if now.Before(l.next) {
		return
	}
	l.next = now.Add(linesEvery)
	elapsed := now.Sub(l.begin)
	text := fmt.Sprintf("%s: %d after %.0f s", l.phase, l.done, elapsed.Seconds())
	if l.total > 0 && l.done > 0 {
		left := elapsed.Seconds() * float64(max(l.total-l.done, 0)) / float64(l.done)
		text = fmt.Sprintf("%s: %d of %d after %.0f s, about %.0f s left", l.phase, l.done, l.total, elapsed.Seconds(), left)
	}
	// A line that cannot be written must not stop a measurement.
	_, _ = fmt.Fprintf(l.w, "%s: %s\n", l.program, text)
}

func (l *lines) Done() {}
