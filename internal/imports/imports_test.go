// Package imports holds one test: imports between the packages of this module run one way.
package imports

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const module = "github.com/rangecrypt/rangecrypt"

// list returns what `go list` knows about the packages: the import path of each, and its direct
// imports or, with deps, all that it links.
func list(t *testing.T, field string, patterns ...string) map[string][]string {
	t.Helper()
	args := append([]string{"list", "-f", `{{.ImportPath}} {{join .` + field + ` " "}}`}, patterns...)
	cmd := exec.Command("go", args...)
	cmd.Dir = "../.."
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, "go %s: %s", strings.Join(args, " "), stderr.String())
	packages := make(map[string][]string)
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		packages[fields[0]] = fields[1:]
	}
	return packages
}

func within(pkg, tree string) bool {
	tree = module + "/" + tree
	return pkg == tree || strings.HasPrefix(pkg, tree+"/")
}

func ours(pkg string) bool { return pkg == module || strings.HasPrefix(pkg, module+"/") }

func standard(pkg string) bool {
	first, _, _ := strings.Cut(pkg, "/")
	return !strings.Contains(first, ".")
}

func TestImportsRunOneWay(t *testing.T) {
	schemes := []string{"ope/boldyreva", "ope/wozniak", "ope/kerschbaum"}
	adapters := []string{"store/pebble", "store/cassandra", "store/hbase"}

	// allowed says whether pkg may import imported, and if not, why.
	allowed := func(pkg, imported string) (bool, string) {
		if within(pkg, "ope") && !within(pkg, "ope/opetest") {
			if ours(imported) && !within(imported, "ope") {
				return false, "schemes know nothing of what stores their ciphertexts"
			}
			if !ours(imported) && !standard(imported) && !strings.HasPrefix(imported, "golang.org/x/crypto/") {
				return false, "package ope and below need the standard library and golang.org/x/crypto only"
			}
		}
		for _, scheme := range schemes {
			for _, other := range schemes {
				if scheme != other && within(pkg, scheme) && within(imported, other) {
					return false, "schemes do not import each other"
				}
			}
		}
		for _, scheme := range schemes {
			if within(pkg, "ope/leakage") && within(imported, scheme) {
				return false, "an attack takes ciphertexts of any scheme, and no key"
			}
		}
		for _, adapter := range adapters {
			if within(pkg, adapter) && ours(imported) && !within(imported, "store/driver") && !within(imported, adapter) {
				return false, "an adapter must not be able to see a plaintext or a key"
			}
		}
		if within(pkg, "store/driver") && ours(imported) {
			return false, "the seam stands alone"
		}
		if within(pkg, "internal/seal") && ours(imported) {
			return false, "sealing takes bytes and knows nothing of ours"
		}
		if within(pkg, "store/kms") && (ours(imported) && !within(imported, "ope") && !within(imported, "internal/seal") && !within(imported, "store/kms") ||
			!ours(imported) && !standard(imported) && !strings.HasPrefix(imported, "golang.org/x/crypto/")) {
			return false, "what holds a master key knows nothing of databases, and needs the standard library and golang.org/x/crypto only"
		}
		if within(imported, "cmd") && !within(pkg, "cmd") {
			return false, "nothing imports a command"
		}
		if !within(pkg, "ope/opetest") && !within(pkg, "store/drivertest") &&
			!within(pkg, "cmd") && !within(pkg, "internal") && within(imported, "ope/opetest") {
			return false, "test suites are for tests"
		}
		return true, ""
	}

	packages := list(t, "Imports", "./...")
	require.Greater(t, len(packages), 3, "found too few packages to mean anything")
	for pkg, imports := range packages {
		for _, imported := range imports {
			ok, why := allowed(pkg, imported)
			require.True(t, ok, "%s must not import %s: %s", pkg, imported, why)
		}
	}

	// The rules themselves must be able to fail.
	for _, wrong := range [][2]string{
		{"ope/boldyreva", module + "/store/driver"},
		{"ope", "github.com/cockroachdb/pebble/v2"},
		{"ope/encode", "gonum.org/v1/gonum/stat"},
		{"ope/wozniak", module + "/ope/boldyreva"},
		{"ope/leakage", module + "/ope/kerschbaum"},
		{"store/hbase", module + "/ope"},
		{"store/driver", module + "/ope"},
		{"internal/seal", module + "/ope"},
		{"store/kms", module + "/store/driver"},
		{"store/kms", "github.com/spf13/cobra"},
	} {
		ok, _ := allowed(module+"/"+wrong[0], wrong[1])
		require.False(t, ok, "%s importing %s passed", wrong[0], wrong[1])
	}
}

// A program that only encrypts must not link the clients of three databases.
func TestSchemesLinkNoDatabase(t *testing.T) {
	for pkg, deps := range list(t, "Deps", "./ope/boldyreva", "./ope/wozniak", "./ope/kerschbaum", "./ope/encode", "./ope/leakage") {
		require.NotEmpty(t, deps)
		for _, dep := range deps {
			require.True(t, within(dep, "ope") || standard(dep) || strings.HasPrefix(dep, "golang.org/x/"),
				"%s links %s", pkg, dep)
		}
	}
}
