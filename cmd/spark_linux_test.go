package cmd

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Spark has the parts of a conversion done by two workers, one of which is killed in the middle. It adds up to what one process
// does, and each part counts once.
func TestSparkRunsParts(t *testing.T) {
	home := os.Getenv("RANGECRYPT_SPARK")
	if home == "" {
		t.Skip("RANGECRYPT_SPARK does not name the folder of a Spark, such as that of the Python package pyspark")
	}
	const rows, parts = 20_000, 24
	dir, name, run := newNumbers(t, rows)
	run("table", "alter", "numbers", "--change", "name: value, encryption: ordered, scheme: mope")

	cluster := startSpark(t, home, dir)
	program, err := exec.LookPath("rangecrypt")
	require.NoError(t, err)
	script, err := filepath.Abs(filepath.Join(repository, "deploy", "spark", "parts.py"))
	require.NoError(t, err)
	submit := func(command ...string) (*exec.Cmd, *bytes.Buffer) {
		var out bytes.Buffer
		cmd := cluster.command("org.apache.spark.deploy.SparkSubmit", append([]string{"--master", cluster.master,
			"--conf", "spark.driver.host=127.0.0.1", "--conf", "spark.task.maxFailures=8", script, strconv.Itoa(parts), program}, command...)...)
		cmd.Stdout = &out
		return cmd, &out
	}
	key := filepath.Join(dir, "key")
	cmd, out := submit("table", "convert", "numbers", "--store", name, "--key", key)
	require.NoError(t, cmd.Start())
	// One executor dies when some parts are done, as the driver says, and both have others in hand.
	cluster.says(t, fmt.Sprintf("(%d/%d)", parts/6, parts), 1)
	require.NoError(t, syscall.Kill(cluster.executor(t), syscall.SIGKILL))
	require.NoError(t, cmd.Wait(), "%s", out)
	cluster.says(t, "Lost executor", 1)
	type sums struct {
		Counted, Rows, Unreadable, Unfit, Done int
		Complete, Over, Sound                  bool
	}
	var s sums
	require.NoError(t, json.Unmarshal(out.Bytes(), &s), out)
	require.Equal(t, sums{Counted: parts, Rows: rows, Done: parts, Complete: true, Over: true}, s)

	// The same rows as one process finds, and nothing to do for it.
	whole := run("table", "convert", "numbers", "--json")
	require.Contains(t, whole, `"rows":20000,"converted":0,`)
	cmd, out = submit("verify", "--table", "numbers", "--store", name, "--key", key)
	require.NoError(t, cmd.Run(), "%s", out)
	require.NoError(t, json.Unmarshal(out.Bytes(), &s), out)
	require.Equal(t, parts, s.Counted)
	require.Equal(t, rows, s.Rows)
	require.True(t, s.Sound)
}

// A sparkCluster is a standalone master of Spark with two workers.
type sparkCluster struct {
	home, dir, master string
	workers           []*exec.Cmd
	log               *os.File // of all processes
}

func startSpark(t *testing.T, home, dir string) *sparkCluster {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := listener.Addr().String()
	require.NoError(t, listener.Close())
	s := &sparkCluster{home: home, dir: dir, master: "spark://" + address}
	s.log, err = os.Create(filepath.Join(dir, "spark.log"))
	require.NoError(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			text, _ := os.ReadFile(s.log.Name())
			t.Logf("%s", text[max(0, len(text)-10_000):])
		}
		s.log.Close()
	})
	_, port, _ := net.SplitHostPort(address)
	s.begin(t, "org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", port, "--webui-port", "0")
	for range 2 {
		s.workers = append(s.workers, s.begin(t, "org.apache.spark.deploy.worker.Worker", "-c", "2", "-m", "1g", "--webui-port", "0", s.master))
	}
	s.says(t, "Registering worker", 2)
	return s
}

// says waits until a text is in the log so many times.
func (s *sparkCluster) says(t *testing.T, text string, times int) {
	t.Helper()
	require.Eventually(t, func() bool {
		log, err := os.ReadFile(s.log.Name())
		return err == nil && strings.Count(string(log), text) >= times
	}, 2*time.Minute, 20*time.Millisecond, "Spark does not say %q", text)
}

// begin starts a process of Spark, which ends with the test, and with it those that it has started.
func (s *sparkCluster) begin(t *testing.T, class string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := s.command(class, args...)
	cmd.Stdout = s.log
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
	})
	return cmd
}

func (s *sparkCluster) command(class string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(s.home, "bin", "spark-class"), append([]string{class}, args...)...)
	cmd.Dir, cmd.Stderr = s.dir, s.log
	cmd.Env = append(os.Environ(), "SPARK_LOCAL_IP=127.0.0.1", "SPARK_WORKER_DIR="+filepath.Join(s.dir, "work"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd
}

// executor returns the process that does the tasks of the first worker.
func (s *sparkCluster) executor(t *testing.T) int {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	require.NoError(t, err)
	for _, file := range files {
		text, _ := os.ReadFile(file) // it may be gone
		_, after, _ := strings.Cut(string(text), ") ")
		command, _ := os.ReadFile(filepath.Join(filepath.Dir(file), "cmdline")) // a worker has other children, too, for a moment
		fields := strings.Fields(after)
		if len(fields) > 1 && fields[1] == strconv.Itoa(s.workers[0].Process.Pid) && bytes.Contains(command, []byte("CoarseGrainedExecutorBackend")) {
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			require.NoError(t, err)
			return pid
		}
	}
	t.Fatal("the first worker has no executor")
	return 0
}
