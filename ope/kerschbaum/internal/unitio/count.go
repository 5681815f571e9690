package unitio

import (
	"context"
	"math"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/kerschbaum/internal/unit"
)

// How many values a unit has is not written anywhere, since every insertion would change it, and
// insertions into different gaps would have to wait for each other. Instead, one of some values
// brings a mark with it, a record of its own that stands for so many values. Reading the marks
// estimates the number without reading the elements.

// MarksAtLimit is about how many marks a full unit has: the estimate is wrong by about
// 1/sqrt(MarksAtLimit). An index that takes fewer values counts each.
const MarksAtLimit = 1024

// Room returns how many values may be counted before more are refused, of which each mark stands for some: four standard
// deviations above the limit where they are estimated, so that an index takes as many as it was told to.
func Room(limit, weight int) int {
	if weight == 1 {
		return limit
	}
	return limit + min(limit/8, math.MaxInt-limit) // 4/sqrt(MarksAtLimit)
}

// CountValues returns about how many values a unit has.
func (s *Shard) CountValues(ctx context.Context, epoch uint64) (int, error) {
	u := s.Unit(epoch)
	var first unit.Page
	values := uint64(0)
	err := s.Parallel(2, func(i int) (err error) {
		if i == 0 {
			first, err = s.ReadHeader(ctx, u)
			return err
		}
		return s.eachRecord(ctx, u, unit.FirstMark, unit.AboveMarks, 4*MarksAtLimit, func(r ope.Record) error {
			n, err := u.OpenCount(r)
			values += n
			return err
		})
	})
	if err == nil && first.Header != nil {
		is := first.PartOf()
		values += first.Header.Values + is.Came
		values -= min(values, is.Gone) // they are an estimate
	}
	return int(min(values, math.MaxInt32)), err
}
