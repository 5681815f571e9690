package sim

import (
	"flag"
	"os"
	"slices"
	"strings"
)

// Full reports whether long tests run all their cases, but for those that are left to [Long]: RANGECRYPT_REQUIRE lists "full",
// as in .ci/run. Elsewhere a few are enough, the same in each run, so that all tests take minutes.
func Full() bool { return Required("full") }

// Long reports whether tests also do what need not be done with every change: RANGECRYPT_REQUIRE lists "long", as in
// .ci/long.
func Long() bool { return Required("long") }

// Required reports whether RANGECRYPT_REQUIRE lists a word: a test fails rather than skip what it lacks of that, or does more.
func Required(what string) bool {
	return slices.Contains(strings.Split(os.Getenv("RANGECRYPT_REQUIRE"), ","), what)
}

// Share returns how many cases a long test has: all of them if [Full], else few. It may be the default of a flag.
func Share(all, few int) int {
	if Full() {
		return all
	}
	return few
}

// LongShare returns how many cases a test has whose cases are many even for [Full]: all of them if [Long], some if Full, else few.
func LongShare(all, some, few int) int {
	if Long() {
		return all
	}
	return Share(some, few)
}

// Every returns 1 if [Long], n if [Full], else more: a test that could look at each case looks at each n-th.
func Every(n int) int { return LongShare(1, n, 2*n+1) }

// ManyAtOnce has parallel tests of a package wait side by side, 16 of them, since they need no processor meanwhile. TestMain
// calls it. A number on the command line goes before it.
func ManyAtOnce() {
	if err := flag.Set("test.parallel", "16"); err != nil {
		panic(err)
	}
}
