// Package cmd holds the tests of both programs together.
package cmd

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rangecrypt/rangecrypt/cmd/internal/admin"
	"github.com/rangecrypt/rangecrypt/cmd/internal/lab"
	"github.com/rangecrypt/rangecrypt/internal/cli"
	"github.com/rangecrypt/rangecrypt/internal/cli/exit"
	"github.com/rangecrypt/rangecrypt/internal/cli/stores"
	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
	"github.com/rangecrypt/rangecrypt/store/kms"
	"github.com/rogpeppe/go-internal/testscript"
	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"opebench":   func() { cli.Main(lab.New) },
		"rangecrypt": func() { cli.Main(admin.New) },
		"keeper":     keeper,
		"shop":       shop,
	})
}

// keeper is a program for --key exec:, with the arguments KEYFILE and wrap or unwrap. With another second argument before
// that, a number, it ends with it as its exit code; with "hang" it
// writes its number to the file KEYFILE.pid and never ends.
func keeper() {
	file, action := os.Args[1], os.Args[len(os.Args)-1]
	if len(os.Args) > 3 {
		if os.Args[2] == "hang" {
			_ = os.WriteFile(file+".pid", []byte(strconv.Itoa(os.Getpid())), 0o600)
			time.Sleep(time.Hour)
		}
		code, _ := strconv.Atoi(os.Args[2])
		fmt.Fprintln(os.Stderr, "told to end so")
		os.Exit(code)
	}
	line, err := io.ReadAll(os.Stdin)
	var in, out []byte
	if err == nil {
		in, err = base64.StdEncoding.DecodeString(strings.TrimSuffix(string(line), "\n"))
	}
	var key ope.Key
	if err == nil {
		key, err = kms.ReadFile(file)
	}
	if err == nil && action == "wrap" {
		out, err = kms.NewLocal(key).Wrap(context.Background(), in)
	} else if err == nil {
		out, err = kms.NewLocal(key).Unwrap(context.Background(), in)
	}
	switch {
	case errors.Is(err, kms.ErrWrongKey):
		os.Exit(10)
	case errors.Is(err, kms.ErrTampered):
		os.Exit(12)
	case err != nil:
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(base64.StdEncoding.EncodeToString(out))
}

// programs are both, with their commands.
var programs = map[string]func(*cli.Env) *cobra.Command{"opebench": lab.New, "rangecrypt": admin.New}

// programOf returns the program that has a command: opebench, where it is not one of administration.
func programOf(args []string) string {
	if len(args) > 0 && slices.Contains([]string{"keys", "lease", "migrate", "rekey", "table", "tenant", "verify"}, args[0]) {
		return "rangecrypt"
	}
	return "opebench"
}

// execute runs a command in this process.
func execute(e *cli.Env, args []string) exit.Code { return executeIn(context.Background(), e, args) }

func executeIn(ctx context.Context, e *cli.Env, args []string) exit.Code {
	return cli.Execute(ctx, e, programs[programOf(args)], args)
}

// testEnv returns an env whose stores are databases that wrap makes of databases in memory. A
// database is there again when it is opened again by the same name.
func testEnv(t *testing.T, wrap func(driver.DB) driver.DB) (e *cli.Env, stdout, stderr *bytes.Buffer) {
	t.Helper()
	stdout, stderr = &bytes.Buffer{}, &bytes.Buffer{}
	kept := map[string]driver.DB{}
	return &cli.Env{Stdout: stdout, Stderr: stderr, OpenStore: func(_ context.Context, name string, _ stores.How) (driver.DB, error) {
		if kept[name] == nil {
			kept[name] = wrap(drivertest.NewMemory())
		}
		return unclosed{kept[name]}, nil
	}}, stdout, stderr
}

type unclosed struct{ driver.DB }

func (unclosed) Close() error { return nil }

// start runs a command as a process of its own.
func start(t *testing.T, dir string, args ...string) (cmd *exec.Cmd, stdout, stderr *bytes.Buffer) {
	t.Helper()
	cmd = exec.Command(programOf(args), args...)
	cmd.Dir = dir
	stdout, stderr = &bytes.Buffer{}, &bytes.Buffer{}
	cmd.Stdout, cmd.Stderr = stdout, stderr
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	return cmd, stdout, stderr
}

// grown waits until the files below dir have so many bytes.
func grown(t *testing.T, dir string, bytes int64) {
	t.Helper()
	require.Eventually(t, func() bool {
		var size int64
		_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				if info, err := d.Info(); err == nil {
					size += info.Size()
				}
			}
			return nil // files come and go
		})
		return size >= bytes
	}, 2*time.Minute, 5*time.Millisecond)
}

func unixOnly(t *testing.T) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no such signals")
	}
}
