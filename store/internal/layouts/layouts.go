// Package layouts reads whole rows of a table, whether they stand alone or share pages.
package layouts

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/inspect"
	"github.com/rangecrypt/rangecrypt/store/internal/chunks"
	"github.com/rangecrypt/rangecrypt/store/internal/engine"
	"github.com/rangecrypt/rangecrypt/store/internal/fault"
	"github.com/rangecrypt/rangecrypt/store/internal/pages"
	"github.com/rangecrypt/rangecrypt/store/internal/rowcodec"
	"github.com/rangecrypt/rangecrypt/store/internal/session"
)

// A Table is a table of either layout. It is safe for concurrent use.
type Table struct {
	*session.Table
	Pages *pages.Table // nil where rows stand alone
}

// Of returns a table that is open.
func Of(tbl *session.Table) *Table {
	t := &Table{Table: tbl}
	if tbl.Now().Meta.Paged() {
		t.Pages = pages.New(tbl)
	}
	return t
}

// Open opens the table that has a name. One that does not exist, or whose rows the application keeps, is [fault.ErrNoTable].
func Open(ctx context.Context, db *session.Database, name string) (*Table, error) {
	tbl, err := db.Kept(ctx, name)
	if err != nil {
		return nil, err
	}
	return Of(tbl), nil
}

// See reads rows by their keys, and returns the table whose view they are of. Rows of pages come without stamps.
func (t *Table) See(ctx context.Context, e *engine.Engine, keys [][]byte) (*engine.Engine, []engine.Seen, error) {
	if t.Pages == nil {
		return e.See(ctx, keys)
	}
	e, records, err := t.Pages.See(ctx, e, keys)
	seen := make([]engine.Seen, len(records))
	for i, r := range records {
		seen[i].Record = r
	}
	return e, seen, err
}

// A Row is one that a scan found.
type Row struct {
	Record *rowcodec.Record // nil of one that does not open
	Stamp  int64            // the latest of its cells, or of those of its page; 0 where the database has none
	Err    error            // why it does not open
}

// Scan hands the rows of a part on in batches, each row once, with the table whose view they are of. A row that stands alone
// and does not open is one of them. A page that does not is an error, since nobody knows which rows it has.
func (t *Table) Scan(ctx context.Context, part inspect.Part, do func(*engine.Engine, []Row) error) error {
	if t.Pages != nil {
		return t.scanPages(ctx, part, do)
	}
	e := t.Now()
	r := e.Rows(part.Index, part.Of)
	r.Cells.Stamps = true
	return chunks.InBatches(ctx, e.Data, r, func(batch []driver.Row) error {
		rows := make([]Row, 0, len(batch))
		for _, row := range batch {
			r, err := e.Opened(ctx, e.Data, row, nil, new(rowcodec.Scratch))
			switch {
			case errors.Is(err, fault.ErrTampered), errors.Is(err, fault.ErrTorn), errors.Is(err, fault.ErrWrongKey):
				rows = append(rows, Row{Err: err})
			case err != nil:
				return err
			case r != nil:
				rows = append(rows, Row{Record: r, Stamp: driver.LatestStamp(row.Cells)})
			}
		}
		if len(rows) == 0 {
			return nil
		}
		return do(e, rows)
	})
}

// scanPages does so with the rows of many pages at a time, which may have few each.
func (t *Table) scanPages(ctx context.Context, part inspect.Part, do func(*engine.Engine, []Row) error) error {
	var rows []Row
	of := t.Now()
	flush := func() error {
		if len(rows) == 0 {
			return nil
		}
		err := do(of, rows)
		rows = nil
		return err
	}
	err := t.Pages.Share(ctx, of, part, func(e *engine.Engine, records []*rowcodec.Record, stamp int64) error {
		if e != of {
			if err := flush(); err != nil {
				return err
			}
			of = e
		}
		for _, r := range records {
			rows = append(rows, Row{Record: r, Stamp: stamp})
		}
		if len(rows) < chunks.FullBatch {
			return nil
		}
		return flush()
	})
	if err != nil {
		return err
	}
	return flush()
}

// Written returns when what has a stamp was written, where the stamps of the database are times; zero elsewhere.
func (t *Table) Written(stamp int64) time.Time {
	switch system := driver.Describe(t.Database().Driver).System; {
	case stamp == 0:
	case system == "cassandra":
		return time.UnixMicro(stamp)
	case system == "hbase":
		return time.UnixMilli(stamp)
	}
	return time.Time{}
}

// LifeUntil returns the time to live, from 1 s on, of a row that is put now and that expires at a time, or up to a second later.
func LifeUntil(end time.Time) time.Duration {
	whole := end.Add(time.Second - 1).Truncate(time.Second)
	return max(time.Second, time.Until(whole).Truncate(time.Second)) // a Put rounds up to whole seconds, too
}

// sameTime is how far the ends of two rows are apart at most that are to expire at the same time. Both databases round.
const sameTime = 2

// Is reports whether a row that was seen is as it is to be: as a record, or not there if that is nil. One that is about to expire may
// be there or not.
func Is(t *rowcodec.View, seen *engine.Seen, record *rowcodec.Record) bool {
	was, soon := seen.Record, time.Now().Unix()+sameTime
	switch {
	case seen.Torn:
		return false
	case was == nil:
		return record == nil || record.Expires != 0 && record.Expires <= soon
	case record == nil:
		return was.Expires != 0 && was.Expires <= soon
	}
	expires := was.Expires != 0
	return expires == (record.Expires != 0) && max(was.Expires, record.Expires)-min(was.Expires, record.Expires) <= sameTime && Alike(t, was, record)
}

// Alike reports whether two rows have the same values in all columns.
func Alike(t *rowcodec.View, a, b *rowcodec.Record) bool {
	for i, c := range t.Columns {
		x, y := a.Values[len(t.Parts)+i], b.Values[len(t.Parts)+i]
		if (x == nil) != (y == nil) || x != nil && !bytes.Equal(c.Type.AppendStored(nil, x), c.Type.AppendStored(nil, y)) {
			return false
		}
	}
	return true
}

// Size returns how many bytes the cells of a row and its index entries have. In a page it takes fewer.
func Size(t *rowcodec.View, r *rowcodec.Record) (n int) {
	var puts []driver.Mutation
	if len(r.Search) > 0 { // some columns are searched
		puts = t.PutPostings([]*rowcodec.Record{r})
	}
	if len(r.Key) > 0 {
		puts = append(puts, t.Mutation(r))
	}
	for _, m := range puts {
		n += len(m.Row)
		for _, cell := range m.Puts {
			n += len(cell.Qualifier) + len(cell.Value)
		}
	}
	return n
}
