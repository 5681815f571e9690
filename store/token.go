package store

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"

	"github.com/rangecrypt/rangecrypt/ope"
)

// position is where a page ended. It is sealed in a page token, bound to the query.
type position struct {
	Range int    // index of the range
	Key   []byte // that was scanned last
	// Where rows of equal ciphertexts were put in order by their values, the last row of the page:
	Row   []byte `json:",omitempty"`
	Value []byte `json:",omitempty"`
	// Where a mutable column drives the query, the code of the value.
	Code int64 `json:",omitempty"`
}

// token returns the page token to go on behind a row.
func (t *view) token(last *found, reverse bool) string {
	p := position{Range: last.index, Key: last.key}
	r := last.by.plan.ranges[last.index]
	if r.group > 0 {
		p.Row, p.Value = last.record.key, r.by.typ.append(nil, t.valueOf(r.by, last))
	}
	if r.by != nil && r.by.order != nil {
		p.Code = t.codeOf(r.by, last.record)
	}
	b, err := json.Marshal(p)
	if err != nil {
		panic("store: " + err.Error()) // an integer and byte strings always marshal
	}
	return base64.RawURLEncoding.EncodeToString(t.tokens.Seal(nil, newHeader(), b, place("page", last.by.plan.fingerprint(reverse))))
}

// parseToken returns the position of a token that was made for the query.
func (t *view) parseToken(token string, pl *plan, reverse bool) (*position, error) {
	sealed, err := base64.RawURLEncoding.Strict().DecodeString(token)
	if err != nil {
		return nil, ErrToken
	}
	b, _, err := t.tokens.Open(nil, sealed, place("page", pl.fingerprint(reverse)))
	if err != nil {
		return nil, ErrToken
	}
	p := new(position)
	if err := json.Unmarshal(b, p); err != nil || p.Range < 0 || p.Range >= len(pl.ranges) {
		return nil, ErrToken
	}
	r := pl.ranges[p.Range]
	inside := bytes.Compare(r.start, p.Key) <= 0 && (r.end == nil || bytes.Compare(p.Key, r.end) < 0)
	if !inside || len(p.Key) < r.group {
		return nil, ErrToken
	}
	if r.by != nil && r.by.order != nil && (p.Code < r.within.lo || p.Code > r.within.hi) {
		return nil, ErrToken
	}
	if pl.driving != nil {
		if _, _, _, err := pl.driving.cutPosting(p.Key); err != nil {
			return nil, ErrToken
		}
	}
	return p, nil
}

// rest returns the part of a range that is behind the position. A group that is put in order is
// read again as a whole; what was on earlier pages is passed over.
//
// A row may have several postings of one value, left behind by writers that died; they are
// neighbours, and the position is behind all of them.
func (p *position) rest(r keyRange, reverse, postings bool) keyRange {
	switch {
	case r.by != nil && r.by.order != nil && reverse:
		r.within.hi, r.resume = p.Code, p
	case r.by != nil && r.by.order != nil:
		r.within.lo, r.resume = p.Code, p
	case r.group > 0 && reverse:
		r.end = ope.PrefixEnd(p.Key[:r.group])
	case r.group > 0:
		r.start = bytes.Clone(p.Key[:r.group])
	case postings && reverse:
		r.end = p.Key[:len(p.Key)-len(writeID{})]
	case postings:
		r.start = ope.PrefixEnd(p.Key[:len(p.Key)-len(writeID{})])
	case reverse:
		r.end = p.Key
	default:
		r.start = append(bytes.Clone(p.Key), 0)
	}
	return r
}

// passed returns the function that reports whether a row of the range was on an earlier page.
func (f *finder) passed(r keyRange, index int) func(*found) bool {
	none := func(*found) bool { return false }
	if f.from == nil || f.from.Range != index || r.group == 0 {
		return none
	}
	value, err := r.by.typ.parse(f.from.Value)
	if err != nil {
		return none // the token is authentic: it was made where this type was the same
	}
	return func(hit *found) bool {
		if !bytes.Equal(hit.key[:r.group], f.from.Key[:r.group]) {
			return false
		}
		order := cmp.Or(r.by.typ.compare(f.table.valueOf(r.by, hit), value), bytes.Compare(hit.record.key, f.from.Row))
		if f.query.Reverse {
			order = -order
		}
		return order <= 0
	}
}
