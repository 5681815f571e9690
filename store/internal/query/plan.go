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
	"github.com/rangecrypt/rangecrypt/store/internal/forms"
	"github.com/rangecrypt/rangecrypt/store/internal/meta"
	"github.com/rangecrypt/rangecrypt/store/internal/predicate"
	"github.com/rangecrypt/rangecrypt/store/internal/ranges"
	"github.com/rangecrypt/rangecrypt/store/internal/rowcodec"
	"github.com/rangecrypt/rangecrypt/store/internal/unproven"
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
	unproven    bool     // plain columns are read, and nothing is opened
	unconverted []string // columns of the predicate that would drive, were all rows converted

	one [1]way
}

// A way is ranges of keys to scan, of the rows themselves or of one column's postings. Every row found is checked.
type way struct {
	driving  *rowcodec.Column   // whose postings or server index are scanned; nil where rows are
	forms    []*rowcodec.Column // of it, where rows may have several: whose postings are scanned, in this order
	merged   bool               // the rows of all forms come in one order
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

// keyRange is a range of keys, and where a scan of it begins.
type keyRange struct {
	ranges.Range
	resume   *Position // with a mutable scheme: to go on after, or nil
	after    []byte    // a row key: in no order, to go on after; or nil
	allForms bool      // it stands for the ranges of all forms
}

// maxWays limits how many branches of Or are ways of their own.
const maxWays = 100

// A planner chooses ways.
type planner struct {
	ctx         context.Context
	t           *rowcodec.View
	by          *rowcodec.Column // that the query names; nil lets the planner choose
	need        []bool           // columns to return, and those of conditions; nil is all
	without     []meta.ColumnID  // columns that drive nothing, by their first ids
	unproven    bool
	unconverted []string
}

// forms returns the forms of a column that may drive the query.
func (p *planner) forms(c *rowcodec.Column) []*rowcodec.Column {
	if slices.Contains(p.without, forms.Origin(c)) {
		return nil
	}
	return forms.Of(c)
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
// A column whose encryption was changed drives queries by its postings of before and after. Where there were none before, or
// they do not lead to what is asked for, it drives no query until all rows were converted.
//
// A column that the query names comes first. The planner counts no rows: the way gives the rows their order, which must not
// change when other rows are written. And to count them would take requests.
func NewPlan(ctx context.Context, t *rowcodec.View, q Selection) (*plan, error) {
	pl := &plan{reverse: q.Reverse, unproven: q.Unauthenticated}
	var err error
	if pl.tree, err = predicate.New(t, q.Where); err != nil {
		return nil, err
	}
	if pl.want, err = q.wanted(t, &pl.tree); err != nil {
		return nil, err
	}
	p := planner{ctx: ctx, t: t, need: slices.Clone(pl.want), without: q.without, unproven: q.Unauthenticated}
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
	pl.unconverted = slices.Sorted(slices.Values(p.unconverted))
	for i := range pl.Ways {
		pl.Ways[i].reverse = q.Reverse && pl.sort == nil && !(q.OrderBy != "" && i > 0) // what comes after is null
	}
	if len(pl.instead) > 0 {
		pl.instead[0].reverse = q.Reverse
	}
	if pl.sort == nil && (q.Reverse || q.OrderBy != "" || q.Paged || q.PageToken != "") { // also rows without the value of OrderBy
		for i := range pl.Ways {
			pl.Ways[i].merged = true
		}
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

// wanted returns the columns that the query returns, by position; nil is all.
func (q *Selection) wanted(t *rowcodec.View, where *predicate.Tree) ([]bool, error) {
	switch {
	case q.Unauthenticated:
		return unproven.Want(t, unproven.Query{Columns: q.Columns, Among: q.Among, Where: where, OrderBy: q.OrderBy, By: q.By})
	case q.Columns == nil:
		return t.Want(q.Among)
	}
	return t.Want(q.Columns)
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
	case p.held(c, s):
		p.unconverted = append(p.unconverted, name)
		return nil
	case none:
		return nil
	case s == nil:
		reason = fmt.Sprintf("column %q is not restricted, or not in each branch of an Or", name)
	case !p.drives(s):
		reason = predicate.Lacks(p.t, c, s)
	}
	if reason != "" {
		return fmt.Errorf("%w: By names no column that can drive the query: %s", fault.ErrColumn, reason)
	}
	p.by = c
	return nil
}

// drives reports whether the postings of the column lead to all rows of a set, in each form that these may have.
func (p *planner) drives(s *predicate.Set) bool {
	all := p.forms(s.Column)
	if all == nil || !s.Leads() {
		return false
	}
	_, exactly := s.Exactly()
	return exactly || ordered(all)
}

// ordered reports whether the postings of some forms have the order of the values.
func ordered(all []*rowcodec.Column) bool {
	return len(all) > 0 && !slices.ContainsFunc(all, func(c *rowcodec.Column) bool { return c.Encryption != meta.Ordered })
}

// held reports whether a column would lead to the rows of a set, which may be nil, were it not for rows that are yet to be
// converted, or an index that is being made again.
func (p *planner) held(c *rowcodec.Column, s *predicate.Set) bool {
	return c.Searched() && (p.forms(c) == nil || s != nil && s.Leads() && c.Encryption == meta.Ordered && !p.drives(s))
}

// ways appends the ways to the rows of a predicate.
func (p *planner) ways(tree *predicate.Tree, to []way) ([]way, error) {
	if ss, _ := tree.Implied(); p.by != nil && ss.Of(p.by) != nil {
		w, err := p.byColumn(tree, ss.Of(p.by))
		return append(to, w), err
	}
	w, err := p.single(tree)
	if err != nil {
		return nil, err
	}
	const few = 16
	if w.whole || len(w.Ranges) > few {
		several, failed := p.union(tree)
		if failed != nil {
			return nil, failed
		}
		n := 0
		for _, s := range several {
			n += len(s.Ranges)
		}
		if len(several) > 0 && (w.whole || n < len(w.Ranges)) {
			return append(to, several...), nil
		}
	}
	return append(to, w), nil
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
	restricted, many, err := w.byRows(p, ss)
	if err != nil || restricted && !many {
		return w, err
	}
	var best *predicate.Set
	for i := range ss {
		s := &ss[i]
		if !s.Column.Searched() || !s.Leads() {
			continue
		}
		switch {
		case p.held(s.Column, s):
			if !slices.Contains(p.unconverted, s.Column.Name) {
				p.unconverted = append(p.unconverted, s.Column.Name)
			}
		case !p.drives(s):
		case s.Column.Encryption == meta.Deterministic:
			best = s
		case best == nil || best.Column.Encryption == meta.Ordered && p.cost(s) < p.cost(best):
			best = s
		}
	}
	switch {
	case many && (best == nil || !best.Fewer(len(w.Ranges))):
	case best != nil:
		return p.byColumn(tree, best)
	case p.t.Parts[0].Encryption != meta.Ordered:
		w.anyOrder = true
		w.Ranges = []keyRange{{Range: ranges.Range{Start: p.t.Prefix, End: ope.PrefixEnd(p.t.Prefix)}}}
		fallthrough
	default:
		w.whole = true
	}
	return w, err
}

// byColumn returns the way by the postings or the server index of a column.
func (p *planner) byColumn(tree *predicate.Tree, s *predicate.Set) (w way, err error) {
	w = way{tree: tree}
	_, w.fixed = s.Exactly()
	err = w.drivenBy(p.ctx, s.Column, s)
	if w.anyOrder = w.served(); w.anyOrder {
		for i := range w.Ranges {
			w.Ranges[i].Group, w.Ranges[i].Ranks = 0, 0
		}
	}
	return w, err
}

// drivenBy lets a column drive the way, in all forms that rows may have of it.
func (w *way) drivenBy(ctx context.Context, c *rowcodec.Column, s *predicate.Set) error {
	w.driving, w.values = c, s
	all := forms.Of(c)
	if len(all) > 1 {
		w.forms = all
	}
	for _, form := range all {
		more, err := rangesOf(ctx, form, form.Lead, s)
		if err != nil {
			return err
		}
		w.Ranges = append(w.Ranges, more...)
	}
	return nil
}

// form returns the form whose posting a key is of.
func (w *way) form(key []byte) *rowcodec.Column {
	for _, c := range w.forms {
		if bytes.HasPrefix(key, c.Lead) {
			return c
		}
	}
	return w.driving
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
		switch {
		case err != nil:
			return nil, err
		case w.driving != nil:
			if groups[w.driving] = append(groups[w.driving], b); len(groups[w.driving]) == 1 {
				at[w.driving] = len(ways)
				ways = append(ways, w)
			}
			continue
		case !w.whole:
			ways = append(ways, w)
		default:
			more, err := p.union(&with)
			if err != nil || len(more) == 0 {
				return nil, err
			}
			ways = append(ways, more...)
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

// byRows sets the ranges of row keys and reports whether the predicate restricts them, and whether they are many.
func (w *way) byRows(p *planner, ss predicate.Sets) (restricted, many bool, err error) {
	// Rows have no order by what is not opened.
	rows, err := ranges.OfRows(p.ctx, p.t, ss, func(c *rowcodec.Column) bool { return !p.unproven || unproven.Legible(p.t, c) })
	w.sortedBy, w.fixed, w.values, w.Ranges = rows.SortedBy, rows.Fixed > 0, rows.Values, keyRanges(rows.Ranges)
	if err == nil && p.unproven {
		err = unproven.Told(p.t, ss, rows.Fixed)
	}
	return rows.Restricted, rows.Many(), err
}

// rangesOf returns the ranges of keys that begin with prefix and go on with what stands for a value of the set.
func rangesOf(ctx context.Context, c *rowcodec.Column, prefix []byte, values *predicate.Set) ([]keyRange, error) {
	of, err := ranges.Of(ctx, c, prefix, values)
	if err != nil {
		return nil, indexError(c, err)
	}
	return keyRanges(of), nil
}

func keyRanges(of []ranges.Range) []keyRange {
	all := make([]keyRange, len(of))
	for i, r := range of {
		all[i].Range = r
	}
	return all
}

// Fingerprint names the query, for page tokens: queries with the same answer may share one.
func (pl *plan) Fingerprint() []byte {
	h := sha256.New()
	fmt.Fprintf(h, "%t|%d|", pl.reverse, len(pl.Ways))
	if pl.unproven {
		h.Write([]byte("unproven|"))
	}
	if pl.sort != nil {
		id := forms.Origin(pl.sort)
		h.Write(id[:])
	}
	for _, w := range pl.Ways {
		if w.driving != nil {
			// The predicate says what it scans, however the column is encrypted by the next page.
			id := forms.Origin(w.driving)
			fmt.Fprintf(h, "|%s|%t", id, w.served())
			continue
		}
		fmt.Fprintf(h, "|%d|", len(w.Ranges))
		for _, r := range w.Ranges {
			if r.By != nil && r.By.Stateful {
				// Its bounds may be others by the next page.
				fmt.Fprintf(h, "|%d|%d", r.Within.Lo, r.Within.Hi)
				continue
			}
			h.Write(value.AppendSized(value.AppendSized(nil, r.Start), r.End))
		}
	}
	h.Write(pl.tree.Print(nil))
	return h.Sum(nil)
}
