package store_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/intercept"
	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/compare"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
	"github.com/rangecrypt/rangecrypt/store/index"
	"github.com/rangecrypt/rangecrypt/store/kms"
)

// Must panics with the error itself.
func TestMust(t *testing.T) {
	require.Equal(t, 1, store.Must(1, nil))
	_, err := store.ParseType("nothing")
	require.PanicsWithValue(t, err, func() { store.Must(1, err) })
}

// A catalogue that cannot be read after a write is no change of the schema.
func TestCatalogueUnreadAfterAWrite(t *testing.T) {
	gone := false
	db := intercept.New(drivertest.NewMemory(), func(_ context.Context, op intercept.Op, c intercept.Call) error {
		if gone {
			return driver.ErrUnavailable
		}
		err := c.Make(nil)
		gone = op.Method == "Apply" && strings.HasPrefix(op.Family, "t") && len(op.Family) == 33
		return err
	}, nil)
	tbl := create(t, open(t, db), store.Schema{Name: "t", Key: []store.KeyPart{store.HashedPart("id", store.Int64)}})
	err := tbl.Put(background, store.Row{"id": int64(1)})
	require.ErrorIs(t, err, driver.ErrUnavailable)
	require.ErrorContains(t, err, "after the write the catalogue could not be asked whether the schema had been changed: driver: database unavailable")
	require.NotContains(t, err.Error(), "as the schema was")
}

// What a caller has forgotten is an error and no panic.
func TestNothingGiven(t *testing.T) {
	key := []store.KeyPart{store.HashedPart("id", store.Int64)}
	st := open(t, drivertest.NewMemory())
	for name, column := range map[string]store.Column{
		"no scheme":    store.OrderedColumn("c", store.Int64, nil),
		"zero scheme":  store.OrderedColumn("c", store.Int64, store.KeyScheme{}),
		"zero mutable": store.OrderedColumn("c", store.Int64, store.MutableScheme{}),
		"no type":      store.RandomisedColumn("c", nil),
		"zero type":    store.RandomisedColumn("c", store.TypeOf[int64]{}),
		"zero ordered": store.OrderedColumn("c", store.TypeOf[int64]{}, store.MOPE),
		"zero column":  {},
	} {
		t.Run(name, func(t *testing.T) {
			require.NotPanics(t, func() { _ = column.Describe().String() })
			schema := store.Schema{Name: "t", Key: key, Columns: []store.Column{column}}
			require.ErrorIs(t, schema.Check(), store.ErrSchema)
			_, err := st.Create(background, schema)
			require.ErrorIs(t, err, store.ErrSchema)
		})
	}
	require.NotPanics(t, func() { _ = store.KeyPart{}.Describe().String() })
	_, err := st.Create(background, store.Schema{Name: "t", Key: []store.KeyPart{store.OrderedPart("id", store.Int64, store.KeyScheme{})}})
	require.ErrorIs(t, err, store.ErrSchema)

	tbl := create(t, st, store.Schema{Name: "t", Key: key, Columns: []store.Column{store.OrderedColumn("c", store.Int64, store.MOPE)}})
	for name, call := range map[string]func() error{
		"a nil row":      func() error { return tbl.Put(background, nil) },
		"a nil key":      func() error { _, err := tbl.Get(background, nil); return err },
		"a nil deletion": func() error { return tbl.Delete(background, nil) },
		"a nil service":  func() error { return st.RotateMaster(background, nil) },
		"no database":    func() error { _, err := store.Open(background, nil, kms.NewLocal(ope.GenerateKey()), nil); return err },
		"no index":       func() error { _, err := index.Open(background, nil, "x"); return err },
		"no change":      func() error { return st.Alter(background, "t", store.Change{}) },
		"zero change":    func() error { return st.Alter(background, "t", store.AddColumn(store.Column{})) },
	} {
		t.Run(name, func(t *testing.T) {
			require.NotPanics(t, func() { require.Error(t, call()) })
		})
	}
}

// Whatever fails is said once.
func TestErrorsAreSaidOnce(t *testing.T) {
	for _, conditional := range []bool{false, true} {
		down := false
		db := drivertest.NewFaulty(drivertest.NewMemory(), func(op drivertest.Op) drivertest.Fault {
			if down {
				return drivertest.FailBefore
			}
			return drivertest.NoFault
		})
		st := open(t, db)
		tbl := create(t, st, store.Schema{
			Name: "t", Conditional: conditional,
			Key:     []store.KeyPart{store.HashedPart("id", store.Int64)},
			Columns: []store.Column{store.OrderedColumn("c", store.Int64, store.MOPE)},
		})
		require.NoError(t, tbl.Put(background, store.Row{"id": 1, "c": 1}))
		down = true
		calls := map[string]error{
			"put":    tbl.Put(background, store.Row{"id": 1, "c": 2}, store.Row{"id": 2, "c": 2}),
			"delete": tbl.Delete(background, store.Row{"id": 1}),
		}
		if conditional {
			calls["update"] = tbl.Update(background, store.Row{"id": 1, "c": 2}, store.Row{"id": 2, "c": 2})
		}
		for call, err := range calls {
			require.ErrorIs(t, err, driver.ErrUnavailable, call)
			require.True(t, store.Retryable(err))
			require.Equal(t, 1, strings.Count(err.Error(), "may not have been written"), "%s: %v", call, err)
			require.Equal(t, 1, strings.Count(err.Error(), driver.ErrUnavailable.Error()), "%s: %v", call, err)
			require.NotContains(t, err.Error(), "schema", call)
		}
	}
	st := open(t, drivertest.NewMemory())
	tbl := create(t, st, readings)
	_, err := compare.StatsOf(tbl, "none")
	require.ErrorIs(t, err, store.ErrColumn)
	require.NotContains(t, err.Error(), "store: store:")
}

// A database that is closed is no database that is down.
func TestClosedDatabase(t *testing.T) {
	db := drivertest.NewMemory()
	st := open(t, db)
	schema := store.Schema{Name: "t", Key: []store.KeyPart{store.HashedPart("id", store.Int64)}}
	tbl := create(t, st, schema)
	require.NoError(t, db.Close())
	_, create := st.Create(background, schema)
	_, open := st.Table(background, "none")
	_, get := tbl.Get(background, store.Row{"id": 1})
	for _, err := range []error{create, open, get, tbl.Put(background, store.Row{"id": 1})} {
		require.ErrorIs(t, err, driver.ErrClosed)
		require.False(t, store.Retryable(err))
	}
}

// A wrong key is one sentence, and still what errors.Is looks for.
func TestWrongKeyIsOneSentence(t *testing.T) {
	db := drivertest.NewMemory()
	open(t, db)
	_, err := store.Open(background, db, kms.NewLocal(ope.GenerateKey()), nil)
	require.ErrorIs(t, err, store.ErrWrongKey)
	require.ErrorIs(t, err, kms.ErrWrongKey)
	require.EqualError(t, err, "store: the key or passphrase is not that of the database")
	require.False(t, store.Retryable(err))

	for said, of := range map[string]error{
		"":                               store.ErrWrongKey,
		": a service: key 7 is disabled": fmt.Errorf("a service: key 7 is disabled: %w", kms.ErrWrongKey),
		": a service":                    fmt.Errorf("a service: %w", store.ErrWrongKey),
	} {
		_, err = store.Open(background, db, brokenKMS{of}, nil)
		require.ErrorIs(t, err, store.ErrWrongKey)
		require.EqualError(t, err, "store: the key or passphrase is not that of the database"+said)

		_, err = store.Open(background, drivertest.NewMemory(), brokenKMS{of}, nil) // where there is no database yet
		require.EqualError(t, err, "store: wrap the database key: "+of.Error()+"; the fault is with the service, and not with the database")
	}
	_, err = store.Open(background, db, brokenKMS{fmt.Errorf("a service: %w: of key 7", kms.ErrWrongKey)}, nil)
	require.EqualError(t, err, "store: a service: of key 7")

	of := &serviceKMS{local: kms.NewLocal(ope.GenerateKey())}
	db = drivertest.NewMemory()
	_, err = store.Open(background, db, of, nil)
	require.NoError(t, err)
	_, err = store.Open(background, db, kms.NewLocal(ope.GenerateKey()), nil)
	require.ErrorIs(t, err, store.ErrWrongKey)
	require.EqualError(t, err, "store: the key of the database was wrapped by a key management service of another kind, or by a newer version (kms: not a wrapped key of a known format)")
}

// A serviceKMS wraps in a format of its own.
type serviceKMS struct{ local *kms.Local }

func (s *serviceKMS) Wrap(ctx context.Context, key []byte) ([]byte, error) {
	wrapped, err := s.local.Wrap(ctx, key)
	return append([]byte{0xee}, wrapped...), err
}

func (s *serviceKMS) Unwrap(ctx context.Context, wrapped []byte) ([]byte, error) {
	return s.local.Unwrap(ctx, wrapped[1:])
}

type brokenKMS struct{ err error }

func (b brokenKMS) Wrap(context.Context, []byte) ([]byte, error)   { return nil, b.err }
func (b brokenKMS) Unwrap(context.Context, []byte) ([]byte, error) { return nil, b.err }

// A key management service that is down may be asked again; one that refuses need not be.
func TestKMSDown(t *testing.T) {
	db := drivertest.NewMemory()
	open(t, db)
	dial := &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	for _, c := range []struct {
		err       error
		retryable bool
	}{
		{kms.ErrUnavailable, true},
		{fmt.Errorf("vault: sealed: %w", kms.ErrUnavailable), true},
		{fmt.Errorf("vault: %w", dial), true},
		{&net.OpError{Op: "dial", Err: &tls.CertificateVerificationError{Err: errors.New("unknown authority")}}, false},
		{errors.New("vault: permission denied"), false},
		{kms.ErrWrongKey, false},
	} {
		for _, db := range []driver.DB{db, drivertest.NewMemory()} {
			_, err := store.Open(background, db, brokenKMS{c.err}, nil)
			require.ErrorIs(t, err, c.err)
			require.Equal(t, c.retryable, store.Retryable(err), "%v", err)
		}
		err := open(t, drivertest.NewMemory()).RotateMaster(background, brokenKMS{c.err})
		require.ErrorIs(t, err, c.err)
		require.Equal(t, c.retryable, store.Retryable(err), "%v", err)
	}
}

// Errors name a type as ParseType reads it, and not as the catalogue has it.
func TestErrorsNameTypesThatParse(t *testing.T) {
	st := open(t, drivertest.NewMemory())
	tbl := create(t, st, store.Schema{
		Name: "t", Key: []store.KeyPart{store.HashedPart("id", store.Int64)},
		Columns: []store.Column{
			store.DeterministicColumn("u", store.UUID), store.RandomisedColumn("s", store.String.OrderedBy(32)), store.RandomisedColumn("w", store.Int8.Within(0, 9)),
		},
	})
	_, ordered := store.SchemaOf[struct {
		ID int64    `rangecrypt:"id,key=1,hashed"`
		U  [16]byte `rangecrypt:"u,type=uuid,ordered=mope"`
	}]("t")
	_, unordered := st.Create(background, store.Schema{
		Name: "o", Key: []store.KeyPart{store.HashedPart("id", store.Int64)}, Columns: []store.Column{store.OrderedColumn("u", store.UUID, store.MOPE)},
	})
	_, ranged := tbl.Count(background, store.Field[[16]byte]("u").AtLeast([16]byte{}))
	_, nan := tbl.Count(background, store.IsNaN("s"))
	_, bounded := st.Create(background, store.Schema{
		Name: "o", Key: []store.KeyPart{store.HashedPart("id", store.Int64)}, Columns: []store.Column{store.RandomisedColumn("s", store.Int8.Within(0, 9).OrderedBy(16))},
	})
	_, restricted := st.Create(background, store.Schema{
		Name: "o", Key: []store.KeyPart{store.HashedPart("id", store.Int64)}, Columns: []store.Column{store.RandomisedColumn("s", store.String.Within("a", "b"))},
	})
	for want, err := range map[string]error{
		"values of type uuid have no order: write": ordered, `column "u": values of type uuid have no order`: unordered,
		`"u": values of type uuid have no order`: ranged, "values of type string(32) are never NaN": nan, "type string cannot be restricted": restricted,
		"ordered by a number of bytes, not type int8 from 0 to 9":  bounded,
		"the type cannot be changed from int8 from 0 to 9 to int8": st.Alter(background, "t", store.ChangeColumn(store.PlainColumn("w", store.Int8))),
	} {
		require.ErrorContains(t, err, want)
	}
}
