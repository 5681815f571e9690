package store_test

import (
	"context"
	"flag"
	"math/rand/v2"
	"runtime/debug"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/rangecrypt/rangecrypt/internal/sim"
	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/kms"
)

var (
	seedFlag = flag.Uint64("store.seed", 0, "seed of random tests; 0 draws one")
	opsFlag  = flag.Int("store.ops", sim.LongShare(100, 60, 40), "operations of a model-based test, for each schema and database")
)

func TestMain(m *testing.M) {
	flag.Parse()
	// Thousands of small databases are garbage soon: to collect it with each few megabytes takes a quarter of the time.
	debug.SetGCPercent(400)
	goleak.VerifyTestMain(m)
}

// seeded returns a source of random choices whose seed is printed.
func seeded(tb testing.TB) *rand.Rand {
	tb.Helper()
	seed := *seedFlag
	if seed == 0 {
		seed = rand.Uint64()
	}
	tb.Logf("-store.seed=%d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

var (
	background = context.Background()
	testKey    = func() ope.Key {
		key, err := ope.NewKey([]byte("thirty-two bytes of a test's key"))
		if err != nil {
			panic(err)
		}
		return key
	}()
)

// The values of [store.Schema.CellPerColumn].
const packed, cellPerColumn = false, true

func open(tb testing.TB, db driver.DB) *store.Store {
	tb.Helper()
	st, err := store.Open(background, db, kms.NewLocal(testKey), nil)
	require.NoError(tb, err)
	if _, test := tb.(*testing.T); test {
		require.NoError(tb, st.Close(background)) // writes leave nothing to do, so that tests see all that they do
	}
	return st
}

func create(tb testing.TB, st *store.Store, schema store.Schema) *store.Table {
	tb.Helper()
	tbl, err := st.Create(background, schema)
	require.NoError(tb, err)
	return tbl
}

func collect(tb testing.TB, tbl *store.Table, q store.Query) []store.Row {
	tb.Helper()
	var rows []store.Row
	for row, err := range tbl.Query(background, q) {
		require.NoError(tb, err)
		rows = append(rows, row)
	}
	return rows
}

// readings is the running example: all rows of a device are together, by time.
var readings = store.Schema{
	Name: "readings",
	Key: []store.KeyPart{
		store.HashedPart("device", store.String),
		store.OrderedPart("time", store.Time(time.Millisecond), store.MOPE),
		store.TiePart("id"),
	},
	Columns: []store.Column{
		store.OrderedColumn("temperature", store.Float64, store.Boldyreva),
		store.DeterministicColumn("status", store.String),
		store.RandomisedColumn("note", store.String),
		store.PlainColumn("zone", store.Int32),
		store.OrderedColumn("name", store.String, store.Boldyreva),
	},
}
