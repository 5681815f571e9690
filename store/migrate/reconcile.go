package migrate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/internal/bykey"
	"github.com/rangecrypt/rangecrypt/store/internal/catalogue"
	"github.com/rangecrypt/rangecrypt/store/internal/engine"
	"github.com/rangecrypt/rangecrypt/store/internal/fault"
	"github.com/rangecrypt/rangecrypt/store/internal/layouts"
	"github.com/rangecrypt/rangecrypt/store/internal/meta"
	"github.com/rangecrypt/rangecrypt/store/internal/pages"
	"github.com/rangecrypt/rangecrypt/store/internal/rowcodec"
)

// Rows become what the source has by one operation, whoever asks for it. It repeats until it has done: read the row of the table,
// then that of the source and the phase; where the two rows differ, make the first what the second is.
//
// In a table with Conditional it replaces the row only if nobody has written it since it was read, and a successful replacement
// is the end. Who has written the source replaces the row in any case, be it by the same values, or a mark of deletion by
// another one. Then the table has in the end what the source has. Proof: take the last replacement of a row, which read the
// table at t, and the source at s > t. Suppose that somebody wrote the source after s. His own replacement, which reads the table after that,
// is not the last one, so it came before the last one, and after t. It changed the key cell, and so the last one failed. Without the same
// values being written again, he might find the row as it should be at the end, just before a sleeper who has read old values from the source
// puts them there. A copy may write a row that nobody has ever written without a look at the source: what writers do leaves a key cell for ever.
//
// In a table of pages the same holds with the page in place of the row, and its version in place of the key cell. Other rows of the page
// come along as they were read. A page that is cut has another version first. So whoever has read it before is refused, wherever the row
// is by then. Who has written the source writes the page in any case. One that is not there he makes, even without a row.
//
// In any other table the last write wins, so the operation ends only when the row of the table, read before that of the source, is
// equal to it. Who has deleted a row in the source deletes it here in any case. Nor does who has written it leave a copy that counts as
// made before the migration began: another copy, of what the source had before, may come later, and count as made at the same time. That
// is exact as long as nobody dies, or gives up, between his write and this end. What he leaves is found by a verification.

// An outcome is what became of one row.
type outcome struct {
	changed bool
	refused error // why the table does not take it
	mixed   bool  // its values expire at different times
	deleted bool  // this call has deleted the row, whether it was there or not
	added   bool  // the table did not have it
}

// A wish is what a row of the table is to be, as the source has it.
type wish struct {
	record *rowcodec.Record // without its key; nil for no row
	row    store.Row
}

// wanted returns what a row is to be. An error is one of the row.
func wanted(t *engine.Engine, f Found) (wish, error) {
	if !f.Exists || !f.Expires.IsZero() && !f.Expires.After(time.Now()) {
		return wish{}, nil
	}
	w, ttl := wish{row: bykey.PutAgain(t, f.Row)}, time.Duration(0)
	if f.Refused != "" {
		return w, fmt.Errorf("%w: %s", ErrUnfit, f.Refused)
	}
	if !f.Expires.IsZero() {
		if !t.Meta.Expires() {
			return w, fmt.Errorf("%w: the row expires, and rows of the table do not: make one with a time to live, neither conditional nor of pages", ErrUnfit)
		}
		if ttl = layouts.LifeUntil(f.Expires); ttl > meta.MaxTTL {
			return w, fmt.Errorf("%w: the row expires in more than %v, which is the longest in an encrypted table: write it again with a shorter time to live, or without", ErrUnfit, meta.MaxTTL)
		}
	}
	var err error
	w.record, err = t.View.Expiring(ttl).Check(w.row)
	if err == nil && t.Meta.Paged() {
		err = pages.Fits(t.View, w.record)
	}
	return w, err
}

// is reports whether a row of the table is as it is to be.
func (w wish) is(t *engine.Engine, seen *engine.Seen) bool { return layouts.Is(t.View, seen, w.record) }

// A round is one attempt to make rows what the source has.
type round struct {
	t     *engine.Engine
	keys  [][]byte
	seen  []engine.Seen
	found []Found
	wish  []wish
	out   []*outcome
	copy  []bool // whether the row of the table is a copy that counts as made before the migration began
	held  bool   // rows are of a page that was read, which is written next
}

// look reads rows of the table, then those of the source, then the phase.
func (m *Migration) look(ctx context.Context, keys [][]byte, rows []store.Row, out []*outcome) (r *round, err error) {
	r = &round{t: m.table.Now(), keys: keys, out: out}
	if r.t, r.seen, err = m.table.See(ctx, r.t, keys); err != nil {
		return nil, err
	}
	return r, m.ask(ctx, r, rows)
}

// ask reads rows of the source, and then the phase, for a round that has read those of the table.
func (m *Migration) ask(ctx context.Context, r *round, rows []store.Row) (err error) {
	if r.found, err = m.source.Read(ctx, rows); err != nil {
		return ofSource(err)
	}
	rec, err := m.dual(ctx)
	if err != nil {
		return err
	}
	if err := m.wish(ctx, r); err != nil {
		return err
	}
	r.copy = make([]bool, len(r.seen))
	if asOf, earlier := m.asOf(rec); earlier {
		for i := range r.seen {
			at := m.table.Written(r.seen[i].Stamp())
			r.copy[i] = !at.IsZero() && !at.After(asOf)
		}
	}
	return nil
}

// longBefore is how long before the migration began copies count as made, where the database takes that. Clocks differ by less. So what
// comes through a Mirror wins over a copy, whichever is first, and deletions do. So nobody need read the source again.
//
// Two copies of a row count as made at the same time, and the database may keep cells of both. They have one write id if the row
// was the same. It is another one only if its writer died before the Mirror was told: then the row is torn, which a verification mends.
// Rows that are only added come as of now: their write ids are those of their tie-breakers.
const longBefore = time.Minute

// asOf returns when copies count as made, or false if that is when they are.
func (m *Migration) asOf(rec catalogue.Migration) (at time.Time, earlier bool) {
	t := m.table.Now()
	earlier = rec.Empty && m.table.Pages == nil && t.Backdates() && !t.Meta.AppendOnly() && driver.Describe(m.table.Database().Driver).Backdates
	return time.UnixMilli(rec.Prepared).Add(-longBefore), earlier
}

// wish sets what the rows of a round are to be. What this client knows of the table may be old where it refuses some.
func (m *Migration) wish(ctx context.Context, r *round) error {
	for again := false; ; again = true {
		r.wish = make([]wish, len(r.found))
		unfit := false
		for i, f := range r.found {
			var err error
			r.wish[i], err = wanted(r.t, f)
			if err != nil && !fault.IsOfRow(err) {
				return err
			}
			r.out[i].refused, r.out[i].mixed = err, f.Exists && f.Mixed
			unfit = unfit || err != nil
		}
		if !unfit || again {
			return nil
		}
		now, err := m.table.Refresh(ctx)
		if err != nil || now.Same(r.t.View) {
			return err
		}
		if r.held {
			return rowcodec.NewerRow(now.Since) // which has the page read again
		}
		if r.t, r.seen, err = m.table.See(ctx, now, r.keys); err != nil {
			return err
		}
	}
}

// reconcile makes rows of the table what the source has. With touch, the caller has written them in the source.
func (m *Migration) reconcile(ctx context.Context, rows []store.Row, touch bool) ([]outcome, error) {
	keys, err := bykey.KeysOf(ctx, m.table.Now(), rows)
	if err != nil {
		return nil, err
	}
	all := make([]outcome, len(rows))
	left, distinct := make([]int, 0, len(rows)), make(map[string]bool)
	for i, key := range keys {
		if !distinct[string(key)] {
			distinct[string(key)], left = true, append(left, i)
		}
	}
	if m.table.Pages != nil {
		return all, m.sync(ctx, rows, left, all, touch)
	}
	for attempt := 0; len(left) > 0; attempt++ {
		if attempt > 0 {
			if err := engine.WaitAgain(ctx, "row_changed", attempt-1); err != nil {
				return all, err
			}
		}
		of, rowsOf, out := make([][]byte, len(left)), make([]store.Row, len(left)), make([]*outcome, len(left))
		for n, i := range left {
			of[n], rowsOf[n], out[n] = keys[i], rows[i], &all[i]
		}
		r, err := m.look(ctx, of, rowsOf, out)
		if err != nil {
			return all, err
		}
		over := make([]bool, len(left))
		if r.t.Meta.Conditional {
			err = r.swap(ctx, over, touch)
		} else {
			err = r.put(ctx, over, touch)
		}
		if err != nil {
			return all, err
		}
		var next []int
		for n, i := range left {
			if !over[n] {
				next = append(next, i)
			}
		}
		left = next
	}
	return all, nil
}

// sync makes those rows what the source has, by their numbers, in a table of pages.
func (m *Migration) sync(ctx context.Context, rows []store.Row, which []int, all []outcome, touch bool) error {
	keys := make([]store.Row, len(which))
	for n, i := range which {
		keys[n] = rows[i]
	}
	return m.table.Pages.Sync(ctx, m.table.Now(), keys, func(ctx context.Context, t *engine.Engine, of []int, was []*rowcodec.Record) ([]*rowcodec.Record, bool, error) {
		r := &round{t: t, seen: make([]engine.Seen, len(of)), out: make([]*outcome, len(of)), held: true}
		asked := make([]store.Row, len(of))
		for n, i := range of {
			asked[n], r.seen[n].Record, r.out[n] = keys[i], was[n], &all[which[i]]
		}
		if err := m.ask(ctx, r, asked); err != nil {
			return nil, false, err
		}
		becomes, write := slices.Clone(was), touch
		for n, w := range r.wish {
			out := r.out[n]
			if out.refused != nil {
				continue
			}
			becomes[n], out.changed = w.record, !w.is(t, &r.seen[n])
			out.added = out.changed && was[n] == nil
			write = write || out.changed
		}
		return becomes, write, nil
	})
}

// swap replaces the rows that differ, unless somebody has written them since, and says which rows are done.
func (r *round) swap(ctx context.Context, over []bool, touch bool) error {
	var which []int
	for i, w := range r.wish {
		if over[i] = r.out[i].refused != nil || !touch && w.is(r.t, &r.seen[i]); !over[i] {
			which = append(which, i)
		}
	}
	made, err := r.become(ctx, which)
	for _, i := range which {
		over[i] = made[i] || r.out[i].refused != nil
	}
	return err
}

// become makes some rows what they are to be, and says which it has made.
func (r *round) become(ctx context.Context, which []int) (made []bool, err error) {
	made = make([]bool, len(r.wish))
	records, err := r.encoded(ctx, which)
	if errors.As(err, new(rowcodec.NewerRow)) && !r.t.Env.Now().Same(r.t.View) {
		return made, nil // the next round goes by what is known now
	}
	if err != nil {
		return made, err
	}
	keys, of := make([][]byte, 0, len(which)), make([]int, 0, len(which))
	var seen []engine.Seen
	var becomes []*rowcodec.Record
	for _, i := range which {
		if r.out[i].refused == nil {
			keys, seen, becomes, of = append(keys, r.keys[i]), append(seen, r.seen[i]), append(becomes, records[i]), append(of, i)
		}
	}
	if len(keys) == 0 {
		return made, nil
	}
	done, err := r.t.Become(ctx, keys, seen, becomes)
	if err != nil {
		return made, err
	}
	for n, i := range of {
		if made[i] = done[n]; done[n] && !r.wish[i].is(r.t, &r.seen[i]) {
			r.out[i].changed = true
		}
	}
	return made, nil
}

// encoded returns the records of some rows by their numbers. A row that the table does not take is refused.
func (r *round) encoded(ctx context.Context, which []int) (map[int]*rowcodec.Record, error) {
	for {
		var rows []store.Row
		var of []int
		for _, i := range which {
			if r.wish[i].record != nil && r.out[i].refused == nil {
				rows, of = append(rows, r.wish[i].row), append(of, i)
			}
		}
		records, err := bykey.Records(ctx, r.t.Expiring(0), rows)
		if r.refuses(of, err) {
			continue
		}
		all := make(map[int]*rowcodec.Record, len(of))
		for n, record := range records {
			all[of[n]] = record
		}
		return all, err
	}
}

// refuses takes note of an error that says of one of some rows that the table does not take it.
func (r *round) refuses(of []int, err error) bool {
	one := (*fault.RowError)(nil)
	if !errors.As(err, &one) || !fault.IsOfRow(one.Err) || r.out[of[one.Index]].refused != nil {
		return false
	}
	r.out[of[one.Index]].refused = one.Err
	return true
}

// put writes the rows that differ, and says which did not. With touch, a row that is nowhere is deleted all the same, once: a copy that
// counts as made earlier may come later, and loses only to what was made.
func (r *round) put(ctx context.Context, over []bool, touch bool) error {
	var gone [][]byte
	var puts []int
	for i, w := range r.wish {
		switch {
		case touch && r.out[i].refused == nil && w.record == nil && !r.out[i].deleted:
			gone = append(gone, r.keys[i])
			r.out[i].deleted = true
		case r.out[i].refused != nil, w.is(r.t, &r.seen[i]) && !(touch && r.copy[i]):
			over[i] = true
			continue
		case w.record == nil, r.t.Meta.AppendOnly() && r.seen[i].Record != nil: // first, where no row is replaced
			gone = append(gone, r.keys[i])
		default:
			puts = append(puts, i)
		}
		r.out[i].changed = true
	}
	if len(gone) > 0 {
		if err := r.t.RemoveAll(ctx, gone); err != nil {
			return err
		}
	}
	_, err := r.store(ctx, puts, func(*rowcodec.View, *rowcodec.Record) {})
	return err
}

// store puts some rows, as records that a function completes. It returns those in whose place another one has put rows with other
// values, where no row is replaced. However long it takes, a row expires when the source said that it does.
func (r *round) store(ctx context.Context, which []int, complete func(*rowcodec.View, *rowcodec.Record)) (taken []int, err error) {
	left := slices.DeleteFunc(slices.Clone(which), func(i int) bool { return r.out[i].refused != nil })
	for len(left) > 0 {
		err := r.t.Expiring(0).PutEach(ctx, len(left), func(t *rowcodec.View, n int) (*rowcodec.Record, error) {
			w := r.wish[left[n]]
			record, err := t.Check(w.row)
			if err == nil {
				record.Expires = w.record.Expires
				complete(t, record)
			}
			return record, err
		})
		one := (*fault.RowError)(nil)
		switch {
		case !errors.As(err, &one):
			return taken, err
		case errors.Is(one.Err, fault.ErrRowExists):
			taken = append(taken, left[one.Index])
		case !r.refuses(left, err):
			return taken, err
		}
		left = slices.Delete(left, one.Index, one.Index+1)
	}
	return taken, nil
}
