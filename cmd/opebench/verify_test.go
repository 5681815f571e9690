package main

import (
	"context"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/pebble"
)

// unposted DIR dangling|hidden makes three postings in each family of postings with some in the
// embedded store in DIR that point to no row, or removes three.
func unposted(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 || args[1] != "dangling" && args[1] != "hidden" {
		ts.Fatalf("usage: unposted DIR dangling|hidden")
	}
	ctx := context.Background()
	db, err := pebble.Open(ts.MkAbs(args[0]), nil)
	ts.Check(err)
	defer func() { ts.Check(db.Close()) }()
	names, err := db.Families(ctx)
	ts.Check(err)
	changed := 0
	for _, name := range names {
		if !strings.HasPrefix(name, "x") {
			continue
		}
		f, err := db.Family(ctx, driver.FamilySpec{Name: name, Layout: driver.LayoutOrdered, PrefixBytes: 4, SpreadBits: 4})
		ts.Check(err)
		var mutations []driver.Mutation
		for row, err := range f.Scan(ctx, driver.Range{AnyOrder: true}) {
			ts.Check(err)
			if len(mutations) == 3 {
				break
			}
			m := driver.Mutation{Row: row.Key, DeleteRow: true}
			if args[1] == "dangling" {
				row.Key[len(row.Key)-1] ^= 1 // of another write
				m = driver.Mutation{Row: row.Key, Puts: row.Cells}
			}
			mutations = append(mutations, m)
		}
		ts.Check(f.Apply(ctx, mutations...))
		changed += len(mutations)
	}
	if changed == 0 {
		ts.Fatalf("there are no postings")
	}
}
