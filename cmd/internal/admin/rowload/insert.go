package rowload

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/rangecrypt/rangecrypt/cmd/internal/admin/tabular"
	"github.com/rangecrypt/rangecrypt/internal/cli/columns"
	"github.com/rangecrypt/rangecrypt/internal/cli/exit"
	"github.com/rangecrypt/rangecrypt/internal/cli/loads"
	"github.com/rangecrypt/rangecrypt/internal/cli/show"
	"github.com/rangecrypt/rangecrypt/internal/rowsize"
	"github.com/rangecrypt/rangecrypt/store"
)

// Done says what came of an insertion.
type Done struct {
	Rows   int  // that were acknowledged; at the end of a load without those that a later one has replaced
	There  int  // that an earlier run had put, and that were left as they are
	Unsure bool // more of them may be there
}

// A Target is the table that takes the rows: *store.Table, for one.
type Target interface {
	Put(ctx context.Context, rows ...store.Row) error
	Insert(ctx context.Context, rows ...store.Row) error // of keys that nobody else has
	GetBatch(ctx context.Context, keys []store.Row, columns ...string) ([]store.Row, error)
	Schema() store.Schema // as it is by now
}

// Insert puts the rows, and says what came of it, also with an error. If ctx ends, no further batch begins, and those
// under way have some seconds.
func (l *Load) Insert(ctx context.Context, table Target) (Done, error) {
	total, rows := -1, l.Rows
	if l.checked != nil {
		total = l.Rows - l.Bad.Rows
	}
	l.Bar.Start("inserting", total)
	defer l.Bar.Done()
	l.Rows = 0
	in, err := l.open()
	if err != nil {
		return Done{}, err
	}
	defer func() { _ = in.Close() }() // it was read
	s := &sender{Load: l, table: table, slots: make(chan struct{}, l.Writers), total: rows, most: l.MaxBad.Of(rows), digests: newDigester(l.Key), recent: map[digest]struct{}{}, first: map[digest]int{}}
	defer func() { _ = s.keys.close() }() // nothing is lost
	group, gctx := errgroup.WithContext(ctx)
	under, stop := loads.Lingering(gctx)
	defer stop()
	s.group, s.ctx, s.under = group, gctx, under
	err = s.all(in)
	if failed := group.Wait(); failed != nil {
		err = failed
	} else if err == nil {
		err = ctx.Err()
	}
	if err == nil {
		err = s.atEnd()
	}
	if l.checked == nil {
		return s.done, err
	}
	var unread *fs.PathError
	switch {
	case errors.Is(err, ErrRefused), errors.Is(err, ErrChanged):
	case errors.Is(err, tabular.ErrInput) && !errors.As(err, &unread): // it had no such row before
		err = fmt.Errorf("%w: %w", ErrChanged, err)
	case err == nil && (l.Rows != rows || !slices.Equal(l.checked, l.sum.Sum(nil))):
		err = fmt.Errorf("%w: the table may have rows of it as it was and as it is by now", ErrChanged)
	}
	l.Rows = rows
	return s.done, err
}

// atEnd counts rows that have replaced others, and checks what is known of the standard input when all of it was read.
func (s *sender) atEnd() error {
	if err := s.keys.count(); err != nil {
		return err
	}
	s.Rewrote = s.keys.rows
	s.done.Rows -= s.Rewrote
	switch {
	case s.noneIsGood() && s.checked != nil: // the table has refused what was good before
		return fmt.Errorf("%w: %w", ErrRefused, s.allBad())
	case s.checked != nil:
		return nil
	}
	if allowed := s.allowed(); s.Bad.Rows > allowed {
		return s.Bad.tooMany(s.Rows, allowed, s.SkipBad)
	}
	if s.noneIsGood() {
		return fmt.Errorf("%w: %w", tabular.ErrInput, s.allBad())
	}
	if s.Rewrote > 0 && !s.LastWins {
		return fmt.Errorf("%w; all rows were written, so that the last of those with one key is there by now", s.repeatedKeys(s.keys.first, s.keys.second))
	}
	return nil
}

// A sender puts batches of rows.
type sender struct {
	*Load
	table      Target
	group      *errgroup.Group
	ctx, under context.Context // that ends first, and that of the batches
	slots      chan struct{}   // one for each batch that is under way
	total      int             // rows of an input that was checked
	most       int             // bad rows

	rows  []store.Row
	came  []*tabular.Row
	bytes int // of rows

	digests *digester
	recent  map[digest]struct{} // keys of rows that may be under way, or are in rows
	keys    repeated            // of an input that was not checked, or has some
	first   map[digest]int      // the first rows of an input that was not checked

	mu   sync.Mutex // of what follows, and of Load.Bad
	done Done
}

const (
	// mostRecent bounds the keys that are taken to be under way.
	mostRecent = 1 << 16

	// mostFirst bounds the keys of the standard input that a row is compared with before it is written, in some 15 MB.
	// A row with another key that was there before is noticed at the end.
	mostFirst = 1 << 18
)

// all reads the rows and sends them.
func (s *sender) all(in tabular.Reader) error {
	distinct := s.Map.Distinct()
	for {
		came, row, err := s.read(s.ctx, in)
		switch {
		case err == io.EOF:
			s.send()
			return nil
		case s.checked != nil && s.Rows > s.total:
			return fmt.Errorf("%w: it has more rows by now", ErrChanged) // it may grow as fast as it is read
		case err != nil && came != nil && s.checked != nil:
			continue // it was counted
		case err != nil && came != nil:
			err = s.bad(came, err)
		case err == nil && !distinct:
			err = s.order(row)
		}
		if err != nil {
			return err
		}
		if row == nil {
			continue
		}
		kept := &tabular.Row{Number: came.Number, Line: came.Line}
		if s.Bad.w != nil {
			kept = came.Kept()
		}
		s.rows, s.came = append(s.rows, row), append(s.came, kept)
		if s.bytes += rowsize.Of(row); len(s.rows) == s.Batch || s.bytes >= rowsize.Enough {
			s.send()
		}
	}
}

// order waits until a row with the same key is put, so that the later one stays.
func (s *sender) order(row store.Row) error {
	key := s.digests.of(row)
	if s.checked == nil && !s.LastWins {
		if first, ok := s.first[key]; ok {
			return s.repeatedKey(first)
		}
		if len(s.first) < mostFirst {
			s.first[key] = s.Rows
		}
	}
	if s.checked == nil || s.Rewrote > 0 {
		if err := s.keys.add(key, s.Rows); err != nil {
			return err
		}
	}
	if _, ok := s.recent[key]; ok || len(s.recent) == mostRecent {
		s.send()
		for range cap(s.slots) {
			s.slots <- struct{}{}
		}
		for range cap(s.slots) {
			<-s.slots
		}
		clear(s.recent)
	}
	s.recent[key] = struct{}{}
	return nil
}

// bad counts a bad row, and returns an error once there are too many.
func (s *sender) bad(came *tabular.Row, why error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.Bad.Add(came, why); err != nil {
		return err
	}
	switch {
	case !s.SkipBad:
		return fmt.Errorf("%w: %s: %s: %w; nothing of its batch was written", tabular.ErrInput, s.Input.Name(), came.Where(), why)
	case s.checked == nil && s.MaxBad.Share(): // of all rows, which are not known yet
		return nil
	}
	if s.Bad.Rows > s.most {
		return s.Bad.tooMany(0, s.most, true)
	}
	return nil
}

// send puts the rows that are gathered, when there is a slot.
func (s *sender) send() {
	if len(s.rows) == 0 {
		return
	}
	rows, came := s.rows, s.came
	s.rows, s.came, s.bytes = make([]store.Row, 0, s.Batch), make([]*tabular.Row, 0, s.Batch), 0
	s.slots <- struct{}{}
	s.group.Go(func() error {
		defer func() { <-s.slots }()
		return s.put(rows, came)
	})
}

// absent leaves out of a batch what an earlier run of the load has put, which may have been changed since. The keys of
// these rows are the load's own. A row that can be read has all its index entries.
func (s *sender) absent(rows []store.Row, came []*tabular.Row) ([]store.Row, []*tabular.Row, error) {
	if !s.goesOn || !s.Map.Distinct() {
		return rows, came, nil
	}
	keys := make([]store.Row, len(rows))
	for i, row := range rows {
		keys[i] = store.Row{}
		for _, part := range s.Key {
			keys[i][part] = row[part]
		}
	}
	found, err := s.table.GetBatch(s.under, keys, s.Key[0])
	if err != nil {
		return nil, nil, err
	}
	var newRows []store.Row
	var newCame []*tabular.Row
	for i, row := range found {
		if row == nil {
			newRows, newCame = append(newRows, rows[i]), append(newCame, came[i])
		}
	}
	if s.Map.drawn {
		if err := s.same(rows, came, found); err != nil {
			return nil, nil, err
		}
	}
	there := len(rows) - len(newRows)
	s.mu.Lock()
	s.done.There += there
	s.mu.Unlock()
	s.Bar.Add(there)
	return newRows, newCame, nil
}

// same returns an error if a row of an append-only table is another one than the load puts. The table compares them, and
// writes none.
func (s *sender) same(rows []store.Row, came []*tabular.Row, found []store.Row) error {
	var there []store.Row
	var at []int
	for i, row := range found {
		if row != nil {
			there, at = append(there, rows[i]), append(at, i)
		}
	}
	if len(there) == 0 {
		return nil
	}
	err := s.table.Put(s.under, there...)
	var row *store.RowError
	if errors.Is(err, store.ErrRowExists) && errors.As(err, &row) && row.Index < len(at) {
		return fmt.Errorf("%w: %s: %s", ErrOther, s.Input.Name(), came[at[row.Index]].Where())
	}
	return err
}

// unmapped returns an error if the table has lost a column of the load: that is no fault of a row, of which all others would be bad.
func (s *sender) unmapped() error {
	has := columns.Names(s.table.Schema())
	for _, c := range s.Map.Columns {
		if c != nil && !slices.Contains(has, c.Name) {
			return fmt.Errorf("%w: column %s was renamed or dropped while rows came in", store.ErrSchemaChanged, show.Visible(c.Name))
		}
	}
	return nil
}

// put puts a batch, without the rows that the table does not take where these may be skipped.
func (s *sender) put(rows []store.Row, came []*tabular.Row) error {
	if err := s.ctx.Err(); err != nil {
		return err
	}
	rows, came, err := s.absent(rows, came)
	if err != nil {
		return err
	}
	write := s.table.Put
	if s.Map.Distinct() {
		write = s.table.Insert // nobody else has their keys, and they are not there
	}
	for len(rows) > 0 {
		if err := s.ctx.Err(); err != nil {
			return err
		}
		err := write(s.under, rows...)
		var row *store.RowError
		var batch *store.BatchError
		switch {
		case errors.As(err, &row) && !errors.As(err, &batch) && row.Index < len(rows):
			if err := s.unmapped(); err != nil {
				return err
			}
			if err := s.bad(came[row.Index], row.Err); err != nil {
				return fmt.Errorf("%w: %w", ErrRefused, err)
			}
			s.mu.Lock()
			s.keys.without(came[row.Index].Number)
			s.mu.Unlock()
			rows, came = slices.Delete(rows, row.Index, row.Index+1), slices.Delete(came, row.Index, row.Index+1)
			continue
		case err != nil:
			s.mu.Lock()
			defer s.mu.Unlock()
			s.done.Unsure = true
			if errors.As(err, &batch) && !exit.WrongData(err) {
				s.done.Rows += len(rows) - len(batch.Failed)
			}
			return err
		}
		s.mu.Lock()
		s.done.Rows += len(rows)
		s.mu.Unlock()
		s.Bar.Add(len(rows))
		return nil
	}
	return nil
}
