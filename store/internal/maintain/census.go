package maintain

import (
	"context"
	"errors"
	"slices"

	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/inspect"
	"github.com/rangecrypt/rangecrypt/store/internal/catalogue"
	"github.com/rangecrypt/rangecrypt/store/internal/chunks"
	"github.com/rangecrypt/rangecrypt/store/internal/engine"
	"github.com/rangecrypt/rangecrypt/store/internal/meta"
	"github.com/rangecrypt/rangecrypt/store/internal/pseudonym"
	"github.com/rangecrypt/rangecrypt/store/internal/session"
)

// runTenants verifies what is stored for each tenant, and looks for what is stored for none.
func (v *Verifier) runTenants(ctx context.Context) error {
	var some []*Verifier // with postings to be dropped
	putBack := false
	err := v.of.EachTenant(ctx, func(tbl *session.Table) error {
		one := NewVerifier(tbl, v.opts).Only(v.part, v.parts)
		one.room = v.room
		err := one.check(ctx)
		putBack = putBack || one.report.PutBack
		if v.room -= len(one.dangling); len(one.dangling) > 0 {
			some = append(some, one)
		} else {
			v.report.Add(&one.report)
		}
		return err
	})
	if err == nil {
		err = v.strays(ctx)
	}
	if v.report.PutBack = v.report.PutBack || putBack; err == nil {
		err = dropDangling(ctx, append(some, v)...)
	}
	for _, one := range some {
		v.report.Add(&one.report)
	}
	return err
}

// strays counts rows and postings of no tenant, and finds postings of no column. Those that clients left which slept while
// a column was dropped are noted to be dropped.
func (v *Verifier) strays(ctx context.Context) (err error) {
	known, err := pseudonym.All(ctx, v.of)
	if err != nil {
		return err
	}
	var rows, postings strayCount
	all := driver.Range{AnyOrder: true, Part: v.part, Parts: v.parts}
	keys := all
	keys.Cells = leastOf(v.table)
	err = chunks.InBatches(ctx, v.table.Data, keys, func(batch []driver.Row) error {
		for _, row := range batch {
			rows.add(known, pseudonym.At(row.Key, 0), writtenAt(row))
		}
		v.progress("orphans", rows.n)
		return nil
	})
	if err == nil && v.table.Postings != nil {
		err = chunks.InBatches(ctx, v.table.Postings, all, func(batch []driver.Row) error {
			for _, row := range batch {
				ours, now, err := knownPosting(ctx, v.table, row.Key)
				v.table = now
				switch {
				case err != nil:
					return err
				case ours:
					postings.add(known, pseudonym.At(row.Key, len(meta.ColumnID{})), 0)
				case left(now, row.Key):
					v.report.Postings, v.report.Dangling, v.report.Unknown = v.report.Postings+1, v.report.Dangling+1, v.report.Unknown+1
					if v.opts.Repair && len(v.dangling) < v.room {
						v.dangling = append(v.dangling, driver.Row{Key: row.Key})
					}
				default:
					v.fault(inspect.Fault{Kind: inspect.FaultPosting, Place: row.Key, Err: errFamily})
				}
			}
			v.progress("orphans", rows.n+postings.n)
			return nil
		})
	}
	if err != nil {
		return err
	}
	// Those of a tenant that was made since are no orphans.
	if known, err = pseudonym.All(ctx, v.of); err != nil {
		return err
	}
	latest := uint32(0)
	v.report.Orphans, latest = rows.without(known)
	v.report.OrphanPostings, _ = postings.without(known)
	// Those of tenants that were made since the catalogue was saved are none either.
	_, err = v.table.Env.AtLeast(ctx, latest)
	if errors.Is(err, catalogue.ErrPutBack) {
		v.report.PutBack, err = true, nil
	}
	return err
}

// knownPosting reports whether a posting is of a column that the table has, or had. It returns the table as it
// is known by then.
func knownPosting(ctx context.Context, t *engine.Engine, posting []byte) (bool, *engine.Engine, error) {
	for again := false; ; again = true {
		if len(posting) >= len(meta.ColumnID{})+len(pseudonym.Token{}) && knows(t, meta.ColumnID(posting[:len(meta.ColumnID{})])) {
			return true, t, nil
		}
		if again { // what was removed since it was read is of a column that was dropped
			there, err := chunks.Exists(ctx, t.Postings, posting)
			return !there, t, err
		}
		now, err := t.Env.Refresh(ctx) // the column may be newer than what is known of the table
		if err != nil {
			return false, t, err
		}
		t = now
	}
}

// dropLeft drops the postings that strays has noted, of columns that there still are not.
func (v *Verifier) dropLeft(ctx context.Context) error {
	for chunk := range slices.Chunk(v.dangling, chunks.FullBatch) {
		var keys [][]byte
		for _, posting := range chunk {
			ours, now, err := knownPosting(ctx, v.table, posting.Key)
			if err != nil {
				return err
			}
			if v.table = now; !ours {
				keys = append(keys, posting.Key)
			}
		}
		if err := v.table.Unpost(ctx, keys); err != nil {
			return err
		}
		v.report.Dropped += len(keys)
		v.progress("dropping", v.report.Dropped)
	}
	return nil
}

// mostStrays bounds the memory, whatever pseudonyms the database makes up.
const mostStrays = 1 << 16

// strayCount counts keys by the pseudonyms that were unknown, most of them.
type strayCount struct {
	by map[pseudonym.Token]strayKeys
	n  int // of all keys
}

type strayKeys struct {
	n      int
	latest uint32 // version of the catalogue at which one was written
}

func (s *strayCount) add(known map[pseudonym.Token]bool, of pseudonym.Token, written uint32) {
	s.n++
	if known[of] {
		return
	}
	if s.by == nil {
		s.by = make(map[pseudonym.Token]strayKeys)
	}
	if _, there := s.by[of]; !there && len(s.by) == mostStrays {
		of = pseudonym.Token{}
	}
	s.by[of] = strayKeys{s.by[of].n + 1, max(s.by[of].latest, written)}
}

// without returns how many keys are not of tenants that are known by now, and when the latest of them was written.
func (s *strayCount) without(known map[pseudonym.Token]bool) (n int, latest uint32) {
	for of, keys := range s.by {
		if !known[of] {
			n, latest = n+keys.n, max(latest, keys.latest)
		}
	}
	return n, latest
}
