package pages

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/internal/bykey"
	"github.com/rangecrypt/rangecrypt/store/internal/chunks"
	"github.com/rangecrypt/rangecrypt/store/internal/engine"
	"github.com/rangecrypt/rangecrypt/store/internal/fault"
	"github.com/rangecrypt/rangecrypt/store/internal/forms"
	"github.com/rangecrypt/rangecrypt/store/internal/keyring"
	"github.com/rangecrypt/rangecrypt/store/internal/meta"
	"github.com/rangecrypt/rangecrypt/store/internal/rowcodec"
)

const (
	mostChanges = 1 << 10 // of one page, made at once
	mostBytes   = 4 << 20 // that they have
	mostOfRow   = 2 << 20 // bytes of a row: with those of a page and of changes it fits into a cell
	conflicts   = 200     // attempts at a page that other clients change all the time
)

// A change is what becomes of the row with a key.
type change struct {
	index int // of the row that the caller gave
	key   []byte
	size  int
	make  func(t *rowcodec.View, was *rowcodec.Record) (*rowcodec.Record, error) // was is nil of a row that is not there; nil removes it

	// If not nil, it is called with changes of one page, which share it, and the rows of the page. The page has been read then, and none
	// of them is made. It sets their sizes, and reports whether the page is to be written.
	look func(ctx context.Context, e *engine.Engine, of []change, rows []*rowcodec.Record) (bool, error)
}

// Put writes rows, each as a whole.
func (t *Table) Put(ctx context.Context, e *engine.Engine, rows []rowcodec.RowValues) error {
	return t.change(ctx, e, "put", len(rows), func(v *rowcodec.View, i int) (*rowcodec.Record, change, error) {
		r, err := v.Check(rows[i])
		if errors.Is(err, driver.ErrTooLarge) {
			return nil, change{}, fmt.Errorf("%w; and a row of a page has at most %d bytes", err, mostOfRow)
		}
		if err != nil {
			return nil, change{}, err
		}
		c := change{size: size(v, r), make: func(now *rowcodec.View, _ *rowcodec.Record) (*rowcodec.Record, error) { return adopted(now, v, r), nil }}
		return r, c, fits(c.size)
	})
}

// Delete removes rows.
func (t *Table) Delete(ctx context.Context, e *engine.Engine, keys []rowcodec.RowValues) error {
	return t.change(ctx, e, "delete", len(keys), func(v *rowcodec.View, i int) (*rowcodec.Record, change, error) {
		r, err := bykey.Named(v, keys[i])
		return r, change{make: func(*rowcodec.View, *rowcodec.Record) (*rowcodec.Record, error) { return nil, nil }}, err
	})
}

// Update changes the columns that rows name of rows that are there.
func (t *Table) Update(ctx context.Context, e *engine.Engine, rows []rowcodec.RowValues) error {
	return t.change(ctx, e, "update", len(rows), func(v *rowcodec.View, i int) (*rowcodec.Record, change, error) {
		next, err := v.Check(rows[i])
		if err == nil {
			err = bykey.CheckNamed(v, next)
		}
		if err != nil {
			return nil, change{}, err
		}
		named := make(map[meta.ColumnID]bool)
		for _, c := range v.Columns {
			_, named[c.Id] = rows[i][c.Name]
		}
		return next, change{size: size(v, next), make: func(now *rowcodec.View, was *rowcodec.Record) (*rowcodec.Record, error) {
			if was == nil {
				return nil, fault.ErrNoRow
			}
			given, becomes := adopted(now, v, next), *was
			becomes.Values = slices.Clone(was.Values)
			for j, c := range now.Columns {
				if at := len(now.Parts) + j; named[c.Id] {
					becomes.Values[at] = given.Values[at]
				}
			}
			return &becomes, nil
		}}, nil
	})
}

// adopted returns a record that was made as of one view as a later one has it.
func adopted(now, then *rowcodec.View, r *rowcodec.Record) *rowcodec.Record {
	if now.Since == then.Since {
		return r
	}
	return now.Inherited(then, r)
}

// fits returns an error if a row has too many bytes.
func fits(size int) error {
	if size <= mostOfRow {
		return nil
	}
	return fmt.Errorf("%w: the row has %d bytes, a row of a page at most %d: shorten its values, or keep them in a table of package store", driver.ErrTooLarge, size, mostOfRow)
}

// size returns about how many bytes the values of a row take.
func size(t *rowcodec.View, r *rowcodec.Record) (n int) {
	for at, c := range columns(t) {
		if v := r.Values[at]; v != nil {
			n += rowcodec.ValueSize(c.Type, v)
		}
	}
	return n
}

// change checks and makes changes, in chunks of one page each. An error of a bad row is a [fault.RowError], and nothing was changed then.
func (t *Table) change(ctx context.Context, e *engine.Engine, doing string, n int, of func(*rowcodec.View, int) (*rowcodec.Record, change, error)) error {
	var all []change
	var records []*rowcodec.Record
	e, err := e.WithSecondLook(ctx, func(e *engine.Engine) error {
		all, records = make([]change, n), make([]*rowcodec.Record, n)
		for i := range n {
			r, c, err := of(e.View, i)
			if err != nil {
				return fault.OfRow(ctx, i, n, err)
			}
			records[i], all[i] = r, c
			all[i].index = i
		}
		if i, err := e.EncodeAll(ctx, records); err != nil {
			return fault.OfRow(ctx, i, n, err)
		}
		distinct := make(chunks.DistinctKeys, n)
		for i, r := range records {
			if err := distinct.Add(r.Key, i, doing); err != nil {
				return fault.OfRow(ctx, i, n, err)
			}
			all[i].key = r.Key
		}
		return nil
	})
	if err != nil {
		return err
	}
	parts := byPart(e.Spec, all, func(c change) []byte { return c.key })
	w, written, given := &writer{Table: t}, e.Env.Writes(n), e.View
	for again := false; ; again = true {
		err := e.Env.Concurrently(ctx, len(parts), func(ctx context.Context, i int) error { return w.changePart(ctx, e, parts[i]) })
		if written(); err == nil && again {
			err = w.seal(ctx, e)
		}
		if err != nil { // other pages may have been written
			if unsettled := w.settled(ctx, e); unsettled != nil {
				err = fault.Besides(err, unsettled)
			}
			return err
		}
		written = func() {}
		now, err := settle(ctx, e)
		if err != nil {
			return err
		}
		if now == nil {
			return forms.Keeps(e.View, given, func(c *rowcodec.Column) bool {
				return slices.ContainsFunc(records, func(r *rowcodec.Record) bool { return given.ValueOf(c, r) != nil })
			})
		}
		e = now // which the pages are written as once more, so that nothing stays in the clear, or under an old key
		if n > 0 && all[0].look == nil {
			parts = nil // another client may have changed the rows since, knowing what this one has made of them
		}
	}
}

// byPart sorts what has keys, and cuts it into what is of one part each.
func byPart[T any](spec driver.FamilySpec, all []T, key func(T) []byte) (parts [][]T) {
	slices.SortFunc(all, func(a, b T) int { return bytes.Compare(key(a), key(b)) })
	from := 0
	for i := range all {
		if i+1 == len(all) || !partOf(spec, key(all[i])).has(key(all[i+1])) {
			parts, from = append(parts, all[from:i+1]), i+1
		}
	}
	return parts
}

// settle returns nil if changes were made as the schema is, and else the table as it is. The catalogue is read after the last
// write, so that a change which it does not show is made by one who finds the pages.
func settle(ctx context.Context, e *engine.Engine) (*engine.Engine, error) {
	if e.Env.Leased(e.Version) {
		return nil, nil
	}
	version, err := e.Env.Version(ctx)
	if err != nil {
		return nil, fmt.Errorf("after the write the catalogue could not be asked whether the schema had been changed: %w", err)
	}
	now, err := e.Env.AtLeast(ctx, version)
	if err != nil || now.Same(e.View) {
		return nil, err
	}
	return now, nil
}

// A writer writes pages for one call, and knows which: also those that came of a cut and have none of the call's rows.
type writer struct {
	*Table
	mu    sync.Mutex
	wrote map[string]bool // by key
}

func (t *writer) note(key []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.wrote == nil {
		t.wrote = make(map[string]bool)
	}
	t.wrote[string(key)] = true
}

// settled seals what was written again, until it is as the schema is.
func (t *writer) settled(ctx context.Context, e *engine.Engine) error {
	for len(t.wrote) > 0 {
		now, err := settle(ctx, e)
		if err == nil && now != nil {
			err = t.seal(ctx, now)
		}
		if err != nil || now == nil {
			return err
		}
		e = now
	}
	return nil
}

// seal writes those of the pages again that were written as of an earlier schema than that of the table.
func (t *writer) seal(ctx context.Context, e *engine.Engine) error {
	for _, key := range slices.Sorted(maps.Keys(t.wrote)) {
		err := t.retry(ctx, e, func(e *engine.Engine) error {
			return t.reseal(ctx, e, []byte(key), func(p *page) bool { return p.since < e.Since })
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// reseal writes a page as it is, unless it is not what it is to be resealed for any more.
func (t *writer) reseal(ctx context.Context, e *engine.Engine, key []byte, as func(*page) bool) error {
	for attempt := 0; ; attempt++ {
		p, err := t.find(ctx, e, key, true)
		if err != nil || p == nil || !as(p) {
			return err
		}
		if len(p.cuts) > 0 {
			err = t.finish(ctx, e, p)
		} else if rows, failed := t.keyed(ctx, e.View, p); failed != nil {
			return failed
		} else {
			err = t.write(ctx, e, &page{key: p.key, high: p.high}, rows, p.version)
		}
		switch {
		case err != nil && !errors.Is(err, errOvertaken) && !errors.Is(err, driver.ErrUnknownOutcome):
			return err
		case attempt == conflicts:
			return errBusy
		}
		if err := engine.WaitAgain(ctx, "page_changed", min(attempt, 6)); err != nil {
			return err
		}
	}
}

// changePart makes changes of one part, page by page.
func (t *writer) changePart(ctx context.Context, e *engine.Engine, changes []change) error {
	unsure := attempted{}
	for attempt := 0; len(changes) > 0; {
		n := 0
		err := t.retry(ctx, e, func(now *engine.Engine) (err error) {
			e = now
			n, err = t.changePage(ctx, e, changes, &unsure)
			return err
		})
		switch {
		case errors.As(err, new(passed)):
			return err
		case errors.Is(err, errOvertaken) || errors.Is(err, driver.ErrUnknownOutcome):
			// After an unknown outcome the page is read again: what is there says what has become of it.
			if attempt++; attempt > conflicts {
				return errBusy
			}
			if err := engine.WaitAgain(ctx, "page_changed", min(attempt, 6)); err != nil {
				return err
			}
		case err != nil:
			return err
		default:
			if changes, attempt = changes[n:], 0; unsure.n > n {
				unsure.n -= n
			} else {
				unsure = attempted{}
			}
		}
	}
	return nil
}

// An attempted is what was written to a page without an answer. No call makes its change twice: another client may have seen the
// first, and what it did would be undone. Only what asks anew what rows are to be, by a look, is free to.
type attempted struct {
	n      int      // changes; 0: nothing is unsure
	was    []byte   // version of the page that they were to replace
	tried  [][]byte // versions, of which at most one comes
	view   *rowcodec.View
	before []*rowcodec.Record // rows of the page
	after  []*rowcodec.Record
	err    error
}

// made returns how many of the changes a page has, as it was read now; 0 where they are to be tried again. Where others have written
// the page since, its rows tell. They were changed since if they are neither as they were nor as they were to be: then nobody knows.
func (a *attempted) made(v *rowcodec.View, p *page, rows []*rowcodec.Record, changes []change) (n int, err error) {
	if a.n == 0 || bytes.Equal(p.version, a.was) {
		return 0, nil
	}
	if slices.ContainsFunc(a.tried, func(version []byte) bool { return bytes.Equal(p.version, version) }) {
		return a.n, nil
	}
	before, after := v.Since == a.view.Since, v.Since == a.view.Since
	for ; n < a.n && p.reaches(changes[n].key); n++ {
		key := changes[n].key
		is := withKey(rows, key)
		before, after = before && same(v, is, withKey(a.before, key)), after && same(v, is, withKey(a.after, key))
	}
	switch {
	case after:
		return n, nil
	case before:
		*a = attempted{} // which cannot come any more
		return 0, nil
	}
	return 0, passed{fmt.Errorf("%w; another client has written the rows since", a.err)}
}

// same reports whether two rows of one key have the same values, where nil is no row.
func same(v *rowcodec.View, one, other *rowcodec.Record) bool {
	if one == nil || other == nil {
		return one == other
	}
	for at, c := range columns(v) {
		is := appendColumn(nil, c.Number, c.Type, at, []*rowcodec.Record{one})
		if !bytes.Equal(is, appendColumn(nil, c.Number, c.Type, at, []*rowcodec.Record{other})) {
			return false
		}
	}
	return true
}

// withKey returns the one of ascending rows that has a key, or nil.
func withKey(rows []*rowcodec.Record, key []byte) *rowcodec.Record {
	i, found := slices.BinarySearchFunc(rows, key, func(r *rowcodec.Record, key []byte) int { return bytes.Compare(r.Key, key) })
	if !found {
		return nil
	}
	return rows[i]
}

// A passed error is of changes of unknown outcome that are not made again.
type passed struct{ error }

func (e passed) Unwrap() error { return e.error }

var errBusy = fmt.Errorf("%w: other clients change one page all the time: make the call again when they do less", fault.ErrConflict)

// errOvertaken is returned where another client has changed a page since it was read, or has left one to be cut.
var errOvertaken = errors.New("pages: another client has changed the page")

// changePage makes those of ascending changes that are of the first one's page, and returns how many these are.
func (t *writer) changePage(ctx context.Context, e *engine.Engine, changes []change, unsure *attempted) (n int, err error) {
	of := partOf(e.Spec, changes[0].key)
	p, err := t.find(ctx, e, changes[0].key, true)
	if err != nil {
		return 0, err
	}
	if p == nil {
		p = &page{key: of.root}
	}
	rows, err := t.keyed(ctx, e.View, p)
	if err != nil {
		return 0, err
	}
	made, err := unsure.made(e.View, p, rows, changes)
	if err == nil && len(p.cuts) > 0 {
		if err = t.finishRows(ctx, e, p, rows); made > 0 && isLeft(err) {
			err = nil
		}
	}
	switch {
	case err != nil:
		return 0, err
	case made > 0:
		return made, nil
	case len(p.cuts) > 0:
		return 0, errOvertaken
	}
	n = p.takes(changes)
	if look := changes[0].look; look != nil {
		if write, err := look(ctx, e, changes[:n], rows); err != nil || !write {
			return n, err
		}
		n = p.takes(changes[:n])
	}
	next, appended, err := merge(e.View, rows, changes[:n])
	if err != nil {
		return 0, err
	}
	tried, err := t.replace(ctx, e, p, next, appended)
	if errors.Is(err, driver.ErrUnknownOutcome) && changes[0].look == nil {
		*unsure = attempted{n, p.version, append(unsure.tried, tried), e.View, rows, next, err}
	}
	return n, err
}

// isLeft reports whether an error leaves it to the next writer to cut a page whose rows are there.
func isLeft(err error) bool {
	return errors.Is(err, errOvertaken) || errors.Is(err, driver.ErrUnknownOutcome)
}

// takes returns how many of ascending changes are made at once: those of the page, as far as they fit into a cell.
func (p *page) takes(changes []change) (n int) {
	bytes := 0
	for n < len(changes) && n < mostChanges && p.reaches(changes[n].key) && (n == 0 || bytes+changes[n].size <= mostBytes) {
		bytes += changes[n].size
		n++
	}
	return n
}

// merge returns the rows of a page after changes, and whether these only added rows after all others.
func merge(v *rowcodec.View, rows []*rowcodec.Record, changes []change) (merged []*rowcodec.Record, appended bool, err error) {
	appended = len(rows) == 0 || bytes.Compare(rows[len(rows)-1].Key, changes[0].key) < 0
	for len(rows)+len(changes) > 0 {
		order := -1
		switch {
		case len(rows) == 0:
			order = 1
		case len(changes) > 0:
			order = bytes.Compare(rows[0].Key, changes[0].key)
		}
		if order < 0 {
			merged, rows = append(merged, rows[0]), rows[1:]
			continue
		}
		var was *rowcodec.Record
		if order == 0 {
			was, rows = rows[0], rows[1:]
		}
		c := changes[0]
		changes = changes[1:]
		r, err := c.make(v, was)
		if err == nil && r != nil {
			err = fits(size(v, r))
		}
		if err != nil {
			return nil, false, &fault.RowError{Index: c.index, Err: err}
		}
		if r != nil {
			r.Key = c.key
			merged = append(merged, r)
		}
	}
	return merged, appended, nil
}

// keyed returns the rows of a page with their keys.
func (t *Table) keyed(ctx context.Context, v *rowcodec.View, p *page) ([]*rowcodec.Record, error) {
	rows, err := p.read(v, nil)
	if err != nil {
		return nil, err
	}
	if _, err := v.EncodeAll(ctx, rows); err != nil {
		return nil, err
	}
	for i, r := range rows {
		if bytes.Compare(r.Key, p.key) < 0 || !p.reaches(r.Key) || i > 0 && bytes.Compare(rows[i-1].Key, r.Key) >= 0 {
			return nil, fmt.Errorf("%w: the rows of a page are not in the order of their keys", fault.ErrTampered)
		}
	}
	return rows, nil
}

// replace writes other rows into a page that was read, and cuts it where they are too many. It returns the version of that.
func (t *writer) replace(ctx context.Context, e *engine.Engine, p *page, rows []*rowcodec.Record, appended bool) (version []byte, err error) {
	next := &page{key: p.key, high: p.high, cuts: cuts(e.View, partOf(e.Spec, p.key), rows, appended)}
	if err := t.write(ctx, e, next, rows, p.version); err != nil || len(next.cuts) == 0 {
		return next.version, err
	}
	// The rows are there. What is left to do, the next writer does if this one cannot.
	if err = t.finishRows(ctx, e, next, rows); isLeft(err) {
		err = nil
	}
	return next.version, err
}

// write puts a page with rows if its version is still a given one; nil is that of a page that is not there.
func (t *writer) write(ctx context.Context, e *engine.Engine, p *page, rows []*rowcodec.Record, was []byte) error {
	t.note(p.key)
	h := keyring.NewHeader()
	h.Policy = e.Since
	put, err := e.Data.CheckAndPut(ctx, p.key, driver.Cell{Qualifier: versionCell, Value: was}, encode(e.View, p, rows, h)...)
	if err == nil && !put {
		err = errOvertaken
	}
	return err
}

// finish cuts a page that was read.
func (t *writer) finish(ctx context.Context, e *engine.Engine, p *page) error {
	rows, err := t.keyed(ctx, e.View, p)
	if err != nil {
		return err
	}
	return t.finishRows(ctx, e, p, rows)
}

// finishRows makes the pages that a page is to be cut into, from the last to the first, and takes their rows out of it.
func (t *writer) finishRows(ctx context.Context, e *engine.Engine, p *page, rows []*rowcodec.Record) error {
	high, end := p.high, len(rows)
	for _, c := range slices.Backward(p.cuts) {
		next := &page{key: c.key, high: high}
		// One that is there is right: another client made it, and may have changed it since.
		err := t.write(ctx, e, next, rows[c.row:end], nil)
		if err != nil && !errors.Is(err, errOvertaken) {
			return err
		}
		high, end = c.key, c.row
	}
	return t.write(ctx, e, &page{key: p.key, high: high}, rows[:end], p.version)
}

// cuts returns where rows are to be cut into pages. Rows that come in the order of their keys fill pages; elsewhere pages get
// about the same number, so that there is room for more.
func cuts(t *rowcodec.View, of part, rows []*rowcodec.Record, appended bool) (all []cut) {
	most := t.Meta.PageRows
	if n := (len(rows) + most - 1) / most; !appended && n > 1 {
		most = (len(rows) + n - 1) / n
	}
	n, total := 0, 0
	for i, r := range rows {
		bytes := size(t, r)
		if i > 0 && (n == most || total+bytes > maxBytes) {
			all = append(all, cut{i, between(rows[i-1].Key, r.Key, len(of.root))})
			n, total = 0, 0
		}
		n, total = n+1, total+bytes
	}
	return all
}
