package rowload

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"math"
	"math/big"
	"net/netip"
	"os"
	"slices"
	"time"

	"github.com/rangecrypt/rangecrypt/ope/encode"
	"github.com/rangecrypt/rangecrypt/store"
)

// A digest stands for a row key in this process: two keys have the same as often as random numbers of 128 bits.
type digest [16]byte

// A digester makes digests of row keys.
type digester struct {
	parts []string // of the key
	seeds [2]maphash.Seed
	buf   []byte
}

func newDigester(parts []string) *digester {
	return &digester{parts: parts, seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}}
}

func (d *digester) of(row store.Row) (sum digest) {
	d.buf = d.buf[:0]
	for _, part := range d.parts {
		begin := len(d.buf)
		d.buf = append(d.buf, 0, 0, 0, 0)
		d.buf = appendKey(d.buf, row[part])
		binary.BigEndian.PutUint32(d.buf[begin:], uint32(len(d.buf)-begin))
	}
	for i, seed := range d.seeds {
		binary.BigEndian.PutUint64(sum[8*i:], maphash.Bytes(seed, d.buf))
	}
	return sum
}

// appendKey appends bytes that are equal for values which are one row key.
func appendKey(dst []byte, v any) []byte {
	number := func(n uint64) []byte { return binary.BigEndian.AppendUint64(dst, n) }
	switch v := v.(type) {
	case string:
		return append(dst, v...)
	case []byte:
		return append(dst, v...)
	case [16]byte:
		return append(dst, v[:]...)
	case int64:
		return number(uint64(v))
	case float32:
		return number(math.Float64bits(float64(v) + 0)) // the two zeros are equal
	case float64:
		return number(math.Float64bits(v + 0))
	case time.Time:
		dst = number(uint64(v.Unix()))
		return binary.BigEndian.AppendUint32(dst, uint32(v.Nanosecond()))
	case netip.Addr:
		b := v.As16()
		return append(dst, b[:]...)
	case encode.CivilDate:
		return fmt.Appendf(dst, "%d %d %d", v.Year, v.Month, v.Day)
	case encode.Decimal: // all of a column have the same scale
		return cmp.Or(v.Unscaled, new(big.Int)).Append(dst, 16)
	}
	return fmt.Append(dst, v)
}

const (
	// heldRecords is how many keys are held in memory, 24 bytes each.
	heldRecords = 1 << 18

	// buckets is how many files the keys of a larger input are divided among; each is counted in memory.
	buckets = 64
)

// A record is the key of a row, and its number.
type record struct {
	key digest
	row uint64
}

// Repeated finds rows that have the key of an earlier one. It holds digests of the keys of a large input in temporary
// files that have no names, so that memory does not depend on the number of rows.
type repeated struct {
	held  []record
	files []*os.File
	w     []*bufio.Writer
	gone  map[uint64]bool // rows that do not count

	rows          int
	first, second uint64 // of the first two with one key
}

func (r *repeated) add(key digest, row int) error {
	r.held = append(r.held, record{key, uint64(row)})
	if len(r.held) < heldRecords {
		return nil
	}
	return r.spill()
}

// without leaves a row out of what is counted.
func (r *repeated) without(row int) {
	if r.gone == nil {
		r.gone = map[uint64]bool{}
	}
	r.gone[uint64(row)] = true
}

// spill moves what is held into the files.
func (r *repeated) spill() error {
	for len(r.files) < buckets {
		f, err := os.CreateTemp("", "rangecrypt-keys-*")
		if err != nil {
			return err
		}
		r.files, r.w = append(r.files, f), append(r.w, bufio.NewWriterSize(f, 1<<14))
		if err := os.Remove(f.Name()); err != nil {
			return err
		}
	}
	for _, rec := range r.held {
		w := r.w[rec.key[0]%buckets]
		_, _ = w.Write(rec.key[:]) // the next error is the same
		if err := binary.Write(w, binary.BigEndian, rec.row); err != nil {
			return fmt.Errorf("keep the digests of row keys in a temporary file: %w", err)
		}
	}
	r.held = r.held[:0]
	return nil
}

// count counts the rows that have the key of an earlier one.
func (r *repeated) count() error {
	if r.files == nil {
		r.among(r.held)
		return nil
	}
	if err := r.spill(); err != nil {
		return err
	}
	for i, f := range r.files {
		if err := r.w[i].Flush(); err != nil {
			return err
		}
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			return err
		}
		in := bufio.NewReaderSize(f, 1<<16)
		records := r.held[:0]
		var b [24]byte
		for {
			if _, err := io.ReadFull(in, b[:]); err == io.EOF {
				break
			} else if err != nil {
				return err
			}
			records = append(records, record{digest(b[:16]), binary.BigEndian.Uint64(b[16:])})
		}
		r.among(records)
		r.held = records
	}
	return nil
}

func (r *repeated) among(records []record) {
	records = slices.DeleteFunc(records, func(rec record) bool { return r.gone[rec.row] })
	slices.SortFunc(records, func(a, b record) int {
		return cmp.Or(bytes.Compare(a.key[:], b.key[:]), cmp.Compare(a.row, b.row))
	})
	for i := 1; i < len(records); i++ {
		if records[i].key != records[i-1].key {
			continue
		}
		r.rows++
		if r.second == 0 || records[i].row < r.second {
			r.first, r.second = records[i-1].row, records[i].row
		}
	}
}

// close removes the temporary files.
func (r *repeated) close() (err error) {
	for _, f := range r.files {
		err = errors.Join(err, f.Close())
	}
	r.held, r.files, r.w = nil, nil, nil
	return err
}
