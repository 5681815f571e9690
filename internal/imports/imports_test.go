// Package imports holds one test: imports between the packages of this module run one way.
package imports

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const module = "github.com/rangecrypt/rangecrypt"

// waiting are the packages that only wait, for anybody.
var waiting = []string{"internal/pause", "internal/groupcommit", "internal/relay"}

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

	// The layers of package store, the lowest first. Each imports lower ones only.
	layers := []string{
		"store/inspect", "store/internal/fault", "store/internal/lease", "store/internal/observe", "store/internal/value", "store/internal/index", "store/internal/scheme", "store/internal/meta", "store/internal/keyring",
		"store/internal/catalogue", "store/internal/rowcodec", "store/internal/forms", "store/internal/predicate", "store/internal/ranges", "store/internal/inorder", "store/internal/structs", "store/internal/chunks", "store/internal/engine", "store/internal/recopy", "store/internal/estimate", "store/internal/tokens", "store/internal/unproven", "store/internal/query", "store/internal/aggregate", "store/internal/bykey", "store/internal/session", "store/internal/administer", "store/internal/pages", "store/internal/layouts",
		"store/internal/pseudonym", "store/internal/keyuse", "store/internal/rewrite", "store/internal/maintain", "store", "store/cell", "store/paged", "store/migrate", "store/rekey", "store/remake",
	}
	layer := func(pkg string) int {
		return slices.IndexFunc(layers, func(l string) bool { return pkg == module+"/"+l })
	}

	// allowed says whether pkg may import imported, and if not, why.
	allowed := func(pkg, imported string) (bool, string) {
		if slices.ContainsFunc(waiting, func(w string) bool { return within(imported, w) }) {
			return true, "" // they import nothing of ours but each other, and only wait
		}
		if within(imported, "internal/secretfile") && within(pkg, "store/kms") {
			return true, "" // it imports nothing of ours, and only reads
		}
		if within(pkg, "internal/secretfile") && !standard(imported) {
			return false, "what reads keys for others imports the standard library only"
		}
		if slices.ContainsFunc(waiting, func(w string) bool { return within(pkg, w) }) && !standard(imported) {
			return false, "everybody may import them, so they import the standard library and each other only"
		}
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
		if within(pkg, "store/kms") && (ours(imported) && !within(imported, "ope") && !within(imported, "internal/seal") && !within(imported, "store/kms") && !within(imported, "store/internal/fault") ||
			!ours(imported) && !standard(imported) && !strings.HasPrefix(imported, "golang.org/x/crypto/")) {
			return false, "what holds a master key knows nothing of databases, and needs the standard library and golang.org/x/crypto only"
		}
		if below := layer(imported); below >= 0 && layer(pkg) >= 0 && below >= layer(pkg) {
			return false, "a layer of the store knows nothing of those above it"
		}
		if within(imported, "store/internal") && layer(pkg) < 0 && !within(pkg, "store/index") && !within(pkg, "store/kms") && !within(pkg, "store/compare") {
			return false, "the layers of the store are for the store"
		}
		if within(imported, "store/compare") && !within(pkg, "cmd/internal/lab") && !within(pkg, "internal/cli/benchtable") {
			return false, "what is there to compare is for the laboratory"
		}
		if within(imported, "store/cell/gocqlcell") || pkg == module+"/store/cell" && !ours(imported) && !standard(imported) {
			return false, "who seals values for tables of his own chooses the driver"
		}
		if within(imported, "store/cell") && !within(pkg, "store/cell") {
			return false, "cells of tables that applications keep are for applications"
		}
		if within(pkg, "store/internal") && slices.ContainsFunc(adapters, func(a string) bool { return within(imported, a) }) {
			return false, "the layers of the store take any database"
		}
		if within(imported, "cmd") && !within(pkg, "cmd") {
			return false, "nothing imports a command"
		}
		if !within(pkg, "ope/opetest") && !within(pkg, "store/drivertest") && within(imported, "ope/opetest") {
			return false, "test suites are for tests"
		}
		if within(imported, "internal/sim") && !within(pkg, "internal/testdb") || within(imported, "internal/mutant") {
			return false, "what breaks programs on purpose is for tests"
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
		{"cmd/internal/lab/bench", module + "/ope/opetest"},
		{"store/hbase", module + "/ope"},
		{"store/driver", module + "/ope"},
		{"internal/seal", module + "/ope"},
		{"internal/pause", module + "/ope"},
		{"internal/secretfile", module + "/ope"},
		{"store/pebble", module + "/internal/secretfile"},
		{"internal/e2e", module + "/internal/sim"},
		{"store/kms", module + "/store/driver"},
		{"store/kms", "github.com/spf13/cobra"},
		{"store/internal/value", module + "/store/internal/meta"},
		{"store/internal/meta", module + "/store/internal/keyring"},
		{"store/internal/keyring", module + "/store/internal/catalogue"},
		{"store/internal/catalogue", module + "/store"},
		{"store/internal/rowcodec", module + "/store/internal/engine"},
		{"store/internal/engine", module + "/store/internal/query"},
		{"store/internal/query", module + "/store/internal/session"},
		{"store/internal/session", module + "/store/internal/administer"},
		{"store/internal/pages", module + "/store/internal/layouts"},
		{"store/internal/administer", module + "/store/internal/rewrite"},
		{"store/internal/rewrite", module + "/store/internal/maintain"},
		{"store/internal/maintain", module + "/store"},
		{"store/internal/catalogue", module + "/store/pebble"},
		{"store/pebble", module + "/store/internal/fault"},
		{"internal/e2e", module + "/store/internal/meta"},
		{"cmd/internal/admin", module + "/store/compare"},
		{"store/cassandra", module + "/store/cell"},
		{"store/cassandra", module + "/store/cell/gocqlcell"},
		{"store/cell", module + "/store/cell/gocqlcell"},
		{"store/cell", "github.com/apache/cassandra-gocql-driver/v2"},
		{"store/cell/gocqlcell", module + "/store/internal/keyring"},
		{"store", module + "/store/cell"},
		{"store", module + "/store/migrate"},
		{"store/migrate", module + "/store/rekey"},
		{"store/internal/chunks", module + "/store/internal/engine"},
		{"cmd/internal/admin", module + "/store/cell"},
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
			require.True(t, within(dep, "ope") || slices.ContainsFunc(waiting, func(w string) bool { return within(dep, w) }) || standard(dep) || strings.HasPrefix(dep, "golang.org/x/"),
				"%s links %s", pkg, dep)
		}
	}
}

// A program must not link what only tests need.
func TestProgramsLinkNoTests(t *testing.T) {
	programs := list(t, "Deps", "./cmd/opebench", "./cmd/rangecrypt")
	require.Len(t, programs, 2)
	for program, deps := range programs {
		require.Greater(t, len(deps), 100)
		for _, dep := range deps {
			for _, tests := range []string{
				"testing", "github.com/stretchr/testify", "pgregory.net/rapid", "go.uber.org/goleak",
				module + "/ope/opetest", module + "/store/drivertest", module + "/internal/testdb",
			} {
				require.False(t, dep == tests || strings.HasPrefix(dep, tests+"/"), "%s links %s", program, dep)
			}
		}
	}
}
