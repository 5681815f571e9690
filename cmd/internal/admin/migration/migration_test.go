package migration

import (
	"bytes"
	"context"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/cmd/internal/admin/tables"
	"github.com/rangecrypt/rangecrypt/internal/cli"
	"github.com/rangecrypt/rangecrypt/internal/cli/command"
	"github.com/rangecrypt/rangecrypt/internal/cli/exit"
	"github.com/rangecrypt/rangecrypt/internal/cli/stores"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
	"github.com/rangecrypt/rangecrypt/store/inspect"
	"github.com/rangecrypt/rangecrypt/store/migrate"
)

// An orders is a source whose rows are the numbers of a slice, by their places.
type orders struct {
	amounts []int64
	written time.Time
	dropped bool
	few     bool // of its partitions are known
	odd     bool // it has a row whose key no table takes
	doubled bool // it yields a row twice, as two keys that are one in the table
	bare    bool // it has a row of nothing that is to be copied
	remains []migrate.Remain
}

func (o *orders) Name() string { return "memory:orders" }

func (o *orders) Now(context.Context) (time.Time, error) { return time.Now(), nil }

func (o *orders) Fingerprint(context.Context) (string, error) {
	if o.dropped {
		return "", driver.ErrNoFamily
	}
	return "1", nil
}

func (o *orders) Describe(context.Context) (migrate.Description, error) {
	if o.dropped {
		return migrate.Description{}, driver.ErrNoFamily
	}
	return migrate.Description{
		Key: []migrate.Column{{Name: "id", Type: store.Int64}}, Columns: []migrate.Column{{Name: "amount", Type: store.Int64}},
		Rows: int64(len(o.amounts)), Bytes: 100, AtLeast: o.few, BeforeDrop: []string{"Remove snapshots."},
	}, nil
}

func (o *orders) at(id int64) migrate.Found {
	return migrate.Found{Row: store.Row{"id": id, "amount": o.amounts[id]}, Exists: true, Written: o.written}
}

func (o *orders) Scan(_ context.Context, part inspect.Part) iter.Seq2[migrate.Found, error] {
	return func(yield func(migrate.Found, error) bool) {
		for id := range o.amounts {
			if id*part.Of/len(o.amounts) == part.Index && !yield(o.at(int64(id)), nil) {
				return
			}
		}
		if o.doubled && part.Index == 0 {
			yield(o.at(0), nil)
		}
		if o.bare && part.Index == 0 {
			yield(migrate.Found{Row: store.Row{"id": int64(1000)}}, nil)
		}
		if o.odd && part.Index == part.Of-1 {
			yield(migrate.Found{Row: make(store.Row), Exists: true, Refused: "its key is odd", Place: "place 7"}, nil)
		}
	}
}

func (o *orders) Read(_ context.Context, keys []store.Row) ([]migrate.Found, error) {
	found := make([]migrate.Found, len(keys))
	for i, key := range keys {
		if found[i].Row = key; key["id"].(int64) < int64(len(o.amounts)) {
			found[i] = o.at(key["id"].(int64))
		}
	}
	return found, nil
}

func (o *orders) Drop(context.Context) error                        { o.dropped = true; return nil }
func (o *orders) Remains(context.Context) ([]migrate.Remain, error) { return o.remains, nil }

// A migration goes from step to step by commands, and each says what comes next.
func TestMigrateCommands(t *testing.T) {
	dir := t.TempDir()
	db, source := drivertest.NewMemory(), &orders{amounts: make([]int64, 100)}
	key, schema := filepath.Join(dir, "key"), filepath.Join(dir, "orders.yaml")
	text := "table: orders\nconditional: true\nkey:\n  - {name: id, type: int64, encryption: hashed}\ncolumns:\n  - {name: amount, type: int64, encryption: ordered, scheme: mope}\n"
	require.NoError(t, os.WriteFile(schema, []byte(text), 0o600))
	root := func(e *cli.Env) *cobra.Command {
		open := func(context.Context, *origin, *cli.Call) (migrate.Source, func(), error) {
			return source, func() {}, nil
		}
		return cli.Root(e, &cobra.Command{Use: "rangecrypt"}, command.NewKeys(e), tables.New(e), newMigrate(e, open))
	}
	run := func(code exit.Code, says string, args ...string) {
		t.Helper()
		var out bytes.Buffer
		e := &cli.Env{Stdout: &out, Stderr: &out, OpenStore: func(context.Context, string, stores.How) (driver.DB, error) { return keptOpen{db}, nil }}
		require.Equal(t, code, cli.Execute(t.Context(), e, root, args), "%v: %s", args, &out)
		require.Contains(t, out.String(), says, "%v", args)
	}
	step := func(code exit.Code, says, name string, more ...string) {
		t.Helper()
		args := append([]string{"migrate", name, "orders", "--store", "pebble:data", "--key", key}, more...)
		if !strings.Contains("status pause resume abort", name) {
			args = append(args, "--from", "memory")
		}
		run(code, says, args...)
	}
	run(exit.OK, "", "keys", "generate", key)
	run(exit.OK, "", "table", "create", schema, "--store", "pebble:data", "--key", key)
	run(exit.Usage, "with --from", "migrate", "copy", "orders", "--store", "pebble:data", "--key", key)
	step(exit.OK, "no migration was prepared", "status")
	step(exit.Failed, "begin with prepare", "copy")
	step(exit.OK, "Before drop: Remove snapshots.", "prepare", "--plan")
	step(exit.OK, "The source has about 100 rows", "prepare", "--plan")
	step(exit.OK, "One process copies about 1s, if", "prepare", "--plan")
	source.few = true
	step(exit.OK, "The source has at least 100 rows", "prepare", "--plan")
	step(exit.OK, `"at_least":true`, "prepare", "--plan", "--json")
	step(exit.OK, "no migration was prepared", "status")
	source.odd = true
	step(exit.OK, "The first: migrate: the table does not take what the source has: its key is odd.\n", "prepare", "--plan")
	step(exit.OK, `"refused":1,"reason":"migrate: the table does not take what the source has: its key is odd"`, "prepare", "--plan", "--json")
	source.odd = false
	step(exit.OK, "It is prepared", "prepare")
	step(exit.OK, `"phase":"prepared"`, "status", "--json")
	step(exit.OK, "copied: 0 % of the source so far\n", "status")
	step(exit.OK, `"source_changed":null`, "status", "--json")
	step(exit.OK, `"source_changed":false`, "status", "--json", "--from", "memory")
	step(exit.OK, "nobody looked whether the schema of the source has changed", "status")
	source.dropped = true // by somebody else
	step(exit.Failed, "orders from memory:orders: prepared\nthe schema of the source cannot be read\n", "status", "--from", "memory")
	step(exit.Failed, "no such family", "status", "--from", "memory")
	step(exit.Failed, `"source_changed":null`, "status", "--json", "--from", "memory")
	source.dropped = false
	step(exit.OK, `"copied":34`, "copy", "--part", "0", "--parts", "3")
	step(exit.OK, "copied: 33 % of the source so far; in the parts that are done: 34 copied, 0 equal\n", "status")
	step(exit.OK, "is paused", "pause")
	step(exit.OK, "next: resume", "status")
	step(exit.Failed, "is paused: resume it first", "copy")
	step(exit.OK, "may be copied", "resume")
	source.odd = true
	step(exit.Failed, "\n1 row: migrate: the table does not take what the source has: its key is odd\n", "copy")
	source.odd = false
	step(exit.OK, "copied: 100 % of the source; 100 copied, ", "status")
	step(exit.Failed, "orders: 0 copied, 0 equal; all parts were done before; in all: 100 copied, 9 equal, 1 refused\n", "copy")
	step(exit.Failed, `"total":{"copied":100,"equal":9,"refused":1},"again":true`, "copy", "--json")
	step(exit.OK, "next: verify", "status")
	step(exit.Failed, "not verified", "cutover", "--yes")
	source.amounts[7] = 1250
	step(exit.Wrong, "the table has other values than the source", "verify")
	step(exit.OK, "next: verify --repair", "status")
	keys := filepath.Join(dir, "keys.jsonl")
	step(exit.Wrong, "the table has other values than the source", "verify", "--show-keys", keys)
	listed, err := os.ReadFile(keys)
	require.NoError(t, err)
	require.Regexp(t, `^\{"row":"[^"]+","key":\{"id":7\},"error":"the table has other values than the source"\}\n$`, string(listed))
	info, err := os.Stat(keys)
	require.NoError(t, err)
	require.Zero(t, info.Mode().Perm()&0o077, "only its owner may read it")
	step(exit.Failed, "exists: name another file", "verify", "--show-keys", keys)
	source.odd = true
	odd := filepath.Join(dir, "odd.jsonl")
	step(exit.Wrong, "its key is odd", "verify", "--repair", "--show-keys", odd)
	listed, err = os.ReadFile(odd)
	require.NoError(t, err)
	require.Regexp(t, `^\{"row":"[^"]+","key":null,"place":"place 7","error":"[^"]*its key is odd"\}\n$`, string(listed))
	source.odd = false
	step(exit.OK, "100 equal", "verify", "--repair")
	source.bare = true
	step(exit.OK, "orders: 0 copied, 100 equal, 1 of ignored cells only\n", "verify")
	step(exit.OK, `"equal":100,"ignored":1,`, "verify", "--json")
	source.bare = false
	step(exit.OK, `"equal":50`, "verify", "--part", "0", "--parts", "2")
	step(exit.OK, "orders: 0 copied, 50 equal; in all: 0 copied, 100 equal\n", "verify", "--repair")
	source.doubled = true
	step(exit.OK, "the source has 101 rows to be in the table, and the table has 100;", "verify")
	source.doubled = false
	step(exit.OK, "100 equal", "verify")
	step(exit.OK, "next: cutover", "status")
	step(exit.OK, "is cut over", "cutover", "--yes")
	step(exit.Failed, "is cut over", "abort", "--yes")
	source.amounts[8], source.written = 1250, time.Now()
	step(exit.Wrong, "written after the cut-over", "verify")
	step(exit.Failed, "verify it again", "drop", "--yes")
	source.amounts[8] = 0
	step(exit.OK, "100 equal", "verify")
	source.remains = []migrate.Remain{{What: "snapshot", Where: "node 1", Seen: true, Advice: "Clear it."}}
	step(exit.Failed, "snapshot (there): node 1: Clear it.", "drop", "--yes")
	require.True(t, source.dropped)
	source.remains[0].Seen = false
	step(exit.OK, "snapshot (possible)", "drop")
	step(exit.OK, "dropped", "status")
}

// keptOpen is a database that more than one command opens.
type keptOpen struct{ driver.DB }

func (keptOpen) Close() error { return nil }
