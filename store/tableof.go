package store

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"slices"
	"time"

	"github.com/rangecrypt/rangecrypt/store/internal/bykey"
	"github.com/rangecrypt/rangecrypt/store/internal/engine"
	"github.com/rangecrypt/rangecrypt/store/internal/fault"
	"github.com/rangecrypt/rangecrypt/store/internal/query"
	"github.com/rangecrypt/rangecrypt/store/internal/rowcodec"
	"github.com/rangecrypt/rangecrypt/store/internal/structs"
)

// A Tie, a [16]byte, is the value of a [TiePart] in a struct: [TableOf.Put] draws it at random if it is zero. So it does with a [LoadTie].
type Tie = structs.Tie

// A TableOf is a [Table] whose rows are structs. It is safe for concurrent use. See [For].
//
// It has the methods that take or return rows. All others are those of [TableOf.Table], such as [Table.Count],
// [Table.Exists], [Table.Min], [Table.Explain], [Table.Convert] and [Table.Verify].
type TableOf[T any] struct {
	table *Table
	fit   *structs.Fitting
}

// A ForOption changes what [For] takes.
type ForOption int

// AllowUnmapped lets a table have columns without a field. Reads leave them out, and [TableOf.Put] and
// [TableOf.Insert] are refused, since they would make them null.
const AllowUnmapped ForOption = 1

// For opens a table whose rows are structs. Each exported field has a tag with the name of its column, and options:
//
//	type Reading struct {
//		Device  string    `rangecrypt:"device,key=1,hashed"`
//		At      time.Time `rangecrypt:"at,key=2,ordered=mope,unit=ms"`
//		ID      store.Tie `rangecrypt:"id,key=3"`
//		Celsius *float64  `rangecrypt:"celsius,ordered=boldyreva"`
//		Note    string    `rangecrypt:"note"`
//		Model   string    `rangecrypt:"model,plain"`
//		Cache   []int     `rangecrypt:"-"` // has no column
//	}
//
// Fields may be in any order, and in embedded structs. An embedded value, as time.Time, has a tag; an embedded pointer is refused. The options are
//
//	key=N          the field is part N of the row key, from 1 on
//	hashed         a key part that is found by its value; see [HashedPart]
//	plain          the database sees it
//	ordered=SCHEME as [ParseScheme] reads it; see [OrderedPart] and [OrderedColumn]
//	deterministic  see [DeterministicColumn]
//	randomised     sealed and not searched: a column that names no encryption is
//	covering       of an ordered or deterministic column; see [Column.Covering]; covering=a b for some columns
//	server-index   likewise; see [Column.ServerIndex]
//	unit=UNIT      of a time.Time: ns, us, ms or s
//	scale=N        of a decimal: digits after the point
//	type=TYPE      as [ParseType] reads it: for a netip.Addr or a net.IP, texts of other types, types with bounds, string(32), "string after ..." and so on
//
// Only one of unit, scale and type can be given: a type has its unit or scale, as in type=timestamp/ms.
//
// A field takes the Go type of its column's [Type], and any type that is made of it, as time.Duration is of int64:
// its column has nanoseconds. An int is an Int64, a uint a Uint64. Decimals may be of any type whose MarshalText and
// UnmarshalText are exact and have no exponent, as inf.Dec and big.Int. Null is a nil pointer, a nil []byte, or an sql.Null,
// sql.NullString and so on that is not valid. Where a field cannot be null and the row is, reading is [ErrNull].
//
// With type=string a column keeps the text of any type with MarshalText and UnmarshalText, as netip.Prefix. Its order is that of the text.
// Predicates, and rows that are maps, have the text as a string. A value whose text is not read back as the same is [ope.ErrDomain]. A
// type that is made of string stays that string, whatever its methods.
//
// A unit, scale or type that a tag leaves out is as the table has it. What a tag says of a column's encryption, covering and server-index is for
// [SchemaOf]. A column that is sealed otherwise by now fits, see [ChangeColumn]. One that is plain must be tagged plain, so that no value goes
// out in the clear that a tag says is sealed; policies of tenants do not count, see [TableOf.Tenant]. What else contradicts the table is [ErrColumn], as another encryption of a key part. So is a
// column without a field, unless [AllowUnmapped] is given. A tag that makes no sense is [ErrSchema].
//
// If the schema is changed later, calls go on as long as the struct fits; otherwise they are [ErrSchemaChanged]. A client
// may learn of a change by another one only when it has written. Any other write than a Delete that learns so that
// the struct does not fit any more is ErrSchemaChanged and [ErrWritten]: it has written its rows, by the new schema. Columns that
// the struct lacks are null in rows that were put. But if a column is plain by now and the tag says otherwise, it is not ErrWritten:
// the rows may be there, with the column sealed until the table is converted or they are written again.
func For[T any](ctx context.Context, st *Store, name string, options ...ForOption) (*TableOf[T], error) {
	plan, err := planOf(reflect.TypeFor[T]())
	if err != nil {
		return nil, fmt.Errorf("store: table %q: %w", name, err)
	}
	tbl, err := st.Table(ctx, name)
	if err != nil {
		return nil, err
	}
	of := &TableOf[T]{tbl, structs.NewFitting(plan, slices.Contains(options, AllowUnmapped))}
	_, err = tbl.open().Now().WithSecondLook(ctx, func(t *engine.Engine) error {
		_, err := of.fit.Of(t.View)
		return err
	})
	if err != nil {
		return nil, tbl.open().Refused(ctx, "open table", fmt.Errorf("store: table %q: %w", name, err))
	}
	return of, nil
}

// SchemaOf returns the schema that the tags of a struct describe, see [For]: key parts in their order, columns in the order
// of the fields. What tags do not say can be set in it. If a column covers, AppendOnly is set
// where the key has a tie-breaker, and Conditional elsewhere. A tag that says too little is [ErrSchema], with the field named.
func SchemaOf[T any](name string) (Schema, error) {
	plan, err := planOf(reflect.TypeFor[T]())
	if err != nil {
		return Schema{}, fault.Prefixed(err)
	}
	s, err := plan.Schema(name)
	if err == nil {
		err = publicSchema(s).Check()
	}
	if err != nil {
		return Schema{}, fault.Prefixed(err)
	}
	return publicSchema(s), nil
}

func planOf(typ reflect.Type) (*structs.Plan, error) {
	return structs.Of(typ, func(name string) (forKeys bool, err error) {
		scheme, err := ParseScheme(name)
		_, forKeys = scheme.(KeyScheme)
		return forKeys, err
	})
}

// use returns the table as this client knows it, and how the struct fits that.
func (of *TableOf[T]) use(ctx context.Context) (t *engine.Engine, b *structs.Binding, err error) {
	if t, err = of.table.open().Use(); err != nil {
		return nil, nil, err
	}
	t, err = t.WithSecondLook(ctx, func(t *engine.Engine) error {
		b, err = of.fit.Still(t.View)
		return err
	})
	if err != nil {
		return nil, nil, fmt.Errorf("store: table %q: %w", t.Meta.Name, err)
	}
	return t, b, nil
}

// wrote returns the error of a write: see [structs.Fitting.Wrote].
func (of *TableOf[T]) wrote(err error, whole bool) error {
	return of.fit.Wrote(of.table.open().Now().View, err, whole)
}

// explained returns what an error of a call means, if the schema was changed before it.
func (of *TableOf[T]) explained(err error) error {
	return of.fit.Explained(of.table.open().Now().View, err)
}

// Table returns the table itself, for what is done with no rows, or with such as are maps.
func (of *TableOf[T]) Table() *Table { return of.table }

// Tenant opens the table for a tenant, see [Table.Tenant]. One struct serves tenants of any [Policy], so that tags are compared with the
// schema alone: a column that the tenant's policy has made plain goes out in the clear, also if its tag says that it is sealed.
func (of *TableOf[T]) Tenant(ctx context.Context, name string) (*TableOf[T], error) {
	tbl, err := of.table.Tenant(ctx, name)
	if err != nil {
		return nil, err
	}
	return &TableOf[T]{tbl, of.fit.Other()}, nil
}

// Expiring returns the table such that rows which are put through it live so long, see [Table.Expiring]. No field says when a row expires.
func (of *TableOf[T]) Expiring(ttl time.Duration) *TableOf[T] {
	return &TableOf[T]{of.table.Expiring(ttl), of.fit}
}

// Put writes rows, each as a whole, as [Table.Put] does. A tie-breaker that is zero is drawn, and the struct has it
// then, so that the same Put again writes the same row.
//
// In a table with [Schema.AppendOnly] the struct has it only if rows may have been written, and the same Put again is
// [ErrColumn]. If the field is a [LoadTie], the same Put again looks for the row first, and adds it only if it is not there.
func (of *TableOf[T]) Put(ctx context.Context, rows ...*T) (err error) {
	return of.wrote(of.write(ctx, "put", rows, false), true)
}

// Insert writes rows that do not exist, as [Table.Insert] does, and draws tie-breakers as Put does.
func (of *TableOf[T]) Insert(ctx context.Context, rows ...*T) (err error) {
	return of.wrote(of.write(ctx, "insert", rows, true), true)
}

func (of *TableOf[T]) write(ctx context.Context, do string, rows []*T, insert bool) (err error) {
	t, b, err := of.use(ctx)
	if err != nil {
		return of.table.open().Refused(ctx, do, err)
	}
	ctx, end := of.table.open().Operation(ctx, do)
	defer func() { end(written(len(rows), err), err) }()
	if err = b.Whole("a row that is written as a whole would have null there: use Update, if the table has Conditional, or add fields"); err == nil {
		records := make([]*rowcodec.Record, len(rows))
		err = t.PutEach(of.fit.Guarding(ctx), len(rows), of.records(rows, records, insert))
		if t.Meta.AppendOnly() && (err == nil || errors.As(err, new(*BatchError))) {
			for i, r := range records {
				if r != nil && len(r.Key) > 0 { // otherwise no row was written
					b.Keep(t.View, reflect.ValueOf(rows[i]).Elem(), r)
				}
			}
		}
	}
	if err != nil {
		return fmt.Errorf("store: %s into %q: %w", do, t.Meta.Name, fault.Gone(err))
	}
	return nil
}

// records returns a function for the records of rows, which it also puts into a slice.
func (of *TableOf[T]) records(rows []*T, made []*rowcodec.Record, insert bool) func(t *rowcodec.View, i int) (*rowcodec.Record, error) {
	return func(t *rowcodec.View, i int) (*rowcodec.Record, error) {
		b, err := of.fit.Still(t)
		if err != nil {
			return nil, err
		}
		row, err := structs.ValueOf(rows[i])
		if err != nil {
			return nil, err
		}
		r, err := b.Record(t, row)
		if err == nil {
			r.Insert, made[i] = insert, r
		}
		return r, err
	}
}

// Get returns the row that has the key parts of key, whose other fields are not looked at. A row that does not exist is
// [ErrNoRow]; [Table.Get] returns nil, and no error.
func (of *TableOf[T]) Get(ctx context.Context, key *T) (*T, error) {
	rows, err := of.GetBatch(ctx, key)
	if err != nil {
		return nil, err
	}
	if rows[0] == nil {
		return nil, fmt.Errorf("store: get from %q: %w", of.table.open().Now().Meta.Name, ErrNoRow)
	}
	return rows[0], nil
}

// GetBatch returns the rows that have the key parts of keys, in the order of these. A row that does not exist is nil.
func (of *TableOf[T]) GetBatch(ctx context.Context, keys ...*T) (rows []*T, err error) {
	t, b, err := of.use(ctx)
	if err != nil {
		return nil, of.table.open().Refused(ctx, "get", err)
	}
	named, err := of.rows(ctx, "get", keys, []string{})
	if err != nil {
		return nil, err
	}
	err = of.table.pass(ctx, "get", "get from", func(ctx context.Context) (found int, err error) {
		values, err := bykey.GetRows(ctx, t, named, b.Columns)
		rows = make([]*T, len(values))
		for i := 0; err == nil && i < len(values); i++ {
			if values[i] != nil {
				rows[i], found = new(T), found+1
				err = b.FillRow(reflect.ValueOf(rows[i]).Elem(), values[i], nil, ErrNull)
			}
		}
		return found, err
	})
	if err != nil {
		return nil, of.explained(err)
	}
	return rows, nil
}

// rows returns structs as rows of key parts and the columns that are asked for; nil asks for all that have a field.
func (of *TableOf[T]) rows(ctx context.Context, do string, from []*T, columns []string) ([]Row, error) {
	return of.each(ctx, do, from, func(t *rowcodec.View, b *structs.Binding, row reflect.Value) (Row, error) {
		return b.Row(t, row, columns)
	})
}

// each returns what a function makes of structs, for an operation that is observed if it ends here.
func (of *TableOf[T]) each(ctx context.Context, do string, from []*T, read func(*rowcodec.View, *structs.Binding, reflect.Value) (Row, error)) ([]Row, error) {
	t, b, err := of.use(ctx)
	if err != nil {
		return nil, of.table.open().Refused(ctx, do, err)
	}
	rows := make([]Row, len(from))
	for i, s := range from {
		row, err := structs.ValueOf(s)
		if err == nil {
			rows[i], err = read(t.View, b, row)
		}
		if err != nil {
			return nil, of.table.open().Refused(ctx, do, fmt.Errorf("store: table %q: %w", t.Meta.Name, &RowError{Index: i, Err: err}))
		}
	}
	return rows, nil
}

// Delete removes the rows that have the key parts of keys, as [Table.Delete] does.
func (of *TableOf[T]) Delete(ctx context.Context, keys ...*T) error {
	rows, err := of.rows(ctx, "delete", keys, []string{})
	if err != nil {
		return err
	}
	return of.explained(of.table.Delete(ctx, rows...))
}

// Update changes columns of a row that exists, as [Table.Update] does: the named ones or, where none is named, all that
// have a field. To name a part of the row key is [ErrColumn], here and in Upsert and UpdateIf. The table must have [Schema.Conditional].
func (of *TableOf[T]) Update(ctx context.Context, row *T, columns ...string) error {
	rows, err := of.rows(ctx, "update", []*T{row}, columns)
	if err != nil {
		return err
	}
	return of.wrote(of.table.Update(of.fit.Guarding(ctx), rows...), false)
}

// Upsert changes columns of a row, or makes the row, as [Table.Upsert] does: the named columns or, where none is named, all
// that have a field.
func (of *TableOf[T]) Upsert(ctx context.Context, row *T, columns ...string) error {
	rows, err := of.rows(ctx, "upsert", []*T{row}, columns)
	if err != nil {
		return err
	}
	return of.wrote(of.table.Upsert(of.fit.Guarding(ctx), rows...), false)
}

// UpdateIf changes columns of a row, the named ones or, where none is named, all that have a field, if they still are as in
// has: otherwise the error is [ErrConflict], and the row stays. The key parts of has are not looked at. It is else as
// [Table.UpdateIf], which can also change other columns than it compares.
func (of *TableOf[T]) UpdateIf(ctx context.Context, row, has *T, columns ...string) error {
	rows, err := of.rows(ctx, "update if", []*T{row}, columns)
	if err != nil {
		return err
	}
	were, err := of.each(ctx, "update if", []*T{has}, func(t *rowcodec.View, b *structs.Binding, row reflect.Value) (Row, error) {
		return b.Values(t, row, columns)
	})
	if err != nil {
		return err
	}
	return of.wrote(of.table.UpdateIf(of.fit.Guarding(ctx), rows[0], were[0]), false)
}

// Increment adds a number to a column of the row that has the key parts of row, as [Table.Increment] does. The column's
// field of row has the sum then; no other field is looked at.
func (of *TableOf[T]) Increment(ctx context.Context, row *T, column string, by int64) error {
	var field func(sum any) error
	keys, err := of.each(ctx, "increment", []*T{row}, func(t *rowcodec.View, b *structs.Binding, row reflect.Value) (Row, error) {
		field = func(sum any) error { return b.Set(t, row, column, sum) }
		if err := b.Mapped(t, column); err != nil {
			return nil, err
		}
		return b.Row(t, row, []string{})
	})
	if err != nil {
		return err
	}
	sum, err := of.table.Increment(of.fit.Guarding(ctx), keys[0], column, by)
	if err == nil {
		err = field(sum)
	}
	return of.wrote(err, false)
}

// Query yields the rows that the query selects, as [Table.Query] does. Fields whose columns are not among
// Columns of the query are zero.
func (of *TableOf[T]) Query(ctx context.Context, q Query) iter.Seq2[*T, error] {
	q.Columns = slices.Clone(q.Columns)
	return of.reader(q).query(ctx, of.table)
}

// Page returns the rows of one page, and the token for the next one, as [Table.Page] does.
func (of *TableOf[T]) Page(ctx context.Context, q Query) (rows []*T, next string, err error) {
	return of.reader(q).page(ctx, of.table)
}

// reader reads structs. Of a table with columns that have no field, those are read that have one.
func (of *TableOf[T]) reader(q Query) reader[*T] {
	return reader[*T]{
		use: func(ctx context.Context) (*engine.Engine, query.Selection, error) {
			t, b, err := of.use(ctx)
			s := q.selection()
			if err == nil {
				s.Among = b.Columns
			}
			return t, s, err
		},
		read: of.found,
		says: of.explained,
	}
}

// found returns a row that was found as a struct.
func (of *TableOf[T]) found(f *query.Found) (*T, error) {
	t, r, want := f.Record()
	b, err := of.fit.Still(t)
	if err != nil {
		return nil, err
	}
	row := new(T)
	if err := b.Fill(t, reflect.ValueOf(row).Elem(), r, want, ErrNull); err != nil {
		return nil, err
	}
	return row, nil
}
