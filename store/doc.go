// Package store keeps encrypted tables in a wide-column database and runs range queries on them in the database. The database
// sees the order and equality of ordered columns, and no value that is encrypted; the keys stay with the client. Any number of
// independent clients share a database without a proxy: all that they have to agree on is in the database itself, sealed.
//
// A [Store] is opened on a [driver.DB] (packages store/pebble, store/cassandra and store/hbase)
// with a master key. Tables have a [Schema]: a row key out of plain, hashed and ordered parts,
// and columns that are plain, randomised, deterministic or ordered. Rows are written with
// [Table.Put] and found with [Table.Query], whose predicate is turned into ranges of ciphertexts.
//
// # What is stored
//
// The sealed cell is the truth, everything that is searched is a hint. A sealed cell holds the exact value under
// XChaCha20-Poly1305, bound to its table, column and row key. An ordered or deterministic column also has postings: keys
// of an index family that consist of what stands for the value (its ciphertext or a keyed hash), the row key and the id
// of the write. Or the database has an index of it, see [Column.ServerIndex]. A posting counts only if the cell that it
// points to has a value that satisfies the predicate, so that postings that a client left when it died do no harm.
//
// # What a query promises
//
// A row that nobody writes during the query is returned exactly once. One that somebody writes meanwhile may be returned
// as it was, or as it is, or not at all, even if its values stay the same. A server index may miss one, as said there.
// No row is returned twice. On a database with snapshots (store/pebble) a query sees one instant.
//
// # Tenants
//
// A table whose schema says so has rows of tenants, see [Store.CreateTenant] and [Table.Tenant]: each
// with keys of its own, and with a [Policy] of which columns are sealed, which may be changed at any
// time. Rows that are there are read as before, and rewritten by [Table.Convert].
//
// # Rows that expire
//
// Rows may have a time to live: all of a table the same, by [Schema.TTL], or each its own, by [TTLByRow] and
// [Table.Expiring]. The moment at which a row expires is sealed in it. Readers compare it with their clocks, which must
// differ by less than half an hour. From then on the row is as if it were deleted. The database removes its cells later.
//
// # Limits
//
// They are those of the databases, of which package driver has the least, and all of them hold on all databases. A row
// key has at most [driver.MaxRowKey] bytes (32,767): ciphertexts and hashes of 16 to 24 bytes a part, and the values of
// plain parts. In a row with a value in a searched column it has some 50 bytes less, since the posting of the value has it in
// its own key, and with Schema.AppendOnly 4, or 20 with tenants. A cell has at most [driver.MaxValue] (8 MiB); without
// Schema.CellPerColumn that is all sealed columns that are not searched, together. A row as a whole has at most
// [driver.MaxChange] (15 MiB), its key counted once for each cell; in a table with Schema.Conditional the cells have at most 10 MiB and the shared one 5 MiB.
//
// A Put or Update beyond them is [driver.ErrTooLarge] in a [RowError], and writes nothing; the error names the column and the
// limit. Only what an Update leaves as it is becomes known when the row is read: then the rows of its chunk are not written.
//
// # What is given away
//
// See docs/security.md: order and equality, the number and sizes of cells, which columns of a row are null, and which
// rows a query touches. An operator who puts old cells back, or leaves rows out, is not noticed.
//
// # Words
//
// Each has one meaning, here and in the packages below.
//
//   - view: what a client knows of a table, as of one version of the catalogue; never changed
//   - version: the number of changes of the catalogue
//   - since: the version from which something is as it is
//   - engine: reads and writes rows as of a view
//   - record: a row on its way to or from the database
//   - key cell: the first cell of a row, which says how all others are stored
//   - write: what gave a row its cells, with an id that all of them carry
//   - torn: of a row whose cells are of two writes
//   - posting: a key of an index family that leads from a value to a row
//   - index: where a stateful scheme keeps which ciphertext a value has
//   - unit: a part of an index, which is one row of the database
//   - truth: the sealed cell; hint: everything that is searched
//   - dangling: of a posting that leads to no row which agrees with it
//   - key part: a component of the row key; part: a share of the rows of a table, which is converted on its own
//   - former: of a column, the ids under which rows may have its values from before it was changed
//   - settle: to make sure, after a write, that rows are as the newest schema says
//   - convert: to store rows as the schema says that are stored otherwise
//   - driving: of the column or key whose ranges a query scans
//   - orphan: what is left of a tenant that was dropped
package store
