package store_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	engine "github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/measure"
	"github.com/rangecrypt/rangecrypt/internal/process"
	"github.com/rangecrypt/rangecrypt/internal/seal"
	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/pebble"
)

// BenchmarkEmbedded compares a table with one ordered column with Pebble by itself, which seals as many bytes and stores as
// many, and keeps an index entry for each row: batches of 256 new rows and of rows that exist, and Get of rows one by one.
// To replace rows, Pebble by itself is told which index entries go. Of new rows the processor time counts, with that of flushes
// and compactions that follow.
//
//	go test -run XXX -bench Embedded -benchtime 40x ./store
func BenchmarkEmbedded(b *testing.B) {
	const batch, filled = 256, 100_000
	dir := b.TempDir()
	db, err := pebble.Open(dir, nil)
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, db.Close()) })
	tbl := create(b, open(b, db), store.Schema{
		Name: "rows", Key: []store.KeyPart{store.HashedPart("id", store.Int64)},
		Columns: []store.Column{store.OrderedColumn("value", store.Int64, store.MOPE), store.RandomisedColumn("note", store.String)},
	})
	note := string(bytes.Repeat([]byte("x"), 60))
	put := func(from, shift int) error {
		rows := make([]store.Row, batch)
		for i := range rows {
			rows[i] = store.Row{"id": from + i, "value": (from + i + shift) * 1_000_003, "note": note}
		}
		return tbl.Put(background, rows...)
	}

	alone, err := engine.Open(b.TempDir(), aloneOptions())
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, alone.Close()) })
	sealer, err := seal.New(ope.GenerateKey().Secret())
	require.NoError(b, err)
	key := func(i int) []byte {
		return binary.BigEndian.AppendUint64([]byte("rows 16 bytes of"), uint64(i)*0x9e3779b97f4a7c15)
	}
	index := func(i, value int) []byte {
		return binary.BigEndian.AppendUint64(append(binary.BigEndian.AppendUint64([]byte("index of rows"), uint64(value)), key(i)...), uint64(i))
	}
	cell := func(plain []byte, place seal.Place) []byte {
		return sealer.Seal(nil, seal.Header{Policy: 1}, plain, place)
	}
	putAlone := func(from, shift, was int) error {
		w := alone.NewBatch()
		for i := from; i < from+batch; i++ {
			k, value := key(i), (i+shift)*1_000_003
			place := seal.Place(k)
			if err := w.Set(k, cell([]byte(note+"sixteen bytes ..."), place), nil); err != nil {
				return err
			}
			if err := w.Set(append(k, "colm"...), cell(binary.BigEndian.AppendUint64(make([]byte, 12, 20), uint64(value)), place), nil); err != nil {
				return err
			}
			if err := w.Set(index(i, value), nil, nil); err != nil {
				return err
			}
			if was >= 0 {
				if err := w.Delete(index(i, (i+was)*1_000_003), nil); err != nil {
					return err
				}
			}
		}
		return w.Commit(engine.Sync)
	}
	next, nextAlone := filled, filled
	for from := 0; from < filled; from += batch {
		require.NoError(b, put(from, 0))
		require.NoError(b, putAlone(from, 0, -1))
	}
	b.Run("new rows", func(b *testing.B) {
		const batches = 64
		many := func(put func() error) func() error {
			return func() error {
				for range batches {
					if err := put(); err != nil {
						return err
					}
				}
				quiet()
				return nil
			}
		}
		measure.Pairs(b, batches*batch,
			many(func() error { next += batch; return put(next, 0) }),
			many(func() error { nextAlone += batch; return putAlone(nextAlone, 0, -1) }))
	})
	round, roundAlone := 0, 0
	b.Run("replaced rows", func(b *testing.B) {
		measure.Pairs(b, batch, func() error {
			round++
			return put(round*batch%(filled-batch), round)
		}, func() error {
			roundAlone++
			return putAlone(roundAlone*batch%(filled-batch), roundAlone, 0)
		})
	})
	b.Run("get", func(b *testing.B) {
		at, atAlone := 0, 0
		measure.Pairs(b, batch, func() error {
			for range batch {
				at = (at + 7919) % filled
				row, err := tbl.Get(background, store.Row{"id": at})
				if err != nil || row["note"] != note {
					return fmt.Errorf("row %d: %v, %w", at, row, err)
				}
			}
			return nil
		}, func() error {
			for range batch {
				atAlone = (atAlone + 7919) % filled
				k := key(atAlone)
				for _, name := range [][]byte{k, append(k, "colm"...)} {
					value, closer, err := alone.Get(name)
					if err != nil {
						return err
					}
					if _, _, err := sealer.Open(nil, value, seal.Place(k[:24])); err != nil {
						return err
					}
					if err := closer.Close(); err != nil {
						return err
					}
				}
			}
			return nil
		})
	})
}

// quiet waits until the engines have nothing left to flush and to compact, which else the next of two that take turns
// would pay for, and who takes longer for both. A fifth of a second is long enough that they get a processor of a busy machine.
func quiet() {
	for busy := true; busy; {
		used := process.CPU()
		time.Sleep(200 * time.Millisecond)
		busy = process.CPU()-used > 2*time.Millisecond
	}
}

// aloneOptions are those of the embedded store, as far as they matter to what a row costs: filters have rows, too.
func aloneOptions() *engine.Options {
	comparer := *engine.DefaultComparer
	comparer.Split = func(key []byte) int {
		if bytes.HasPrefix(key, []byte("rows")) {
			return min(24, len(key))
		}
		return len(key)
	}
	options := &engine.Options{
		Logger: silent{}, Cache: engine.NewCache(88 << 20), FormatMajorVersion: engine.FormatNewest, Comparer: &comparer,
		MemTableSize: 32 << 20, MemTableStopWritesThreshold: 2,
	}
	for i := range options.Levels {
		options.Levels[i].BlockSize = 16 << 10
		if i < len(options.Levels)-1 {
			options.Levels[i].Compression = func() *sstable.CompressionProfile { return sstable.NoCompression }
		} else {
			options.Levels[i].Compression = func() *sstable.CompressionProfile { return sstable.SnappyCompression }
		}
		options.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
	}
	return options
}

type silent struct{}

func (silent) Infof(string, ...any)         {}
func (silent) Errorf(string, ...any)        {}
func (silent) Fatalf(f string, args ...any) { panic(fmt.Sprintf(f, args...)) }
