package predicate

import (
	"context"
	"fmt"
	"iter"
	"slices"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store/internal/forms"
	"github.com/rangecrypt/rangecrypt/store/internal/meta"
	"github.com/rangecrypt/rangecrypt/store/internal/rowcodec"
)

const (
	// enumerated is how many codes a range may have that is looked up without the index.
	enumerated = 16
	// reversePage is how many codes are read upwards to be yielded downwards.
	reversePage = 512
)

// Codes yields the codes of a span that rows may have: all of them if they are few, or those that
// are in the index.
func (s Span) Codes(ctx context.Context, index ope.Mutable, reverse bool) iter.Seq2[int64, error] {
	return func(yield func(int64, error) bool) {
		if n := uint64(s.Hi) - uint64(s.Lo); n < enumerated {
			for i := range int64(n) + 1 {
				code := s.Lo + i
				if reverse {
					code = s.Hi - i
				}
				if !yield(code, nil) {
					return
				}
			}
			return
		}
		if reverse {
			descending(ctx, index, s, yield)
			return
		}
		for e, err := range index.Range(ctx, s.Lo, s.Hi) {
			if !yield(e.Plaintext, err) || err != nil {
				return
			}
		}
	}
}

// descending yields the codes of a span that are in the index from the highest to the lowest, and
// reports whether to go on. An index is read upwards: where a span has more codes than are to be
// kept, its upper half comes first, and then its lower half.
func descending(ctx context.Context, index ope.Mutable, s Span, yield func(int64, error) bool) bool {
	var codes []int64
	for e, err := range index.Range(ctx, s.Lo, s.Hi) {
		if err != nil {
			return yield(0, err) && false
		}
		if len(codes) == reversePage {
			middle := s.Lo + int64((uint64(s.Hi)-uint64(s.Lo))/2)
			return descending(ctx, index, Span{Lo: middle + 1, Hi: s.Hi}, yield) && descending(ctx, index, Span{Lo: s.Lo, Hi: middle}, yield)
		}
		codes = append(codes, e.Plaintext)
	}
	for _, code := range slices.Backward(codes) {
		if !yield(code, nil) {
			return false
		}
	}
	return true
}

// Intervals returns the ciphertexts of a span in the order of their plaintexts. A scheme returns
// its whole domain as one interval, rotated where it shifts; here the order counts, so that range
// is asked for in two.
func (s Span) Intervals(ctx context.Context, scheme ope.Scheme) ([]ope.Interval, error) {
	d := scheme.Domain()
	if _, linear := scheme.(ope.Linear); !linear && s.Lo <= d.Min && s.Hi >= d.Max && d.Min < d.Max {
		first, err := scheme.Intervals(ctx, d.Min, d.Max-1)
		if err != nil {
			return nil, err
		}
		last, err := scheme.Intervals(ctx, d.Max, d.Max)
		return append(first, last...), err
	}
	return scheme.Intervals(ctx, s.Lo, s.Hi)
}

// Lacks says what a column of a predicate would need to lead to its rows.
func Lacks(t *rowcodec.View, c *rowcodec.Column, s *Set) string {
	name := fmt.Sprintf("column %q", c.Name)
	if c.Part >= 0 {
		name = fmt.Sprintf("key part %q", c.Name)
	}
	switch {
	case s == nil:
		return name + " is not restricted in each branch of an Or: restrict it in all of them, or make the other columns searchable"
	case !s.Leads():
		return name + " may be null or NaN, which no index entry leads to: exclude that"
	case c.Part == 0:
		return name + " would need single values"
	case c.Part > 0:
		return fmt.Sprintf("%s would need that the parts before it, first %q, are fixed to single values", name, t.Parts[0].Name)
	case c.Encryption == meta.Deterministic && forms.Drive(c):
		return name + " is deterministic: it would need single values, or to be ordered"
	case c.Searched() && !forms.Settled(c):
		return name + " was changed, and its rows are not all converted: convert them"
	case c.Searched():
		return name + " has an index that is being made again: wait until that has ended"
	}
	if _, exactly := s.Exactly(); exactly {
		return fmt.Sprintf("%s is %s: it would need to be deterministic or ordered", name, c.Encryption)
	}
	return fmt.Sprintf("%s is %s: it would need to be ordered", name, c.Encryption)
}

// Lacks says what each column of the predicate would need.
func (n *Tree) Lacks(t *rowcodec.View) (reasons []string) {
	ss, _ := n.Implied()
	n.Columns(func(c *rowcodec.Column) {
		if reason := Lacks(t, c, ss.Of(c)); !slices.Contains(reasons, reason) {
			reasons = append(reasons, reason)
		}
	})
	return reasons
}
