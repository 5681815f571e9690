package store

import (
	"context"
	"fmt"
	"slices"

	"github.com/rangecrypt/rangecrypt/store/inspect"
	"github.com/rangecrypt/rangecrypt/store/internal/catalogue"
	"github.com/rangecrypt/rangecrypt/store/internal/engine"
	"github.com/rangecrypt/rangecrypt/store/internal/rewrite"
	"github.com/rangecrypt/rangecrypt/store/internal/rowcodec"
)

// Convert rewrites all rows that are not stored as the schema says, because it was changed since they were written, and removes
// what dropped columns left. Then the columns whose encryption was changed can drive queries.
//
// Readers and writers go on, and lose nothing. It may end at any moment, by ctx or an error of the database: the next call goes on
// where it was. Several clients may call it at a time and share the work. If the schema is changed before it ends, it begins again.
//
// Rows that the schema does not take, or that cannot be read, are no error: [inspect.ConvertStats] counts them, and they stay.
//
// Called when all is done, it looks through the table once more: a client that died, or lost the database, in the middle of a
// write or a conversion which it began under an old schema may have left rows of that, which are read as any others, but found
// by their changed columns only when they were converted.
//
// A table that is open for a tenant converts the rows of this tenant, also to its policy and its newest
// key. One with tenants that is not converts those of all, one tenant after the other, and only then
// can the columns drive queries, and postings of dropped columns go; progress is of each of them.
//
// progress, if not nil, is called by one goroutine at a time: how many parts are done, by whichever client, and how many there are.
func (tbl *Table) Convert(ctx context.Context, progress func(done, total int)) (stats inspect.ConvertStats, err error) {
	t := tbl.open().Now()
	ctx, end := tbl.open().Operation(ctx, "convert")
	defer func() { end(stats.Converted, err) }()
	c := &rewrite.Conversion{Table: tbl.open(), Progress: progress}
	if err = c.Run(ctx); err != nil {
		err = fmt.Errorf("store: convert %q: %w", t.Meta.Name, engine.Gone(err))
	}
	return c.Stats, err
}

// Status says how far the conversion of the table is.
func (tbl *Table) Status(ctx context.Context) (_ inspect.ConvertStatus, err error) {
	ctx, end := tbl.open().Operation(ctx, "status")
	defer func() { end(0, err) }()
	t, err := tbl.open().Refresh(ctx)
	if err == nil {
		var p catalogue.Progress
		if p, _, err = tbl.open().Progress(ctx); err == nil {
			s := inspect.ConvertStatus{Version: p.Target, Latest: t.Since, Done: p.Done(), Total: len(p.Parts)}
			for _, c := range t.Columns {
				if slices.ContainsFunc(c.Former, func(f *rowcodec.Column) bool { return !f.Converted }) {
					s.Pending = append(s.Pending, c.Name)
				}
			}
			return s, nil
		}
	}
	return inspect.ConvertStatus{}, fmt.Errorf("store: status of %q: %w", tbl.open().Now().Meta.Name, err)
}
