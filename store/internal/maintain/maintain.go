// Package maintain makes passes over a whole table, while readers and writers go on. One verifies it: it reads all rows,
// postings and indexes, and mends what is wrong. Others count keys, or delete what dropped tenants left. Whoever calls a pass adds which table it was of to an error.
package maintain
