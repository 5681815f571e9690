package catalogue

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/rangecrypt/rangecrypt/internal/relay"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/inspect"
	"github.com/rangecrypt/rangecrypt/store/internal/meta"
)

// A Progress is that of a conversion, which all clients share. It has a cell of its own in the
// catalogue's row, sealed:
//
//	0x03 || table id [|| token of the tenant in the table]
//
// It is changed by compare-and-set, and does not raise the version of the catalogue.
//
// Clients may cut a table differently at the same time, since what is done is told by containment. Spans are lost where an older
// program changes the cell, which overlooks them: then these parts are done once more.
type Progress struct {
	Round  uint64 `json:"round"`           // rises with each beginning
	Target uint32 `json:"target"`          // version of the table's or tenant's entry that rows are converted to
	Parts  []bool `json:"parts"`           // which are done
	Spans  []Span `json:"spans,omitempty"` // what is done of the others, ascending; no two of them meet
	Over   bool   `json:"over"`            // all are, and the entry says so
}

const (
	sweepEntry    = 3
	ProgressParts = 64
)

// A Span is some of a table: from a first share on, and below a second one. Of such shares, all of it has 2^32.
type Span [2]uint64

// SpanOf returns the span of one of some parts. There are at most driver.MaxParts, which is 2^16. So the bounds of two parts are
// equal, or at least one share apart, and those that differ still do when they are rounded down.
func SpanOf(part, parts int) Span {
	bound := func(i int) uint64 { return uint64(i) << 32 / uint64(parts) }
	return Span{bound(part), bound(part + 1)}
}

func (s Span) holds(other Span) bool { return s[0] <= other[0] && other[1] <= s[1] }

// merged returns spans in their order, those that meet or overlap as one.
func merged(spans []Span) (all []Span) {
	slices.SortFunc(spans, func(a, b Span) int { return cmp.Compare(a[0], b[0]) })
	for _, s := range spans {
		if last := len(all) - 1; last >= 0 && s[0] <= all[last][1] {
			all[last][1] = max(all[last][1], s[1])
		} else {
			all = append(all, s)
		}
	}
	return all
}

// done returns all that is done.
func (p Progress) done() []Span {
	all := slices.Clone(p.Spans)
	for i, done := range p.Parts {
		if done {
			all = append(all, SpanOf(i, len(p.Parts)))
		}
	}
	return merged(all)
}

// Has reports whether all of a span is done.
func (p Progress) Has(s Span) bool {
	return Spans(p.done()).Has(s)
}

// Meets reports whether some of a span is done.
func (p Progress) Meets(s Span) bool {
	return slices.ContainsFunc(p.done(), func(done Span) bool { return done[0] < s[1] && s[0] < done[1] })
}

// Spans are some of a table, in ascending order. No two of them meet.
type Spans []Span

// Has reports whether all of a span is among them.
func (all Spans) Has(s Span) bool {
	return slices.ContainsFunc(all, func(done Span) bool { return done.holds(s) })
}

// EachLeft calls do for as many shares of a part as are wanted, but for those that are done, at the same time. If one is left,
// the caller's goroutine does it. Where do panics, or ends its goroutine, as a callback of a test may, so does EachLeft.
func (all Spans) EachLeft(ctx context.Context, part inspect.Part, shares int, do func(ctx context.Context, share inspect.Part) error) error {
	if shares < 0 {
		return fmt.Errorf("%w: Shares is %d", driver.ErrRange, shares)
	}
	n := max(1, min(shares, inspect.MaxParts/part.Of))
	var left []inspect.Part
	for i := range n {
		share := inspect.Part{Index: part.Index*n + i, Of: part.Of * n}
		if !all.Has(SpanOf(share.Index, share.Of)) {
			left = append(left, share)
		}
	}
	if len(left) == 1 {
		return do(ctx, left[0])
	}
	return relay.Each(ctx, len(left), func(ctx context.Context, i int) error { return do(ctx, left[i]) })
}

// With returns the spans and another one.
func (all Spans) With(s Span) Spans { return merged(append(slices.Clone(all), s)) }

// With returns the progress when a span is done, too.
func (p Progress) With(s Span) Progress {
	all := merged(append(p.done(), s))
	p.Parts, p.Spans = slices.Clone(p.Parts), nil
	for i := range p.Parts {
		part := SpanOf(i, len(p.Parts))
		for _, done := range all {
			p.Parts[i] = p.Parts[i] || done.holds(part)
			if some := (Span{max(done[0], part[0]), min(done[1], part[1])}); some[0] < some[1] && !done.holds(part) {
				p.Spans = append(p.Spans, some)
			}
		}
	}
	p.Spans = merged(p.Spans)
	return p
}

// DoneOf reports which of some parts are done. All are when the conversion is over.
func (p Progress) DoneOf(parts int) []bool {
	done, all := make([]bool, parts), p.done()
	for i := range done {
		part := SpanOf(i, parts)
		at := slices.IndexFunc(all, func(s Span) bool { return part[0] < s[1] })
		if at < 0 {
			break
		}
		all = all[at:]
		done[i] = all[0].holds(part)
	}
	return done
}

// Continues reports whether progress is of the round that another is of. Rounds count from one again
// where the cell was removed, which nobody does but an operator who is not honest.
func (p Progress) Continues(other Progress) bool {
	return p.Round == other.Round && p.Target == other.Target && len(p.Parts) == len(other.Parts)
}

// Done returns how many parts are done.
func (p Progress) Done() (n int) {
	for _, done := range p.Parts {
		if done {
			n++
		}
	}
	return n
}

// Progress returns the progress of the last conversion that has a cell, and the cell, which is empty if there was none.
func (c *Catalogue) Progress(ctx context.Context, q []byte) (p Progress, cell driver.Cell, err error) {
	return readOwn[Progress](ctx, c, "progress", q)
}

// UpdateProgress replaces the progress by what next makes of it, unless that is nothing, and returns
// what is there then. An unknown outcome is resolved by reading again.
func (c *Catalogue) UpdateProgress(ctx context.Context, q []byte, next func(Progress) (Progress, bool)) (now Progress, err error) {
	return updateOwn(ctx, c, "progress", q, false, func(p Progress) (Progress, bool) {
		p.Parts = slices.Clone(p.Parts)
		return next(p)
	})
}

// ProgressOf names the cell of a table's progress, of a tenant where a pseudonym is given.
func ProgressOf(table meta.TableID, pseudonym []byte) []byte {
	return slices.Concat([]byte{sweepEntry}, table[:], pseudonym)
}

// Settle notes which former ids of a table's columns no row has any more, because all of them were
// written under the version swept of the catalogue or a later one. It returns the latest version of
// the entry that all rows are known to follow, which takes in what it has noted itself; or 0 if the entry
// was changed since swept, and nothing was left to note.
func (c *Catalogue) Settle(ctx context.Context, name string, id meta.TableID, swept uint32) (version uint32, err error) {
	err = c.Change(ctx, []string{name}, func(e *Edit) error {
		m, err := e.Find(name, id)
		if err != nil {
			return err
		}
		m = m.Clone()
		settled := false
		for i := range m.Columns {
			f := &m.Columns[i]
			for j := range f.Former {
				if f.Since <= swept && !f.Former[j].Converted {
					f.Former[j].Converted, settled = true, true
				}
			}
		}
		if m.Version <= swept && len(m.Dropped)+len(m.DroppedIndexes) > 0 {
			m.Dropped, m.DroppedIndexes, settled = nil, nil, true
		}
		same := m.Version == swept
		if settled {
			e.Put(m)
		}
		switch {
		case same:
			version = m.Version
		case settled:
			version = swept
		default:
			version = 0
		}
		return nil
	})
	return version, err
}
