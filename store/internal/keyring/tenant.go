package keyring

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"

	"github.com/rangecrypt/rangecrypt/internal/seal"
	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store/internal/fault"
	"github.com/rangecrypt/rangecrypt/store/internal/meta"
)

// tenantKeys are the keys of a tenant. Values are found by what derives from the first; the last one seals.
type tenantKeys struct {
	First, last ope.Key
	Count       int
	Open        func(i int) (ope.Key, error)
}

func (k Keys) wrapTenant() *seal.Sealer { return Sealer(k.Database.Derive("tenants", "wrap")) }

// FreshTenant returns a new key of a tenant.
func (k Keys) FreshTenant(id meta.TenantID) meta.WrappedKey {
	return k.wrapTenant().Seal(nil, NewHeader(), ope.GenerateKey().Secret(), Place("tenant key", id[:]))
}

// OfTenant returns the keys of a table for a tenant.
func (k Keys) OfTenant(table Table, m *meta.Tenant) (Table, error) {
	t, err := k.tenantKeys(m)
	if err != nil {
		return table, err
	}
	table.Tenant = t
	table.Page = t.Derive(t.First, "page token", meta.ColumnRef{Table: table.id})
	table.Secrets = t.First.Derive("secure type")
	return table, nil
}

func (k Keys) tenantKeys(m *meta.Tenant) (*tenantKeys, error) {
	if len(m.Keys) == 0 {
		return nil, fmt.Errorf("%w: a tenant has no keys", fault.ErrFormat)
	}
	wrap := k.wrapTenant()
	t := &tenantKeys{Count: len(m.Keys), Open: func(i int) (ope.Key, error) {
		return openKey(m.Keys[i], wrap, Place("tenant key", m.ID[:]), "wrapped key of a tenant")
	}}
	var err error
	if t.First, err = t.Open(0); err != nil {
		return nil, err
	}
	t.last, err = t.Open(t.Count - 1)
	return t, err
}

// TenantIDs returns the ids of the keys of a tenant in hex, the newest first.
func (k Keys) TenantIDs(m *meta.Tenant) (ids []string, err error) {
	t, err := k.tenantKeys(m)
	if err != nil {
		return nil, err
	}
	for i := t.Count - 1; i >= 0; i-- {
		key, err := t.Open(i)
		if err != nil {
			return nil, err
		}
		ids = append(ids, ID(key))
	}
	return ids, nil
}

// Token returns what the keys of rows and postings of a tenant begin with, in one table.
func (k Table) Token(id meta.TenantID) []byte {
	return k.Tenants.Expand(meta.TokenSize, hex.EncodeToString(id[:]))
}

// Derive returns the key of one purpose of a column or, with the zero id, of a table.
func (*tenantKeys) Derive(key ope.Key, purpose string, of meta.ColumnRef) ope.Key {
	return key.Derive(purpose, hex.EncodeToString(of.Table[:]), hex.EncodeToString(of.Column[:]))
}

func (t *tenantKeys) sealers(purpose string, of meta.ColumnRef) *Sealers {
	return newSealers(t.Derive(t.last, purpose, of), t.Count-1, func(i int) (ope.Key, error) {
		key, err := t.Open(i)
		if err != nil {
			return key, err
		}
		return t.Derive(key, purpose, of), nil
	})
}

// Fingerprint returns bytes that are equal for fields of the table that have equal ciphers.
func (k Table) Fingerprint(m *meta.Field) []byte {
	if k.Tenant == nil {
		return m.Fingerprint()
	}
	return binary.AppendUvarint(m.Fingerprint(), uint64(k.Tenant.Count))
}

// UnitToken returns what names the tenant in the names of the units of a table's index.
func (k Table) UnitToken(table meta.TableID) string {
	return hex.EncodeToString(k.Tenant.First.Expand(meta.TokenSize, "unit", hex.EncodeToString(table[:])))
}
