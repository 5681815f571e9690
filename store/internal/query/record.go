package query

import "github.com/rangecrypt/rangecrypt/store/internal/rowcodec"

// Record returns the row as a record of a view, and which columns it was asked for, by position; nil is all.
func (f *Found) Record() (t *rowcodec.View, r *rowcodec.Record, want []bool) {
	return f.by.table.View, f.record, f.by.want
}
