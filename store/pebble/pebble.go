// Package pebble is the embedded database: it implements package driver in a directory of the
// local file system, on the log-structured engine cockroachdb/pebble.
//
// Every acknowledged mutation was written to the log and synced, so that it survives the death
// of the process and of the machine. Mutations that wait at the same time share one sync. One
// process at a time has the directory open.
//
// The first write that the file system refuses (no space left, say) stops the database: nothing
// on the disk changes any more, and every call from then on returns that error together with
// [driver.ErrUnavailable]. What was acknowledged is there when the directory is opened again. The
// engine's own answer to such errors is to end the process; a library must not.
//
// It implements all of the seam: its families are [driver.Committer], its [DB] is a
// [driver.Snapshotter].
package pebble

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/rangecrypt/rangecrypt/internal/pause"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/pebble/internal/dirlock"
	"github.com/rangecrypt/rangecrypt/store/pebble/internal/errkind"
	"github.com/rangecrypt/rangecrypt/store/pebble/internal/layout"
	"github.com/rangecrypt/rangecrypt/store/pebble/internal/rowfilter"
)

// Options are what may be chosen. The zero value, or a nil pointer, is the default.
type Options struct {
	// CacheBytes is how much data is kept in memory, uncompressed: writes that are not yet in tables, which take 32 MiB
	// and at most 64, and what is left for tables that are read. Default 88 MiB: it lets the database work in some
	// 300 MiB whatever it holds. More is worth it where a working set is read again and again, above all by ordered
	// columns, each row of which is a read of its own: encrypted rows are longer, and leave a cache first. Scans gain little.
	CacheBytes int64

	// MustExist makes Open write nothing where there is no database: that is fs.ErrNotExist.
	MustExist bool

	// FS is the file system, by default that of the machine. Tests put a faulty one here.
	FS vfs.FS

	// Now is the clock that times to live are measured by, by default time.Now.
	Now func() time.Time

	tune func(*pebble.Options) // lets tests have the engine as earlier versions had it
}

const (
	// A memtable of 32 MiB is flushed about once in 32 MiB of writes. The larger it is, the fewer times compactions rewrite
	// a cell, and the larger tables of level 0 are. Not larger, since two of them (the engine stops writers there) and a
	// restart, which replays the log, must stay cheap. Not smaller: the allocator of C keeps memory from 32 MiB on outside
	// its arenas, and gives it back. Three of 16 MiB leave gaps there that no cache block fits, and memory grows.
	memTableBytes = 32 << 20
	memTables     = 2

	// Blocks of the engine's default, 4 KiB, have four times as many entries in the indexes of tables, and leave more
	// gaps in memory. Rows that are read one by one did not become slower by larger ones.
	blockBytes = 16 << 10

	// By 14 bits a row, one in 220 look-ups of a new row reads a block in vain, in each of some five tables; by ten, one in 85.
	filterBits = 14

	// After a failure, how long Close waits for the engine to stop before it leaves it alone.
	patience = 2 * time.Second
)

var errClosed = fmt.Errorf("pebble: %w", driver.ErrClosed)

// DB is an open directory. It implements [driver.DB] and [driver.Snapshotter].
type DB struct {
	dir   string
	now   func() time.Time
	eng   *pebble.DB
	fence *fence
	lock  io.Closer

	unflushed *rowfilter.Unflushed // rows that memtables may have changes of

	// Whoever calls the engine holds opMu for reading, for a page of a scan at a time. Close
	// takes it, so that no call meets a closed engine.
	opMu      sync.RWMutex
	closed    bool
	families  map[string]*entry // replaced whenever one is made or dropped, and never changed: snapshots have it, too
	snapshots map[*snapshot]struct{}

	dirMu  sync.Mutex // held while a family is made or dropped, which waits for the disk
	lastID uint32

	queue writeQueue
}

// An entry is a family in the directory.
type entry struct {
	id      uint32
	spec    driver.FamilySpec
	dropped atomic.Bool
}

// Open opens the database in a directory, which it creates, readable by its owner alone, when it
// does not exist.
//
// A directory that is not empty and holds something else, or was written by a newer version, is [driver.ErrLayout] and left as it
// is. So is a new one within the directory of another database. One that is open already is [driver.ErrLocked]. Opening writes:
// what is only in the log gets into tables. A disk that has no space for them is [driver.ErrUnavailable]. So are calls once the directory was moved or replaced, until it is opened anew.
//
// A directory whose files are damaged or missing is [driver.ErrCorrupt] and left as it is; damage within a
// table is that error of the reads that meet it. One without the file RANGECRYPT that has files of the engine is
// both ErrCorrupt and ErrLayout: it is another program's, or that file must be restored.
//
// The list of tables (MANIFEST-*) is compared with its SHA-256 in the file RANGECRYPT, as far as the engine has
// relied on it, also where the process was killed. A directory that was closed depends on no log (*.log). One that
// was not, since the process was killed or the power failed, needs its logs. A log that is missing is noticed,
// and any but the newest that is damaged, cut or empty. Four things are not noticed: what was written from there
// on is lost, without an error.
//
//   - The newest log is cut or empty: a loss of power leaves it so.
//   - The newest log is damaged in its last 32 KiB, or in the writes that were synced last (together 2 MiB, or
//     one that is larger): so, too.
//   - One bit of the header of a record is flipped, which makes it the mark of the end of its log. The engine
//     has no checksum of that mark.
//   - The list of tables was damaged before the directory was opened for the first time by this version. An
//     earlier one wrote no SHA-256 of it.
func Open(dir string, opts *Options) (*DB, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	o.CacheBytes = cmp.Or(o.CacheBytes, 88<<20)
	o.FS = cmp.Or(o.FS, vfs.Default)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.CacheBytes < 0 {
		return nil, fmt.Errorf("pebble: CacheBytes is %d", o.CacheBytes)
	}
	if dir == "" {
		return nil, errors.New("pebble: no directory given")
	}
	db, err := open(dirlock.Path(o.FS, dir), o)
	if err != nil {
		return nil, fmt.Errorf("pebble: open %s: %w", dir, errkind.OfDisk(err))
	}
	return db, nil
}

func open(dir string, o Options) (_ *DB, err error) {
	_, err = o.FS.Stat(dir)
	made := errors.Is(err, fs.ErrNotExist) // and removed again if nothing comes of it
	// Look before anything is written, the lock file included: the directory may be anyone's.
	is, err := readFormat(o.FS, dir)
	switch {
	case err != nil && (o.MustExist || !made):
		return nil, err
	case is == nil && o.MustExist:
		return nil, fmt.Errorf("the directory holds no store: %w", fs.ErrNotExist)
	case is == nil:
		if outer := dirlock.Above(o.FS, dir, formatName); outer != "" {
			return nil, fmt.Errorf("%w: a new database there would be in the directory of another one, %s, and go with it: name one elsewhere", driver.ErrLayout, outer)
		}
	}
	if err := dirlock.Make(o.FS, dir); err != nil {
		return nil, fmt.Errorf("create the directory, or name one that can be written to: %w", err)
	}
	lockName := o.FS.PathJoin(dir, "LOCK")
	lock, err := dirlock.Take(o.FS, dir, lockName)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, lock.Close())
		}
	}()
	var record *fileRecord
	pinned, err := dirlock.Pin(o.FS, dir)
	if err == nil {
		o.FS = pinned
		record, err = openRecord(o.FS, dir)
	}
	if err != nil {
		return nil, err
	}
	if record.unfinished {
		defer func() {
			if err != nil && made {
				err = errors.Join(err, o.FS.RemoveAll(dir)) // nothing was stored there
			}
		}()
		if err = record.begin(); err != nil {
			return nil, err
		}
	}
	fence := newFence(pinned, lockName, record)
	db, err := openFenced(dir, o, fence)
	if err != nil {
		record.freeze()
		return nil, err
	}
	db.lock = lock
	return db, nil
}

// openRecord returns the record of a directory that is locked: the one that is there, if the
// directory is whole, or a new one.
func openRecord(fsys vfs.FS, dir string) (*fileRecord, error) {
	record, err := readFormat(fsys, dir) // another process may have been faster
	switch {
	case err != nil:
		return nil, err
	case record == nil:
		return &fileRecord{fs: fsys, dir: dir, unfinished: true}, nil
	}
	return record, record.check()
}

// openFenced opens the engine, and closes the fence where that fails.
func openFenced(dir string, o Options, fence *fence) (_ *DB, err error) {
	unflushed := rowfilter.NewUnflushed() // opening flushes what it replays
	eng, err := openEngine(dir, engineOptions(o, fence, unflushed), fence)
	if err != nil {
		if desc, perr := pebble.Peek(dir, o.FS); perr == nil && desc.FormatMajorVersion > pebble.FormatNewest ||
			strings.Contains(err.Error(), "unknown format major version") {
			err = fmt.Errorf("%w: written by a newer version of the engine: %w", driver.ErrLayout, err)
		}
		return nil, errkind.OfOpen(err)
	}
	db := &DB{
		dir: dir, now: o.Now, eng: eng, fence: fence, unflushed: unflushed,
		families: make(map[string]*entry), snapshots: make(map[*snapshot]struct{}),
	}
	if fence.record.unfinished {
		err = fence.record.finish()
	}
	if err == nil {
		err = errkind.Of(db.readDirectory())
	}
	if err != nil {
		err = errors.Join(err, eng.Close())
		fence.fail(err)
		return nil, err
	}
	db.queue.start(db)
	return db, nil
}

func engineOptions(o Options, fence *fence, unflushed *rowfilter.Unflushed) *pebble.Options {
	rows := rowfilter.Policy(filterBits, layout.RowPrefixLen)
	cells := bloom.FilterPolicy(filterBits)
	po := &pebble.Options{
		FS:                          fence,
		Cache:                       pebble.NewCache(o.CacheBytes),
		FormatMajorVersion:          pebble.FormatNewest,
		Logger:                      quiet{fence},
		LoggerAndTracer:             quiet{fence},
		MemTableSize:                memTableBytes,
		MemTableStopWritesThreshold: memTables,
		Filters:                     map[string]pebble.FilterPolicy{cells.Name(): cells}, // of tables of earlier versions
		EventListener: &pebble.EventListener{
			// Otherwise fatal to the process. The read that met it returns an error as well.
			DataCorruption: func(pebble.DataCorruptionInfo) {},
			FlushBegin:     func(pebble.FlushInfo) { unflushed.FlushBegins() },
			FlushEnd: func(i pebble.FlushInfo) {
				if i.Err == nil {
					unflushed.FlushEnds()
				}
			},
		},
	}
	for i := range po.Levels {
		po.Levels[i].BlockSize = blockBytes
		if i < len(po.Levels)-1 {
			// A tenth of the data, which is soon rewritten. Of what is sealed nothing can be compressed anyway.
			po.Levels[i].Compression = func() *sstable.CompressionProfile { return sstable.NoCompression }
		} else {
			po.Levels[i].Compression = func() *sstable.CompressionProfile { return sstable.SnappyCompression }
		}
		po.Levels[i].FilterPolicy = rows
	}
	if o.tune != nil {
		o.tune(po)
	}
	return po
}

// openEngine opens the engine and gives up the caller's reference to its cache. It turns the
// panics by which the engine reports some failures into errors.
//
// On a full disk the engine would not come back: it repeats the flush of the log that it has
// replayed for ever. So it is given up once the fence is closed, and closed when it has come to its
// end, which Open does not wait for beyond some time.
func openEngine(dir string, o *pebble.Options, fence *fence) (*pebble.DB, error) {
	type result struct {
		eng *pebble.DB
		err error
	}
	opened := make(chan result, 1)
	go func() {
		var r result
		defer func() {
			if p := recover(); p != nil {
				r = result{err: asError(p)}
			}
			opened <- r
		}()
		defer o.Cache.Unref() // an engine that is open has its own reference
		before, err := pebble.Peek(dir, fence.FS)
		r.eng, r.err = pebble.Open(dir, o)
		if r.err == nil && err == nil && before.FormatMajorVersion < pebble.FormatWALSyncChunks {
			// The first log of a new directory is of the engine's oldest format, in which damage
			// looks like its end.
			r.err = fence.flush(r.eng)
		}
		if err := fence.err(); err != nil && r.eng != nil {
			fence.givenUp.Store(true)
			r = result{err: errors.Join(err, r.eng.Close())}
		}
	}()
	select {
	case r := <-opened:
		return r.eng, r.err
	case <-fence.failed:
		fence.givenUp.Store(true)
	}
	select {
	case r := <-opened:
		err := fence.err() // explains the others
		if r.eng != nil {
			err = errors.Join(err, r.eng.Close())
		}
		return nil, err
	case <-time.After(patience):
		return nil, fence.err()
	}
}

func asError(recovered any) error {
	if err, ok := recovered.(error); ok {
		return err
	}
	return fmt.Errorf("engine: %v", recovered)
}

// readDirectory fills families and lastID.
func (db *DB) readDirectory() error {
	it, err := db.eng.NewIter(&pebble.IterOptions{LowerBound: layout.DirectoryKey(""), UpperBound: []byte{0, 0, 0, 0, 'f' + 1}})
	if err != nil {
		return err
	}
	for valid := it.First(); valid; valid = it.Next() {
		name := string(it.Key()[5:])
		id, spec, ok := layout.DecodeSpec(name, it.Value())
		if !ok {
			return errors.Join(fmt.Errorf("%w: family %q was made by a newer version of rangecrypt", driver.ErrLayout, name), it.Close())
		}
		db.families[name] = &entry{id: id, spec: spec}
	}
	if err := it.Close(); err != nil {
		return err
	}
	value, closer, err := db.eng.Get(layout.CounterKey)
	switch {
	case errors.Is(err, pebble.ErrNotFound):
		return nil
	case err != nil:
		return err
	case len(value) != 4:
		return errors.Join(layout.ErrValue, closer.Close())
	}
	db.lastID = binary.BigEndian.Uint32(value)
	return closer.Close()
}

// enter admits a call to the engine; leave ends it.
func (db *DB) enter() error {
	db.opMu.RLock()
	err := db.fence.err()
	switch {
	case db.closed:
		err = errClosed
	case err != nil:
		err = db.stopped(err)
	default:
		return nil
	}
	db.opMu.RUnlock()
	return err
}

func (db *DB) enterFor(ctx context.Context) error {
	if err := contextError(ctx); err != nil {
		return err
	}
	return db.enter()
}

func (db *DB) leave() { db.opMu.RUnlock() }

// stopped is what calls return after the first failed write.
func (db *DB) stopped(cause error) error {
	cause = errkind.OfDisk(cause)
	why := strings.TrimPrefix(cause.Error(), driver.ErrUnavailable.Error()+": ")
	return errkind.New(fmt.Sprintf("pebble: %s: %v: a write failed, and the database stopped; mend the cause and open it again: %s",
		db.dir, driver.ErrUnavailable, why), driver.ErrUnavailable, driver.ErrClosed, cause)
}

// Family implements [driver.DB].
func (db *DB) Family(ctx context.Context, spec driver.FamilySpec) (driver.Family, error) {
	if err := cmp.Or(spec.Check(), contextError(ctx)); err != nil {
		return nil, err
	}
	e, err := db.find(spec)
	if err == nil && (e == nil || e.dropped.Load()) {
		e, err = db.make(ctx, spec)
	}
	if err != nil {
		return nil, err
	}
	return &family{db: db, reader: db.eng, entry: e}, nil
}

func (db *DB) find(spec driver.FamilySpec) (*entry, error) {
	if err := db.enter(); err != nil {
		return nil, err
	}
	defer db.leave()
	return lookUp(db.families, spec)
}

// make makes a family, unless it is there when no other one is being made or dropped.
func (db *DB) make(ctx context.Context, spec driver.FamilySpec) (*entry, error) {
	db.dirMu.Lock()
	defer db.dirMu.Unlock()
	e, err := db.find(spec)
	switch {
	case err != nil || e != nil:
		return e, err
	case spec.Existing:
		return nil, fmt.Errorf("pebble: %w: %s", driver.ErrNoFamily, spec.Name)
	}
	db.lastID++ // one that cannot be made uses its number up
	e = &entry{id: db.lastID, spec: spec}
	b := db.eng.NewBatch()
	err = errors.Join(
		b.Set(layout.CounterKey, layout.AppendFamily(nil, e.id), nil),
		b.Set(layout.DirectoryKey(spec.Name), layout.EncodeSpec(e.id, spec), nil))
	if err == nil {
		err = db.list(ctx, spec.Name, e, &write{batch: b})
	}
	return e, err
}

// list changes the directory on the disk, and then in memory, where a nil entry is none.
func (db *DB) list(ctx context.Context, name string, e *entry, w *write) error {
	if _, err := db.queue.do(ctx, w); err != nil {
		return err
	}
	db.opMu.Lock()
	defer db.opMu.Unlock()
	db.families = maps.Clone(db.families)
	if db.families[name] = e; e == nil {
		delete(db.families, name)
	}
	return nil
}

// lookUp returns nil where there is no such family.
func lookUp(families map[string]*entry, spec driver.FamilySpec) (*entry, error) {
	e := families[spec.Name]
	spec.Existing = false // which is no part of the layout
	if e != nil && e.spec != spec {
		return nil, fmt.Errorf("%w: family %s exists as %s, not as %s", driver.ErrLayout, spec.Name, describe(e.spec), describe(spec))
	}
	return e, nil
}

func describe(s driver.FamilySpec) string {
	if s.Layout == driver.LayoutWide {
		return "wide"
	}
	return fmt.Sprintf("ordered (PrefixBytes %d, SpreadBits %d)", s.PrefixBytes, s.SpreadBits)
}

// Families implements [driver.DB].
func (db *DB) Families(ctx context.Context) ([]string, error) {
	if err := db.enterFor(ctx); err != nil {
		return nil, err
	}
	defer db.leave()
	return slices.Sorted(maps.Keys(db.families)), nil
}

// Drop implements [driver.DB].
func (db *DB) Drop(ctx context.Context, name string) error {
	db.dirMu.Lock()
	defer db.dirMu.Unlock()
	if err := db.enterFor(ctx); err != nil {
		return err
	}
	e := db.families[name]
	db.leave()
	if e == nil {
		return nil
	}
	b := db.eng.NewBatch()
	err := errors.Join(
		b.Delete(layout.DirectoryKey(name), nil),
		b.DeleteRange(layout.AppendFamily(nil, e.id), layout.AppendFamily(nil, e.id+1), nil))
	if err != nil {
		return err
	}
	return db.list(ctx, name, nil, &write{batch: b, drop: e})
}

// Describe implements [driver.Describer].
func (db *DB) Describe() driver.Description { return driver.Description{System: "pebble"} }

// Close implements [driver.DB]. Calls that are under way end first, and snapshots are closed. What is only in a log gets
// into tables, so that the directory depends on no log; where the disk has no space for them, it stays in the log, and the
// next Open goes on.
func (db *DB) Close() error {
	db.opMu.Lock()
	defer db.opMu.Unlock()
	if db.closed {
		return errClosed
	}
	db.closed = true
	finished := db.queue.stop()
	select {
	case <-finished:
	case <-db.fence.failed:
		inPatience(finished)
	}
	var err error
	if db.fence.err() == nil {
		for s := range db.snapshots {
			err = errors.Join(err, s.snap.Close())
		}
		err = errors.Join(err, db.eng.Close())
		switch {
		case db.fence.err() != nil: // a compaction had no space, say
			err = nil // as below: what was acknowledged is in the logs
		case err == nil && db.queue.flushed:
			_ = db.fence.record.close() // what it says of an open directory holds as well
		}
	} else {
		db.abandon()
	}
	clear(db.snapshots)
	// The engine may still run. The fence closes it off, so the directory is free for the next one.
	db.fence.fail(errClosed)
	db.fence.record.freeze()
	err = errors.Join(err, db.lock.Close())
	if err != nil {
		return fmt.Errorf("pebble: close %s: %w", db.dir, err)
	}
	return nil
}

// abandon stops an engine whose writes fail. It may have lost a lock to a panic and then never
// stops; what it holds is lost to the process, but it can change nothing through the fence. Its
// errors are those of the fence, which every call has returned already.
func (db *DB) abandon() {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() { _ = recover() }()
		for s := range db.snapshots {
			_ = s.snap.Close()
		}
		_ = db.eng.Close()
	}()
	inPatience(done)
}

// Snapshot implements [driver.Snapshotter].
func (db *DB) Snapshot() (driver.Snapshot, error) {
	db.opMu.Lock()
	defer db.opMu.Unlock()
	if db.closed {
		return nil, errClosed
	}
	if err := db.fence.err(); err != nil {
		return nil, db.stopped(err)
	}
	s := &snapshot{db: db, snap: db.eng.NewSnapshot(), at: db.now(), families: db.families}
	db.snapshots[s] = struct{}{}
	return s, nil
}

type snapshot struct {
	db       *DB
	snap     *pebble.Snapshot
	at       time.Time // cells end by the clock of this instant
	families map[string]*entry
	closed   bool // under db.opMu
}

var errSnapshotClosed = errors.New("pebble: the snapshot is closed")

func (s *snapshot) Family(ctx context.Context, spec driver.FamilySpec) (driver.Family, error) {
	if err := cmp.Or(spec.Check(), contextError(ctx)); err != nil {
		return nil, err
	}
	e, err := lookUp(s.families, spec)
	if err != nil {
		return nil, err
	}
	if e == nil || e.dropped.Load() && !s.lists(spec.Name) {
		return nil, fmt.Errorf("%w: %s was not there when the snapshot was taken", driver.ErrNoFamily, spec.Name)
	}
	return &family{db: s.db, reader: s.snap, entry: e, snapshot: s}, nil
}

// lists reports whether a family was there that has been dropped by now, or is being: it leaves the map later than the disk.
func (s *snapshot) lists(name string) bool {
	if _, err := (&family{db: s.db, snapshot: s}).enter(); err != nil {
		return true // as its reads say
	}
	defer s.db.leave()
	_, closer, err := s.snap.Get(layout.DirectoryKey(name))
	if err == nil {
		err = closer.Close()
	}
	return !errors.Is(err, pebble.ErrNotFound)
}

func (s *snapshot) Close() error {
	s.db.opMu.Lock()
	defer s.db.opMu.Unlock()
	if s.closed {
		return errSnapshotClosed
	}
	s.closed = true
	if s.db.closed {
		return nil // closed with the database
	}
	delete(s.db.snapshots, s)
	return s.snap.Close()
}

// contextError returns nil, or an error that wraps why the context is done.
func contextError(ctx context.Context) error {
	if err := pause.Ended(ctx); err != nil {
		return fmt.Errorf("pebble: %w", err)
	}
	return nil
}

// inPatience waits for the channel, and reports whether it was closed soon enough.
func inPatience(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	case <-time.After(patience):
		return false
	}
}
