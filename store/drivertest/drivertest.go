// Package drivertest checks that a database keeps the promises of package driver: [TestDriver]
// has a subtest for each of them, and the same ones run on every database. Beside it stand a
// database in memory, wrappers that make any database fail or slow, and a benchmark.
package drivertest

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	mrand "math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/rangecrypt/rangecrypt/store/driver"
)

// Options of [TestDriver]. A nil pointer is the zero value.
type Options struct {
	// Reopen closes the database that it is given and opens it again. Where it is nil, whether
	// data outlives a Close is not tested.
	Reopen func(testing.TB, driver.DB) driver.DB

	// Own reports whether an error wraps one of the database's own client, as all must that come
	// from there. Where it is nil, as for a database without a client, that is not tested.
	Own func(error) bool

	// Blind says that Replace does not know what came too late, and reports nothing.
	Blind bool

	// Operations is the length of the random history that is compared with a model, 400 by
	// default.
	Operations int
}

// TestDriver tests the database that open connects to. It is opened once, and need not be empty:
// the families that the test makes have names of their own, and are dropped at the end. It must
// not run in parallel with other tests, since goroutines that are left over count as failure.
//
// Random choices come from a seed that is printed; the environment variable DRIVERTEST_SEED
// gives one.
func TestDriver(t *testing.T, open func(testing.TB) driver.DB, o *Options) {
	if o == nil {
		o = &Options{}
	}
	before := goleak.IgnoreCurrent()
	s := newSuite(t, open(t), *o)
	closed := false
	t.Cleanup(func() {
		if !closed {
			s.dropAll(t)
			require.NoError(t, s.db.Close())
		}
	})
	for _, c := range checks {
		t.Run(c.name, func(t *testing.T) { c.run(t, s) })
	}
	t.Run("what was acknowledged stays after Close", func(t *testing.T) {
		if o.Reopen == nil {
			t.Skip("no Reopen given")
		}
		s.checkReopen(t)
	})
	t.Run("Close leaves no goroutine", func(t *testing.T) {
		s.dropAll(t)
		closed = true
		require.NoError(t, s.db.Close())
		require.NoError(t, goleak.Find(before))
	})
}

// A check is one promise. It gets a [testing.TB] rather than a [testing.T], so that the package's
// own tests can watch it fail.
type check struct {
	name string
	run  func(testing.TB, *suite)
}

type suite struct {
	db   driver.DB
	o    Options
	name string // families begin with it
	n    int    // of prefixes given

	specs    map[string]driver.FamilySpec
	families map[string]driver.Family
}

func newSuite(tb testing.TB, db driver.DB, o Options) *suite {
	var id [6]byte
	_, _ = rand.Read(id[:])
	if o.Operations == 0 {
		o.Operations = 400
	}
	return &suite{
		db: db, o: o, name: "dt" + hex.EncodeToString(id[:]),
		specs: make(map[string]driver.FamilySpec), families: make(map[string]driver.Family),
	}
}

// family returns a family that lives as long as the suite: to create one takes a second on some
// databases. Checks share it, and keep to rows with a prefix of their own.
func (s *suite) family(tb testing.TB, kind string, spec driver.FamilySpec) driver.Family {
	tb.Helper()
	if f := s.families[kind]; f != nil {
		return f
	}
	spec.Name = s.name + "_" + kind
	f, err := s.db.Family(context.Background(), spec)
	require.NoError(tb, err)
	s.specs[kind], s.families[kind] = spec, f
	return f
}

func (s *suite) ordered(tb testing.TB) driver.Family {
	return s.family(tb, "ordered", driver.FamilySpec{Layout: driver.LayoutOrdered})
}

func (s *suite) wide(tb testing.TB) driver.Family {
	return s.family(tb, "wide", driver.FamilySpec{Layout: driver.LayoutWide})
}

// prefix returns what the rows of one check begin with.
func (s *suite) prefix() string {
	s.n++
	return fmt.Sprintf("%04d/", s.n)
}

func (s *suite) dropAll(tb testing.TB) {
	for kind, spec := range s.specs {
		require.NoError(tb, s.db.Drop(context.Background(), spec.Name))
		delete(s.specs, kind)
		delete(s.families, kind)
	}
}

// random returns a source whose seed is printed when the test fails.
func random(tb testing.TB) *mrand.Rand {
	tb.Helper()
	seed := mrand.Uint64()
	if text := os.Getenv("DRIVERTEST_SEED"); text != "" {
		var err error
		seed, err = strconv.ParseUint(text, 10, 64)
		require.NoError(tb, err, "DRIVERTEST_SEED")
	}
	tb.Logf("repeat with DRIVERTEST_SEED=%d", seed)
	return mrand.New(mrand.NewPCG(seed, 1))
}

// Short forms.

func b(s string) []byte { return []byte(s) }

func bs(ss ...string) [][]byte {
	var out [][]byte
	for _, s := range ss {
		out = append(out, b(s))
	}
	return out
}

// put makes a cell.
func put(qualifier, value string) driver.Cell {
	return driver.Cell{Qualifier: b(qualifier), Value: b(value)}
}

// absent makes the expectation that a cell does not exist.
func absent(qualifier string) driver.Cell { return driver.Cell{Qualifier: b(qualifier)} }

func row(key string, cells ...driver.Cell) driver.Mutation {
	return driver.Mutation{Row: b(key), Puts: cells}
}

func apply(tb testing.TB, f driver.Family, mutations ...driver.Mutation) {
	tb.Helper()
	require.NoError(tb, f.Apply(context.Background(), mutations...))
}

// get returns cells as "qualifier=value".
func get(tb testing.TB, f driver.Family, key string, s driver.Slice) []string {
	tb.Helper()
	cells, err := f.Get(context.Background(), b(key), s)
	require.NoError(tb, err)
	return show(cells)
}

func show(cells []driver.Cell) []string {
	out := make([]string, 0, len(cells))
	for _, c := range cells {
		out = append(out, string(c.Qualifier)+"="+string(c.Value))
	}
	return out
}

// scan returns the rows of a range.
func scan(tb testing.TB, f driver.Family, r driver.Range) []driver.Row {
	tb.Helper()
	var rows []driver.Row
	for row, err := range f.Scan(context.Background(), r) {
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

// within returns the range of all keys with a prefix that ends with '/'.
func within(prefix string) driver.Range {
	return driver.Range{Start: b(prefix), End: b(prefix[:len(prefix)-1] + "0")}
}

func reversed(ss []string) []string {
	out := slices.Clone(ss)
	slices.Reverse(out)
	return out
}

// scanError returns the error of a scan, which must be the last thing that it yields.
func scanError(tb testing.TB, f driver.Family, ctx context.Context, r driver.Range) error {
	tb.Helper()
	var failed error
	for row, err := range f.Scan(ctx, r) {
		require.NoError(tb, failed, "something was yielded after an error")
		if failed = err; err != nil {
			require.Nil(tb, row.Key, "a row was yielded with an error")
			require.Nil(tb, row.Cells, "a row was yielded with an error")
		}
	}
	return failed
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

// eventually waits for at most limit.
func eventually(tb testing.TB, limit time.Duration, what string, holds func() bool) {
	tb.Helper()
	for end := time.Now().Add(limit); !holds(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			require.FailNow(tb, what)
		}
	}
}
