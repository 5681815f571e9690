// Package house holds tests of the source itself: how long a function and a package may be, how many names the
// public package has, and that each exported name has a caller.
package house
