package drivertest

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"maps"
	mrand "math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/store/driver"
)

// Options of [TestDriver]. A nil pointer is the zero value.
type Options struct {
	// Reopen closes the database that it is given and opens it again. Without it, TestDriver does
	// not test whether data outlives a Close.
	Reopen func(testing.TB, driver.DB) driver.DB

	// Own reports whether an error wraps one of the database's own client, as all must that come
	// from there. It is nil for a database without a client.
	Own func(error) bool

	// Blind says that Replace cannot tell what came too late, and reports nothing.
	Blind bool
}

// A suite is a database under test, with the families that the checks share.
type suite struct {
	db   driver.DB
	o    Options
	name string       // families begin with it
	n    atomic.Int64 // of prefixes given, also to checks at the same time

	specs    map[string]driver.FamilySpec
	families map[string]driver.Family
	filled   bool // the family "edges"
}

func newSuite(db driver.DB, o Options) *suite {
	var id [6]byte
	_, _ = rand.Read(id[:])
	return &suite{
		db: db, o: o, name: "dt" + hex.EncodeToString(id[:]),
		specs: make(map[string]driver.FamilySpec), families: make(map[string]driver.Family),
	}
}

// kinds are the families of a suite. Checks share them, since to create one takes a second on some
// databases. A check that does not need a whole family keeps to rows with a prefix of its own.
var kinds = map[string]driver.FamilySpec{
	"ordered":       {Layout: driver.LayoutOrdered},
	"wide":          {Layout: driver.LayoutWide},
	"edges":         {Layout: driver.LayoutOrdered},
	"prefix":        {Layout: driver.LayoutOrdered, PrefixBytes: 2},
	"spread":        {Layout: driver.LayoutOrdered, SpreadBits: 5},
	"spread_prefix": {Layout: driver.LayoutOrdered, PrefixBytes: 1, SpreadBits: 3},
	"batches":       {Layout: driver.LayoutOrdered, PrefixBytes: 1, SpreadBits: 3},
	"after":         {Layout: driver.LayoutOrdered, SpreadBits: 4},
	"after_prefix":  {Layout: driver.LayoutOrdered, PrefixBytes: 2},
	"parts":         {Layout: driver.LayoutOrdered, SpreadBits: 4},
	"parts_prefix":  {Layout: driver.LayoutOrdered, PrefixBytes: 2},
	"parts_wide":    {Layout: driver.LayoutWide},
}

// family returns the family of a kind, which lives as long as the suite.
func (s *suite) family(tb testing.TB, kind string) driver.Family {
	tb.Helper()
	if f := s.families[kind]; f != nil {
		return f
	}
	spec := kinds[kind]
	spec.Name = s.name + "_" + kind
	f, err := s.db.Family(context.Background(), spec)
	require.NoError(tb, err)
	s.specs[kind], s.families[kind] = spec, f
	return f
}

func (s *suite) ordered(tb testing.TB) driver.Family { return s.family(tb, "ordered") }
func (s *suite) wide(tb testing.TB) driver.Family    { return s.family(tb, "wide") }

// createAll creates all families at the same time.
func (s *suite) createAll(tb testing.TB) {
	all := slices.Sorted(maps.Keys(kinds))
	require.NoError(tb, together(len(all), func(i int) error {
		spec := kinds[all[i]]
		spec.Name = s.name + "_" + all[i]
		_, err := s.db.Family(context.Background(), spec)
		return err
	}))
	for _, kind := range all {
		s.family(tb, kind)
	}
}

// edges returns a family that holds a row for every edge but the empty one, and nothing else.
func (s *suite) edges(tb testing.TB) driver.Family {
	f := s.family(tb, "edges")
	if s.filled {
		return f
	}
	s.filled = true
	var ms []driver.Mutation
	for _, key := range shuffled(edges) {
		if key != "" {
			ms = append(ms, row(key, put("q", "of "+key)))
		}
	}
	apply(tb, f, ms...)
	return f
}

// prefix returns what the rows of one check begin with.
func (s *suite) prefix() string {
	return fmt.Sprintf("%04d/", s.n.Add(1))
}

// dropAll drops all families at the same time.
func (s *suite) dropAll(tb testing.TB) {
	all := slices.Collect(maps.Values(s.specs))
	require.NoError(tb, together(len(all), func(i int) error { return s.db.Drop(context.Background(), all[i].Name) }))
	clear(s.specs)
	clear(s.families)
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

// A check is one promise. It gets a [testing.TB] rather than a [testing.T], so that the package's
// own tests can watch it fail.
type check struct {
	name string
	on   func(testing.TB, *suite) []driver.Family

	// run tests a family. The rows that it makes begin with p: other checks share the family.
	run func(tb testing.TB, s *suite, f driver.Family, p string)
}

func (c check) test(tb testing.TB, s *suite) {
	for _, f := range c.on(tb, s) {
		c.run(tb, s, f, s.prefix())
	}
}

func onOrdered(tb testing.TB, s *suite) []driver.Family { return []driver.Family{s.ordered(tb)} }
func onWide(tb testing.TB, s *suite) []driver.Family    { return []driver.Family{s.wide(tb)} }
func onBoth(tb testing.TB, s *suite) []driver.Family {
	return []driver.Family{s.ordered(tb), s.wide(tb)}
}
func onPrefixed(tb testing.TB, s *suite) []driver.Family {
	return []driver.Family{s.family(tb, "prefix")}
}
func onEdges(tb testing.TB, s *suite) []driver.Family { return []driver.Family{s.edges(tb)} }
