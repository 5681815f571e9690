package migration

import (
	"iter"

	"github.com/rangecrypt/rangecrypt/store/inspect"
)

// KeyOwners calls yield for each column of a table that has the search key of a column of another one, or had it before it was changed. While the
// table is there, that other one cannot be dropped.
func KeyOwners(t inspect.Table) iter.Seq2[string, inspect.Field] {
	return func(yield func(string, inspect.Field) bool) {
		for _, c := range t.Columns {
			for _, f := range append([]inspect.Field{c}, c.Former...) {
				if f.KeyOf != nil && f.KeyOf.Table != t.Name && !yield(f.KeyOf.Table, c) {
					return
				}
			}
		}
	}
}
