package query

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"slices"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/internal/fault"
	"github.com/rangecrypt/rangecrypt/store/internal/meta"
	"github.com/rangecrypt/rangecrypt/store/internal/predicate"
	"github.com/rangecrypt/rangecrypt/store/internal/rowcodec"
	"github.com/rangecrypt/rangecrypt/store/internal/value"
)

// plan is how a query is going to be answered: on one way to rows, or on several, one after the other.
type plan struct {
	Ways []way
	want []bool         // columns to return; nil is all
	tree predicate.Tree // that all rows satisfy

	// Where the client sorts: the column by which, and the ways on which rows come in that order if there are too many,
	// nil if there are none.
	sort    *rowcodec.Column
	instead []way

	reverse     bool
	unconverted []string // columns of the predicate that would drive, were all rows converted

	one [1]way
}

// A way is ranges of keys to scan, of the rows themselves or of one column's postings. Every row found is checked.
type way struct {
	driving  *rowcodec.Column // whose postings or server index are scanned; nil where rows are
	Ranges   []keyRange
	whole    bool // all rows of the table, or tenant
	anyOrder bool // of all partitions, which have no order but that of the database
	fixed    bool // key parts, or the driving column, are fixed to values
	reverse  bool

	values   *predicate.Set     // of what is scanned, where it is not fixed
	tree     *predicate.Tree    // that its rows satisfy
	not      []*predicate.Tree  // and that none does, since such rows come on earlier ways
	sortedBy []*rowcodec.Column // of row keys: the ranges are in the order of any of these
}

// keyRange is a half-open range of keys; a nil end is unbounded. Where the order of by is lossy,
// keys that are equal in their first group bytes are put in order by its values.
//
// Where by has a stateful scheme, within are the codes of the range, and start and end may hold
// more. With a mutable scheme these hold all postings of the column, and those of the codes are
// read one code after the other.
type keyRange struct {
	Start, end []byte
	by         *rowcodec.Column
	group      int // bytes of a key that rows share which have equal ciphertexts of different values, or 0
	ranks      int // bytes of a key to the end of the rank that its ciphertext begins with, or 0
	within     predicate.Span
	resume     *Position // with a mutable scheme: to go on after, or nil
	after      []byte    // a row key: in no order, to go on after; or nil
}

// grouped reports whether the client puts some rows of the range in order.
func (r keyRange) grouped() bool { return r.group > 0 || r.ranks > 0 }

// groupOf returns how many bytes of a key other keys have, too, whose rows the client puts in order by their values; 0: none.
func (r keyRange) groupOf(key []byte) int {
	if r.sharesRank(key) {
		return r.ranks
	}
	return r.group
}

// sharesRank reports whether values share the rank that the ciphertext of a key begins with.
func (r keyRange) sharesRank(key []byte) bool { return r.ranks > 0 && key[r.ranks-1] != 0 }

// maxRanges limits how many ranges the values of In may multiply to, and maxWays how many branches of Or are ways of
// their own.
const (
	maxRanges = 10_000
	maxWays   = 100
)

// errMultiplied is returned where lists multiply to more.
var errMultiplied = fmt.Errorf("%w: the lists of In multiply to more than %d combinations of key parts", fault.ErrColumn, maxRanges)

// A planner chooses ways.
type planner struct {
	ctx         context.Context
	t           *rowcodec.View
	by          *rowcodec.Column // that the query names; nil lets the planner choose
	need        []bool           // columns to return, and those of conditions; nil is all
	unconverted []string
}

// NewPlan chooses what to scan. In this order of preference:
//
//  1. rows, when the leading parts of the row key are fixed to values, with the range of the next
//     part where there is one, or when the leading part is ordered and has a range
//  2. the postings, or the server index, of a deterministic column that is fixed to values
//  3. those of an ordered column that is restricted
//  4. one such way for each branch of an Or
//  5. all rows
//
// A column whose encryption was changed drives no query until all rows were converted.
//
// A column that the query names comes first. The planner counts no rows: the way gives the rows their order, which must not
// change when other rows are written. And to count them would take requests.
func NewPlan(ctx context.Context, t *rowcodec.View, q Selection) (*plan, error) {
	pl := &plan{reverse: q.Reverse}
	var err error
	if pl.want, err = q.want(t); err != nil {
		return nil, err
	}
	if pl.tree, err = predicate.New(t, q.Where); err != nil {
		return nil, err
	}
	p := planner{ctx: ctx, t: t, need: slices.Clone(pl.want)}
	if p.need != nil {
		pl.tree.Columns(func(c *rowcodec.Column) { c.Add(p.need) })
	}
	if q.By != "" {
		if err := p.named(&pl.tree, q.By); err != nil {
			return nil, err
		}
	}
	if pl.Ways, err = p.ways(&pl.tree, pl.one[:0]); err != nil {
		return nil, err
	}
	if q.OrderBy != "" {
		if err := pl.order(&p, q.OrderBy); err != nil {
			return nil, err
		}
	}
	pl.unconverted = p.unconverted
	for i := range pl.Ways {
		pl.Ways[i].reverse = q.Reverse && pl.sort == nil && !(q.OrderBy != "" && i > 0) // what comes after is null
	}
	if len(pl.instead) > 0 {
		pl.instead[0].reverse = q.Reverse
	}
	if q.OrderBy == "" && q.Reverse {
		if len(pl.Ways) > 1 {
			slices.Reverse(pl.Ways)
		}
		if slices.ContainsFunc(pl.Ways, func(w way) bool { return w.anyOrder }) {
			return nil, pl.noOrder("to reverse")
		}
	}
	if (q.Paged || q.PageToken != "") && pl.sort == nil && pl.served() != nil {
		return nil, pl.noOrder("for pages to go on in")
	}
	if q.RequireIndex {
		return pl, pl.requireIndex(t)
	}
	return pl, nil
}

// served returns a driving column with a server index, or nil.
func (pl *plan) served() *rowcodec.Column {
	for _, w := range pl.Ways {
		if w.served() {
			return w.driving
		}
	}
	return nil
}

// noOrder returns the error of a query for an order that its rows do not have.
func (pl *plan) noOrder(what string) error {
	if c := pl.served(); c != nil {
		return fmt.Errorf("%w: column %q has a server index, whose rows come in no order %s: order by a column, restrict the row key, or leave out the server index, since index entries have an order",
			driver.ErrRange, c.Name, what)
	}
	if len(pl.unconverted) > 0 {
		return fmt.Errorf("%w: column %q was changed and its rows are not all converted, so all rows are read, which have no order to reverse; convert them first",
			driver.ErrRange, pl.unconverted[0])
	}
	return fmt.Errorf("%w: all rows of a table whose key begins with a hashed or plain part have no order to reverse; fix that part, or order by a column", driver.ErrRange)
}

// named lets the column drive that the query names. It does not while its postings do not lead to all rows.
func (p *planner) named(tree *predicate.Tree, name string) error {
	c := p.t.ByName[name]
	if c == nil {
		return fmt.Errorf("%w: table %q has no column %q for By", fault.ErrColumn, p.t.Meta.Name, name)
	}
	ss, none := tree.Implied()
	s, reason := ss.Of(c), ""
	switch {
	case c.Part >= 0:
		reason = fmt.Sprintf("key part %q is none: By names a column", name)
	case c.Searched() && !c.Drives():
		p.unconverted = append(p.unconverted, name)
		return nil
	case none:
		return nil
	case s == nil:
		reason = fmt.Sprintf("column %q is not restricted, or not in each branch of an Or", name)
	case !drives(s):
		reason = predicate.Lacks(p.t, c, s)
	}
	if reason != "" {
		return fmt.Errorf("%w: By names no column that can drive the query: %s", fault.ErrColumn, reason)
	}
	p.by = c
	return nil
}

// drives reports whether the postings of the column lead to all rows of a set.
func drives(s *predicate.Set) bool {
	if !s.Column.Drives() || !s.Leads() {
		return false
	}
	_, exactly := s.Exactly()
	return exactly || s.Column.Encryption == meta.Ordered
}

// ways appends the ways to the rows of a predicate.
func (p *planner) ways(tree *predicate.Tree, to []way) ([]way, error) {
	if ss, _ := tree.Implied(); p.by != nil && ss.Of(p.by) != nil {
		w, err := p.byColumn(tree, ss.Of(p.by))
		return append(to, w), err
	}
	w, err := p.single(tree)
	if err != nil && err != errMultiplied {
		return nil, err
	}
	const few = 16
	if err != nil || w.whole || len(w.Ranges) > few {
		several, failed := p.union(tree)
		if failed != nil {
			return nil, failed
		}
		n := 0
		for _, s := range several {
			n += len(s.Ranges)
		}
		if len(several) > 0 && (err != nil || w.whole || n < len(w.Ranges)) {
			return append(to, several...), nil
		}
	}
	return append(to, w), err
}

// cost is what a way by an ordered column costs, beside others. To read the row of a hint takes as long as several copies.
func (p *planner) cost(s *predicate.Set) float64 {
	switch {
	case s.Column.CopiesHave(p.need):
		return s.Share()
	case s.Column.ServerIndex:
		return 4 * s.Share()
	}
	return 8 * s.Share()
}

// single returns the best single way.
func (p *planner) single(tree *predicate.Tree) (w way, err error) {
	ss, none := tree.Implied()
	w.tree = tree
	if none {
		return w, nil
	}
	restricted, err := w.byRows(p.ctx, p.t, ss)
	if err != nil || restricted {
		return w, err
	}
	var best *predicate.Set
	for i := range ss {
		s := &ss[i]
		if !s.Column.Searched() || !s.Leads() {
			continue
		}
		switch {
		case !s.Column.Drives():
			if !slices.Contains(p.unconverted, s.Column.Name) {
				p.unconverted = append(p.unconverted, s.Column.Name)
			}
		case !drives(s):
		case s.Column.Encryption == meta.Deterministic:
			best = s
		case best == nil || best.Column.Encryption == meta.Ordered && p.cost(s) < p.cost(best):
			best = s
		}
	}
	switch {
	case best != nil:
		return p.byColumn(tree, best)
	case p.t.Parts[0].Encryption != meta.Ordered:
		w.anyOrder = true
		w.Ranges = []keyRange{{Start: p.t.Prefix, end: ope.PrefixEnd(p.t.Prefix)}}
		fallthrough
	default:
		w.whole = true
	}
	return w, err
}

// byColumn returns the way by the postings or the server index of a column.
func (p *planner) byColumn(tree *predicate.Tree, s *predicate.Set) (w way, err error) {
	w = way{driving: s.Column, tree: tree, values: s}
	_, w.fixed = s.Exactly()
	w.Ranges, err = rangesOf(p.ctx, s.Column, s.Column.Lead, s)
	if w.anyOrder = w.served(); w.anyOrder {
		for i := range w.Ranges {
			w.Ranges[i].group, w.Ranges[i].ranks = 0, 0
		}
	}
	return w, err
}

// union returns ways for the branches of an Or, each of which is better than all rows, or nil.
func (p *planner) union(tree *predicate.Tree) ([]way, error) {
	conjuncts := []predicate.Tree{*tree}
	if tree.Op == predicate.All {
		conjuncts = tree.Of
	}
	for i, or := range conjuncts {
		if or.Op != predicate.Any || len(or.Of) == 0 {
			continue
		}
		rest := slices.Concat(conjuncts[:i], conjuncts[i+1:])
		ways, err := p.branches(or.Of, rest)
		if err != nil || len(ways) > 0 {
			return ways, err
		}
	}
	return nil, nil
}

// branches returns the ways of the branches of an Or, with what holds for all of them. Branches that one column drives
// are one way.
func (p *planner) branches(branches, rest []predicate.Tree) ([]way, error) {
	var ways []way
	groups := make(map[*rowcodec.Column][]predicate.Tree)
	at := make(map[*rowcodec.Column]int)
	for _, b := range branches {
		with := predicate.And(append(slices.Clip(rest), b)...)
		w, err := p.single(&with)
		if err == nil && w.driving != nil {
			if groups[w.driving] = append(groups[w.driving], b); len(groups[w.driving]) == 1 {
				at[w.driving] = len(ways)
				ways = append(ways, w)
			}
			continue
		}
		if err != nil || w.whole {
			more, err := p.union(&with)
			if err != nil || len(more) == 0 {
				return nil, err
			}
			ways = append(ways, more...)
		} else {
			ways = append(ways, w)
		}
		if len(ways) > maxWays {
			return nil, nil
		}
	}
	for c, group := range groups {
		if len(group) == 1 {
			continue
		}
		with := predicate.And(append(slices.Clip(rest), predicate.Tree{Op: predicate.Any, Of: group})...)
		w, err := p.single(&with)
		if err != nil || w.whole {
			return nil, err
		}
		ways[at[c]] = w
	}
	for i := range ways {
		for j := range ways[:i] {
			ways[i].not = append(ways[i].not, ways[j].tree)
		}
	}
	return ways, nil
}

// byRows sets the ranges of row keys and reports whether the predicate restricts them.
func (w *way) byRows(ctx context.Context, t *rowcodec.View, ss predicate.Sets) (bool, error) {
	prefixes := [][]byte{t.Prefix}
	for i, c := range t.Parts {
		s := ss.Of(c)
		var values []any
		exactly := false
		if s != nil && c.Encryption != meta.Ordered {
			values, exactly = s.Exactly()
		}
		if len(prefixes) == 1 && (exactly || c.Encryption == meta.Ordered || c.Encryption == meta.Plain && i > 0) {
			w.sortedBy = append(w.sortedBy, c)
		}
		if exactly {
			// One prefix for each value of this part after each so far, in the order of values.
			var longer [][]byte
			for _, prefix := range prefixes {
				for _, v := range values {
					v, err := c.Type.Normalize(v)
					if err != nil {
						continue // no row has it
					}
					key, err := c.AppendSearch(ctx, bytes.Clone(prefix), v)
					if err != nil {
						return false, err
					}
					longer = append(longer, key)
				}
			}
			if len(longer) > maxRanges {
				return false, errMultiplied
			}
			prefixes, w.fixed = longer, true
			continue
		}
		// Hashes have no order, and neither have partitions; everything after the prefixes is
		// scanned then.
		if c.Encryption != meta.Ordered && (c.Encryption != meta.Plain || i == 0 || s == nil) {
			break
		}
		for _, prefix := range prefixes {
			ranges, err := rangesOf(ctx, c, prefix, s)
			if err != nil {
				return false, err
			}
			if w.Ranges = append(w.Ranges, ranges...); len(w.Ranges) > maxRanges {
				return false, errMultiplied
			}
		}
		w.values = s
		return w.fixed || s != nil, nil
	}
	for _, prefix := range prefixes {
		w.Ranges = append(w.Ranges, keyRange{Start: prefix, end: ope.PrefixEnd(prefix)})
	}
	return w.fixed, nil
}

// rangesOf returns the ranges of keys that begin with prefix and go on with what stands for a value
// of the set; nil is any value. They are disjoint and in the
// order of the values.
func rangesOf(ctx context.Context, c *rowcodec.Column, prefix []byte, values *predicate.Set) ([]keyRange, error) {
	var ranges []keyRange
	switch c.Encryption {
	case meta.Ordered:
		if c.Text != nil {
			for _, iv := range values.Texts(c) {
				r := keyRange{by: c, group: len(prefix) + c.Size}
				r.Start, r.end = iv.KeyRange(prefix)
				ranges = append(ranges, r)
			}
			return ranges, nil
		}
		for _, s := range values.Spans() {
			if c.Order != nil {
				d, ok := c.Scheme.Domain().Intersect(s.Lo, s.Hi)
				if !ok {
					continue
				}
				r := keyRange{Start: prefix, end: ope.PrefixEnd(prefix), by: c, within: predicate.Span{Lo: d.Min, Hi: d.Max}}
				if !c.Type.Exact() {
					r.group = len(prefix) + c.Size
				}
				ranges = append(ranges, r)
				continue
			}
			intervals, err := s.Intervals(ctx, c.Scheme)
			if err != nil {
				return nil, err
			}
			for _, iv := range intervals {
				r := keyRange{by: c, within: s}
				r.Start, r.end = iv.KeyRange(prefix)
				if c.RankSize > 0 {
					r.ranks = len(prefix) + c.RankSize
				}
				if !c.Type.Exact() {
					r.group = len(prefix) + c.Size
				}
				ranges = append(ranges, r)
			}
		}
	case meta.Deterministic:
		list, _ := values.Exactly()
		for _, v := range list {
			v, err := c.Type.Normalize(v)
			if err != nil {
				continue // no row has it
			}
			key := c.AppendToken(bytes.Clone(prefix), c.Type.Append(nil, v))
			ranges = append(ranges, keyRange{Start: key, end: ope.PrefixEnd(key)})
		}
	case meta.Plain:
		for _, i := range values.In {
			r := keyRange{Start: bytes.Clone(prefix), end: ope.PrefixEnd(prefix)}
			if n := len(ranges); n > 0 {
				r.Start = ranges[n-1].end // bounds that no row can have narrow nothing
			}
			if lo := sortable(prefix, c, i.Lo); lo != nil && i.Lo.Open {
				r.Start = latest(r.Start, ope.PrefixEnd(lo))
			} else if lo != nil {
				r.Start = latest(r.Start, lo)
			}
			if hi := sortable(prefix, c, i.Hi); hi != nil && i.Hi.Open {
				r.end = earliest(r.end, hi)
			} else if hi != nil {
				r.end = earliest(r.end, ope.PrefixEnd(hi))
			}
			if r.end == nil || bytes.Compare(r.Start, r.end) < 0 {
				ranges = append(ranges, r)
			}
		}
	}
	return ranges, nil
}

// sortable returns what a bound stands for after the prefix of row keys, or nil if it narrows nothing.
func sortable(prefix []byte, c *rowcodec.Column, b *value.Bound) []byte {
	if b == nil {
		return nil
	}
	v := b.Value
	if c.Type.Width() > 0 {
		var err error
		if v, err = c.Type.Normalize(v); err != nil {
			return nil
		}
	}
	return value.AppendSortable(bytes.Clone(prefix), c.Type, v)
}

func latest(a, b []byte) []byte {
	if bytes.Compare(a, b) < 0 {
		return b
	}
	return a
}

func earliest(a, b []byte) []byte {
	if a == nil || b != nil && bytes.Compare(b, a) < 0 {
		return b
	}
	return a
}

// Fingerprint names the query, for page tokens: queries with the same answer may share one.
func (pl *plan) Fingerprint() []byte {
	h := sha256.New()
	fmt.Fprintf(h, "%t|%d|", pl.reverse, len(pl.Ways))
	if pl.sort != nil {
		h.Write(pl.sort.Id[:])
	}
	for _, w := range pl.Ways {
		if w.driving != nil {
			h.Write(w.driving.Lead)
			if w.served() {
				h.Write(w.driving.Id[:])
			}
		}
		fmt.Fprintf(h, "|%d|", len(w.Ranges))
		for _, r := range w.Ranges {
			if r.by != nil && r.by.Stateful {
				// Its bounds may be others by the next page.
				fmt.Fprintf(h, "|%d|%d", r.within.Lo, r.within.Hi)
				continue
			}
			h.Write(rowcodec.AppendSized(rowcodec.AppendSized(nil, r.Start), r.end))
		}
	}
	h.Write(pl.tree.Print(nil))
	return h.Sum(nil)
}
