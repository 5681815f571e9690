package cassandra

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"strings"
	"sync/atomic"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"github.com/rangecrypt/rangecrypt/store/driver"
)

const (
	// Cassandra reads, compacts and repairs partitions whole; beyond about this it gets slow.
	largePartition = 100 << 20

	// A client asks the server about the size of partitions after it has written so much.
	askEvery = 128 << 20

	// A client judges how the rows are spread after it has written so many. They are crowded
	// when they meet no more than one bucket in crowded.
	judgeAfter = 1 << 16
	crowded    = 64
)

func largeWarning(spec driver.FamilySpec, size int64) string {
	if size <= largePartition {
		return ""
	}
	s := fmt.Sprintf("family %s has a partition of %d MiB, and should have none above %d: ", spec.Name, size>>20, largePartition>>20)
	switch {
	case spec.Layout == driver.LayoutWide:
		return s + "divide the row"
	case spec.SpreadBits == 0:
		return s + "make the family again, with SpreadBits"
	}
	return s + "make the family again, with more SpreadBits, or declare the domain of its keys as narrow as it is"
}

func crowdedWarning(name string, used, all int) string {
	return fmt.Sprintf("the rows of family %s meet %d of %d buckets: declare the domain of its keys as narrow as it is", name, used, all)
}

// largestPartition asks each node for the largest partition of a table.
func (db *DB) largestPartition(ctx context.Context, table string) (int64, error) {
	var largest int64
	var failure error
	answers := 0
	for _, host := range db.session.GetHosts() {
		if !host.IsUp() || db.options.Datacentre != "" && host.DataCenter() != db.options.Datacentre {
			continue
		}
		var mebibytes int64
		q := db.system("SELECT mebibytes FROM system_views.max_partition_size WHERE keyspace_name = ? AND table_name = ?", db.keyspace, table)
		switch err := q.SetHostID(host.HostID()).ScanContext(ctx, &mebibytes); {
		case errors.Is(err, gocql.ErrNotFound):
			answers++
		case err != nil:
			failure = err
		default:
			answers++
			largest = max(largest, mebibytes<<20)
		}
	}
	if answers == 0 && failure != nil {
		return 0, failure
	}
	return largest, nil
}

// A watch follows what this client writes to a family, in fixed memory, in order to warn.
type watch struct {
	rows, bytes atomic.Int64
	judged      atomic.Bool
	asking      atomic.Bool
	warned      atomic.Int64    // the size that was warned of last
	seen        []atomic.Uint64 // a bit for each bucket; nil for families without a spread, or with a prefix
}

func (w *watch) init(spec driver.FamilySpec) {
	if spec.SpreadBits > 0 && spec.PrefixBytes == 0 {
		w.seen = make([]atomic.Uint64, (1<<spec.SpreadBits+63)/64)
	}
}

// watch notes rows that were written to a partition.
func (f *family) watch(part []byte, rows, size int) {
	w := &f.watched
	if w.seen != nil && !w.judged.Load() {
		n := int(part[0])<<8 | int(part[1])
		if bit := uint64(1) << (n % 64); w.seen[n/64].Load()&bit == 0 {
			w.seen[n/64].Or(bit)
		}
		if w.rows.Add(int64(rows)) >= judgeAfter && w.judged.CompareAndSwap(false, true) {
			used := 0
			for i := range w.seen {
				used += bits.OnesCount64(w.seen[i].Load())
			}
			if all := 1 << f.spec.SpreadBits; used <= max(1, all/crowded) {
				f.db.log.Warn(crowdedWarning(f.spec.Name, used, all), "family", f.spec.Name)
			}
		}
	}
	if now := w.bytes.Add(int64(size)); now/askEvery != (now-int64(size))/askEvery && w.asking.CompareAndSwap(false, true) {
		f.db.checks.Go(func() {
			defer w.asking.Store(false)
			f.warnOfSize()
		})
	}
}

// warnOfSize asks the server for the largest partition, and warns of it whenever it has doubled.
func (f *family) warnOfSize() {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	stop := make(chan struct{})
	defer close(stop)
	f.db.checks.Go(func() {
		select {
		case <-f.db.open.Done():
			cancel()
		case <-stop:
		}
	})
	_, table, _ := strings.Cut(f.table, ".")
	size, err := f.db.largestPartition(ctx, table)
	if err != nil || size < 2*f.watched.warned.Load() {
		return
	}
	if text := largeWarning(f.spec, size); text != "" {
		f.watched.warned.Store(size)
		f.db.log.Warn(text, "family", f.spec.Name, "bytes", size)
	}
}
