package store

import (
	"context"
	"fmt"
	"slices"

	"github.com/rangecrypt/rangecrypt/store/inspect"
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
func (tbl *Table) Convert(ctx context.Context, progress func(done, total int)) (inspect.ConvertStats, error) {
	c := &rewrite.Conversion{Table: tbl.open(), Progress: progress}
	err := tbl.pass(ctx, "convert", "convert", func(ctx context.Context) (int, error) {
		err := c.Run(ctx)
		return c.Stats.Converted, err
	})
	return c.Stats, err
}

// ConvertPart does for one part what [Table.Convert] does for a table, which does it for all of 64. Any number of processes may do
// parts at a time, the same part too, and cut the table differently: what is done is noted by the range of keys, and not read again.
//
// When the conversion is over, parts do nothing; to look through the table once more, call Convert. Whoever finds that all parts are
// done ends the conversion, and puts copies that are missing, see [Column.Covering]. If he dies at that, any part ends it.
//
// Of a table with tenants that is not open for one it converts the part of each of them.
func (tbl *Table) ConvertPart(ctx context.Context, part inspect.Part) (done inspect.ConvertedPart, err error) {
	err = tbl.pass(ctx, "convert", fmt.Sprintf("convert part %d of %d of", part.Index, part.Of), func(ctx context.Context) (_ int, err error) {
		if err = part.Check(); err == nil {
			done, err = (&rewrite.Conversion{Table: tbl.open()}).Part(ctx, part.Index, part.Of)
		}
		return done.Converted, err
	})
	return done, err
}

// Status says how far the conversion of the table is.
func (tbl *Table) Status(ctx context.Context) (s inspect.ConvertStatus, err error) {
	err = tbl.pass(ctx, "status", "status of", func(ctx context.Context) (int, error) {
		t, err := tbl.open().Refresh(ctx)
		if err != nil {
			return 0, err
		}
		p, _, err := tbl.open().Progress(ctx)
		if err != nil {
			return 0, err
		}
		s = inspect.ConvertStatus{Version: p.Target, Latest: t.Since, Done: p.Done(), Total: len(p.Parts)}
		for _, c := range t.Columns {
			if slices.ContainsFunc(c.Former, func(f *rowcodec.Column) bool { return !f.Converted }) {
				s.Pending = append(s.Pending, c.Name)
			}
		}
		return 0, nil
	})
	return s, err
}
