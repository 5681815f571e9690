package store

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store/driver"
)

// VerifyOptions are the optional parameters of [Table.Verify]. The zero value is the default.
type VerifyOptions struct {
	// Repair mends what can be mended without touching a row: see [Table.Verify].
	Repair bool

	// Grace is how long a posting must have pointed to nothing before Repair drops it. It must be
	// longer than any write takes from its first step to the moment at which it is done for good,
	// one that timed out and is still on its way included; it is the one assumption about time in
	// this package. Default 10 minutes.
	Grace time.Duration

	// Every encrypts the values of one row in so many again, and compares. That costs more than all
	// the rest where the scheme is slow; whether rows and postings are in order is checked of all in
	// any case. Default 1: all rows.
	Every int

	// Fault, if not nil, is called for each fault, by one goroutine at a time.
	Fault func(Fault)

	// Progress, if not nil, is called now and then with what is being done and how far it is: with
	// "index values", "rows", "postings", "orphans", "waiting" or "dropping", and the number done so
	// far, which of "waiting" is seconds. In a table with tenants that is not open for one, it begins
	// anew with each tenant.
	Progress func(step string, done int)
}

// DefaultGrace is the default of VerifyOptions.Grace.
const DefaultGrace = 10 * time.Minute

// A Fault is something that no client of this package leaves behind, wherever it dies.
type Fault struct {
	Kind   FaultKind
	Tenant string // "" in tables without
	Column string // name of the column or key part; "" where it is the row or posting as a whole

	// Place is where it is: the row key, the key of the posting or, of an index, that of the record,
	// nil where it is the index as a whole. It is as the database has it, and no value.
	Place []byte

	// Err says what is wrong. It holds no value.
	Err error

	// Repaired says that it is mended.
	Repaired bool
}

// FaultKind is a kind of fault.
type FaultKind string

// The kinds of faults.
const (
	FaultCell    FaultKind = "cell"            // of a row, which was changed, moved or sealed under another key
	FaultTorn    FaultKind = "torn row"        // a row with cells of two writes, or without one of its cells
	FaultKey     FaultKind = "key"             // a row key or ciphertext that is not of the row's value, or out of order
	FaultPosting FaultKind = "posting"         // no posting of this table
	FaultIndex   FaultKind = "index"           // an index that is not such as clients leave it
	FaultHidden  FaultKind = "missing posting" // of a row, which a query by the column does not find
	FaultUnknown FaultKind = "missing value"   // in the index of a stateful scheme, which a row has
)

// FaultKinds returns the kinds of faults.
func FaultKinds() []FaultKind {
	return []FaultKind{FaultCell, FaultTorn, FaultKey, FaultPosting, FaultIndex, FaultHidden, FaultUnknown}
}

// A Verification is what [Table.Verify] found.
type Verification struct {
	Rows     int
	Deleted  int // of a table with Conditional, that left a key cell
	Cells    int // of the rows
	Postings int
	Indexes  []VerifiedIndex

	// Dangling is the number of postings that point to no row, or to one that has another value by
	// now. They are no fault: a client that died leaves them, and one that writes makes some for a
	// moment. Each costs its space, and one read for a query that meets it.
	Dangling int

	// Dropped is how many of these Repair dropped.
	Dropped int

	// Orphans is the number of rows of tenants that were dropped, in a table that is not open for one,
	// and OrphanPostings that of their postings. They are no fault: nobody can read them any more.
	Orphans, OrphanPostings int

	// Faults is the number of faults of each kind, and Repaired how many of all were mended.
	Faults   map[FaultKind]int
	Repaired int
}

// A VerifiedIndex is what was found in the index of a column with a [MutableScheme].
type VerifiedIndex struct {
	Tenant  string // "" in tables without
	Column  string
	Values  int
	Version ope.Version // at the end
}

// Sound reports whether there is no fault that was not mended.
func (r *Verification) Sound() bool {
	n := 0
	for _, faults := range r.Faults {
		n += faults
	}
	return n == r.Repaired
}

// Verify reads a table and checks that
//
//   - every row opens: its cells are authentic and of one write
//   - its key and what its postings carry are those of its values, and are in the values' order
//   - each value of a searched column has its posting, and each posting its row
//   - each value of a column with a stateful scheme is in the index of it, and this is in order
//
// It reads only, on any database, while readers and writers go on: what looks wrong is looked at
// again, and what writers leave for a moment is no fault. What is counted is as of no single
// moment. What nobody can see is that the operator put whole rows back, or left them out.
//
// With Repair, postings that were dangling for all of the grace period are dropped, and postings
// and index values that are missing are written. No row is touched. It may be stopped at any
// moment, made again, and made by several clients at a time.
//
// Memory does not depend on the number of rows. It is 8 bytes for each distinct value of the
// columns with a [MutableScheme], which have at most about 10^6 each, and with Repair the keys of
// up to 250,000 dangling postings, beyond which it has to be called again.
//
// Of a table that is open for a tenant it reads what is stored for this one. One with tenants that is
// not is verified for all of them, one after the other; and then all of it is read once more for what
// is stored for none: rows of tenants that were dropped are counted.
//
// Faults are no error: see [Verification.Sound]. With an error, what was found so far is returned.
func (tbl *Table) Verify(ctx context.Context, opts *VerifyOptions) (*Verification, error) {
	t := tbl.now()
	if t.meta.Tenants && tbl.tenant == nil {
		return tbl.verifyTenants(ctx, opts)
	}
	return newVerifier(t, opts).run(ctx)
}

// verifier is one execution of Verify.
type verifier struct {
	table  *view
	opts   VerifyOptions
	report Verification

	// What tests change.
	guards verifyGuards
	pause  func(context.Context) error // before something is looked at again
	grace  func(context.Context) error

	schemes map[*column]ope.Scheme // clients of their own, which remember nothing from before
	indexes map[*column]*indexed
	lowest  map[*column][]byte // ciphertext of the lowest value, where the order may be rotated
	by      map[columnID]*column
	dropped map[columnID]bool // columns, whose postings point to nothing

	mu       sync.Mutex      // of the report, while faults are found by several goroutines
	told     map[string]bool // rows whose key or ciphertexts were reported, some
	dangling [][]byte
	room     int // for dangling
}

func newVerifier(t *view, opts *VerifyOptions) *verifier {
	v := &verifier{
		table: t, pause: func(ctx context.Context) error { return sleep(ctx, lookAgain) },
		told: make(map[string]bool), room: mostDangling,
	}
	if opts != nil {
		v.opts = *opts
	}
	if v.opts.Grace == 0 {
		v.opts.Grace = DefaultGrace
	}
	if v.opts.Every == 0 {
		v.opts.Every = 1
	}
	v.report.Faults = make(map[FaultKind]int)
	v.grace = v.waitGrace
	return v
}

// verifyGuards switches off what makes repairing safe, so that tests can tell that they would
// notice. The zero value has everything on.
type verifyGuards struct {
	noGrace    bool // dangling postings are dropped at once
	noReadBack bool // they are dropped without looking again
}

// An indexed column is one with a mutable scheme.
type indexed struct {
	codes []int64 // in the index, ascending
	blind bool    // it cannot be read at all
}

const (
	// mostDangling is how many dangling postings are kept to be dropped.
	mostDangling = 250_000

	// mostTold is of how many rows is remembered that they were reported, so as not to report them
	// again because they are out of order.
	mostTold = 10_000

	// lookAgain is how long after something looked wrong it is looked at again.
	lookAgain = 20 * time.Millisecond
)

func (v *verifier) run(ctx context.Context) (_ *Verification, err error) {
	t := v.table
	ctx, end := t.st.observer.operation(ctx, "verify", t.family())
	defer func() { end(v.report.Rows, err) }()
	if err = v.check(ctx); err == nil {
		err = dropDangling(ctx, v)
	}
	if err != nil {
		err = fmt.Errorf("store: verify %q: %w", t.schema.Name, t.gone(err))
	}
	return &v.report, err
}

// check reads all there is.
func (v *verifier) check(ctx context.Context) error {
	if v.opts.Grace < 0 || v.opts.Every < 0 {
		return fmt.Errorf("%w: Grace is %v and Every %d", driver.ErrRange, v.opts.Grace, v.opts.Every)
	}
	if err := v.prepare(ctx); err != nil {
		return err
	}
	// Values come before rows in an index, and rows after their postings: what is read in this order
	// is there unless it is missing.
	for _, c := range v.table.stored {
		if c.order != nil {
			if err := v.checkIndex(ctx, c); err != nil {
				return err
			}
		}
	}
	if err := v.checkRows(ctx); err != nil {
		return err
	}
	if v.table.postings == nil {
		return nil
	}
	return v.checkPostings(ctx)
}

// verifyTenants verifies what is stored for each tenant, and looks for what is stored for none.
func (tbl *Table) verifyTenants(ctx context.Context, opts *VerifyOptions) (_ *Verification, err error) {
	t := tbl.now()
	ctx, end := t.st.observer.operation(ctx, "verify", t.family())
	all := newVerifier(t, opts)
	defer func() { end(all.report.Rows, err) }()
	var some []*verifier // with postings to be dropped
	err = tbl.eachTenant(ctx, func(bound *Table) error {
		v := newVerifier(bound.now(), opts)
		v.room = all.room
		err := v.check(ctx)
		if all.room -= len(v.dangling); len(v.dangling) > 0 {
			some = append(some, v)
		} else {
			all.report.add(&v.report)
		}
		return err
	})
	if err == nil {
		err = all.strays(ctx)
	}
	if err == nil {
		err = dropDangling(ctx, some...)
	}
	for _, v := range some {
		all.report.add(&v.report)
	}
	if err != nil {
		err = fmt.Errorf("store: verify %q: %w", t.schema.Name, t.gone(err))
	}
	return &all.report, err
}

// add adds what was found of one tenant.
func (r *Verification) add(other *Verification) {
	r.Rows, r.Deleted, r.Cells = r.Rows+other.Rows, r.Deleted+other.Deleted, r.Cells+other.Cells
	r.Postings, r.Dangling, r.Dropped = r.Postings+other.Postings, r.Dangling+other.Dangling, r.Dropped+other.Dropped
	r.Indexes, r.Repaired = append(r.Indexes, other.Indexes...), r.Repaired+other.Repaired
	for kind, n := range other.Faults {
		r.Faults[kind] += n
	}
}

// strays counts rows and postings of no tenant, and finds postings of no column.
func (v *verifier) strays(ctx context.Context) (err error) {
	tbl := v.table.tbl
	known, err := tbl.pseudonyms(ctx)
	if err != nil {
		return err
	}
	var rows, postings strayCount
	err = inBatches(ctx, v.table.data, driver.Range{Cells: driver.Slice{Only: [][]byte{keyQualifier}}, AnyOrder: true}, func(batch []driver.Row) error {
		for _, row := range batch {
			rows.add(known, pseudonymAt(row.Key, 0))
		}
		v.progress("orphans", rows.n)
		return nil
	})
	if err == nil && v.table.postings != nil {
		err = inBatches(ctx, v.table.postings, driver.Range{AnyOrder: true}, func(batch []driver.Row) error {
			for _, row := range batch {
				ours, err := v.posts(ctx, row.Key)
				switch {
				case err != nil:
					return err
				case ours:
					postings.add(known, pseudonymAt(row.Key, len(columnID{})))
				default:
					v.fault(Fault{Kind: FaultPosting, Place: row.Key, Err: errFamily})
				}
			}
			v.progress("orphans", rows.n+postings.n)
			return nil
		})
	}
	if err != nil {
		return err
	}
	// Those of a tenant that was made meanwhile are no orphans.
	if known, err = tbl.pseudonyms(ctx); err != nil {
		return err
	}
	v.report.Orphans, v.report.OrphanPostings = rows.without(known), postings.without(known)
	return nil
}

// posts reports whether a posting is of a column that the table has, or had.
func (v *verifier) posts(ctx context.Context, posting []byte) (bool, error) {
	for again := false; ; again = true {
		t := v.table
		if len(posting) >= len(columnID{})+len(pseudonym{}) {
			id := columnID(posting[:len(columnID{})])
			if slices.Contains(t.meta.Dropped, id) || slices.ContainsFunc(t.stored, func(c *column) bool { return c.id == id && c.searched() }) {
				return true, nil
			}
		}
		if again {
			return false, nil
		}
		var err error // the column may be newer than what is known of the table
		if v.table, err = t.tbl.refresh(ctx); err != nil {
			return false, err
		}
	}
}

// strayCount counts keys by the pseudonyms that were unknown, most of them.
type strayCount struct {
	by map[pseudonym]int
	n  int // of all keys
}

func (s *strayCount) add(known map[pseudonym]bool, of pseudonym) {
	s.n++
	if known[of] {
		return
	}
	if s.by == nil {
		s.by = make(map[pseudonym]int)
	}
	if _, there := s.by[of]; !there && len(s.by) == mostKeyIDs {
		of = pseudonym{}
	}
	s.by[of]++
}

// without returns how many keys are not of tenants that are known by now.
func (s *strayCount) without(known map[pseudonym]bool) (n int) {
	for of, keys := range s.by {
		if !known[of] {
			n += keys
		}
	}
	return n
}

// prepare makes clients of the stateful schemes, and finds out where orders begin.
func (v *verifier) prepare(ctx context.Context) error {
	t := v.table
	v.schemes, v.indexes = make(map[*column]ope.Scheme), make(map[*column]*indexed)
	v.lowest, v.by = make(map[*column][]byte), make(map[columnID]*column)
	v.dropped = make(map[columnID]bool)
	for _, id := range t.meta.Dropped {
		v.dropped[id] = true
	}
	for _, c := range slices.Concat(t.parts, t.stored) {
		if c.searched() {
			v.by[c.id] = c
		}
		if c.encryption != ordered {
			continue
		}
		v.schemes[c] = c.scheme
		if c.stateful {
			const remembers = 4096 // the least
			scheme, err := c.newScheme(remembers)
			if err != nil {
				return fmt.Errorf("column %q: %w", c.name, err)
			}
			v.schemes[c] = scheme
		}
		if _, linear := c.scheme.(ope.Linear); !linear && c.order == nil {
			lowest, err := c.scheme.Encrypt(ctx, c.scheme.Domain().Min)
			if err != nil {
				return fmt.Errorf("column %q: %w", c.name, err)
			}
			v.lowest[c] = lowest
		}
	}
	return nil
}

func (v *verifier) progress(step string, done int) {
	if v.opts.Progress != nil {
		v.opts.Progress(step, done)
	}
}

// tenant returns the name of the tenant whose rows are verified, or "".
func (v *verifier) tenant() string {
	if of := v.table.tbl.tenant; of != nil {
		return of.name
	}
	return ""
}

// fault takes note of a fault.
func (v *verifier) fault(f Fault) {
	v.mu.Lock()
	defer v.mu.Unlock()
	f.Tenant = v.tenant()
	v.report.Faults[f.Kind]++
	if f.Kind == FaultKey && len(v.told) < mostTold {
		v.told[string(f.Place)] = true
	}
	if f.Repaired {
		v.report.Repaired++
	}
	if v.opts.Fault != nil {
		v.opts.Fault(f)
	}
}

// checkIndex reads the index of a column with a mutable scheme.
func (v *verifier) checkIndex(ctx context.Context, c *column) error {
	x := new(indexed)
	v.indexes[c] = x
	scheme := v.schemes[c].(ope.Mutable)
	entries := scheme.Range(ctx, scheme.Domain().Min, scheme.Domain().Max)
	if s, ok := scheme.(interface {
		Check(context.Context, func(record []byte, err error)) iter.Seq2[ope.Entry, error]
	}); ok {
		entries = s.Check(ctx, func(record []byte, err error) {
			v.fault(Fault{Kind: FaultIndex, Column: c.name, Place: bytes.Clone(record), Err: err})
		})
	}
	found := VerifiedIndex{Tenant: v.tenant(), Column: c.name}
	for e, err := range entries {
		if refused(err) {
			x.blind = true
			v.fault(Fault{Kind: FaultIndex, Column: c.name, Err: err})
			break
		}
		if err != nil {
			return fmt.Errorf("column %q: %w", c.name, err)
		}
		x.codes = append(x.codes, e.Plaintext)
		found.Values, found.Version = found.Values+1, e.Version
		if found.Values%fullBatch == 0 {
			v.progress("index values", found.Values)
		}
	}
	v.report.Indexes = append(v.report.Indexes, found)
	return nil
}

// refused reports whether an error is about what the database holds, and not about reaching it.
func refused(err error) bool {
	return errors.Is(err, ope.ErrIndex) || errors.Is(err, ope.ErrCiphertext) || errors.Is(err, ErrTampered) ||
		errors.Is(err, ErrWrongKey) || errors.Is(err, ErrFormat)
}

// inBatches hands what a scan yields on to do, in batches.
func inBatches(ctx context.Context, family driver.Family, r driver.Range, do func([]driver.Row) error) error {
	batch := make([]driver.Row, 0, fullBatch)
	for row, err := range family.Scan(ctx, r) {
		if err != nil {
			return err
		}
		if batch = append(batch, row); len(batch) == fullBatch {
			if err := do(batch); err != nil {
				return err
			}
			batch = batch[:0]
		}
	}
	return do(batch)
}

// under returns the range of all rows whose keys have a prefix, in any order.
func under(prefix []byte) driver.Range {
	return driver.Range{Start: prefix, End: ope.PrefixEnd(prefix), AnyOrder: true}
}

// A sequence checks that ciphertexts are in the order of codes, one after the other. Any two tell:
// all of a column are under one key.
type sequence struct {
	some bool
	code int64
	ct   []byte
}

// follows reports whether the next ciphertext is where its code is.
func (s *sequence) follows(code int64, ct, lowest []byte) bool {
	was := *s
	s.some, s.code, s.ct = true, code, ct
	// Under a rotation, ciphertexts below that of the lowest value are the upper ones.
	rotated := func(ct []byte) int {
		if bytes.Compare(ct, lowest) < 0 {
			return 1
		}
		return 0
	}
	return !was.some ||
		cmp.Compare(was.code, code) == cmp.Or(cmp.Compare(rotated(was.ct), rotated(ct)), bytes.Compare(was.ct, ct))
}

// checkRows reads all rows.
func (v *verifier) checkRows(ctx context.Context) error {
	t := v.table
	order := make(map[*column]*sequence)
	var nth atomic.Int64
	return inBatches(ctx, t.data, under(t.prefix), func(rows []driver.Row) error {
		good, deleted := make([]*record, len(rows)), v.report.Deleted
		err := t.st.each(ctx, len(rows), func(ctx context.Context, i int) (err error) {
			again := nth.Add(1)%int64(v.opts.Every) == 0
			good[i], err = v.checkRow(ctx, rows[i], again)
			return err
		})
		if err != nil {
			return err
		}
		for i, row := range rows {
			v.report.Rows++
			v.report.Cells += len(row.Cells)
			if good[i] == nil {
				continue
			}
			if c := v.outOfOrder(order, good[i]); c != nil {
				v.fault(Fault{Kind: FaultKey, Column: c.name, Place: row.Key, Err: errOrder})
			}
		}
		v.report.Rows -= v.report.Deleted - deleted
		v.progress("rows", v.report.Rows)
		return nil
	})
}

var (
	errOrder  = errors.New("the ciphertext is not in the order of the values")
	errOfKey  = errors.New("the row key is not that of the values")
	errSearch = errors.New("what the cell's posting carries is not that of the value")
	errHidden = errors.New("the posting is missing: queries by the column do not find the row")
	errValue  = errors.New("the value is missing in the column's index: queries by ranges of the column do not find the row")
	errFamily = errors.New("the table has no column of that id")
)

// checkRow checks a row as it was scanned. It returns the row if it is in order, and nil if it is
// not or is not there any more.
func (v *verifier) checkRow(ctx context.Context, row driver.Row, again bool) (*record, error) {
	t := v.table
	r, err := t.decode(row, nil, new(scratch))
	if r == nil && err == nil {
		v.mu.Lock()
		v.report.Deleted++
		v.mu.Unlock()
		return nil, nil
	}
	for look := 0; ; look++ {
		if err != nil && look > 0 {
			switch {
			case errors.Is(err, ErrTorn):
				v.fault(Fault{Kind: FaultTorn, Place: row.Key, Err: err})
				return nil, nil
			case refused(err):
				v.fault(Fault{Kind: FaultCell, Place: row.Key, Err: err})
				return nil, nil
			}
			return nil, err
		}
		var faults []Fault
		if err == nil {
			if r == nil {
				return nil, nil
			}
			if faults, err = v.faultsOf(ctx, r, again); err != nil {
				return nil, err
			}
			if len(faults) == 0 {
				return r, nil
			}
		}
		if err := v.pause(ctx); err != nil {
			return nil, err
		}
		was := r
		r, err = t.read(ctx, row.Key, nil)
		if err != nil || r == nil || was == nil || r.write != was.write {
			continue // another write: its faults are its own
		}
		if faults, err = v.faultsOf(ctx, r, again); err != nil {
			return nil, err
		}
		if len(faults) == 0 {
			return r, nil
		}
		for _, f := range faults {
			if v.opts.Repair {
				if f.Repaired, err = v.mend(ctx, r, f); err != nil {
					return nil, err
				}
			}
			v.fault(f)
		}
		return nil, nil
	}
}

// faultsOf returns what is wrong with a row that was read. The place of a missing posting is its
// key.
func (v *verifier) faultsOf(ctx context.Context, r *record, again bool) ([]Fault, error) {
	t := v.table
	var faults []Fault
	rest := bytes.TrimPrefix(r.key, t.prefix)
	for i, c := range t.parts {
		n, err := v.sizeOf(ctx, c, r.values[i])
		if err != nil {
			return nil, err
		}
		ok := n <= len(rest)
		if ok {
			if ok, err = v.agrees(ctx, c, r.values[i], rest[:n], again); err != nil {
				return nil, err
			}
			rest = rest[n:]
		}
		if !ok {
			faults = append(faults, Fault{Kind: FaultKey, Column: c.name, Place: r.key, Err: errOfKey})
			rest = nil
			break
		}
	}
	if len(rest) > 0 {
		faults = append(faults, Fault{Kind: FaultKey, Place: r.key, Err: errOfKey})
	}
	for i, c := range t.stored {
		value := r.values[len(t.parts)+i]
		if !c.searched() || value == nil || r.search[i] == nil {
			continue
		}
		ok, err := v.agrees(ctx, c, value, r.search[i], again)
		if err != nil {
			return nil, err
		}
		if !ok {
			faults = append(faults, Fault{Kind: FaultKey, Column: c.name, Place: r.key, Err: errSearch})
		}
		key := t.postingKey(r, i)
		if ok, err = exists(ctx, t.postings, key); err != nil {
			return nil, err
		}
		if !ok {
			faults = append(faults, Fault{Kind: FaultHidden, Column: c.name, Place: key, Err: errHidden})
		}
		if c.order != nil {
			if ok, err = v.inIndex(ctx, c, t.codeOf(c, r)); err != nil {
				return nil, err
			}
			if !ok {
				faults = append(faults, Fault{Kind: FaultUnknown, Column: c.name, Place: r.key, Err: errValue})
			}
		}
	}
	return faults, nil
}

func exists(ctx context.Context, family driver.Family, row []byte) (bool, error) {
	cells, err := family.Get(ctx, row, driver.Slice{Limit: 1})
	return len(cells) > 0, err
}

// sizeOf returns how many bytes a part of the row key has.
func (v *verifier) sizeOf(ctx context.Context, c *column, value any) (int, error) {
	switch {
	case c.encryption != ordered:
		b, err := c.appendSearch(ctx, nil, value)
		return len(b), err
	case !c.typ.exact():
		return c.size + tokenSize, nil
	}
	return c.size, nil
}

// agrees reports whether a part of a row key, or what a cell's posting carries, is that of the
// value. Ciphertexts, which take time, are compared only with again.
func (v *verifier) agrees(ctx context.Context, c *column, value any, search []byte, again bool) (bool, error) {
	switch {
	case c.encryption == ordered && c.order == nil && !again:
		return true, nil
	case c.stateful && c.order == nil:
		// To encrypt it could write it.
		code, err := c.typ.code(value)
		if err != nil {
			return false, err
		}
		if c.part >= 0 && !c.typ.exact() && !bytes.Equal(search[c.size:], c.appendToken(nil, c.typ.append(nil, value))) {
			return false, nil
		}
		got, err := v.schemes[c].Decrypt(ctx, bytes.Clone(search[:c.size]))
		if refused(err) {
			return false, nil
		}
		return got == code, err
	}
	want, err := c.appendSearch(ctx, nil, value)
	return bytes.Equal(want, search), err
}

// inIndex reports whether the code of a row is in the column's index. It was there before the row
// was, and does not go.
func (v *verifier) inIndex(ctx context.Context, c *column, code int64) (bool, error) {
	x := v.indexes[c]
	if _, found := slices.BinarySearch(x.codes, code); found || x.blind {
		return true, nil
	}
	for e, err := range v.schemes[c].(ope.Mutable).Range(ctx, code, code) {
		if refused(err) {
			return false, nil
		}
		return err == nil && e.Plaintext == code, err
	}
	return false, nil
}

// mend writes what is missing. A posting whose row is written anew meanwhile is left dangling.
func (v *verifier) mend(ctx context.Context, r *record, f Fault) (bool, error) {
	t := v.table
	switch f.Kind {
	case FaultHidden:
		if err := t.postings.Apply(ctx, driver.Mutation{Row: f.Place, Puts: []driver.Cell{postingCell}}); err != nil {
			return false, err
		}
		return exists(ctx, t.postings, f.Place)
	case FaultUnknown:
		c := t.byName[f.Column]
		code := t.codeOf(c, r)
		_, err := v.schemes[c].Encrypt(ctx, code)
		if refused(err) || errors.Is(err, ope.ErrFull) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		return v.inIndex(ctx, c, code)
	}
	return false, nil
}

// outOfOrder returns a key part whose ciphertext is not in order with that of the row before.
func (v *verifier) outOfOrder(order map[*column]*sequence, r *record) (wrong *column) {
	rest := bytes.TrimPrefix(r.key, v.table.prefix)
	for i, c := range v.table.parts {
		n, err := v.sizeOf(context.Background(), c, r.values[i]) // computes nothing that could block
		if err != nil || n > len(rest) {
			return c
		}
		if c.encryption == ordered {
			if order[c] == nil {
				order[c] = new(sequence)
			}
			if !order[c].follows(v.table.codeOf(c, r), rest[:c.size], v.lowest[c]) {
				wrong = c
			}
		}
		rest = rest[n:]
	}
	return wrong
}

// checkPostings reads all postings.
func (v *verifier) checkPostings(ctx context.Context) error {
	t := v.table
	order := make(map[*column]*sequence)
	var prefixes [][]byte // everything, or what the tenant has
	if t.prefix == nil {
		prefixes = [][]byte{nil}
	}
	for _, c := range t.stored {
		if t.prefix != nil && c.searched() {
			prefixes = append(prefixes, c.lead)
		}
	}
	check := func(postings []driver.Row) error {
		rows := make([]*record, len(postings))
		stale := make([]bool, len(postings))
		err := t.st.each(ctx, len(postings), func(ctx context.Context, i int) error {
			key := postings[i].Key
			if len(key) >= len(columnID{}) && v.dropped[columnID(key[:len(columnID{})])] {
				return nil
			}
			c, err := v.columnOf(key)
			if err != nil {
				v.fault(Fault{Kind: FaultPosting, Place: key, Err: err})
				return nil
			}
			r, known, err := v.rowOf(ctx, c, key)
			rows[i], stale[i] = r, known && r == nil
			return err
		})
		if err != nil {
			return err
		}
		for i, posting := range postings {
			v.report.Postings++
			if stale[i] {
				v.report.Dangling++
				if v.opts.Repair && len(v.dangling) < v.room {
					v.dangling = append(v.dangling, posting.Key)
				}
			}
			if rows[i] == nil {
				continue
			}
			c, _ := v.columnOf(posting.Key)
			if c.encryption != ordered || c.order != nil || v.told[string(rows[i].key)] {
				continue
			}
			if order[c] == nil {
				order[c] = new(sequence)
			}
			if !order[c].follows(t.codeOf(c, rows[i]), rows[i].search[c.position], v.lowest[c]) {
				v.fault(Fault{Kind: FaultKey, Column: c.name, Place: rows[i].key, Err: errOrder})
			}
		}
		v.progress("postings", v.report.Postings)
		return nil
	}
	for _, prefix := range prefixes {
		if err := inBatches(ctx, t.postings, under(prefix), check); err != nil {
			return err
		}
	}
	return nil
}

// columnOf returns the column of a posting.
func (v *verifier) columnOf(posting []byte) (*column, error) {
	var id columnID
	if copy(id[:], posting) < len(id) || v.by[id] == nil {
		return nil, errFamily
	}
	_, _, _, err := v.by[id].cutPosting(posting)
	return v.by[id], err
}

// rowOf returns the row that a posting points to, with the value of the column, or nil if none
// agrees with it. It is not known where the row cannot be read.
func (v *verifier) rowOf(ctx context.Context, c *column, posting []byte) (r *record, known bool, err error) {
	t := v.table
	search, key, write, err := c.cutPosting(posting)
	if err != nil {
		return nil, false, err
	}
	want := make([]bool, len(t.stored))
	want[c.position] = true
	r, err = t.read(ctx, key, want)
	switch {
	case refused(err), errors.Is(err, ErrTorn):
		return nil, false, nil
	case err != nil:
		return nil, false, err
	case r == nil || r.write != write || !bytes.Equal(r.search[c.position], search):
		return nil, true, nil
	}
	return r, true, nil
}

// dropDangling drops the postings that were dangling, and still are after the grace period, which
// is waited for once.
func dropDangling(ctx context.Context, all ...*verifier) error {
	waited := false
	for _, v := range all {
		if len(v.dangling) == 0 {
			continue
		}
		if !waited && !v.guards.noGrace {
			if err := v.grace(ctx); err != nil {
				return err
			}
			waited = true
		}
		if err := v.drop(ctx); err != nil {
			return err
		}
	}
	return nil
}

// drop drops the postings that were dangling, and still are. A posting is named by a write, and a
// write makes its row but once: what is not there after the grace period never will be, unless the
// write took longer than the period. As much of that as can be seen is: the row is looked for right
// before a posting is dropped, and right behind, and then it is put back.
func (v *verifier) drop(ctx context.Context) error {
	t := v.table
	for chunk := range slices.Chunk(v.dangling, fullBatch) {
		stale, err := v.stillDangling(ctx, chunk)
		if err != nil {
			return err
		}
		drops := make([][]byte, 0, len(chunk))
		for i, key := range chunk {
			if stale[i] {
				drops = append(drops, key)
			}
		}
		if err := t.unpost(ctx, drops); err != nil {
			return err
		}
		v.report.Dropped += len(drops)
		dropped := stale
		if stale, err = v.stillDangling(ctx, chunk); err != nil {
			return err
		}
		for i, key := range chunk {
			if dropped[i] && !stale[i] {
				if err := t.post(ctx, [][]byte{key}); err != nil {
					return err
				}
				v.report.Dropped--
			}
		}
		v.progress("dropping", v.report.Dropped)
	}
	return nil
}

func (v *verifier) waitGrace(ctx context.Context) error {
	begin := time.Now()
	for left := v.opts.Grace; left > 0; left = v.opts.Grace - time.Since(begin) {
		v.progress("waiting", int(time.Since(begin).Seconds()))
		if err := sleep(ctx, min(left, time.Second)); err != nil {
			return err
		}
	}
	return nil
}

// stillDangling reports of each posting whether it is known that no row agrees with it.
func (v *verifier) stillDangling(ctx context.Context, postings [][]byte) ([]bool, error) {
	stale := make([]bool, len(postings))
	err := v.table.st.each(ctx, len(postings), func(ctx context.Context, i int) error {
		if v.guards.noReadBack {
			stale[i] = true
			return nil
		}
		c, err := v.columnOf(postings[i])
		if err != nil {
			return err
		}
		r, known, err := v.rowOf(ctx, c, postings[i])
		stale[i] = known && r == nil
		return err
	})
	return stale, err
}

// sleep waits.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ended(ctx)
	case <-timer.C:
		return nil
	}
}
