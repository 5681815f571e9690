package meta

import (
	"fmt"
	"strings"
	"time"

	"github.com/rangecrypt/rangecrypt/store/inspect"
	"github.com/rangecrypt/rangecrypt/store/internal/fault"
)

// What follows the layout of a table: a program that does not know of it refuses the table. One that opened no table but
// altered it left fields out that it did not know. So all but that of expiry come with a later format of the catalogue,
// which such a program refuses; see [Table.HasLaterFields].
const (
	appended = ", rows are only added"
	copied   = ", rows have copies"         // or had once, in a conditional table
	chosen   = ", copies have some columns" // or had once
	expiring = ", rows expire"              // or might once
	served   = ", the database has indexes" // or had one
	archived = ", earlier keys are apart"   // or were
)

const (
	// TTLByRow is the time to live in the schema of a table whose rows expire if they are put so.
	TTLByRow time.Duration = -1

	// MaxTTL is the longest. Cassandra takes 20 years, but refuses ends after 2037 unless it is configured for more.
	MaxTTL = 3650 * 24 * time.Hour
)

// Packed reports whether sealed columns that are not searched are packed into the key cell.
func (m *Table) Packed() bool { return m.PlainLayout() == inspect.Packed }

// PlainLayout returns the layout, without what follows it.
func (m *Table) PlainLayout() string {
	layout := m.Layout
	for _, more := range []string{appended, copied, chosen, expiring, served, archived} {
		layout = strings.Replace(layout, more, "", 1)
	}
	return layout
}

// HasLaterFields reports whether the table may have fields that only programs know which read format 5 of the catalogue.
func (m *Table) HasLaterFields() bool {
	return m.Copies() || strings.Contains(m.Layout, chosen) || strings.Contains(m.Layout, served) || strings.Contains(m.Layout, archived) || m.Apart() != ""
}

// AppendOnly reports whether rows are added and deleted, and never replaced.
func (m *Table) AppendOnly() bool {
	return strings.Contains(m.Layout, appended)
}

// Copies reports whether postings of the table say what they are: some may have copies of rows.
func (m *Table) Copies() bool { return m.AppendOnly() || strings.Contains(m.Layout, copied) }

// Expires reports whether rows of the table may expire.
func (m *Table) Expires() bool { return strings.Contains(m.Layout, expiring) }

// Lifetime returns the time to live as a schema has it.
func (m *Table) Lifetime() time.Duration {
	if m.Expires() && m.TTL == 0 {
		return TTLByRow
	}
	return time.Duration(m.TTL) * time.Second
}

func (m *Table) setTTL(ttl time.Duration) error {
	m.TTL = 0
	if ttl == 0 {
		return nil // rows that expire may be there
	}
	if m.Conditional {
		return fmt.Errorf("%w: table %q: rows of a conditional table cannot expire, since a write under a condition has no TTL: leave out one of the two",
			fault.ErrSchema, m.Name)
	}
	if ttl != TTLByRow {
		if err := CheckTTL(ttl); err != nil {
			return fmt.Errorf("table %q: %w", m.Name, err)
		}
		m.TTL = int64(ttl / time.Second)
	}
	if !m.Expires() {
		m.Layout += expiring
	}
	return nil
}

// CheckTTL returns an error unless rows can live so long.
func CheckTTL(ttl time.Duration) error {
	if ttl < time.Second || ttl > MaxTTL || ttl%time.Second != 0 {
		return fmt.Errorf("%w: TTL is %v, need whole seconds from 1s to %v", fault.ErrSchema, ttl, MaxTTL)
	}
	return nil
}
