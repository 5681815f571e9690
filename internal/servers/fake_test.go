package servers

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// The test binary is also the server that the tests without real servers start: the script "java"
// runs it with one of these variables set.
const (
	fakeServer  = "RANGECRYPT_FAKE_SERVER"  // "" or how it behaves
	fakeStarter = "RANGECRYPT_FAKE_STARTER" // a data folder to Start servers in, to be killed then
)

func TestMain(m *testing.M) {
	if mode := os.Getenv(fakeServer); mode != "" && len(os.Args) == 2 && strings.HasPrefix(os.Args[1], "@") {
		os.Exit(serveFake(mode, os.Args[1][1:]))
	}
	if dir := os.Getenv(fakeStarter); dir != "" {
		c, err := Start(tContext(), Options{Kind: Cassandra, Dir: dir, FreePorts: true})
		if err != nil {
			fmt.Println("start:", err)
			os.Exit(1)
		}
		fmt.Println("pid", c.Nodes()[0].pid())
		time.Sleep(time.Hour)
	}
	if os.Getenv("RANGECRYPT_SERVERS_TEST") == "1" {
		os.Exit(m.Run()) // gohbase leaves goroutines running
	}
	goleak.VerifyTestMain(m)
}

// serveFake does what a Cassandra does that this package sees of it.
func serveFake(mode, argsFile string) int {
	args, err := os.ReadFile(argsFile)
	if err != nil {
		fmt.Println(err)
		return 3
	}
	conf := regexp.MustCompile(`-Dcassandra.config=file://([^"]+)"`).FindSubmatch(args)
	if conf == nil {
		fmt.Println("no configuration in", argsFile)
		return 3
	}
	yaml, err := os.ReadFile(string(conf[1]))
	if err != nil {
		fmt.Println(err)
		return 3
	}
	value := func(key string) string {
		m := regexp.MustCompile(`(?m)^` + key + `: (.*)$`).FindSubmatch(yaml)
		return string(m[1])
	}
	host := value("rpc_address")
	if mode == "die" {
		fmt.Println("INFO  some news\nERROR the disk is made of cheese")
		return 1
	}
	if mode == "deaf" {
		signal.Ignore(syscall.SIGTERM)
	}
	if mode == "silent" {
		time.Sleep(time.Hour)
	}
	for _, port := range []string{value("storage_port"), value("native_transport_port")} {
		l, err := net.Listen("tcp4", net.JoinHostPort(host, port))
		if err != nil {
			fmt.Println(err)
			return 4
		}
		go func() {
			for {
				if c, err := l.Accept(); err == nil {
					fmt.Fprint(c, os.Getpid())
					c.Close()
				}
			}
		}()
	}
	fmt.Println("Startup complete")
	// Nodes notice each other after a while, and know a restarted one by its generation.
	var known [4]string
	for {
		time.Sleep(50 * time.Millisecond)
		for i := 1; i <= 3; i++ {
			peer := fmt.Sprintf("127.0.0.%d:%s", i, value("storage_port"))
			c, err := net.Dial("tcp4", peer)
			if err != nil {
				continue
			}
			generation, _ := io.ReadAll(c)
			c.Close()
			if g := string(generation); g != "" && g != known[i] {
				known[i] = g
				fmt.Printf("InetAddress /%s is now UP\n", peer)
			}
		}
	}
}

// script writes an executable shell script.
func script(t *testing.T, path, text string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\n"+text+"\n"), 0o755))
}

// machine makes this test believe in a machine that has what is in the returned folder, which is
// all of PATH, and an empty cache.
func machine(t *testing.T) (bin string) {
	t.Helper()
	if !supported {
		t.Skip("servers are not supported here")
	}
	sh, err := exec.LookPath("sh")
	require.NoError(t, err)
	bin = t.TempDir()
	require.NoError(t, os.Symlink(sh, filepath.Join(bin, "sh")))
	t.Setenv("PATH", bin)
	t.Setenv("JAVA_HOME", "")
	t.Setenv("MAVEN_HOME", "")
	t.Setenv("M2_HOME", "")
	t.Setenv("RANGECRYPT_CACHE", t.TempDir())
	pauses := downloadPauses
	downloadPauses = []time.Duration{0, 0}
	t.Cleanup(func() { downloadPauses = pauses })
	return bin
}

func fakeJava(t *testing.T, path, version string) {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	script(t, path, fmt.Sprintf(`case $1 in
-version) echo 'openjdk version "%s" 2025-01-01' >&2 ;;
*) exec '%s' "$@" ;;
esac`, version, self))
}

// fakeMaven leaves one line in the file "runs" for each run, and fails as often as given.
func fakeMaven(t *testing.T, bin string, failures int) (runs func() int) {
	t.Helper()
	dir := t.TempDir()
	jar, log := filepath.Join(dir, "server.jar"), filepath.Join(dir, "runs")
	require.NoError(t, os.WriteFile(jar, []byte("jar"), 0o644))
	script(t, filepath.Join(bin, "mvn"), fmt.Sprintf(`echo run >> '%[1]s'
n=0; while read -r _; do n=$((n+1)); done < '%[1]s'
if [ $n -le %[2]d ]; then echo '[ERROR] Could not transfer artifact: the cable is out'; exit 1; fi
for a in "$@"; do case $a in -Dmdep.outputFile=*) echo '%[3]s' > "${a#*=}" ;; esac; done`, log, failures, jar))
	return func() int {
		text, _ := os.ReadFile(log)
		return strings.Count(string(text), "run")
	}
}

// fakeMachine has all that is needed to start servers that behave as mode says.
func fakeMachine(t *testing.T, mode string) {
	t.Helper()
	bin := machine(t)
	fakeJava(t, filepath.Join(bin, "java"), "17.0.15")
	fakeMaven(t, bin, 0)
	t.Setenv(fakeServer, mode)
}
