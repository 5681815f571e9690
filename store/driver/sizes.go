package driver

import "sync/atomic"

// Sizes remembers how large the rows are that a family returned lately. It is for drivers that choose how many rows to
// ask a server for at a time. Its zero value knows nothing. Slices of different numbers of qualifiers have sizes of
// their own, since one may be of small cells only.
type Sizes struct{ lately [8]atomic.Int64 } // bytes of a row

func (s *Sizes) of(cells Slice) *atomic.Int64 {
	return &s.lately[min(len(cells.Only), len(s.lately)-1)]
}

// Saw notes that so many rows had so many bytes.
func (s *Sizes) Saw(cells Slice, rows, bytes int) {
	if rows > 0 {
		of := s.of(cells)
		of.Store(max(int64(bytes/rows)+1, of.Load()*7/8)) // large rows are remembered for a while
	}
}

// Rows returns how many rows have about so many bytes: at least one, at most most, and few as long as nothing is known,
// since each may be of MaxValue or more.
func (s *Sizes) Rows(cells Slice, bytes, most int) int {
	if row := s.of(cells).Load(); row > 0 {
		return int(max(1, min(int64(most), int64(bytes)/row)))
	}
	return min(most, 16)
}
