package maintain

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/kerschbaum"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/inspect"
	"github.com/rangecrypt/rangecrypt/store/internal/chunks"
	"github.com/rangecrypt/rangecrypt/store/internal/engine"
	"github.com/rangecrypt/rangecrypt/store/internal/fault"
	"github.com/rangecrypt/rangecrypt/store/internal/forms"
	"github.com/rangecrypt/rangecrypt/store/internal/meta"
	"github.com/rangecrypt/rangecrypt/store/internal/pseudonym"
	"github.com/rangecrypt/rangecrypt/store/internal/recopy"
	"github.com/rangecrypt/rangecrypt/store/internal/rowcodec"
)

// A sequence checks that ciphertexts are in the order of values, one after the other. Any two tell:
// all of a column are under one key.
type sequence struct {
	value any // nil at first
	ct    []byte
}

// follows reports whether the next ciphertext is where its value is.
func (s *sequence) follows(c *rowcodec.Column, v any, ct, lowest []byte) bool {
	if n := c.RankSize; n > 0 {
		if ct = ct[:n]; s.value != nil && ct[n-1] != 0 && bytes.Equal(ct, s.ct) {
			return true // both share a rank
		}
	}
	was := *s
	s.value, s.ct = v, ct
	// Under a rotation, ciphertexts below that of the lowest value are the upper ones.
	rotated := func(ct []byte) int {
		if bytes.Compare(ct, lowest) < 0 {
			return 1
		}
		return 0
	}
	return was.value == nil ||
		c.Type.ComparePlaces(was.value, v) == cmp.Or(cmp.Compare(rotated(was.ct), rotated(ct)), bytes.Compare(was.ct, ct))
}

// A rowCheck is what was found of a row.
type rowCheck struct {
	r       *rowcodec.Record // as it was read last, nil if that could not be or it is gone
	deleted bool
	expired bool
	faults  []inspect.Fault
}

// checkRows reads all rows.
func (v *Verifier) checkRows(ctx context.Context) error {
	t := v.table
	order := make(map[*rowcodec.Column]*sequence)
	read := v.part % v.opts.Every // since parts may have few rows
	all := t.Rows(v.part, v.parts)
	all.Cells.Indexes = t.IndexNames()
	return chunks.InBatches(ctx, t.Data, all, func(rows []driver.Row) error {
		var found []rowCheck
		look := func() (wrong bool, err error) {
			if err := v.readIndexes(ctx); err != nil {
				return false, err
			}
			found = make([]rowCheck, len(rows))
			err = t.Env.Concurrently(ctx, len(rows), func(ctx context.Context, i int) (err error) {
				if found[i], err = v.checkRow(ctx, rows[i], (read+i+1)%v.opts.Every == 0); err == nil {
					err = v.checkIndexed(ctx, rows[i], &found[i])
				}
				return err
			})
			for i := range found {
				one := &found[i]
				if err == nil && one.r != nil && len(one.faults) == 0 {
					if c := v.outOfOrder(order, one.r); c != nil {
						one.faults = []inspect.Fault{{Kind: inspect.FaultKey, Column: c.Name, Place: one.r.Key, Err: errOrder}}
					}
				}
				wrong = wrong || len(one.faults) > 0
			}
			return wrong, err
		}
		var mend func() error
		if v.opts.Repair {
			mend = func() error { return v.mendRows(ctx, found) }
		}
		if err := v.steady(ctx, look, mend); err != nil {
			return err
		}
		read += len(rows)
		for i, one := range found {
			v.report.Cells += recopy.Filled(rows[i].Cells)
			switch {
			case one.expired:
				v.report.Expired++
			case one.deleted:
				v.report.Deleted++
			default:
				v.report.Rows++
			}
			for _, f := range one.faults {
				v.fault(f)
			}
		}
		v.progress("rows", v.report.Rows)
		return nil
	})
}

var (
	errOrder   = errors.New("the ciphertext is not in the order of the values")
	errOfKey   = errors.New("the row key is not that of the values")
	errSearch  = errors.New("what the cell's posting carries is not that of the value")
	errHidden  = errors.New("the posting is missing: queries by the column do not find the row")
	errEarlier = errors.New("the row is stored as an earlier schema has it, and lacks a posting, or a value in the index of then: queries by the column do not find the row")
	errUnled   = errors.New("the index of the database has another value, or none: queries by the column do not find the row")
	errValue   = errors.New("the value is missing in the column's index: queries by ranges of the column do not find the row")
	errPair    = errors.New("the ciphertext is missing in the column's index: ranges and keys do not find the row")
	errGone    = errors.New("the index is gone: it has nothing of what rows have")
	errFilling = errors.New("the index is being made again, which is not finished")
	errFamily  = errors.New("the table has no column of that id")
	errContent = errors.New("the posting has content that no client gives it")
)

// checkRow checks a row as it was scanned and, where that looks wrong, as it is.
func (v *Verifier) checkRow(ctx context.Context, row driver.Row, again bool) (rowCheck, error) {
	t := v.table
	r, err := t.Decode(row, nil, new(rowcodec.Scratch))
	if r == nil && err == nil {
		expired := t.View.Expired(row, new(rowcodec.Scratch))
		return rowCheck{deleted: !expired, expired: expired}, nil
	}
	for look := 0; ; look++ {
		if err != nil && look > 0 {
			switch {
			case errors.Is(err, fault.ErrTorn):
				r, _ = mending(t).Read(ctx, row.Key, nil) // or it cannot be mended
				return rowCheck{r: r, faults: []inspect.Fault{{Kind: inspect.FaultTorn, Place: row.Key, Err: err}}}, nil
			case fault.Refused(err):
				return rowCheck{faults: []inspect.Fault{{Kind: inspect.FaultCell, Place: row.Key, Err: err}}}, nil
			}
			return rowCheck{}, err
		}
		var faults []inspect.Fault
		if err == nil {
			if r == nil {
				return rowCheck{expired: t.Meta.Expires()}, nil
			}
			if faults, err = v.faultsOf(ctx, r, again); err != nil || len(faults) == 0 {
				return rowCheck{r: r}, err
			}
		}
		if err := v.Pause(ctx); err != nil {
			return rowCheck{}, err
		}
		was := r
		r, err = t.Read(ctx, row.Key, nil)
		if err != nil || r == nil || was == nil || r.Write != was.Write {
			continue // another write: its faults are its own
		}
		if faults, err = v.faultsOf(ctx, r, again); err != nil {
			return rowCheck{}, err
		}
		if len(faults) > 0 { // who replaces the row meanwhile takes its postings away
			if now, failed := t.Read(ctx, row.Key, nil); failed != nil || now == nil || now.Write != r.Write {
				r, err = now, failed
				continue
			}
		}
		// What gives the row another key comes last.
		slices.SortStableFunc(faults, func(a, b inspect.Fault) int { return cmp.Compare(v.partOf(a), v.partOf(b)) })
		return rowCheck{r: r, faults: faults}, nil
	}
}

// checkIndexed adds what is wrong with a row that was scanned, in indexes of the database, if it is so when it is read again.
func (v *Verifier) checkIndexed(ctx context.Context, row driver.Row, one *rowCheck) error {
	t, s := v.table, new(rowcodec.Scratch)
	if one.r == nil || len(t.IndexNames()) == 0 {
		return nil
	}
	wrong, err := t.Misplaced(ctx, row, nil, s)
	if err == nil && len(wrong) == 0 {
		return nil
	}
	if err := v.Pause(ctx); err != nil {
		return err
	}
	if row.Cells, err = t.Data.Get(ctx, row.Key, t.IndexSlice()); err != nil {
		return err
	}
	if wrong, err = t.Misplaced(ctx, row, nil, s); err != nil {
		return nil // it was written again, or checkRow has said so
	}
	for _, c := range wrong {
		one.faults = append(one.faults, inspect.Fault{Kind: inspect.FaultHidden, Column: c.Name, Place: row.Key, Err: errUnled})
	}
	return nil
}

// faultsOf returns what is wrong with a row that was read. The place of a missing posting is its
// key.
func (v *Verifier) faultsOf(ctx context.Context, r *rowcodec.Record, again bool) ([]inspect.Fault, error) {
	t := v.table
	var faults []inspect.Fault
	rest := bytes.TrimPrefix(r.Key, t.Prefix)
	for i, c := range t.Parts {
		n := c.SearchSize(r.Values[i])
		ok := n <= len(rest)
		if ok {
			var err error
			if ok, err = v.agrees(ctx, c, r.Values[i], rest[:n], again); errors.Is(err, errPair) {
				faults = append(faults, inspect.Fault{Kind: inspect.FaultUnknown, Column: c.Name, Place: r.Key, Err: errPair})
			} else if err != nil {
				return nil, err
			}
			ok = ok || err != nil
			rest = rest[n:]
		}
		if !ok {
			faults = append(faults, inspect.Fault{Kind: inspect.FaultKey, Column: c.Name, Place: r.Key, Err: errOfKey})
			rest = nil
			break
		}
	}
	if len(rest) > 0 {
		faults = append(faults, inspect.Fault{Kind: inspect.FaultKey, Place: r.Key, Err: errOfKey})
	}
	for i, c := range t.Stored {
		value := r.Values[len(t.Parts)+i]
		earlier := c.Of != nil && c.Stateful // of which hidden looks into the index
		if !c.Searched() || value == nil || r.Search[i] == nil || earlier && c.Order == nil {
			continue
		}
		ok, err := v.agrees(ctx, c, value, r.Search[i], again)
		if errors.Is(err, errPair) {
			faults = append(faults, inspect.Fault{Kind: inspect.FaultUnknown, Column: c.Name, Place: r.Key, Err: errPair})
		} else if err != nil {
			return nil, err
		} else if !ok {
			faults = append(faults, inspect.Fault{Kind: inspect.FaultKey, Column: c.Name, Place: r.Key, Err: errSearch})
		}
		if c.Posted() && c.Order != nil && v.indexes[c] != nil && !earlier {
			if ok, err = v.inIndex(ctx, c, t.CodeOf(c, r)); err != nil {
				return nil, err
			}
			if !ok {
				faults = append(faults, inspect.Fault{Kind: inspect.FaultUnknown, Column: c.Name, Place: r.Key, Err: errValue})
			}
		}
	}
	for _, c := range t.Columns {
		fault, err := v.hidden(ctx, c, r)
		if err != nil {
			return nil, err
		}
		if fault != nil {
			faults = append(faults, *fault)
		}
	}
	return faults, nil
}

// hidden returns what is wrong if queries by a column that find rows by postings do not find a row.
func (v *Verifier) hidden(ctx context.Context, c *rowcodec.Column, r *rowcodec.Record) (*inspect.Fault, error) {
	t, value := v.table, v.table.ValueOf(c, r)
	if !c.Posted() || value == nil || c.Type.Unordered(value) {
		return nil, nil
	}
	if r.Search[c.Position] != nil {
		key := t.PostingKey(r, c.Position)
		led, err := chunks.Exists(ctx, t.Postings, key)
		if err != nil || led {
			return nil, err
		}
		return &inspect.Fault{Kind: inspect.FaultHidden, Column: c.Name, Place: key, Err: errHidden}, nil
	}
	// It is stored as an earlier schema has it.
	for _, form := range forms.Of(c) {
		if r.Search[form.Position] == nil {
			continue
		}
		led, err := chunks.Exists(ctx, t.Postings, t.PostingKey(r, form.Position))
		if err == nil && led {
			led, err = v.rangesFind(ctx, form, r, value)
		}
		if err != nil || led {
			return nil, err
		}
	}
	if led, err := v.leadsNow(ctx, c, r, value); err != nil || led {
		return nil, err
	}
	return &inspect.Fault{Kind: inspect.FaultHidden, Column: c.Name, Place: r.Key, Err: errEarlier}, nil
}

// rangesFind reports whether the index of an earlier form has the value of a row that is stored so, as ranges read it there.
func (v *Verifier) rangesFind(ctx context.Context, form *rowcodec.Column, r *rowcodec.Record, value any) (bool, error) {
	switch x := v.indexes[form]; {
	case x == nil || x.bad(): // it has none, or queries do without what is damaged
		return true, nil
	case form.Order != nil:
		return v.inIndex(ctx, form, v.table.CodeOf(form, r))
	}
	has, err := v.agrees(ctx, form, value, r.Search[form.Position], true)
	if errors.Is(err, errPair) {
		return false, nil
	}
	return has, err
}

// leadsNow reports whether queries by a column find a row that is stored as the column was earlier by the posting of now: a
// conversion to the earlier schema, or a write under it, may have won over the later one. Or the column drives no query yet.
func (v *Verifier) leadsNow(ctx context.Context, now *rowcodec.Column, r *rowcodec.Record, value any) (bool, error) {
	if !forms.Drive(now) {
		return true, nil
	}
	if now.Stateful {
		code, err := now.Type.Code(value)
		if err != nil {
			return false, err
		}
		x := v.indexes[now]
		if x == nil || x.bad() {
			return true, nil // which is told of the index
		}
		if _, found := slices.BinarySearch(x.codes, code); !found {
			return false, nil // and to encrypt it would write it
		}
	}
	search, err := now.AppendSearch(ctx, nil, value)
	if err != nil {
		return false, err
	}
	return chunks.Exists(ctx, v.table.Postings, slices.Concat(now.Lead, search, r.Key, r.Write[:]))
}

// agrees reports whether a part of a row key, or what a cell's posting carries, is that of the
// value. Ciphertexts, which take time, are compared only with again.
func (v *Verifier) agrees(ctx context.Context, c *rowcodec.Column, value any, search []byte, again bool) (bool, error) {
	switch {
	case c.Encryption == meta.Ordered && c.Order == nil && !again:
		return true, nil
	case c.Stateful && c.Order == nil:
		// To encrypt it could write it.
		code, err := c.Type.Code(value)
		if err != nil {
			return false, err
		}
		if c.Part >= 0 && !c.Type.Exact() && !bytes.Equal(search[c.Size:], c.AppendToken(nil, c.Type.Append(nil, value))) {
			return false, nil
		}
		x := v.indexes[c]
		if x == nil {
			return true, nil // a former column, which is not searched
		}
		at, found := slices.BinarySearch(x.codes, code)
		if n := c.RankSize; found && n > 0 && !bytes.Equal(search[:n], x.ranks[at*n:][:n]) {
			return false, nil
		}
		got, err := v.decrypt(ctx, c, bytes.Clone(search[:c.Size]), found)
		switch {
		case fault.Refused(err) && x.bad():
			return true, nil
		case fault.Refused(err) && !found:
			return false, errPair
		case fault.Refused(err):
			return false, nil
		}
		return got == code, err
	}
	want, err := c.AppendSearch(ctx, nil, value)
	return bytes.Equal(want, search), err
}

// decrypt returns the code of a ciphertext. Where its rank was found in the index, it need not be looked up there again.
func (v *Verifier) decrypt(ctx context.Context, c *rowcodec.Column, ct ope.Ciphertext, found bool) (int64, error) {
	if ranked, ok := v.schemes[c].(*kerschbaum.Ranked); ok && found {
		return ranked.Parse(ct)
	}
	return v.schemes[c].Decrypt(ctx, ct)
}

// partOf returns the position of the key part that a fault is about, or -1.
func (v *Verifier) partOf(f inspect.Fault) int {
	if c := v.table.ByName[f.Column]; c != nil {
		return c.Part
	}
	return -1
}

// outOfOrder returns a key part whose ciphertext is not in order with that of the row before.
func (v *Verifier) outOfOrder(order map[*rowcodec.Column]*sequence, r *rowcodec.Record) (wrong *rowcodec.Column) {
	rest := bytes.TrimPrefix(r.Key, v.table.Prefix)
	for i, c := range v.table.Parts {
		n := c.SearchSize(r.Values[i])
		if n > len(rest) {
			return c
		}
		if c.Encryption == meta.Ordered {
			if order[c] == nil {
				order[c] = new(sequence)
			}
			if !order[c].follows(c, r.Values[i], rest[:c.Size], v.lowest[c]) {
				wrong = c
			}
		}
		rest = rest[n:]
	}
	return wrong
}

// checkPostings reads all postings: everything, or what the tenant has of each column. The part of a table has a share of each column,
// since most databases keep the postings of one together, and of what lies between columns.
func (v *Verifier) checkPostings(ctx context.Context) error {
	if v.table.Postings == nil {
		return nil
	}
	order := make(map[*rowcodec.Column]*sequence)
	check := func(r driver.Range) error {
		if r.Empty() {
			return nil
		}
		return chunks.InBatches(ctx, v.table.Postings, r, func(postings []driver.Row) error { return v.checkPostingBatch(ctx, postings, order) })
	}
	if v.table.Prefix == nil && v.parts == 1 {
		return check(v.postingsUnder(nil))
	}
	var leads [][]byte
	if v.table.Meta.AppendOnly() {
		leads = append(leads, v.table.DeletionLead())
		if err := check(v.share(v.table.DeletionLead())); err != nil {
			return err
		}
	}
	for done := make(map[meta.ColumnID]bool); ; {
		i := slices.IndexFunc(v.table.Stored, func(c *rowcodec.Column) bool { return c.Posted() && !done[c.Id] })
		if i < 0 {
			break
		}
		c := v.table.Stored[i]
		done[c.Id] = true
		leads = append(leads, c.Lead)
		if err := check(v.share(c.Lead)); err != nil {
			return err
		}
	}
	if v.table.Prefix != nil {
		return nil
	}
	// What remains are postings of columns that were dropped, or of none.
	slices.SortFunc(leads, bytes.Compare)
	rest := v.postingsUnder(nil)
	rest.Part, rest.Parts = v.part, v.parts
	for _, lead := range leads {
		before := rest
		before.End = lead
		if err := check(before); err != nil {
			return err
		}
		if rest.Start = ope.PrefixEnd(lead); rest.Start == nil {
			return nil
		}
	}
	return check(rest)
}

// share returns the share of the part in a range of postings, in their order: then Cassandra need not read all partitions to
// find those of one column.
func (v *Verifier) share(lead []byte) driver.Range {
	r := v.postingsUnder(lead)
	if v.parts > 1 {
		r.Part, r.Parts = v.part, v.parts
		r = r.Share()
		r.AnyOrder = false
	}
	return r
}

// postingsUnder returns the range of postings, with what their repair has to know.
func (v *Verifier) postingsUnder(prefix []byte) driver.Range {
	r := chunks.Under(prefix)
	r.Cells.Stamps = v.opts.Repair && v.table.Meta.Copies()
	return r
}

// A postingCheck is what was found of a posting.
type postingCheck struct {
	r        *rowcodec.Record // that it points to
	stale    bool
	unknown  bool // its column: the table has it no more
	uncopied bool // though its column covers, and there is a row
	fault    *inspect.Fault
}

func (v *Verifier) checkPostingBatch(ctx context.Context, postings []driver.Row, order map[*rowcodec.Column]*sequence) error {
	var found []postingCheck
	look := func() (wrong bool, err error) {
		if err := v.readIndexes(ctx); err != nil {
			return false, err
		}
		found = make([]postingCheck, len(postings))
		err = v.table.Env.Concurrently(ctx, len(postings), func(ctx context.Context, i int) (err error) {
			found[i], err = v.checkPosting(ctx, postings[i])
			return err
		})
		if err != nil {
			return false, err
		}
		told := make(map[string]bool)
		for i := range found {
			if r := found[i].r; r != nil && found[i].fault == nil && !v.told[string(r.Key)] && !told[string(r.Key)] {
				c, _ := v.columnOf(postings[i].Key)
				found[i].fault = v.postingOutOfOrder(order, c, r)
				told[string(r.Key)] = found[i].fault != nil
			}
			wrong = wrong || found[i].fault != nil || found[i].unknown
		}
		return wrong, nil
	}
	if err := v.steady(ctx, look, nil); err != nil {
		return err
	}
	if v.opts.Repair {
		if err := cmp.Or(v.mendContents(ctx, postings, found), v.mendCopies(ctx, postings, found)); err != nil {
			return err
		}
	}
	for i, one := range found {
		v.report.Postings++
		if one.uncopied {
			v.report.Uncopied++
		}
		if one.unknown {
			v.report.Unknown++
		}
		if one.stale {
			v.report.Dangling++
			if v.opts.Repair && len(v.dangling) < v.room && !v.keeps(one) {
				if err := v.noteDangling(ctx, postings[i], one); err != nil {
					return err
				}
			}
		}
		if one.fault != nil {
			v.fault(*one.fault)
		}
	}
	v.progress("postings", v.report.Postings)
	return nil
}

// noteDangling takes note of a posting that leads to no row, to drop it after the grace period.
func (v *Verifier) noteDangling(ctx context.Context, posting driver.Row, one postingCheck) (err error) {
	cells := posting.Cells
	switch {
	case !v.table.Meta.AppendOnly():
		cells = nil
	case one.fault != nil && one.fault.Repaired: // by this repair, which does not take that for another's
		if cells, err = v.table.Postings.Get(ctx, posting.Key, driver.Slice{Stamps: true}); err != nil || len(cells) == 0 {
			return err
		}
	}
	v.dangling = append(v.dangling, driver.Row{Key: posting.Key, Cells: cells})
	return nil
}

// checkPosting looks for the column of a posting, and for its row.
func (v *Verifier) checkPosting(ctx context.Context, posting driver.Row) (one postingCheck, err error) {
	key := posting.Key
	if len(key) >= len(meta.ColumnID{}) && v.dropped[meta.ColumnID(key[:len(meta.ColumnID{})])] {
		return one, nil
	}
	if row, is := v.table.CutDeletion(key); is {
		there, err := chunks.Exists(ctx, v.table.Data, row)
		one.stale = !there
		return one, err
	}
	c, wrong := v.columnOf(key)
	if wrong == nil {
		var known bool
		one.r, known, err = v.rowOf(ctx, c, key)
		one.stale = known && one.r == nil
		if one.stale && err == nil {
			// That of a row that has expired goes by itself.
			_, row, write, _ := c.CutPosting(key)
			var over bool
			over, err = expired(ctx, v.table, row, write)
			one.stale = !over
		}
		if err == nil && one.r != nil && !recopy.Fits(v.table, c, posting.Cells) {
			one.fault = &inspect.Fault{Kind: inspect.FaultPosting, Column: c.Name, Place: key, Err: errContent}
		}
		if err == nil && c.Covers() && c.Of == nil {
			var wrong error
			if one.uncopied, wrong, err = recopy.Check(ctx, v.table, c, posting, one.r); wrong != nil {
				one.fault = &inspect.Fault{Kind: inspect.FaultCopy, Column: c.Name, Place: key, Err: wrong}
			}
		}
		return one, err
	}
	// What was removed since it was read is of a column that was dropped.
	if err := v.Pause(ctx); err != nil {
		return one, err
	}
	if there, err := chunks.Exists(ctx, v.table.Postings, key); !there || err != nil {
		return one, err
	}
	if left(v.table, key) {
		one.stale, one.unknown = true, true
		return one, nil
	}
	one.fault = &inspect.Fault{Kind: inspect.FaultPosting, Place: key, Err: wrong}
	return one, nil
}

// left reports whether a posting of no column that the table knows is such as a client leaves that slept while its column was
// dropped or changed, and the rows were converted: no query meets it any more. No column has the id 0, and ids do not come back.
func left(t *engine.Engine, key []byte) bool {
	var id meta.ColumnID
	least := len(id) + t.Spec.PrefixBytes + len(rowcodec.WriteID{})
	if t.Meta.Tenants {
		least += len(pseudonym.Token{})
	}
	return copy(id[:], key) == len(id) && id != meta.ColumnID{} && !knows(t, id) && len(key) > least
}

// knows reports whether postings with an id are of a column that a table has, or had, or of deletions.
func knows(t *engine.Engine, id meta.ColumnID) bool {
	return id == (meta.ColumnID{}) && t.Meta.AppendOnly() || slices.Contains(t.Meta.Dropped, id) ||
		slices.ContainsFunc(t.Stored, func(c *rowcodec.Column) bool { return c.Id == id && c.Posted() })
}

// postingOutOfOrder returns a fault if what a row's posting carries is not in order with that of the row
// before.
func (v *Verifier) postingOutOfOrder(order map[*rowcodec.Column]*sequence, c *rowcodec.Column, r *rowcodec.Record) *inspect.Fault {
	if c.Encryption != meta.Ordered || c.Order != nil {
		return nil
	}
	if order[c] == nil {
		order[c] = new(sequence)
	}
	if order[c].follows(c, v.table.ValueOf(c, r), r.Search[c.Position], v.lowest[c]) {
		return nil
	}
	return &inspect.Fault{Kind: inspect.FaultKey, Column: c.Name, Place: r.Key, Err: errOrder}
}

// columnOf returns the column of a posting.
func (v *Verifier) columnOf(posting []byte) (*rowcodec.Column, error) {
	var id meta.ColumnID
	if copy(id[:], posting) < len(id) || v.by[id] == nil {
		return nil, errFamily
	}
	_, row, _, err := v.by[id].CutPosting(posting)
	if least := v.table.Spec.PrefixBytes; err == nil && len(row) < least {
		err = fmt.Errorf("%w: the row key in a posting has %d bytes, at least %d are needed", fault.ErrTampered, len(row), least)
	}
	return v.by[id], err
}

// rowOf returns the row that a posting points to, with the value of the column, or nil if none
// agrees with it. It is not known where the row cannot be read, nor where it is of the write of the posting and is yet to be
// converted. Conversions put one posting again and again, at any time, until one of them has stored the row so.
func (v *Verifier) rowOf(ctx context.Context, c *rowcodec.Column, posting []byte) (r *rowcodec.Record, known bool, err error) {
	t := v.table
	search, key, write, err := c.CutPosting(posting)
	if err != nil {
		return nil, false, err
	}
	want := make([]bool, len(t.Stored))
	c.Add(want)
	r, err = t.Read(ctx, key, want)
	switch {
	case fault.Refused(err), errors.Is(err, fault.ErrTorn):
		return nil, false, nil
	case err != nil:
		return nil, false, err
	case r == nil || r.Write != write:
		return nil, true, nil
	case c.Of == nil && r.Search[c.Position] == nil && r.Values[t.ValueIndex(c)] != nil:
		return nil, false, nil
	case !bytes.Equal(r.Search[c.Position], search):
		return nil, true, nil
	}
	return r, true, nil
}

// expired reports whether the row that a write has put has expired.
func expired(ctx context.Context, t *engine.Engine, key []byte, write rowcodec.WriteID) (bool, error) {
	if !t.Meta.Expires() {
		return false, nil
	}
	cells, err := t.Data.Get(ctx, key, driver.Slice{Only: [][]byte{rowcodec.KeyQualifier}})
	if err != nil || len(cells) == 0 {
		return false, err
	}
	var s rowcodec.Scratch
	row := driver.Row{Key: key, Cells: cells}
	s.Where.Of(t.View, key)
	_, h, err := t.OpenKeyCell(cells[0].Value, &s)
	return err == nil && h.Write == write && t.View.Expired(row, &s), nil
}
