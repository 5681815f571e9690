package maintain

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/rangecrypt/rangecrypt/internal/pause"
	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/inspect"
	"github.com/rangecrypt/rangecrypt/store/internal/catalogue"
	"github.com/rangecrypt/rangecrypt/store/internal/engine"
	"github.com/rangecrypt/rangecrypt/store/internal/fault"
	"github.com/rangecrypt/rangecrypt/store/internal/meta"
	"github.com/rangecrypt/rangecrypt/store/internal/rowcodec"
	"github.com/rangecrypt/rangecrypt/store/internal/session"
)

// VerifyOptions are the options of [Verifier], as package store describes them.
type VerifyOptions struct {
	Repair   bool
	Grace    time.Duration // default defaultGrace
	Every    int           // default 1
	Fault    func(inspect.Fault)
	Progress func(step string, done int)
}

// defaultGrace is the one that package store documents.
const defaultGrace = 10 * time.Minute

// A Verifier is one execution of Verify.
type Verifier struct {
	// Pause waits before something is looked at again, and AwaitGrace for the grace period. A simulation has a
	// clock of its own.
	Pause, AwaitGrace func(context.Context) error

	of          *session.Table
	table       *engine.Engine // as it is known
	opts        VerifyOptions
	part, parts int
	report      inspect.Verification

	schemes map[*rowcodec.Column]ope.Scheme // clients of their own, which remember nothing from before
	indexes map[*rowcodec.Column]*indexed   // of stateful columns that are in use
	mender  *engine.Engine                  // see fresh
	lowest  map[*rowcodec.Column][]byte     // ciphertext of the lowest value, where the order may be rotated
	by      map[meta.ColumnID]*rowcodec.Column
	dropped map[meta.ColumnID]bool // columns, whose postings point to nothing

	turn     chan struct{}          // for the mender, which has one place
	told     map[string]bool        // rows whose key or ciphertexts were reported, some
	lost     map[meta.ColumnID]bool // columns, whose indexes could not be made again
	dangling []driver.Row           // with their cells where these tell whether it was put again
	room     int                    // for dangling
}

// NewVerifier returns a verifier of a table.
func NewVerifier(of *session.Table, opts VerifyOptions) *Verifier {
	v := &Verifier{
		turn: make(chan struct{}, 1),
		of:   of, table: of.Now(), opts: opts, parts: 1, Pause: func(ctx context.Context) error { return pause.For(ctx, lookAgain) },
		told: make(map[string]bool), lost: make(map[meta.ColumnID]bool), room: mostDangling,
	}
	if v.opts.Grace == 0 {
		v.opts.Grace = defaultGrace
	}
	if v.opts.Every == 0 {
		v.opts.Every = 1
	}
	v.report.Faults = make(map[inspect.FaultKind]int)
	v.AwaitGrace = v.waitGrace
	return v
}

// Only leaves of the table one of some parts to be verified: its rows, and a share of the postings of each column. The parts of a
// table are each verified once, whatever they are cut into. What is of the table as a whole is of its first part: the indexes of
// stateful schemes. The others read these, too, since rows are compared with them.
func (v *Verifier) Only(part, parts int) *Verifier {
	v.part, v.parts = part, parts
	return v
}

const (
	// mostDangling is how many dangling postings are kept to be dropped.
	mostDangling = 250_000

	// mostTold is of how many rows is remembered that they were reported, so as not to report them
	// again because they are out of order.
	mostTold = 10_000

	// lookAgain is how long after something looked wrong it is looked at again.
	lookAgain = 20 * time.Millisecond

	// mostChanges is how often the schema may change while one thing is looked at.
	mostChanges = 10
)

// Run verifies the table. It returns what was found also with an error.
func (v *Verifier) Run(ctx context.Context) (_ *inspect.Verification, err error) {
	if v.ofAll() {
		err = v.runTenants(ctx)
	} else if err = v.check(ctx); err == nil {
		err = dropDangling(ctx, v)
	}
	return &v.report, err
}

// ofAll reports whether what is stored for each tenant is verified.
func (v *Verifier) ofAll() bool { return v.table.Meta.Tenants && !v.of.Bound() }

// check reads all there is.
func (v *Verifier) check(ctx context.Context) error {
	if v.opts.Grace < 0 {
		return fmt.Errorf("%w: a grace period of %v, need 0 for the default or a longer one", driver.ErrRange, v.opts.Grace)
	}
	if v.opts.Every < 0 {
		return fmt.Errorf("%w: the values of one row in %d, need 0 for the default or at least 1", driver.ErrRange, v.opts.Every)
	}
	now, err := v.of.Refresh(ctx)
	if err != nil {
		return err
	}
	if err := v.goOn(ctx, now); err != nil {
		return err
	}
	// Values come before rows in an index, and rows after their postings: what is read in this order
	// is there unless it is missing.
	if err := v.checkIndexes(ctx); err != nil {
		return err
	}
	if err := v.checkRows(ctx); err != nil {
		return err
	}
	if err := v.convertAgain(ctx); err != nil {
		return err
	}
	return v.checkPostings(ctx)
}

// errStale is returned by what mends when the schema has changed since it was read.
var errStale = errors.New("the schema has changed")

// steady calls look, which reports whether anything is wrong, until nothing is, or the catalogue says
// afterwards what it said before. Then it calls mend, if not nil. Where that returns errStale all is
// looked at again.
func (v *Verifier) steady(ctx context.Context, look func() (bool, error), mend func() error) error {
	for changes := 0; ; changes++ {
		if err := v.goOn(ctx, v.of.Now()); err != nil { // another call, or a newer row, may have had a look
			return err
		}
		t := v.table
		wrong, err := look()
		if err == nil && !wrong {
			return nil
		}
		now, failed := refreshed(ctx, t, err)
		switch {
		case failed != nil:
			return cmp.Or(err, failed)
		case now.Same(t.View) && v.table.Same(t.View):
			if err != nil || mend == nil {
				return err
			}
			if err = mend(); !errors.Is(err, errStale) {
				return err
			}
		}
		if changes == mostChanges {
			return fmt.Errorf("%w, each time that something which looked wrong was looked at again; verify when nobody changes it", fault.ErrSchemaChanged)
		}
		pause.Repeats(ctx, "schema_changed")
	}
}

// refreshed reads the table in the catalogue after an error. A database that has just not answered, for as long as a call may
// take, is not waited for as long again.
func refreshed(ctx context.Context, t *engine.Engine, err error) (*engine.Engine, error) {
	if errors.Is(err, driver.ErrUnavailable) {
		var end func()
		ctx, end = context.WithTimeout(ctx, 3*time.Second)
		defer end()
	}
	return t.Env.Refresh(ctx)
}

// goOn goes on with another view of the table. What was read of indexes counts where they are the same.
func (v *Verifier) goOn(ctx context.Context, now *engine.Engine) error {
	was, indexes := v.table, v.indexes
	if indexes != nil && now.Same(was.View) {
		return nil
	}
	v.table = now
	if err := v.prepare(ctx); err != nil {
		return err
	}
	for _, c := range slices.Concat(now.Parts, now.Stored) {
		for old, x := range indexes {
			if old.Id == c.Id && old.Unit == c.Unit && old.Filling == c.Filling {
				v.indexes[c] = x
			}
		}
	}
	v.listIndexes()
	return nil
}

// prepare makes clients of the stateful schemes, and finds out where orders begin.
func (v *Verifier) prepare(ctx context.Context) error {
	t := v.table
	v.schemes, v.indexes = make(map[*rowcodec.Column]ope.Scheme), make(map[*rowcodec.Column]*indexed)
	v.lowest, v.by = make(map[*rowcodec.Column][]byte), make(map[meta.ColumnID]*rowcodec.Column)
	v.dropped = make(map[meta.ColumnID]bool)
	for _, id := range t.Meta.Dropped {
		v.dropped[id] = true
	}
	for _, c := range slices.Concat(t.Parts, t.Stored) {
		if c.Posted() {
			v.by[c.Id] = c
		}
		if c.Encryption != meta.Ordered {
			continue
		}
		v.schemes[c] = c.Scheme
		if c.Stateful {
			const remembers = 4096 // the least
			scheme, err := c.NewScheme(remembers)
			if err != nil {
				return fmt.Errorf("column %q: %w", c.Name, err)
			}
			v.schemes[c] = scheme
		}
		if _, linear := c.Scheme.(ope.Linear); !linear && c.Order == nil && c.Text == nil {
			lowest, err := c.Scheme.Encrypt(ctx, c.Scheme.Domain().Min)
			if err != nil {
				return fmt.Errorf("column %q: %w", c.Name, err)
			}
			v.lowest[c] = lowest
		}
	}
	return nil
}

func (v *Verifier) progress(step string, done int) {
	if v.opts.Progress != nil {
		v.opts.Progress(step, done)
	}
}

// tenant returns the name of the tenant whose rows are verified, or "".
func (v *Verifier) tenant() string {
	return v.table.TenantName()
}

// fault takes note of a fault.
func (v *Verifier) fault(f inspect.Fault) {
	f.Tenant = v.tenant()
	v.report.PutBack = v.report.PutBack || errors.Is(f.Err, catalogue.ErrPutBack)
	v.report.Faults[f.Kind]++
	if f.Kind == inspect.FaultKey && len(v.told) < mostTold {
		v.told[string(f.Place)] = true
	}
	if f.Repaired {
		v.report.Repaired++
	}
	if v.opts.Fault != nil {
		v.opts.Fault(f)
	}
}
