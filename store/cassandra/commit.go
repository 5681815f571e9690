package cassandra

import (
	"context"
	"crypto/rand"
	"fmt"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"github.com/rangecrypt/rangecrypt/internal/pause"
	"github.com/rangecrypt/rangecrypt/store/cassandra/internal/hooks"
	"github.com/rangecrypt/rangecrypt/store/driver"
)

// CheckAndPut implements [driver.Family].
func (f *family) CheckAndPut(ctx context.Context, row []byte, expect driver.Cell, puts ...driver.Cell) (bool, error) {
	return f.commit(ctx, "check and put", row, []driver.Cell{expect}, puts, nil)
}

// Commit implements [driver.Committer].
func (f *family) Commit(ctx context.Context, row []byte, expect, puts []driver.Cell, deletes [][]byte) (bool, error) {
	return f.commit(ctx, "commit", row, expect, puts, deletes)
}

func (f *family) commit(ctx context.Context, what string, row []byte, expect, puts []driver.Cell, deletes [][]byte) (bool, error) {
	if err := f.spec.CheckConditional(row, expect, puts, deletes); err != nil {
		return false, err
	}
	if ctx.Err() != nil {
		return false, fmt.Errorf("cassandra: %s: %w", what, pause.Ended(ctx))
	}
	part := partition(f.spec, row)
	statements, possible := f.conditions(part, row, expect, puts, deletes)
	if !possible || len(statements) == 0 {
		return possible, nil
	}
	err := f.doubt.Room(ctx, func(ctx context.Context, row []byte) error {
		_, err := f.Get(ctx, row, driver.Slice{Limit: 1})
		return err
	})
	if err != nil {
		return false, fmt.Errorf("cassandra: %s: a change of unknown outcome has to be settled first: %w", what, err)
	}
	var i *gocql.Iter
	if len(statements) == 1 {
		i = f.db.once(f.db.session.Query(statements[0].Stmt, statements[0].Args...)).RoutingKey(part).IterContext(ctx)
	} else {
		b := f.db.session.Batch(gocql.UnloggedBatch).Consistency(f.db.quorum).SerialConsistency(f.db.serial).
			DefaultTimestamp(false).RetryPolicy(hooks.Elsewhere)
		b.Entries = statements
		i = b.IterContext(ctx)
	}
	ok, err := applied(i)
	if err != nil && !notApplied(err) {
		f.doubt.Add(row)
	}
	return ok, f.db.failedCAS(ctx, what, err)
}

// conditions returns the statements of a conditional change. They are all of one partition, so
// the server decides and applies them in one step. Not possible is a change that expects two
// values of one cell.
//
// A cell that is expected to have a value or, by a null, to be absent, is named in a statement
// with the condition. If the cell is also put or deleted that is the statement which does so.
// Otherwise it is an UPDATE that sets nothing: its only column is bound to "unset", a value of
// the protocol, which leaves the column as it is and writes nothing at all. Cassandra has no
// other way to check a cell without writing it.
//
// All statements of a batch have one timestamp, and with it a delete wins over a put. So they
// must not name one cell twice, which the contract forbids for the same reason.
func (f *family) conditions(part, row []byte, expect, puts []driver.Cell, deletes [][]byte) (statements []gocql.BatchEntry, possible bool) {
	wanted := make(map[string][]byte, len(expect))
	for _, e := range expect {
		if other, twice := wanted[string(e.Qualifier)]; twice && ((other == nil) != (e.Value == nil) || string(other) != string(e.Value)) {
			return nil, false
		}
		wanted[string(e.Qualifier)] = e.Value
	}
	add := func(stmt string, values ...any) {
		statements = append(statements, gocql.BatchEntry{Stmt: stmt, Args: values, Idempotent: true}) // or gocql does not ask the policy
	}
	cell := func(values []any, qualifier []byte) []any {
		return append(f.key(values, part, row), blob(qualifier))
	}
	for _, c := range puts {
		if value, ok := wanted[string(c.Qualifier)]; ok {
			delete(wanted, string(c.Qualifier))
			stmt, set := f.cas, []any{blob(c.Value)}
			if f.inHead(c.Qualifier) {
				stmt, set = f.headCAS[len(c.Qualifier)], append(set, blob(c.Value))
			}
			add(stmt, append(cell(set, c.Qualifier), value)...)
		} else {
			stmt, values := f.putCell(part, row, c)
			add(stmt, values...)
		}
	}
	for _, q := range deletes {
		value, ok := wanted[string(q)]
		if f.inHead(q) && (!ok || value != nil) {
			add(f.headDelete[len(q)], row)
		}
		switch {
		case !ok:
			add(f.deleteCell, cell(nil, q)...)
		case value == nil:
			// Expected to be absent: there is nothing to delete, and a tombstone would stay.
		default:
			delete(wanted, string(q))
			add(f.casDelete, append(cell(nil, q), value)...)
		}
	}
	for _, e := range expect {
		if value, ok := wanted[string(e.Qualifier)]; ok {
			delete(wanted, string(e.Qualifier))
			add(f.cas, append(cell([]any{gocql.UnsetValue}, e.Qualifier), value)...)
		}
	}
	if len(expect) == 0 && len(statements) > 0 {
		// Nothing is expected, but the change has to take its place among the conditional ones:
		// a condition that holds, as no cell has this value.
		var nobody [32]byte
		_, _ = rand.Read(nobody[:]) // never fails
		var q []byte
		if len(puts) > 0 {
			q = puts[0].Qualifier
		} else {
			q = deletes[0]
		}
		add(f.casUnlike, append(cell([]any{gocql.UnsetValue}, q), nobody[:])...)
	}
	return statements, true
}
