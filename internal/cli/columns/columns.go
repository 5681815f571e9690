// Package columns names what a schema has.
package columns

import "github.com/rangecrypt/rangecrypt/store"

// Names returns the names of the key parts of a schema, and then of its columns.
func Names(s store.Schema) (names []string) {
	for _, part := range s.Key {
		names = append(names, part.Describe().Name)
	}
	for _, column := range s.Columns {
		names = append(names, column.Describe().Name)
	}
	return names
}
