package wording

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/encode"
	"github.com/rangecrypt/rangecrypt/store/driver"
)

const root = "../../.."

// forPrograms are files whose errors no command can cause, or turns into its own, and why. A text after a colon is one.
var forPrograms = map[string]string{
	"store/alter.go":                        "changes are made by the functions for them",
	"store/driver/check.go":                 "what an adapter is asked wrongly",
	"store/driver/indexes.go":               "what an adapter is asked wrongly",
	"store/internal/bykey/change.go":        "no command updates rows",
	"store/internal/bykey/rows.go":          "no command reads rows by their key",
	"store/internal/maintain/verify.go":     "flags are checked before",
	"store/internal/observe/observe.go":     "descriptions of metrics",
	"store/internal/aggregate/aggregate.go": "a flag names one column",
	"store/internal/pages/query.go":         "no command queries pages",
	"store/internal/pages/table.go":         "no command names rows of pages",
	"store/internal/query/find.go":          "flags are checked before",
	"store/internal/query/join.go":          "flags are checked before",
	"store/internal/value/alike.go":         "rows of commands have no such values",
	"store/internal/unproven/read.go":       "no command asks so",
	"store/internal/unproven/unproven.go":   "no command asks so",
	"store/internal/predicate/where.go":     "constants have the types of their columns",
	"store/predicate.go":                    "constants have the types of their columns",
	"store/internal/rowcodec/expiry.go":     "flags are checked before",
	"store/internal/rowcodec/row.go":        "rows with such a field are refused before",
	"store/internal/meta/ttl.go":            "schema files are checked before",
	"store/joined.go":                       "there is one store",
	"store/query.go":                        "flags are checked before",
	"store/store.go":                        "options are those of the commands",
	"store/tableof.go":                      "rows of commands are no structs",
	"store/paged/structs.go":                "likewise",
	"store/cassandra/cassandra.go":          "names of stores are checked before",
	"store/pebble/pebble.go":                "options are those of the commands",
	"store/hbase/hbase.go":                  "options are those of the commands",
	"store/cassandra/family.go":             "CQL",
	"store/cassandra/layout.go":             "CQL",
	"store/cassandra/scan.go":               "CQL",
	"store/cassandra/batch.go":              "CQL",
	"store/cassandra/errors.go":             "CQL",
	"store/kms/key.go":                      "keys of commands are read or made",
	"store/kms/kms.go":                      "keys of commands are read or made",
	"store/kms/program.go":                  "PATH is the variable",

	"store/cassandra/internal/hooks/elsewhere.go": "CQL",
}

// except are texts that look as if they named something of Go, or are of an error that nobody should see.
var except = []string{
	"was not made by a function of package store", "its type was not made by package store", "the unit of Time must be", "the scale of Decimal is",
	// For those who write programs: no command changes what these keep themselves.
	"Store.Alter and Store.Drop of package store change and drop it", "it has no pages: Store.Table of package store opens it",
	"ordered (PrefixBytes", "it is %s with PrefixBytes", "TYPE, or TYPE from LEAST", "the engine Pebble", "has ID %s",
}

// Whatever errors of the library name of Go that reach people, they read in words of their own.
func TestNamesOfGoAreTranslated(t *testing.T) {
	names := exported(t, "store", "store/driver", "store/inspect", "store/cassandra", "store/hbase", "store/pebble", "store/kms", "ope")
	word := regexp.MustCompile(`\b[A-Z][A-Za-z]+\b`)
	whole := regexp.MustCompile(`^(SELECT|INSERT|UPDATE|DELETE|CREATE|ALTER|DROP) `)
	found := 0
	each(t, "store", func(path, text string) {
		if forPrograms[path] != "" || strings.HasPrefix(path, "store/internal/structs/") || strings.HasPrefix(path, "store/cell/") || whole.MatchString(text) {
			return
		}
		if slices.ContainsFunc(except, func(s string) bool { return strings.Contains(text, s) }) {
			return
		}
		found++
		for _, w := range word.FindAllString(ForPeople(text), -1) {
			require.False(t, names[w], "%s: %q: put it into words for people in wording.go, or say why no command can cause it", path, text)
		}
	})
	require.Greater(t, found, 200)
}

// What a value, a type or a key is refused for begins with no name of a package.
func TestValuesInPlainWords(t *testing.T) {
	for err, want := range map[error]string{
		fmt.Errorf("type: %w, 2 digits after the point: round it", encode.ErrInexact): "type: value is finer than what is kept, 2 digits after the point: round it",
		fmt.Errorf("type: %w: need 0 to 9", ope.ErrDomain):                            "type: value outside of the bounds: need 0 to 9",
		fmt.Errorf("column: %w: it takes another scheme", ope.ErrParams):              "column: not possible: it takes another scheme",
		fmt.Errorf("key file k: %w: need 64 digits", ope.ErrKey):                      "key file k: it is no key: need 64 digits",
		fmt.Errorf("column: %w: at most 8", driver.ErrTooLarge):                       "column: too large: at most 8",
	} {
		require.Equal(t, want, Of(err))
	}
}

// Every phrase is one of the library, so that none is forgotten there.
func TestPhrasesAreSaid(t *testing.T) {
	all := new(strings.Builder)
	for _, library := range []string{"store", "ope"} {
		each(t, library, func(_, text string) { all.WriteString(text + "\n") })
	}
	src, err := parser.ParseFile(token.NewFileSet(), "wording.go", nil, 0)
	require.NoError(t, err)
	var phrases []string
	ast.Inspect(src, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok && len(call.Args) > 2 {
			for i, arg := range call.Args {
				phrase, err := strconv.Unquote(arg.(*ast.BasicLit).Value)
				require.NoError(t, err)
				if i%2 == 0 {
					phrases = append(phrases, phrase)
				}
			}
		}
		return true
	})
	require.Greater(t, len(phrases), 15)
	for _, phrase := range phrases {
		// What stands before it may be another part of the text.
		require.Contains(t, all.String(), strings.TrimPrefix(phrase, ": "), "nothing says so any more: take it out of wording.go")
	}
}

// each calls do with the texts of shipped code below a folder of the library.
func each(t *testing.T, library string, do func(path, text string)) {
	t.Helper()
	err := filepath.WalkDir(filepath.Join(root, library), func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && slices.Contains([]string{"testdata", "drivertest", "compare"}, d.Name()) {
			return fs.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		at, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING && strings.Contains(lit.Value, " ") {
				text, err := strconv.Unquote(lit.Value)
				require.NoError(t, err)
				do(filepath.ToSlash(at), strings.ReplaceAll(text, "%q", `"x"`))
			}
			return true
		})
		return nil
	})
	require.NoError(t, err)
}

// exported returns the exported names of packages: of types, their fields and methods, of functions, variables and constants.
func exported(t *testing.T, dirs ...string) map[string]bool {
	t.Helper()
	names := make(map[string]bool)
	for _, dir := range dirs {
		files, err := filepath.Glob(filepath.Join(root, dir, "*.go"))
		require.NoError(t, err)
		require.NotEmpty(t, files)
		for _, path := range files {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			require.NoError(t, err)
			ast.Inspect(f, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.FuncDecl:
					names[n.Name.Name] = n.Name.IsExported()
				case *ast.TypeSpec:
					names[n.Name.Name] = n.Name.IsExported()
				case *ast.ValueSpec:
					for _, name := range n.Names {
						names[name.Name] = name.IsExported()
					}
				case *ast.Field:
					for _, name := range n.Names {
						names[name.Name] = name.IsExported()
					}
				}
				return true
			})
		}
	}
	for _, english := range []string{"Cassandra", "HBase", "Pebble", "TTL", "UUID", "TLS", "NaN"} {
		delete(names, english)
	}
	for name, is := range names {
		if !is {
			delete(names, name)
		}
	}
	return names
}
