package kms_test

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
	"github.com/rangecrypt/rangecrypt/store/kms"
)

// programOf returns a program that TestMain of package kms has.
func programOf(t *testing.T, behaviour ...string) *kms.Program {
	t.Helper()
	p, err := kms.NewProgram(append([]string{os.Args[0], "as-program"}, behaviour...), nil)
	require.NoError(t, err)
	return p
}

// A database goes from a key to a program, to another program, and back.
func TestRotationToProgramsAndBack(t *testing.T) {
	dir := t.TempDir()
	programs := map[string]*kms.Program{}
	for _, name := range []string{"one", "two"} {
		file := filepath.Join(dir, name)
		require.NoError(t, kms.WriteFile(file, ope.GenerateKey()))
		programs[name] = programOf(t, "local", file)
	}
	local := kms.NewLocal(ope.GenerateKey())
	passphrase, err := kms.NewPassphrase([]byte("correct horse"))
	require.NoError(t, err)
	db := drivertest.NewMemory()
	st, err := store.Open(background, db, local, nil)
	require.NoError(t, err)
	_, err = st.Create(background, store.Schema{Name: "t", Key: []store.KeyPart{store.HashedPart("k", store.String)}})
	require.NoError(t, err)

	var present kms.KMS = local
	for _, to := range []kms.KMS{programs["one"], programs["two"], local, programs["one"], programs["one"], passphrase, programs["two"]} {
		st, err := store.Open(background, db, present, nil)
		require.NoError(t, err)
		require.NoError(t, st.RotateMaster(background, to))
		if to != present {
			_, err = store.Open(background, db, present, nil)
			require.ErrorIs(t, err, store.ErrWrongKey)
			require.False(t, store.Retryable(err))
		}
		st, err = store.Open(background, db, to, nil)
		require.NoError(t, err)
		tables, err := st.Tables(background)
		require.NoError(t, err)
		require.Len(t, tables, 1)
		present = to
	}
}

// What is worth repeating is said to be, and no more than that; and what a failed rotation leaves is as it was.
func TestErrorsOfProgramsInAStore(t *testing.T) {
	db := drivertest.NewMemory()
	local := kms.NewLocal(ope.GenerateKey())
	st, err := store.Open(background, db, local, nil)
	require.NoError(t, err)
	for code, retryable := range map[string]bool{"1": false, "10": false, "11": true, "12": false} {
		p := programOf(t, "say", code, "", "no")
		err := st.RotateMaster(background, p)
		require.Equal(t, retryable, store.Retryable(err), "%s: %v", code, err)
		require.NotErrorIs(t, err, store.ErrWrongKey, "exit code 10 is about unwrapping")
		_, err = store.Open(background, drivertest.NewMemory(), p, nil)
		require.Equal(t, retryable, store.Retryable(err), "%s: %v", code, err)
	}
	// It must be able to undo what it did.
	err = st.RotateMaster(background, programOf(t, "bytes", "32"))
	require.ErrorContains(t, err, "cannot unwrap what it wrapped: program ")
	require.NotErrorIs(t, err, store.ErrWrongKey, "nothing is wrong with what the database holds")
	err = st.RotateMaster(background, programOf(t, "cat"))
	require.ErrorContains(t, err, "it answers with the key itself")

	if runtime.GOOS != "windows" {
		script := filepath.Join(t.TempDir(), "script")
		require.NoError(t, os.WriteFile(script, []byte("#!/no/such/interpreter\n"), 0o700))
		p, err := kms.NewProgram([]string{script}, nil)
		require.NoError(t, err)
		err = st.RotateMaster(background, p)
		require.ErrorContains(t, err, "no such interpreter")
		require.False(t, store.Retryable(err), "what stays so until somebody acts")
	}
	_, err = store.Open(background, db, local, nil)
	require.NoError(t, err)
}

// What no function has made has no key. A database is not opened with it, and nothing panics.
func TestZeroServicesHaveNoKey(t *testing.T) {
	db := drivertest.NewMemory()
	st, err := store.Open(background, db, kms.NewLocal(ope.GenerateKey()), nil)
	require.NoError(t, err)
	for _, service := range []kms.KMS{
		&kms.Local{}, (*kms.Local)(nil), kms.NewLocal(ope.Key{}),
		&kms.Passphrase{}, (*kms.Passphrase)(nil), &kms.Program{}, (*kms.Program)(nil),
	} {
		_, err := service.Wrap(background, make([]byte, ope.KeySize))
		require.ErrorIs(t, err, ope.ErrKey, "%T", service)
		for _, wrapped := range [][]byte{nil, {2}, {'p'}, {'x'}, make([]byte, 64)} {
			_, err = service.Unwrap(background, wrapped)
			require.ErrorIs(t, err, ope.ErrKey, "%T", service)
		}
		for _, in := range []driver.DB{db, drivertest.NewMemory()} {
			_, err = store.Open(background, in, service, nil)
			require.ErrorIs(t, err, ope.ErrKey, "%T", service)
			require.False(t, store.Retryable(err))
		}
		require.ErrorIs(t, st.RotateMaster(background, service), ope.ErrKey, "%T", service)
		if l, ok := service.(*kms.Local); ok {
			require.Zero(t, l.ID())
		}
	}
}
