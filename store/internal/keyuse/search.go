package keyuse

import (
	"context"
	"errors"
	"strings"

	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/inspect"
	"github.com/rangecrypt/rangecrypt/store/internal/index"
	"github.com/rangecrypt/rangecrypt/store/internal/keyring"
	"github.com/rangecrypt/rangecrypt/store/internal/meta"
	"github.com/rangecrypt/rangecrypt/store/internal/pseudonym"
	"github.com/rangecrypt/rangecrypt/store/internal/scheme"
	"github.com/rangecrypt/rangecrypt/store/internal/session"
)

// searches takes over what is found by the search keys of the table, for the tenant that it is open for if it is.
func (c *counter) searches(ctx context.Context, tbl *session.Table, of pseudonym.Token) error {
	m, tenant, _, err := tbl.Entry(ctx)
	if err != nil {
		return err
	}
	k, name := tbl.Database().Keys.Of(m), ""
	if tenant != nil {
		name = tenant.Name
		if k, err = tbl.Database().Keys.OfTenant(k, tenant); err != nil {
			return err
		}
	}
	for _, list := range [][]meta.Field{m.Key, m.Columns} {
		for i := range list {
			now := &list[i]
			for j := range 1 + len(now.Former) {
				f := now
				if j > 0 {
					f = &now.Former[j-1]
				}
				at := foundBy{of, f.ID}
				one := inspect.SearchCount{Tenant: name, Column: now.Name, Newest: j == 0, Entries: c.entries[at]}
				delete(c.entries, at)
				key, err := k.Search(f)
				if err != nil {
					return err
				}
				if f.Clear() || key.IsZero() {
					continue // nothing that is found by it is under a key
				}
				if one.ID = keyring.ID(key); &list[0] == &m.Key[0] {
					one.Entries = c.rows[of]
				}
				if one.Records, err = c.indexes.records(ctx, k, f); err != nil {
					return err
				}
				c.use.Search = append(c.use.Search, one)
			}
		}
	}
	return nil
}

// indexes counts the records of schemes that keep an index, each unit once.
type indexes struct {
	db    *session.Database
	units map[string]map[string]int // by family and name
}

// records returns how many records the index of a field has, in all that it was divided into or made again as.
func (x *indexes) records(ctx context.Context, k keyring.Table, f *meta.Field) (n int, err error) {
	if !scheme.Stateful(f.Scheme) {
		return 0, nil
	}
	family, all, _ := k.Units(f)
	if x.units[family] == nil {
		if x.units[family], err = x.read(ctx, family); err != nil {
			return 0, err
		}
	}
	for unit, records := range x.units[family] {
		if strings.HasPrefix(unit, all) {
			n += records
		}
	}
	return n, nil
}

// read counts the records of each unit in a family.
func (x *indexes) read(ctx context.Context, family string) (map[string]int, error) {
	units := make(map[string]int)
	f, err := x.db.Driver.Family(ctx, driver.FamilySpec{Name: family, Layout: driver.LayoutWide, Existing: true})
	if errors.Is(err, driver.ErrNoFamily) {
		return units, nil
	}
	if err != nil {
		return nil, err
	}
	heads, err := index.Heads(ctx, f)
	if err != nil {
		return nil, err
	}
	for unit := range heads {
		if units[unit], err = index.Records(ctx, f, unit); err != nil {
			return nil, err
		}
	}
	return units, nil
}
