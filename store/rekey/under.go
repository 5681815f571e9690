package rekey

import "github.com/rangecrypt/rangecrypt/store/inspect"

// An Under is how much is under listed keys.
type Under struct {
	Cells   int // that they sealed
	Deleted int // of these cells, what deleted rows of conditional tables leave, without values: it stays until the row is put again
	Entries int // index entries of columns that are found by them
	Shared  int // of these entries, those of columns whose key is not theirs alone, so that [Replace] leaves it
	Rows    int // whose row keys have parts that are found by them, counted for each part
	Records int // of indexes of schemes
}

// Add adds what is under keys of another table.
func (u *Under) Add(other Under) {
	u.Cells, u.Deleted, u.Entries = u.Cells+other.Cells, u.Deleted+other.Deleted, u.Entries+other.Entries
	u.Shared, u.Rows, u.Records = u.Shared+other.Shared, u.Rows+other.Rows, u.Records+other.Records
}

// Under returns how much of a table is under listed keys, as use counts it. Keys of tenants' rows count as the keys of the tenants that they
// derive from.
func (l List) Under(d inspect.Database, t inspect.Table, use inspect.KeyUse) (u Under) {
	tenants := make(map[string][]string)
	for _, tenant := range d.Tenants {
		tenants[tenant.Name] = tenant.Keys
	}
	// For each id of a column, the keys of a tenant come in their order.
	last, nth := [2]string{}, 0
	for _, k := range use.Keys {
		id := k.ID
		if keys := tenants[k.Tenant]; k.Tenant != "" {
			if at := [2]string{k.Tenant, k.Column}; at != last {
				last, nth = at, 0
			}
			id = ""
			if len(keys) > 0 {
				id = keys[nth%len(keys)]
			}
			nth++
		}
		if l[id] {
			u.Cells, u.Deleted = u.Cells+k.Cells, u.Deleted+k.Deleted
		}
	}
	parts := make(map[string]bool)
	for _, f := range t.Key {
		parts[f.Name] = true
	}
	shared := make(map[string]bool) // the ids of such keys
	for _, c := range t.Columns {
		shared[c.SearchKey] = len(c.SharedWith) > 0 || c.Confidentiality == "database" || shared[c.SearchKey]
	}
	for _, k := range use.Search {
		id := k.ID
		if keys := tenants[k.Tenant]; len(keys) > 0 {
			id = keys[len(keys)-1] // the first one, for ever
		}
		switch {
		case !l[id]:
		case parts[k.Column]:
			u.Rows += k.Entries
		default:
			u.Entries += k.Entries
			u.Records += k.Records
			if shared[id] {
				u.Shared += k.Entries
			}
		}
	}
	return u
}
