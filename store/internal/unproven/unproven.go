// Package unproven reads plain columns as the database gives them. It opens no sealed cell, so that nothing proves what it
// returns.
package unproven

import (
	"fmt"
	"slices"

	"github.com/rangecrypt/rangecrypt/store/internal/fault"
	"github.com/rangecrypt/rangecrypt/store/internal/meta"
	"github.com/rangecrypt/rangecrypt/store/internal/predicate"
	"github.com/rangecrypt/rangecrypt/store/internal/ranges"
	"github.com/rangecrypt/rangecrypt/store/internal/rowcodec"
)

// What to do instead, in errors.
const instead = "leave Unauthenticated out"

// Legible reports whether the values of a part or column are read without opening anything. Those of a searched column are not, as
// its postings would have to be believed, too.
func Legible(t *rowcodec.View, c *rowcodec.Column) bool {
	switch {
	case c.Part < 0:
		return c.Encryption == meta.Plain
	case t.Meta.Clear:
		return true // the key cell has it
	case c.Encryption == meta.Ordered:
		return c.Clear() && c.Text == nil && c.Type.Exact()
	}
	return c.Clear()
}

// legible returns an error unless the part or column is.
func legible(t *rowcodec.View, c *rowcodec.Column, out string) error {
	switch {
	case Legible(t, c):
		return nil
	case c.Part >= 0:
		return fmt.Errorf("%w: key part %q is %s, and not in the clear in row keys: %s, or leave the %s out", fault.ErrColumn, c.Name, c.Encryption, instead, out)
	case c.Clear():
		return fmt.Errorf("%w: column %q is searched by index entries: %s, or leave the %s out", fault.ErrColumn, c.Name, instead, out)
	}
	return fmt.Errorf("%w: column %q is sealed: %s, or leave the %s out", fault.ErrColumn, c.Name, instead, out)
}

// A Query is what a query asks for that takes no proof.
type Query struct {
	Columns []string // nil is all plain ones
	Among   []string // those that nil stands for; nil is all of the table
	Where   *predicate.Tree
	OrderBy string
	By      string
}

// Want checks the query and returns the columns that it asks for, by position.
func Want(t *rowcodec.View, q Query) ([]bool, error) {
	if q.By != "" {
		return nil, fmt.Errorf("%w: By is %q, and an Unauthenticated query reads rows, and no index entries: %s, or leave By out", fault.ErrColumn, q.By, instead)
	}
	names := q.Columns
	if names == nil {
		names = []string{}
		for _, c := range t.Columns {
			if Legible(t, c) && (q.Among == nil || slices.Contains(q.Among, c.Name)) {
				names = append(names, c.Name)
			}
		}
	}
	want, err := t.Want(names)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if err := legible(t, t.ByName[name], "column"); err != nil {
			return nil, err
		}
	}
	if c := t.ByName[q.OrderBy]; c != nil {
		if err := legible(t, c, "order"); err != nil {
			return nil, err
		}
	}
	if err := conditions(t, q.Where); err != nil {
		return nil, err
	}
	need := slices.Clone(want)
	q.Where.Columns(func(c *rowcodec.Column) { c.Add(need) })
	if c := t.ByName[q.OrderBy]; c != nil {
		c.Add(need)
	}
	return want, readable(t, need)
}

// readable returns an error unless rows show the columns in want, by position, whatever is in their key cells.
func readable(t *rowcodec.View, want []bool) error {
	if t.Meta.Expires() && !t.Meta.Clear {
		return fmt.Errorf("%w: rows of table %q expire, and their sealed key cells say when: %s", fault.ErrColumn, t.Meta.Name, instead)
	}
	for i, c := range t.Columns {
		if !want[i] {
			continue
		}
		if err := legible(t, c, "column"); err != nil {
			return err
		}
		if slices.ContainsFunc(c.Former, func(f *rowcodec.Column) bool { return !f.Converted }) {
			return unconverted(c)
		}
	}
	return nil
}

// unconverted returns the error of a column that rows may have, or a row has, as it was before.
func unconverted(c *rowcodec.Column) error {
	return fmt.Errorf("%w: column %q was made plain, and not all rows are converted, so that it may be sealed in some: convert them first, or %s",
		fault.ErrColumn, c.Name, instead)
}

// conditions returns an error unless the predicate names only what is legible, or fixes hashed parts so that only ranges of row
// keys say which rows have these values.
func conditions(t *rowcodec.View, tree *predicate.Tree) error {
	fixed := fixedParts(t, tree)
	all := []predicate.Tree{*tree}
	if tree.Op == predicate.All {
		all = tree.Of
	}
	seen := make([]bool, fixed)
	for _, n := range all {
		if c := n.Column; c != nil && c.Part >= 0 && c.Part < fixed && !Legible(t, c) && !seen[c.Part] {
			ss, _ := n.Implied()
			s := ss.Of(c)
			if s != nil {
				_, seen[c.Part] = s.Exactly()
			}
			if seen[c.Part] {
				continue
			}
		}
		var err error
		n.Columns(func(c *rowcodec.Column) {
			if err == nil {
				err = legible(t, c, "condition")
			}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// fixedParts returns how many leading parts of the row key the predicate fixes to values, whose tokens are in each range.
func fixedParts(t *rowcodec.View, tree *predicate.Tree) int {
	ss, _ := tree.Implied()
	for i, c := range t.Parts {
		s := ss.Of(c)
		if s == nil || c.Encryption == meta.Ordered {
			return i
		}
		if _, exactly := s.Exactly(); !exactly {
			return i
		}
	}
	return len(t.Parts)
}

// Told returns an error unless the ranges of row keys say all that a predicate does of hashed parts. They fix so many leading
// parts to values. Lists may have multiplied to so many combinations that the ranges leave parts out.
func Told(t *rowcodec.View, ss predicate.Sets, fixed int) error {
	if !slices.ContainsFunc(t.Parts[fixed:], func(c *rowcodec.Column) bool { return ss.Of(c) != nil && !Legible(t, c) }) {
		return nil
	}
	n := 1
	for _, c := range t.Parts[:fixed+1] {
		n *= len(ss.Of(c).In)
	}
	return fmt.Errorf("%w: the lists of In multiply to %d combinations of key parts, up to key part %q, and an Unauthenticated query, which checks no hashed part, takes at most %d: "+
		"ask in several goes with shorter lists, or %s", fault.ErrColumn, n, t.Parts[fixed].Name, ranges.MostMultiplied, instead)
}

// Reduce leaves out of the predicate that rows are checked by, and of those that they must not satisfy, what the ranges of row keys
// say of hashed parts.
func Reduce(t *rowcodec.View, tree **predicate.Tree, not []*predicate.Tree) {
	*tree = rest(t, *tree)
	for i := range not {
		not[i] = rest(t, not[i])
	}
}

func rest(t *rowcodec.View, tree *predicate.Tree) *predicate.Tree {
	if c := tree.Column; c != nil && !Legible(t, c) {
		return &predicate.Tree{Op: predicate.All}
	}
	reduced := *tree
	reduced.Of = slices.Clone(tree.Of)
	for i := range reduced.Of {
		reduced.Of[i] = *rest(t, &tree.Of[i])
	}
	return &reduced
}
