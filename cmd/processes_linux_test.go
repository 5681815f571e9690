package cmd

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/sim"
)

var (
	partRows = flag.Int("cmd.partrows", 3000, "rows of a table whose parts processes convert")
	partsOf  = flag.Int("cmd.parts", 12, "parts of that table")
)

// newNumbers makes a table with rows in a keyspace of a Cassandra. It returns a folder with its key, the store, and what runs a command on it.
func newNumbers(t *testing.T, rows int) (dir, name string, run func(args ...string) string) {
	t.Helper()
	dir, name = t.TempDir(), urlOf(t)
	run = func(args ...string) string {
		t.Helper()
		cmd, out, diagnostics := start(t, dir, append(args, "--store", name, "--key", "key")...)
		require.NoError(t, cmd.Wait(), "%s%s", out, diagnostics)
		return out.String()
	}
	require.NoError(t, exec.Command("opebench", "keys", "generate", filepath.Join(dir, "key")).Run())
	require.NoError(t, os.WriteFile(filepath.Join(dir, "numbers.yaml"), []byte("table: numbers\n"+
		"key: [{name: id, type: int64, encryption: hashed}]\ncolumns: [{name: value, type: int64, encryption: randomised}]\n"), 0o600))
	var csv strings.Builder
	csv.WriteString("id,value\n")
	for i := range rows {
		fmt.Fprintf(&csv, "%d,%d\n", i, i%1000)
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "numbers.csv"), []byte(csv.String()), 0o600))
	run("table", "create", "numbers.yaml")
	run("table", "insert", "numbers", "--input", "numbers.csv")
	return dir, name, run
}

// Four processes convert the parts of a table, as any scheduler gives them out. Two of them are killed in the middle of a part, which
// another one does again. They leave what one process leaves. How much faster they are, and how busy the machine was, is printed.
func TestProcessesShareParts(t *testing.T) {
	if !sim.Long() {
		t.Skip("it takes minutes; RANGECRYPT_REQUIRE=long has it run")
	}
	dir, name, run := newNumbers(t, *partRows)
	rows := func() []string {
		lines := strings.Split(run("table", "query", "numbers", "--format", "csv"), "\n")
		slices.Sort(lines)
		return lines
	}
	all := rows()
	require.Len(t, all, *partRows+2, "with a header, and an empty line behind the last one")
	var alone float64
	for i, workers := range []int{1, 4, 1, 4} {
		scheme := []string{"mope", "boldyreva"}[i%2]
		run("table", "alter", "numbers", "--change", "name: value, encryption: ordered, scheme: "+scheme)
		began, busy, ran := time.Now(), machine(t), 0
		repeated := shareParts(t, workers, workers/2, func(part int) *exec.Cmd {
			ran++
			cmd, _, _ := start(t, dir, "table", "convert", "numbers", "--part", fmt.Sprint(part), "--parts", fmt.Sprint(*partsOf), "--store", name, "--key", "key")
			return cmd
		})
		took := time.Since(began).Seconds()
		used := machine(t)
		share := float64(used.busy-busy.busy) / float64(used.all-busy.all)
		if workers == 1 {
			alone = took
		}
		t.Logf("%d processes, %d killed, %d parts done again: %.1f s, %.2f times as fast as one; processors %.0f %% busy", workers, workers/2, repeated, took, alone/took, 100*share)
		require.Equal(t, workers/2, repeated)
		require.Equal(t, *partsOf+repeated, ran)
		var whole struct{ Converted int }
		require.NoError(t, json.Unmarshal([]byte(run("table", "convert", "numbers", "--json")), &whole))
		require.Zero(t, whole.Converted, "all are converted")
		require.Equal(t, all, rows())
		run("verify", "--table", "numbers")
	}
}

// shareParts has workers do parts, each with one process at a time, and kills some workers' processes, each once. It returns how many
// parts were done again.
func shareParts(t *testing.T, workers, kills int, begin func(part int) *exec.Cmd) (repeated int) {
	t.Helper()
	parts := make(chan int, *partsOf+kills)
	for i := range *partsOf {
		parts <- i
	}
	left, killed := *partsOf, make([]bool, workers)
	var mu sync.Mutex
	var group sync.WaitGroup
	for w := range workers {
		group.Go(func() {
			for part := range parts {
				mu.Lock()
				cmd, kill := begin(part), w < kills && !killed[w]
				mu.Unlock()
				if kill { // it may end before
					time.Sleep(time.Duration(50+50*w) * time.Millisecond)
					_ = cmd.Process.Kill()
				}
				err := cmd.Wait()
				mu.Lock()
				switch {
				case err == nil:
					if left--; left == 0 {
						close(parts)
					}
				case kill:
					killed[w] = true
					repeated++
					parts <- part
				default:
					t.Errorf("part %d: %v", part, err)
					if left--; left == 0 {
						close(parts)
					}
				}
				mu.Unlock()
			}
		})
	}
	group.Wait()
	return repeated
}

// A processorTime is how long the processors of the machine were busy, and how long there were any, in ticks.
type processorTime struct{ busy, all int64 }

func machine(t *testing.T) (p processorTime) {
	t.Helper()
	text, err := os.ReadFile("/proc/stat")
	require.NoError(t, err)
	line, _, _ := strings.Cut(string(text), "\n")
	for i, field := range strings.Fields(line)[1:9] { // user, nice, system, idle, iowait, irq, softirq, steal
		var n int64
		_, err := fmt.Sscan(field, &n)
		require.NoError(t, err)
		if p.all += n; i != 3 && i != 4 {
			p.busy += n
		}
	}
	return p
}
