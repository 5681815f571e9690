package drivertest

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/store/driver"
)

// model is the contract of one client in the plainest form: rows of cells, nothing else.
type model map[string]map[string]string

func (m model) set(row string, puts []driver.Cell, deletes [][]byte) {
	if m[row] == nil {
		m[row] = make(map[string]string)
	}
	for _, c := range puts {
		m[row][string(c.Qualifier)] = string(c.Value)
	}
	for _, q := range deletes {
		delete(m[row], string(q))
	}
}

func (m model) get(row string, s driver.Slice) []string {
	out := []string{}
	for _, q := range sliced(slices.Sorted(maps.Keys(m[row])), s) {
		out = append(out, q+"="+m[row][q])
	}
	return out
}

func (m model) scan(r driver.Range) []string {
	var all []string
	for _, key := range sliced(slices.Sorted(maps.Keys(m)), driver.Slice{Start: r.Start, End: r.End}) {
		if found := m.get(key, r.Cells); len(found) > 0 {
			all = append(all, fmt.Sprintf("%q %q", key, found))
		}
	}
	return ranged(all, driver.Range{Reverse: r.Reverse, Limit: r.Limit})
}

// checkModel runs a random history of one client. Rows of the two kinds, those of Apply and those
// of conditions, are kept apart, as the contract demands.
func checkModel(tb testing.TB, s *suite, f driver.Family, p string) {
	h := &history{r: random(tb), p: p, f: f, wide: f == s.wide(tb), m: make(model)}
	for i := range 200 {
		h.step(tb, i)
	}
	h.compare(tb, driver.Range{}, "at the end")
}

type history struct {
	r    *rand.Rand
	p    string
	f    driver.Family
	wide bool
	m    model
}

// word returns a short string of bytes at the edges.
func (h *history) word(least int) string {
	w := ""
	for range least + h.r.IntN(4-least) {
		w += string([]byte{"\x00\x01\x7f\x80\xff"[h.r.IntN(5)]})
	}
	return w
}

// key returns a row key of one kind: 'a' for Apply, 'c' for conditions.
func (h *history) key(kind string) string { return h.p + kind + h.word(0) }

func (h *history) value(least int) string {
	return h.word(min(least, 1)) + fmt.Sprint(h.r.IntN(4))
}

// changes returns puts and deletes of different cells.
func (h *history) changes() (puts []driver.Cell, deletes [][]byte) {
	seen := make(map[string]bool)
	for range 1 + h.r.IntN(5) {
		q := h.word(0)
		if seen[q] {
			continue
		}
		seen[q] = true
		switch h.r.IntN(4) {
		case 0:
			deletes = append(deletes, b(q))
		case 1:
			puts = append(puts, put(q, ""))
		default:
			puts = append(puts, put(q, h.value(0)))
		}
	}
	return puts, deletes
}

func (h *history) slice(limits bool) driver.Slice {
	var s driver.Slice
	switch h.r.IntN(4) {
	case 0:
		for range 1 + h.r.IntN(4) {
			s.Only = append(s.Only, b(h.word(0)))
		}
	case 1:
		s.Start = b(h.word(0))
	case 2:
		s.Start, s.End = b(h.word(0)), b(h.word(0))
	}
	if limits {
		s.Limit = h.r.IntN(4)
		s.Head = h.wide && len(s.Only) == 0 && h.r.IntN(2) == 0
	}
	return s
}

func (h *history) step(tb testing.TB, i int) {
	tb.Helper()
	what := fmt.Sprintf("step %d", i)
	switch op := h.r.IntN(10); {
	case op < 3:
		h.apply(tb)
	case op < 5:
		h.condition(tb, what)
	case op < 7:
		key := h.key([]string{"a", "c"}[h.r.IntN(2)])
		s := h.slice(true)
		require.Equal(tb, h.m.get(key, s), get(tb, h.f, key, s), "%s: row %q, %+v", what, key, s)
		if !h.wide {
			h.batch(tb, what)
		}
	default:
		r := driver.Range{Cells: h.slice(false), Reverse: h.r.IntN(2) == 0, Limit: h.r.IntN(2) * h.r.IntN(10)}
		if h.r.IntN(2) == 0 {
			r.Start, r.End = b(h.key("a")), b(h.key("c"))
		}
		h.compare(tb, r, what)
	}
}

func (h *history) batch(tb testing.TB, what string) {
	tb.Helper()
	s := h.slice(false)
	var rows []string
	for range h.r.IntN(12) {
		rows = append(rows, h.key([]string{"a", "c"}[h.r.IntN(2)]))
	}
	for i, found := range readBatch(tb, h.f, rows, s) {
		require.Equal(tb, h.m.get(rows[i], s), show(found), "%s: row %q of a batch, %+v", what, rows[i], s)
	}
}

func (h *history) apply(tb testing.TB) {
	tb.Helper()
	var ms []driver.Mutation
	seen := make(map[string]bool)
	for range 1 + h.r.IntN(6) {
		m := row(h.key("a"))
		if seen[string(m.Row)] {
			continue
		}
		seen[string(m.Row)] = true
		if m.DeleteRow = h.r.IntN(5) == 0; !m.DeleteRow {
			m.Puts, m.Deletes = h.changes()
		}
		ms = append(ms, m)
	}
	apply(tb, h.f, ms...)
	for _, m := range ms {
		if m.DeleteRow {
			delete(h.m, string(m.Row))
		} else {
			h.m.set(string(m.Row), m.Puts, m.Deletes)
		}
	}
}

// condition makes a conditional change, whose condition holds about half of the time.
func (h *history) condition(tb testing.TB, what string) {
	tb.Helper()
	key := h.key("c")
	puts, deletes := h.changes()
	c, commits := h.f.(driver.Committer)
	conditions := 1
	if commits {
		conditions = h.r.IntN(4)
	}
	// Values that are not empty, since those cannot be expected.
	for i := range puts {
		puts[i].Value = b(h.value(1))
	}
	var expect cells
	holds := true
	for range conditions {
		q := h.word(0)
		e := absent(q)
		value, exists := h.m[key][q]
		switch {
		case exists && h.r.IntN(4) > 0:
			e = put(q, value)
		case h.r.IntN(6) == 0:
			e = put(q, h.value(1))
		}
		holds = holds && (e.Value == nil && !exists || e.Value != nil && exists && string(e.Value) == value)
		expect = append(expect, e)
	}
	var ok bool
	var err error
	if commits && h.r.IntN(3) > 0 || conditions != 1 {
		ok, err = c.Commit(background, b(key), expect, puts, deletes)
	} else {
		deletes = nil
		ok, err = h.f.CheckAndPut(background, b(key), expect[0], puts...)
	}
	require.NoError(tb, err, what)
	require.Equal(tb, holds, ok, "%s: row %q, expected %q", what, key, show(expect))
	if ok {
		h.m.set(key, puts, deletes)
	}
}

// compare scans what is in the range and in the history's own part of the family.
func (h *history) compare(tb testing.TB, r driver.Range, what string) {
	tb.Helper()
	own := within(h.p)
	if bytes.Compare(r.Start, own.Start) < 0 {
		r.Start = own.Start
	}
	if r.End == nil {
		r.End = own.End
	}
	limit := r.Limit
	if h.wide {
		r.AnyOrder, r.Reverse, r.Limit = true, false, 0
	}
	got := []string{}
	for _, row := range scan(tb, h.f, r) {
		got = append(got, fmt.Sprintf("%q %q", row.Key, show(row.Cells)))
	}
	if h.wide {
		want := h.m.scan(r)
		require.ElementsMatch(tb, want, got, "%s: %+v", what, r)
		if limit > 0 {
			r.Limit = limit
			require.Len(tb, scan(tb, h.f, r), min(limit, len(want)), "%s: %+v", what, r)
		}
		return
	}
	require.Equal(tb, h.m.scan(r), got, "%s: %+v", what, r)
}
