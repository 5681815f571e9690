package boldyreva

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/sim"
)

// No floating point may decide a ciphertext: neither its types, nor literals, nor package math, nor
// what math/big offers of it.
func TestNoFloatingPoint(t *testing.T) {
	t.Parallel()
	fset := token.NewFileSet()
	imports := importer.ForCompiler(fset, "source", nil) // which reads each package once
	for _, folder := range []string{".", "../wozniak", "../internal/coins"} {
		found, idents := floats(t, fset, imports, folder, nil)
		require.Empty(t, found)
		require.Greater(t, idents, 100)
	}
	// The check finds each kind.
	for _, source := range []string{
		`package p; var x float32`,
		`package p; var x = float64(1)`,
		`package p; const x = 1.0`,
		`package p; var x = 1i`,
		`package p; var x = 1 / 2.5`,
		`package p; import "math"; var x = math.MaxInt64`,
		`package p; import "math/big"; var x = new(big.Float)`,
		`package p; import "math/big"; var x, _ = big.NewRat(1, 2).Float64()`,
		`package p; import "math/big"; func f(x big.Int) bool { y, _ := x.Float64(); return y > 1 }`,
	} {
		found, _ := floats(t, fset, imports, "", []byte(source))
		require.NotEmpty(t, found, source)
	}
}

func floats(t *testing.T, fset *token.FileSet, imports types.Importer, folder string, source []byte) (found []string, idents int) {
	var files []*ast.File
	if source != nil {
		f, err := parser.ParseFile(fset, "p.go", source, 0)
		require.NoError(t, err)
		files = append(files, f)
	} else {
		names, err := filepath.Glob(filepath.Join(folder, "*.go"))
		require.NoError(t, err)
		for _, name := range names {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			f, err := parser.ParseFile(fset, name, nil, 0)
			require.NoError(t, err)
			files = append(files, f)
		}
	}
	require.NotEmpty(t, files)

	info := &types.Info{Types: map[ast.Expr]types.TypeAndValue{}, Defs: map[*ast.Ident]types.Object{}, Uses: map[*ast.Ident]types.Object{}}
	conf := types.Config{Importer: imports}
	_, err := conf.Check("p", fset, files, info)
	require.NoError(t, err)
	report := func(n ast.Node, what string) { found = append(found, fmt.Sprint(fset.Position(n.Pos()), ": ", what)) }
	for _, f := range files {
		for _, imp := range f.Imports {
			if slices.Contains([]string{`"math"`, `"math/cmplx"`, `"unsafe"`, `"C"`}, imp.Path.Value) {
				report(imp, imp.Path.Value)
			}
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && (lit.Kind == token.FLOAT || lit.Kind == token.IMAG) {
				report(lit, lit.Value)
			}
			if e, ok := n.(ast.Expr); ok {
				if tv, ok := info.Types[e]; ok && isFloat(tv.Type) {
					report(e, tv.Type.String())
				}
			}
			id, ok := n.(*ast.Ident)
			if !ok {
				return true
			}
			idents++
			for _, o := range []types.Object{info.Defs[id], info.Uses[id]} {
				if o != nil && (isFloat(o.Type()) || o.Pkg() != nil && o.Pkg().Path() == "math/big" && strings.Contains(o.Name(), "Float")) {
					report(id, id.Name)
				}
			}
			return true
		})
	}
	return found, idents
}

// isFloat reports whether a type is of floating point, or holds or returns such.
func isFloat(typ types.Type) bool {
	if typ == nil {
		return false
	}
	switch u := typ.Underlying().(type) {
	case *types.Basic:
		return u.Info()&(types.IsFloat|types.IsComplex) != 0
	case *types.Pointer:
		_, named := u.Elem().(*types.Named)
		return !named && isFloat(u.Elem())
	case *types.Slice:
		return isFloat(u.Elem())
	case *types.Array:
		return isFloat(u.Elem())
	case *types.Map:
		return isFloat(u.Key()) || isFloat(u.Elem())
	case *types.Signature:
		for v := range u.Results().Variables() {
			if isFloat(v.Type()) {
				return true
			}
		}
		for v := range u.Params().Variables() {
			if isFloat(v.Type()) {
				return true
			}
		}
	}
	return false
}

// The envelopes and the roots are part of the format. Do not change these digests: a scheme with
// other tables is another version.
const (
	tablesDigest = "a07848fc8bcce5a6d16391103b7fa98bd261b76a3e758648da33d238e23f21bb"
	rootsDigest  = "e730fe01153e35399fcfb7a0f93b253191558fd95358b9832449f13e71759345"
)

func TestTablesArePinned(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(vectorFolder, "boldyreva-1-tables.json"))
	require.NoError(t, err)
	require.Equal(t, tablesDigest, digestHex(text), "boldyreva-1-tables.json")
	require.Equal(t, rootsDigest, digestHex(fmt.Append(nil, roots)), "roots")

	var tables []struct {
		Fraction                 uint
		Kappa                    uint32
		Height, Threshold, Alias []uint32
	}
	require.NoError(t, json.Unmarshal(text, &tables))
	require.Len(t, tables, len(envelopes))
	for i, e := range tables {
		got := envelopes[i]
		require.Equal(t, e.Kappa, got.kappa)
		require.Equal(t, e.Fraction, got.fraction)
		require.Equal(t, e.Height, got.height[:])
		weights := make([]uint64, 64)
		for c, packed := range got.column {
			require.Equal(t, e.Threshold[c], packed>>6)
			require.Equal(t, e.Alias[c], packed&63)
			weights[c] += uint64(packed >> 6)
			weights[packed&63] += 1<<25 - uint64(packed>>6)
		}
		// The alias table draws each block in proportion to its height, the tail twice; block 0
		// takes what is left of 2^31.
		for j := 1; j < blocks; j++ {
			require.Equal(t, uint64(e.Height[j]), weights[j])
		}
		require.Equal(t, 2*uint64(e.Height[blocks]), weights[blocks])
		require.Equal(t, uint64(e.Height[0]), weights[0])
	}
}

func digestHex(b []byte) string {
	h := sha256.Sum256(b)
	return hex.EncodeToString(h[:])
}

func TestReference(t *testing.T) {
	t.Parallel()
	python, err := exec.LookPath("python3")
	if err == nil {
		err = exec.Command(python, "-c", "import mpmath").Run()
	}
	if err != nil {
		reason := "needs python3 with mpmath (pip install -r testdata/reference/requirements.txt): " + err.Error()
		if sim.Required("python") {
			t.Fatal(reason)
		}
		t.Skip(reason)
	}
	folder := "../../testdata/reference"
	for _, args := range [][]string{{"boldyreva.py", "--quick"}, {"boldyreva_tables.py", "--quick"}} {
		cmd := exec.Command(python, args...)
		cmd.Dir = folder
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, string(out))
		t.Logf("%s", out)
	}
}
