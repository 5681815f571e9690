// Package e2e holds tests of whole systems: operating-system processes that share a database and
// are killed.
package e2e
