package progress

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

func newBar(w io.Writer, columns int) *bar { return &bar{w: w, width: columns, now: time.Now} }

const (
	// barInterval is the time between two frames.
	barInterval = 100 * time.Millisecond

	// barSettled is the time after which a rate says something.
	barSettled = time.Second

	barCells = 20 // of the bar itself, at most
)

// A bar is a line of a terminal that shows how far a phase is. A line that cannot be drawn does not
// stop anything.
type bar struct {
	w     io.Writer
	width int // of the terminal
	now   func() time.Time

	mu          sync.Mutex
	phase       string
	total, done int
	started     time.Time
	drawn       time.Time
	shown       int // columns of what is on the line
}

func (b *bar) Start(phase string, total int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.phase, b.total, b.done, b.started = phase, total, 0, b.now()
	b.draw(b.started)
}

func (b *bar) Add(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.done += n
	if now := b.now(); now.Sub(b.drawn) >= barInterval {
		b.draw(now)
	}
}

func (b *bar) Done() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.write("")
}

func (b *bar) draw(now time.Time) {
	b.drawn = now
	b.write(b.line(now.Sub(b.started)))
}

// write puts a line in the place of the last one.
func (b *bar) write(line string) {
	columns := utf8.RuneCountInString(line)
	erase := ""
	if b.shown > columns {
		erase = "\r" + strings.Repeat(" ", b.shown)
	}
	if b.shown+columns > 0 {
		_, _ = fmt.Fprintf(b.w, "%s\r%s", erase, line)
	}
	b.shown = columns
}

// line returns what fits the terminal: the phase, then how much is done, the bar, the time that is
// left, and the rate.
func (b *bar) line(elapsed time.Duration) string {
	room := b.width - 1 // a full line would wrap on some terminals
	done, left, rate, gauge := fmt.Sprint(b.done), "", "", ""
	if b.total > 0 {
		share := min(float64(b.done)/float64(b.total), 1)
		done = fmt.Sprintf("%3d%% %d/%d", int(share*100), b.done, b.total)
		filled := int(share * barCells)
		gauge = " [" + strings.Repeat("=", filled) + strings.Repeat(".", barCells-filled) + "]"
	}
	if elapsed >= barSettled && b.done > 0 {
		perSecond := float64(b.done) / elapsed.Seconds()
		rate = fmt.Sprintf(" %.3g/s", perSecond)
		if perSecond >= 100 {
			rate = fmt.Sprintf(" %.0f/s", perSecond)
		}
		if b.total > 0 {
			rest := time.Duration(float64(max(b.total-b.done, 0)) / perSecond * float64(time.Second))
			left = " " + rest.Round(time.Second).String() + " left"
		}
	}
	if elapsed >= barSettled && left == "" {
		left = " " + elapsed.Truncate(time.Second).String()
	}
	phase := firstRunes(b.phase, room-len(done)-1)
	room -= utf8.RuneCountInString(phase) + 1 + len(done)
	fits := func(part string) string {
		if len(part) > room {
			return ""
		}
		room -= len(part)
		return part
	}
	gauge = fits(gauge)
	left = fits(left)
	rate = fits(rate)
	return firstRunes(phase+gauge+" "+done+rate+left, b.width-1)
}

// firstRunes returns at most n runes of a text.
func firstRunes(text string, n int) string {
	runes := []rune(text)
	return string(runes[:min(len(runes), max(n, 0))])
}
