// Package inorder puts rows in order: it merges sources, between which others move rows, and keeps the first of many rows.
package inorder

import (
	"container/heap"
	"slices"
)

// First keeps the first of many rows in an order.
type First[T any] struct {
	Compare func(a, b T) int
	rows    lastOnTop[T]
}

// lastOnTop is rows with the last of all on top, as a heap.
type lastOnTop[T any] struct {
	compare func(a, b T) int
	all     []T
}

func (h *lastOnTop[T]) Len() int           { return len(h.all) }
func (h *lastOnTop[T]) Less(i, j int) bool { return h.compare(h.all[i], h.all[j]) > 0 }
func (h *lastOnTop[T]) Swap(i, j int)      { h.all[i], h.all[j] = h.all[j], h.all[i] }
func (h *lastOnTop[T]) Push(row any)       { h.all = append(h.all, row.(T)) }
func (h *lastOnTop[T]) Pop() any           { panic("inorder: rows are replaced, and never taken away") }

// Len returns how many rows are kept.
func (f *First[T]) Len() int { return f.rows.Len() }

// Add adds a row, and drops the last one if there are more than most.
func (f *First[T]) Add(row T, most int) {
	f.rows.compare = f.Compare
	switch {
	case f.Len() < most:
		heap.Push(&f.rows, row)
	case f.Compare(row, f.rows.all[0]) < 0:
		f.rows.all[0] = row
		heap.Fix(&f.rows, 0)
	}
}

// Sorted returns the rows that are kept in their order.
func (f *First[T]) Sorted() []T { return slices.SortedFunc(slices.Values(f.rows.all), f.Compare) }
