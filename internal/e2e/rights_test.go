package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/testdb"
	"github.com/rangecrypt/rangecrypt/internal/testdb/testcassandra"
	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/cassandra"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/kms"
)

// A rightsClient is a kind of client, with the rights that it needs on the keyspace.
type rightsClient struct {
	name   string // as in docs/operations.md
	rights []string
	do     func(ctx context.Context, st *store.Store, table string) error

	unsearched bool // its table has no column that is searched
}

const (
	rightsID     = store.Field[int64]("id")
	rightsDegree = store.Field[int64]("degree")
	rightsPlace  = store.Field[int64]("place")
	rightsRank   = store.Field[int64]("rank")
)

func rightsRow(n int) store.Row {
	return store.Row{"id": int64(n), "degree": int64(n), "place": int64(n), "rank": int64(n), "note": "x"}
}

var rightsClients = []rightsClient{
	{"reader", []string{"SELECT"}, func(ctx context.Context, st *store.Store, table string) error {
		tbl, err := st.Table(ctx, table)
		if err != nil {
			return err
		}
		if _, err := tbl.Get(ctx, store.Row{"id": int64(1)}); err != nil {
			return err
		}
		for _, where := range []store.Predicate{rightsID.AtLeast(0), rightsDegree.Between(1, 2), rightsPlace.AtLeast(0), rightsRank.Between(0, 7)} {
			found := 0
			for _, err := range tbl.Query(ctx, store.Query{Where: where}) {
				if err != nil {
					return err
				}
				found++
			}
			if found == 0 {
				return fmt.Errorf("a query found nothing")
			}
		}
		_, err = tbl.KeyUse(ctx, nil)
		return err
	}, false},
	{"verify", []string{"SELECT"}, func(ctx context.Context, st *store.Store, table string) error {
		tbl, err := st.Table(ctx, table)
		if err != nil {
			return err
		}
		return verify(ctx, tbl)
	}, false},
	{"writer", []string{"SELECT", "MODIFY"}, func(ctx context.Context, st *store.Store, table string) error {
		tbl, err := st.Table(ctx, table)
		if err != nil {
			return err
		}
		if err := tbl.Put(ctx, rightsRow(10), rightsRow(11)); err != nil {
			return err
		}
		if err := tbl.Put(ctx, rightsRow(10)); err != nil { // again
			return err
		}
		return tbl.Delete(ctx, store.Row{"id": int64(11)})
	}, false},
	{"convert, verify --repair, table reindex", []string{"SELECT", "MODIFY"}, func(ctx context.Context, st *store.Store, table string) error {
		tbl, err := st.Table(ctx, table)
		if err != nil {
			return err
		}
		if _, err := tbl.Convert(ctx, nil); err != nil {
			return err
		}
		for _, column := range []string{"place", "rank"} {
			if err := tbl.RebuildIndex(ctx, column, nil); err != nil {
				return err
			}
		}
		_, err = tbl.Verify(ctx, &store.VerifyOptions{Repair: true, Grace: time.Millisecond})
		return err
	}, false},
	{"changes of schemas, tenants, keys", []string{"SELECT", "MODIFY"}, func(ctx context.Context, st *store.Store, table string) error {
		if err := st.Alter(ctx, table, store.ChangeColumn(store.OrderedColumn("note", store.String, store.Boldyreva)), store.RenameColumn("degree", "level")); err != nil {
			return err
		}
		if err := st.RotateKeys(ctx, table); err != nil {
			return err
		}
		return st.CreateTenant(ctx, "tenant of "+table)
	}, false},
	{"a server index", []string{"SELECT", "MODIFY", "ALTER"}, func(ctx context.Context, st *store.Store, table string) error {
		tbl, err := st.Table(ctx, table)
		if err != nil {
			return err
		}
		note := store.OrderedColumn("note", store.String, store.Boldyreva)
		for _, is := range []store.Column{note.ServerIndex(), store.RandomisedColumn("note", store.String)} { // made, and dropped
			if err := st.Alter(ctx, table, store.ChangeColumn(is)); err != nil {
				return err
			}
			if _, err := tbl.Convert(ctx, nil); err != nil {
				return err
			}
			if err := tbl.Put(ctx, rightsRow(3)); err != nil {
				return err
			}
		}
		return nil
	}, false},
	{"first searched column of a table", []string{"SELECT", "MODIFY", "CREATE"}, func(ctx context.Context, st *store.Store, table string) error {
		if err := st.Alter(ctx, table, store.ChangeColumn(store.OrderedColumn("note", store.String, store.Boldyreva))); err != nil {
			return err
		}
		tbl, err := st.Table(ctx, table)
		if err != nil {
			return err
		}
		if _, err := tbl.Convert(ctx, nil); err != nil {
			return err
		}
		return tbl.Put(ctx, store.Row{"id": int64(3), "note": "y"})
	}, true},
	{"administrator of tables", []string{"SELECT", "MODIFY", "CREATE", "DROP"}, func(ctx context.Context, st *store.Store, table string) error {
		if _, err := st.Create(ctx, rightsSchema(table+" too")); err != nil {
			return err
		}
		// Cassandra lets a role drop what it has made itself: this one is somebody else's.
		return st.Drop(ctx, table)
	}, false},
}

func rightsSchema(name string) store.Schema {
	return store.Schema{
		Name: name, Key: []store.KeyPart{store.OrderedPart("id", store.Int64, store.Boldyreva)},
		Columns: []store.Column{
			store.OrderedColumn("degree", store.Int64, store.Boldyreva), store.OrderedColumn("place", store.Int64, store.Kerschbaum),
			store.OrderedColumn("rank", store.Int64, store.KerschbaumRanked),
			store.RandomisedColumn("note", store.String),
		},
	}
}

// secured returns the server of the environment, with a session of its superuser; the test is skipped where it asks for
// no login.
func secured(t *testing.T) (*testcassandra.Server, *gocql.Session) {
	t.Helper()
	if os.Getenv(testcassandra.Variable) == "" {
		t.Skipf("needs a Cassandra with logins: set %s to its URL", testcassandra.Variable)
	}
	server, err := testcassandra.New()
	require.NoError(t, err)
	if !server.Secured() {
		t.Skipf("%s names a Cassandra without logins; 'opebench servers up cassandra --secure' starts one with them", testcassandra.Variable)
	}
	session, err := server.Cluster().CreateSession()
	require.NoError(t, err)
	t.Cleanup(session.Close)
	return server, session
}

// Each kind of client works with exactly the rights that docs/operations.md lists. Without any one of them it fails, with
// an error that names the GRANT which is missing.
func TestRights(t *testing.T) {
	server, session := secured(t)
	i := slices.IndexFunc(testdb.All, func(d testdb.Database) bool { return d.Name == "cassandra" })
	keyspace := testdb.All[i].Reserve(t)
	key := kms.NewLocal(ope.GenerateKey())
	all, err := testdb.All[i].Join(t.Context(), keyspace)
	require.NoError(t, err)
	defer func() { require.NoError(t, all.Close()) }()
	st, err := store.Open(t.Context(), all, key, nil)
	require.NoError(t, err)

	number := 0
	// try has a new role with some rights do what a client does.
	try := func(c rightsClient, rights []string) (role string, err error) {
		number++
		table := fmt.Sprintf("table %d", number)
		schema, row := rightsSchema(table), rightsRow
		if c.unsearched {
			schema.Columns = schema.Columns[3:]
			row = func(n int) store.Row { return store.Row{"id": int64(n), "note": "x"} }
		}
		tbl, err := st.Create(t.Context(), schema)
		require.NoError(t, err)
		require.NoError(t, tbl.Put(t.Context(), row(1), row(2)))
		role = fmt.Sprintf("%s_%d", keyspace, number)
		statements := []string{fmt.Sprintf("CREATE ROLE %s WITH PASSWORD = 'of the test' AND LOGIN = true", role)}
		for _, right := range rights {
			statements = append(statements, fmt.Sprintf("GRANT %s ON KEYSPACE %s TO %s", right, keyspace, role))
		}
		t.Cleanup(func() { require.NoError(t, session.Query("DROP ROLE IF EXISTS "+role).Exec()) })
		for _, s := range statements {
			require.NoError(t, session.Query(s).Exec(), s)
		}
		db, err := cassandra.Open(t.Context(), cassandra.Config{
			Options: cassandra.Options{Keyspace: keyspace}, Hosts: server.Hosts, TLS: server.TLS, Username: role, Password: "of the test",
			Timeout: 30 * time.Second,
		})
		if err != nil {
			return role, err
		}
		defer func() { require.NoError(t, db.Close()) }()
		client, err := store.Open(t.Context(), db, key, nil)
		if err != nil {
			return role, err
		}
		return role, c.do(t.Context(), client, table)
	}
	for _, c := range rightsClients {
		t.Run(c.name, func(t *testing.T) {
			_, err := try(c, c.rights)
			require.NoError(t, err)
			for i, missing := range c.rights {
				role, err := try(c, slices.Concat(c.rights[:i], c.rights[i+1:]))
				require.ErrorIs(t, err, driver.ErrUnauthorised, "without %s", missing)
				require.ErrorContains(t, err, fmt.Sprintf("have an administrator GRANT %s ON KEYSPACE %s TO %s", missing, keyspace, role))
				require.False(t, store.Retryable(err))
				require.NotContains(t, err.Error(), "of the test")
			}
		})
	}
}

// The table of rights in docs/operations.md is that which is tested.
func TestRightsAreDocumented(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "operations.md"))
	require.NoError(t, err)
	var documented []string
	for _, row := range regexp.MustCompile("(?m)^\\| ([^|]+) \\| `GRANT ([A-Z, ]+)` \\|").FindAllStringSubmatch(string(text), -1) {
		documented = append(documented, row[1]+": "+row[2])
	}
	var tested []string
	for _, c := range rightsClients {
		tested = append(tested, c.name+": "+strings.Join(c.rights, ", "))
	}
	require.Equal(t, tested, documented)
}

// Who has no keyspace yet needs a right on all of them, and has every right on the one that it makes.
func TestRightToMakeKeyspaces(t *testing.T) {
	server, session := secured(t)
	i := slices.IndexFunc(testdb.All, func(d testdb.Database) bool { return d.Name == "cassandra" })
	keyspace := testdb.All[i].Reserve(t)
	role := keyspace + "_maker"
	require.NoError(t, session.Query(fmt.Sprintf("CREATE ROLE %s WITH PASSWORD = 'of the test' AND LOGIN = true", role)).Exec())
	t.Cleanup(func() { require.NoError(t, session.Query("DROP ROLE IF EXISTS "+role).Exec()) })
	config := cassandra.Config{
		Options: cassandra.Options{Keyspace: keyspace}, Hosts: server.Hosts, TLS: server.TLS, Username: role, Password: "of the test",
		Timeout: 30 * time.Second,
	}
	_, err := cassandra.Open(t.Context(), config)
	require.ErrorIs(t, err, driver.ErrUnauthorised)
	require.ErrorContains(t, err, "have an administrator make the keyspace, or GRANT CREATE ON ALL KEYSPACES TO "+role)

	require.NoError(t, session.Query("GRANT CREATE ON ALL KEYSPACES TO "+role).Exec())
	var db *cassandra.DB
	require.Eventually(t, func() bool { // the server remembers rights for a while
		db, err = cassandra.Open(t.Context(), config)
		return err == nil
	}, 20*time.Second, 100*time.Millisecond)
	defer func() { require.NoError(t, db.Close()) }()
	st, err := store.Open(t.Context(), db, kms.NewLocal(ope.GenerateKey()), nil)
	require.NoError(t, err)
	tbl, err := st.Create(t.Context(), rightsSchema("mine"))
	require.NoError(t, err)
	require.NoError(t, tbl.Put(t.Context(), rightsRow(1)))
	require.NoError(t, st.Drop(t.Context(), "mine"))
}

// A right that is taken from a client while it works is an error of that name, too.
func TestRightThatIsRevoked(t *testing.T) {
	server, session := secured(t)
	i := slices.IndexFunc(testdb.All, func(d testdb.Database) bool { return d.Name == "cassandra" })
	keyspace := testdb.All[i].Reserve(t)
	all, err := testdb.All[i].Join(t.Context(), keyspace)
	require.NoError(t, err)
	defer func() { require.NoError(t, all.Close()) }()
	role := keyspace + "_writer"
	for _, s := range []string{
		"CREATE ROLE " + role + " WITH PASSWORD = 'of the test' AND LOGIN = true",
		"GRANT SELECT ON KEYSPACE " + keyspace + " TO " + role, "GRANT MODIFY ON KEYSPACE " + keyspace + " TO " + role,
	} {
		require.NoError(t, session.Query(s).Exec(), s)
	}
	t.Cleanup(func() { require.NoError(t, session.Query("DROP ROLE IF EXISTS "+role).Exec()) })
	spec := driver.FamilySpec{Name: "rows", Layout: driver.LayoutOrdered}
	_, err = all.Family(t.Context(), spec)
	require.NoError(t, err)
	db, err := cassandra.Open(t.Context(), cassandra.Config{
		Options: cassandra.Options{Keyspace: keyspace}, Hosts: server.Hosts, TLS: server.TLS, Username: role, Password: "of the test",
	})
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	rows, err := db.Family(t.Context(), spec)
	require.NoError(t, err)
	put := func() error {
		return rows.Apply(t.Context(), driver.Mutation{Row: []byte("row"), Puts: []driver.Cell{{Qualifier: []byte("q"), Value: []byte("SESAME")}}})
	}
	require.NoError(t, put())
	require.NoError(t, session.Query("REVOKE MODIFY ON KEYSPACE "+keyspace+" FROM "+role).Exec())
	require.Eventually(t, func() bool { err = put(); return err != nil }, 20*time.Second, 50*time.Millisecond)
	require.ErrorIs(t, err, driver.ErrUnauthorised)
	require.ErrorContains(t, err, "GRANT MODIFY ON KEYSPACE "+keyspace+" TO "+role)
	require.NotContains(t, err.Error(), "SESAME")
}
