package house

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rangecrypt/rangecrypt/internal/sim"
	"github.com/stretchr/testify/require"
)

// A listed is what `go list` knows of a package.
type listed struct {
	ImportPath, Dir                    string
	Name                               string
	GoFiles, TestGoFiles, XTestGoFiles []string
	ImportMap                          map[string]string
}

// differs is the system that differs most from this one.
var differs = [...]string{"windows", "amd64"}

// The module compiles on systems where its servers cannot be started, its tests included. Types decide that, so no
// code is made of the packages that it imports, which takes most of the time of a build.
func TestCompilesOnOtherSystems(t *testing.T) {
	if testing.Short() {
		t.Skip("it reads the source of all packages that the module imports")
	}
	for _, system := range []string{"windows/amd64", "darwin/arm64"} {
		t.Run(system, func(t *testing.T) {
			if system != strings.Join(differs[:], "/") && !sim.Long() {
				t.Skip("the system that differs most stands for the others")
			}
			if goos, goarch, _ := strings.Cut(system, "/"); sim.Full() {
				newCompiler(t, goos, goarch).all(t)
			} else {
				references(t) // of the same system, for all tests
			}
		})
	}
}

// A compiler checks the types of packages for one system, from source.
type compiler struct {
	packages map[string]*listed
	done     map[string]*types.Package
	files    *token.FileSet
	config   types.Config
	importer *listed // whose imports are looked up

	// note is told what each file of the module uses, if it is not nil.
	note func(path string, file *ast.File, info *types.Info)
}

func newCompiler(t *testing.T, goos, goarch string) *compiler {
	c := &compiler{
		packages: make(map[string]*listed), done: make(map[string]*types.Package), files: token.NewFileSet(),
		config: types.Config{Sizes: types.SizesFor("gc", goarch), Error: func(error) {}},
	}
	c.config.Importer = c
	c.list(t, goos, goarch)
	return c
}

// all checks all packages of the module.
func (c *compiler) all(t *testing.T) {
	ours := 0
	for _, path := range slices.Sorted(maps.Keys(c.packages)) {
		if p := c.packages[path]; strings.HasPrefix(path, module+"/") {
			ours++
			require.NoError(t, c.whole(p), path)
		}
	}
	require.Greater(t, ours, 20, "these are not all packages")
}

func (c *compiler) list(t *testing.T, goos, goarch string) {
	cmd := exec.Command("go", "list", "-deps", "-test", "-json=ImportPath,Dir,Name,GoFiles,TestGoFiles,XTestGoFiles,ImportMap", "./...")
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "GOOS="+goos, "GOARCH="+goarch, "CGO_ENABLED=0")
	out, err := cmd.Output()
	require.NoError(t, err)
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		p := new(listed)
		if err := d.Decode(p); errors.Is(err, io.EOF) {
			return
		}
		require.NoError(t, err)
		if !strings.Contains(p.ImportPath, " ") && !strings.HasSuffix(p.ImportPath, ".test") {
			c.packages[p.ImportPath] = p
		}
	}
}

// Import is that of [types.Importer].
func (c *compiler) Import(path string) (*types.Package, error) {
	if path == "unsafe" {
		return types.Unsafe, nil
	}
	if mapped, ok := c.importer.ImportMap[path]; ok {
		path = mapped
	}
	if pkg := c.done[path]; pkg != nil {
		return pkg, nil
	}
	p := c.packages[path]
	if p == nil {
		return nil, errors.New("no such package: " + path)
	}
	// Its functions are looked into where they are ours.
	pkg, err := c.check(p, p.ImportPath, p.GoFiles, strings.HasPrefix(path, module+"/"))
	c.done[path] = pkg
	return pkg, err
}

// whole checks a package and its tests.
func (c *compiler) whole(p *listed) error {
	c.importer = p
	if _, err := c.Import(p.ImportPath); err != nil {
		return err
	}
	inside, err := c.check(p, p.ImportPath, slices.Concat(p.GoFiles, p.TestGoFiles), true)
	if err != nil || len(p.XTestGoFiles) == 0 {
		return err
	}
	if len(p.TestGoFiles) == 0 {
		inside = c.done[p.ImportPath] // whose types others have, too
	}
	before := maps.Clone(c.done)
	defer func() { c.done = before }()
	// What imports the package is checked again, with the types that its tests see.
	imports := importsOf(before[p.ImportPath])
	maps.DeleteFunc(c.done, func(_ string, pkg *types.Package) bool { return imports(pkg) })
	c.done[p.ImportPath] = inside
	_, err = c.check(p, p.ImportPath+"_test", p.XTestGoFiles, true)
	return err
}

// importsOf returns what reports whether a package of the module imports another, itself or through others of the module.
func importsOf(other *types.Package) func(pkg *types.Package) bool {
	known := make(map[*types.Package]bool) // there are many ways from one package to another
	var imports func(pkg *types.Package) bool
	imports = func(pkg *types.Package) bool {
		if pkg == nil || !strings.HasPrefix(pkg.Path(), module+"/") {
			return false
		}
		does, seen := known[pkg]
		if !seen {
			does = slices.ContainsFunc(pkg.Imports(), func(p *types.Package) bool { return p == other || imports(p) })
			known[pkg] = does
		}
		return does
	}
	return imports
}

func (c *compiler) check(p *listed, path string, names []string, bodies bool) (*types.Package, error) {
	before := c.importer
	c.importer = p
	defer func() { c.importer = before }()
	var files []*ast.File
	for _, name := range names {
		f, err := parser.ParseFile(c.files, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	config := c.config
	config.IgnoreFuncBodies = !bodies
	var info *types.Info
	if bodies && c.note != nil {
		info = &types.Info{Uses: make(map[*ast.Ident]types.Object), Selections: make(map[*ast.SelectorExpr]*types.Selection)}
	}
	pkg, err := config.Check(path, c.files, files, info)
	if info != nil {
		for _, f := range files {
			c.note(path, f, info)
		}
	}
	if !bodies {
		err = nil // imports that only bodies use
	}
	return pkg, err
}
