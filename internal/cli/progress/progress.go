// Package progress shows how far things are: as a bar on a terminal, and elsewhere as a line now and then.
package progress

import "io"

// A Reporter shows how far things are. Its methods may be called from several goroutines.
type Reporter interface {
	// Start begins a phase; total is -1 where the end is not known.
	Start(phase string, total int)
	Add(n int)
	Done()
}

// New returns a bar for a terminal of so many columns. Without columns it returns what prints lines, as of a
// program of that name.
func New(w io.Writer, program string, columns int) Reporter {
	if columns > 0 {
		return newBar(w, columns)
	}
	return newLines(w, program)
}

// None shows nothing.
type None struct{}

func (None) Start(string, int) {}
func (None) Add(int)           {}
func (None) Done()             {}

// Totals reports totals, where they are known, to a Reporter, which counts steps. The zero value with a
// Reporter is ready.
type Totals struct {
	Reporter
	phase string
	begun bool
	last  int
}

// At says how much of a phase is done. It begins a phase that is new, and one that has begun again.
func (t *Totals) At(phase string, done, total int) {
	if !t.begun || phase != t.phase || done < t.last {
		t.End()
		t.Start(phase, total)
		t.phase, t.begun, t.last = phase, true, 0
	}
	t.Add(done - t.last)
	t.last = done
}

// End ends the last phase, if one has begun.
func (t *Totals) End() {
	if t.begun {
		t.Done()
	}
	t.begun = false
}
