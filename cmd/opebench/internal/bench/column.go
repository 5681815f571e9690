package bench

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"

	"github.com/rangecrypt/rangecrypt/internal/seal"
	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store/driver"
)

// ErrWrongAnswer is wrapped by errors about a database that returned something else than what
// was asked for.
var ErrWrongAnswer = errors.New("wrong answer")

// TieSize is the length of a tie-breaker in bytes.
const TieSize = 16

// A Tie tells a row from the others with the same value. It is the end of the row's key.
type Tie [TieSize]byte

// A Row is a value and its tie-breaker.
type Row struct {
	Value int64
	Tie   Tie
}

// Ties makes the tie-breakers of one load: of the i-th row of load, AES-128 of (load, i) under a
// key derived from the store's.
//
// A block cipher is a permutation, so that no two rows of a store are ever given the same
// tie-breaker and none can overwrite another. The same row of the same load always gets the same
// one: a load that was interrupted is simply run again under its name, and writes over what it
// wrote before, neither losing rows nor doubling them. Random tie-breakers would double them, and
// a bare counter would show the database the order in which rows were inserted.
type Ties struct {
	block cipher.Block
	load  uint64
}

// Load returns the tie-breakers of the load of that name. Loads of one store have different
// names, unless one repeats the other.
func (s *Store) Load(name uint64) *Ties {
	block, err := aes.NewCipher(s.key.Expand(16, "opebench/1", "ties"))
	if err != nil {
		panic("bench: " + err.Error()) // 16 bytes are a key
	}
	return &Ties{block, name}
}

// Tie returns the tie-breaker of the i-th row.
func (t *Ties) Tie(i uint64) (tie Tie) {
	binary.BigEndian.PutUint64(tie[:8], t.load)
	binary.BigEndian.PutUint64(tie[8:], i)
	t.block.Encrypt(tie[:], tie[:])
	return tie
}

// A Table is what the measurements need of a stored column.
type Table interface {
	// Insert makes rows durable. Inserting one again is harmless.
	Insert(ctx context.Context, rows []Row) error

	// Range yields the rows with lo <= value <= hi in ascending order of their values, at most
	// limit of them, where 0 is no limit. lo > hi yields nothing. An error is the last thing
	// yielded.
	Range(ctx context.Context, lo, hi int64, limit int) iter.Seq2[Row, error]

	// StoredBytes returns the length of the keys and cells of one row.
	StoredBytes() int
}

// keyColumn is a column under an ordered row key:
//
//	row key  ciphertext (fixed length) || tie-breaker (16)
//	cell     qualifier "v": the value as 8 bytes, big-endian two's complement; sealed, unless
//	         the scheme is plain
//
// The sealed cell is the truth. It is bound to its row key, so that a value found under a
// ciphertext is known to have been stored under it, without encrypting it anew.
type keyColumn struct {
	family driver.Family
	scheme ope.Immutable
	linear bool
	width  int          // of a ciphertext
	cells  *seal.Sealer // nil: plain
	place  seal.Place   // the table's; a cell's goes on with row key and qualifier
	buffer int          // rows of a rotated domain that are held in memory
}

var qualifier = []byte("v")

func newKeyColumn(ctx context.Context, family driver.Family, scheme ope.Immutable, cells *seal.Sealer, tableID []byte) (*keyColumn, error) {
	whole, err := scheme.Intervals(ctx, scheme.Domain().Min, scheme.Domain().Max)
	if err != nil {
		return nil, err
	}
	if len(whole) != 1 {
		return nil, fmt.Errorf("bench: %s gives %d intervals for its whole domain, not 1", scheme.ID(), len(whole))
	}
	_, linear := scheme.(ope.Linear)
	return &keyColumn{
		family: family, scheme: scheme, linear: linear, width: len(whole[0].Start),
		cells: cells, buffer: rotatedBuffer, place: seal.Place(nil).Append([]byte("opebench/1 cell"), tableID),
	}, nil
}

func (c *keyColumn) StoredBytes() int {
	n := c.width + TieSize + len(qualifier) + 8
	if c.cells != nil {
		n += seal.Overhead
	}
	return n
}

// cellPlace returns the place of a row's cell, in the memory of buf where that is enough.
func (c *keyColumn) cellPlace(buf seal.Place, key []byte) seal.Place {
	return append(buf[:0], c.place...).Append(key, qualifier)
}

func (c *keyColumn) Insert(ctx context.Context, rows []Row) error {
	keySize := c.width + TieSize
	keys := make([]byte, 0, len(rows)*keySize)
	valueSize := 8
	if c.cells != nil {
		valueSize += seal.Overhead
	}
	values := make([]byte, 0, len(rows)*valueSize)
	cells := make([]driver.Cell, len(rows))
	mutations := make([]driver.Mutation, len(rows))
	var place seal.Place
	appender, stateless := c.scheme.(ope.Appender)
	for i, row := range rows {
		start := len(keys)
		var err error
		if stateless {
			keys, err = appender.AppendEncrypt(keys, row.Value)
		} else {
			var ct ope.Ciphertext
			ct, err = c.scheme.Encrypt(ctx, row.Value)
			keys = append(keys, ct...)
		}
		if err != nil {
			return err
		}
		keys = append(keys, row.Tie[:]...)
		key := keys[start:len(keys):len(keys)]

		start = len(values)
		if c.cells == nil {
			values = binary.BigEndian.AppendUint64(values, uint64(row.Value))
		} else {
			var value [8]byte
			binary.BigEndian.PutUint64(value[:], uint64(row.Value))
			place = c.cellPlace(place, key)
			values = c.cells.Seal(values, value[:], place)
		}
		cells[i] = driver.Cell{Qualifier: qualifier, Value: values[start:len(values):len(values)]}
		mutations[i] = driver.Mutation{Row: key, Puts: cells[i : i+1]}
	}
	return c.family.Apply(ctx, mutations...)
}

func (c *keyColumn) Range(ctx context.Context, lo, hi int64, limit int) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		intervals, err := c.scheme.Intervals(ctx, lo, hi)
		if err != nil {
			yield(Row{}, err)
			return
		}
		d := c.scheme.Domain()
		if !c.linear && lo <= d.Min && hi >= d.Max && len(intervals) == 1 {
			c.rotated(ctx, intervals[0], limit, yield)
			return
		}
		left := limit
		previous, first := int64(0), true
		for _, iv := range intervals {
			for row, err := range c.scan(ctx, iv, left) {
				if err != nil {
					yield(Row{}, err)
					return
				}
				if row.Value < lo || row.Value > hi || !first && row.Value < previous {
					yield(Row{}, fmt.Errorf("%w: a row is not where its sealed value belongs", ErrWrongAnswer))
					return
				}
				previous, first = row.Value, false
				if !yield(row, nil) {
					return
				}
				if limit > 0 {
					if left--; left == 0 {
						return
					}
				}
			}
		}
	}
}

// rotatedBuffer is how many rows of a whole rotated domain are held in memory. It is enough that
// small columns are scanned once, and 2 MB.
const rotatedBuffer = 1 << 16

// rotated yields the rows of the whole domain, which come in rotated order: first those above the
// place where the shift cuts the domain, then those below it. They are put in order here, since
// to ask for the two parts apart would tell the database where the cut is. The first part is
// remembered as long as it is short; otherwise it is read again.
func (c *keyColumn) rotated(ctx context.Context, whole ope.Interval, limit int, yield func(Row, error) bool) {
	wrong := func() {
		yield(Row{}, fmt.Errorf("%w: a row is not where its sealed value belongs", ErrWrongAnswer))
	}
	emitted := 0
	emit := func(row Row) bool {
		emitted++
		return yield(row, nil) && (limit == 0 || emitted < limit)
	}

	var upper []Row
	var head, previous int64
	seen, below, kept := false, false, true
	for row, err := range c.scan(ctx, whole, 0) {
		if err != nil {
			yield(Row{}, err)
			return
		}
		switch {
		case !seen:
			head = row.Value
		case row.Value < previous && !below && row.Value < head:
			below = true
		case row.Value < previous, below && row.Value >= head:
			wrong()
			return
		}
		seen, previous = true, row.Value
		switch {
		case below:
			if !emit(row) {
				return
			}
		case len(upper) < c.buffer:
			upper = append(upper, row)
		default:
			kept = false
		}
	}
	if kept {
		for _, row := range upper {
			if !emit(row) {
				return
			}
		}
		return
	}
	upper = nil
	previous = head
	for row, err := range c.scan(ctx, whole, 0) {
		if err != nil {
			yield(Row{}, err)
			return
		}
		if row.Value < head {
			continue // yielded above; reading on keeps the cut to ourselves
		}
		if row.Value < previous {
			wrong()
			return
		}
		previous = row.Value
		if !emit(row) {
			return
		}
	}
}

// scan yields the rows of an interval in the order of their keys.
func (c *keyColumn) scan(ctx context.Context, iv ope.Interval, limit int) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		start, end := iv.KeyRange(nil)
		var place seal.Place
		var plaintext, previous []byte
		for r, err := range c.family.Scan(ctx, driver.Range{Start: start, End: end, Limit: limit}) {
			var row Row
			if err == nil {
				switch {
				case len(r.Key) != c.width+TieSize || len(r.Cells) != 1 || !bytes.Equal(r.Cells[0].Qualifier, qualifier):
					err = fmt.Errorf("%w: the store holds a row of another form, which opebench did not write", driver.ErrLayout)
				case bytes.Compare(r.Key, start) < 0 || end != nil && bytes.Compare(r.Key, end) >= 0:
					err = fmt.Errorf("%w: the database returned a row outside of the range", ErrWrongAnswer)
				case previous != nil && bytes.Compare(r.Key, previous) <= 0:
					err = fmt.Errorf("%w: the database returned rows twice or in another order than their keys", ErrWrongAnswer)
				}
			}
			if err == nil {
				previous = r.Key
				copy(row.Tie[:], r.Key[c.width:])
				value := r.Cells[0].Value
				if c.cells != nil {
					place = c.cellPlace(place, r.Key)
					plaintext, err = c.cells.Open(plaintext[:0], value, place)
					value = plaintext
				}
				if err == nil && len(value) != 8 {
					err = fmt.Errorf("%w: a value has %d bytes, need 8", driver.ErrLayout, len(value))
				}
				if err == nil {
					row.Value = int64(binary.BigEndian.Uint64(value))
				}
			}
			if !yield(row, err) || err != nil {
				return
			}
		}
	}
}
