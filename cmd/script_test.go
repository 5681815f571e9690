package cmd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rangecrypt/rangecrypt/internal/cli/command"
	"github.com/rangecrypt/rangecrypt/internal/sim"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/kms"
	"github.com/rangecrypt/rangecrypt/store/pebble"
	"github.com/rogpeppe/go-internal/testscript"
	"github.com/stretchr/testify/require"
)

// The scripts in testdata/script show what the commands do, with real processes.
func TestScripts(t *testing.T) {
	found, err := filepath.Glob("testdata/script/*.txtar")
	require.NoError(t, err)
	require.NotEmpty(t, found)
	examples, err := filepath.Abs("testdata")
	require.NoError(t, err)
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(env *testscript.Env) error {
			env.Setenv("EXAMPLES", examples)
			if !testing.Short() { // the race detector is run with -short, and is to see threads
				env.Setenv("GOMAXPROCS", "1") // there are a thousand processes, each of which then costs a quarter less
			}
			return nil
		},
		Condition: func(name string) (bool, error) {
			switch name {
			case "openssl":
			case "full":
				return sim.Full(), nil
			case "long":
				return sim.Long(), nil
			default:
				return false, fmt.Errorf("no condition %q", name)
			}
			wraps := exec.Command("openssl", "enc", "-id-aes256-wrap", "-pbkdf2", "-pass", "pass:x")
			wraps.Stdin = strings.NewReader(strings.Repeat("k", 32))
			return wraps.Run() == nil, nil // there are others of that name
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":    exits,
			"hold":     hold,
			"broken":   broken,
			"unposted": unposted,
			"lost":     lost,
			"put":      put,
			"part":     part,
			"stopped":  stopped,
		},
	})
}

// exits CODE PROGRAM COMMAND runs a command and checks its exit code. What it printed is in the files
// out and err.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE PROGRAM [ARG...]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	var ended *exec.ExitError
	got := 0
	if errors.As(err, &ended) {
		got = ended.ExitCode()
	} else {
		ts.Check(err)
	}
	stdout, stderr := ts.ReadFile("stdout"), ts.ReadFile("stderr")
	if got != want {
		ts.Fatalf("exit code %d, want %d\nstdout:\n%s\nstderr:\n%s", got, want, stdout, stderr)
	}
	ts.Check(os.WriteFile(ts.MkAbs("out"), []byte(stdout), 0o600))
	ts.Check(os.WriteFile(ts.MkAbs("err"), []byte(stderr), 0o600))
}

// hold DIR keeps the embedded store in DIR open until the end of the script.
func hold(ts *testscript.TestScript, _ bool, args []string) {
	db, err := pebble.Open(ts.MkAbs(args[0]), nil)
	ts.Check(err)
	ts.Defer(func() { _ = db.Close() })
}

// broken DIR changes a byte in the cell of every row of the embedded store in DIR.
func broken(ts *testscript.TestScript, _ bool, args []string) {
	damage(ts, args[0], "t", math.MaxInt, func(row driver.Row) driver.Mutation {
		for _, c := range row.Cells {
			c.Value[len(c.Value)-1] ^= 1
		}
		return driver.Mutation{Row: row.Key, Puts: row.Cells}
	})
}

// unposted DIR dangling|hidden makes three postings in each family of postings with some in the
// embedded store in DIR that point to no row, or removes three.
func unposted(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 || args[1] != "dangling" && args[1] != "hidden" {
		ts.Fatalf("usage: unposted DIR dangling|hidden")
	}
	damage(ts, args[0], "x", 3, func(row driver.Row) driver.Mutation {
		if args[1] == "hidden" {
			return driver.Mutation{Row: row.Key, DeleteRow: true}
		}
		row.Key[len(row.Key)-1] ^= 1 // of another write
		return driver.Mutation{Row: row.Key, Puts: row.Cells}
	})
}

// lost DIR LETTERS drops the families of tables in the embedded store in DIR whose names begin with one of the letters, and of t
// drops the rows only.
func lost(ts *testscript.TestScript, _ bool, args []string) {
	if args[1] == "t" {
		damage(ts, args[0], "t", math.MaxInt, func(row driver.Row) driver.Mutation { return driver.Mutation{Row: row.Key, DeleteRow: true} })
		return
	}
	db, err := pebble.Open(ts.MkAbs(args[0]), nil)
	ts.Check(err)
	defer func() { ts.Check(db.Close()) }()
	names, err := db.Families(context.Background())
	ts.Check(err)
	for _, name := range names {
		if strings.Contains(args[1], name[:1]) {
			ts.Check(db.Drop(context.Background(), name))
		}
	}
}

// damage changes rows of families of a kind in the embedded store in dir, at most so many in each.
func damage(ts *testscript.TestScript, dir, kind string, most int, change func(driver.Row) driver.Mutation) {
	db, err := pebble.Open(ts.MkAbs(dir), nil)
	ts.Check(err)
	defer func() { ts.Check(db.Close()) }()
	changed, err := changeRows(context.Background(), db, kind, most, change)
	ts.Check(err)
	if changed == 0 {
		ts.Fatalf("there are no such rows")
	}
}

// changeRows changes rows of the families whose names begin with one of the letters, at most so many in each. A
// row whose change has no key stays, and one whose change has a shorter key goes.
func changeRows(ctx context.Context, db driver.DB, kinds string, most int, change func(driver.Row) driver.Mutation) (changed int, err error) {
	names, err := db.Families(ctx)
	if err != nil {
		return 0, err
	}
	for _, name := range names {
		if !strings.Contains(kinds, name[:1]) || len(name) != 33 {
			continue
		}
		var f driver.Family
		for _, spec := range []driver.FamilySpec{
			{Name: name, Layout: driver.LayoutOrdered, SpreadBits: 4}, {Name: name, Layout: driver.LayoutOrdered, PrefixBytes: 16},
			{Name: name, Layout: driver.LayoutOrdered, PrefixBytes: 4, SpreadBits: 4}, {Name: name, Layout: driver.LayoutWide},
		} {
			if f, err = db.Family(ctx, spec); !errors.Is(err, driver.ErrLayout) {
				break
			}
		}
		if err != nil {
			return changed, err
		}
		var mutations []driver.Mutation
		for row, err := range f.Scan(ctx, driver.Range{AnyOrder: true}) {
			if err != nil {
				return changed, err
			}
			if len(mutations) == most {
				break
			}
			key := bytes.Clone(row.Key)
			m := change(row)
			if m.Row == nil {
				continue
			}
			if mutations = append(mutations, m); len(m.Row) < len(key) {
				mutations = append(mutations, driver.Mutation{Row: key, DeleteRow: true})
			}
		}
		if err := f.Apply(ctx, mutations...); err != nil {
			return changed, err
		}
		changed += len(mutations)
	}
	return changed, nil
}

// put DIR KEYFILE TABLE TENANT FROM TO puts rows of these numbers into a table of the embedded store
// in DIR, whose columns are texts or, like its row key, int64. TENANT is empty
// for a table without tenants.
func put(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 6 {
		ts.Fatalf("usage: put DIR KEYFILE TABLE TENANT FROM TO")
	}
	from, err := strconv.Atoi(args[4])
	ts.Check(err)
	to, err := strconv.Atoi(args[5])
	ts.Check(err)
	withTenant(ts, args, func(ctx context.Context, tbl *store.Table) {
		ts.Check(putRows(ctx, tbl, from, to))
	})
}

func putRows(ctx context.Context, tbl *store.Table, from, to int) error {
	s := tbl.Schema()
	var rows []store.Row
	for i := from; i < to; i++ {
		row := store.Row{s.Key[0].Describe().Name: int64(i)}
		for _, c := range s.Columns {
			switch c.Describe().Type {
			case "int64":
				row[c.Describe().Name] = int64(i)
			case "float64":
				row[c.Describe().Name] = math.Sqrt(float64(2 - i)) // from the third row on NaN
			default:
				row[c.Describe().Name] = fmt.Sprintf("%s %d", c.Describe().Name, i)
			}
		}
		rows = append(rows, row)
	}
	return tbl.Put(ctx, rows...)
}

// part DIR KEYFILE TABLE TENANT converts a part of a tenant's rows and stops.
func part(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 4 {
		ts.Fatalf("usage: part DIR KEYFILE TABLE TENANT")
	}
	withTenant(ts, args, func(ctx context.Context, tbl *store.Table) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		_, err := tbl.Convert(ctx, func(done, _ int) {
			if done > 0 {
				cancel()
			}
		})
		if !errors.Is(err, context.Canceled) {
			ts.Fatalf("the conversion was to be stopped: %v", err)
		}
	})
}

// stopped DIR KEYFILE TABLE COLUMN begins to make the index of a column again and stops.
func stopped(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 4 {
		ts.Fatalf("usage: stopped DIR KEYFILE TABLE COLUMN")
	}
	withTenant(ts, []string{args[0], args[1], args[2], ""}, func(ctx context.Context, tbl *store.Table) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		if err := tbl.RebuildIndex(ctx, args[3], func(int) { cancel() }); !errors.Is(err, context.Canceled) {
			ts.Fatalf("the index was not to be finished: %v", err)
		}
	})
}

func withTenant(ts *testscript.TestScript, args []string, do func(context.Context, *store.Table)) {
	ctx := context.Background()
	db, err := pebble.Open(ts.MkAbs(args[0]), nil)
	ts.Check(err)
	defer func() { ts.Check(db.Close()) }()
	key, err := kms.ReadFile(ts.MkAbs(args[1]))
	ts.Check(err)
	st, err := store.Open(ctx, db, kms.NewLocal(key), nil)
	ts.Check(err)
	tbl, err := st.Table(ctx, args[2])
	if args[3] != "" {
		tbl, err = command.ForTenant(ctx, st, args[2], args[3])
	}
	ts.Check(err)
	do(ctx, tbl)
}
