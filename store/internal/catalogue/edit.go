package catalogue

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/rangecrypt/rangecrypt/internal/pause"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/internal/fault"
	"github.com/rangecrypt/rangecrypt/store/internal/meta"
)

// An Edit is a change of the catalogue in the making.
type Edit struct {
	c       *Catalogue
	id      changeID
	only    [][]byte // the entries that are read
	whole   bool     // all are
	root    Root
	cells   map[string]driver.Cell // entries and nodes that were read, by qualifier
	tree    Tree                   // of these
	entries map[string]Entry
	puts    map[string]Entry // without changes; empty where the table or tenant goes
	moved   []driver.Cell    // with keys that were moved out of the entries that are put

	tried    []byte           // the root that the last attempt expected
	replaced map[string]Entry // what it replaced
}

// errNarrow is returned to change by an edit that needs entries which were not read.
var errNarrow = errors.New("more of the catalogue is needed")

// Change makes one change of the catalogue: see changeEntries. It reads the entries of some tables.
func (c *Catalogue) Change(ctx context.Context, names []string, next func(*Edit) error) error {
	only := make([][]byte, len(names))
	for i, name := range names {
		only[i] = c.Qualifier(name)
	}
	return c.ChangeEntries(ctx, only, next)
}

// ChangeEntries makes one change of the catalogue, under one compare-and-set of the root: what next
// puts, knowing the given entries. If next puts nothing, nothing is left to do. It is
// called again when another client was faster, and then all it says counts afresh. The change counts as made when all
// writers know of it, see [Catalogue.Quiesce].
//
// Where the answer of the database is lost, the very same is put again as long as the root is as it
// was: the first may yet come, and what next says another time has other keys and ids. Then the
// change is looked for in what it would have put.
func (c *Catalogue) ChangeEntries(ctx context.Context, only [][]byte, next func(*Edit) error) error {
	e := &Edit{c: c, only: only}
	rand.Read(e.id[:])
	var unsure map[string]Entry // what an attempt of unknown outcome replaced
	var tried []byte            // the root that it expected
	var puts []driver.Cell
	err := swap(ctx, c.Family, func(lost *error) (expect driver.Cell, _ []driver.Cell, err error) {
		for {
			if expect, err = e.read(ctx); err != nil {
				return expect, nil, err
			}
			if *lost != nil && unsure == nil {
				tried, unsure = e.tried, e.replaced
			}
			if unsure != nil && bytes.Equal(expect.Value, tried) {
				return expect, puts, nil
			}
			if unsure != nil {
				switch made, certain := e.made(unsure); {
				case made:
					puts, *lost = nil, nil
					return expect, nil, nil
				case !certain:
					return expect, nil, nil
				}
				unsure, *lost = nil, nil // it cannot come any more
			}
			puts = nil
			if err = next(e); err == nil && len(e.puts) > 0 {
				puts, err = e.cellsToPut()
			}
			if errors.Is(err, errNarrow) {
				e.whole = true
				continue
			}
			if err == nil && len(e.puts) > 0 {
				e.tried, e.replaced = expect.Value, make(map[string]Entry)
				for q := range e.puts {
					e.replaced[q] = e.entries[q]
				}
				if e.awaited() {
					err = c.leavesTime(ctx)
				}
			}
			return expect, puts, err
		}
	})
	switch {
	case err != nil:
		return err
	case len(puts) == 0: // what is wanted is there: it may have come right now, or by a client that did not live to wait
		return fault.Made(c.Quiesce(ctx, e.root.Version))
	}
	c.changed(e.NextVersion())
	if !e.awaited() {
		return nil
	}
	return fault.Made(c.Quiesce(ctx, e.NextVersion()))
}

// awaited reports whether writers may know something else of what the last attempt puts. They know nothing of what is new.
func (e *Edit) awaited() bool {
	for _, before := range e.replaced {
		if before.Table != nil || before.Tenant != nil {
			return true
		}
	}
	return false
}

// swap replaces cells of the catalogue if one of them is what next has read, and calls next again if it is not. It is
// done when next has nothing to put. Where the answer of the database was lost, next finds the error in lost, and sets
// it to nil when it knows the outcome.
func swap(ctx context.Context, family driver.Family, next func(lost *error) (expect driver.Cell, puts []driver.Cell, err error)) error {
	var lost error
	for attempt := 0; ; attempt++ {
		expect, puts, err := next(&lost)
		if err != nil || len(puts) == 0 {
			return fault.Join(err, lost)
		}
		why := "catalogue_changed"
		done, err := family.CheckAndPut(ctx, Row, expect, puts...)
		switch {
		case errors.Is(err, driver.ErrUnknownOutcome):
			lost, why = err, "unknown_outcome"
		case err != nil:
			return fault.Join(err, lost)
		case done:
			return nil
		}
		if err := waitForTurn(ctx, why, attempt); err != nil {
			return fault.Join(err, lost)
		}
	}
}

// changedSince is the error of a change of unknown outcome that is not made again.
func changedSince(lost error) error {
	return fmt.Errorf("%w; another client has changed the same since: look what is there", lost)
}

// waitForTurn waits before the next attempt, and says why there is one.
func waitForTurn(ctx context.Context, why string, attempt int) error {
	return pause.Again(ctx, why, 2*time.Millisecond, 200*time.Millisecond, attempt)
}

// read reads what the edit is about, proves it, and returns the cell of the root.
func (e *Edit) read(ctx context.Context) (driver.Cell, error) {
	s := allOfIt
	if !e.whole {
		s = driver.Slice{Only: append([][]byte{RootQualifier}, e.only...)}
		for _, q := range e.only {
			s.Only = append(s.Only, Path(q)[1:]...)
		}
	}
	r, cells, err := e.c.read(ctx, s)
	if err != nil {
		return driver.Cell{}, err
	}
	e.root = r
	e.entries, e.puts, e.moved = make(map[string]Entry), make(map[string]Entry), nil
	e.cells = make(map[string]driver.Cell)
	for _, cell := range cells[1:] {
		q := string(cell.Qualifier)
		e.cells[q] = cell
		if q[0] == RootQualifier[0] {
			continue
		}
		if e.entries[q], err = e.c.OpenEntry(cell); err != nil {
			return driver.Cell{}, err
		}
		if at := e.entries[q].newest(); at > r.Version {
			return driver.Cell{}, PutBack(fmt.Sprintf("its root has version %d, and an entry is of version %d", r.Version, at))
		}
	}
	return cells[0], e.prove(ctx)
}

// prove returns an error unless the entries that were read are those that the root is of.
func (e *Edit) prove(ctx context.Context) (err error) {
	switch {
	case e.root.Format != FormatNoTree && e.whole:
		e.tree, err = e.c.ProveAll(e.root, e.cells)
	case e.root.Format != FormatNoTree:
		e.tree, err = e.c.ProveSome(e.root, e.cells, e.only)
	case e.whole:
		var all Digest
		for _, cell := range e.cells {
			one := e.c.Mac(cell)
			subtle.XORBytes(all[:], all[:], one[:])
		}
		if subtle.ConstantTimeCompare(all[:], e.root.Digest[:]) != 1 {
			err = errUnproven
		}
	}
	if len(e.entries) == 0 && !e.whole && (err != nil || e.root.Format == FormatNoTree) {
		// The root may be of another database, whose names are hashed under another key.
		return fault.Join(e.c.ours(ctx), err)
	}
	return err
}

// made reports whether an earlier attempt, which would have replaced the given entries, was made
// after all, and whether that is known.
func (e *Edit) made(replaced map[string]Entry) (made, certain bool) {
	for q, before := range replaced {
		now := e.entries[q].Changes
		if slices.Contains(now, e.id) {
			return true, true
		}
		// The list reaches back to the attempt if it was never cut, or still has what was the last.
		reaches := len(now) < KeptChanges
		if n := len(before.Changes); n > 0 {
			reaches = reaches || slices.Contains(now, before.Changes[n-1])
		}
		certain = certain || reaches
	}
	return false, certain
}

// NextVersion returns the version that the change makes.
func (e *Edit) NextVersion() uint32 { return e.root.Version + 1 }

// now returns an entry as it was put last or, if it was not, read.
func (e *Edit) now(q string) Entry {
	if put, is := e.puts[q]; is {
		return put
	}
	return e.entries[q]
}

// Table returns the meta of one of the named tables, or nil.
func (e *Edit) Table(name string) *meta.Table { return e.now(string(e.c.Qualifier(name))).Table }

// Find returns the meta of the table with an id, which had a name when it was last looked at.
func (e *Edit) Find(name string, id meta.TableID) (*meta.Table, error) {
	if meta := e.Table(name); meta != nil && meta.ID == id {
		return meta, nil
	}
	metas, err := e.Tables()
	if err != nil {
		return nil, err
	}
	for _, meta := range metas {
		if meta.ID == id {
			return meta, nil
		}
	}
	return nil, fault.ErrNoTable
}

// Tables returns the metas of all tables, by name.
func (e *Edit) Tables() ([]*meta.Table, error) {
	return byName(e, func(m Entry) *meta.Table { return m.Table }, func(m *meta.Table) string { return m.Name })
}

// Tenants returns the metas of all tenants, by name.
func (e *Edit) Tenants() ([]*meta.Tenant, error) {
	return byName(e, func(m Entry) *meta.Tenant { return m.Tenant }, func(m *meta.Tenant) string { return m.Name })
}

// byName returns the metas of one kind, which an entry has or not, in the order of names.
func byName[M any](e *Edit, of func(Entry) *M, name func(*M) string) ([]*M, error) {
	if !e.whole {
		return nil, errNarrow
	}
	var metas []*M
	for q := range e.entries {
		if meta := of(e.now(q)); meta != nil {
			metas = append(metas, meta)
		}
	}
	slices.SortFunc(metas, func(a, b *M) int { return strings.Compare(name(a), name(b)) })
	return metas, nil
}

// Put replaces or makes the entry of a table.
func (e *Edit) Put(meta *meta.Table) {
	meta.Version = e.NextVersion()
	if keys := meta.Archive(); keys != nil {
		e.moved = append(e.moved, e.c.sealArchive(meta.ID, meta.Archived.To-1, *keys))
	}
	e.puts[string(e.c.Qualifier(meta.Name))] = Entry{Table: meta}
}

// Remove leaves no table of the name.
func (e *Edit) Remove(name string) { e.puts[string(e.c.Qualifier(name))] = Entry{} }

// cellsToPut returns the cells of the change.
func (e *Edit) cellsToPut() ([]driver.Cell, error) {
	if e.root.Version == math.MaxUint32 {
		return nil, errAllVersions(e.root.Version)
	}
	next, fields := e.root, false
	next.Version++
	var puts []driver.Cell
	for q, entry := range e.puts {
		if !e.whole && !slices.ContainsFunc(e.only, func(only []byte) bool { return string(only) == q }) {
			return nil, errNarrow
		}
		if t := e.entries[q].Table; t != nil {
			if _, err := t.Schema(); err != nil {
				return nil, err // a later version made it, and what this one does not know of it would be lost
			}
		}
		fields = fields || entry.Table != nil && entry.Table.HasLaterFields()
		changes := append(slices.Clone(e.entries[q].Changes), e.id)
		entry.Changes = changes[max(0, len(changes)-KeptChanges):]
		cell := driver.Cell{Qualifier: []byte(q), Value: e.c.sealEntry([]byte(q), entry)}
		if len(cell.Value) > driver.MaxValue {
			return nil, fmt.Errorf("%w: what the catalogue says of the table or tenant has %d bytes, at most %d", driver.ErrTooLarge, len(cell.Value), driver.MaxValue)
		}
		puts = append(puts, cell)
	}
	changed := puts
	if next.Format == FormatNoTree {
		if !e.whole {
			return nil, errNarrow // all entries are to be in the tree
		}
		for _, cell := range puts {
			e.cells[string(cell.Qualifier)] = cell
		}
		next.Format, e.tree, changed = Format, make(Tree), slices.Collect(maps.Values(e.cells))
	}
	if fields {
		next.Format = FormatFields
	}
	nodes, top := e.tree.Put(e.c, changed)
	next.Digest = top
	return slices.Concat([]driver.Cell{{Qualifier: RootQualifier, Value: e.c.SealRoot(next)}}, nodes, puts, e.archives()), nil
}

// Tenant returns the meta of a tenant whose entry was read, or nil.
func (e *Edit) Tenant(name string) *meta.Tenant {
	return e.entries[string(e.c.TenantQualifier(name))].Tenant
}

// PutTenant replaces or makes the entry of a tenant.
func (e *Edit) PutTenant(meta *meta.Tenant) {
	e.puts[string(e.c.TenantQualifier(meta.Name))] = Entry{Tenant: meta}
}

// RemoveTenant leaves no tenant of the name.
func (e *Edit) RemoveTenant(name string) {
	e.puts[string(e.c.TenantQualifier(name))] = Entry{}
}

// JoinIndexes gives the new database-wide fields of a table the index that others of the database have.
// Where there are none it is a new one: what an earlier one has left may be anything.
func (e *Edit) JoinIndexes(table *meta.Table) error {
	for _, f := range table.All() {
		ref, ok := f.Index(table)
		if !ok || f.Since > 0 || f.Confidentiality != meta.OfDatabase {
			continue
		}
		metas, err := e.Tables()
		if err != nil {
			return err
		}
		f.Unit = e.NextVersion()
		for _, other := range append(slices.Clone(metas), table) {
			for _, g := range other.Using(ref) {
				if g.Since > 0 {
					f.Unit, f.Filling = g.Unit, g.Filling
				}
			}
		}
	}
	return nil
}
