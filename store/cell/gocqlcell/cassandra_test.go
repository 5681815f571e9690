package gocqlcell_test

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/testdb"
	"github.com/rangecrypt/rangecrypt/internal/testdb/testcassandra"
	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/cell"
	"github.com/rangecrypt/rangecrypt/store/cell/gocqlcell"
	"github.com/rangecrypt/rangecrypt/store/kms"
)

// cassandra returns a store, and a session of an application in a keyspace of its own.
func cassandra(t *testing.T) (*store.Store, *gocql.Session) {
	t.Helper()
	var st *store.Store
	for _, db := range testdb.All {
		if db.Name != "cassandra" {
			continue
		}
		db.Need(t)
		var err error
		st, err = store.Open(t.Context(), db.Open(t, nil), kms.NewLocal(ope.GenerateKey()), nil)
		require.NoError(t, err)
	}
	server, err := testcassandra.New()
	require.NoError(t, err)
	var id [6]byte
	rand.Read(id[:])
	keyspace := "shop_" + hex.EncodeToString(id[:])
	session, err := server.Make(t.Context(), keyspace)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, server.Drop(keyspace)) })
	t.Cleanup(session.Close)
	return st, session
}

func exec(t *testing.T, session *gocql.Session, statement string, values ...any) {
	t.Helper()
	require.NoError(t, session.Query(statement, values...).ExecContext(t.Context()), statement)
}

// indexed waits until the index of amounts is built: until then Cassandra refuses queries by it.
func indexed(t *testing.T, session *gocql.Session) {
	t.Helper()
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		assert.NoError(c, session.Query("SELECT amount_ct FROM orders WHERE amount_ct = 0").ExecContext(t.Context()))
	}, time.Minute, 50*time.Millisecond)
}

// A table with rows gets an encrypted column, and is asked for ranges by it. Its plaintext says what is right.
func TestColumnOfATableThatExists(t *testing.T) {
	t.Parallel()
	st, session := cassandra(t)
	exec(t, session, "CREATE TABLE orders (customer text, number int, at timestamp, amount bigint, PRIMARY KEY ((customer), number))")
	const rows = 300
	amounts := make(map[[2]string]int64)
	random := mathrand.New(mathrand.NewPCG(1, 2))
	for i := range rows {
		customer, amount := fmt.Sprintf("customer %d", i%7), random.Int64N(1000)-300
		amounts[[2]string{customer, fmt.Sprint(i)}] = amount
		exec(t, session, "INSERT INTO orders (customer, number, amount) VALUES (?, ?, ?)", customer, i, amount)
	}
	exec(t, session, "ALTER TABLE orders ADD (amount_ct varint, amount_cell blob, by_blob blob)")
	exec(t, session, "CREATE INDEX orders_by_amount ON orders (amount_ct) USING 'sai'")
	indexed(t, session)

	for pass, scheme := range []store.KeyScheme{store.Boldyreva, store.MOPE, store.Wozniak} {
		t.Run(scheme.String(), func(t *testing.T) {
			require.NoError(t, cell.Register(t.Context(), st, "shop.orders", store.OrderedColumn(scheme.String(), store.Int64.Within(-1e6, 1e6), scheme)))
			field, err := cell.Open(t.Context(), st, "shop.orders", store.Int64.Field(scheme.String()))
			require.NoError(t, err)

			// The rows that are there get their values.
			var customer string
			var number int
			var amount, written int64
			v := gocqlcell.For(field, &customer, &number)
			plain := session.Query("SELECT customer, number, amount, WRITETIME(amount) FROM orders").PageSize(50).IterContext(t.Context())
			for plain.Scan(&customer, &number, &amount, &written) {
				v.Set(amount)
				exec(t, session, "UPDATE orders USING TIMESTAMP ? SET amount_ct = ?, amount_cell = ?, by_blob = ? WHERE customer = ? AND number = ?",
					written+int64(pass), v.Search(), v.Sealed(), v.Search(), customer, number)
			}
			require.NoError(t, plain.Close())

			for range 12 {
				lo := random.Int64N(1200) - 400
				hi := lo + random.Int64N(400)
				r, err := field.Between(lo, hi)
				require.NoError(t, err)
				want := make(map[[2]string]int64)
				for key, amount := range amounts {
					if lo <= amount && amount <= hi {
						want[key] = amount
					}
				}
				for _, where := range []string{"amount_ct >= ? AND amount_ct < ?", "by_blob >= ? AND by_blob < ? ALLOW FILTERING"} {
					got := make(map[[2]string]int64)
					for _, iv := range r.Intervals {
						found := session.Query("SELECT amount_ct, amount_cell, customer, number FROM orders WHERE "+where, gocqlcell.Bound(iv.Start), gocqlcell.Bound(iv.End)).
							PageSize(50).IterContext(t.Context())
						for found.Scan(v.Search(), v.Sealed(), &customer, &number) {
							amount, err := v.Get()
							require.NoError(t, err)
							require.True(t, r.Has(amount), "the database found another value")
							got[[2]string{customer, fmt.Sprint(number)}] = amount
						}
						require.NoError(t, found.Close())
					}
					require.Equal(t, want, got, where)
				}
			}
		})
	}
	t.Run("damage", func(t *testing.T) { damage(t, st, session) })
}

// damage moves cells of the table between rows and columns.
func damage(t *testing.T, st *store.Store, session *gocql.Session) {
	field, err := cell.Open(t.Context(), st, "shop.orders", store.Int64.Field(store.Wozniak.String()))
	require.NoError(t, err)
	customer, number := "customer 1", 1
	v := gocqlcell.For(field, &customer, &number)
	read := func() error {
		const statement = "SELECT amount_ct, amount_cell FROM orders WHERE customer = ? AND number = ?"
		require.NoError(t, session.Query(statement, customer, number).ScanContext(t.Context(), v.Search(), v.Sealed()))
		_, err := v.Get()
		return err
	}
	write := func(columns string, values ...any) {
		exec(t, session, "UPDATE orders SET "+columns+" WHERE customer = ? AND number = ?", append(values, customer, number)...)
	}
	require.NoError(t, read())
	var ct, sealed []byte
	require.NoError(t, session.Query("SELECT by_blob, amount_cell FROM orders WHERE customer = 'customer 2' AND number = 2").ScanContext(t.Context(), &ct, &sealed))
	write("amount_ct = ?, amount_cell = ?", gocqlcell.Bound(ct), sealed)
	require.ErrorIs(t, read(), store.ErrTampered, "the cells of another row")

	v.Set(1)
	write("amount_ct = ?, amount_cell = ?", v.Search(), v.Sealed())
	require.NoError(t, read())
	v.Set(2)
	write("amount_ct = ?", v.Search())
	require.ErrorIs(t, read(), store.ErrTorn, "one column of a write")
	v.SetNull()
	write("amount_ct = ?, amount_cell = ?", v.Search(), v.Sealed())
	require.ErrorIs(t, read(), store.ErrNull)
	v.Set(3)
	write("amount_ct = ?, amount_cell = ?", v.Search(), v.Sealed())
	require.NoError(t, read())
	exec(t, session, "UPDATE orders SET amount = 4 WHERE customer = ? AND number = ?", customer, number)
	var written int64
	require.NoError(t, session.Query("SELECT WRITETIME(amount) FROM orders WHERE customer = ? AND number = ?", customer, number).ScanContext(t.Context(), &written))
	v.Set(5)
	write("amount = 5, amount_ct = ?, amount_cell = ?", v.Search(), v.Sealed())
	v.Set(4)
	exec(t, session, "UPDATE orders USING TIMESTAMP ? SET amount_ct = ?, amount_cell = ? WHERE customer = ? AND number = ?", written, v.Search(), v.Sealed(), customer, number)
	require.NoError(t, read())
	n, err := v.Get()
	require.NoError(t, err)
	require.Equal(t, int64(5), n, "who writes what was there loses to later writes")
	v.Set(1e9)
	err = session.Query("UPDATE orders SET amount_ct = ?, amount_cell = ? WHERE customer = ? AND number = ?", v.Search(), v.Sealed(), customer, number).ExecContext(t.Context())
	require.ErrorIs(t, err, ope.ErrDomain)
	require.NoError(t, read(), "nothing was written")
}

// The lines that docs/operations.md shows, between the two marks. They run below.
func worked(ctx context.Context, st *store.Store, session *gocql.Session, id gocql.UUID, found map[gocql.UUID]int64) error {
	// begin
	err := cell.Register(ctx, st, "shop.orders", store.OrderedColumn("amount", store.Int64, store.Boldyreva))
	amount := store.Must(cell.Open(ctx, st, "shop.orders", store.Int64.Field("amount")))
	v := gocqlcell.For(amount, &id) // the amount of the row that id names
	v.Set(1250)
	err = errors.Join(err, session.Query("UPDATE orders SET amount_ct = ?, amount_cell = ? WHERE id = ?", v.Search(), v.Sealed(), id).ExecContext(ctx))
	r := store.Must(amount.Between(1000, 2000))
	for _, iv := range r.Intervals {
		rows := session.Query("SELECT id, amount_ct, amount_cell FROM orders WHERE amount_ct >= ? AND amount_ct < ?", gocqlcell.Bound(iv.Start), gocqlcell.Bound(iv.End)).IterContext(ctx)
		for rows.Scan(&id, v.Search(), v.Sealed()) {
			if n := store.Must(v.Get()); r.Has(n) {
				found[id] = n
			}
		}
		err = errors.Join(err, rows.Close())
	}
	// end
	return err
}

const (
	page        = "../../../docs/operations.md"
	mostOfLines = 15
)

// The page shows the very lines that are compiled here, and there are few of them.
func TestPageShowsTheWorkedExample(t *testing.T) {
	source, err := os.ReadFile("cassandra_test.go")
	require.NoError(t, err)
	_, after, _ := strings.Cut(string(source), "\t// begin\n")
	lines, _, ended := strings.Cut(after, "\t// end\n")
	require.True(t, ended)
	lines = strings.ReplaceAll("\n"+lines, "\n\t", "\n")
	require.LessOrEqual(t, strings.Count(lines, "\n")-1, mostOfLines)
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	require.Contains(t, string(text), "```go"+lines+"```\n")
	for _, statement := range statements {
		require.Contains(t, string(text), "    "+statement+";\n")
	}
}

// statements are those of the page.
var statements = []string{"ALTER TABLE orders ADD (amount_ct varint, amount_cell blob)", "CREATE INDEX ON orders (amount_ct) USING 'sai'"}

func TestWorkedExample(t *testing.T) {
	t.Parallel()
	st, session := cassandra(t)
	exec(t, session, "CREATE TABLE orders (id uuid PRIMARY KEY, note text)")
	for _, statement := range statements {
		exec(t, session, statement)
	}
	indexed(t, session)
	id, found := gocql.MustRandomUUID(), make(map[gocql.UUID]int64)
	exec(t, session, "INSERT INTO orders (id, note) VALUES (?, 'of before')", id)
	require.NoError(t, worked(t.Context(), st, session, id, found))
	require.Equal(t, map[gocql.UUID]int64{id: 1250}, found)
	other := gocql.MustRandomUUID()
	require.NoError(t, worked(t.Context(), st, session, other, found), "registered again")
	require.Equal(t, map[gocql.UUID]int64{id: 1250, other: 1250}, found)
}

// One Value writes the rows of a batch, each with its own value and the time to live of its plaintext.
func TestBatchOfOneValue(t *testing.T) {
	t.Parallel()
	st, session := cassandra(t)
	exec(t, session, "CREATE TABLE orders (id int PRIMARY KEY, amount bigint, amount_ct varint, amount_cell blob)")
	require.NoError(t, cell.Register(t.Context(), st, "orders", store.OrderedColumn("amount", store.Int64, store.Boldyreva)))
	f, err := cell.Open(t.Context(), st, "orders", store.Int64.Field("amount"))
	require.NoError(t, err)
	const rows, lasting = 5, 10000
	id := 0
	v := gocqlcell.For(f, &id)
	batch := session.Batch(gocql.UnloggedBatch)
	for id = range rows {
		v.Set(int64(100 + id))
		batch.Query("UPDATE orders USING TTL ? SET amount_ct = ?, amount_cell = ? WHERE id = ?", id*lasting, v.Search(), v.Sealed(), id)
	}
	require.NoError(t, batch.ExecContext(t.Context()))

	read := 0
	var ttl *int
	all := session.Query("SELECT id, TTL(amount_cell), amount_ct, amount_cell FROM orders").IterContext(t.Context())
	for all.Scan(&id, &ttl, v.Search(), v.Sealed()) {
		n, err := v.Get()
		require.NoError(t, err)
		require.Equal(t, int64(100+id), n)
		require.Equal(t, id == 0, ttl == nil, "a TTL of 0 is none")
		read++
	}
	require.NoError(t, all.Close())
	require.Equal(t, rows, read)
}
