package driver

import (
	"bytes"
	"errors"
	"fmt"
	"hash/maphash"
	"math/bits"
	"slices"
)

// The checks below belong to the contract. A driver must call them before it sends anything, so that
// all drivers refuse the same calls.

// Check returns an error unless the specification is valid.
func (s FamilySpec) Check() error {
	valid := len(s.Name) >= 1 && len(s.Name) <= 40 && s.Name[0] >= 'a' && s.Name[0] <= 'z'
	for _, c := range []byte(s.Name) {
		valid = valid && (c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '_')
	}
	switch {
	case !valid:
		return fmt.Errorf("%w: family name %q: need 1 to 40 characters of a-z, 0-9 and '_', beginning with a letter", ErrRange, s.Name)
	case s.Layout != LayoutOrdered && s.Layout != LayoutWide:
		return fmt.Errorf("%w: family %s has no layout", ErrRange, s.Name)
	case s.Layout == LayoutWide && (s.PrefixBytes != 0 || s.SpreadBits != 0):
		return fmt.Errorf("%w: family %s: PrefixBytes and SpreadBits are for LayoutOrdered", ErrRange, s.Name)
	case s.PrefixBytes < 0 || s.PrefixBytes > 1024:
		return fmt.Errorf("%w: family %s: PrefixBytes is %d, need 0 to 1024", ErrRange, s.Name, s.PrefixBytes)
	case s.SpreadBits < 0 || s.SpreadBits > 16:
		return fmt.Errorf("%w: family %s: SpreadBits is %d, need 0 to 16", ErrRange, s.Name, s.SpreadBits)
	}
	return nil
}

// CheckRow returns an error unless row is valid as a row key of the family.
func (s FamilySpec) CheckRow(row []byte) error {
	switch {
	case len(row) == 0:
		return errors.New("driver: empty row key")
	case len(row) > MaxRowKey:
		return fmt.Errorf("%w: row key has %d bytes, at most %d", ErrTooLarge, len(row), MaxRowKey)
	case len(row) < s.PrefixBytes:
		return fmt.Errorf("driver: row key has %d bytes, family %s needs at least its prefix of %d", len(row), s.Name, s.PrefixBytes)
	}
	return nil
}

// CheckRange returns an error unless the family can serve the range.
func (s FamilySpec) CheckRange(r Range) error {
	if err := r.Cells.check(); err != nil {
		return err
	}
	if r.After != nil {
		if err := s.CheckRow(r.After); err != nil {
			return err
		}
	}
	switch {
	case r.Limit < 0:
		return fmt.Errorf("%w: limit is %d", ErrRange, r.Limit)
	case r.Cells.Limit != 0 || r.Cells.Head:
		return fmt.Errorf("%w: the cells of a scan cannot be limited or have the head of their row added", ErrRange)
	case r.Parts < 0 || r.Parts > MaxParts || r.Part < 0 || r.Part >= max(1, r.Parts):
		return fmt.Errorf("%w: part %d of %d of a scan: need Parts of 0 to %d and a lower Part", ErrRange, r.Part, r.Parts, MaxParts)
	case r.After != nil && (!r.AnyOrder || r.Parts > 1 || s.Layout == LayoutWide):
		return fmt.Errorf("%w: a scan after a row must be in any order, as a whole, and of a family with ordered rows", ErrRange)
	case r.Parts > 1 && !r.AnyOrder:
		return fmt.Errorf("%w: a part of a scan must be in any order", ErrRange)
	case r.Index != nil:
		return fmt.Errorf("%w: family %s has no indexes", ErrRange, s.Name)
	case r.Each != nil && (r.AnyOrder || s.Layout == LayoutWide || r.Start != nil || r.End != nil):
		return fmt.Errorf("%w: a scan of several ranges must be in order, and has no other bounds", ErrRange)
	case r.Each != nil:
		return s.checkEach(r.Each)
	case r.AnyOrder && r.Reverse:
		return fmt.Errorf("%w: a scan in any order cannot be reversed", ErrRange)
	case r.AnyOrder:
		return nil
	case s.Layout == LayoutWide:
		return fmt.Errorf("%w: the rows of family %s are wide: they are scanned in any order only", ErrRange, s.Name)
	case !s.inOrder(r.Start, r.End) && !r.Empty():
		return fmt.Errorf("%w: a scan of family %s in order must keep within one prefix of %d bytes", ErrRange, s.Name, s.PrefixBytes)
	}
	return nil
}

// checkEach returns an error unless the family can serve the ranges with one scan.
func (s FamilySpec) checkEach(each []Bounds) error {
	if len(each) == 0 || len(each) > MaxBatch {
		return fmt.Errorf("%w: a scan has %d ranges, need 1 to %d", ErrRange, len(each), MaxBatch)
	}
	for i, b := range each {
		switch {
		case b.End != nil && bytes.Compare(b.Start, b.End) >= 0:
			return fmt.Errorf("%w: range %d of a scan is empty", ErrRange, i)
		case i > 0 && (each[i-1].End == nil || bytes.Compare(each[i-1].End, b.Start) > 0):
			return fmt.Errorf("%w: range %d of a scan begins before the one before it ends", ErrRange, i)
		case !s.inOrder(b.Start, b.End):
			return fmt.Errorf("%w: range %d of a scan of family %s must keep within one prefix of %d bytes", ErrRange, i, s.Name, s.PrefixBytes)
		}
	}
	return nil
}

// inOrder reports whether the family can be scanned in order from start to end.
func (s FamilySpec) inOrder(start, end []byte) bool {
	return s.PrefixBytes == 0 || withinPrefix(start, end, s.PrefixBytes)
}

// withinPrefix reports whether all keys in [start, end) that have at least n bytes share their
// first n.
func withinPrefix(start, end []byte, n int) bool {
	if len(start) < n {
		return false
	}
	next := following(start[:n])
	return next == nil || end != nil && bytes.Compare(end, next) <= 0
}

// following returns the next prefix of the same length, which is the least key of that length
// above all that begin with p; above a prefix of all 0xff there is none.
func following(p []byte) []byte {
	next := slices.Clone(p)
	for i := len(p) - 1; i >= 0; i-- {
		if next[i]++; next[i] != 0 {
			return next
		}
	}
	return nil
}

// Share returns the range that is left after the row After, or that part Part of Parts is, on databases that keep rows
// in the order of their keys. It may be empty.
//
// Let p be the longest prefix of Start that all keys of the range begin with: for the rows with
// one prefix, from that to the next, it is that; for all rows it is empty. The two bytes after p,
// 0x00 where a key has none, are a big-endian number n, and the row is in part
// floor(n * Parts / 65536).
func (r Range) Share() Range {
	if r.Parts > 1 {
		n := len(r.Start)
		for n > 0 && !r.beginsWith(r.Start[:n]) {
			n--
		}
		// The least n of part i is i * 65536 / Parts, rounded up, and the least key that has it
		// ends before the zeros at its end.
		least := func(i int) []byte {
			n64 := (uint64(i)<<16 + uint64(r.Parts) - 1) / uint64(r.Parts)
			return append(slices.Clone(r.Start[:n]), bytes.TrimRight([]byte{byte(n64 >> 8), byte(n64)}, "\x00")...)
		}
		start, end := r.Start, r.End
		if bound := least(r.Part); r.Part > 0 && bytes.Compare(bound, start) > 0 {
			start = bound
		}
		if r.Part < r.Parts-1 {
			if bound := least(r.Part + 1); end == nil || bytes.Compare(bound, end) < 0 {
				end = bound
			}
		}
		r.Start, r.End = start, end
	}
	if next := append(slices.Clone(r.After), 0); r.After != nil && bytes.Compare(next, r.Start) > 0 {
		r.Start = next
	}
	r.After, r.Part, r.Parts = nil, 0, 0
	return r
}

// beginsWith reports whether all keys of the range, which is not empty, begin with p, a prefix of
// its Start.
func (r Range) beginsWith(p []byte) bool {
	next := bytes.TrimRight(following(p), "\x00") // a shorter key may be the least above
	return len(next) == 0 || r.End != nil && bytes.Compare(r.End, next) <= 0
}

// Empty reports whether no key can be in the range, which has no Each.
func (r Range) Empty() bool {
	return r.End != nil && bytes.Compare(r.Start, r.End) >= 0
}

// Contains reports whether the qualifier belongs to the slice, its Limit aside.
func (s Slice) Contains(qualifier []byte) bool {
	if s.Head && InHead(qualifier) {
		return true
	}
	if len(s.Only) > 0 {
		return slices.ContainsFunc(s.Only, func(q []byte) bool { return bytes.Equal(q, qualifier) })
	}
	return bytes.Compare(s.Start, qualifier) <= 0 && (s.End == nil || bytes.Compare(qualifier, s.End) < 0)
}

// Empty reports whether no qualifier can be in the slice, the head of the row aside.
func (s Slice) Empty() bool {
	return len(s.Only) == 0 && s.End != nil && bytes.Compare(s.Start, s.End) >= 0
}

// AboveHead returns the least qualifier that is in no head.
func AboveHead() []byte { return []byte{0, 0} }

// JoinHead returns, for a slice with Head, the slice without Head that has the same cells, Limit
// aside. It reports false where other cells lie between the head and the rest.
func (s Slice) JoinHead() (joined Slice, ok bool) {
	switch head := AboveHead(); {
	case s.Empty() || s.End != nil && bytes.Compare(s.End, head) < 0:
		s.End = head
	case bytes.Compare(s.Start, head) > 0:
		return s, false
	}
	s.Start, s.Head = nil, false
	return s, true
}

// LimitWithHead returns how many cells a slice with Head has at most, or zero for no limit.
func (s Slice) LimitWithHead() int {
	if s.Limit == 0 {
		return 0
	}
	return s.Limit + 2 // the cells that a head can have
}

// CutBehindHead leaves of the cells the head and, after it, as many as the limit allows.
func (s Slice) CutBehindHead(cells []Cell) []Cell {
	n := 0
	for n < len(cells) && InHead(cells[n].Qualifier) {
		n++
	}
	if s.Limit == 0 {
		return cells
	}
	return cells[:min(len(cells), n+s.Limit)]
}

func (s Slice) check() error {
	if s.Limit < 0 {
		return fmt.Errorf("%w: slice limit is %d", ErrRange, s.Limit)
	}
	if len(s.Only) > 0 && (s.Start != nil || s.End != nil) {
		return fmt.Errorf("%w: a slice has qualifiers or bounds, not both", ErrRange)
	}
	if s.NeedsFirst && len(s.Only) == 0 {
		return fmt.Errorf("%w: a slice that needs the first of its qualifiers has none", ErrRange)
	}
	if s.Head && len(s.Only) > 0 {
		return fmt.Errorf("%w: a slice with the head of its row cannot have qualifiers", ErrRange)
	}
	return nil
}

// CheckSlice returns an error unless Get can read the slice of a row of the family.
func (s FamilySpec) CheckSlice(cells Slice) error {
	if cells.Head && s.Layout != LayoutWide {
		return fmt.Errorf("%w: the rows of family %s have no head: that is for LayoutWide", ErrRange, s.Name)
	}
	return cells.check()
}

// CheckBatch returns an error unless GetBatch can read the slice of rows of the family.
func (s FamilySpec) CheckBatch(rows [][]byte, cells Slice) error {
	switch {
	case s.Layout != LayoutOrdered:
		return fmt.Errorf("%w: the rows of family %s are wide: they are read one by one", ErrRange, s.Name)
	case cells.Limit != 0:
		return fmt.Errorf("%w: the slice of many rows has a limit", ErrRange)
	case len(rows) > MaxBatch:
		return fmt.Errorf("%w: %d rows are read at a time, at most %d", ErrTooLarge, len(rows), MaxBatch)
	}
	for _, row := range rows {
		if err := s.CheckRow(row); err != nil {
			return err
		}
	}
	return s.CheckSlice(cells)
}

// A rowSet tells rows of a call apart, by their numbers. A map would copy each row, which is a twentieth of the
// processor time of a Put into an embedded database.
type rowSet struct {
	row   func(i int) []byte
	slots []int32 // a number and one, or zero where there is none; at least half of them are
}

var rowSeed = maphash.MakeSeed()

func newRowSet(n int, row func(i int) []byte) rowSet {
	s := rowSet{row: row}
	if n > 1 {
		s.slots = make([]int32, 1<<bits.Len(uint(2*n-1)))
	}
	return s
}

// add reports whether no row that was added before is equal.
func (s rowSet) add(i int) bool {
	if s.slots == nil {
		return true
	}
	row := s.row(i)
	mask := uint64(len(s.slots) - 1)
	at := maphash.Bytes(rowSeed, row) & mask
	for ; s.slots[at] != 0; at = (at + 1) & mask {
		if bytes.Equal(s.row(int(s.slots[at]-1)), row) {
			return false
		}
	}
	s.slots[at] = int32(i + 1)
	return true
}

// CheckMutations returns an error unless Apply may send them to the family.
func (s FamilySpec) CheckMutations(mutations []Mutation) error {
	rows := newRowSet(len(mutations), func(i int) []byte { return mutations[i].Row })
	for i, m := range mutations {
		if err := s.CheckRow(m.Row); err != nil {
			return err
		}
		if m.DeleteRow && (len(m.Puts) > 0 || len(m.Deletes) > 0) {
			return fmt.Errorf("%w: a mutation deletes its row and changes cells of it", ErrOverlap)
		}
		if err := errors.Join(checkChange(m.Puts, m.Deletes), checkSize(m.Row, m.Deletes, m.Puts), s.checkHead(m.Puts), s.checkIndexed(m.Puts)); err != nil {
			return err
		}
		if !rows.add(i) {
			return fmt.Errorf("%w: two mutations of one row", ErrOverlap)
		}
	}
	return nil
}

// CheckConditional returns an error unless CheckAndPut or Commit may send the change.
func (s FamilySpec) CheckConditional(row []byte, expect, puts []Cell, deletes [][]byte) error {
	for _, c := range puts {
		if c.TTL != 0 {
			return errors.New("driver: a conditional put cannot have a TTL")
		}
	}
	return errors.Join(s.checkConditional(row, expect, puts, deletes), checkSize(row, deletes, expect, puts))
}

func (s FamilySpec) checkConditional(row []byte, expect, puts []Cell, deletes [][]byte) error {
	if err := s.CheckRow(row); err != nil {
		return err
	}
	for _, c := range expect {
		if c.Value != nil && len(c.Value) == 0 {
			return errors.New("driver: an empty value cannot be expected; use nil for an absent cell")
		}
	}
	if err := checkCells(expect); err != nil {
		return err
	}
	return errors.Join(checkChange(puts, deletes), s.checkHead(puts))
}

// CheckGuarded returns an error unless PutGuarded may send the change.
func (s FamilySpec) CheckGuarded(row []byte, guard Guard, puts []Cell) error {
	expect := make([]Cell, 1+len(guard.Free))
	expect[0].Value = guard.Prefix
	for i, q := range guard.Free {
		expect[1+i].Qualifier = q
		if bytes.Compare(expect[i].Qualifier, q) >= 0 {
			return errors.New("driver: the free cells of a guard are not in order, or one has no qualifier")
		}
	}
	if len(guard.Prefix) == 0 || len(guard.Gone) == 0 || len(puts) == 0 {
		return errors.New("driver: a guard needs a prefix, a value of cells that are gone, and something to put")
	}
	return s.CheckConditional(row, expect, puts, nil)
}

// CheckReplacements returns an error unless Replace may send them to the family.
func (s FamilySpec) CheckReplacements(replacements []Replacement) error {
	rows := newRowSet(len(replacements), func(i int) []byte { return replacements[i].Row })
	for i, r := range replacements {
		// Databases with a narrow limit are not sent what was seen, so its size does not count.
		err := s.checkConditional(r.Row, []Cell{r.Seen}, r.Puts, r.Deletes)
		if err = errors.Join(err, checkSize(r.Row, r.Deletes, r.Puts), s.checkIndexed(r.Puts)); err != nil {
			return err
		}
		if len(r.Seen.Value) == 0 || r.Seen.Stamp == 0 {
			return fmt.Errorf("%w: it was read without a value or without Slice.Stamps", ErrSeen)
		}
		if r.Rank < 0 || r.Rank > MaxRank {
			return fmt.Errorf("%w: Replacement.Rank is %d, want 0 to %d", ErrRange, r.Rank, MaxRank)
		}
		changes := func(c Cell) bool {
			return bytes.Equal(c.Qualifier, r.Seen.Qualifier) && !bytes.Equal(c.Value, r.Seen.Value)
		}
		deletes := func(q []byte) bool { return bytes.Equal(q, r.Seen.Qualifier) }
		if !slices.ContainsFunc(r.Puts, changes) && !slices.ContainsFunc(r.Deletes, deletes) {
			return fmt.Errorf("%w: it leaves that cell as it is", ErrSeen)
		}
		if !rows.add(i) {
			return fmt.Errorf("%w: two replacements of one row", ErrOverlap)
		}
	}
	return nil
}

func (s FamilySpec) checkHead(puts []Cell) error {
	for _, c := range puts {
		if s.Layout == LayoutWide && InHead(c.Qualifier) && len(c.Value) > MaxHeadValue {
			return fmt.Errorf("%w: a value in the head of a row has %d bytes, at most %d", ErrTooLarge, len(c.Value), MaxHeadValue)
		}
	}
	return nil
}

// checkSize returns an error if a change of one row is too large as a whole.
func checkSize(row []byte, deletes [][]byte, cells ...[]Cell) error {
	n, size := len(deletes), 0
	for _, q := range deletes {
		size += len(q)
	}
	for _, list := range cells {
		n += len(list)
		for _, c := range list {
			size += len(c.Qualifier) + len(c.Value)
		}
	}
	size += n * len(row)
	switch {
	case n > MaxCells:
		return fmt.Errorf("%w: a change of one row names %d cells, at most %d", ErrTooLarge, n, MaxCells)
	case size > MaxChange:
		return fmt.Errorf("%w: a change of one row has %d bytes, at most %d", ErrTooLarge, size, MaxChange)
	}
	return nil
}

// checkChange returns an error unless puts and deletes are disjoint and within the limits.
func checkChange(puts []Cell, deletes [][]byte) error {
	if err := checkCells(puts); err != nil {
		return err
	}
	if len(puts)+len(deletes) < 2 {
		return nil
	}
	seen := make(map[string]struct{}, len(puts)+len(deletes))
	for _, c := range puts {
		seen[string(c.Qualifier)] = struct{}{}
	}
	for _, q := range deletes {
		seen[string(q)] = struct{}{}
	}
	if len(seen) < len(puts)+len(deletes) {
		return ErrOverlap
	}
	return nil
}

func checkCells(cells []Cell) error {
	for _, c := range cells {
		switch {
		case len(c.Qualifier) > MaxQualifier:
			return fmt.Errorf("%w: qualifier has %d bytes, at most %d", ErrTooLarge, len(c.Qualifier), MaxQualifier)
		case len(c.Value) > MaxValue:
			return fmt.Errorf("%w: value has %d bytes, at most %d", ErrTooLarge, len(c.Value), MaxValue)
		case c.TTL < 0:
			return fmt.Errorf("%w: TTL is %v", ErrRange, c.TTL)
		}
	}
	return nil
}

// Bucket returns the number that the SpreadBits bits after the prefix of a row key make. Bits
// beyond the end of the key are zero.
func (s FamilySpec) Bucket(row []byte) int {
	var b [2]byte
	if len(row) > s.PrefixBytes {
		copy(b[:], row[s.PrefixBytes:])
	}
	return (int(b[0])<<8 | int(b[1])) >> (16 - s.SpreadBits)
}

// Buckets returns how many buckets the keys in [start, end) can be in; nil is unbounded. Where
// there is a prefix, the range must be within one.
func (s FamilySpec) Buckets(start, end []byte) int {
	first, last := s.Bucket(start), 1<<s.SpreadBits-1
	if end != nil && (s.PrefixBytes == 0 || len(start) >= s.PrefixBytes && bytes.HasPrefix(end, start[:s.PrefixBytes])) {
		last = s.Bucket(end)
		if last > first && s.lowest(end) {
			last-- // no key below end is in its bucket
		}
	}
	return last - first + 1
}

// lowest reports whether key is the lowest of its bucket: all bits after those of the bucket are
// zero.
func (s FamilySpec) lowest(key []byte) bool {
	rest := bytes.Clone(key[s.PrefixBytes:])
	for i := range min(s.SpreadBits, 8*len(rest)) {
		rest[i/8] &^= 0x80 >> (i % 8)
	}
	return len(bytes.TrimLeft(rest, "\x00")) == 0
}
