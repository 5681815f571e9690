package migrate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rangecrypt/rangecrypt/internal/rowsize"
	"github.com/rangecrypt/rangecrypt/store/inspect"
	"github.com/rangecrypt/rangecrypt/store/internal/administer"
	"github.com/rangecrypt/rangecrypt/store/internal/catalogue"
	"github.com/rangecrypt/rangecrypt/store/internal/fault"
	"github.com/rangecrypt/rangecrypt/store/internal/layouts"
	"github.com/rangecrypt/rangecrypt/store/internal/rowcodec"
	"github.com/rangecrypt/rangecrypt/store/internal/value"
)

// A Plan is what Prepare finds out before anything is stored.
type Plan struct {
	Source   string
	Unfit    []string // sentences: why the source cannot come into the table
	Unmapped []string // sentences: what of the source has no place in an encrypted table
	Notes    []string // sentences: what is to be known
	Before   []string // sentences: what to do before Drop

	Rows, Bytes int64 // of the source, as its database estimates them; 0 where it does not
	AtLeast     bool  // there may be far more rows than these

	// What the first rows tell, of which there are so many.
	Sampled, Refused int           // and those of them that the table does not take
	Reason           string        // why it does not take the first of these; it has no value
	Space            int64         // of all rows in the table, with their index entries; 0 where nothing is known
	Time             time.Duration // that one process takes for all of them, if writing a row takes as long as reading and encrypting it; 0 where nothing is known
}

// sampled is how many rows an estimate is made of.
const sampled = 500

// Plan looks at the source and the table, and changes nothing.
func (m *Migration) Plan(ctx context.Context) (Plan, error) {
	p, err := m.plan(ctx)
	return p, m.failed("plan the migration into", err)
}

// Prepare begins a migration, if its plan has nothing that is unfit or unmapped. All writers of the source write through a
// [Mirror] before rows are copied. The table must be empty, unless the caller wants to continue with the rows that it has. Nobody may be
// writing them through the Mirror of an earlier migration then. A plan or a table that does not do is [ErrUnfit], one prepared before [ErrPhase],
// and one whose own rows are coming into another table of the store, or have come: its Drop would remove it.
func (m *Migration) Prepare(ctx context.Context, continues bool) (Plan, error) {
	fingerprint, err := m.source.Fingerprint(ctx) // of before the plan: passes refuse what is altered during it
	if err != nil {
		return Plan{}, m.failed("prepare the migration into", ofSource(err))
	}
	p, err := m.plan(ctx)
	switch {
	case err != nil:
	case len(p.Unfit)+len(p.Unmapped) > 0:
		why := slices.Concat(p.Unfit, p.Unmapped)
		err = fmt.Errorf("%w: %s", ErrUnfit, strings.TrimSuffix(why[0], "."))
		if len(why) > 1 {
			err = fmt.Errorf("%w, and more that the plan says", err)
		}
	case !continues:
		err = m.empty(ctx)
	}
	if errors.Is(err, ErrUnfit) { // what goes on may have brought the rows that are there
		rec, _ := m.record(ctx)
		err = cmp.Or(begins(rec), err)
	}
	if err != nil {
		return p, m.failed("prepare the migration into", err)
	}
	return p, m.advance(ctx, "prepare the migration into", func(rec *catalogue.Migration) error {
		if err := begins(*rec); err != nil {
			return err
		}
		*rec = catalogue.Migration{
			Round: rec.Round + 1, Source: p.Source, Fingerprint: fingerprint, Phase: catalogue.PhasePrepared, Prepared: time.Now().UnixMilli(),
			Empty: !continues,
		}
		return nil
	})
}

// begins returns an error where a migration is, or is over.
func begins(rec catalogue.Migration) error {
	if rec.Phase != "" && rec.Phase != catalogue.PhaseAborted {
		return notAt(rec, "what goes on, or is over, is not prepared again: go on with it or abort it before the cut-over, and take another table after that")
	}
	return nil
}

// empty returns an error if there are rows, or marks of rows that were deleted.
func (m *Migration) empty(ctx context.Context) error {
	t := m.table.Now()
	r := t.Rows(0, 1)
	r.Limit = 1
	for _, err := range t.Data.Scan(ctx, r) {
		return cmp.Or(err, fmt.Errorf("%w: the table is not empty, and has perhaps marks of deleted rows: take a new one, or continue with what it has (--continue)", ErrUnfit))
	}
	return nil
}

func (m *Migration) plan(ctx context.Context) (Plan, error) {
	d, err := m.source.Describe(ctx)
	if err != nil {
		return Plan{}, ofSource(err)
	}
	t, err := m.table.Refresh(ctx)
	if err == nil {
		err = administer.NoSource(ctx, m.table.Table, m.source)
	}
	if err != nil {
		return Plan{}, err
	}
	p := Plan{Source: m.source.Name(), Unmapped: d.Unmapped, Before: d.BeforeDrop, Notes: d.Notes, Rows: d.Rows, Bytes: d.Bytes, AtLeast: d.AtLeast}
	p.compare(t.View, d)
	if len(p.Unfit) == 0 {
		err = m.sample(ctx, &p)
	}
	return p, err
}

// compare finds out what of a source has no place in a table.
func (p *Plan) compare(t *rowcodec.View, d Description) {
	unfit := func(format string, args ...any) { p.Unfit = append(p.Unfit, fmt.Sprintf(format, args...)) }
	if len(d.Key) != len(t.Parts) {
		unfit("The source has %d columns in its primary key, and the row key of the table has %d parts: make the table with the same.", len(d.Key), len(t.Parts))
	}
	for i := range min(len(d.Key), len(t.Parts)) {
		if c := t.Parts[i]; c.Name != d.Key[i].Name {
			unfit("The source's primary key has %[2]q at place %[1]d, and the row key of the table has %[3]q: the same parts in the same order are needed.", i+1, d.Key[i].Name, c.Name)
		} else if !fits(d.Key[i], c) {
			unfit("The key column %q has type %s in the source, which %s of the table does not take.", c.Name, d.Key[i].Foreign, c.Type)
		}
	}
	known := make(map[string]bool)
	for _, c := range d.Columns {
		known[c.Name] = true
		to := t.ByName[c.Name]
		switch {
		case to == nil || to.Part >= 0:
			unfit("The table has no column %q: add it, or drop it from the source.", c.Name)
		case !fits(c, to):
			unfit("The column %q has type %s in the source, which %s of the table does not take.", c.Name, c.Foreign, to.Type)
		}
	}
	for _, c := range t.Columns {
		if !known[c.Name] {
			p.Notes = append(p.Notes, fmt.Sprintf("The source has no column %q: it is null in all rows.", c.Name))
		}
	}
	if !t.Meta.Conditional && !t.Meta.Paged() {
		p.Notes = append(p.Notes, "The table is not conditional: before the cut-over, stop the writers or wait until no dual write can be under way.")
	}
	switch {
	case t.Meta.Expires():
	case d.TTL > 0:
		unfit("The source keeps rows for %v by default, and those of the table do not expire: make one with a time to live, neither conditional nor of pages.", d.TTL)
	default:
		p.Notes = append(p.Notes, "No row of the table expires: a row of the source that does is refused, and keeps the cut-over from being made.")
	}
}

func fits(c Column, to *rowcodec.Column) bool {
	typ, err := value.Parse(c.Type.String())
	return err == nil && value.Takes(typ.GoType(), to.Type.GoType())
}

// sample reads some rows and encrypts them, to estimate time and space.
func (m *Migration) sample(ctx context.Context, p *Plan) error {
	s := &sampling{left: sampled}
	err := m.each(ctx, func(one *Migration) error {
		if s.left == 0 {
			return nil
		}
		return one.sampleRows(ctx, p, s)
	})
	if p.Sampled > 0 && p.Rows > 0 {
		p.Space = int64(s.bytes) * p.Rows / int64(p.Sampled)
		p.Time = (2 * s.took / time.Duration(p.Sampled) * time.Duration(p.Rows)).Round(time.Second)
	}
	return err
}

// A sampling is what the first rows tell.
type sampling struct {
	left  int // rows to be read
	bytes int
	took  time.Duration
}

// sampleRows reads and encrypts rows of the source.
func (m *Migration) sampleRows(ctx context.Context, p *Plan, s *sampling) error {
	began, found, bytes := time.Now(), make([]Found, 0, s.left), 0
	for f, err := range m.source.Scan(ctx, inspect.Part{Index: 0, Of: 1}) {
		if err != nil {
			return ofSource(err)
		}
		found, bytes = append(found, f), bytes+rowsize.Of(f.Row)
		if len(found) == s.left || bytes >= 8*rowsize.Enough {
			break
		}
	}
	t, stateful := m.table.Now(), false
	for _, c := range t.ByName {
		stateful = stateful || c.Stateful
	}
	for _, f := range found {
		w, err := wanted(t, f)
		if err == nil && w.record != nil && !stateful { // whose values are put into no index before anything begins
			_, err = t.EncodeAll(ctx, []*rowcodec.Record{w.record})
		}
		switch {
		case err != nil && fault.IsOfRow(err):
			p.Refused, p.Reason = p.Refused+1, cmp.Or(p.Reason, fault.Unfit(err).Error())
		case err != nil:
			return err
		case w.record != nil:
			s.bytes += layouts.Size(t.View, w.record)
		}
	}
	p.Sampled, s.left, s.took = p.Sampled+len(found), s.left-len(found), s.took+time.Since(began)
	return nil
}
