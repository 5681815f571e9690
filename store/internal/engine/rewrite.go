package engine

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/rangecrypt/rangecrypt/internal/pause"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/internal/chunks"
	"github.com/rangecrypt/rangecrypt/store/internal/fault"
	"github.com/rangecrypt/rangecrypt/store/internal/rowcodec"
)

// settleGrace is how long a conversion that was cancelled goes on to settle what it has written.
const settleGrace = 5 * time.Second

// ConvertAndSettle converts rows, and makes sure that these are such as others expect them by now: a
// change that came in between may have been followed by a conversion which has seen these rows before,
// as it wants them, and nobody else would convert them again. So it does that when it is cancelled, too.
func (t *Engine) ConvertAndSettle(ctx context.Context, rows []driver.Row) (done converted, err error) {
	records := make([]*rowcodec.Record, len(rows))
	for i, row := range rows {
		records[i] = &rowcodec.Record{Key: row.Key}
	}
	done, err = t.Convert(ctx, rows, nil, false)
	settling, cancel := pause.Outlasting(ctx, settleGrace)
	defer cancel()
	return done, fault.Join(err, t.SettleWrites(settling, records))
}

// converted counts rows that were converted, and those that were left as they are.
type converted struct {
	Converted, Unreadable, Unfit int
	Expired                      int   // that are no rows any more
	why                          error // one does not fit that this client has put
}

func (c *converted) add(more converted) {
	c.Converted, c.Unreadable, c.Unfit = c.Converted+more.Converted, c.Unreadable+more.Unreadable, c.Unfit+more.Unfit
	c.Expired += more.Expired
	c.why = cmp.Or(c.why, more.why)
}

// Convert rewrites those of some rows that are not stored as this view stores rows. The rows are as they were read,
// with all cells and their stamps. Where somebody has written a row since it was read, what is there now is read and
// converted; but a database that does not tell leaves that to whoever wrote it, who reads the version afterwards.
// Of those that this client has put, by their keys, the records say when they are to expire. With anew, these are rewritten in any case.
func (t *Engine) Convert(ctx context.Context, rows []driver.Row, put map[string]*rowcodec.Record, anew bool) (done converted, err error) {
	had := make(map[string][][]byte)
	for attempt := 0; ; attempt++ {
		now, late, err := t.Slow().convertOnce(ctx, rows, put, anew, had)
		done.add(now)
		if newer := rowcodec.NewerRow(0); errors.As(err, &newer) && !t.Env.Now().Same(t.View) {
			t = t.Env.Now() // an index was made again
			pause.Repeats(ctx, "schema_changed")
			continue
		}
		if err != nil || len(late) == 0 {
			return done, err
		}
		if err := WaitAgain(ctx, "row_changed", attempt); err != nil {
			return done, err
		}
		if rows, err = t.stamped(ctx, late); err != nil {
			return done, err
		}
	}
}

// convertOnce converts rows as they were read, where nobody has written them since, and returns also the keys of those that
// somebody has, as far as the database shows them. It notes which postings of other forms such a row had: a conversion to an
// earlier schema may have won, by which it has them still. A row keeps its write id, since it is the same write: what stays as
// it was keeps its postings. New postings come before the row, and old ones go after it.
func (t *Engine) convertOnce(ctx context.Context, rows []driver.Row, put map[string]*rowcodec.Record, anew bool, had map[string][][]byte) (done converted, late [][]byte, err error) {
	was, refused := make([]*rowcodec.Record, len(rows)), make([]bool, len(rows))
	var refusals, expired atomic.Int64
	err = onProcessors(ctx, len(rows), func(ctx context.Context, i int, s *rowcodec.Scratch) error {
		r, err := t.toConvert(ctx, &rows[i], put[string(rows[i].Key)], anew, s)
		if replaceable(err) {
			refusals.Add(1)
			refused[i] = true
			t.Env.Warn(ctx, "a row that cannot be read is not converted", t.Family(), err)
			return nil
		}
		was[i] = r
		if err == nil && t.View.Expired(rows[i], s) {
			expired.Add(1)
		}
		return err
	})
	if err != nil {
		return done, nil, err
	}
	done.Unreadable, done.Expired = int(refusals.Load()), int(expired.Load())
	var read []driver.Row
	var old, records []*rowcodec.Record
	var others [][][]byte // postings, by record
	var gone [][]byte
	for i, r := range was {
		if r == nil {
			if !refused[i] {
				gone = append(gone, had[string(rows[i].Key)]...) // it is converted
			}
			continue
		}
		n := t.NewRecord()
		n.Key, n.Write, n.Version, n.Expires = r.Key, r.Write, r.Version, t.ExpiryOf(r, put[string(r.Key)])
		copy(n.Values, r.Values[:len(t.Parts)+len(t.Columns)])
		if why := cmp.Or(t.CheckUnordered(n), t.CheckSize(n)); why != nil {
			if done.Unfit++; put[string(r.Key)] != nil && put[string(r.Key)].Values != nil {
				done.why = why
			}
			t.Env.Warn(ctx, "a row that the schema does not take is not converted", t.Family(), why)
			continue
		}
		var of [][]byte
		if n.Search != nil {
			copy(n.Search, r.Search[:len(t.Columns)])
			for c := len(t.Columns); c < len(t.Stored); c++ {
				if r.Search[c] != nil && t.Stored[c].Posted() {
					of = append(of, t.PostingKey(r, c))
				}
			}
		}
		read, old, records, others = append(read, rows[i]), append(old, r), append(records, n), append(others, of)
	}
	if len(records) == 0 {
		return done, nil, t.Unpost(ctx, gone)
	}
	if err := t.encryptColumns(ctx, records); err != nil {
		return done, nil, err
	}
	if t.Postings != nil {
		if err := t.Post(ctx, t.NewPostings(old, records)); err != nil {
			return done, nil, err
		}
	}
	tooLate, err := t.replace(ctx, read, records)
	if err != nil {
		return done, nil, err
	}
	for _, i := range tooLate {
		late = append(late, read[i].Key)
		had[string(read[i].Key)], others[i] = others[i], nil
	}
	if t.Postings != nil {
		if err := t.repost(ctx, append(gone, slices.Concat(others...)...), t.RetimedPostings(old, records), records); err != nil {
			return done, nil, err
		}
	}
	done.Converted = t.rowsOf(records, tooLate)
	return done, late, nil
}

// rowsOf counts records that have not expired, but for some.
func (t *Engine) rowsOf(records []*rowcodec.Record, but []int) (n int) {
	for i, r := range records {
		if !t.Over(r) && !slices.Contains(but, i) {
			n++
		}
	}
	return n
}

// encryptColumns sets what the postings of records carry, where it is not set yet, and makes values
// of stateful columns durable in their indexes.
func (t *Engine) encryptColumns(ctx context.Context, records []*rowcodec.Record) error {
	if err := t.EncryptAll(ctx, records, func(c *rowcodec.Column) bool { return c.Part < 0 && c.Stateful }); err != nil {
		return err
	}
	return onProcessors(ctx, len(records), func(ctx context.Context, i int, _ *rowcodec.Scratch) error { return t.EncodeColumns(ctx, records[i]) })
}

// toConvert returns the row if it has to be converted, or put is what this client has put there and it expires at another time, or is
// written anew.
func (t *Engine) toConvert(ctx context.Context, row *driver.Row, put *rowcodec.Record, anew bool, s *rowcodec.Scratch) (*rowcodec.Record, error) {
	for attempt := 0; ; attempt++ {
		if len(row.Cells) == 0 {
			return nil, nil
		}
		old, err := true, error(nil)
		if len(row.Cells[0].Qualifier) == 0 {
			old, err = t.OutdatedOrMistimed(*row, put, s)
		}
		if newer := rowcodec.NewerRow(0); errors.As(err, &newer) {
			old, err = true, nil
		}
		if err != nil || !old && !(anew && put != nil && put.TableTTL) {
			return nil, err
		}
		r, err := t.Decode(*row, nil, s)
		if newer := rowcodec.NewerRow(0); errors.As(err, &newer) {
			now, later := t.Env.AtLeast(ctx, uint32(newer))
			if later == nil && !now.Same(t.View) && put != nil && put.TableTTL && t.Meta.Expires() {
				return nil, err // it may be what was put, but for when it expires
			}
			if later != nil || !now.Same(t.View) {
				return nil, later // its writer knew as much of the table as this view, or more
			}
			r, err = now.Late().Decode(*row, nil, s)
		}
		if !errors.Is(err, rowcodec.ErrTornRow) || attempt == TornReads {
			return r, err
		}
		if err := t.reread(ctx, row, attempt); err != nil {
			return nil, err
		}
	}
}

// reread reads a row that was of two writes once more, with all its cells and stamps, after a pause.
func (t *Engine) reread(ctx context.Context, row *driver.Row, attempt int) (err error) {
	if err := WaitAgain(ctx, "torn_row", attempt); err != nil {
		return err
	}
	row.Cells, err = t.Data.Get(ctx, row.Key, driver.Slice{Stamps: true})
	return err
}

// ConvertWrites converts rows that this client wrote under an older view, unless others have written them since; or, anew, those that
// it has put with the TTL of the table.
func (t *Engine) ConvertWrites(ctx context.Context, writes []*rowcodec.Record, anew bool) error {
	for chunk := range slices.Chunk(writes, chunks.WriteChunk) {
		keys, put := make([][]byte, len(chunk)), make(map[string]*rowcodec.Record, len(chunk))
		for i, r := range chunk {
			keys[i], put[string(r.Key)] = r.Key, r
		}
		for again := true; again; { // a conversion of the same time may have won, and left rows to expire as before
			rows, err := t.stamped(ctx, keys)
			if err != nil {
				return err
			}
			done, err := t.Convert(ctx, rows, put, anew)
			if err = cmp.Or(err, done.why); err != nil {
				return err
			}
			again = done.Converted > 0 && t.Meta.Expires() && !anew
		}
	}
	return nil
}

// stamped reads rows with all their cells and stamps, as [view.convert] takes them.
func (t *Engine) stamped(ctx context.Context, keys [][]byte) ([]driver.Row, error) {
	rows := make([]driver.Row, len(keys))
	err := chunks.GetEach(ctx, t.Data, keys, driver.Slice{Stamps: true}, func(read []driver.Row, places []int) error {
		for i, row := range read {
			rows[places[i]] = row
		}
		return nil
	})
	return rows, err
}
