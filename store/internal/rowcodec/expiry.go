package rowcodec

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/internal/fault"
	"github.com/rangecrypt/rangecrypt/store/internal/meta"
	"github.com/rangecrypt/rangecrypt/store/internal/value"
)

// A row that expires says when in its key cell, sealed, and readers go by that alone. The database is told how long to keep
// the cells, and is always later:
//
//	expiry               no reader finds the row
//	expiry + grace       the cells of columns go
//	expiry + 2 graces    the key cell and the postings go
//
// So a reader whose clock is slow by less than the grace still finds whole rows, and no cell outlives the key cell, without
// which nobody could tell that the row has expired.

// DefaultGrace is how long the database keeps cells after their row has expired. Clocks of clients must differ by less than
// half of it, see Late.
const DefaultGrace = time.Hour

// A Clock says what time it is for a client. The zero Clock is that of the machine, with DefaultGrace.
type Clock struct {
	Now   func() time.Time
	Grace time.Duration

	late bool // half a grace behind
}

func (c Clock) now() time.Time {
	if c.Now == nil {
		return time.Now()
	}
	return c.Now()
}

func (c Clock) grace() time.Duration {
	if c.Grace == 0 {
		return DefaultGrace
	}
	return c.Grace
}

// life returns how long the database is to keep a cell of a row that expires: a number of graces longer.
func (c Clock) life(expires int64, graces time.Duration) time.Duration {
	return max(time.Second, min(time.Unix(expires, 0).Sub(c.now()), 292*365*24*time.Hour)+graces*c.grace()) // Sub says as much at most, about
}

// over reports whether a row has expired; 0 is one that does not.
func (c Clock) over(expires int64) bool {
	now := c.now()
	if c.late {
		now = now.Add(-c.grace() / 2)
	}
	return expires != 0 && now.Unix() >= expires
}

// Late returns the view with a clock that is half a grace behind, for work on all rows: what it leaves out must not be a row
// for a client whose clock is slow.
func (t *View) Late() *View {
	v := *t
	v.Clock.late = true
	return &v
}

// expires returns when a row expires that is put now, in seconds since 1970; 0 is never.
func (t *View) expires() (int64, error) {
	switch {
	case t.TTL == 0:
		return 0, nil
	case t.Meta.Conditional:
		return 0, fmt.Errorf("%w: table %q: rows of a table with Conditional do not expire: put them without Expiring", fault.ErrSchema, t.Meta.Name)
	case t.TTL == meta.TTLByRow:
		return 0, fmt.Errorf("%w: TTLByRow is for Schema.TTL and SetTTL: give Expiring whole seconds from 1s to %v, or 0 for rows that do not expire",
			fault.ErrSchema, meta.MaxTTL)
	case !t.Meta.Expires():
		return 0, fmt.Errorf("%w: rows of table %q do not expire: make it with Schema.TTL, or change it with SetTTL", fault.ErrSchema, t.Meta.Name)
	}
	if err := meta.CheckTTL(t.TTL); err != nil {
		return 0, err
	}
	end := t.Clock.now().Add(t.TTL + time.Second - 1).Unix() // rounded up
	if end <= 0 {
		return 0, fmt.Errorf("table %q: the clock of this machine shows a time before 1970: set it, since it says when rows expire", t.Meta.Name)
	}
	return end, nil
}

// Expiring returns the view with another time to live of the rows that are put.
func (t *View) Expiring(ttl time.Duration) *View {
	v := *t
	v.TTL, v.OwnTTL = ttl, true
	return &v
}

// Retimed returns records that were put under another view as they are to expire by this one.
func (t *View) Retimed(was *View, records []*Record) []*Record {
	expires, err := t.expires()
	if err != nil || t.TTL == was.TTL {
		return records
	}
	records = slices.Clone(records) // others may yet be putting copies of what they were
	for i, r := range records {
		if r != nil && r.TableTTL {
			next := *r
			next.Expires, records[i] = expires, &next
		}
	}
	return records
}

// OutdatedOrMistimed reports whether a row is outdated, or is there as a client has put it, but for when it expires; put is its
// record, or nil.
func (t *View) OutdatedOrMistimed(row driver.Row, put *Record, s *Scratch) (bool, error) {
	old, err := t.Outdated(row, s)
	return old || err == nil && t.mistimed(row, put, s), err
}

func (t *View) mistimed(row driver.Row, put *Record, s *Scratch) bool {
	if put == nil || !put.TableTTL || !t.Meta.Expires() {
		return false
	}
	s.Where.Of(t, row.Key)
	b, h, err := t.OpenKeyCell(row.Cells[0].Value, s)
	if err != nil || len(b) == 0 || h.Write != put.Write {
		return false
	}
	expires, _, err := t.cutKey(b)
	return err == nil && expires != put.Expires
}

// ExpiryOf returns when a row is to expire that was read: as the record says that this client has put there, if it has.
func (t *View) ExpiryOf(r, put *Record) int64 {
	if put != nil && put.TableTTL && put.Write == r.Write {
		return put.Expires
	}
	return r.Expires
}

// NewPostings puts the postings that rows need before they are rewritten as records of the same writes: those that they lack.
// Of a row that is to expire at another time it puts all, so that the database keeps them for whichever time counts. They are
// doubtful, so that none of them gets a copy which expires as the row did. Once the row is rewritten, RetimedPostings ends that.
func (t *View) NewPostings(was, records []*Record) (puts []driver.Mutation) {
	for i, r := range records {
		retimed := r.Expires != was[i].Expires
		either := *r // that is kept for as long as the row may be as it was, or as it becomes
		if was[i].Expires == 0 || r.Expires != 0 && r.Expires < was[i].Expires {
			either.Expires = was[i].Expires
		}
		for c, column := range t.Columns {
			switch {
			case !column.Posted() || r.Search[c] == nil:
			case retimed && t.Meta.Copies():
				either.NewAttempt()
				puts = append(puts, t.Doubt(t.PostingKey(r, c), &either))
			case retimed || was[i].Search[c] == nil:
				puts = append(puts, t.PutPosting(t.PostingKey(r, c), &either))
			}
		}
	}
	return puts
}

// RetimedPostings puts the postings of those rows that expire at another time now: the database is to keep them as long as the
// rows, and they may get copies.
func (t *View) RetimedPostings(was, records []*Record) []driver.Mutation {
	var retimed []*Record
	for i, r := range records {
		if r.Expires != was[i].Expires {
			retimed = append(retimed, r)
		}
	}
	return t.PutPostings(retimed)
}

// expiryID is in the place of a column id in the entry of a key cell that says when the row expires. No column has it, and
// it comes before all others.
var expiryID meta.ColumnID

const expirySize = 8

func appendExpiry(key []byte, expires int64) []byte {
	if expires == 0 {
		return key
	}
	key = append(append(key, expiryID[:]...), expirySize+PackedCell)
	return binary.BigEndian.AppendUint64(key, uint64(expires))
}

// cutExpiry returns when a row expires, and the entries of its columns.
func (t *View) cutExpiry(b []byte) (expires int64, rest []byte, err error) {
	if !bytes.HasPrefix(b, expiryID[:]) {
		return 0, b, nil
	}
	entries := Entries{Rest: b}
	e, err := entries.Of(expiryID)
	if err == nil && len(e.Value) != expirySize {
		err = value.ErrCutShort
	}
	if err == nil {
		if expires = int64(binary.BigEndian.Uint64(e.Value)); expires <= 0 {
			err = fmt.Errorf("the row expires at %d", expires)
		}
	}
	if err != nil {
		return 0, nil, fmt.Errorf("key cell: %w: %w", t.unread(), err)
	}
	return expires, entries.Rest, nil
}

// keep says for how long the database is to keep the cells of a row, of which the first is the key cell.
func (t *View) keep(cells []driver.Cell, expires int64) {
	if expires == 0 {
		return
	}
	values := t.Clock.life(expires, 1)
	for i := range cells {
		cells[i].TTL = values
	}
	cells[0].TTL = t.Clock.life(expires, 2)
}

// PutPosting puts a posting of a row.
func (t *View) PutPosting(key []byte, r *Record) driver.Mutation {
	return t.putPosting(key, r, t.hint(r))
}

func (t *View) putPosting(key []byte, r *Record, value []byte) driver.Mutation {
	cell := PostingCell
	cell.Value = value
	if r.Expires != 0 {
		cell.TTL = t.Clock.life(r.Expires, 2)
	}
	return driver.Mutation{Row: key, Puts: []driver.Cell{cell}}
}

// PutPostings puts all postings of records.
func (t *View) PutPostings(records []*Record) []driver.Mutation {
	var puts []driver.Mutation
	for _, r := range records {
		for _, key := range t.PostingKeys(r) {
			puts = append(puts, t.PutPosting(key, r))
		}
	}
	return puts
}

// Expired reports whether a row that was read has expired. One whose key cell the database has removed has, where rows
// expire.
func (t *View) Expired(row driver.Row, s *Scratch) bool {
	if !t.Meta.Expires() || len(row.Cells) == 0 {
		return false
	}
	if len(row.Cells[0].Qualifier) != 0 {
		return true
	}
	s.Where.Of(t, row.Key)
	b, _, err := t.OpenKeyCell(row.Cells[0].Value, s)
	for range t.Parts {
		if err == nil {
			_, b, err = value.CutSized(b)
		}
	}
	if err != nil {
		return false
	}
	expires, _, err := t.cutExpiry(b)
	return err == nil && t.Over(&Record{Expires: expires})
}

// Over reports whether a row has expired by now, whatever Late allows.
func (t *View) Over(r *Record) bool {
	clock := t.Clock
	clock.late = false
	return clock.over(r.Expires)
}
