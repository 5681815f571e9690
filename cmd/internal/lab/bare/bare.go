// Package bare keeps rows with the client libraries of the databases alone, as a program would that
// needs no encryption, no schema and nothing else of package store: what its tables cost is measured
// beside this.
package bare

import (
	"context"
	"iter"
)

// A Row is a row key and the value of its only cell.
type Row struct{ Key, Value []byte }

// A Store keeps rows in the order of their keys. Methods may be called from several goroutines.
type Store interface {
	// Put makes rows durable.
	Put(ctx context.Context, rows []Row) error

	// Scan yields the rows with from <= key < to in ascending order of their keys. A nil to is no bound.
	// The slices are valid until the next iteration. An error is the last thing yielded.
	Scan(ctx context.Context, from, to []byte) iter.Seq2[Row, error]

	// Close drops all rows.
	Close(ctx context.Context) error
}

// A DiskUser knows how much of the disk its rows take.
type DiskUser interface {
	DiskUsage() (uint64, error)
}
