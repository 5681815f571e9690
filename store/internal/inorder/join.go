package inorder

import "iter"

// Groups yields those elements of a sequence together that are neighbours and alike. An error is the last thing yielded.
func Groups[T any](of iter.Seq2[T, error], alike func(a, b T) bool) iter.Seq2[[]T, error] {
	return func(yield func([]T, error) bool) {
		var group []T
		for v, err := range of {
			if err != nil {
				yield(nil, err)
				return
			}
			if len(group) > 0 && !alike(group[0], v) {
				if !yield(group, nil) {
					return
				}
				group = nil
			}
			group = append(group, v)
		}
		if len(group) > 0 {
			yield(group, nil)
		}
	}
}

// Pairs yields the elements of two sequences that are equal, where each sequence ascends. An error is the last thing yielded.
func Pairs[T any](left, right iter.Seq2[T, error], compare func(a, b T) int) iter.Seq2[[2]T, error] {
	return func(yield func([2]T, error) bool) {
		left, stopLeft := iter.Pull2(left)
		defer stopLeft()
		right, stopRight := iter.Pull2(right)
		defer stopRight()
		a, errA, moreA := left()
		b, errB, moreB := right()
		for moreA && moreB && errA == nil && errB == nil {
			order := compare(a, b)
			if order == 0 && !yield([2]T{a, b}, nil) {
				return
			}
			if order <= 0 {
				a, errA, moreA = left()
			}
			if order >= 0 {
				b, errB, moreB = right()
			}
		}
		switch {
		case errA != nil:
			yield([2]T{}, errA)
		case errB != nil:
			yield([2]T{}, errB)
		}
	}
}
