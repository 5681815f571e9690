package servers

import (
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/rangecrypt/rangecrypt/internal/pause"
)

var (
	// ErrMaven means that there is no mvn to fetch the servers with.
	ErrMaven = errors.New("no Maven")

	// ErrDownload means that Maven did not bring the servers.
	ErrDownload = errors.New("server not downloaded")
)

//go:embed files/cassandra-pom.xml
var cassandraPOM []byte

//go:embed files/hbase-pom.xml
var hbasePOM []byte

// cacheDir is where what can be made again is kept: RANGECRYPT_CACHE, or rangecrypt in the user's
// cache folder.
func cacheDir() (string, error) {
	if dir := os.Getenv("RANGECRYPT_CACHE"); dir != "" {
		return filepath.Abs(dir)
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("no cache folder; set RANGECRYPT_CACHE: %w", err)
	}
	return filepath.Join(dir, "rangecrypt"), nil
}

// downloadPauses are the waits before Maven is run again after a failure.
var downloadPauses = []time.Duration{2 * time.Second, 8 * time.Second}

// jars returns the jars of a server. The first call has Maven fetch them into its local
// repository; later ones need neither Maven nor a network, as long as the jars are there.
func (s spec) jars(ctx context.Context, j java, logf func(string, ...any)) ([]string, error) {
	k, version := s.Kind, s.version()
	pom, mb := cassandraPOM, 70
	if k == HBase {
		pom, mb = hbasePOM, 120
	}
	pom = bytes.ReplaceAll(pom, []byte(k.versions()[0]), []byte(version))
	cache, err := cacheDir()
	if err != nil {
		return nil, err
	}
	// The name follows the pom: another version of this package may ask for other jars.
	dir := filepath.Join(cache, "jars", fmt.Sprintf("%s-%x", k, sha256.Sum256(pom))[:len(k)+9])
	file := filepath.Join(dir, "classpath")
	if jars, err := readClasspath(file); err == nil {
		return jars, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("cache folder (another can be set by RANGECRYPT_CACHE): %w", err)
	}
	unlock, err := lockFile(ctx, filepath.Join(cache, "jars", "lock"), func() {
		logf("waiting for another process that downloads servers")
	})
	if err != nil {
		return nil, err
	}
	defer unlock()
	if jars, err := readClasspath(file); err == nil {
		return jars, nil // by the process that was waited for
	}
	mvn, err := findMaven()
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(dir, "pom.xml"), pom, 0o644); err != nil {
		return nil, err
	}
	logf("fetching %s %s with Maven (once, at most %d MB)", k, version, mb)
	for try := 0; ; try++ {
		err = runMaven(ctx, mvn, dir, j)
		if err == nil {
			break
		}
		if ctx.Err() != nil {
			return nil, fmt.Errorf("fetch %s %s: %w", k, version, ctx.Err())
		}
		if try == len(downloadPauses) {
			return nil, fmt.Errorf("%w: %s %s, after %d tries of Maven: %w\nCheck the network; "+
				"behind a proxy or a mirror, Maven's settings (~/.m2/settings.xml)",
				ErrDownload, k, version, try+1, err)
		}
		logf("Maven failed, another try in %v", downloadPauses[try])
		_ = pause.For(ctx, downloadPauses[try]) // Maven fails if the context has ended
	}
	jars, err := readClasspath(file + ".new")
	if err != nil {
		return nil, fmt.Errorf("%w: Maven succeeded, but: %w", ErrDownload, err)
	}
	if err := os.Rename(file+".new", file); err != nil {
		return nil, err
	}
	return jars, nil
}

func findMaven() (string, error) {
	if mvn, err := exec.LookPath("mvn"); err == nil {
		return mvn, nil
	}
	for _, env := range []string{"MAVEN_HOME", "M2_HOME"} {
		if home := os.Getenv(env); home != "" {
			if mvn, err := exec.LookPath(filepath.Join(home, "bin", "mvn")); err == nil {
				return mvn, nil
			}
		}
	}
	return "", fmt.Errorf("%w: it fetches the servers, and neither PATH nor MAVEN_HOME has mvn. "+
		"Install it (Debian, Ubuntu: apt install maven; macOS: brew install maven), or start the "+
		"database another way, such as in a container", ErrMaven)
}

func runMaven(ctx context.Context, mvn, dir string, j java) error {
	cmd := exec.CommandContext(ctx, mvn, "--batch-mode", "--quiet", "-Dstyle.color=never",
		// Without it Maven remembers a jar that a broken network did not bring as missing.
		"--update-snapshots",
		"--file", filepath.Join(dir, "pom.xml"),
		"dependency:build-classpath", "-DincludeScope=runtime",
		"-Dmdep.outputFile="+filepath.Join(dir, "classpath.new"))
	cmd.Dir = dir
	cmd.Env = os.Environ()
	if home := j.home(); home != "" {
		cmd.Env = append(cmd.Env, "JAVA_HOME="+home)
	}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	stopWithGroup(cmd)
	cmd.WaitDelay = 10 * time.Second
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w\n%s", mvn, err, lastLines(out.String(), 8))
	}
	return nil
}

// readClasspath returns the jars that the file names; it is an error if one is not there.
func readClasspath(file string) ([]string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	jars := filepath.SplitList(strings.TrimSpace(string(text)))
	if len(jars) == 0 {
		return nil, fmt.Errorf("%s is empty", file)
	}
	for _, jar := range jars {
		if fi, err := os.Stat(jar); err != nil {
			return nil, err
		} else if fi.Size() == 0 {
			return nil, fmt.Errorf("%s is empty", jar)
		}
	}
	return jars, nil
}

// lastLines returns the last n lines of s that say something.
func lastLines(s string, n int) string {
	lines := strings.FieldsFunc(strings.TrimSpace(s), func(r rune) bool { return r == '\n' || r == '\r' })
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
