package cqlsource

import (
	"errors"
	"fmt"
	"slices"
)

// ErrRefused is returned for a statement whose rows a [Session] cannot tell, or cannot keep alike. Nothing was sent.
var ErrRefused = errors.New("the statement cannot be mirrored")

func refusedf(format string, args ...any) error {
	return fmt.Errorf("cqlsource: %w: "+format, append([]any{ErrRefused}, args...)...)
}

// A target says which statements are of the table.
type target struct {
	keyspace, table string
	session         string // the keyspace of names without one
	key             []string
}

// A naming is what a statement of the table says of the key of its rows: for each part the values that it may have.
type naming struct {
	parts map[string][]token
	lists map[string]bool // parts whose one marker stands for a list
	marks int             // how many markers the statement has
}

// A reader reads the tokens of a statement.
type reader struct {
	*target
	tokens []token
}

// naming returns what a statement says of the rows of the table, nil if it is of something else.
func (t *target) naming(stmt string) (*naming, error) {
	all, err := tokens(stmt)
	if err != nil {
		return nil, refusedf("%w: end it", err)
	}
	r := &reader{t, all}
	var ours bool
	switch {
	case r.take("INSERT"):
		ours, err = r.into("INTO")
		if ours && err == nil {
			return r.finish(all, (*reader).insert)
		}
	case r.take("UPDATE"):
		ours, err = r.into("")
		if ours && err == nil {
			return r.finish(all, (*reader).where)
		}
	case r.take("DELETE"):
		r.skip("FROM")
		ours, err = r.into("FROM")
		if ours && err == nil {
			return r.finish(all, (*reader).where)
		}
	case r.take("SELECT"):
		return nil, nil
	default:
		err = r.other(all)
	}
	if err != nil && !t.mentioned(all, t.table) && !r.wide(all) {
		err = nil // the server will say what it thinks of it
	}
	return nil, err
}

// mentioned reports whether a name is among tokens.
func (t *target) mentioned(all []token, name string) bool {
	return slices.ContainsFunc(all, func(of token) bool { n, ok := of.name(); return ok && n == name })
}

// wide reports whether a statement is about more than a table, and about this one by that.
func (r *reader) wide(all []token) bool {
	return all[0].is("USE") || len(all) > 1 && all[1].is("KEYSPACE") && !all[0].is("CREATE") && r.mentioned(all, r.keyspace)
}

// other returns why a statement of another kind is refused, if it is of the table.
func (r *reader) other(all []token) error {
	switch {
	case all[0].is("BEGIN"):
		return refusedf("it is a batch as text: make a Batch of gocql, and give it to ExecBatch")
	case all[0].is("TRUNCATE"):
		return refusedf("TRUNCATE removes rows without naming them: delete them one by one, or abort the migration first, and make it with the session of gocql itself")
	case all[0].is("USE"):
		return refusedf("USE changes what table a name is, of one connection: write the keyspace before the name of the table")
	case all[0].is("ALTER"), all[0].is("DROP"):
		return refusedf("it changes the table, which a migration must find as it was: finish or abort the migration first, and make it with the session of gocql itself")
	}
	return refusedf("it is no INSERT, UPDATE or DELETE, and names the table: make it with the session of gocql itself, if it changes no row")
}

// take goes past a keyword or symbol, if that is next.
func (r *reader) take(text string) bool {
	if r.tokens[0].is(text) {
		r.tokens = r.tokens[1:]
		return true
	}
	return false
}

// skip goes on to a keyword that is in no brackets, or to the end.
func (r *reader) skip(text string) {
	depth := 0
	for ; r.tokens[0].kind != tokenEnd; r.tokens = r.tokens[1:] {
		switch t := r.tokens[0]; {
		case depth == 0 && t.is(text):
			return
		case t.is("("), t.is("["), t.is("{"):
			depth++
		case t.is(")"), t.is("]"), t.is("}"):
			depth--
		}
	}
}

// into reads the name of a table after a keyword, and reports whether it is this one.
func (r *reader) into(keyword string) (ours bool, err error) {
	if keyword != "" && !r.take(keyword) {
		return false, refusedf("it has no %s where the name of the table is expected: write it as CQL has it", keyword)
	}
	keyspace, table := r.session, ""
	var ok bool
	if table, ok = r.tokens[0].name(); !ok {
		return false, refusedf("it has no name of a table where one is expected: write it as CQL has it")
	}
	r.tokens = r.tokens[1:]
	if r.take(".") {
		keyspace = table
		if table, ok = r.tokens[0].name(); !ok {
			return false, refusedf("it has no name of a table after the keyspace: write it as CQL has it")
		}
		r.tokens = r.tokens[1:]
	}
	return keyspace == r.keyspace && table == r.table, nil
}

// finish reads the rest of a statement of the table, and checks that it names whole keys.
func (r *reader) finish(all []token, read func(*reader, *naming) error) (*naming, error) {
	n := &naming{parts: make(map[string][]token), lists: make(map[string]bool)}
	named := make(map[string]bool)
	for _, t := range all {
		if t.kind != tokenMark {
			continue
		}
		n.marks++
		if t.text != "" && named[t.text] {
			return nil, refusedf("it has the marker :%s twice, which versions of Cassandra bind in different ways: give them two names", t.text)
		}
		named[t.text] = true
	}
	if err := read(r, n); err != nil {
		return nil, err
	}
	for r.take(";") {
	}
	if r.tokens[0].kind != tokenEnd {
		return nil, refusedf("it goes on where its end is expected: write one statement, as CQL has it")
	}
	for _, part := range r.key {
		if n.parts[part] == nil {
			return nil, refusedf("it does not name the part %s of the primary key, so it changes more rows than one can tell: name all parts, of each row", part)
		}
	}
	return n, nil
}

var errConditional = refusedf("IF makes it a lightweight transaction, whose outcome may stay unknown: read the row first, and write without IF; where no migration goes on, the session of gocql itself takes it")

// insert reads what follows the name of the table in an INSERT.
func (r *reader) insert(n *naming) error {
	if r.tokens[0].is("JSON") {
		return refusedf("INSERT JSON has the key within a text: name the columns, and bind their values")
	}
	columns, ok := r.list()
	if !ok || !r.take("VALUES") {
		return refusedf("it has no columns and VALUES after the name of the table: write it as CQL has it")
	}
	values, ok := r.list()
	if !ok || len(columns) != len(values) {
		return refusedf("it has other numbers of columns and values: give each column one")
	}
	for i, c := range columns {
		name, ok := c[0].name()
		if len(c) != 1 || !ok {
			return refusedf("it has something else than names as columns: write it as CQL has it")
		}
		if slices.Contains(r.key, name) {
			if err := n.add(name, values[i]); err != nil {
				return err
			}
		}
	}
	return r.using()
}

// using reads what may follow rows or the name of a table: IF, which is refused, or USING and its values.
func (r *reader) using() error {
	for ; r.tokens[0].kind != tokenEnd && !r.tokens[0].is(";"); r.tokens = r.tokens[1:] {
		if r.tokens[0].is("IF") {
			return errConditional
		}
	}
	return nil
}

// where reads what follows the name of the table in an UPDATE or DELETE.
func (r *reader) where(n *naming) error {
	r.skip("WHERE")
	if !r.take("WHERE") {
		return refusedf("it has no WHERE, which names its rows: name all parts of the primary key")
	}
	for {
		name, ok := r.tokens[0].name()
		if !ok || !slices.Contains(r.key, name) {
			return refusedf("a condition of WHERE is not about a single part of the primary key: write one condition for each part, as a = ? AND b = ?")
		}
		r.tokens = r.tokens[1:]
		switch {
		case r.take("="):
			if err := n.add(name, r.term()); err != nil {
				return err
			}
		case r.take("IN"):
			if err := r.in(n, name); err != nil {
				return err
			}
		default:
			return refusedf("the condition on %s is neither = nor IN, so it is about rows that are not named: find them with SELECT, and change each by its key", name)
		}
		if r.tokens[0].is("IF") {
			return errConditional
		}
		if !r.take("AND") {
			return nil
		}
	}
}

// term goes past a value in WHERE.
func (r *reader) term() (value []token) {
	for r.tokens[0].kind != tokenEnd && !r.tokens[0].is("AND") && !r.tokens[0].is("IF") && !r.tokens[0].is(";") {
		value, r.tokens = append(value, r.tokens[0]), r.tokens[1:]
	}
	return value
}

// in reads the values after IN.
func (r *reader) in(n *naming, name string) error {
	if r.tokens[0].kind == tokenMark {
		n.lists[name] = true
		return n.add(name, r.term())
	}
	values, ok := r.list()
	if !ok || n.parts[name] != nil {
		return refusedf("IN on %s is followed by no list of values: write it as CQL has it", name)
	}
	for _, v := range values {
		one := &naming{parts: make(map[string][]token)}
		if err := one.add(name, v); err != nil {
			return err
		}
		n.parts[name] = append(n.parts[name], one.parts[name]...)
	}
	return nil
}

// add notes the value of a part of the key.
func (n *naming) add(part string, value []token) error {
	if n.parts[part] != nil {
		return refusedf("it names the part %s of the primary key twice: name it once", part)
	}
	if len(value) != 1 {
		return refusedf("the value of %s, which is in the primary key, is a function or a calculation of the server's: compute it first, and bind it", part)
	}
	n.parts[part] = value
	return nil
}

// list reads items in brackets, with commas between them.
func (r *reader) list() (items [][]token, ok bool) {
	if !r.take("(") {
		return nil, false
	}
	var item []token
	for depth := 0; r.tokens[0].kind != tokenEnd; r.tokens = r.tokens[1:] {
		switch t := r.tokens[0]; {
		case depth == 0 && (t.is(",") || t.is(")")):
			if len(item) == 0 {
				return nil, false
			}
			items, item = append(items, item), nil
			if t.is(")") {
				r.tokens = r.tokens[1:]
				return items, true
			}
			continue
		case t.is("("), t.is("["), t.is("{"):
			depth++
		case t.is(")"), t.is("]"), t.is("}"):
			depth--
		}
		item = append(item, r.tokens[0])
	}
	return nil, false
}
