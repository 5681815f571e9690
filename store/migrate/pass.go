package migrate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"sync"
	"time"

	"github.com/rangecrypt/rangecrypt/internal/pause"
	"github.com/rangecrypt/rangecrypt/internal/rowsize"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/inspect"
	"github.com/rangecrypt/rangecrypt/store/internal/bykey"
	"github.com/rangecrypt/rangecrypt/store/internal/catalogue"
	"github.com/rangecrypt/rangecrypt/store/internal/chunks"
	"github.com/rangecrypt/rangecrypt/store/internal/engine"
	"github.com/rangecrypt/rangecrypt/store/internal/fault"
	"github.com/rangecrypt/rangecrypt/store/internal/layouts"
	"github.com/rangecrypt/rangecrypt/store/internal/rowcodec"
)

// PassOptions are the optional parameters of passes over a source. The zero value is the default.
type PassOptions struct {
	// Repair makes rows that differ what the source has.
	Repair bool

	// Finding, if not nil, is called for each row that differs or is refused, by one goroutine at a time.
	Finding func(Finding)

	// Progress, if not nil, is called now and then with the number of rows so far, by one goroutine at a time.
	Progress func(rows int)

	// Shares is how many shares of the part are read at a time; the default, 0, is one. A part is noted when all of it is done. So whoever
	// does one part after the other, and dies, leaves at most one to be repeated.
	Shares int
}

// A Finding is a row that is not in the table as the source has it.
type Finding struct {
	// Row is a keyed hash of the row's key, by which lists can be compared. It says nothing without the keys of the database.
	// Of a key that the table does not take it is one of Place. It is "" where neither is known.
	Row string

	// Key has the parts of that key in the clear, for those who may see them; nil of one that the table does not take. Then Place says in the
	// words of the source's database how to find the row, for those who may see keys.
	Key   store.Row
	Place string

	// Err says why it is not. It has no value.
	Err error
}

// A part has about so many rows, as far as the source knows how many it has. They take a second: with fewer, the beginning and the end of
// parts would count; with more, a process that dies would lose more.
const (
	rowsOfPart   = 1 << 14
	unknownParts = 64
	mostParts    = 1 << 10 // so that each has shares
)

// Parts returns into how many parts the source is cut best for passes. It is a power of two: where a later call returns another number,
// because there are more rows, the parts of the one cut are within those of the other.
func (m *Migration) Parts(ctx context.Context) (int, error) {
	d, err := m.source.Describe(ctx)
	if err != nil {
		return 0, m.failed("parts of the migration into", ofSource(err))
	}
	if d.Rows == 0 {
		return unknownParts, nil
	}
	return min(1<<bits.Len64(uint64(d.Rows/rowsOfPart)), mostParts), nil
}

// A PartDone is what a call did of a pass, and how far the pass is.
type PartDone struct {
	Rows  Counts // of this part, by this call or an earlier one
	Again bool   // the part was done before, so that nothing was read
	Over  bool   // all parts are done
}

// pass is one call for a part, or what it does of that for one tenant.
type pass struct {
	*Migration
	*tally
	opts *PassOptions
}

// A tally is what a call has counted.
type tally struct {
	mu   sync.Mutex
	rows Counts
	here int // rows of the table
	read int
}

func (m *Migration) pass(opts *PassOptions) *pass {
	if opts == nil {
		opts = new(PassOptions)
	}
	return &pass{m, new(tally), opts}
}

// each calls do for the rows of each tenant or, in a table without any, for all rows.
func (p *pass) each(ctx context.Context, do func(*pass) error) error {
	return p.Migration.each(ctx, func(one *Migration) error { return do(&pass{one, p.tally, p.opts}) })
}

// batch says that rows were read.
func (p *pass) batch(rows int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.read += rows; p.opts.Progress != nil {
		p.opts.Progress(p.read)
	}
}

// finds reports a row, which has a key that is nil where no table takes it.
func (p *pass) finds(key []byte, row Found, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.opts.Finding == nil {
		return
	}
	f := Finding{Err: err}
	hash := func(key []byte) string { return p.table.Database().Catalogue.HashOf(p.table.ID(), key) }
	switch {
	case key != nil:
		f.Row, f.Key = hash(key), bykey.KeyOf(p.table.Now(), row.Row)
	case row.Place != "":
		f.Row, f.Place = hash([]byte(row.Place)), row.Place
	}
	p.opts.Finding(f)
}

// scan reads a part of the source, and hands its rows on in batches.
func (p *pass) scan(ctx context.Context, part inspect.Part, do func([]Found) error) error {
	batch, gauge := make([]Found, 0, chunks.FullBatch), chunks.Gauge{}
	for f, err := range p.source.Scan(ctx, part) {
		if err != nil {
			return ofSource(err)
		}
		if f.Refused == "" {
			if err := p.takes(ctx, f.Row); err != nil {
				f.Refused, f.Place = err.Error(), cmp.Or(f.Place, bykey.Place(p.table.Now(), f.Row))
			}
		}
		if f.Refused != "" {
			p.refuse(ctx, f)
			continue
		}
		if batch = append(batch, f); gauge.Full(rowsize.Of(f.Row)) {
			if err := do(batch); err != nil {
				return err
			}
			p.batch(len(batch))
			batch = batch[:0]
		}
	}
	if len(batch) == 0 {
		return nil
	}
	p.batch(len(batch))
	return do(batch)
}

// takes returns why the table has no place for the key of a row. What this client knows of the table may be old.
func (p *pass) takes(ctx context.Context, row store.Row) error {
	err := bykey.TakesFrom(p.table.Now(), row)
	if err == nil {
		return nil
	}
	now, unknown := p.table.Refresh(ctx)
	if unknown != nil {
		return err
	}
	return bykey.TakesFrom(now, row)
}

// refuse counts a row that no table takes. One that has a place has no key, or that of another row.
func (p *pass) refuse(ctx context.Context, f Found) {
	p.mu.Lock()
	if !f.Exists { // it has nothing that would come
		p.rows.Ignored++
		p.mu.Unlock()
		return
	}
	p.rows.Refused++
	p.mu.Unlock()
	var key []byte
	if keys, err := bykey.KeysOf(ctx, p.table.Now(), []store.Row{f.Row}); err == nil && f.Place == "" {
		key = keys[0]
	}
	p.finds(key, f, fault.Unfit(errors.New(f.Refused)))
}

// sees reads the rows of the table that the source was found to have.
func (p *pass) sees(ctx context.Context, found []Found) (*round, error) {
	rows := make([]store.Row, len(found))
	for i, f := range found {
		rows[i] = f.Row
	}
	keys, err := bykey.KeysOf(ctx, p.table.Now(), rows)
	if err != nil {
		return nil, err
	}
	r := &round{t: p.table.Now(), keys: keys, found: found, out: make([]*outcome, len(found))}
	for i := range r.out {
		r.out[i] = new(outcome)
	}
	if r.t, r.seen, err = p.table.See(ctx, r.t, keys); err != nil {
		return nil, err
	}
	return r, p.wish(ctx, r)
}

// mend reconciles some rows of a round.
func (p *pass) mend(ctx context.Context, r *round, which []int) error {
	if len(which) == 0 {
		return nil
	}
	rows := make([]store.Row, len(which))
	for n, i := range which {
		rows[n] = r.found[i].Row
	}
	all, err := p.reconcile(ctx, rows, false)
	for n, i := range which {
		mixed, added := r.out[i].mixed, r.out[i].added
		*r.out[i] = all[n]
		r.out[i].mixed, r.out[i].added = mixed || all[n].mixed, added || all[n].added
	}
	return err
}

// Copy copies a part of the source into the table. What is there already stays if it is equal; otherwise it becomes what the
// source has then. A copy loses to every dual write, deletions included. Any number of processes may copy, also the same
// part, and cut the source differently. What is done is noted by the range of keys, and is not read again where it has the whole
// share; else its rows count twice. Rows under way are brought to their end where the context ends, for up to ten seconds more. A process that
// is killed, or loses the database, may leave a row that was deleted meanwhile: a verification finds it, and removes it with Repair.
func (m *Migration) Copy(ctx context.Context, part inspect.Part, opts *PassOptions) (PartDone, error) {
	done, err := m.pass(opts).copy(ctx, part)
	return done, m.failed(fmt.Sprintf("copy part %d of %d into", part.Index, part.Of), err)
}

func (p *pass) copy(ctx context.Context, part inspect.Part) (PartDone, error) {
	if err := part.Check(); err != nil {
		return PartDone{}, err
	}
	span := catalogue.SpanOf(part.Index, part.Of)
	rec, err := p.copying(ctx)
	if err != nil {
		return PartDone{}, err
	}
	if err := p.unchanged(ctx, rec); err != nil {
		return PartDone{}, err
	}
	if rec.Copy.Spans.Has(span) {
		return PartDone{Again: true, Over: rec.Copy.Over()}, nil
	}
	began := rec.Round
	if err := rec.Copy.Spans.EachLeft(ctx, part, p.opts.Shares, func(ctx context.Context, share inspect.Part) error {
		return p.each(ctx, func(p *pass) error {
			return p.scan(ctx, share, func(found []Found) error { return p.copyRows(ctx, rec, found) })
		})
	}); err != nil {
		return PartDone{Rows: p.rows}, err
	}
	if err := p.unchanged(ctx, rec); err != nil { // what was read meanwhile may lack what is new
		return PartDone{Rows: p.rows}, err
	}
	rec, err = p.update(ctx, false, func(rec *catalogue.Migration) (err error) {
		if rec.Round != began || !rec.Phase.Dual() {
			return notAt(*rec, "it was ended while rows were copied")
		}
		if !rec.Copy.Spans.Has(span) {
			rec.Copy.Spans = rec.Copy.Spans.With(span)
			rec.Copy.Rows.Add(p.rows)
		}
		if rec.Copy.Over() && rec.Copied == 0 {
			rec.Copied, err = p.now(ctx)
		}
		return err
	})
	return PartDone{Rows: p.rows, Over: rec.Copy.Over()}, err
}

// copying returns the record of a migration that goes on, whose copy has begun.
func (p *pass) copying(ctx context.Context) (catalogue.Migration, error) {
	copies := func(rec catalogue.Migration) error {
		switch {
		case !rec.Phase.Dual():
			return notAt(rec, "rows are copied only between prepare and cut-over")
		case rec.Paused:
			return ErrPaused
		}
		return nil
	}
	rec, err := p.record(ctx)
	if err != nil || rec.Phase != catalogue.PhasePrepared {
		return rec, cmp.Or(err, copies(rec))
	}
	return p.update(ctx, false, func(rec *catalogue.Migration) error {
		if rec.Phase == catalogue.PhasePrepared && !rec.Paused {
			rec.Phase, rec.Copy.Began = catalogue.PhaseCopying, time.Now().UnixMilli()
		}
		return copies(*rec)
	})
}

// copyRows copies rows as they were found.
func (p *pass) copyRows(ctx context.Context, rec catalogue.Migration, found []Found) error {
	if asOf, earlier := p.asOf(rec); earlier {
		var err error
		if found, err = p.backdate(ctx, rec, asOf, found); err != nil || len(found) == 0 {
			return err
		}
	}
	if p.table.Pages != nil {
		return p.copyIntoPages(ctx, found)
	}
	return p.copyBatch(ctx, rec, found)
}

// copyIntoPages has rows that the source was found to have looked at again, page by page.
func (p *pass) copyIntoPages(ctx context.Context, found []Found) error {
	if err := p.going(ctx); err != nil {
		return err
	}
	rows, r := make([]store.Row, len(found)), &round{found: found}
	for i, f := range found {
		rows[i] = f.Row
	}
	var err error
	if r.keys, err = bykey.KeysOf(ctx, p.table.Now(), rows); err != nil {
		return err
	}
	all, err := p.reconcile(ctx, rows, false)
	if err != nil {
		return err
	}
	for i := range all {
		r.out = append(r.out, &all[i])
	}
	p.countCopied(r)
	return nil
}

// copyBatch puts the rows that the table has not, and reconciles those that it has otherwise.
func (p *pass) copyBatch(ctx context.Context, rec catalogue.Migration, found []Found) error {
	r, err := p.sees(ctx, found)
	if err != nil {
		return err
	}
	if err := p.going(ctx); err != nil { // after the rows of the table were read
		return err
	}
	ctx, cancel := pause.Outlasting(ctx, followTime) // who has put rows looks at the source again, whatever happens
	defer cancel()
	var fresh, other []int
	for i, w := range r.wish {
		switch {
		case r.out[i].refused != nil, w.is(r.t, &r.seen[i]):
		case w.record != nil && r.seen[i].Untouched():
			fresh, r.out[i].added = append(fresh, i), true
		default:
			other = append(other, i)
		}
	}
	if asOf, earlier := p.asOf(rec); earlier {
		var lasting []int
		lasting, fresh = chunks.Divide(fresh, func(i int) bool { return r.found[i].lasting() })
		if _, err := r.store(ctx, lasting, p.asEarlier(asOf)); err != nil {
			return err
		}
	}
	if r.t.Meta.Conditional {
		made, err := r.become(ctx, fresh)
		if err != nil {
			return err
		}
		for _, i := range fresh {
			if !made[i] && r.out[i].refused == nil {
				other, r.out[i].added = append(other, i), false
			}
		}
	} else {
		changed, err := p.insert(ctx, r, fresh)
		if err != nil {
			return err
		}
		other = append(other, changed...)
	}
	if err := p.mend(ctx, r, other); err != nil {
		return err
	}
	p.countCopied(r)
	return nil
}

// countCopied counts the rows of a round that was copied.
func (p *pass) countCopied(r *round) {
	p.count(r, func(i int, one *Counts) {
		switch out := r.out[i]; {
		case out.added:
			one.Copied++
		case out.changed:
			one.Mended++
		default:
			r.countEqual(i, one)
		}
	})
}

// countEqual counts a row that is as the source has it, which may be nowhere.
func (r *round) countEqual(i int, one *Counts) {
	if r.found[i].Exists {
		one.Equal++
	} else {
		one.Ignored++
	}
}

// insert puts rows that the table has not, and returns those that the source has otherwise by then.
func (p *pass) insert(ctx context.Context, r *round, which []int) (changed []int, err error) {
	rows := make([]store.Row, len(which))
	for n, i := range which {
		rows[n] = r.found[i].Row
	}
	taken, err := r.store(ctx, which, asNew)
	if err != nil || len(which) == 0 {
		return nil, err
	}
	changed = append(changed, taken...)
	now, err := p.source.Read(ctx, rows)
	if err != nil {
		return nil, ofSource(err)
	}
	for n, i := range which {
		w, err := wanted(r.t, now[n])
		if !slices.Contains(changed, i) && (err != nil || !w.is(r.t, &engine.Seen{Record: r.wish[i].record})) {
			changed = append(changed, i)
		}
	}
	return changed, nil
}

// count counts the rows of a round: those that are refused, and each other one by what a function says.
func (p *pass) count(r *round, each func(i int, one *Counts)) {
	var all Counts
	for i, out := range r.out {
		if out.mixed {
			all.Mixed++
		}
		if out.refused != nil {
			all.Refused++
			p.finds(r.keys[i], r.found[i], fault.Unfit(out.refused))
			continue
		}
		each(i, &all)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rows.Add(all)
}

// tableRows reads a part of the table, and hands its rows on in batches.
func (p *pass) tableRows(ctx context.Context, part inspect.Part, do func(rows []store.Row) error) error {
	return p.table.Scan(ctx, part, func(t *engine.Engine, found []layouts.Row) error {
		rows, torn := make([]store.Row, 0, len(found)), 0
		for _, f := range found {
			if errors.Is(f.Err, fault.ErrTorn) { // nobody knows its key: if the source has it, a repair of that part mends it
				torn++
				p.finds(nil, Found{}, errMixture)
			} else if f.Err != nil {
				return f.Err
			} else {
				rows = append(rows, t.Row(f.Record, nil))
			}
		}
		p.batch(len(rows))
		p.mu.Lock()
		p.here, p.rows.Differs = p.here+len(rows), p.rows.Differs+torn
		p.mu.Unlock()
		return do(rows)
	})
}

// asEarlier returns what makes a record one that counts as made earlier.
func (p *pass) asEarlier(asOf time.Time) func(*rowcodec.View, *rowcodec.Record) {
	return func(t *rowcodec.View, r *rowcodec.Record) {
		asNew(t, r)
		if t.Backdates() { // of which another client may have changed the schema just now
			r.AsOf = asOf
			r.Write = p.table.Database().Catalogue.WriteOf(p.table.ID(), bykey.Content(t, r))
		}
	}
}

// asNew makes a record one of which the caller says that there is no earlier row.
func asNew(_ *rowcodec.View, r *rowcodec.Record) { r.Insert = true }

// lasting reports whether no value of the row expires.
func (f *Found) lasting() bool { return f.Exists && f.Expires.IsZero() && !f.Mixed }

// backdate copies the rows that were written before the migration was prepared, without a look at the table, and returns the others. No
// Mirror has told the table of these writes. Where it has, by a clock that is wrong, an index entry that leads to nothing is left.
func (p *pass) backdate(ctx context.Context, rec catalogue.Migration, asOf time.Time, found []Found) (others []Found, err error) {
	prepared := time.UnixMilli(rec.Prepared)
	rows, others := chunks.Divide(found, func(f Found) bool { return f.lasting() && !f.Written.IsZero() && f.Written.Before(prepared) })
	if len(rows) == 0 {
		return others, nil
	}
	if err := p.going(ctx); err != nil {
		return nil, err
	}
	earlier := p.asEarlier(asOf)
	err = p.table.Now().Expiring(0).PutEach(ctx, len(rows), func(t *rowcodec.View, i int) (*rowcodec.Record, error) {
		r, err := t.Check(rows[i].Row)
		if err == nil {
			earlier(t, r)
		}
		return r, err
	})
	switch one := (*fault.RowError)(nil); {
	case errors.As(err, &one):
		return found, nil // which finds out which rows the table does not take
	case err != nil:
		return nil, err
	}
	p.mu.Lock()
	p.rows.Copied += len(rows)
	p.mu.Unlock()
	return others, nil
}
