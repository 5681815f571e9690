package catalogue

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/internal/meta"
)

// A Migration is what is known of a table's rows that come from elsewhere. It has a cell of its own in the catalogue's row:
//
//	0x04 || table id
//
// Times are milliseconds since 1970, and 0 where there is none.
type Migration struct {
	Round       uint64 `json:"round"`       // rises with each beginning
	Source      string `json:"source"`      // its name, without what is needed to reach it
	Fingerprint string `json:"fingerprint"` // of what the source's database says of it
	Phase       Phase  `json:"phase"`
	Paused      bool   `json:"paused,omitempty"`
	Empty       bool   `json:"empty,omitempty"` // the table was, when it began

	Prepared int64 `json:"prepared"`           // when it began
	Copied   int64 `json:"copied,omitempty"`   // when all spans were done
	Verified int64 `json:"verified,omitempty"` // when the last verification began that was complete and found no difference
	CutOver  int64 `json:"cut_over,omitempty"`
	Checked  int64 `json:"checked,omitempty"` // when it was begun to look at what had been written since, just before the cut-over
	Dropped  int64 `json:"dropped,omitempty"` // when the source was to be removed
	Removed  int64 `json:"removed,omitempty"` // when it was

	Copy   MigrationPass `json:"copy"`
	Verify MigrationPass `json:"verify"` // the present verification, or the last one
}

// A MigrationPass is how far a pass over the source, and what it counted.
type MigrationPass struct {
	Began int64          `json:"began,omitempty"`
	Spans Spans          `json:"spans,omitempty"` // what is done
	Rows  MigrationCount `json:"rows"`
	Table int            `json:"table,omitempty"` // rows of the table that a verification has read
}

// Over reports whether all is done.
func (p MigrationPass) Over() bool { return p.Spans.Has(SpanOf(0, 1)) }

// Done returns the share of the source that is done.
func (p MigrationPass) Done() float64 {
	done := uint64(0)
	for _, s := range p.Spans {
		done += s[1] - s[0]
	}
	return float64(done) / (1 << 32)
}

// A MigrationCount counts rows by what became of them.
type MigrationCount struct {
	Copied  int `json:"copied,omitempty"`  // put into the table
	Equal   int `json:"equal,omitempty"`   // that the table had
	Mended  int `json:"mended,omitempty"`  // made what the source has
	Differs int `json:"differs,omitempty"` // left as they are
	Refused int `json:"refused,omitempty"` // that the table does not take
	Mixed   int `json:"mixed,omitempty"`   // with values that expire at different times
	Ignored int `json:"ignored,omitempty"` // of the source that are none of the table: nothing of them is to be copied
}

// Add adds what another one counted.
func (c *MigrationCount) Add(other MigrationCount) {
	c.Copied, c.Equal, c.Mended = c.Copied+other.Copied, c.Equal+other.Equal, c.Mended+other.Mended
	c.Differs, c.Refused, c.Mixed = c.Differs+other.Differs, c.Refused+other.Refused, c.Mixed+other.Mixed
	c.Ignored += other.Ignored
}

// A Phase is how far a migration is. Where there is none it is "".
type Phase string

// The phases, in their order.
const (
	PhasePrepared Phase = "prepared"
	PhaseCopying  Phase = "copying"
	PhaseVerified Phase = "verified"
	PhaseCutOver  Phase = "cut over"
	PhaseDropped  Phase = "dropped"
	PhaseAborted  Phase = "aborted"
)

// Dual reports whether applications write the source and the table.
func (p Phase) Dual() bool { return p == PhasePrepared || p == PhaseCopying || p == PhaseVerified }

// FingerprintOf returns how the fingerprint of a table of a catalogue begins, as a source.
func FingerprintOf(m meta.TableID) string { return hex.EncodeToString(m[:]) }

// From reports whether the rows come from a table of a catalogue.
func (m Migration) From(source *meta.Table) bool {
	return strings.HasPrefix(m.Source, TableSource) && strings.HasPrefix(m.Fingerprint, FingerprintOf(source.ID))
}

// SourceID returns the id of a table of a catalogue that is the source.
func (m Migration) SourceID() (id meta.TableID, err error) {
	return id, meta.Unhex(id[:], []byte(m.Fingerprint)[:min(len(m.Fingerprint), 2*len(id))])
}

// TableSource begins the name of a source that is such a table.
const TableSource = "table:"

const migrationEntry = 4

func migrationOf(table meta.TableID) []byte { return slices.Concat([]byte{migrationEntry}, table[:]) }

// Migration returns the migration into a table. Its phase is "" if there was none.
func (c *Catalogue) Migration(ctx context.Context, table meta.TableID) (Migration, error) {
	m, _, err := readOwn[Migration](ctx, c, "migration", migrationOf(table))
	return m, err
}

// Migrations returns those into some tables, of any number, in one read.
func (c *Catalogue) Migrations(ctx context.Context, into []*meta.Table) (map[meta.TableID]Migration, error) {
	cells, err := c.migrationCells(ctx)
	all, sealed := make(map[meta.TableID]Migration), make(map[string][]byte, len(cells))
	for _, cell := range cells {
		sealed[string(cell.Qualifier)] = cell.Value // also of tables that are gone
	}
	for _, m := range into {
		q := migrationOf(m.ID)
		if value, has := sealed[string(q)]; has && err == nil {
			all[m.ID], err = openOwn[Migration](c, "migration", q, value)
		}
	}
	return all, err
}

// Dual returns the migrations in whose course applications write the source and the table, by the table, in one read.
func (c *Catalogue) Dual(ctx context.Context) (map[meta.TableID]Migration, error) {
	cells, err := c.migrationCells(ctx)
	all := make(map[meta.TableID]Migration)
	for _, cell := range cells {
		m, unread := openOwn[Migration](c, "migration", cell.Qualifier, cell.Value) // where it is read for itself, that is an error
		if id := (meta.TableID{}); unread == nil && m.Phase.Dual() && copy(id[:], cell.Qualifier[1:]) == len(id) {
			all[id] = m
		}
	}
	return all, err
}

// migrationCells reads the records of all tables, also of some that are gone.
func (c *Catalogue) migrationCells(ctx context.Context) ([]driver.Cell, error) {
	return c.Family.Get(ctx, Row, driver.Slice{Start: []byte{migrationEntry}, End: []byte{migrationEntry + 1}})
}

// UpdateMigration replaces it by what next makes of it, unless that is nothing, and returns what is there then. Unless it is to be made
// once, next may be asked again where other clients have gone on from what it made.
func (c *Catalogue) UpdateMigration(ctx context.Context, table meta.TableID, once bool, next func(Migration) (Migration, bool)) (Migration, error) {
	return updateOwn(ctx, c, "migration", migrationOf(table), once, next)
}

// Doubt has a table verified again before its cut-over: it may have no more what it was found to have. Where nothing is verified yet, or
// nothing goes on, it changes nothing.
func (c *Catalogue) Doubt(ctx context.Context, table meta.TableID) error {
	_, err := c.UpdateMigration(ctx, table, false, func(rec Migration) (Migration, bool) {
		if !rec.Phase.Dual() || rec.Verify.Began == 0 {
			return rec, false
		}
		if rec.Verify, rec.Verified = (MigrationPass{}), 0; rec.Phase == PhaseVerified {
			rec.Phase = PhaseCopying
		}
		return rec, true
	})
	return err
}

// WriteOf returns the write id of a copy of a row that counts as made earlier. Whoever copies the row as it is now gives the same: where two
// do, the database may keep some cells of each, and these are of one write.
func (c *Catalogue) WriteOf(table meta.TableID, content []byte) (w [16]byte) {
	mac := hmac.New(sha256.New, c.copies.Secret())
	mac.Write(table[:])
	mac.Write(content)
	copy(w[:], mac.Sum(nil))
	return w
}

// HashOf returns what a row is called where people compare lists: a keyed hash of its key, which says nothing without the key.
func (c *Catalogue) HashOf(table meta.TableID, row []byte) string {
	mac := hmac.New(sha256.New, c.Key.Derive("catalogue", "migrated rows").Secret())
	mac.Write(table[:])
	mac.Write(row)
	return hex.EncodeToString(mac.Sum(nil)[:16])
}
