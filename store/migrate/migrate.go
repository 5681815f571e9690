package migrate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/internal/administer"
	"github.com/rangecrypt/rangecrypt/store/internal/catalogue"
	"github.com/rangecrypt/rangecrypt/store/internal/fault"
	"github.com/rangecrypt/rangecrypt/store/internal/layouts"
	"github.com/rangecrypt/rangecrypt/store/internal/session"
)

// Errors that callers may branch on. They are returned wrapped; use errors.Is.
var (
	// ErrPhase is returned when a migration is not at the phase that a call is for. The error says what comes next.
	// [store.Store.Drop] returns it, too, of a table whose rows are coming into another one of the same store, and of that one.
	ErrPhase = fault.ErrPhase

	// ErrCutOver is returned by [Mirror.Write] from the cut-over on: write to the store's table now. If the cut-over came while the
	// call went on, the error says that the source has the write.
	ErrCutOver = errors.New("migrate: the table has been cut over: write to it, and no longer to the source")

	// ErrPaused is returned by copies and verifications while a migration is paused. What was done stays.
	ErrPaused = errors.New("migrate: the migration is paused: resume it first")

	// ErrSource is returned when the source is not the one that was prepared, or has changed its schema since.
	ErrSource = errors.New("migrate: the source is not what was prepared")
	errNone   = fmt.Errorf("%w: no source is given", ErrSource)

	// ErrUnfit is returned when rows of the source cannot come into the table, or a row cannot.
	ErrUnfit = fault.ErrUnfit

	// ErrDiffers is returned when a step asks for a complete verification that found no difference, and there is none.
	ErrDiffers = errors.New("migrate: it is not verified that the table has what the source has")
)

// A Migration brings the rows of a source into a table. Any number of processes may have it open. It is safe for concurrent use.
type Migration struct {
	table  *layouts.Table
	source Source
}

// New returns the migration from a source into a table, which must have the source's primary key as its row key: the same names, types and
// order, under any encryption. Into one with AppendOnly rows come only [FromTable], where that has AppendOnly, too: any other source replaces rows. Into one with tenants
// they come only from one with tenants: those of each tenant into its own rows. It must not be open for one. A source that is nil
// does for Status, Pause and Abort, and all else is [ErrSource].
func New(tbl *store.Table, source Source) (*Migration, error) {
	if tbl == nil {
		return nil, errors.New("migrate: no table is given")
	}
	return into(layouts.Of((*session.Table)(tbl)), source)
}

// Open is [New] for the table that has a name. One that is not there is [store.ErrNoTable]. It may be one of pages: then neither
// a dual write nor a copy replaces a page that somebody has written since it was read. Rows that expire are [ErrUnfit] there.
func Open(ctx context.Context, st *store.Store, table string, source Source) (*Migration, error) {
	tbl, err := layouts.Open(ctx, session.Of(st), table)
	if err != nil {
		return nil, fmt.Errorf("migrate: open table %q: %w", table, err)
	}
	return into(tbl, source)
}

func into(tbl *layouts.Table, source Source) (*Migration, error) {
	m := &Migration{table: tbl, source: cmp.Or(source, Source(none{}))}
	s, tenants := source.(tenanted)
	tenants = tenants && s.hasTenants(m.table.Now().Meta.Tenants)
	switch t := m.table.Now(); {
	case m.table.Bound():
		return nil, fmt.Errorf("%w: table %q is open for one tenant, and the rows of all come: open it without", ErrUnfit, t.Meta.Name)
	case t.Meta.Tenants && !tenants && source != nil:
		return nil, fmt.Errorf("%w: table %q has tenants, and the source says of no row whose it is", ErrUnfit, t.Meta.Name)
	case tenants && !t.Meta.Tenants:
		return nil, fmt.Errorf("%w: the source has tenants, and table %q has none: make it with tenants", ErrUnfit, t.Meta.Name)
	case t.Meta.AppendOnly() && source != nil && !appends(source):
		return nil, fmt.Errorf("%w: table %q only appends, and rows of the source are replaced: make one that is conditional, or neither", ErrUnfit, t.Meta.Name)
	}
	if s, is := source.(interface{ into(*session.Table) bool }); is && s.into(m.table.Table) {
		return nil, fmt.Errorf("%w: table %q would come into itself: make another one", ErrUnfit, m.table.Now().Meta.Name)
	}
	return m, nil
}

// none is the source of who has given none. Whoever reads a source compares its name before, or asks what it is.
type none struct{ Source }

func (none) Name() string                                  { return "none" }
func (none) Describe(context.Context) (Description, error) { return Description{}, errNone }
func (none) Fingerprint(context.Context) (string, error)   { return "", errNone }
func (none) Now(context.Context) (time.Time, error)        { return time.Time{}, errNone }

// appends reports whether rows of a source are added and deleted, and never replaced.
func appends(source Source) bool {
	s, is := source.(interface{ appends() bool })
	return is && s.appends()
}

// A tenanted is a source that may have tenants. The rows of each are a source of its own.
type tenanted interface {
	hasTenants(gone bool) bool // or gone, if it is not there any more
	eachTenant(ctx context.Context, do func(tenant string, of Source) error) error
	ofTenant(ctx context.Context, tenant string) (Source, error)
	carryPolicy(ctx context.Context, tenant string, into *session.Table) error
}

// The rows of a table with tenants are those of each tenant, under keys and a policy of its own. So a migration of such a table has
// one record, and does each part of its passes for one tenant after the other. A part is done when it is done for all. A tenant that
// is made later has no rows in the source but what its writers put there through a Mirror.

// each calls do with the migration of the rows of each tenant that the source has or, in a table without tenants, with this one.
func (m *Migration) each(ctx context.Context, do func(*Migration) error) error {
	if !m.table.Now().Meta.Tenants {
		return do(m)
	}
	return m.source.(tenanted).eachTenant(ctx, func(tenant string, from Source) error { // which New has seen
		one, err := m.of(ctx, tenant, from)
		if err != nil {
			return err
		}
		return do(one)
	})
}

// of returns the migration of the rows of one tenant.
func (m *Migration) of(ctx context.Context, tenant string, from Source) (*Migration, error) {
	if err := m.source.(tenanted).carryPolicy(ctx, tenant, m.table.Table); err != nil {
		return nil, err
	}
	into, err := m.table.ForTenant(ctx, tenant)
	if err != nil {
		return nil, err
	}
	return &Migration{table: layouts.Of(into), source: from}, nil
}

// noStrangers returns an error if the table has rows of a tenant that the source has not.
func (m *Migration) noStrangers(ctx context.Context) error {
	s, is := m.source.(tenanted)
	if !is || !m.table.Now().Meta.Tenants {
		return nil
	}
	return administer.NoStrangers(ctx, m.table.Table, func(tenant string) error { _, err := s.ofTenant(ctx, tenant); return err })
}

// Counts are how many rows a pass met, by what became of them. The fields are integers: Copied into the table, Equal there before,
// Mended to be what the source has, Differs and left so, Refused by the table, Mixed, whose values expire at different times, and Ignored, of which the source has nothing that is to be copied.
type Counts = catalogue.MigrationCount

// A Status is how far a migration is.
type Status struct {
	Phase   string // "" where there is none; else "prepared", "copying", "verified", "cut over", "dropped" or "aborted"
	Paused  bool
	Source  string
	Looked  bool // at the source's schema, which is done before the cut-over, by who has the source
	Changed bool // that has changed since Prepare

	Prepared, Copied, Verified, CutOver, Dropped time.Time // zero where it was not yet

	Copy, Verify Pass
}

// A Pass is how far a copy or a verification is.
type Pass struct {
	Began time.Time
	Done  float64 // the share of the source, by ranges of keys
	Rows  Counts
	Table int // rows of the table that a verification has read: while nobody writes, as many as are Equal
}

// Status says how far the migration is.
func (m *Migration) Status(ctx context.Context) (Status, error) {
	rec, err := m.record(ctx)
	if err != nil {
		return Status{}, m.failed("status of", err)
	}
	s := Status{
		Phase: string(rec.Phase), Paused: rec.Paused, Source: rec.Source,
		Prepared: timeOf(rec.Prepared), Copied: timeOf(rec.Copied), Verified: timeOf(rec.Verified), CutOver: timeOf(rec.CutOver), Dropped: timeOf(rec.Dropped),
		Copy: passOf(rec.Copy), Verify: passOf(rec.Verify),
	}
	if rec.Phase.Dual() && m.source != Source(none{}) {
		if err := m.same(rec); err != nil {
			return s, m.failed("status of", err)
		}
		err = m.unchanged(ctx, rec)
		if s.Changed = errors.Is(err, ErrSource); s.Changed {
			err = nil
		}
		s.Looked = err == nil
	}
	return s, m.failed("status of", err)
}

func timeOf(milliseconds int64) (t time.Time) {
	if milliseconds != 0 {
		t = time.UnixMilli(milliseconds)
	}
	return t
}

func passOf(p catalogue.MigrationPass) Pass {
	return Pass{Began: timeOf(p.Began), Done: p.Done(), Rows: p.Rows, Table: p.Table}
}

// Pause lets copies and verifications stop at their next batch, or go on if it is false. Dual writes go on.
func (m *Migration) Pause(ctx context.Context, paused bool) error {
	return m.advance(ctx, map[bool]string{true: "pause", false: "resume"}[paused], func(rec *catalogue.Migration) error {
		if !rec.Phase.Dual() && rec.Phase != catalogue.PhaseCutOver {
			return notAt(*rec, "nothing goes on that could be paused or resumed")
		}
		rec.Paused = paused
		return nil
	})
}

// Abort ends a migration before its cut-over. [Mirror.Write] goes on with the source alone. The table stays as it is, and is no
// longer kept up: drop it, and make another one to begin again.
func (m *Migration) Abort(ctx context.Context) error {
	return m.advance(ctx, "abort", func(rec *catalogue.Migration) error {
		if !rec.Phase.Dual() {
			return notAt(*rec, "only what is not cut over is aborted")
		}
		rec.Phase, rec.Paused = catalogue.PhaseAborted, false
		return nil
	})
}

// Cutover makes the table the one that applications write. It asks for a complete verification without differences, after all was
// copied. From then on [Mirror.Write] is [ErrCutOver]. Called again, it does nothing.
//
// Of a table with Conditional, or of pages, nothing is lost whatever still goes on. In any other one a dual write that sleeps since before the
// cut-over may replace what was written after it: stop the writers first, or wait until none can be under way.
func (m *Migration) Cutover(ctx context.Context) error {
	ready := func(rec catalogue.Migration) error {
		switch {
		case !rec.Phase.Dual():
			return notAt(rec, "only what is copied and verified is cut over")
		case rec.Copied == 0:
			return fmt.Errorf("%w: it is not copied to the end: copy it, and then verify it", ErrDiffers)
		case (rec.Verified == 0 || rec.Verified < rec.Copied) && rec.Verify.Over() && rec.Verify.Rows.Differs == 0 && rec.Verify.Rows.Refused > 0:
			return fmt.Errorf("%w: of the rows, it does not take %d, which a verification lists: change them, or the table, and verify it again with repair", ErrDiffers, rec.Verify.Rows.Refused)
		case rec.Verified == 0 || rec.Verified < rec.Copied:
			return fmt.Errorf("%w since it was copied: verify it, with repair where rows differ", ErrDiffers)
		}
		return nil
	}
	rec, err := m.record(ctx)
	if err == nil && rec.Phase == catalogue.PhaseCutOver {
		return m.failed("cut over", m.same(rec)) // somebody may not have heard of it
	}
	began, late := m.now(ctx)
	if err = cmp.Or(err, late, ready(rec)); err == nil {
		err = m.checked(ctx, rec)
	}
	if err != nil {
		return m.failed("cut over", err)
	}
	return m.advance(ctx, "cut over", func(rec *catalogue.Migration) error {
		if err := ready(*rec); err != nil {
			return err
		}
		rec.Phase, rec.Paused, rec.Checked = catalogue.PhaseCutOver, false, began
		rec.Verify, rec.Verified = catalogue.MigrationPass{}, 0
		rec.CutOver, err = m.now(ctx)
		return err
	})
}

// now returns the time, in milliseconds, by the clock of the source, whose write times are compared with it.
func (m *Migration) now(ctx context.Context) (int64, error) {
	at, err := m.source.Now(ctx)
	return at.UnixMilli(), ofSource(err)
}

// checked returns an error unless the source and the table still fit, and the table has what was written since it was verified.
func (m *Migration) checked(ctx context.Context, rec catalogue.Migration) error {
	if err := m.unchanged(ctx, rec); err != nil {
		return err
	}
	d, err := m.source.Describe(ctx)
	t, late := m.table.Refresh(ctx)
	if err := cmp.Or(ofSource(err), late); err != nil {
		return err
	}
	var plan Plan
	if plan.compare(t.View, d); len(plan.Unfit) > 0 {
		return fmt.Errorf("%w: %s", ErrUnfit, plan.Unfit[0])
	}
	p := m.pass(nil)
	if err := cmp.Or(m.noStrangers(ctx), p.fresh(ctx, rec)); err != nil { // a tenant may have been dropped since it was verified
		return err
	}
	if n := p.rows.Differs + p.rows.Refused; n > 0 {
		return fmt.Errorf("%w: of the rows that were written since it was verified, the table has %d otherwise, or does not take them: "+
			"verify it again, with repair, and see which rows are listed", ErrDiffers, n)
	}
	return nil
}

// record returns what the catalogue says of the migration.
func (m *Migration) record(ctx context.Context) (catalogue.Migration, error) {
	return m.table.Database().Catalogue.Migration(ctx, m.table.ID())
}

// advance changes once what the catalogue says of the migration, unless next returns an error.
func (m *Migration) advance(ctx context.Context, doing string, next func(*catalogue.Migration) error) error {
	_, err := m.update(ctx, true, next)
	return m.failed(doing, err)
}

func (m *Migration) update(ctx context.Context, once bool, next func(*catalogue.Migration) error) (catalogue.Migration, error) {
	var refused error
	rec, err := m.table.Database().Catalogue.UpdateMigration(ctx, m.table.ID(), once, func(rec catalogue.Migration) (catalogue.Migration, bool) {
		before := rec
		if refused = next(&rec); refused != nil {
			return before, false
		}
		return rec, true
	})
	return rec, fault.Join(err, refused)
}

// failed says what a call did when it failed.
func (m *Migration) failed(doing string, err error) error {
	if err == nil {
		return nil
	}
	if !errors.As(err, new(sourceError)) {
		err = fault.Gone(err)
	}
	return fmt.Errorf("migrate: %s table %q: %w", doing, m.table.Now().Meta.Name, err)
}

// A sourceError is an error of the source: what is not there is that, and not the table.
type sourceError struct{ error }

func (e sourceError) Unwrap() error { return e.error }

func ofSource(err error) error {
	if err != nil {
		err = sourceError{fmt.Errorf("source: %w", err)}
	}
	return err
}

func notAt(rec catalogue.Migration, why string) error {
	at := "there is none: begin with prepare"
	if rec.Phase != "" {
		at = "it is " + string(rec.Phase)
	}
	return fmt.Errorf("%w: %s, and %s", ErrPhase, at, why)
}

// same returns an error unless the source is the one that was prepared.
func (m *Migration) same(rec catalogue.Migration) error {
	if name := m.source.Name(); name != rec.Source {
		return fmt.Errorf("%w: that was %s, and this is %s", ErrSource, rec.Source, name)
	}
	return nil
}

// An identified source tells sources of one name apart: by what their fingerprints begin with, which never changes.
type identified interface {
	Meant(fingerprint string) error
}

// meant is same for a write, which tells another source of the same name. What is altered in the source keeps nobody from writing it.
func (m *Migration) meant(rec catalogue.Migration) error {
	err := m.same(rec)
	if s, is := m.source.(identified); is && err == nil {
		err = s.Meant(rec.Fingerprint)
	}
	return err
}

// unchanged returns an error unless it is, and as it was then.
func (m *Migration) unchanged(ctx context.Context, rec catalogue.Migration) error {
	if err := m.meant(rec); err != nil {
		return err
	}
	fingerprint, err := m.source.Fingerprint(ctx)
	switch {
	case err != nil:
		return ofSource(err)
	case fingerprint != rec.Fingerprint:
		return fmt.Errorf("%w: the schema of %s has changed since, or another table has its name: change it back or, before the cut-over, abort the migration and prepare it again; after it, drop the table yourself if it is another one", ErrSource, rec.Source)
	}
	return nil
}

// dual returns an error unless applications write the source and the table. Who sleeps may have another source than that which comes by now.
func (m *Migration) dual(ctx context.Context) (catalogue.Migration, error) {
	rec, err := m.record(ctx)
	switch {
	case err != nil:
	case rec.Phase == catalogue.PhaseCutOver, rec.Phase == catalogue.PhaseDropped:
		err = ErrCutOver
	case !rec.Phase.Dual():
		err = notAt(rec, "rows come into the table only between prepare and cut-over")
	default:
		err = m.meant(rec)
	}
	return rec, err
}

// going returns an error unless a pass may go on.
func (m *Migration) going(ctx context.Context) error {
	rec, err := m.dual(ctx)
	if err == nil && rec.Paused {
		err = ErrPaused
	}
	return err
}

// Followed returns [ErrPhase] if the rows of a table are coming into another one of the same store, or have come and the table is not
// dropped yet: a writer without a [Mirror] would write what the other one never gets.
func Followed(ctx context.Context, st *store.Store, table string) error {
	return administer.Followed(ctx, session.Of(st), table)
}
