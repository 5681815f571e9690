package query

import (
	"bytes"
	"cmp"
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
	Range int    // index of the range
	Key   []byte // that was scanned last
	// Where rows of equal ciphertexts were put in order by their values, the last row of the page:
	Row   []byte `json:",omitempty"`
	Value []byte `json:",omitempty"`
	// Where a mutable column drives the query, the code of the value.
	Code int64 `json:",omitempty"`
}

// Token returns the page token to go on after a row.
func (last *Found) Token(reverse bool) string {
	t := last.by.table
	p := Position{Range: last.index, Key: last.key}
	r := last.by.plan.Ranges[last.index]
	if r.group > 0 {
		p.Row, p.Value = last.record.Key, r.by.Type.Append(nil, t.ValueOf(r.by, last.record))
	}
	if r.by != nil && r.by.Order != nil {
		p.Code = t.CodeOf(r.by, last.record)
	}
	b, err := json.Marshal(p)
	if err != nil {
		panic("store: " + err.Error()) // an integer and byte strings always marshal
	}
	return base64.RawURLEncoding.EncodeToString(t.Tokens.Seal(nil, keyring.NewHeader(), b, keyring.Place("page", last.by.plan.Fingerprint(reverse))))
}

// ParseToken returns the position of a token that was made for the query.
func ParseToken(t *rowcodec.View, token string, pl *plan, reverse bool) (*Position, error) {
	sealed, err := base64.RawURLEncoding.Strict().DecodeString(token)
	if err != nil || strings.ContainsAny(token, "\r\n") { // which decoding passes over
		return nil, fault.ErrToken
	}
	b, _, err := t.Tokens.Open(nil, sealed, keyring.Place("page", pl.Fingerprint(reverse)))
	if err != nil {
		return nil, fault.ErrToken
	}
	p := new(Position)
	if err := json.Unmarshal(b, p); err != nil || p.Range < 0 || p.Range >= len(pl.Ranges) {
		return nil, fault.ErrToken
	}
	r := pl.Ranges[p.Range]
	inside := bytes.Compare(r.Start, p.Key) <= 0 && (r.end == nil || bytes.Compare(p.Key, r.end) < 0)
	if !inside || len(p.Key) < r.group {
		return nil, fault.ErrToken
	}
	if r.by != nil && r.by.Order != nil && (p.Code < r.within.lo || p.Code > r.within.hi) {
		return nil, fault.ErrToken
	}
	if pl.driving != nil {
		if _, _, _, err := pl.driving.CutPosting(p.Key); err != nil {
			return nil, fault.ErrToken
		}
	}
	return p, nil
}

// rest returns the part of a range that is after the position. A group that is put in order is
// read again as a whole; what was on earlier pages is passed over.
//
// A row may have several postings of one value, left by writers that died; they are
// neighbours, and the position is after all of them.
func (p *Position) rest(r keyRange, reverse, postings bool) keyRange {
	switch {
	case r.by != nil && r.by.Order != nil && reverse:
		r.within.hi, r.resume = p.Code, p
	case r.by != nil && r.by.Order != nil:
		r.within.lo, r.resume = p.Code, p
	case r.group > 0 && reverse:
		r.end = ope.PrefixEnd(p.Key[:r.group])
	case r.group > 0:
		r.Start = bytes.Clone(p.Key[:r.group])
	case postings && reverse:
		r.end = p.Key[:len(p.Key)-len(rowcodec.WriteID{})]
	case postings:
		r.Start = ope.PrefixEnd(p.Key[:len(p.Key)-len(rowcodec.WriteID{})])
	case reverse:
		r.end = p.Key
	default:
		r.Start = append(bytes.Clone(p.Key), 0)
	}
	return r
}

// passed returns the function that reports whether a row of the range was on an earlier page.
func (f *finder) passed(r keyRange, index int) func(*Found) bool {
	none := func(*Found) bool { return false }
	if f.from == nil || f.from.Range != index || r.group == 0 {
		return none
	}
	value, err := r.by.Type.Parse(f.from.Value)
	if err != nil {
		return none // the token is authentic: it was made where this type was the same
	}
	return func(hit *Found) bool {
		if !bytes.Equal(hit.key[:r.group], f.from.Key[:r.group]) {
			return false
		}
		order := cmp.Or(r.by.Type.Compare(f.table.ValueOf(r.by, hit.record), value), bytes.Compare(hit.record.Key, f.from.Row))
		if f.of.Reverse {
			order = -order
		}
		return order <= 0
	}
}
