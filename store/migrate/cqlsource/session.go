package cqlsource

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"reflect"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/driver"
)

// A Mirror makes a write to the source by calling apply, and then brings the rows with some keys into the encrypted table.
type Mirror interface {
	Write(ctx context.Context, keys []store.Row, apply func(ctx context.Context) error) error
}

// A sparing Mirror makes a write of a row whose key no encrypted table has where no migration goes on, and refuses it while one does.
type sparing interface {
	WriteUnfit(ctx context.Context, why error, apply func(ctx context.Context) error) error
}

// A Session executes statements of an application that change rows, those of a source by a [Mirror].
//
// An INSERT, UPDATE or DELETE of the table names the whole primary key of each row, by values that are bound or by literals:
// with columns and VALUES, or with = and IN. Other statements of the table are [ErrRefused]: lightweight transactions, deletions
// of ranges and of whole partitions, keys that the server computes, JSON, batches as text, TRUNCATE and changes of the table.
// So is a key that no encrypted table has, while a migration goes on. Statements of other tables pass as they are, and so does a SELECT.
//
// USING TTL and USING TIMESTAMP are the application's. What has a time of the future looks like a write that came after the cut-over.
type Session struct {
	source *Source
	mirror Mirror
}

// NewSession returns a session that executes statements with that of the source.
func NewSession(source *Source, mirror Mirror) *Session { return &Session{source, mirror} }

// Exec executes a statement. Values are those that Query of gocql takes, in the order of the markers: those of the key are not
// bound by a name ([gocql.NamedValue]).
func (s *Session) Exec(ctx context.Context, stmt string, values ...any) error {
	query := s.source.session.Query(stmt, values...)
	keys, ours, err := s.keys(ctx, query.Keyspace(), stmt, values)
	if err == nil && !ours {
		return query.ExecContext(ctx)
	}
	return s.write(ctx, keys, err, func(ctx context.Context) error {
		return query.Consistency(s.source.atLeast(query.GetConsistency())).ExecContext(ctx)
	})
}

// write makes a write of rows that were named, or for some reason not.
func (s *Session) write(ctx context.Context, keys []store.Row, err error, apply func(context.Context) error) error {
	spares, is := s.mirror.(sparing)
	switch {
	case err == nil:
		return s.mirror.Write(ctx, keys, apply)
	case is && errors.As(err, new(keyError)):
		return spares.WriteUnfit(ctx, err, apply)
	}
	return err
}

// ExecBatch executes a batch that gocql's Session.Batch has made.
func (s *Session) ExecBatch(ctx context.Context, batch *gocql.Batch) error {
	var all []store.Row
	var unfit error
	any := false
	for _, e := range batch.Entries {
		keys, ours, err := s.keys(ctx, batch.Keyspace(), e.Stmt, e.Args)
		if err != nil && !errors.As(err, new(keyError)) {
			return err
		}
		all, any, unfit = append(all, keys...), any || ours || err != nil, cmp.Or(unfit, err)
	}
	if !any {
		return batch.ExecContext(ctx)
	}
	return s.write(ctx, all, unfit, func(ctx context.Context) error {
		return batch.Consistency(s.source.atLeast(batch.GetConsistency())).ExecContext(ctx)
	})
}

// A keyError refuses a statement whose key no encrypted table has.
type keyError struct{ error }

func (e keyError) Unwrap() error { return e.error }

// mostKeys is how many rows a statement may name.
const mostKeys = 1000

// keys returns the keys that a statement names, and whether it is of the table. The keyspace is that of names without one.
// A statement that is refused may be one of the table as it was altered meanwhile.
func (s *Session) keys(ctx context.Context, keyspace, stmt string, values []any) (rows []store.Row, ours bool, err error) {
	before := s.source.layout.Load()
	rows, ours, err = s.named(ctx, keyspace, stmt, values)
	if before == nil || !errors.Is(err, ErrRefused) || errors.As(err, new(keyError)) {
		return rows, ours, err
	}
	if l, unread := s.source.refresh(ctx); unread != nil || l.fingerprint == before.fingerprint {
		return rows, ours, err
	}
	return s.named(ctx, keyspace, stmt, values)
}

// named is keys by the layout as it was read last.
func (s *Session) named(ctx context.Context, keyspace, stmt string, values []any) (rows []store.Row, ours bool, err error) {
	l, missing := s.source.usable(ctx)
	if missing != nil && !errors.Is(missing, driver.ErrNoFamily) {
		return nil, false, missing
	}
	t := &target{keyspace: s.source.keyspace, table: s.source.table, session: keyspace}
	if missing == nil {
		for _, c := range l.key {
			t.key = append(t.key, c.name)
		}
	}
	n, err := t.naming(stmt)
	switch {
	case err == nil && n == nil:
		return nil, false, nil // of something else, also when the table is dropped
	case missing != nil:
		return nil, false, missing
	case err != nil:
		return nil, false, err
	}
	if n.marks != len(values) {
		return nil, false, refusedf("it has %d markers and %d values: give each marker one, and no function in place of them", n.marks, len(values))
	}
	rows = []store.Row{{}}
	for i := range l.key {
		part, err := l.key[i].named(n, values)
		if err != nil {
			return nil, false, err
		}
		if len(part)*len(rows) > mostKeys {
			return nil, false, refusedf("it names more than %d rows: make several statements of it", mostKeys)
		}
		var more []store.Row
		for _, row := range rows {
			for _, v := range part {
				with := maps.Clone(row)
				with[l.key[i].name] = v
				more = append(more, with)
			}
		}
		rows = more
	}
	return rows, true, nil
}

// named returns the values that a statement gives a part of the key.
func (c *column) named(n *naming, values []any) (parts []any, err error) {
	take := func(v any, err error) error {
		switch {
		case errors.Is(err, ErrRefused):
			return err
		case err != nil:
			return keyError{refusedf("%s, a part of the primary key, %w: give it a value that both tables have", c.name, err)}
		}
		parts = append(parts, v)
		return nil
	}
	for _, t := range n.parts[c.name] {
		if t.kind != tokenMark {
			v := c.kind.parse(t.text, t.kind)
			if v == nil {
				return nil, refusedf("the value of %s, which is in the primary key, is a literal that the server reads as a value of %s: bind it with ?", c.name, c.cql)
			}
			b, _ := c.kind.encode(v)
			if err := take(c.part(b)); err != nil {
				return nil, err
			}
			continue
		}
		if !n.lists[c.name] {
			if err := take(c.canonical(values[t.mark])); err != nil {
				return nil, err
			}
			continue
		}
		list := reflect.Indirect(reflect.ValueOf(values[t.mark]))
		if list.Kind() != reflect.Slice && list.Kind() != reflect.Array {
			return nil, refusedf("what is bound to IN on %s is a %T: bind a slice", c.name, values[t.mark])
		}
		for i := range list.Len() {
			if err := take(c.canonical(list.Index(i).Interface())); err != nil {
				return nil, err
			}
		}
	}
	return parts, nil
}
