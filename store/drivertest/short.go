package drivertest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/store/driver"
)

// Short forms of what all checks do.

var background = context.Background()

func b(s string) []byte { return []byte(s) }

func bs(ss ...string) [][]byte {
	var out [][]byte
	for _, s := range ss {
		out = append(out, b(s))
	}
	return out
}

type cells = []driver.Cell

// put makes a cell.
func put(qualifier, value string) driver.Cell {
	return driver.Cell{Qualifier: b(qualifier), Value: b(value)}
}

// putFor makes a cell with a time to live.
func putFor(ttl time.Duration, qualifier, value string) driver.Cell {
	c := put(qualifier, value)
	c.TTL = ttl
	return c
}

// absent makes the expectation that a cell does not exist.
func absent(qualifier string) driver.Cell { return driver.Cell{Qualifier: b(qualifier)} }

func row(key string, puts ...driver.Cell) driver.Mutation {
	return driver.Mutation{Row: b(key), Puts: puts}
}

func deleteRow(key string) driver.Mutation { return driver.Mutation{Row: b(key), DeleteRow: true} }

func deleteCells(key string, qualifiers ...string) driver.Mutation {
	return driver.Mutation{Row: b(key), Deletes: bs(qualifiers...)}
}

func apply(tb testing.TB, f driver.Family, mutations ...driver.Mutation) {
	tb.Helper()
	require.NoError(tb, f.Apply(background, mutations...))
}

func read(tb testing.TB, f driver.Family, key string, s driver.Slice) cells {
	tb.Helper()
	found, err := f.Get(background, b(key), s)
	require.NoError(tb, err)
	return found
}

// get returns cells as "qualifier=value".
func get(tb testing.TB, f driver.Family, key string, s driver.Slice) []string {
	tb.Helper()
	return show(read(tb, f, key, s))
}

// is requires that a row has these cells and no others.
func is(tb testing.TB, f driver.Family, key string, want ...string) {
	tb.Helper()
	require.Equal(tb, append([]string{}, want...), get(tb, f, key, driver.Slice{}))
}

func show(found cells) []string {
	out := make([]string, 0, len(found))
	for _, c := range found {
		out = append(out, string(c.Qualifier)+"="+string(c.Value))
	}
	return out
}

func names(found cells) []string {
	out := []string{}
	for _, c := range found {
		out = append(out, string(c.Qualifier))
	}
	return out
}

// scan returns the rows of a range.
func scan(tb testing.TB, f driver.Family, r driver.Range) []driver.Row {
	tb.Helper()
	var rows []driver.Row
	for row, err := range f.Scan(background, r) {
		require.NoError(tb, err)
		rows = append(rows, row)
	}
	return rows
}

func keys(rows []driver.Row) []string {
	out := make([]string, 0, len(rows))
	for _, r := range rows {
		out = append(out, string(r.Key))
	}
	return out
}

// scanKeys returns the keys of a range, sorted where they may come in any order.
func scanKeys(tb testing.TB, f driver.Family, r driver.Range) []string {
	tb.Helper()
	found := keys(scan(tb, f, r))
	if r.AnyOrder {
		slices.Sort(found)
	}
	return found
}

// within returns the range of all keys with a prefix that ends with '/'.
func within(prefix string) driver.Range {
	return driver.Range{Start: b(prefix), End: b(prefix[:len(prefix)-1] + "0")}
}

// anyOrder returns that range for a scan in any order.
func anyOrder(prefix string) driver.Range {
	r := within(prefix)
	r.AnyOrder = true
	return r
}

// sliced returns the qualifiers, which ascend, that a slice should have.
func sliced(qualifiers []string, s driver.Slice) []string {
	out, head := []string{}, []string{}
	for _, q := range qualifiers {
		in := q >= string(s.Start) && (s.End == nil || q < string(s.End))
		if len(s.Only) > 0 {
			in = slices.ContainsFunc(s.Only, func(o []byte) bool { return string(o) == q })
		}
		switch {
		case s.Head && (q == "" || q == "\x00"):
			head = append(head, q)
		case in && (s.Limit == 0 || len(out) < s.Limit):
			out = append(out, q)
		}
	}
	return append(head, out...)
}

// ranged returns the keys, which ascend, that a scan in order should have.
func ranged(all []string, r driver.Range) []string {
	out := sliced(all, driver.Slice{Start: r.Start, End: r.End})
	if r.Reverse {
		slices.Reverse(out)
	}
	if r.Limit > 0 && len(out) > r.Limit {
		out = out[:r.Limit]
	}
	return out
}

// scanError returns the error of a scan, which must be the last thing that it yields.
func scanError(tb testing.TB, f driver.Family, ctx context.Context, r driver.Range) error {
	tb.Helper()
	var failed error
	for row, err := range f.Scan(ctx, r) {
		require.NoError(tb, failed, "something was yielded after an error")
		if failed = err; err != nil {
			require.Zero(tb, row, "a row was yielded with an error")
		}
	}
	return failed
}

// seen reads a cell of a row with its stamp.
func seen(tb testing.TB, f driver.Family, key, qualifier string) driver.Cell {
	tb.Helper()
	found := read(tb, f, key, driver.Slice{Only: bs(qualifier), Stamps: true})
	require.Len(tb, found, 1)
	return found[0]
}

func replace(tb testing.TB, f driver.Family, replacements ...driver.Replacement) (late []int) {
	tb.Helper()
	late, err := f.Replace(background, replacements...)
	require.NoError(tb, err)
	return late
}

func checkAndPut(tb testing.TB, f driver.Family, key string, expect driver.Cell, puts ...driver.Cell) bool {
	tb.Helper()
	ok, err := f.CheckAndPut(background, b(key), expect, puts...)
	require.NoError(tb, err)
	return ok
}

func commit(tb testing.TB, c driver.Committer, key string, expect, puts cells, deletes ...string) bool {
	tb.Helper()
	ok, err := c.Commit(background, b(key), expect, puts, bs(deletes...))
	require.NoError(tb, err)
	return ok
}

// changes calls every method that changes a row, with the stamped cell "q" of the row key, and gives
// each error to see.
func changes(tb testing.TB, f driver.Family, ctx context.Context, key string, stamped driver.Cell, see func(method string, err error)) {
	tb.Helper()
	see("Apply", f.Apply(ctx, row(key+"+", put("q", "v"))))
	_, err := f.Replace(ctx, driver.Replacement{Row: b(key), Seen: stamped, Puts: cells{put("q", "replaced")}})
	see("Replace", err)
	ok, err := f.CheckAndPut(ctx, b(key+"++"), absent("q"), put("q", "v"))
	see("CheckAndPut", err)
	require.False(tb, ok)
	if c, is := f.(driver.Committer); is {
		ok, err := c.Commit(ctx, b(key+"+++"), nil, cells{put("q", "v")}, nil)
		see("Commit", err)
		require.False(tb, ok)
	}
}

// manyRows writes rows that need several pages, and returns their keys.
func manyRows(tb testing.TB, f driver.Family, p string, n int) []string {
	tb.Helper()
	var ms []driver.Mutation
	var all []string
	for i := range n {
		key := fmt.Sprintf("%s%05d", p, i)
		ms, all = append(ms, row(key, put("k", key), put("v", strings.Repeat("v", 50+i%50)))), append(all, key)
	}
	apply(tb, f, ms...)
	return all
}

// during calls work with 1, 2 and so on, in a goroutine of its own, for as long as do takes.
func during(tb testing.TB, work func(i int) error, do func()) {
	tb.Helper()
	stop := make(chan struct{})
	failed := make(chan error, 1)
	go func() {
		for i := 1; ; i++ {
			select {
			case <-stop:
				failed <- nil
				return
			default:
			}
			if err := work(i); err != nil {
				failed <- err
				return
			}
		}
	}()
	var err error
	func() {
		defer func() {
			close(stop)
			err = <-failed
		}()
		do()
	}()
	require.NoError(tb, err)
}

// together makes n calls at the same time and joins their errors.
func together(n int, call func(i int) error) error {
	errs := make([]error, n)
	gate := make(chan struct{})
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			<-gate
			errs[i] = call(i)
		})
	}
	close(gate)
	all.Wait()
	return errors.Join(errs...)
}

func reversed(ss []string) []string {
	out := slices.Clone(ss)
	slices.Reverse(out)
	return out
}

// edges are keys whose order a comparison that is signed, or by length, or that ends at 0x00,
// gets wrong. They are in order.
var edges = func() []string {
	es := []string{
		"", "\x00", "\x00\x00", "\x00\x00\x01", "\x00\x01", "\x00\x02", "\x00\xff", "\x01", "\x01\x00", "\x01\xff",
		"A", "a", "a\x00", "a\x00\x01", "a\x00\xff", "aa", "ab", "b", "\x7f", "\x7f\xff", "\x80", "\x80\x00",
		"\xfe", "\xfe\xff", "\xff", "\xff\x00", "\xff\x01", "\xff\xfe", "\xff\xff", "\xff\xff\x00", "\xff\xff\xff",
	}
	slices.SortFunc(es, func(x, y string) int { return bytes.Compare(b(x), b(y)) })
	return es
}()

// bounds are the ends of ranges that are tried on the edges.
var bounds = [][]byte{
	nil, {}, b("\x00"), b("\x00\x00"), b("\x00\x00\x00"), b("\x01"), b("a"), b("a\x00"), b("ac"), b("\x80"), b("\xff"), b("\xff\xff\xff\x00"),
}

// shuffled returns the strings out of order.
func shuffled(ss []string) []string {
	out := make([]string, len(ss))
	for i := range ss {
		out[i] = ss[i*7%len(ss)] // the number of edges is no multiple of 7
	}
	return out
}

// eventually waits for at most limit.
func eventually(tb testing.TB, limit time.Duration, what string, holds func() bool) {
	tb.Helper()
	for end := time.Now().Add(limit); !holds(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			require.FailNow(tb, what)
		}
	}
}
