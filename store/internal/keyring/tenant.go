package keyring

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"

	"github.com/rangecrypt/rangecrypt/internal/seal"
	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store/internal/fault"
	"github.com/rangecrypt/rangecrypt/store/internal/meta"
)

// tenantKeys are the keys of a tenant, the first one first.
type tenantKeys struct{ Keys []ope.Key }

func (k Keys) wrapTenant() *seal.Sealer { return Sealer(k.Database.Derive("tenants", "wrap")) }

// FreshTenant returns a new key of a tenant.
func (k Keys) FreshTenant(id meta.TenantID) meta.WrappedKey {
	return k.wrapTenant().Seal(nil, NewHeader(), ope.GenerateKey().Secret(), Place("tenant key", id[:]))
}

// OfTenant returns the keys of a table for a tenant.
func (k Keys) OfTenant(table Table, m *meta.Tenant) (Table, error) {
	own, err := k.TenantKeys(m)
	if err != nil {
		return table, err
	}
	t := &tenantKeys{own}
	table.Tenant = t
	table.Page = t.Derive(0, "page token", meta.ColumnRef{Table: table.id})
	table.Secrets = t.Keys[0].Derive("secure type")
	return table, nil
}

// TenantKeys returns the keys of a tenant, the first one first.
func (k Keys) TenantKeys(m *meta.Tenant) ([]ope.Key, error) {
	if len(m.Keys) == 0 {
		return nil, fmt.Errorf("%w: a tenant has no keys", fault.ErrFormat)
	}
	own, wrap := make([]ope.Key, len(m.Keys)), k.wrapTenant()
	for i, wrapped := range m.Keys {
		var err error
		if own[i], err = openKey(wrapped, wrap, Place("tenant key", m.ID[:]), "wrapped key of a tenant"); err != nil {
			return nil, err
		}
	}
	return own, nil
}

// Token returns what the keys of rows and postings of a tenant begin with, in one table.
func (k Table) Token(id meta.TenantID) []byte {
	return k.Tenants.Expand(meta.TokenSize, hex.EncodeToString(id[:]))
}

// Derive returns the key of one purpose of a column or, with the zero id, of a table.
func (t *tenantKeys) Derive(key int, purpose string, of meta.ColumnRef) ope.Key {
	return t.Keys[key].Derive(purpose, hex.EncodeToString(of.Table[:]), hex.EncodeToString(of.Column[:]))
}

func (t *tenantKeys) sealers(purpose string, of meta.ColumnRef) *Sealers {
	var s Sealers
	for i := range slices.Backward(t.Keys) {
		s.Keys = append(s.Keys, Sealer(t.Derive(i, purpose, of)))
	}
	return &s
}

// Fingerprint returns bytes that are equal for fields of the table that have equal ciphers.
func (k Table) Fingerprint(m *meta.Field) []byte {
	if k.Tenant == nil {
		return m.Fingerprint()
	}
	return binary.AppendUvarint(m.Fingerprint(), uint64(len(k.Tenant.Keys)))
}

// UnitToken returns what names the tenant in the names of the units of a table's index.
func (k Table) UnitToken(table meta.TableID) string {
	return hex.EncodeToString(k.Tenant.Keys[0].Expand(meta.TokenSize, "unit", hex.EncodeToString(table[:])))
}
