// Package e2e holds tests of whole systems: operating-system processes that share a database and
// are killed, servers that are killed and restarted under load, and networks that fail. Histories of
// what clients saw are checked for one order of everything (Herlihy and Wing, TOPLAS 1990), by
// porcupine.
package e2e
