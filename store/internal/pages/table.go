package pages

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/internal/engine"
	"github.com/rangecrypt/rangecrypt/store/internal/fault"
	"github.com/rangecrypt/rangecrypt/store/internal/session"
)

// A Table is a table of pages that is open. It is safe for concurrent use.
type Table struct {
	*session.Table
	cache          *cache
	opened, cached atomic.Uint64
}

// Cached is how many bytes of pages a client keeps of a table.
const Cached = 8 << 20

// New returns a table of pages whose description is that of an open one.
func New(tbl *session.Table) *Table { return &Table{Table: tbl, cache: newCache(Cached)} }

// Counts returns how many sealed mini-pages were opened, and how many were found opened before.
func (t *Table) Counts() (opened, cached uint64) { return t.opened.Load(), t.cached.Load() }

// A part is what one partition of the database has: the keys from its root on that are below its end. A nil end is unbounded.
type part struct{ root, end []byte }

// hasPart reports whether a key is long enough to be in a part.
func hasPart(spec driver.FamilySpec, key []byte) bool {
	return len(key) > spec.PrefixBytes || len(key) == spec.PrefixBytes && spec.SpreadBits == 0
}

// partOf returns the part that a key is in.
func partOf(spec driver.FamilySpec, key []byte) part {
	n := spec.PrefixBytes
	if spec.SpreadBits == 0 {
		if n == 0 {
			return part{root: []byte{0}} // a row key is not empty
		}
		return part{key[:n:n], ope.PrefixEnd(key[:n])}
	}
	// Meta lets no part have more than 8 bits after the prefix.
	root := append(key[:n:n], key[n]&^(0xff>>spec.SpreadBits))
	last := append(key[:n:n], root[n]|0xff>>spec.SpreadBits)
	return part{root, ope.PrefixEnd(last)}
}

// cutsPart reports whether the end of a range is within a part, where nil is none.
func cutsPart(spec driver.FamilySpec, end []byte) bool {
	least := spec.PrefixBytes // bytes of a root
	if least == 0 || spec.SpreadBits > 0 {
		least++
	}
	return len(end) >= least && !bytes.Equal(end, partOf(spec, end).root)
}

// has reports whether a key is in the part.
func (p part) has(key []byte) bool {
	return bytes.Compare(key, p.root) >= 0 && (p.end == nil || bytes.Compare(key, p.end) < 0)
}

// retry does something with the table as this client knows it, and again where it turns out that the schema is a newer one. It
// is for what has no effect if it fails so.
func (t *Table) retry(ctx context.Context, e *engine.Engine, do func(*engine.Engine) error) error {
	for {
		err := do(e)
		since, is := newer(err)
		if !is {
			return located(e, err)
		}
		if e, err = e.Env.AtLeast(ctx, since); err != nil {
			return err
		}
	}
}

// A locatedError is one of damage that says where it is.
type locatedError struct{ error }

func (e locatedError) Unwrap() error { return e.error }

// located says of damage where it is, unless that is said already: a change may read another table.
func located(e *engine.Engine, err error) error {
	if !errors.Is(err, fault.ErrTampered) || errors.As(err, new(locatedError)) {
		return err
	}
	return locatedError{fmt.Errorf("family %s of table %q: %w: bring the family back from a backup", e.Spec.Name, e.Meta.Name, err)}
}

// attempts is how often a chain of pages is looked at that does not fit together, since others may be cutting pages.
const attempts = 12

var errMissing = fmt.Errorf("%w: a page is missing", fault.ErrTampered)
