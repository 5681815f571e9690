package cassandra

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/proxy"
	"github.com/rangecrypt/rangecrypt/store/driver"
)

// One node of three hangs: it takes what is sent to it, and answers nothing until later.
func TestSpeculation(t *testing.T) {
	c := keyspace(t)
	if len(c.Hosts) < 3 || replication(t) < 3 {
		t.Skip("needs three nodes that have copies of everything")
	}
	hanging := proxy.New(nil)
	t.Cleanup(hanging.Close)
	with := c
	with.Timeout = 3 * time.Second
	with.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		if address == c.Hosts[2] {
			return hanging.Dial(ctx, network, address)
		}
		return new(net.Dialer).DialContext(ctx, network, address)
	}
	without := with
	with.SpeculateAfter = 50 * time.Millisecond
	spec := driver.FamilySpec{Name: "rows", Layout: driver.LayoutOrdered, SpreadBits: 4}
	patient := openFamily(t, open(t, without), spec)
	quick := openFamily(t, open(t, with), spec)
	other := openFamily(t, open(t, c), spec)
	// This client does not know yet that the node hangs.
	keyed := openFamily(t, open(t, with), driver.FamilySpec{Name: "keyed", Layout: driver.LayoutWide})

	const n = 32 // in partitions of their own, of which each node is the first of some
	row := func(i int) []byte { return fmt.Appendf([]byte{byte(i << 3)}, "row %d", i) }
	value := func(i int, what string) driver.Cell {
		return driver.Cell{Qualifier: []byte("q"), Value: fmt.Appendf(nil, "%s %d", what, i)}
	}
	all := func(do func(i int) error) (failed int) {
		t.Helper()
		errs := make(chan error, n)
		for i := range n {
			go func() { errs <- do(i) }()
		}
		for range n {
			if err := <-errs; err != nil {
				failed++
			}
		}
		return failed
	}
	apply := func(f *family, what string) func(i int) error {
		return func(i int) error {
			return f.Apply(t.Context(), driver.Mutation{Row: row(i), Puts: []driver.Cell{value(i, what)}})
		}
	}
	has := func(f *family, what string) func(i int) error {
		return func(i int) error {
			cells, err := f.Get(t.Context(), row(i), driver.Slice{})
			if err == nil && (len(cells) != 1 || string(cells[0].Value) != string(value(i, what).Value)) {
				err = fmt.Errorf("row %d has %s", i, show(cells))
			}
			return err
		}
	}
	require.Zero(t, all(apply(quick, "first")))
	require.Zero(t, all(has(patient, "first")))

	hanging.Set(proxy.Weather{Hold: proxy.BothWays})
	require.NotZero(t, all(has(patient, "first")), "reads that wait for the node")
	require.NotZero(t, all(apply(patient, "first")), "writes that wait for it")
	began := time.Now()
	require.Zero(t, all(has(quick, "first")))
	require.Zero(t, all(apply(quick, "early")))
	require.Zero(t, all(has(quick, "early")))
	require.Less(t, time.Since(began), with.Timeout, "without waiting for the node")
	batch := make([]driver.Mutation, n)
	for i := range batch {
		batch[i] = driver.Mutation{Row: row(i), Puts: []driver.Cell{value(i, "early"), {Qualifier: []byte("r"), Value: []byte("r")}}}
	}
	require.NoError(t, quick.Apply(t.Context(), batch...))
	for i := range batch {
		batch[i] = driver.Mutation{Row: row(i), Puts: []driver.Cell{value(i, "late")}, Deletes: [][]byte{[]byte("r")}}
	}
	require.NoError(t, other.Apply(t.Context(), batch...))
	require.Zero(t, all(has(quick, "late")))

	// A conditional change is sent once.
	key := func(i int) []byte { return append([]byte("key "), row(i)...) }
	require.NotZero(t, all(func(i int) error {
		_, err := keyed.CheckAndPut(t.Context(), key(i), driver.Cell{Qualifier: []byte("q")}, value(i, "once"))
		return err
	}))

	// What was sent to the node arrives now. It is older than what another client has written since.
	hanging.Set(proxy.Weather{})
	require.Eventually(t, func() bool { return all(has(patient, "late")) == 0 }, 20*time.Second, 100*time.Millisecond)
	time.Sleep(time.Second)
	require.Zero(t, all(has(other, "late")))
}

// Nodes ask a second replica in time for a client that asks a second node; else the table is as the server makes it.
func TestSpeculationOfServers(t *testing.T) {
	c := keyspace(t)
	for name, set := range map[string]struct {
		after  time.Duration
		server map[driver.Layout]string
	}{
		"never": {0, map[driver.Layout]string{driver.LayoutOrdered: "99p", driver.LayoutWide: "99p"}},
		"soon":  {time.Millisecond, map[driver.Layout]string{driver.LayoutOrdered: "1ms", driver.LayoutWide: "1ms"}},
		"later": {200 * time.Millisecond, map[driver.Layout]string{driver.LayoutOrdered: "100ms", driver.LayoutWide: "10ms"}},
	} {
		c.SpeculateAfter = set.after
		db := open(t, c)
		for _, layout := range []driver.Layout{driver.LayoutOrdered, driver.LayoutWide} {
			f := openFamily(t, db, driver.FamilySpec{Name: fmt.Sprintf("%s_%d", name, layout), Layout: layout})
			_, table, _ := strings.Cut(f.table, ".")
			var retry string
			require.NoError(t, db.system("SELECT speculative_retry FROM system_schema.tables WHERE keyspace_name = ? AND table_name = ?", db.keyspace, table).ScanContext(t.Context(), &retry))
			require.Equal(t, set.server[layout], retry, name)
		}
	}
}
