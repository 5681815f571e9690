//go:build unix

package pebble

import (
	"bufio"
	"bytes"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/atomicfs"
	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/store/driver"
)

// TestKill kills a real process in the middle of its writes, again and again on the same
// directory. Whatever it had acknowledged over a pipe must be there. Every other process changes its lists of
// tables all the time.
func TestKill(t *testing.T) {
	seed := rand.Uint64()
	if text := os.Getenv("PEBBLE_KILL_SEED"); text != "" {
		var err error
		seed, err = strconv.ParseUint(text, 10, 64)
		require.NoError(t, err)
	}
	t.Logf("repeat with PEBBLE_KILL_SEED=%d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	dir := t.TempDir()
	last := make(map[string]int) // of each writer, what was acknowledged, or found, last
	for _, writer := range killWriters {
		last[writer] = 0 // it may be killed with one row written and none acknowledged
	}
	counted := 0 // of the counter, the same
	total := 0
	for round := range 8 {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), childEnv+"="+dir, fmt.Sprint(flushEnv, "=", round%2))
		cmd.Stderr = os.Stderr
		pipe, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		lines := bufio.NewScanner(pipe)
		require.True(t, lines.Scan(), "the child did not start")
		require.Equal(t, "ready", lines.Text())
		timer := time.AfterFunc(time.Duration(r.IntN(int(400*time.Millisecond))), func() { _ = cmd.Process.Kill() })
		count := 0
		for lines.Scan() {
			writer, n, ok := strings.Cut(lines.Text(), " ")
			i, err := strconv.Atoi(n)
			if !ok || err != nil {
				continue // a line that the kill cut off, which is no acknowledgement
			}
			require.Equal(t, last[writer]+1, i, "writer %s", writer)
			last[writer] = i
			if writer == "c0" {
				counted = i
			}
			count++
		}
		timer.Stop()
		require.ErrorContains(t, cmd.Wait(), "killed")
		total += count
		killedManifest(t, r, dir)

		db := mustOpen(t, dir, nil)
		f := mustFamily(t, db)
		for writer, acknowledged := range last {
			n := 0
			for row, err := range f.Scan(background, driver.Range{Start: []byte(writer + "/"), End: []byte(writer + "0")}) {
				require.NoError(t, err)
				n++
				require.Equal(t, killKey(writer, n), string(row.Key), "a hole")
				require.Len(t, row.Cells, 2)
				sum := fmt.Sprint(crc32.ChecksumIEEE(row.Cells[1].Value))
				require.Equal(t, sum, string(row.Cells[0].Value), "a row is not intact")
			}
			require.GreaterOrEqual(t, n, acknowledged, "round %d: acknowledged rows of writer %s are lost", round, writer)
			require.LessOrEqual(t, n, acknowledged+1, "a writer has one write under way")
			last[writer] = n
			if writer == "c0" {
				// It is counted after the row is written, and before that is acknowledged.
				counter, _ := strconv.Atoi(value(t, f, "counterc0"))
				require.GreaterOrEqual(t, counter, max(counted, n-1), "the counter of conditional writes")
				require.LessOrEqual(t, counter, n, "the counter of conditional writes")
				counted = counter
			}
		}
		require.NoError(t, db.Close())
	}
	t.Logf("%d acknowledged writes", total)
	require.Greater(t, total, 50, "the child wrote too little to prove anything")
}

// killedManifest damages the manifest of a copy of what the process left. That is noticed, but for the last
// record, which is a change of the lists that the process had not come to the end of.
func killedManifest(t *testing.T, r *rand.Rand, dir string) {
	t.Helper()
	record, err := readFormat(vfs.Default, dir)
	require.NoError(t, err)
	name, err := atomicfs.ReadMarker(vfs.Default, dir, manifestMarker)
	require.NoError(t, err)
	i := slices.IndexFunc(record.manifests, func(m manifest) bool { return m.name == name })
	require.GreaterOrEqual(t, i, 0)
	copied := filepath.Join(t.TempDir(), "db")
	require.NoError(t, os.CopyFS(copied, os.DirFS(dir)))
	before := names(t, copied)
	path := filepath.Join(copied, name)
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	for range 20 {
		at := r.IntN(int(record.manifests[i].length))
		content := bytes.Clone(whole)
		content[at] ^= 1 << r.IntN(8)
		for _, content := range [][]byte{content, whole[:at]} {
			require.NoError(t, os.WriteFile(path, content, 0o600))
			_, err := Open(copied, nil)
			require.ErrorIs(t, err, driver.ErrCorrupt)
			require.Equal(t, before, names(t, copied))
		}
	}
}

// flushEnv makes the child move what is in memory into tables all the time.
const flushEnv = "RANGECRYPT_PEBBLE_TEST_FLUSH"

var killWriters = []string{"w0", "w1", "w2", "w3", "c0"}

func killKey(writer string, n int) string { return fmt.Sprintf("%s/%08d", writer, n) }

func init() { child = writeForEver }

// writeForEver writes until it is killed. Writers w0 to w3 put rows; c0 counts under a condition too.
func writeForEver(dir string) {
	check := func(err error) {
		if err != nil {
			fmt.Fprintln(os.Stderr, "child:", err)
			os.Exit(1)
		}
	}
	db, err := Open(dir, nil)
	check(err)
	family, err := db.Family(background, orderedSpec)
	check(err)
	f := family.(driver.Committer)
	fmt.Println("ready")
	count := func(n int) {
		expect := driver.Cell{Qualifier: []byte("q")}
		if n > 1 {
			expect.Value = fmt.Append(nil, n-1)
		}
		ok, err := f.CheckAndPut(background, []byte("counterc0"), expect, driver.Cell{Qualifier: []byte("q"), Value: fmt.Append(nil, n)})
		check(err)
		if !ok {
			check(fmt.Errorf("the counter is not at %d", n-1))
		}
	}
	for _, writer := range killWriters {
		go func() {
			n := 0
			for range f.Scan(background, driver.Range{Start: []byte(writer + "/"), End: []byte(writer + "0")}) {
				n++
			}
			if writer == "c0" && n > 0 { // the last one may have died before it counted
				cells, err := f.Get(background, []byte("counterc0"), driver.Slice{})
				check(err)
				if len(cells) == 0 || string(cells[0].Value) != fmt.Sprint(n) {
					count(n)
				}
			}
			for {
				n++
				payload := make([]byte, rand.IntN(20_000))
				for i := range payload {
					payload[i] = byte(rand.Uint32())
				}
				check(f.Apply(background, driver.Mutation{Row: []byte(killKey(writer, n)), Puts: []driver.Cell{
					{Qualifier: []byte("crc"), Value: fmt.Append(nil, crc32.ChecksumIEEE(payload))},
					{Qualifier: []byte("payload"), Value: payload},
				}}))
				if writer == "c0" {
					count(n)
				}
				fmt.Println(writer, n) // one write system call, after the acknowledgement
			}
		}()
	}
	for os.Getenv(flushEnv) == "1" {
		time.Sleep(time.Duration(rand.IntN(int(5 * time.Millisecond))))
		db.queue.flushSoon()
	}
	select {}
}
