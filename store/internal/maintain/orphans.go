package maintain

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/inspect"
	"github.com/rangecrypt/rangecrypt/store/internal/chunks"
	"github.com/rangecrypt/rangecrypt/store/internal/engine"
	"github.com/rangecrypt/rangecrypt/store/internal/fault"
	"github.com/rangecrypt/rangecrypt/store/internal/index"
	"github.com/rangecrypt/rangecrypt/store/internal/keyring"
	"github.com/rangecrypt/rangecrypt/store/internal/meta"
	"github.com/rangecrypt/rangecrypt/store/internal/pseudonym"
	"github.com/rangecrypt/rangecrypt/store/internal/rowcodec"
	"github.com/rangecrypt/rangecrypt/store/internal/session"
	"github.com/rangecrypt/rangecrypt/store/internal/unproven"
)

// DeleteOrphans deletes what tenants that were dropped left in a table with tenants. It returns what was deleted also
// with an error. progress may be nil.
func DeleteOrphans(ctx context.Context, tbl *session.Table, progress func(read int)) (inspect.Orphans, error) {
	t, err := tbl.Refresh(ctx)
	if err != nil {
		return inspect.Orphans{}, err
	}
	s := &orphanSweep{ctx: ctx, of: tbl, table: t, progress: progress}
	switch {
	case !s.table.Meta.Tenants:
		return inspect.Orphans{}, fmt.Errorf("%w: the table has none", fault.ErrTenant)
	case tbl.Bound():
		return inspect.Orphans{}, fmt.Errorf("%w: the table is open for one of them", fault.ErrTenant)
	}
	// Whoever dropped a tenant may have died before all writers knew.
	if err := tbl.Database().Catalogue.Quiesce(ctx, t.Version); err != nil {
		return inspect.Orphans{}, err
	}
	return s.run()
}

// An orphanSweep is one execution of DeleteOrphans.
type orphanSweep struct {
	ctx      context.Context
	of       *session.Table
	table    *engine.Engine
	progress func(int)
	read     int
}

func (s *orphanSweep) run() (deleted inspect.Orphans, err error) {
	t, rows := s.table, newStrays(s.pseudonyms)
	if err := s.behind(rows); err != nil {
		return deleted, err
	}
	// Postings first: what is left of a row that was deleted is a posting that nothing leads to.
	if t.Postings != nil {
		deleted.Postings, err = s.family(t.Postings, driver.Range{AnyOrder: true}, rows, func(key []byte) (string, error) {
			ours, now, err := knownPosting(s.ctx, s.table, key)
			s.table = now
			if err != nil || !ours {
				return "", err // what is no posting is a fault that Verify finds
			}
			of := pseudonym.At(key, len(meta.ColumnID{}))
			return string(of[:]), nil
		})
	}
	if err == nil {
		r := driver.Range{Cells: leastOf(t), AnyOrder: true}
		deleted.Rows, err = s.family(t.Data, r, rows, func(key []byte) (string, error) {
			of := pseudonym.At(key, 0)
			return string(of[:]), nil
		})
	}
	if err == nil {
		deleted.Indexes, err = s.indexes()
	}
	return deleted, err
}

// behind returns an error if a row of no tenant is newer than the catalogue: tenants that were made since it was saved count as dropped.
func (s *orphanSweep) behind(rows *strays) error {
	latest := uint32(0)
	r := driver.Range{Cells: driver.Slice{Only: [][]byte{rowcodec.KeyQualifier}}, AnyOrder: true}
	err := chunks.InBatches(s.ctx, s.table.Data, r, func(batch []driver.Row) error {
		for _, row := range batch {
			of := pseudonym.At(row.Key, 0)
			stray, err := rows.has(string(of[:]))
			if err != nil {
				return err
			}
			if stray {
				latest = max(latest, writtenAt(row))
			}
		}
		return nil
	})
	if err == nil {
		_, err = s.table.Env.AtLeast(s.ctx, latest)
	}
	return err
}

// writtenAt returns the version of the catalogue at which a row was written, as its key cell says that to those who cannot open it.
func writtenAt(row driver.Row) uint32 {
	if len(row.Cells) == 0 || !bytes.Equal(row.Cells[0].Qualifier, rowcodec.KeyQualifier) {
		return 0
	}
	h, _ := unproven.Header(row.Cells[0].Value) // of a cell that has none it is the zero one
	return h.Policy
}

// leastOf returns what is read of rows to find all of them. The key cell of one that has expired may be gone, and what it had of a dropped
// column be there: the database was told to keep that for ever if it came when the row did not expire.
func leastOf(t *engine.Engine) driver.Slice {
	if t.Meta.Expires() {
		return driver.Slice{}
	}
	return driver.Slice{Only: [][]byte{rowcodec.KeyQualifier}}
}

// indexes deletes the units whose names have the token of no tenant.
func (s *orphanSweep) indexes() (int, error) {
	t := s.table
	family, err := s.of.Database().Driver.Family(s.ctx, driver.FamilySpec{Name: t.Meta.IndexFamily(), Layout: driver.LayoutWide, Existing: true})
	if errors.Is(err, driver.ErrNoFamily) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	k := s.of.Database().Keys.Table(s.of.ID())
	// Of the token, the names of all units of a tenant have as much as that of a rebuilt index has.
	const column = 2 * len(meta.ColumnID{})
	const kept = keyring.KeptUnit - column
	units := newStrays(func() (map[string]bool, error) {
		tenants, err := s.of.Database().Catalogue.AllTenants(s.ctx)
		known := make(map[string]bool, len(tenants))
		for _, tenant := range tenants {
			own, err := s.of.Database().Keys.OfTenant(k, tenant)
			if err != nil {
				return nil, err
			}
			known[own.UnitToken(s.of.ID())[:kept]] = true
		}
		return known, err
	})
	r := driver.Range{Cells: driver.Slice{Only: [][]byte{index.MetaQualifier}}, AnyOrder: true}
	return s.family(family, r, units, func(key []byte) (string, error) {
		const from = 1 + column
		if len(key) < from+kept {
			return "", nil
		}
		return string(key[from : from+kept]), nil
	})
}

// family deletes the rows of a family that are of no tenant, and returns their number. What of returns
// names the tenant of a key; "" is none that could be one.
func (s *orphanSweep) family(f driver.Family, r driver.Range, strays *strays, of func(key []byte) (string, error)) (deleted int, err error) {
	err = chunks.InBatches(s.ctx, f, r, func(batch []driver.Row) error {
		var drops []driver.Mutation
		for _, row := range batch {
			name, err := of(row.Key)
			if err != nil {
				return err
			}
			if stray, err := strays.has(name); err != nil {
				return err
			} else if stray {
				drops = append(drops, driver.Mutation{Row: row.Key, DeleteRow: true})
			}
		}
		if s.read += len(batch); s.progress != nil {
			s.progress(s.read)
		}
		if len(drops) == 0 {
			return nil
		}
		if err := f.Apply(s.ctx, drops...); err != nil {
			return err
		}
		deleted += len(drops)
		return nil
	})
	return deleted, err
}

// pseudonyms returns those of all tenants, as keys begin with them.
func (s *orphanSweep) pseudonyms() (map[string]bool, error) {
	all, err := pseudonym.All(s.ctx, s.of)
	known := make(map[string]bool, len(all))
	for p := range all {
		known[string(p[:])] = true
	}
	return known, err
}

// strays reports what is of tenants that were dropped. Whoever wrote a row knew its tenant from the
// catalogue: one that is not there when it is read after the row was dropped, and no tenant gets its
// token again. So both answers hold for ever but that a tenant which is known may be dropped.
type strays struct {
	list        func() (map[string]bool, error)
	known, gone map[string]bool
}

func newStrays(list func() (map[string]bool, error)) *strays {
	return &strays{list: list, gone: make(map[string]bool)}
}

// has reports whether a name that was read by now is of a tenant that was dropped.
func (s *strays) has(name string) (_ bool, err error) {
	if name == "" || s.known[name] {
		return false, nil
	}
	if s.gone[name] {
		return true, nil
	}
	if s.known, err = s.list(); err != nil || s.known[name] {
		return false, err
	}
	s.gone[name] = true
	return true, nil
}
