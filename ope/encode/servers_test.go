package encode_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"
	"github.com/stretchr/testify/require"
	"github.com/tsuna/gohbase"
	"github.com/tsuna/gohbase/filter"
	"github.com/tsuna/gohbase/hrpc"

	"github.com/rangecrypt/rangecrypt/internal/sim"
	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/boldyreva"
	"github.com/rangecrypt/rangecrypt/ope/encode"
)

// salaries returns a column of amounts in cents that is encrypted under its own key.
func salaries(master ope.Key) (*encode.Column[int64], error) {
	codec := encode.Integer[int64]()
	scheme, err := boldyreva.New(master.Derive("staff", "salary"), codec.Domain(), nil)
	if err != nil {
		return nil, err
	}
	return encode.NewColumn(scheme, codec)
}

// ownCQL keeps an encrypted clustering column in a CQL table of one's own: rows of a partition are
// in the order of their salaries, and a range of salaries is a range of the column.
func ownCQL(ctx context.Context, session *gocql.Session, keyspace string, master ope.Key, out io.Writer) error {
	salary, err := salaries(master)
	if err != nil {
		return err
	}
	err = session.Query(`CREATE TABLE ` + keyspace + `.staff (team text, salary blob, id int,
		PRIMARY KEY (team, salary, id))`).ExecContext(ctx)
	if err != nil {
		return err
	}
	for id, cents := range []int64{310_000, 95_000, 420_000, 280_000} {
		c, err := salary.Encrypt(ctx, cents)
		if err != nil {
			return err
		}
		err = session.Query(`INSERT INTO `+keyspace+`.staff (team, salary, id) VALUES (?, ?, ?)`,
			"blue", []byte(c), id).ExecContext(ctx)
		if err != nil {
			return err
		}
	}
	// Boldyreva's scheme is linear: there is one interval at the most.
	intervals, err := salary.Between(ctx, 100_000, 400_000)
	if err != nil {
		return err
	}
	for _, iv := range intervals {
		rows := session.Query(`SELECT salary, id FROM `+keyspace+`.staff
			WHERE team = ? AND salary >= ? AND salary < ?`,
			"blue", []byte(iv.Start), []byte(iv.End)).IterContext(ctx)
		var c []byte
		var id int
		for rows.Scan(&c, &id) {
			cents, err := salary.Decrypt(ctx, c)
			if err != nil {
				return err
			}
			fmt.Fprintln(out, id, cents)
		}
		if err := rows.Close(); err != nil {
			return err
		}
	}
	return nil
}

// ownHBase keeps encrypted row keys in an HBase table of one's own. The ciphertext has a fixed
// length, so that an id can follow it; KeyRange gives the bounds of the scan.
func ownHBase(ctx context.Context, client gohbase.Client, table string, master ope.Key, out io.Writer) error {
	salary, err := salaries(master)
	if err != nil {
		return err
	}
	for id, cents := range []int64{310_000, 95_000, 420_000, 280_000} {
		c, err := salary.Encrypt(ctx, cents)
		if err != nil {
			return err
		}
		row := binary.BigEndian.AppendUint32(c, uint32(id))
		put, err := hrpc.NewPut(ctx, []byte(table), row, map[string]map[string][]byte{"f": {"team": []byte("blue")}})
		if err != nil {
			return err
		}
		if _, err := client.Put(put); err != nil {
			return err
		}
	}
	intervals, err := salary.Between(ctx, 100_000, 400_000)
	if err != nil {
		return err
	}
	for _, iv := range intervals {
		start, end := iv.KeyRange(nil)
		scan, err := hrpc.NewScanRange(ctx, []byte(table), start, end, hrpc.Filters(filter.NewKeyOnlyFilter(true)))
		if err != nil {
			return err
		}
		scanner := client.Scan(scan)
		for {
			row, err := scanner.Next()
			if err == io.EOF {
				break
			} else if err != nil {
				return err
			}
			key := row.Cells[0].Row
			cents, err := salary.Decrypt(ctx, key[:len(key)-4])
			if err != nil {
				return err
			}
			fmt.Fprintln(out, binary.BigEndian.Uint32(key[len(key)-4:]), cents)
		}
	}
	return nil
}

const paidBetween = "3 280000\n0 310000\n"

// An encrypted column in a CQL table of one's own, without package store. See ownCQL in the source.
func Example_ownCQLTable() {
	cluster := gocql.NewCluster("127.0.0.1")
	session, err := cluster.CreateSession()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer session.Close()
	if err := ownCQL(context.Background(), session, "payroll", ope.GenerateKey(), os.Stdout); err != nil {
		fmt.Println(err)
	}
}

// Encrypted row keys in an HBase table of one's own, without package store. See ownHBase in the
// source.
func Example_ownHBaseScan() {
	client := gohbase.NewClient("127.0.0.1")
	defer client.Close()
	if err := ownHBase(context.Background(), client, "staff", ope.GenerateKey(), os.Stdout); err != nil {
		fmt.Println(err)
	}
}

func TestOwnCQLTable(t *testing.T) {
	hosts := server(t, "cassandra")
	cluster := gocql.NewCluster(strings.Split(hosts, ",")...)
	cluster.Timeout = 30 * time.Second
	session, err := cluster.CreateSession()
	require.NoError(t, err)
	defer session.Close()
	keyspace := fmt.Sprintf("rangecrypt_own_%d", os.Getpid())
	require.NoError(t, session.Query(`CREATE KEYSPACE `+keyspace+
		` WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}`).ExecContext(t.Context()))
	defer func() { require.NoError(t, session.Query(`DROP KEYSPACE `+keyspace).Exec()) }()
	var out strings.Builder
	require.NoError(t, ownCQL(t.Context(), session, keyspace, ope.GenerateKey(), &out))
	require.Equal(t, paidBetween, out.String())
}

func TestOwnHBaseScan(t *testing.T) {
	quorum := server(t, "hbase")
	table := fmt.Sprintf("rangecrypt_own_%d", os.Getpid())
	admin := gohbase.NewAdminClient(quorum)
	create := hrpc.NewCreateTable(t.Context(), []byte(table), map[string]map[string]string{"f": nil})
	require.NoError(t, admin.CreateTable(create))
	defer func() {
		require.NoError(t, admin.DisableTable(hrpc.NewDisableTable(context.Background(), []byte(table))))
		require.NoError(t, admin.DeleteTable(hrpc.NewDeleteTable(context.Background(), []byte(table))))
	}()
	client := gohbase.NewClient(quorum)
	defer client.Close()
	var out strings.Builder
	require.NoError(t, ownHBase(t.Context(), client, table, ope.GenerateKey(), &out))
	require.Equal(t, paidBetween, out.String())
}

// server returns the address of a real server, or skips the test where the environment names none.
func server(t *testing.T, name string) string {
	t.Helper()
	variable := "RANGECRYPT_" + strings.ToUpper(name)
	address := os.Getenv(variable)
	if address == "" {
		if sim.Required(name) {
			t.Fatalf("RANGECRYPT_REQUIRE lists %s, but %s is not set", name, variable)
		}
		t.Skipf("needs a server: set %s to its address", variable)
	}
	return address
}
