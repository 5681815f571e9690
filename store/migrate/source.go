// Package migrate brings a table that an application keeps itself into an encrypted table, while the application goes on.
package migrate

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/inspect"
	"github.com/rangecrypt/rangecrypt/store/internal/meta"
)

// A Source is a table of the application's own. Several goroutines may call its methods at a time. No error has a value of a row.
type Source interface {
	// Name says which table it is, without what is needed to reach it: as "cassandra:shop.orders".
	Name() string

	// Describe reads what the database says of the table. One that is not there is [driver.ErrNoFamily]. It has a Source
	// all the same, so that who has dropped it can ask again what remains.
	Describe(ctx context.Context) (Description, error)

	// Fingerprint returns what changes with all of the table that matters to readers: names, types and keys of columns, and which
	// table it is. It is asked for with each part of a pass, and takes no more than that. Its errors are those of Describe.
	Fingerprint(ctx context.Context) (string, error)

	// Now returns the time by the clock that the database goes by, since what was written after a verification is known by its time. Where
	// it cannot be asked for, that is the time of this machine.
	Now(ctx context.Context) (time.Time, error)

	// Scan yields the rows of a part, each once. A row that is there from the beginning to the end is among them. An error is
	// the last thing that it yields.
	Scan(ctx context.Context, part inspect.Part) iter.Seq2[Found, error]

	// Read returns the rows with some keys as they are now, in the order of keys. It observes each write that was acknowledged
	// before the call. The key of a row that is not there comes back as well, without Exists.
	Read(ctx context.Context, keys []store.Row) ([]Found, error)

	// Drop removes the table.
	Drop(ctx context.Context) error

	// Remains lists where values of the table may still be in the clear when it has been dropped.
	Remains(ctx context.Context) ([]Remain, error)
}

// Found is a row of a source.
type Found struct {
	Row     store.Row // its key and, if it Exists, its columns that are not null, as values of the types of Description
	Exists  bool
	Written time.Time // when the latest of its values was written, by the clock that the database goes by, or zero where nobody knows
	Expires time.Time // when its last value expires, or zero if there is one that does not
	Mixed   bool      // whether some of its values expire sooner than others
	Refused string    // why no encrypted table takes the row, without its values, or "": then Row may lack parts of its key
	Place   string    // of a row that lacks some: how its owner finds it. It may say as much as a key, and stands in no error
}

// A Description is what a database says of a table.
type Description struct {
	Key         []Column // in the order of the primary key
	Columns     []Column
	Unmapped    []string      // sentences: what has no place in an encrypted table, why, and what to do instead
	Rows, Bytes int64         // estimates, or 0 where there is none
	AtLeast     bool          // Rows and Bytes are what was seen, and there may be far more
	TTL         time.Duration // how long rows live that are written without a time to live, or 0 for ever
	Notes       []string      // sentences: what is to be known of the copy
	BeforeDrop  []string      // sentences: what to do before values can be gone, such as snapshots that the database makes by itself
}

// Propose returns a schema of a table that takes all rows of the source, and says in sentences what else its columns may be. So many
// parts of the key are hashed; those after them are ordered where their type has an order. Columns are randomised. The schema is not
// conditional, so that rows may expire: where none does, make it so, and nothing is lost at the cut-over, whatever still goes on.
func (d Description) Propose(name string, hashed int) (schema store.Schema, hints []string) {
	schema = store.Schema{Name: name, TTL: d.TTL}
	hint := func(c Column, format string, args ...any) {
		hints = append(hints, fmt.Sprintf("%s (%s): ", c.Name, c.Foreign)+fmt.Sprintf(format, args...))
	}
	for i, c := range d.Key {
		if i >= hashed && c.ordered() {
			schema.Key = append(schema.Key, store.OrderedPart(c.Name, c.Type, store.Boldyreva))
			continue
		}
		if schema.Key = append(schema.Key, store.HashedPart(c.Name, c.Type)); i >= hashed {
			hint(c, "values of this type have no order in an encrypted table, so rows are found by one value, and not by ranges")
		}
	}
	for _, c := range d.Columns {
		schema.Columns = append(schema.Columns, store.RandomisedColumn(c.Name, c.Type))
		if c.ordered() {
			hint(c, "to search by it, take {encryption: ordered, scheme: boldyreva} for ranges and values, {encryption: deterministic} for values")
		} else {
			hint(c, "to search by it, take {encryption: deterministic} for values")
		}
	}
	for _, c := range slices.Concat(d.Key, d.Columns) {
		if strings.HasPrefix(c.Type.String(), "decimal") {
			hint(c, "take as many digits after the point as its values have; a row with more is refused")
		}
	}
	if d.TTL > meta.MaxTTL {
		schema.TTL = store.TTLByRow
		hints = append(hints, fmt.Sprintf("A row lives for %v where its write says nothing else, and for %v at most in an encrypted table, which refuses it: lower that of the source, and write such rows again.", d.TTL, meta.MaxTTL))
	} else if d.TTL > 0 {
		hints = append(hints, fmt.Sprintf("A row lives for %v where its write says nothing else, so the table has this ttl.", d.TTL))
	}
	return schema, hints
}

// ordered reports whether values of the type have an order in an encrypted table.
func (c Column) ordered() bool {
	return store.Schema{Name: "t", Key: []store.KeyPart{store.OrderedPart("k", c.Type, store.Boldyreva)}}.Check() == nil
}

// A Column is a part of the key or a column of a source.
type Column struct {
	Name    string
	Type    store.Type // which values it has
	Foreign string     // its type as its database names it
}

// A Remain is a place that may have values in the clear.
type Remain struct {
	What   string // as "snapshot"
	Where  string // a path, a name or a node
	Seen   bool   // whether it is known to be there, and not only possible
	Advice string // how to get rid of it
}
