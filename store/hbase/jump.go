package hbase

import (
	"bytes"

	"github.com/tsuna/gohbase/filter"

	"github.com/rangecrypt/rangecrypt/store/driver"
)

// scansAhead is how many ranges are scanned at a time where they are not scanned by one request.
const scansAhead = 16

// jumps reports whether the server can scan the ranges at once. It jumps from one to the next, upwards only: not all
// versions that there are can do it downwards. Bounds that there are none of, or that are longer than a key, mean
// something else to it.
func jumps(r driver.Range) bool {
	for _, b := range r.Each {
		if len(b.Start) == 0 || len(b.Start) > driver.MaxRowKey || len(b.End) == 0 || len(b.End) > driver.MaxRowKey {
			return false
		}
	}
	return !r.Reverse
}

// A jump is what is left of several ranges. The server knows no limit of each: what is beyond it is left out here.
type jump struct {
	left  []driver.Bounds
	limit int
	taken int // rows of the first that is left
}

func newJump(r driver.Range) *jump { return &jump{left: r.Each, limit: r.Limit} }

// wanted returns how many rows there are at most, or zero for no limit.
func (j *jump) wanted() int {
	if j.limit == 0 {
		return 0
	}
	return min(pageRows, j.limit*len(j.left)-j.taken)
}

// filter returns the filter of rows in the ranges, with that of cells, which may be nil.
func (j *jump) filter(cells filter.Filter) filter.Filter {
	var rows []*filter.RowRange
	for i := 0; i < len(j.left); {
		start, end := j.left[i].Start, j.left[i].End
		// Ranges without a gap are one to the server, which merges them in its own way otherwise.
		for i++; i < len(j.left) && bytes.Equal(end, j.left[i].Start); i++ {
			end = j.left[i].End
		}
		rows = append(rows, filter.NewRowRange(start, end, true, false))
	}
	within := filter.NewMultiRowRangeFilter(rows)
	if cells == nil {
		return within
	}
	return filter.NewList(filter.MustPassAll, within, cells)
}

// within takes the rows of a page that are wanted, and has the scan go on with what is left.
func (j *jump) within(s *scan, page []driver.Row) []driver.Row {
	wanted := page[:0]
	for _, row := range page {
		for len(j.left) > 0 && bytes.Compare(row.Key, j.left[0].End) >= 0 {
			j.next()
		}
		if len(j.left) == 0 {
			break
		}
		if bytes.Compare(row.Key, j.left[0].Start) >= 0 && (j.limit == 0 || j.taken < j.limit) {
			wanted = append(wanted, row)
			j.taken++
		}
	}
	for len(j.left) > 0 && (bytes.Compare(j.left[0].End, s.at) <= 0 || j.limit > 0 && j.taken == j.limit) {
		j.next()
	}
	switch {
	case len(j.left) == 0:
		s.done = true
	case bytes.Compare(s.at, j.left[0].Start) < 0:
		s.at, s.after = bytes.Clone(j.left[0].Start), false
	}
	return wanted
}

func (j *jump) next() { j.left, j.taken = j.left[1:], 0 }
