package cqlsource

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math"
	"reflect"
	"sync"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
	"golang.org/x/sync/errgroup"

	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/cassandra"
	"github.com/rangecrypt/rangecrypt/store/inspect"
	"github.com/rangecrypt/rangecrypt/store/migrate"
)

const (
	firstPage, leastPage, mostPage = 256, 8, 2048 // rows
	pageBytes                      = 1 << 20

	pieces  = 16      // of a range that is refused as a whole
	fewHash = 1 << 40 // a range of fewer hashes has hardly more than one partition

	readsAtOnce = 32
)

// selected returns the beginning of a query whose rows row reads. Behind the key are the hash of the partition and the time of the server, and
// then each column, when it was written and for how many seconds it stays.
func (l *layout) selected() string {
	stmt := "SELECT " + list(l.key, "%s", ", ") + ", token(" + list(l.key[:l.partition], "%s", ", ") + "), toUnixTimestamp(now())"
	if len(l.columns) > 0 {
		stmt += ", " + list(l.columns, "%[1]s, WRITETIME(%[1]s), TTL(%[1]s)", ", ")
	}
	return stmt + " FROM " + l.table
}

// width is how many values a row of selected has.
func (l *layout) width() int { return len(l.key) + 2 + 3*len(l.columns) }

func (l *layout) hash(values []raw) int64 { return int64(values[len(l.key)].number()) }

// row returns what a row of selected holds.
func (l *layout) row(values []raw) migrate.Found {
	f := migrate.Found{Row: make(store.Row), Exists: true}
	put := func(c *column, v any, err error) {
		switch {
		case err != nil && f.Refused == "":
			f.Refused = fmt.Sprintf("column %s %v", c.name, err)
		case err == nil && v != nil:
			f.Row[c.name] = v
		}
	}
	for i := range l.key {
		v, err := l.key[i].part(values[i].data)
		put(&l.key[i], v, err)
	}
	if f.Refused != "" {
		f.Place = l.place(values)
	}
	now := time.Unix(int64(values[len(l.key)+1].number())/1000, 0).UTC()
	values = values[len(l.key)+2:]
	n, lasting := 0, false
	var first, last int64 // seconds until values expire
	for i := range l.columns {
		value, written, ttl := values[3*i], values[3*i+1], values[3*i+2]
		if value.data == nil {
			continue
		}
		v, err := l.columns[i].kind.value(value.data)
		put(&l.columns[i], v, err)
		if at := time.UnixMicro(int64(written.number())).UTC(); n == 0 || at.After(f.Written) {
			f.Written = at
		}
		if left := int64(ttl.number()); ttl.data == nil {
			lasting = true
		} else {
			if last == 0 || left < first {
				first = left
			}
			last = max(last, left)
		}
		n++
	}
	f.Mixed = last > 0 && (lasting || first < last)
	if last > 0 && !lasting {
		f.Expires = now.Add(time.Duration(last) * time.Second)
	}
	return f
}

// part returns the value of a part of the key. Different keys of the table must be different keys of the encrypted one, and have no other
// bytes than those by which the row is read again.
func (c *column) part(b []byte) (any, error) {
	v, err := c.kind.value(b)
	if err != nil {
		return nil, err
	}
	var f float64
	switch v := v.(type) {
	case float32:
		f = float64(v)
	case float64:
		f = v
	}
	switch again, ok := c.kind.encode(v); {
	case f == 0 && math.Signbit(f):
		return nil, errors.New("is in the key, and the negative zero, which an encrypted table takes for zero")
	case f != f:
		return nil, errors.New("is in the key, and NaN, which no key of an encrypted table is")
	case !c.kind.rigid && (!ok || !bytes.Equal(again, b)):
		return nil, errors.New("is in the key, and stored in other bytes than its type has as a rule")
	}
	return v, nil
}

// bound returns a key as it is bound.
func (l *layout) bound(key store.Row) ([]any, error) {
	values := make([]any, len(l.key))
	for i, c := range l.key {
		b, ok := c.kind.encode(key[c.name])
		if !ok {
			return nil, fmt.Errorf("%w: part %s of a key is a %T, which is no value of a column of %s as a Source returns it", store.ErrColumn, c.name, key[c.name], c.cql)
		}
		values[i] = raw{b}
	}
	return values, nil
}

// Read implements [migrate.Source].
func (s *Source) Read(ctx context.Context, keys []store.Row) ([]migrate.Found, error) {
	l, err := s.usable(ctx)
	if err != nil {
		return nil, err
	}
	stmt := l.selected() + " WHERE " + list(l.key, "%s = ?", " AND ")
	found := make([]migrate.Found, len(keys))
	group, within := errgroup.WithContext(ctx)
	group.SetLimit(readsAtOnce)
	for i, key := range keys {
		group.Go(func() error {
			bound, err := l.bound(key)
			if err != nil {
				return err
			}
			found[i].Row = make(store.Row)
			for _, c := range l.key {
				found[i].Row[c.name] = key[c.name]
			}
			values := make([]raw, l.width())
			rows := s.query(stmt, bound...).IterContext(within)
			if rows.Scan(pointers(values)...) {
				part := found[i].Row
				found[i] = l.row(values)
				maps.Copy(found[i].Row, part)
			}
			return rows.Close()
		})
	}
	if err := group.Wait(); err != nil {
		return nil, s.failed(ctx, "read", err)
	}
	return found, nil
}

// Scan implements [migrate.Source]. The parts are shares of the line of hashes of Cassandra's partitioner. If the table
// is altered during the scan, or is another one at its end, the scan ends with an error.
func (s *Source) Scan(ctx context.Context, part inspect.Part) iter.Seq2[migrate.Found, error] {
	return func(yield func(migrate.Found, error) bool) {
		if err := part.Check(); err != nil {
			yield(migrate.Found{}, err)
			return
		}
		l, err := s.refresh(ctx)
		if err == nil {
			err = l.mapped()
		}
		if err == nil {
			c := &scan{s: s, l: l, size: firstPage, yield: yield, stmt: l.selected()}
			hash := "token(" + list(l.key[:l.partition], "%s", ", ") + ")"
			c.stmt += " WHERE " + hash + " >= ? AND " + hash + " <= ?"
			least, most := cassandra.Tokens(part.Index, part.Of)
			err = c.read(ctx, least, most, nil)
		}
		if errors.Is(err, errStopped) {
			return
		}
		if err == nil {
			var now string
			if now, err = s.Fingerprint(ctx); err == nil && now != l.fingerprint {
				err = s.changed()
			}
		}
		if err != nil {
			yield(migrate.Found{}, err)
		}
	}
}

// errStopped is returned when the caller has stopped.
var errStopped = errors.New("stopped")

// A scan is one of a part.
type scan struct {
	s     *Source
	l     *layout
	stmt  string
	size  int // of pages, in rows
	yield func(migrate.Found, error) bool
}

// A page is rows, and where the next page begins: nowhere, where that is empty.
type page struct {
	rows  [][]raw
	bytes int
	next  []byte
	err   error
}

// fetch reads a page in the background.
func (c *scan) fetch(ctx context.Context, wait *sync.WaitGroup, least, most int64, size int, state []byte) <-chan page {
	done := make(chan page, 1)
	wait.Go(func() {
		i := c.s.query(c.stmt, least, most).PageSize(size).PageState(state).IterContext(ctx)
		p := page{next: bytes.Clone(i.PageState())}
		for {
			values := make([]raw, c.l.width())
			if !i.Scan(pointers(values)...) {
				break
			}
			for _, v := range values {
				p.bytes += len(v.data)
			}
			p.rows = append(p.rows, values)
		}
		p.err = i.Close()
		done <- p
	})
	return done
}

// read yields the rows whose partitions have hashes from least to most. The key after, if there is one, is of the last row
// that was yielded before: it and the rows before it are left out.
func (c *scan) read(ctx context.Context, least, most int64, after []raw) error {
	var wait sync.WaitGroup
	defer wait.Wait() // no read outlives the iteration
	within, cancel := context.WithCancel(ctx)
	defer cancel()
	var state []byte
	var last []raw
	skipping := after != nil
	size := c.size
	next := c.fetch(within, &wait, least, most, size, nil)
	for {
		p := <-next
		if p.err != nil {
			if heavy(p.err) && size > leastPage { // less at a time is less to step over
				size = max(leastPage, size/8)
				next = c.fetch(within, &wait, least, most, size, state)
				continue
			}
			if cassandra.TooManyMarkers(p.err) {
				return c.inPieces(ctx, least, most, last, p.err)
			}
			return c.s.failed(ctx, "scan", p.err)
		}
		if len(p.next) > 0 {
			state = p.next
			if size >= firstPage && len(p.rows) > 0 {
				size = min(mostPage, max(firstPage, pageBytes*len(p.rows)/max(1, p.bytes)))
				c.size = size
			}
			next = c.fetch(within, &wait, least, most, size, state)
		}
		for _, values := range p.rows {
			if last = values; skipping {
				skipping = !c.same(values, after)
				continue
			}
			if !c.yield(c.l.row(values), nil) {
				return errStopped
			}
		}
		if len(p.next) == 0 {
			if skipping {
				return fmt.Errorf("cqlsource: a row of %s went while its partition was read in pieces: scan the part again", c.l.table)
			}
			return nil
		}
	}
}

// heavy reports whether a page was too much for the server.
func heavy(err error) bool {
	var timeout *gocql.RequestErrReadTimeout
	return cassandra.TooManyMarkers(err) || errors.As(err, &timeout) || errors.Is(err, gocql.ErrTimeoutNoResponse)
}

// same reports whether two rows have one key.
func (c *scan) same(a, b []raw) bool {
	for i := range c.l.key {
		if !bytes.Equal(a[i].data, b[i].data) {
			return false
		}
	}
	return true
}

// inPieces reads the rest of a range that the server refuses to read as a whole, after the row that was read last.
func (c *scan) inPieces(ctx context.Context, least, most int64, last []raw, refusal error) error {
	span := uint64(most) - uint64(least)
	if last != nil && least < most {
		hash := c.l.hash(last)
		if err := c.read(ctx, hash, hash, last); err != nil || hash == most {
			return err
		}
		return c.read(ctx, hash+1, most, nil)
	}
	if span < fewHash {
		return fmt.Errorf("%w: a partition has too many deleted rows one after the other: run 'nodetool garbagecollect %s %s' on each node, "+
			"or raise tombstone_failure_threshold in cassandra.yaml for the time of the copy", c.s.failed(ctx, "scan", refusal), c.s.keyspace, c.s.table)
	}
	for i := range int64(pieces) {
		from, to := least+i*int64(span/pieces), most
		if i < pieces-1 {
			to = from + int64(span/pieces) - 1
		}
		if err := c.read(ctx, from, to, nil); err != nil {
			return err
		}
	}
	return nil
}

var typeOfNamed = reflect.TypeOf(gocql.NamedValue("", nil))

// canonical returns what the server will store of a value that gocql binds to a part of the key. It is ErrRefused where this cannot be told.
func (c *column) canonical(v any) (any, error) {
	if reflect.TypeOf(v) == typeOfNamed {
		return nil, refusedf("the value of %s, which is in the primary key, is bound by a name: bind values in the order of the markers", c.name)
	}
	b, err := gocql.Marshal(c.info, v)
	if again, _ := gocql.Marshal(c.info, v); !bytes.Equal(b, again) { // the one that gocql sends is made later
		return nil, refusedf("the value of %s, which is in the primary key, is another one each time that gocql binds it, "+
			"as a UUID that it makes of a time: make the UUID first, and bind that", c.name)
	}
	if err != nil {
		return nil, errors.New("has a value that gocql does not bind to it")
	}
	if b == nil {
		return nil, errors.New("is null, or unset")
	}
	return c.part(b)
}
