package opetest

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/internal/vectortest"
)

func TestMain(m *testing.M) {
	// Schemes that are meant to fail leave no files and need no minimal examples.
	flag.Set("rapid.nofailfile", "true")
	flag.Set("rapid.shrinktime", "1ms")
	os.Exit(m.Run())
}

func linear(bug string) MakeFunc {
	return func(_ testing.TB, d ope.Domain) ope.Scheme { return newToy(d, false, bug) }
}

func shifted(bug string) MakeFunc {
	return func(_ testing.TB, d ope.Domain) ope.Scheme { return newToy(d, true, bug) }
}

func mutable(bug string) MakeFunc {
	return func(_ testing.TB, d ope.Domain) ope.Scheme { return newMutableToy(d, bug) }
}

func TestCorrectSchemesPass(t *testing.T) {
	t.Run("linear", func(t *testing.T) { TestScheme(t, linear("")) })
	t.Run("shifted", func(t *testing.T) { TestScheme(t, shifted("")) })
	t.Run("mutable", func(t *testing.T) { TestScheme(t, mutable("")) })
	t.Run("bare", func(t *testing.T) { // only the methods of ope.Scheme
		TestScheme(t, func(tb testing.TB, d ope.Domain) ope.Scheme {
			return struct{ ope.Scheme }{newToy(d, false, "")}
		})
	})
	t.Run("small domains only", func(t *testing.T) {
		TestScheme(t, func(tb testing.TB, d ope.Domain) ope.Scheme {
			if d.Span() > 1<<16 {
				tb.Skip("the domain is too large for a table")
			}
			return newToy(d, false, "")
		})
	})
}

// TestBrokenSchemesFail gives every rule a scheme that breaks it, and names the checks that
// have to notice.
func TestBrokenSchemesFail(t *testing.T) {
	broken := []struct {
		make   func(bug string) MakeFunc
		bug    string
		checks string
	}{
		{linear, "ID is empty", "ID"},
		{linear, "domain is another", "ID"},
		{shifted, "ID omits the domain", "ID"},
		{linear, "clamps", "OutsideDomain"},
		{linear, "value in the error", "OutsideDomain"},
		{linear, "value in the error in hexadecimal", "OutsideDomain"},
		{linear, "another error", "OutsideDomain"},
		{linear, "ciphertext beside an error", "OutsideDomain"},
		{linear, "order reversed", "Order"},
		{shifted, "order reversed", "Order"},
		{linear, "two values swapped", "Order"},
		{shifted, "two values swapped", "Order"},
		{shifted, "rotated twice", "Order"},
		{linear, "two values equal", "Order"},
		{linear, "length varies", "Length"},
		{linear, "not permanent", "Permanence"},
		{linear, "random key", "SameKeySameCiphertext"},
		{linear, "ciphertext is shared", "Ownership"},
		{linear, "context is heeded", "Context"},
		{mutable, "another error for a cancelled context", "Context"},
		{linear, "decrypts another value", "RoundTrip"},
		{linear, "decrypt changes its argument", "ForeignCiphertexts"},
		{linear, "decrypt ignores the length", "ForeignCiphertexts"},
		{linear, "decrypts outside the domain", "ForeignCiphertexts"},
		{linear, "decrypt skips the check", "ForeignCiphertexts"},
		{linear, "another error for a foreign ciphertext", "ForeignCiphertexts"},
		{linear, "append overwrites dst", "Append"},
		{linear, "append differs", "Append"},
		{linear, "append allocates", "AppendAllocatesNothing"},
		{linear, "not safe for concurrent use", "Concurrency"},
		{linear, "append returns nil with an error", "Append"},
		{linear, "batch sorts its argument", "Batch"},
		{linear, "batch is in sorted order", "Batch"},
		{linear, "batch drops duplicates", "Batch"},
		{linear, "batch of nothing is an error", "Batch"},
		{linear, "batch shares capacity", "Batch"},
		{linear, "batch shares duplicates", "Batch"},
		{linear, "batch does not name the position", "BatchOutsideDomain"},
		{linear, "batch returns some beside an error", "BatchOutsideDomain"},
		{linear, "batch skips what it cannot encrypt", "BatchOutsideDomain"},
		{linear, "interval misses the last", "Intervals"},
		{linear, "interval holds one more", "Intervals"},
		{linear, "interval misses the first", "Intervals"},
		{linear, "interval has no end", "Intervals"},
		{linear, "interval has a version", "Intervals"},
		{linear, "interval starts short", "Intervals"},
		{linear, "reversed bounds are an error", "Intervals"},
		{linear, "reversed bounds are swapped", "Intervals"},
		{linear, "bounds outside are an error", "Intervals"},
		{linear, "nothing is an empty interval", "Intervals"},
		{linear, "whole domain is like any other", "WholeDomain"},
		{shifted, "whole domain is like any other", "WholeDomain"},
		{shifted, "wrap-around is forgotten", "Intervals"},
		{shifted, "wrap-around in ciphertext order", "Intervals"},
		{shifted, "wrap-around overlaps", "Intervals"},
		{mutable, "ciphertexts have no version", "Model"},
		{mutable, "stale is an unknown ciphertext", "Model Rebalance"},
		{mutable, "stale is read", "Rebalance"},
		{mutable, "intervals write", "IntervalsPartial"},
		{mutable, "intervals have no version", "Rebalance"},
		{mutable, "range is half-open", "Range"},
		{mutable, "range drops one", "Range"},
		{mutable, "range is in descending order", "Range"},
		{mutable, "rebalance keeps the version", "Rebalance"},
		{mutable, "rebalance counts nothing", "Rebalance"},
		{mutable, "progress goes backwards", "Rebalance"},
	}
	proved := map[string]bool{}
	for _, b := range broken {
		name := strings.TrimPrefix(fmt.Sprintf("%T", b.make("")(t, ope.Int8)), "*")
		t.Run(name+"/"+b.bug, func(t *testing.T) {
			for _, c := range checks {
				if !slices.Contains(strings.Fields(b.checks), c.name) {
					continue
				}
				proved[c.name] = true
				if !caught(t, func() bool { return fails(t, c, b.make(b.bug)) }) && !(b.bug == "append allocates" && vectortest.RaceDetector()) {
					t.Errorf("the check %s passes", c.name)
				}
			}
		})
	}
	for _, c := range checks {
		if !proved[c.name] && !filtered() {
			t.Errorf("no broken scheme proves that the check %s can fail", c.name)
		}
	}
}

// caught reports whether a check that fails at random, as one of random histories does, fails at
// least once: the chance to miss must be too small to ever be met.
func caught(t *testing.T, fails func() bool) bool {
	for range 20 {
		if fails() {
			return true
		}
	}
	return false
}

// fails reports whether the check fails for the scheme on any domain.
func fails(t *testing.T, c check, make MakeFunc) bool {
	return slices.ContainsFunc(testDomains, func(d ope.Domain) bool {
		if c.applies != nil && !c.applies(make(t, d)) {
			return false
		}
		return record(t, func(tb testing.TB) { c.run(tb, newProbe(tb, make, d)) }).failed
	})
}

// recorder is a testing.TB that notes a failure instead of failing the test.
type recorder struct {
	testing.TB
	failed, skipped bool
	messages        []string
}

// record runs f on a goroutine of its own, as package testing does, so that FailNow can end it.
func record(tb testing.TB, f func(tb testing.TB)) *recorder {
	r := &recorder{TB: tb}
	done := make(chan struct{})
	go func() {
		defer close(done)
		f(r)
	}()
	<-done
	return r
}

func (r *recorder) Helper()         {}
func (r *recorder) Name() string    { return "recorded" }
func (r *recorder) Log(args ...any) { r.messages = append(r.messages, fmt.Sprint(args...)) }
func (r *recorder) Logf(f string, args ...any) {
	r.messages = append(r.messages, fmt.Sprintf(f, args...))
}
func (r *recorder) Fail()                       { r.failed = true }
func (r *recorder) FailNow()                    { r.failed = true; runtime.Goexit() }
func (r *recorder) Failed() bool                { return r.failed }
func (r *recorder) Error(args ...any)           { r.Log(args...); r.Fail() }
func (r *recorder) Errorf(f string, a ...any)   { r.Logf(f, a...); r.Fail() }
func (r *recorder) Fatal(args ...any)           { r.Log(args...); r.FailNow() }
func (r *recorder) Fatalf(f string, a ...any)   { r.Logf(f, a...); r.FailNow() }
func (r *recorder) Skip(args ...any)            { r.SkipNow() }
func (r *recorder) Skipf(f string, args ...any) { r.SkipNow() }
func (r *recorder) SkipNow()                    { r.skipped = true; runtime.Goexit() }
func (r *recorder) Skipped() bool               { return r.skipped }
