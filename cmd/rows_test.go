package cmd

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A table insert that is killed at any time goes on under its name, in a table with a tie-breaker and in one without:
// every row is there once then, with the values of the last row that has its key. Ctrl-C says how to go on. Index entries that
// cover have copies of all rows at the end, also of those that killed processes have written.
func TestKilledTableInsert(t *testing.T) {
	unixOnly(t)
	const n = 6000
	var input strings.Builder
	input.WriteString("id,note\n")
	for i := range n {
		fmt.Fprintf(&input, "%d,%d\n", i%(n/2), i)
	}
	tie := "\n  - {name: tie, encryption: tie}"
	for _, test := range []struct {
		name, key string // with the lines after it
		flags     []string
		bad       string
		want      int
		kills     int
		server    bool
	}{
		{"tie", tie, nil, "", n, 1, false},
		{"append-only", tie + "\nappend-only: true", nil, "", n, 1, false},
		{"covering", tie + "\nappend-only: true", nil, "", n, 4, false},
		{"covering, on a server", tie + "\nappend-only: true", nil, "", n, 4, true},
		{"no tie", "", []string{"--last-wins"}, "", n / 2, 1, false},
		{"bad rows", tie, []string{"--skip-bad", "--bad-file", "bad.jsonl"}, "x,1\n1\n2,y\n", n, 1, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir, data := t.TempDir(), "pebble:data"
			if test.server {
				data = urlOf(t)
			}
			run := func(code int, args ...string) (out, err string) {
				t.Helper()
				cmd := exec.Command("rangecrypt", args...)
				cmd.Dir = dir
				var stdout, stderr strings.Builder
				cmd.Stdout, cmd.Stderr = &stdout, &stderr
				_ = cmd.Run()
				require.Equal(t, code, cmd.ProcessState.ExitCode(), &stderr)
				return stdout.String(), stderr.String()
			}
			kept := []string{"--store", data, "--key", "key"}
			covering := ""
			if strings.HasPrefix(test.name, "covering") {
				covering = ", covering: true"
			}
			schema := "table: t\nkey:\n  - {name: id, type: int32, encryption: ordered, scheme: mope}" + test.key +
				"\ncolumns:\n  - {name: note, type: int32, encryption: ordered, scheme: boldyreva" + covering + "}\n"
			require.NoError(t, os.WriteFile(filepath.Join(dir, "t.yaml"), []byte(schema), 0o600))
			require.NoError(t, os.WriteFile(filepath.Join(dir, "in.csv"), []byte(input.String()+test.bad), 0o600))
			run(0, "keys", "generate", "key")
			run(0, slices.Concat([]string{"table", "create", "t.yaml"}, kept)...)
			insert := func(args ...string) []string {
				return slices.Concat([]string{"table", "insert", "t", "--input", "in.csv"}, kept, test.flags, args)
			}
			name := ""
			for kill := range test.kills + 1 {
				args := []string{"--batch", "5", "--writers", "2"}
				if name != "" {
					args = append(args, "--load", name)
				}
				cmd := exec.Command("rangecrypt", insert(args...)...)
				cmd.Dir = dir
				pipe, err := cmd.StdoutPipe()
				require.NoError(t, err)
				require.NoError(t, cmd.Start())
				line, err := bufio.NewReader(pipe).ReadString('\n')
				require.NoError(t, err)
				name = regexp.MustCompile(`^load ([0-9a-f]{16}-[0-9a-f]{10}): `).FindStringSubmatch(line)[1]
				switch {
				case kill == test.kills:
					time.Sleep(20 * time.Millisecond)
					require.NoError(t, cmd.Process.Signal(os.Interrupt))
				case kill == 0 && !test.server:
					grown(t, filepath.Join(dir, "data"), 100_000)
					require.NoError(t, cmd.Process.Kill())
				default:
					time.Sleep(time.Duration(rand.IntN(400)) * time.Millisecond)
					require.NoError(t, cmd.Process.Kill())
				}
				_ = cmd.Wait()
			}
			out, stderr := run(0, insert("--load", name)...)
			inserted, there := 0, 0
			_, err := fmt.Sscanf(regexp.MustCompile(`[0-9]+ rows inserted`).FindString(out), "%d", &inserted)
			require.NoError(t, err, out)
			_, _ = fmt.Sscanf(regexp.MustCompile(`[0-9]+ rows were there`).FindString(out), "%d", &there)
			require.Equal(t, test.want, inserted+there, "%s%s", out, stderr)
			require.Equal(t, test.key != "", there > 0, out)
			if test.bad != "" {
				text, err := os.ReadFile(filepath.Join(dir, "bad.jsonl"))
				require.NoError(t, err)
				found := regexp.MustCompile(`"row":[0-9]+`).FindAllString(string(text), -1)
				require.Equal(t, []string{`"row":6001`, `"row":6002`, `"row":6003`}, found)
				parts, err := filepath.Glob(filepath.Join(dir, ".bad*"))
				require.NoError(t, err)
				require.Empty(t, parts)
			}
			out, _ = run(0, slices.Concat([]string{"table", "export", "t", "--format", "csv", "--header", "no", "--select", "id,note"}, kept)...)
			rows := strings.Fields(out)
			require.Len(t, rows, test.want)
			slices.Sort(rows)
			require.Len(t, slices.Compact(rows), test.want, "no row is there twice")
			for i := n / 2; i < n; i++ {
				_, ok := slices.BinarySearch(rows, fmt.Sprintf("%d,%d", i%(n/2), i))
				require.True(t, ok, i)
			}
			if covering != "" {
				out, _ = run(0, slices.Concat([]string{"verify", "--json"}, kept)...)
				require.Contains(t, out, fmt.Sprintf(`"rows":%d,`, n))
				require.Contains(t, out, fmt.Sprintf(`"postings":%d,`, n))
				require.Contains(t, out, `"uncopied":0,`)
				out, _ = run(0, slices.Concat([]string{"table", "query", "t", "--where", fmt.Sprintf("note between 100 and %d", n), "--count"}, kept)...)
				require.Equal(t, fmt.Sprint(n-100), strings.TrimSpace(out))
			}
			// Another input is refused.
			require.NoError(t, os.WriteFile(filepath.Join(dir, "in.csv"), []byte(input.String()+test.bad+"1,1\n"), 0o600))
			_, stderr = run(2, insert("--load", name)...)
			require.Contains(t, stderr, "is not of this input")
		})
	}
}

// One signal ends a command that reads a schema from a standard input which has nothing more to read, and does not end.
func TestInterruptedWaitForSchema(t *testing.T) {
	unixOnly(t)
	for _, args := range []string{"create - --dry-run", "create - --store pebble:none --key none", "alter - --store pebble:none --key none"} {
		in, schema, err := os.Pipe()
		require.NoError(t, err)
		cmd := exec.Command("rangecrypt", append([]string{"table"}, strings.Fields(args)...)...)
		var stderr strings.Builder
		cmd.Dir, cmd.Stdin, cmd.Stderr = t.TempDir(), in, &stderr
		require.NoError(t, cmd.Start())
		require.NoError(t, in.Close())
		hung := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() })
		_, err = schema.WriteString(strings.Repeat("# more than a pipe keeps\n", 10_000)) // so it is read
		require.NoError(t, err)
		require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
		_ = cmd.Wait()
		require.True(t, hung.Stop(), "%s: it waits for the schema", args)
		require.NoError(t, schema.Close())
		require.Equal(t, 130, cmd.ProcessState.ExitCode(), &stderr)
		require.Equal(t, "rangecrypt: interrupted\n", stderr.String())
	}
}

// One signal ends a load of a standard input that has nothing more to read, and does not end: before its first byte, and after
// some rows.
func TestInterruptedWaitForRows(t *testing.T) {
	unixOnly(t)
	dir := t.TempDir()
	run := func(args string) string {
		cmd := exec.Command("rangecrypt", strings.Fields(args)...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s: %s", args, out)
		return string(out)
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "t.yaml"), []byte("table: t\nkey: [{name: id, type: int64, encryption: hashed}]\n"), 0o600))
	run("keys generate key")
	run("table create t.yaml --store pebble:data --key key")
	for came, says := range map[string]string{
		"":                 "",
		"id\n11\n12\n13\n": "0 of [0-9]+ rows? read so far were inserted; the same command with --load [0-9a-f]{16} and the same bytes goes on\nrangecrypt: ",
	} {
		in, rows, err := os.Pipe()
		require.NoError(t, err)
		cmd := exec.Command("rangecrypt", strings.Fields("table insert t --input - --format csv --store pebble:data --key key")...)
		var stderr strings.Builder
		cmd.Dir, cmd.Stdin, cmd.Stderr = dir, in, &stderr
		stdout, err := cmd.StdoutPipe()
		require.NoError(t, err)
		files, err := os.ReadDir(filepath.Join(dir, "data"))
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		require.NoError(t, in.Close())
		_, err = rows.WriteString(came)
		require.NoError(t, err)
		if came != "" { // the name of the load comes when there is something to read
			_, err := bufio.NewReader(stdout).ReadString('\n')
			require.NoError(t, err)
		}
		require.Eventually(t, func() bool { // the store is open
			now, err := os.ReadDir(filepath.Join(dir, "data"))
			return err == nil && !slices.EqualFunc(files, now, func(a, b os.DirEntry) bool { return a.Name() == b.Name() })
		}, time.Minute, time.Millisecond)
		time.Sleep(200 * time.Millisecond)
		require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
		hung := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() })
		_ = cmd.Wait()
		require.True(t, hung.Stop(), "it waits for rows")
		require.NoError(t, rows.Close())
		require.Equal(t, 130, cmd.ProcessState.ExitCode(), &stderr)
		require.Regexp(t, "^rangecrypt: "+says+"interrupted\n$", stderr.String())
	}
	require.Equal(t, "0\n", run("table query t --count --store pebble:data --key key"))
}
