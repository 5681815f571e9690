package wire

import (
	"github.com/tsuna/gohbase/filter"
	"github.com/tsuna/gohbase/pb"

	"github.com/rangecrypt/rangecrypt/store/driver"
)

// Columns returns which cells of a row are wanted, as far as they are named.
func Columns(s driver.Slice) []*pb.Column {
	c := &pb.Column{Family: []byte(ColumnFamily)}
	for _, q := range s.Only {
		c.Qualifier = append(c.Qualifier, Stored(q))
	}
	return []*pb.Column{c}
}

// CellFilter returns the filter of the cells of a row that are wanted; nil is none.
func CellFilter(s driver.Slice) filter.Filter {
	switch {
	case len(s.Only) > 0 || len(s.Start) == 0 && s.End == nil:
		return nil
	case s.Skip != nil:
		skip := filter.NewValueFilter(filter.NewCompareFilter(filter.NotEqual, StoredValue(s.Skip)))
		s.Skip = nil
		if within := CellFilter(s); within != nil {
			return filter.NewList(filter.MustPassAll, within, skip)
		}
		return skip
	case s.Head:
		// A list of filters of which one must pass seeks only as far as all of them allow. The
		// range of the head would allow no seek after the head. A filter that stops altogether
		// where it first fails is ignored from there on.
		return filter.NewList(filter.MustPassOne,
			filter.NewWhileMatchFilter(columnRange(nil, driver.AboveHead())), columnRange(s.Start, s.End))
	}
	return columnRange(s.Start, s.End)
}

// FilterMessage returns a filter as it is sent; nil is none.
func FilterMessage(f filter.Filter) *pb.Filter {
	if f == nil {
		return nil
	}
	return Must(f.ConstructPBFilter())
}

func columnRange(start, end []byte) filter.Filter {
	if end != nil {
		end = Stored(end)
	}
	return filter.NewColumnRangeFilter(Stored(start), end, true, false)
}

// StoredValue returns what compares a value with those of cells.
func StoredValue(value []byte) filter.Comparator {
	return filter.NewBinaryComparator(filter.NewByteArrayComparable(append([]byte(ValueHeader), value...)))
}

// Must returns what can be made of anything.
func Must[T any](v T, err error) T {
	if err != nil {
		panic("hbase: " + err.Error())
	}
	return v
}
