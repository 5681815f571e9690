// Package tpc is what the benchmarks TPC-H and TPC-C share: how a table is described, and the values of its rows.
package tpc

import (
	"math/big"
	"math/rand/v2"
	"strings"

	"github.com/rangecrypt/rangecrypt/ope/encode"
	"github.com/rangecrypt/rangecrypt/store"
)

// A Field is a key part or a column of a relation.
type Field struct {
	Name string
	Of   store.Type
}

// F returns a field.
func F(name string, of store.Type) Field { return Field{name, of} }

// A Relation is a table of TPC-H or TPC-C.
type Relation struct {
	Name         string
	Key, Columns []Field
}

// ColumnNames returns the columns of a relation that are no part of its key.
func (r Relation) ColumnNames() (names []string) {
	for _, c := range r.Columns {
		names = append(names, c.Name)
	}
	return names
}

// Project returns the key parts of a row and some of its columns.
func (r Relation) Project(row store.Row, columns []string) store.Row {
	if row == nil {
		return nil
	}
	out := make(store.Row)
	for _, k := range r.Key {
		out[k.Name] = row[k.Name]
	}
	for _, c := range columns {
		if v, ok := row[c]; ok {
			out[c] = v
		}
	}
	return out
}

// Between returns one of the numbers from lo to hi.
func Between(r *rand.Rand, lo, hi int) int { return lo + r.IntN(hi-lo+1) }

// Money returns an amount of money.
func Money(cents int64) encode.Decimal {
	return encode.Decimal{Unscaled: big.NewInt(cents), Scale: 2}
}

// Cents returns how many cents an amount of money has.
func Cents(v any) int64 {
	d, _ := v.(encode.Decimal)
	if d.Unscaled == nil {
		return 0
	}
	return d.Unscaled.Int64()
}

// Text returns words, of lo to hi bytes in all.
func Text(r *rand.Rand, lo, hi int) string {
	n := Between(r, lo, hi)
	var b strings.Builder
	for b.Len() <= n {
		b.WriteString(OneOf(r, textWords))
		b.WriteByte(' ')
	}
	return b.String()[:n]
}

// OneOf returns one of the words.
func OneOf(r *rand.Rand, words []string) string { return words[r.IntN(len(words))] }

// textWords are what texts of TPC-H are made of, by section 4.2.2.13.
var textWords = strings.Fields("accounts asymptotes bold braids carefully courts deposits dependencies dolphins dugouts epitaphs escapades even excuses express final fluffily " +
	"foxes furiously gifts grouches hockey ideas instructions ironic packages patterns pending pinto platelets quickly regular requests sauternes sheaves silent " +
	"sleep slyly somas special theodolites unusual warhorses")
