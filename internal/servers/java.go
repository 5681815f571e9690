package servers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// ErrJDK means that no Java of a version that the servers run on was found.
var ErrJDK = errors.New("no suitable JDK")

// javaVersions are the major versions that both servers support.
var javaVersions = []int{11, 17}

type java struct {
	path  string // of the executable
	major int
}

// home returns the JDK's folder, for Maven's JAVA_HOME, or "" if it cannot be told.
func (j java) home() string {
	p, err := filepath.EvalSymlinks(j.path)
	if err != nil || filepath.Base(filepath.Dir(p)) != "bin" {
		return ""
	}
	return filepath.Dir(filepath.Dir(p))
}

// findJava looks at JAVA_HOME, then at PATH, and takes the first suitable one.
func findJava(ctx context.Context) (java, error) {
	var found []string
	try := func(from, path string) (java, bool) {
		version, err := runJavaVersion(ctx, path)
		if err != nil {
			found = append(found, fmt.Sprintf("%s: %s does not run: %v", from, path, err))
			return java{}, false
		}
		major, err := parseJavaVersion(version)
		if err != nil {
			found = append(found, fmt.Sprintf("%s: %s: %v", from, path, err))
			return java{}, false
		}
		if !slices.Contains(javaVersions, major) {
			found = append(found, fmt.Sprintf("%s: %s is Java %d", from, path, major))
			return java{}, false
		}
		return java{path, major}, true
	}
	if home := os.Getenv("JAVA_HOME"); home == "" {
		found = append(found, "JAVA_HOME is not set")
	} else if j, ok := try("JAVA_HOME", filepath.Join(home, "bin", "java")); ok {
		return j, nil
	}
	if path, err := exec.LookPath("java"); err != nil {
		found = append(found, "PATH has no java")
	} else if j, ok := try("PATH", path); ok {
		return j, nil
	}
	if err := ctx.Err(); err != nil {
		return java{}, err
	}
	return java{}, fmt.Errorf("%w: Cassandra and HBase run on Java 11 or 17; %s. Install one "+
		"(Debian, Ubuntu: apt install openjdk-17-jdk-headless; macOS: brew install openjdk@17) "+
		"and let JAVA_HOME name its folder", ErrJDK, strings.Join(found, "; "))
}

func runJavaVersion(ctx context.Context, path string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, path, "-version").CombinedOutput()
	if err != nil {
		if line := lastLines(string(out), 1); line != "" {
			return "", fmt.Errorf("%w: %s", err, line)
		}
		return "", err
	}
	return string(out), nil
}

var javaVersionLine = regexp.MustCompile(`(?m)^\S+ version "(\d+)(?:\.(\d+))?[^"]*"`)

// parseJavaVersion returns the major version in the output of "java -version": 8 for "1.8.0_292",
// 17 for "17.0.15". Lines before it, such as of JAVA_TOOL_OPTIONS, do not matter.
func parseJavaVersion(out string) (int, error) {
	m := javaVersionLine.FindStringSubmatch(out)
	if m == nil {
		return 0, fmt.Errorf("no version in the output of -version: %q", lastLines(out, 3))
	}
	major, err := strconv.Atoi(m[1])
	if err == nil && major == 1 && m[2] != "" {
		major, err = strconv.Atoi(m[2])
	}
	return major, err
}

// serverEnv is the environment of a server: this process's, without the variables by which a JVM
// would take options that are not ours.
func serverEnv() []string {
	return slices.DeleteFunc(os.Environ(), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		switch name {
		case "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS", "CLASSPATH":
			return true
		}
		return false
	})
}

// argFile formats arguments for "java @file". A command line with a classpath of 180 jars would
// fill the screen of whoever lists the processes.
func argFile(args []string) string {
	var b strings.Builder
	quote := strings.NewReplacer(`\`, `\\`, `"`, `\"`)
	for _, a := range args {
		b.WriteString(`"` + quote.Replace(a) + "\"\n")
	}
	return b.String()
}

// addOpens expands to the options that open packages of the JDK to the servers, which came from
// times before modules.
func addOpens(packages ...string) []string {
	args := make([]string, 0, len(packages))
	for _, p := range packages {
		args = append(args, "--add-opens="+p+"=ALL-UNNAMED")
	}
	return args
}

func addExports(packages ...string) []string {
	args := make([]string, 0, len(packages))
	for _, p := range packages {
		args = append(args, "--add-exports="+p+"=ALL-UNNAMED")
	}
	return args
}
