package tables

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rangecrypt/rangecrypt/cmd/internal/admin/schemafile"
	"github.com/rangecrypt/rangecrypt/internal/cli"
	"github.com/rangecrypt/rangecrypt/internal/cli/show"
	"github.com/rangecrypt/rangecrypt/store/inspect"
)

// tableJSON is a table as it is printed.
type tableJSON struct {
	Record string     `json:"record"`
	Store  string     `json:"store,omitempty"`
	Schema schemaJSON `json:"schema"`
	Rows   *int       `json:"rows,omitempty"`

	// Of a table that is there, as the database and the catalogue know it.
	ID       string   `json:"id,omitempty"`
	Version  uint32   `json:"version,omitempty"`
	Families []string `json:"families,omitempty"`
	RowKeys  []string `json:"row_keys,omitempty"` // ids, that for new rows first
}

// described returns what is printed of a description.
func described(d inspect.Table) tableJSON {
	fields := func(from []inspect.Field) []FieldJSON {
		to := []FieldJSON{}
		for _, d := range from {
			f := NewFieldJSON(d)
			f.Confidentiality, f.ID, f.Since, f.Sharers, f.SearchKey, f.CellKeys = d.Confidentiality, d.ID, d.Since, d.SharedWith, d.SearchKey, d.CellKeys
			f.Remaking = d.Remaking
			for _, former := range d.Former {
				f.Unconverted = f.Unconverted || !former.Converted
			}
			var sharers []string
			for _, name := range d.SharedWith {
				sharers = append(sharers, show.Visible(name))
			}
			f.keyOf = strings.Join(sharers, ", ")
			to = append(to, f)
		}
		return to
	}
	spread := d.SpreadBits
	if spread == 0 {
		spread = -1 // as in schemas
	}
	return tableJSON{
		Record: "table", ID: d.ID, Version: d.Version, Families: d.Families, RowKeys: d.RowKeys,
		Schema: schemaJSON{
			Table: d.Name, Layout: d.Layout, PageRows: d.PageRows, SpreadBits: spread, Conditional: d.Conditional, AppendOnly: d.AppendOnly, Tenants: d.Tenants, TTL: ttlText(d.TTL),
			Key: fields(d.Key), Columns: fields(d.Columns),
		},
	}
}

type schemaJSON struct {
	Table       string      `json:"table"`
	Layout      string      `json:"layout"`
	PageRows    int         `json:"page_rows,omitempty"`
	SpreadBits  int         `json:"spread_bits"`
	Conditional bool        `json:"conditional,omitempty"`
	AppendOnly  bool        `json:"append_only,omitempty"`
	Tenants     bool        `json:"tenants,omitempty"`
	TTL         string      `json:"ttl,omitempty"` // as schema files have it
	Key         []FieldJSON `json:"key"`
	Columns     []FieldJSON `json:"columns"`
}

// A FieldJSON is a key part or a column in JSON.
type FieldJSON struct {
	Name        string `json:"name"`
	Type        string `json:"type"`
	Encryption  string `json:"encryption"`
	Scheme      string `json:"scheme,omitempty"`
	Covering    bool   `json:"covering,omitempty"`     // its index entries have copies of the rows
	ServerIndex bool   `json:"server_index,omitempty"` // it has an index of the database, and no index entries

	// Copied are the columns that copies have besides the column itself and the row key; none is all.
	Copied *[]string `json:"copied,omitempty"`

	// Of columns whose search key others have, too.
	SharedWith      *columnJSON `json:"shared_with,omitempty"`
	Confidentiality string      `json:"confidentiality,omitempty"`

	// Of a table that is there. Keys are shown by their ids, that for new cells first.
	ID          string   `json:"id,omitempty"`
	Since       uint32   `json:"since,omitempty"`
	Sharers     []string `json:"sharers,omitempty"`
	SearchKey   string   `json:"search_key,omitempty"`
	CellKeys    []string `json:"cell_keys,omitempty"`
	Unconverted bool     `json:"unconverted,omitempty"` // rows may have values of an earlier encryption
	Remaking    bool     `json:"remaking,omitempty"`    // its index is being made again, which is not finished

	keyOf string // in words
}

type columnJSON struct {
	Table  string `json:"table"`
	Column string `json:"column"`
}

// ttlText returns nothing of rows that do not expire.
func ttlText(ttl time.Duration) string {
	if ttl == 0 {
		return ""
	}
	return schemafile.TTL(ttl)
}

func newSchemaJSON(s schemafile.Table) schemaJSON {
	j := schemaJSON{
		Table: s.Name, Layout: s.Layout(), PageRows: s.PageRows, SpreadBits: s.SpreadBits, Conditional: s.Conditional, AppendOnly: s.AppendOnly, Tenants: s.Tenants, TTL: ttlText(s.TTL),
		Key: []FieldJSON{}, Columns: []FieldJSON{},
	}
	for _, p := range s.Key {
		j.Key = append(j.Key, NewFieldJSON(p.Describe()))
	}
	for _, c := range s.Columns {
		d := c.Describe()
		f := NewFieldJSON(d)
		f.keyOf = sharedWith(c)
		if d.KeyOf != nil {
			f.SharedWith = &columnJSON{d.KeyOf.Table, d.KeyOf.Column}
		}
		if d.Confidentiality == "database" {
			f.Confidentiality = d.Confidentiality
		}
		j.Columns = append(j.Columns, f)
	}
	return j
}

// NewFieldJSON has what all columns and key parts have.
func NewFieldJSON(d inspect.Field) FieldJSON {
	f := FieldJSON{Name: d.Name, Type: d.Type, Encryption: d.Encryption, Scheme: d.Scheme, Covering: d.Covering, ServerIndex: d.ServerIndex}
	if d.Copied != nil {
		f.Copied = &d.Copied
	}
	return f
}

// copies says what copies of rows have, in words that a terminal can show.
func copies(columns []string) string {
	if len(columns) == 0 {
		return "itself"
	}
	return "with " + show.Visible(strings.Join(columns, ", "))
}

func printTable(c *cli.Call, t tableJSON) error {
	if c.JSON {
		return c.Encode(t)
	}
	s := t.Schema
	line := fmt.Sprintf("table %s: %s", show.Visible(s.Table), s.Layout)
	if s.Conditional {
		line += ", conditional"
	}
	if s.AppendOnly {
		line += ", append-only"
	}
	if s.Tenants {
		line += ", with tenants"
	}
	if s.TTL != "" {
		line += ", TTL " + s.TTL
	}
	if t.Rows != nil {
		line += ", " + show.Counted(*t.Rows, "row")
	}
	if t.ID != "" {
		line += fmt.Sprintf(", as of version %d of the catalogue", t.Version)
	}
	text := show.Line(line, c.Style())
	if len(t.Families) > 0 {
		text += show.Line("in the database: "+strings.Join(t.Families, ", "), c.Style())
	}
	keys := [][]string{}
	add := func(name, use string, ids ...string) {
		for i, id := range ids {
			if i > 0 {
				use = "earlier cells"
			}
			keys = append(keys, []string{name, use, id})
		}
	}
	add("(rows)", "new cells", t.RowKeys...)
	var rows [][]string
	advice := ""
	for i, f := range slices.Concat(s.Key, s.Columns) {
		part := "column"
		if i < len(s.Key) {
			part = fmt.Sprintf("key %d", i+1)
		}
		note, covering, served := "", "", ""
		if f.Covering {
			covering = "yes"
			if f.Copied != nil {
				covering = copies(*f.Copied)
			}
		}
		if f.ServerIndex {
			served = "yes"
		}
		if f.Unconverted {
			note = "to be converted"
		}
		if f.Remaking {
			advice += show.Line(fmt.Sprintf("the index of %q is being made again, which is not finished; 'rangecrypt table reindex %s --column %s' finishes it",
				f.Name, show.Argument(s.Table), show.Argument(f.Name)), c.Style())
		}
		name := show.Visible(f.Name)
		rows = append(rows, []string{name, part, f.Type, f.Encryption, f.Scheme, covering, served, f.keyOf, f.ID, note})
		if f.SearchKey != "" {
			add(name, "search", f.SearchKey)
		}
		add(name, "new cells", f.CellKeys...)
	}
	text += show.Rows([]string{"NAME", "PART", "TYPE", "ENCRYPTION", "SCHEME", "COVERING", "SERVER INDEX", "KEY SHARED WITH", "ID", "ROWS"}, rows, nil, c.Style())
	if len(keys) > 0 {
		text += show.Rows([]string{"KEY OF", "FOR", "ID"}, keys, nil, c.Style())
	}
	return c.Print(text + advice)
}
