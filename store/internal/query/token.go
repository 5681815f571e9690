package query

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"strings"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store/internal/fault"
	"github.com/rangecrypt/rangecrypt/store/internal/keyring"
	"github.com/rangecrypt/rangecrypt/store/internal/rowcodec"
)

// Position is where a page ended. It is sealed in a page token, bound to the query.
type Position struct {
	Way   int    `json:",omitempty"` // index of the way
	Range int    // index of its range
	Key   []byte // that was scanned last
	// Where postings were scanned, rows of equal ciphertexts were put in order by their values, or all rows by those of a column,
	// the last row of the page; without a value it is null or NaN there. Where rows had several forms there is no key besides:
	Row   []byte `json:",omitempty"`
	Value []byte `json:",omitempty"`
	Null  bool   `json:",omitempty"`
	// Where a mutable column drives the query, the code of the value.
	Code int64 `json:",omitempty"`
}

// Token returns the page token to go on after a row.
func (last *Found) Token() string {
	f, t := last.by, last.by.table
	p := Position{Way: f.index, Range: last.index, Key: last.key}
	by := f.driving
	if last.index >= 0 {
		r := f.Ranges[last.index]
		if by == nil && r.GroupOf(last.key) > 0 {
			by = r.By
		}
		if r.By != nil && r.By.Order != nil {
			p.Code = t.CodeOf(r.By, last.record)
		}
	} else {
		p = Position{Way: f.index}
	}
	if by != nil {
		p.Row, p.Value = last.record.Key, by.Type.Append(nil, t.ValueOf(by, last.record))
	}
	if c := f.plan.sort; c != nil {
		at := f.placeOf(last)
		if p = (Position{Row: at.key, Null: at.value == nil}); !p.Null {
			p.Value = c.Type.Append(nil, at.value)
		}
	}
	b, err := json.Marshal(p)
	if err != nil {
		panic("store: " + err.Error()) // an integer and byte strings always marshal
	}
	return base64.RawURLEncoding.EncodeToString(t.Tokens.Seal(nil, keyring.NewHeader(), b, keyring.Place("page", f.plan.Fingerprint())))
}

// ParseToken returns the position of a token that was made for the query.
func ParseToken(t *rowcodec.View, token string, pl *plan) (*Position, error) {
	sealed, err := base64.RawURLEncoding.Strict().DecodeString(token)
	if err != nil || strings.ContainsAny(token, "\r\n") { // which decoding passes over
		return nil, fault.ErrToken
	}
	b, _, err := t.Tokens.Open(nil, sealed, keyring.Place("page", pl.Fingerprint()))
	if err != nil {
		return nil, fault.ErrToken
	}
	p := new(Position)
	if err := json.Unmarshal(b, p); err != nil || !p.fits(t, pl) {
		return nil, fault.ErrToken
	}
	if p.ofOther(pl) {
		p.Key = nil
	}
	return p, nil
}

// fits reports whether the position can be one of the plan.
func (p *Position) fits(t *rowcodec.View, pl *plan) bool {
	if c := pl.sort; c != nil {
		_, err := c.Type.Parse(p.Value)
		return p.Null || err == nil
	}
	if p.Way < 0 || p.Way >= len(pl.Ways) {
		return false
	}
	w := &pl.Ways[p.Way]
	if p.ofOther(pl) {
		_, err := w.driving.Type.Parse(p.Value)
		return err == nil && len(p.Row) > 0
	}
	if p.Range < 0 || p.Range >= len(w.Ranges) {
		return false
	}
	r := w.Ranges[p.Range]
	inside := bytes.Compare(r.Start, p.Key) <= 0 && (r.End == nil || bytes.Compare(p.Key, r.End) < 0)
	if !inside || len(p.Key) < max(r.Group, r.Ranks) {
		return false
	}
	if r.By != nil && r.By.Order != nil && (p.Code < r.Within.Lo || p.Code > r.Within.Hi) {
		return false
	}
	if w.anyOrder && t.Spec.CheckRow(p.Key) != nil {
		return false
	}
	if w.driving != nil {
		if _, _, _, err := w.driving.CutPosting(p.Key); err != nil {
			return false
		}
	}
	return true
}

// ofOther reports whether the position is in postings of another form than the ones that are scanned now, or of several. Then
// the value and the row say where to go on.
func (p *Position) ofOther(pl *plan) bool {
	if pl.sort != nil {
		return false
	}
	w := &pl.Ways[p.Way]
	return w.driving != nil && !w.served() && (w.forms != nil || !bytes.HasPrefix(p.Key, w.driving.Lead))
}

// place returns where the position stands in the order of a column that the client sorts by.
func (p *Position) place(c *rowcodec.Column) *place {
	at := &place{key: p.Row}
	if !p.Null {
		at.value, _ = c.Type.Parse(p.Value) // fits has seen that it does
	}
	return at
}

// rest returns the part of a range that is after the position. A group that is put in order is
// read again as a whole; what was on earlier pages is passed over.
//
// A row may have several postings of one value, left by writers that died; they are
// neighbours, and the position is after all of them.
func (p *Position) rest(r keyRange, w *way) keyRange {
	group := r.GroupOf(p.Key)
	switch {
	case w.anyOrder:
		r.after = p.Key
	case r.By != nil && r.By.Order != nil && w.reverse:
		r.Within.Hi, r.resume = p.Code, p
	case r.By != nil && r.By.Order != nil:
		r.Within.Lo, r.resume = p.Code, p
	case group > 0 && w.reverse:
		r.End = ope.PrefixEnd(p.Key[:group])
	case group > 0:
		r.Start = bytes.Clone(p.Key[:group])
	case w.driving != nil && w.reverse:
		r.End = p.Key[:len(p.Key)-len(rowcodec.WriteID{})]
	case w.driving != nil:
		r.Start = ope.PrefixEnd(p.Key[:len(p.Key)-len(rowcodec.WriteID{})])
	case w.reverse:
		r.End = p.Key
	default:
		r.Start = append(bytes.Clone(p.Key), 0)
	}
	return r
}

// passed returns the function that reports whether a row of the range was on an earlier page.
func (f *finder) passed(r keyRange, index int) func(*Found) bool {
	none := func(*Found) bool { return false }
	from := f.position()
	if from == nil || from.Range != index {
		return none
	}
	n := r.GroupOf(from.Key)
	if n == 0 {
		return none
	}
	value, err := r.By.Type.Parse(from.Value)
	if err != nil {
		return none // the token is authentic: it was made where this type was the same
	}
	return func(hit *Found) bool {
		if !bytes.Equal(hit.key[:n], from.Key[:n]) {
			return false
		}
		return f.order(r.By, hit, value, from.Row) <= 0
	}
}
