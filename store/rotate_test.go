package store_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
	"github.com/rangecrypt/rangecrypt/store/kms"
)

// opensOnly returns which of the master keys opens the database, and fails unless exactly one does
// and the others are told to be wrong.
func opensOnly(t *testing.T, db driver.DB, keys map[string]ope.Key) (name string, st *store.Store) {
	t.Helper()
	for n, key := range keys {
		opened, err := store.Open(background, db, kms.NewLocal(key), nil)
		if err != nil {
			require.ErrorIs(t, err, store.ErrWrongKey, n)
			require.False(t, store.Retryable(err))
			continue
		}
		require.Empty(t, name, "two master keys open the database")
		name, st = n, opened
	}
	require.NotEmpty(t, name, "no master key opens the database")
	return name, st
}

// root returns the root of the catalogue as the database has it, and puts it back.
func root(t *testing.T, db driver.DB) (value []byte, restore func()) {
	t.Helper()
	family, err := db.Family(background, driver.FamilySpec{Name: "catalogue", Layout: driver.LayoutWide})
	require.NoError(t, err)
	cells, err := family.Get(background, []byte("catalogue"), driver.Slice{Only: [][]byte{{0}}})
	require.NoError(t, err)
	require.Len(t, cells, 1)
	return cells[0].Value, func() {
		require.NoError(t, family.Apply(background, driver.Mutation{Row: []byte("catalogue"), Puts: cells}))
	}
}

var aBalance = []store.Row{
	{"id": int64(1), "balance": int64(5), "owner": "ann"},
	{"id": int64(2), "balance": int64(6), "owner": "bob"},
	{"id": int64(3), "balance": int64(7), "owner": "cy"},
}

func TestMasterKeyIsRotated(t *testing.T) {
	memory := drivertest.NewMemory()
	keys := map[string]ope.Key{"old": ope.GenerateKey(), "new": ope.GenerateKey()}
	var wrote []drivertest.Op
	var counting atomic.Bool
	db := drivertest.NewFaulty(memory, func(op drivertest.Op) drivertest.Fault {
		if counting.Load() && !op.Reads() {
			wrote = append(wrote, op)
		}
		return drivertest.NoFault
	})
	st, err := store.Open(background, db, kms.NewLocal(keys["old"]), nil)
	require.NoError(t, err)
	tbl := create(t, st, accounts)
	require.NoError(t, tbl.Put(background, aBalance[0]))

	counting.Store(true)
	require.NoError(t, st.RotateMaster(background, kms.NewLocal(keys["new"])))
	counting.Store(false)
	name, again := opensOnly(t, memory, keys)
	require.Equal(t, "new", name)
	require.Len(t, wrote, 1, "nothing but the root is written")
	require.Equal(t, "CheckAndPut", wrote[0].Method)
	require.Equal(t, "catalogue", wrote[0].Family)

	// Clients that have the database open go on, and each sees what the others do.
	require.NoError(t, tbl.Put(background, aBalance[1]))
	other, err := again.Table(background, accounts.Name)
	require.NoError(t, err)
	require.Len(t, collect(t, other, store.Query{Where: balance.AtLeast(5)}), 2)
	require.NoError(t, other.Put(background, aBalance[2]))
	require.Len(t, collect(t, tbl, store.Query{Where: balance.AtLeast(5)}), 3)
	later := accounts
	later.Name = "made after the rotation"
	create(t, st, later)
	_, err = again.Table(background, later.Name)
	require.NoError(t, err)

	// To the key that it has is harmless.
	require.NoError(t, again.RotateMaster(background, kms.NewLocal(keys["new"])))
	name, _ = opensOnly(t, memory, keys)
	require.Equal(t, "new", name)

	// And back, by the client that opened it first.
	require.NoError(t, st.RotateMaster(background, kms.NewLocal(keys["old"])))
	name, _ = opensOnly(t, memory, keys)
	require.Equal(t, "old", name)
}

// A rotation by a client that does not know of another's is refused, and undoes nothing.
func TestRotationByTwoClients(t *testing.T) {
	memory := drivertest.NewMemory()
	keys := map[string]ope.Key{"first": ope.GenerateKey(), "second": ope.GenerateKey(), "third": ope.GenerateKey()}
	to := func(name string) kms.KMS { return kms.NewLocal(keys[name]) }
	a, err := store.Open(background, memory, kms.NewLocal(keys["first"]), nil)
	require.NoError(t, err)
	var lost error
	b, err := store.Open(background, drivertest.NewFaulty(memory, func(op drivertest.Op) drivertest.Fault {
		if lost != nil && op.Conditional() {
			lost = nil
			return drivertest.FailAfter
		}
		return drivertest.NoFault
	}), kms.NewLocal(keys["first"]), nil)
	require.NoError(t, err)
	require.NoError(t, a.RotateMaster(background, to("second")))
	for range 2 {
		err = b.RotateMaster(background, to("third"))
		require.ErrorIs(t, err, store.ErrWrongKey)
		require.ErrorContains(t, err, "open the database again with the present one")
		require.False(t, store.Retryable(err))
	}
	name, _ := opensOnly(t, memory, keys)
	require.Equal(t, "second", name)

	// What it is rotated to already is no conflict; and then this client knows it.
	require.NoError(t, b.RotateMaster(background, to("second")))
	lost = driver.ErrUnknownOutcome
	require.NoError(t, b.RotateMaster(background, to("third")))
	require.NoError(t, b.RotateMaster(background, to("first")))
	require.ErrorIs(t, a.RotateMaster(background, to("third")), store.ErrWrongKey)
	name, _ = opensOnly(t, memory, keys)
	require.Equal(t, "first", name)
}

// A client that dies at any call of a rotation leaves a database that exactly one of the two keys
// opens, with all that it holds; and the other key is told to be wrong. So does one that is told
// too little of what became of its calls.
func TestRotationThatIsInterrupted(t *testing.T) {
	faults := map[string]drivertest.Fault{
		"dies before": drivertest.CrashBefore, "dies after": drivertest.CrashAfter,
		"refused": drivertest.FailBefore, "lost": drivertest.Lose, "late": drivertest.FailLate, "answer lost": drivertest.FailAfter,
	}
	ended := map[string]int{}
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			interrupted := 0
			for n := 1; ; n++ {
				memory := drivertest.NewMemory()
				keys := map[string]ope.Key{"old": ope.GenerateKey(), "new": ope.GenerateKey()}
				first, err := store.Open(background, memory, kms.NewLocal(keys["old"]), nil)
				require.NoError(t, err)
				require.NoError(t, create(t, first, accounts).Put(background, aBalance...))

				calls := 0
				db := drivertest.NewFaulty(memory, func(op drivertest.Op) drivertest.Fault {
					if op.Method == "Family" {
						return drivertest.NoFault
					}
					if calls++; calls == n+1 { // the first is of opening
						return fault
					}
					return drivertest.NoFault
				})
				st, err := store.Open(background, db, kms.NewLocal(keys["old"]), nil)
				require.NoError(t, err)
				require.Equal(t, 1, calls, "opening is one read")
				err = st.RotateMaster(background, kms.NewLocal(keys["new"]))
				if calls <= n {
					require.NoError(t, err)
					break // it did not come that far
				}
				interrupted++
				for range 3 { // late calls are made
					_, _ = db.Families(background)
				}

				which, again := opensOnly(t, memory, keys)
				ended[which]++
				if err == nil {
					require.Equal(t, "new", which, "%s at call %d", name, n)
				} else {
					require.True(t, store.Retryable(err), "%v", err)
				}
				tbl, err := again.Table(background, accounts.Name)
				require.NoError(t, err)
				require.Len(t, collect(t, tbl, store.Query{Where: balance.AtLeast(0)}), len(aBalance))

				// Doing it again, with whichever key opens it, ends well.
				require.NoError(t, again.RotateMaster(background, kms.NewLocal(keys["new"])))
				which, _ = opensOnly(t, memory, keys)
				require.Equal(t, "new", which)
			}
			require.GreaterOrEqual(t, interrupted, 2, "a rotation is a read and a write")
		})
	}
	require.Positive(t, ended["old"])
	require.Positive(t, ended["new"])
}

// Another client makes a table, or rotates, between the read and the write of a rotation.
func TestRotationLosesNoOtherChange(t *testing.T) {
	others := ope.GenerateKey()
	for name, change := range map[string]func(*store.Store) error{
		"create": func(st *store.Store) error { _, err := st.Create(background, accounts); return err },
		"rotate": func(st *store.Store) error { return st.RotateMaster(background, kms.NewLocal(others)) },
	} {
		t.Run(name, func(t *testing.T) {
			memory := drivertest.NewMemory()
			keys := map[string]ope.Key{"old": ope.GenerateKey(), "new": ope.GenerateKey(), "other's": others}
			other, err := store.Open(background, memory, kms.NewLocal(keys["old"]), nil)
			require.NoError(t, err)
			writes := 0
			db := drivertest.NewFaulty(memory, func(op drivertest.Op) drivertest.Fault {
				if op.Family == "catalogue" && !op.Reads() && op.Method != "Family" {
					if writes++; writes == 1 {
						require.NoError(t, change(other))
					}
				}
				return drivertest.NoFault
			})
			st, err := store.Open(background, db, kms.NewLocal(keys["old"]), nil)
			require.NoError(t, err)
			err = st.RotateMaster(background, kms.NewLocal(keys["new"]))
			which, again := opensOnly(t, memory, keys)
			if name == "rotate" {
				require.ErrorIs(t, err, store.ErrWrongKey)
				require.Equal(t, "other's", which)
				return
			}
			require.NoError(t, err)
			require.Equal(t, 2, writes, "the first one must have been refused")
			require.Equal(t, "new", which)
			schemas, err := again.Tables(background)
			require.NoError(t, err)
			require.Len(t, schemas, 1)
		})
	}
}

// Many clients rotate, make tables and write at the same time: nothing is lost, and the key of one
// of the rotations that succeeded last is the key.
func TestRotationsAmongOtherChanges(t *testing.T) {
	memory := drivertest.NewMemory()
	keys := map[string]ope.Key{"old": ope.GenerateKey()}
	st, err := store.Open(background, memory, kms.NewLocal(keys["old"]), nil)
	require.NoError(t, err)
	tbl := create(t, st, accounts)
	const clients = 4
	for i := range clients {
		keys[fmt.Sprint("new ", i)] = ope.GenerateKey()
	}
	var group sync.WaitGroup
	for i := range clients {
		group.Go(func() {
			for range 5 {
				if err := st.RotateMaster(background, kms.NewLocal(keys[fmt.Sprint("new ", i)])); err != nil {
					t.Error(err)
				}
			}
		})
		group.Go(func() {
			for j := range 5 {
				s := accounts
				s.Name = fmt.Sprint(i, " ", j)
				if _, err := st.Create(background, s); err != nil {
					t.Error(err)
				}
				if err := tbl.Put(background, store.Row{"id": int64(10*i + j), "balance": int64(1), "owner": "x"}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	which, again := opensOnly(t, memory, keys)
	require.NotEqual(t, "old", which)
	schemas, err := again.Tables(background)
	require.NoError(t, err)
	require.Len(t, schemas, 1+clients*5)
	tbl, err = again.Table(background, accounts.Name)
	require.NoError(t, err)
	require.Len(t, collect(t, tbl, store.Query{}), clients*5)
}

// What rotation does not do: whoever kept the old key and an old copy of one cell, the root, reads
// everything, also what was written since. And an operator who puts that cell back makes the old
// key valid again; nothing in the database can tell.
func TestRotationDoesNotRevokeCopies(t *testing.T) {
	memory := drivertest.NewMemory()
	keys := map[string]ope.Key{"old": ope.GenerateKey(), "new": ope.GenerateKey()}
	st, err := store.Open(background, memory, kms.NewLocal(keys["old"]), nil)
	require.NoError(t, err)
	create(t, st, accounts)
	_, restore := root(t, memory)
	require.NoError(t, st.RotateMaster(background, kms.NewLocal(keys["new"])))
	_, st = opensOnly(t, memory, keys)
	tbl, err := st.Table(background, accounts.Name)
	require.NoError(t, err)
	require.NoError(t, tbl.Put(background, aBalance...))
	restore()
	which, st := opensOnly(t, memory, keys)
	require.Equal(t, "old", which)
	tbl, err = st.Table(background, accounts.Name)
	require.NoError(t, err)
	require.Len(t, collect(t, tbl, store.Query{}), len(aBalance))
}

// A service that does not do what it should changes nothing.
func TestRotationToAServiceThatFails(t *testing.T) {
	memory := drivertest.NewMemory()
	keys := map[string]ope.Key{"old": ope.GenerateKey(), "new": ope.GenerateKey()}
	st, err := store.Open(background, memory, kms.NewLocal(keys["old"]), nil)
	require.NoError(t, err)
	before, _ := root(t, memory)
	down := fmt.Errorf("%w: no route to the service", driver.ErrUnavailable)
	good := kms.NewLocal(keys["new"])
	for name, to := range map[string]service{
		"does not wrap":          {wrap: func([]byte) ([]byte, error) { return nil, down }},
		"does not unwrap":        {wrap: masked, unwrap: func([]byte) ([]byte, error) { return nil, down }},
		"unwraps another":        {wrap: masked, unwrap: func([]byte) ([]byte, error) { return make([]byte, ope.KeySize), nil }},
		"unwraps a part":         {wrap: masked, unwrap: func(b []byte) ([]byte, error) { return b[:16], nil }},
		"wraps to nothing":       {wrap: func([]byte) ([]byte, error) { return nil, nil }, unwrap: masked},
		"wraps to more than fit": {wrap: func([]byte) ([]byte, error) { return make([]byte, 1<<20), nil }, unwrap: masked},
	} {
		t.Run(name, func(t *testing.T) {
			err := st.RotateMaster(background, to)
			require.Error(t, err)
			require.Equal(t, errors.Is(err, down), store.Retryable(err), "%v", err)
			if name == "unwraps a part" {
				require.ErrorContains(t, err, "has unwrapped a key of 16 bytes, need 32")
			}
			after, _ := root(t, memory)
			require.Equal(t, before, after)
		})
	}
	require.Error(t, st.RotateMaster(background, nil))
	require.ErrorIs(t, st.RotateMaster(background, kms.NewLocal(ope.Key{})), ope.ErrKey)
	ctx, cancel := context.WithCancel(background)
	cancel()
	require.ErrorIs(t, st.RotateMaster(ctx, good), context.Canceled)
	which, _ := opensOnly(t, memory, keys)
	require.Equal(t, "old", which)
}

// A service that unwraps another key than it wrapped may be at fault as well as the database.
func TestServiceThatUnwrapsAnotherKey(t *testing.T) {
	memory := drivertest.NewMemory()
	st, err := store.Open(background, memory, service{wrap: masked, unwrap: masked}, nil)
	require.NoError(t, err)
	require.NoError(t, st.Close(background))
	_, err = store.Open(background, memory, service{unwrap: func([]byte) ([]byte, error) { return make([]byte, ope.KeySize), nil }}, nil)
	require.ErrorIs(t, err, store.ErrTampered)
	require.ErrorContains(t, err, "or the key management service has unwrapped another key than it wrapped")
}

// service is a key management service made of two functions.
type service struct {
	wrap, unwrap func([]byte) ([]byte, error)
}

func (s service) Wrap(_ context.Context, key []byte) ([]byte, error)   { return s.wrap(key) }
func (s service) Unwrap(_ context.Context, key []byte) ([]byte, error) { return s.unwrap(key) }

// masked is its own inverse.
func masked(b []byte) ([]byte, error) {
	b = bytes.Clone(b)
	for i := range b {
		b[i] ^= 0xa5
	}
	return b, nil
}

// A passphrase opens what a key did, and the other way round; each tells what is wanted.
func TestRotationBetweenKeyAndPassphrase(t *testing.T) {
	memory := drivertest.NewMemory()
	key := ope.GenerateKey()
	st, err := store.Open(background, memory, kms.NewLocal(key), nil)
	require.NoError(t, err)
	said, err := kms.NewPassphrase([]byte("correct horse"))
	require.NoError(t, err)
	other, err := kms.NewPassphrase([]byte("battery staple"))
	require.NoError(t, err)

	_, err = store.Open(background, memory, said, nil)
	require.ErrorIs(t, err, store.ErrWrongKey)
	require.ErrorContains(t, err, "opened with a key, not with a passphrase")
	require.NoError(t, st.RotateMaster(background, said))
	_, err = store.Open(background, memory, kms.NewLocal(key), nil)
	require.ErrorIs(t, err, store.ErrWrongKey)
	require.ErrorContains(t, err, "opened with a passphrase, not with a key")
	_, err = store.Open(background, memory, other, nil)
	require.ErrorIs(t, err, store.ErrWrongKey)
	require.NotContains(t, err.Error(), "battery")
	st, err = store.Open(background, memory, said, nil)
	require.NoError(t, err)
	require.NoError(t, st.RotateMaster(background, kms.NewLocal(key)))
	_, err = store.Open(background, memory, kms.NewLocal(key), nil)
	require.NoError(t, err)
}
