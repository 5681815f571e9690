package command

import (
	"bytes"
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/cli"
	"github.com/rangecrypt/rangecrypt/internal/cli/exit"
	"github.com/rangecrypt/rangecrypt/internal/intercept"
	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
	"github.com/rangecrypt/rangecrypt/store/inspect"
	"github.com/rangecrypt/rangecrypt/store/kms"
)

// Columns that share a key and have two are an error.
func TestKeysThatAreNotShared(t *testing.T) {
	column := func(name, key, other string) inspect.Field {
		return inspect.Field{Name: name, SearchKey: key, SharedWith: []string{other}}
	}
	d := inspect.Database{Tables: []inspect.Table{
		{Name: "t", Columns: []inspect.Field{column("a", "1", "u.b")}}, {Name: "u", Columns: []inspect.Field{column("b", "1", "t.a")}},
	}}
	require.NoError(t, checkShared(d))
	d.Tables[1].Columns[0].SearchKey = "2"
	require.ErrorContains(t, checkShared(d), "t.a and u.b share a key")
	require.Equal(t, exit.Wrong, exit.CodeOf(t.Context(), checkShared(d)))

	// Another column may have the name of one, with that of its table.
	d.Tables[1].Columns[0].SearchKey = "1"
	d.Tables = append(d.Tables, inspect.Table{Name: "u.b", Columns: []inspect.Field{{Name: "c", SearchKey: "3"}}}, inspect.Table{Name: "u", Columns: []inspect.Field{{Name: "b.c", SearchKey: "4"}}},
		inspect.Table{Name: "v", Columns: []inspect.Field{column("d", "3", "u.b.c")}})
	require.NoError(t, checkShared(d))
}

// A rotation of the master key whose answer is lost says which key is in force, and that the other one is to be kept where it may yet
// be, also if it was interrupted then.
func TestRotationWhoseAnswerIsLost(t *testing.T) {
	const keep = "the old key is in force, and the new one may yet be; keep both, and ask 'rangecrypt keys verify' in some seconds"
	for name, test := range map[string]struct {
		fate      drivertest.Fault // of the first attempt; others are refused
		interrupt bool
		code      exit.Code
		says      string
	}{
		"made":                  {drivertest.FailAfter, false, exit.OK, ""},
		"made, interrupted":     {drivertest.FailAfter, true, exit.OK, ""},
		"lost":                  {drivertest.Lose, false, exit.Unreachable, keep},
		"lost, interrupted":     {drivertest.Lose, true, exit.Interrupted, "interrupted; " + keep},
		"not made":              {drivertest.FailBefore, false, exit.Unreachable, "the old key is still in force"},
		"not made, interrupted": {drivertest.FailBefore, true, exit.Interrupted, "interrupted; the old key is still in force"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			attempts, armed := 0, false
			made := intercept.New(drivertest.NewMemory(), func(_ context.Context, op intercept.Op, call intercept.Call) error {
				err := call.Make(nil)
				if armed && op.Conditional() && test.interrupt {
					cancel()
				}
				return err
			}, nil)
			db := drivertest.NewFaulty(made, func(op drivertest.Op) drivertest.Fault {
				if !armed || !op.Conditional() {
					return drivertest.NoFault
				}
				if attempts++; attempts > 1 {
					return drivertest.FailBefore
				}
				if test.interrupt && test.fate != drivertest.FailAfter {
					cancel()
				}
				return test.fate
			})
			st, err := store.Open(ctx, db, kms.NewLocal(ope.GenerateKey()), nil)
			require.NoError(t, err)
			armed = true
			var out bytes.Buffer
			c := &cli.Call{Env: &cli.Env{Stdout: &out, Stderr: &out}, DB: db, Store: st}
			err = exit.Early(ctx, RotateMaster(ctx, c, kms.NewLocal(ope.GenerateKey())))
			require.Equal(t, test.code, exit.CodeOf(ctx, err), "%v", err)
			if test.says == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, test.says)
			}
		})
	}
}
