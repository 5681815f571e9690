package engine

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"

	"github.com/rangecrypt/rangecrypt/internal/pause"
	"github.com/rangecrypt/rangecrypt/internal/relay"
	"github.com/rangecrypt/rangecrypt/internal/seal"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/internal/catalogue"
	"github.com/rangecrypt/rangecrypt/store/internal/chunks"
	"github.com/rangecrypt/rangecrypt/store/internal/fault"
	"github.com/rangecrypt/rangecrypt/store/internal/forms"
	"github.com/rangecrypt/rangecrypt/store/internal/rowcodec"
)

// Rows of a table with Schema.Conditional are written by compare-and-set: each change names the key cell that it has seen, and
// replaces it. So no clock decides anything, what a change replaces is exactly what it has read, and of two clients that change
// different columns of a row neither undoes what the other did.
//
// A row that is deleted keeps a key cell with empty content: were it to vanish, a change that
// expects no row and comes very late would bring an old row back. Where a database cannot delete
// under a condition (HBase), a cell that is to go gets an empty value.

// A rowChange is what one call does to one row.
type rowChange struct {
	key []byte

	// next returns what the row becomes, nil for no row, from what it is, nil where there is none.
	// It is called again when another client was faster.
	next func(was *rowcodec.Record) (*rowcodec.Record, error)

	blind   bool // next takes no account of what it is
	merges  bool // next needs all of what it is
	deletes bool // next returns nil
	bars    bool // a deletion leaves its mark also where there is no row, so that none comes late
	inserts bool // there is to be no row, and the first attempt takes that as read
	once    bool // nobody is to make it again who does not know whether it was made
	renews  bool // the row stays what it is, so that to make it twice does no harm

	// The row is to be as it was seen, which the first attempt takes as read; nil where it may be any. If somebody else has
	// written it since, the change is lost: that is no error.
	seen *conditionalRow
	lost bool

	// What is known of the row that the first attempt makes before the row is read, or nil. Its postings are made durable
	// while it is read; those that lead to the values that the row keeps come after.
	ahead *rowcodec.Record

	doubted [][]byte       // postings with copies of rows that attempts were to replace, and are hints now
	unknown error          // of an attempt that may have been made
	base    conditionalRow // what the row was before the last attempt
	passed  bool           // another client has written the row since, so that nothing of it is there, or comes

	read, tried []*rowcodec.Record // states of the row that this change has met, and its attempts
	stored      *rowcodec.Record   // what it has made of the row in the end
	done        bool
}

// commit makes changes of different rows. The order of its steps makes every row findable at any
// moment, wherever a client dies: postings first, then the row, and later the postings of what was
// replaced go. Copies of a row are doubted before it is replaced: as another change of the row comes to nothing then, and
// nobody puts copies of a write that is not in the row, none is trusted that is of an earlier one.
//
// What became of a change whose outcome is unknown is found out by reading. Where the row is as it was, the change is tried
// again under the same condition: at most one of the two is ever made. Where another client has written it, the outcome stays unknown.
func (t *Engine) commit(ctx context.Context, changes []*rowChange) (err error) {
	doubt := rowcodec.NewDoubt()
	defer func() {
		if err == nil && !slices.ContainsFunc(changes, func(c *rowChange) bool { return c.lost }) {
			t.dropReplaced(ctx, changes)
		} else {
			t.dropRefused(ctx, changes, doubt)
		}
	}()
	rows := make([]conditionalRow, len(changes))
	for round := 0; ; round++ {
		if err := t.prepare(ctx, changes, rows, round, doubt); err != nil {
			return err
		}
		err := t.Env.Concurrently(ctx, len(changes), func(ctx context.Context, i int) error {
			c := changes[i]
			if c.done {
				return nil
			}
			made, err := t.swap(ctx, c.key, &rows[i])
			if c.base = rows[i]; made {
				c.stored, c.done = rows[i].becomes, true
			} else if errors.Is(err, driver.ErrUnknownOutcome) {
				c.unknown, err = cmp.Or(c.unknown, err), nil
			} else if err != nil && !errors.Is(err, driver.ErrUnavailable) {
				c.unknown = cmp.Or(c.unknown, err)
			}
			return err
		})
		if err != nil || !slices.ContainsFunc(changes, func(c *rowChange) bool { return !c.done }) {
			return err
		}
		if err := WaitAgain(ctx, "row_changed", round); err != nil {
			return err
		}
	}
}

// prepare reads the rows of changes, and makes durable what they are found by when they have become what they are to become.
// A change that need not know the row for that does both at the same time.
func (t *Engine) prepare(ctx context.Context, changes []*rowChange, rows []conditionalRow, round int, doubt rowcodec.Doubt) error {
	group, groupCtx := relay.WithContext(ctx)
	early := round == 0
	if early {
		written, err := becoming(changes, rows, func(c *rowChange) bool { return c.blind })
		if err != nil {
			return err
		}
		group.Go(func() error { return t.announce(groupCtx, append(written, aheadOf(changes)...), nil, nil) })
	}
	group.Go(func() error {
		keys := make([][]byte, len(changes)) // of the rows that are read
		for i, c := range changes {
			switch {
			case c.inserts && early:
				rows[i].opens = true
			case c.seen != nil && early:
				rows[i] = *c.seen
			case !c.done:
				keys[i] = c.key
			}
		}
		return chunks.GetEach(groupCtx, t.Data, keys, driver.Slice{}, func(read []driver.Row, places []int) error {
			return t.Env.Concurrently(groupCtx, len(read), func(ctx context.Context, n int) (err error) {
				i := places[n]
				becomes := rows[i].becomes
				rows[i], err = t.meet(ctx, changes[i], read[n])
				rows[i].becomes = becomes
				return err
			})
		})
	})
	if err := group.Wait(); err != nil {
		return err
	}
	written, err := becoming(changes, rows, func(c *rowChange) bool { return !c.done && !(c.blind && early) })
	if err != nil {
		return err
	}
	var announced [][]byte
	if early && t.Postings != nil {
		announced = t.AllPostingKeys(aheadOf(changes))
	}
	return t.announce(ctx, written, announced, doubts(changes, rows, doubt))
}

// doubts returns what makes the copies hints that there may be of rows which are about to be replaced.
func doubts(changes []*rowChange, rows []conditionalRow, doubt rowcodec.Doubt) (puts []driver.Mutation) {
	for i, c := range changes {
		for _, posting := range rows[i].copies {
			known := slices.ContainsFunc(c.doubted, func(key []byte) bool { return bytes.Equal(key, posting) })
			if !c.done && !known {
				c.doubted, puts = append(c.doubted, posting), append(puts, doubt.Of(posting))
			}
		}
	}
	return puts
}

// aheadOf returns what is known of rows before they are read.
func aheadOf(changes []*rowChange) (ahead []*rowcodec.Record) {
	for _, c := range changes {
		if c.ahead != nil {
			ahead = append(ahead, c.ahead)
		}
	}
	return ahead
}

// becoming sets what the rows of some changes are to become, and returns those that are to be.
func becoming(changes []*rowChange, rows []conditionalRow, which func(*rowChange) bool) (written []*rowcodec.Record, err error) {
	for i, c := range changes {
		if !which(c) {
			continue
		}
		if rows[i].becomes, err = c.next(rows[i].record); err != nil {
			return nil, err
		}
		if rows[i].becomes != nil {
			written = append(written, rows[i].becomes)
			c.tried = append(c.tried, rows[i].becomes)
		} else {
			// There is no row to delete.
			c.done = rows[i].record == nil && rows[i].opens && (!c.bars || rows[i].keyCell() != nil) && c.seen == nil
		}
	}
	return written, nil
}

// A conditionalRow is a row as a change has met it, and what it is to become.
type conditionalRow struct {
	record  *rowcodec.Record // nil where there is no row, or where it does not open
	opens   bool
	cells   []driver.Cell
	copies  [][]byte // postings that may have copies of it
	becomes *rowcodec.Record
}

// keyCell returns the value of the key cell, or nil where there is none.
func (r *conditionalRow) keyCell() []byte {
	if len(r.cells) > 0 && len(r.cells[0].Qualifier) == 0 {
		return r.cells[0].Value
	}
	return nil
}

// meet takes the row of a change as it was read. Where it is what an earlier attempt was to make of it, the change is done.
func (t *Engine) meet(ctx context.Context, c *rowChange, read driver.Row) (row conditionalRow, err error) {
	row.cells, row.opens = read.Cells, true
	row.record, err = t.Decode(read, nil, new(rowcodec.Scratch))
	newer := rowcodec.NewerRow(0)
	if err == nil {
		row.copies = t.copiesOf(row.record)
	}
	if c.seen != nil && c.meetSeen(&row, err) {
		return row, nil
	}
	switch {
	case c.inserts && errors.As(err, &newer):
		now, err := t.Env.AtLeast(ctx, uint32(newer))
		if err != nil {
			return conditionalRow{}, err
		}
		if row.record, err = now.Decode(read, nil, new(rowcodec.Scratch)); err != nil {
			return conditionalRow{}, err
		}
	case c.renews && len(c.tried) == 0 && replaceable(err):
		c.done = true // it stays as it is
		return row, nil
	case (c.merges || c.inserts) && err != nil:
		return conditionalRow{}, err
	case errors.As(err, &newer):
		now, err := t.Env.AtLeast(ctx, uint32(newer))
		switch {
		case err != nil && (t.Meta.Copies() || !c.deletes || !errors.Is(err, catalogue.ErrPutBack)):
			return conditionalRow{}, err
		case err == nil && now.Meta.Copies():
			was, err := now.Decode(read, nil, new(rowcodec.Scratch))
			if err != nil {
				return conditionalRow{}, notReplaced(err)
			}
			row.copies = now.copiesOf(was)
		}
		row.opens = false // it is replaced, by one that is then written as newer clients expect it
	case replaceable(err) && t.Meta.Copies():
		return conditionalRow{}, notReplaced(err)
	case replaceable(err):
		// What cannot be read may be replaced; its postings point to nothing then.
		t.Env.Warn(ctx, "a row that could not be read is replaced", t.Family(), err)
		row.opens = false
	case err != nil:
		return conditionalRow{}, err
	}
	is := func(r *rowcodec.Record) bool { return row.record != nil && r.Write == row.record.Write }
	if i := slices.IndexFunc(c.tried, is); i >= 0 {
		c.stored, c.done = c.tried[i], true
	} else if c.unknown != nil && c.isPassed(&row) {
		c.passed = row.opens // otherwise it may be a conversion of what an attempt has made
		return conditionalRow{}, fmt.Errorf("%w; another client has written the row since", c.unknown)
	} else if row.record != nil && !slices.ContainsFunc(c.read, is) {
		c.read = append(c.read, row.record)
	}
	return row, nil
}

// isPassed reports whether another client has written the row since an attempt that may have been made. Then the change is not
// tried again: made twice, it would undo what others did who had seen the first. Where there is no row, nothing is left to delete.
func (c *rowChange) isPassed(row *conditionalRow) bool {
	is, was := row.record, c.base.record
	same := bytes.Equal(row.keyCell(), c.base.keyCell()) || is != nil && was != nil && is.Write == was.Write // converted
	return !same && !c.renews && !(c.deletes && is == nil && row.opens)
}

// copiesOf returns the postings that may have copies of a row.
func (t *Engine) copiesOf(r *rowcodec.Record) (keys [][]byte) {
	if r == nil {
		return nil
	}
	for _, p := range t.postingsOf([]*rowcodec.Record{r}, (*rowcodec.Column).Covers) {
		keys = append(keys, p.key)
	}
	return keys
}

func notReplaced(err error) error {
	return fmt.Errorf("%w; so the copies that index entries have of the row cannot be found, and it is neither replaced nor deleted: "+
		"'rangecrypt verify --repair' may mend a mixture of two writes, and a backup anything else", err)
}

// announce makes durable what records are found by, but for the postings that were before, and doubts. These are also of columns that
// this view does not know, perhaps the first ones that are searched.
func (t *Engine) announce(ctx context.Context, records []*rowcodec.Record, before [][]byte, doubts []driver.Mutation) error {
	if err := t.encryptColumns(ctx, records); err != nil {
		return err
	}
	known := make(map[string]bool, len(before))
	for _, key := range before {
		known[string(key)] = true
	}
	puts := slices.DeleteFunc(t.PutPostings(records), func(m driver.Mutation) bool { return known[string(m.Row)] })
	return t.Post(ctx, append(puts, doubts...))
}

// swap makes a row what it is to become, unless its key cell has changed.
func (t *Engine) swap(ctx context.Context, key []byte, row *conditionalRow) (bool, error) {
	m := driver.Mutation{Row: key}
	if row.becomes != nil {
		m = t.Mutation(row.becomes)
	} else {
		header := seal.Header{Policy: t.Version}
		rand.Read(header.Write[:])
		m.Puts = []driver.Cell{{Qualifier: rowcodec.KeyQualifier, Value: t.KeyCell(header, nil, t.Places(key))}}
	}
	m.Deletes = chunks.Superseded(row.cells, m.Puts)
	expect := driver.Cell{Qualifier: rowcodec.KeyQualifier, Value: row.keyCell()}
	if family, ok := t.Data.(driver.Committer); ok {
		return family.Commit(ctx, key, []driver.Cell{expect}, m.Puts, m.Deletes)
	}
	for _, qualifier := range m.Deletes {
		m.Puts = append(m.Puts, driver.Cell{Qualifier: qualifier, Value: []byte{}})
	}
	return t.Data.CheckAndPut(ctx, key, expect, m.Puts...)
}

// replace makes rows that were read what they are to become, where nobody has written them since. It returns the indexes of
// those that somebody has, as [driver.Family.Replace] does, and of those where it is not known.
func (t *Engine) replace(ctx context.Context, rows []driver.Row, becomes []*rowcodec.Record) (late []int, err error) {
	if t.Meta.Conditional {
		made := make([]bool, len(rows))
		err := t.Env.Concurrently(ctx, len(rows), func(ctx context.Context, i int) (err error) {
			made[i], err = t.swap(ctx, rows[i].Key, &conditionalRow{cells: rows[i].Cells, becomes: becomes[i]})
			if errors.Is(err, driver.ErrUnknownOutcome) {
				return nil // it is read again, which shows the outcome
			}
			return err
		})
		for i, made := range made {
			if !made {
				late = append(late, i)
			}
		}
		return late, err
	}
	replacements := make([]driver.Replacement, len(rows))
	for i, row := range rows {
		m := t.Mutation(becomes[i])
		replacements[i] = driver.Replacement{Row: row.Key, Seen: row.Cells[0], Puts: m.Puts, Deletes: chunks.Superseded(row.Cells, m.Puts), Rank: t.RankOver(becomes[i].Version)}
	}
	return t.Data.Replace(ctx, replacements...)
}

// dropReplaced removes the postings of all that rows have been, and of attempts that came to
// nothing: none of it comes back, since its condition has failed for ever. It puts copies into the postings of what they are.
func (t *Engine) dropReplaced(ctx context.Context, changes []*rowChange) {
	var gone []*rowcodec.Record
	var doubted [][]byte
	for _, c := range changes {
		doubted = append(doubted, c.doubted...)
		for _, r := range slices.Concat(c.read, c.tried) {
			if c.stored == nil || r.Write != c.stored.Write {
				gone = append(gone, r)
			}
		}
	}
	t.dropAll(ctx, gone, doubted)
	t.copyLater(ctx, storedBy(changes), t.copyAdded)
}

// dropRefused does so after an error, and where changes were lost. What has become of changes that were not made is not known where an attempt may have been
// made: then all postings stay. Otherwise those of the row that is there stay.
func (t *Engine) dropRefused(ctx context.Context, changes []*rowChange, doubt rowcodec.Doubt) {
	var made []*rowChange
	var gone []*rowcodec.Record
	var settled []driver.Mutation
	for _, c := range changes {
		switch {
		case c.done && !c.lost, c.passed:
			made = append(made, c)
		case c.lost, c.unknown == nil:
			gone = append(gone, c.tried...)
			if c.ahead != nil && len(c.tried) == 0 { // otherwise the first attempt has its postings
				gone = append(gone, c.ahead)
			}
			for _, posting := range c.doubted {
				settled = append(settled, doubt.Settled(posting))
			}
			c.doubted = nil
		}
		c.ahead = nil
	}
	t.dropReplaced(ctx, made)
	t.dropAll(ctx, gone, nil)
	if len(settled) > 0 {
		t.later(ctx, func(ctx context.Context) error { return t.Post(ctx, settled) })
	}
}

// dropAll removes the postings of records, and those that were doubted, later. Where others may be putting copies into them,
// they are read before: what removes them comes after what was read, so that a copy which replaces that is too late.
func (t *Engine) dropAll(ctx context.Context, gone []*rowcodec.Record, doubted [][]byte) {
	keys := append(t.AllPostingKeys(gone), doubted...)
	slices.SortFunc(keys, bytes.Compare)
	if keys = slices.CompactFunc(keys, bytes.Equal); len(keys) == 0 {
		return
	}
	t.later(ctx, func(ctx context.Context) error {
		if family := t.postings(); family != nil && t.Env.Now().Meta.Copies() {
			read := func([]driver.Row, []int) error { return nil }
			if err := chunks.GetEach(ctx, family, keys, driver.Slice{Stamps: true}, read); err != nil {
				return err
			}
		}
		return t.Unpost(ctx, keys)
	})
}

// Renew writes rows again as they are. A doubtful posting never has a copy again, as the client that doubts it may only sleep;
// the new write has others.
func (t *Engine) Renew(ctx context.Context, keys [][]byte) error {
	changes := make([]*rowChange, len(keys))
	for i, key := range keys {
		changes[i] = &rowChange{key: key, merges: true, renews: true, next: func(was *rowcodec.Record) (*rowcodec.Record, error) {
			if was == nil {
				return nil, nil
			}
			return was.Again(), nil
		}}
	}
	if err := t.commit(ctx, changes); err != nil {
		return t.settleTried(ctx, changes, err)
	}
	stored := storedBy(changes)
	if err := t.copyAdded(ctx, stored); err != nil {
		return err
	}
	return t.SettleWrites(ctx, stored)
}

// A Seen is a row as it was read. In a table with Schema.Conditional it is replaced only if nobody has written it since.
type Seen struct {
	Record *rowcodec.Record // nil where there is no row, or where it holds a mixture of two writes
	Torn   bool             // it does

	row conditionalRow
}

// Become makes rows of a table with Schema.Conditional what records say, each nil for no row, unless somebody has written them
// since they were seen. It reports which rows it has made: their key cells are others then, also where the values stay the same,
// or where a row that is deleted was not there. No record has its write id twice.
func (t *Engine) Become(ctx context.Context, keys [][]byte, seen []Seen, records []*rowcodec.Record) (made []bool, err error) {
	changes := make([]*rowChange, len(keys))
	for i, r := range records {
		changes[i] = &rowChange{key: keys[i], seen: &seen[i].row, deletes: r == nil, next: func(*rowcodec.Record) (*rowcodec.Record, error) {
			if r == nil {
				return nil, nil
			}
			return r.Anew(), nil
		}}
		if was := seen[i].Record; was != nil {
			changes[i].read = []*rowcodec.Record{was}
		}
	}
	if err := t.commit(ctx, changes); err != nil {
		return nil, t.late(t.settleTried(ctx, changes, err))
	}
	made = make([]bool, len(keys))
	for i, c := range changes {
		made[i] = !c.lost
	}
	_, err = t.settleLeased(ctx, storedBy(changes), true)
	return made, t.late(err)
}

// meetSeen takes the row of a change that expects one which was seen. It reports whether nothing is left to do: the row is
// another by now, be it by an attempt of the change or by another client.
func (c *rowChange) meetSeen(row *conditionalRow, err error) (over bool) {
	if bytes.Equal(row.keyCell(), c.seen.keyCell()) {
		return false
	}
	c.done = true
	for _, tried := range c.tried {
		if err == nil && row.record != nil && row.record.Write == tried.Write {
			c.stored = tried
			return true
		}
	}
	// What was seen may be there still, as somebody has converted it. Who has replaced it drops its postings.
	c.lost, c.read = true, nil
	if err != nil {
		c.tried = nil // one of them may be there, as a later view has stored it
	}
	return true
}

// replacement returns the change that makes a record of a row, whatever that is.
func replacement(r *rowcodec.Record) *rowChange {
	return &rowChange{key: r.Key, blind: true, next: func(*rowcodec.Record) (*rowcodec.Record, error) { return r.Anew(), nil }}
}

// insertion returns the change that makes a record of a row, if there is none. Its error has the number of the record.
func insertion(r *rowcodec.Record, number int) *rowChange {
	return &rowChange{key: r.Key, inserts: true, next: func(was *rowcodec.Record) (*rowcodec.Record, error) {
		if was != nil {
			return nil, &fault.RowError{Index: number, Err: fault.ErrRowExists}
		}
		return r.Anew(), nil
	}}
}

// deletion returns the change that deletes a row.
func deletion(key []byte) *rowChange {
	return &rowChange{key: key, deletes: true, next: func(*rowcodec.Record) (*rowcodec.Record, error) { return nil, nil }}
}

// UpdateChunk updates rows, under a later view where that is needed: a row that was written by a
// client which knows more of the table must keep what this one does not know of.
func (t *Engine) UpdateChunk(ctx context.Context, updates []*rowcodec.Updated, from int) error {
	now, changes := t, make([]*rowChange, len(updates))
	for i, u := range updates {
		c := &rowChange{key: u.Key, merges: true, once: u.Once(), ahead: t.Ahead(u)}
		c.next = func(was *rowcodec.Record) (*rowcodec.Record, error) {
			r, err := now.Changed(was, t.View, u)
			if err != nil {
				return nil, &fault.RowError{Index: from + i, Err: err}
			}
			if c.ahead != nil && len(c.tried) == 0 {
				r.Follow(c.ahead)
			}
			return r, nil
		}
		changes[i] = c
	}
	for {
		err := now.commit(ctx, changes)
		later, newer := (*Engine)(nil), rowcodec.NewerRow(0)
		if errors.As(err, &newer) {
			later, err = t.Env.AtLeast(ctx, uint32(newer))
		}
		if err != nil {
			return onceOnly(changes, now.late(now.settleTried(ctx, changes, err)))
		}
		if later == nil {
			break
		}
		// What was updated stays so, whatever others have made of it since.
		for _, c := range changes {
			if c.ahead = nil; c.stored != nil {
				c.stored = later.Inherited(now.View, c.stored)
			}
			for _, records := range [][]*rowcodec.Record{c.read, c.tried} {
				for i, r := range records {
					records[i] = later.Inherited(now.View, r)
				}
			}
		}
		now = later
		pause.Repeats(ctx, "schema_changed")
	}
	settled, err := now.settleLeased(ctx, storedBy(changes), true)
	if err != nil {
		return onceOnly(changes, err)
	}
	return forms.Keeps(settled.View, t.View, func(c *rowcodec.Column) bool {
		return slices.ContainsFunc(updates, func(u *rowcodec.Updated) bool { return u.Values[c.Id] != nil })
	})
}

// storedBy returns what changes have made of their rows in the end.
func storedBy(changes []*rowChange) (stored []*rowcodec.Record) {
	for _, c := range changes {
		if c.stored != nil {
			stored = append(stored, c.stored)
		}
	}
	return stored
}

// settleTried settles what changes that ended with an error have perhaps made, under a schema that is no longer.
func (t *Engine) settleTried(ctx context.Context, changes []*rowChange, err error) error {
	var tried []*rowcodec.Record
	for _, c := range changes {
		tried = append(tried, c.tried[:min(1, len(c.tried))]...)
	}
	if unsettled := t.SettleWrites(ctx, tried); unsettled != nil {
		err = fault.Besides(err, unsettled)
	}
	return err
}

// onceOnly makes an error of changes one that nobody tries again blindly, if one of them may have been made that must not be
// made twice.
func onceOnly(changes []*rowChange, err error) error {
	made := func(c *rowChange) bool { return c.once && (c.unknown != nil || c.stored != nil) }
	if err == nil || !slices.ContainsFunc(changes, made) {
		return err
	}
	return fmt.Errorf("%w: %w", fault.ErrOnce, fault.Besides(err, driver.ErrUnknownOutcome))
}
