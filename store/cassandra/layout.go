package cassandra

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/big"
	"strings"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"github.com/rangecrypt/rangecrypt/store/driver"
)

// A column as in system_schema.columns: its type, its kind and place in the key.
type column struct {
	name, typ, kind string
	position        int
}

func (c column) String() string {
	if c.kind == "regular" {
		return c.name + " " + c.typ
	}
	return fmt.Sprintf("%s %s (%s %d)", c.name, c.typ, c.kind, c.position)
}

// The columns of a family's table are p, the partition (LayoutOrdered only), k, the row key, q,
// the qualifier, and v, the value. A cell is a CQL row, and never has a null v.
//
// h0 and h1 (LayoutWide only) are static: one value for the whole partition, which the server
// returns with each of its CQL rows. They repeat the values of the cells in the head of a row, those
// with the empty qualifier and with 0x00. The statement that writes v writes them, too.
// It is the only way to read them together with a slice that they are not in: CQL has no OR.

func familyColumns(l driver.Layout) []column {
	if l == driver.LayoutWide {
		return []column{
			{"h0", "blob", "static", -1},
			{"h1", "blob", "static", -1},
			{"k", "blob", "partition_key", 0},
			{"q", "blob", "clustering", 0},
			{"v", "blob", "regular", -1},
		}
	}
	return []column{
		{"k", "blob", "clustering", 0},
		{"p", "blob", "partition_key", 0},
		{"q", "blob", "clustering", 1},
		{"v", "blob", "regular", -1},
	}
}

// familyDDL creates the table of a family.
//
// Compaction is leveled: a range of a partition is then in few files, where the default would
// leave pieces of it in each of many. It costs more writing in the background. Everything else
// is left to the defaults of the server: gc_grace_seconds in particular, on which the repair of
// deletes depends, and compression, since it carries the checksums that reads verify.
//
// Wide rows are read in slices, and each conditional change of one must be seen as a whole. By
// default, a replica that missed a change would be given the part of it that a reader met. It would
// then show half of the change to the next reader, who asks for another slice. So reads repair
// nothing there: they still merge what a quorum of replicas have, each of which took changes as a
// whole. The price is that of two reads, only the first may see a change that is not acknowledged.
//
// Where clients ask a second node after a time, a node asks a second replica after half of it, so that the answer still
// comes in time. By default it does so after the time that 99 of 100 reads took of late. Reads that wait for a replica
// that hangs are among these: the time grows until it helps nobody. For wide rows it is a tenth of that half: each write
// waits for the catalogue, which is such a row. It is small, and one read of it serves many writes. Not ALWAYS, with which
// reads have timed out though two of three replicas had answered.
func familyDDL(keyspace, table string, id gocql.UUID, layout driver.Layout, speculateAfter time.Duration) string {
	columns, options := "p blob, k blob, q blob, v blob, PRIMARY KEY ((p), k, q)", ""
	if layout == driver.LayoutWide {
		columns = "h0 blob static, h1 blob static, k blob, q blob, v blob, PRIMARY KEY ((k), q)"
		options = " AND read_repair = 'NONE'"
	}
	if speculateAfter > 0 {
		after := speculateAfter / 2
		if layout == driver.LayoutWide {
			after /= 10
		}
		options += fmt.Sprintf(" AND speculative_retry = '%dms'", max(1, after.Milliseconds()))
	}
	return fmt.Sprintf("CREATE TABLE IF NOT EXISTS %s.%s (%s) WITH ID = %s AND compaction = {'class': 'LeveledCompactionStrategy'}%s", keyspace, table, columns, id, options)
}

// partition returns the partition key of a row: the row key itself, or its first PrefixBytes
// followed by its bucket, two bytes big-endian.
func partition(spec driver.FamilySpec, row []byte) []byte {
	if spec.Layout == driver.LayoutWide {
		return row
	}
	return appendPartition(make([]byte, 0, spec.PrefixBytes+2), spec, row)
}

func appendPartition(dst []byte, spec driver.FamilySpec, row []byte) []byte {
	if spec.Layout == driver.LayoutWide {
		return append(dst, row...)
	}
	dst = append(dst, row[:spec.PrefixBytes]...)
	return binary.BigEndian.AppendUint16(dst, uint16(bucket(row[spec.PrefixBytes:], spec.SpreadBits)))
}

func bucketKey(prefix []byte, bucket int) []byte {
	p := make([]byte, 0, len(prefix)+2)
	return binary.BigEndian.AppendUint16(append(p, prefix...), uint16(bucket))
}

// bucket returns the first bits of a key, which is continued with zeros where it is too short:
// a key is never in a lower bucket than a lesser one.
func bucket(key []byte, bits int) int {
	return driver.FamilySpec{SpreadBits: bits}.Bucket(key)
}

// buckets returns the first and the last bucket that can hold rows of the range [start, end) of
// keys without their prefix, where a nil end is unbounded. It returns last < first for none.
func buckets(start, end []byte, bits int) (first, last int) {
	first, last = bucket(start, bits), 1<<bits-1
	if end == nil {
		return first, last
	}
	last = bucket(end, bits)
	// The lowest key of a bucket is its number without the zeros at its end.
	var low [2]byte
	binary.BigEndian.PutUint16(low[:], uint16(last<<(16-bits)))
	if bytes.Compare(bytes.TrimRight(low[:], "\x00"), end) >= 0 {
		last--
	}
	return first, last
}

// bound shortens a bound of keys to what the server takes. No key is as long as what remains, so
// that the same keys are below it.
func bound(b []byte) []byte {
	return b[:min(len(b), driver.MaxRowKey+1)]
}

// blob never returns nil, which would be null.
func blob(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

// An index of a family is a column of its table, of the type varint, with a storage-attached index (SAI): those take no
// ranges of blobs. It has a value in the CQL row of the cell with the empty qualifier. The number is the byte 1 and the
// bytes of the value, so that leading zeros stay. SAI tells numbers apart by their first 16 bytes, and reads and checks all
// rows that are equal there.
//
// DropIndex leaves the column: clients that do not know yet may go on to write it.

func number(value []byte) *big.Int {
	if value == nil {
		return nil // null
	}
	return new(big.Int).SetBytes(append([]byte{1}, value...))
}

func indexValue(name string, n *big.Int) driver.IndexValue {
	v := driver.IndexValue{Index: name}
	if n != nil {
		b := n.Bytes()
		v.Value = b[min(1, len(b)):] // a zero, which nobody writes here, has no bytes
	}
	return v
}

// whereIndex appends the conditions of an index.
func whereIndex(stmt *strings.Builder, values []any, r *driver.IndexRange) []any {
	start := number(r.Start)
	if start == nil {
		start = new(big.Int)
	}
	stmt.WriteString(" AND " + r.Index + " >= ?")
	if values = append(values, start); r.End == nil {
		return values
	}
	stmt.WriteString(" AND " + r.Index + " < ?")
	return append(values, number(r.End))
}
