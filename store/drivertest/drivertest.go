// Package drivertest checks that a database keeps the promises of package driver. [TestDriver] has a
// subtest for each of them. The package also has a database in memory, a wrapper that makes any
// database fail, and a benchmark.
package drivertest

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/rangecrypt/rangecrypt/store/driver"
)

// waitingChecks wait for seconds, while others may run.
var waitingChecks = []check{
	{"cells end after their time to live", onOrdered, checkTTL},
	{"a replacement ends after its time to live", onOrdered, checkReplaceTTL},
}

// checks are in the order of the comments in package driver, after those that wait.
var checks = slices.Concat(waitingChecks, familyChecks, orderChecks, contractChecks, sliceChecks, headChecks, batchChecks, scanChecks, eachChecks, partitionChecks,
	applyChecks, replaceChecks, conditionChecks, snapshotChecks)

// TestDriver tests the database that open connects to. It opens the database once. The database need
// not be empty: the families of the test have names of their own, and are dropped at the end. The test
// must not run in parallel with others, since it counts goroutines that are left over as a failure.
//
// Random choices come from a seed that is printed; the environment variable DRIVERTEST_SEED sets it.
func TestDriver(t *testing.T, open func(testing.TB) driver.DB, o *Options) {
	if o == nil {
		o = &Options{}
	}
	before := goleak.IgnoreCurrent()
	s := newSuite(open(t), *o)
	closed := false
	t.Cleanup(func() {
		if !closed {
			s.dropAll(t)
			require.NoError(t, s.db.Close())
		}
	})
	s.createAll(t)
	t.Run("checks", func(t *testing.T) { // which ends when those that wait do
		for i, c := range checks {
			t.Run(c.name, func(t *testing.T) {
				if i < len(waitingChecks) {
					t.Parallel()
				}
				c.test(t, s)
			})
		}
	})
	t.Run("what was acknowledged stays after Close", func(t *testing.T) {
		if o.Reopen == nil {
			t.Skip("no Reopen given")
		}
		s.checkReopen(t)
	})
	t.Run("Close leaves no goroutine", func(t *testing.T) {
		family := s.ordered(t)
		s.dropAll(t)
		closed = true
		require.NoError(t, s.db.Close())
		require.NoError(t, goleak.Find(before))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		is := func(method string, err error) { require.ErrorIs(t, err, driver.ErrClosed, method) }
		_, err := family.Get(ctx, b("row"), driver.Slice{})
		is("Get", err)
		_, err = family.GetBatch(ctx, bs("row", "other"), driver.Slice{})
		is("GetBatch", err)
		is("Apply", family.Apply(ctx, row("row", put("", "x"))))
		require.NoError(t, goleak.Find(before))
	})
}
