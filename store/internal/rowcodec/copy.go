package rowcodec

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"slices"

	"github.com/rangecrypt/rangecrypt/internal/seal"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/internal/fault"
	"github.com/rangecrypt/rangecrypt/store/internal/meta"
)

// Where columns may cover, the cell of a posting says by its first byte what the posting is:
//
//	0x00   pending: the row may come; 8 random bytes follow
//	other  of a column that covers: a copy of the row, sealed as a key cell is, for the place of the posting
//	0xff   doubtful: the row may go; 8 random bytes follow
//
// A query by a column that covers need not read the row of a copy. Any other posting is a hint: the row is read. A posting
// goes from pending to a copy after the row was acknowledged, and to doubtful before the row is deleted. A copy replaces the
// pending value that was seen, and no other, so that it never comes after a doubtful one: see driver.Family.Replace.
//
// In a conditional table a [Doubt] makes the posting doubtful instead. The time of the row is the server's there, so that
// nobody who has read the row knows what comes after its postings.
const (
	pendingPosting  = 0x00
	doubtfulPosting = 0xff

	HintSize = 1 + 8 // bytes of either
)

// A Deletion says that a row is being deleted: nobody but the client that has put the row may put copies of it then. It is a
// row of the family of postings, with the key of no column:
//
//	0, 4 bytes || tenant token, if the table has tenants || row key
//
// Each call that deletes the row has an empty cell there, whose qualifier it draws.
type Deletion [8]byte

// NewDeletion returns that of a call.
func NewDeletion() (d Deletion) {
	rand.Read(d[:])
	return d
}

// A Doubt is a cell of a posting, empty and named 0xff and 8 random bytes: the row is about to be replaced or deleted by the
// call that drew these. It makes the posting a hint, whatever comes into its other cell. It goes with the posting, or when the
// call knows that the row stays.
type Doubt [9]byte

// NewDoubt returns that of a call.
func NewDoubt() (d Doubt) {
	d[0] = doubtfulPosting
	rand.Read(d[1:])
	return d
}

// Of puts the doubt into a posting.
func (d Doubt) Of(posting []byte) driver.Mutation {
	return driver.Mutation{Row: posting, Puts: []driver.Cell{{Qualifier: d[:], Value: []byte{}}}}
}

// Settled takes it back.
func (d Doubt) Settled(posting []byte) driver.Mutation {
	return driver.Mutation{Row: posting, Deletes: [][]byte{d[:]}}
}

// PostingValue returns what a posting is by its cells: a doubtful one where a cell doubts it, or its value; nil if it is not there.
func PostingValue(cells []driver.Cell) []byte {
	switch {
	case len(cells) == 0:
		return nil
	case len(cells) > 1 || len(cells[0].Qualifier) > 0:
		return []byte{doubtfulPosting}
	}
	return cells[0].Value
}

// DeletionLead returns what the keys of all deletions begin with.
func (t *View) DeletionLead() []byte {
	return slices.Concat(make([]byte, len(meta.ColumnID{})), t.Prefix)
}

// DeletionKey returns the key of the deletion of a row.
func (t *View) DeletionKey(row []byte) []byte { return append(t.DeletionLead(), row...) }

// CutDeletion returns the key of the row that a deletion is of, or reports that the key is of something else.
func (t *View) CutDeletion(key []byte) (row []byte, is bool) {
	if row, is = bytes.CutPrefix(key, t.DeletionLead()); !is || !t.Meta.AppendOnly() {
		return nil, false
	}
	spec, err := t.Meta.DataSpec()
	return row, err == nil && len(row) >= max(1, spec.PrefixBytes)
}

// A LoadTie is the tie-breaker of a row of a load.
type LoadTie [16]byte

// writeOf returns the write id of a row of a load: whoever puts the row again has the same posting.
func (t *View) writeOf(tie LoadTie) (w WriteID) {
	sum := sha256.Sum256(append(append([]byte("rangecrypt/1 load write"), t.Meta.ID[:]...), tie[:]...))
	copy(w[:], sum[:])
	return w
}

// OfLoad reports whether a row is one of a load.
func (t *View) OfLoad(r *Record) bool {
	tie, is := r.Values[len(t.Parts)-1].([16]byte)
	return is && r.Write == t.writeOf(tie)
}

// hint returns the value of a new posting.
func (t *View) hint(r *Record) []byte {
	if !t.Meta.Copies() {
		return PostingCell.Value
	}
	if r.attempt == [8]byte{} {
		rand.Read(r.attempt[:])
	}
	return append([]byte{pendingPosting}, r.attempt[:]...)
}

// Pends reports whether the posting of a record is as the record has put it.
func (r *Record) Pends(value []byte) bool {
	return Pending(value) && bytes.Equal(value[1:], r.attempt[:])
}

// Pending reports whether a posting has no copy yet.
func Pending(value []byte) bool { return len(value) > 0 && value[0] == pendingPosting }

// Doubtful reports whether the row of such a posting is being deleted.
func Doubtful(value []byte) bool { return len(value) > 0 && value[0] == doubtfulPosting }

// Doubts reports whether a posting of a record is as Doubt has put it.
func (r *Record) Doubts(value []byte) bool {
	return Doubtful(value) && bytes.Equal(value[1:], r.attempt[:])
}

// HasCopy reports whether such a posting has a copy of the row.
func HasCopy(value []byte) bool { return len(value) > 0 && !Pending(value) && !Doubtful(value) }

// NewAttempt begins another attempt at the postings of a record.
func (r *Record) NewAttempt() { rand.Read(r.attempt[:]) }

// Doubt puts a posting of a row that is going to be deleted.
func (t *View) Doubt(key []byte, r *Record) driver.Mutation {
	return t.putPosting(key, r, append([]byte{doubtfulPosting}, r.attempt[:]...))
}

// CopyInto returns the replacement of a posting that was seen by one with a copy of the row.
func (t *View) CopyInto(c *Column, key []byte, seen driver.Cell, r *Record) driver.Replacement {
	content := t.appendKey(nil, r)
	var stored []byte
	for _, i := range t.byID {
		if of, v := t.Stored[i], r.Values[len(t.Parts)+i]; v != nil && of.Of == nil && c.copies(i) {
			stored = of.Type.AppendStored(stored[:0], v)
			content = of.appendPacked(content, stored)
		}
	}
	header, place := seal.Header{Policy: max(t.Version, r.Version), Write: r.Write}, t.Places(r.Key)
	var value []byte
	if t.clear {
		value = append(plainCell(header, len(content)), content...)
	} else {
		value = t.KeySealer.Seal(nil, header, content, place.At(c.copyQualifier(key)))
	}
	return driver.Replacement{Row: key, Seen: seen, Puts: t.putPosting(key, r, value).Puts}
}

// copyQualifier returns what is in place of a qualifier where a copy is sealed: no column id is as long.
func (c *Column) copyQualifier(posting []byte) []byte { return posting[:len(c.Lead)+c.Size] }

// OpenCopy returns the row of a posting that has a copy, with the columns in want, of which the posting's is one, or nil if
// the row has expired.
func (t *View) OpenCopy(c *Column, posting, value []byte, want []bool, s *Scratch) (*Record, error) {
	_, key, write, err := c.CutPosting(posting)
	if err != nil {
		return nil, err
	}
	s.Where.Of(t, key)
	b, h, err := t.openAt(value, c.copyQualifier(posting), s)
	if err == nil && h.Write != write {
		err = fmt.Errorf("%w: it is of another write", fault.ErrTampered)
	}
	var r *Record
	if err == nil {
		r, err = t.decode(bytes.Clone(key), b, h, nil, want, s)
	}
	if err == nil && (len(b) == 0 || r != nil && r.Values[len(t.Parts)+c.Position] == nil) { // which nothing but a plain copy may lack
		err = fmt.Errorf("%w: it has no value of the column", fault.ErrTampered)
	}
	if err != nil {
		return nil, fmt.Errorf("the copy of a row in an index entry of column %q: %w; 'rangecrypt verify --repair' puts the row there again", c.Name, err)
	}
	return r, nil
}

// OutdatedCopy reports whether the copy in a posting, which opens, is not as this view makes copies.
func (t *View) OutdatedCopy(c *Column, posting, value []byte, s *Scratch) (bool, error) {
	_, key, _, err := c.CutPosting(posting)
	if err != nil {
		return false, err
	}
	s.Where.Of(t, key)
	b, _, err := t.openAt(value, c.copyQualifier(posting), s)
	if err == nil {
		_, b, err = t.cutKey(b)
	}
	if err != nil || !t.clear && !t.KeySealer.Newest(value) {
		return err == nil, err
	}
	entries := Entries{Rest: b}
	for _, i := range t.byID {
		if e, err := entries.Of(t.Stored[i].Id); err != nil || e.Present && (t.Stored[i].Of != nil || !c.copies(i)) {
			return err == nil, err
		}
	}
	return entries.passed > 0 || len(entries.Rest) > 0, nil
}
