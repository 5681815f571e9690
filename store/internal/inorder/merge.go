package inorder

import "iter"

// Sources are several sources of rows T, the first of which loses rows to the later ones. A row that is moved is put into the
// later source before it is taken from the earlier one. P is a part of what they have in their order.
type Sources[T, P any] struct {
	N       int
	Rows    func(source int, part P) iter.Seq2[T, error] // in order
	Compare func(a, b T) int
	Level   func(a, b T) bool                   // no cut is possible between these neighbours
	Cut     func(part P, at T) (upTo, beyond P) // up to a row, and what is level with it
	Few     int                                 // so many rows of an earlier source are read at first, and then ever more
	Most    int
}

// Each yields the rows of a part of all sources in order, and reports whether to go on. A row that is moved it may yield twice.
//
// It reads rows of the first source, up to one beyond which nothing was yielded, and then what the others have up to there. Were
// all sources read side by side, a row would be missed that is moved between two reads: the later source was read past its
// place, the earlier one was not yet.
func (s *Sources[T, P]) Each(part P, yield func(T, error) bool) bool { return s.from(0, part, yield) }

func (s *Sources[T, P]) from(source int, part P, yield func(T, error) bool) bool {
	rows := s.Rows(source, part)
	if source == s.N-1 {
		for row, err := range rows {
			if !yield(row, err) || err != nil {
				return false
			}
		}
		return true
	}
	next, stop := iter.Pull2(rows)
	defer stop()
	row, err, more := next()
	for size := s.Few; ; size = min(4*size, s.Most) {
		var chunk []T
		for more && err == nil && (len(chunk) < size || s.Level(chunk[len(chunk)-1], row)) {
			chunk = append(chunk, row)
			row, err, more = next()
		}
		if err != nil {
			return yield(row, err) && false
		}
		upTo := part
		if more {
			upTo, part = s.Cut(part, chunk[len(chunk)-1])
		}
		on := s.from(source+1, upTo, func(later T, err error) bool {
			for ; err == nil && len(chunk) > 0 && s.Compare(chunk[0], later) < 0; chunk = chunk[1:] {
				if !yield(chunk[0], nil) {
					return false
				}
			}
			return yield(later, err)
		})
		for ; on && len(chunk) > 0; chunk = chunk[1:] {
			on = yield(chunk[0], nil)
		}
		if !on || !more {
			return on
		}
	}
}
