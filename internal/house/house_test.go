package house

import (
	"cmp"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/rangecrypt/rangecrypt/internal/sim"
	"github.com/stretchr/testify/require"
)

const (
	module = "github.com/rangecrypt/rangecrypt"
	root   = "../.."

	longestFunction = 80   // lines, of shipped code
	largestPackage  = 2500 // lines, of a package without tests
	mostNames       = 189  // exported names of package store, methods included
	largestCycle    = 6    // files of a package below store that cannot be read one after the other
)

// larger are packages with a limit of their own.
var larger = map[string]int{
	"ope/boldyreva":    2980, // a scheme, whose walks for one value, many and ranges share their steps
	"ope/wozniak":      3440, // two schemes that share a state, and its index
	"ope/kerschbaum":   3300, // what a client remembers of an index, and all that it does by that
	"store/drivertest": 4530, // one test suite, in files by promise
	"store/pebble":     2880,
	"store/cassandra":  3870,
	"store/hbase":      2710,
}

// A source is a parsed file of the module.
type source struct {
	path  string // from the root
	test  bool
	lines int
	file  *ast.File
}

func (s *source) folder() string { return filepath.ToSlash(filepath.Dir(s.path)) }

var (
	fileSet = token.NewFileSet()
	parsed  []*source
)

// sources returns all files of Go of the module.
func sources(t *testing.T) []*source {
	if parsed != nil {
		return parsed
	}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		name := d.Name()
		if err != nil || d.IsDir() && path != root && (name == "testdata" || strings.HasPrefix(name, ".")) {
			return cmp.Or(err, fs.SkipDir)
		}
		if d.IsDir() || !strings.HasSuffix(name, ".go") {
			return nil
		}
		file, err := parser.ParseFile(fileSet, path, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		path, err = filepath.Rel(root, path)
		parsed = append(parsed, &source{path, strings.HasSuffix(name, "_test.go"), fileSet.File(file.FileStart).LineCount(), file})
		return err
	})
	require.NoError(t, err)
	require.Greater(t, len(parsed), 100, "these are not all files")
	return parsed
}

func TestFunctionsAreShort(t *testing.T) {
	for _, s := range sources(t) {
		for _, d := range s.file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || s.test {
				continue
			}
			if n := fileSet.Position(f.End()).Line - fileSet.Position(f.Pos()).Line + 1; n > longestFunction {
				t.Errorf("%s: %s has %d lines, at most %d are allowed", s.path, f.Name.Name, n, longestFunction)
			}
		}
	}
}

func TestPackagesAreSmall(t *testing.T) {
	lines := make(map[string]int)
	tests, others := 0, 0
	for _, s := range sources(t) {
		if s.test {
			tests += s.lines
			continue
		}
		others += s.lines
		lines[s.folder()] += s.lines
	}
	t.Logf("%d lines in tests, %d in all other files of Go", tests, others)
	for folder, n := range lines {
		if limit := cmp.Or(larger[folder], largestPackage); n > limit {
			t.Errorf("%s has %d lines, at most %d are allowed", folder, n, limit)
		}
	}
}

// Files that refer to each other in a cycle have to be read together.
func TestFilesAreInSmallCycles(t *testing.T) {
	if testing.Short() {
		t.Skip("it checks the types of the whole module")
	}
	refers := references(t).files
	reached := make(map[string]map[string]bool)
	var reach func(from, at string)
	reach = func(from, at string) {
		for to := range refers[at] {
			if !reached[from][to] {
				reached[from][to] = true
				reach(from, to)
			}
		}
	}
	for from := range refers {
		reached[from] = make(map[string]bool)
		reach(from, from)
	}
	reported := make(map[string]bool)
	for from := range refers {
		cycle := []string{from}
		for to := range reached[from] {
			if to != from && reached[to][from] {
				cycle = append(cycle, to)
			}
		}
		slices.Sort(cycle)
		folder := path.Dir(from)
		if (folder == "store" || strings.HasPrefix(folder, "store/")) && len(cycle) > largestCycle && !reported[cycle[0]] {
			reported[cycle[0]] = true
			t.Errorf("%d files refer to each other in a cycle, at most %d are allowed: %s", len(cycle), largestCycle, strings.Join(cycle, " "))
		}
	}
	require.Greater(t, len(refers), 100, "these are not all files")
}

// exported returns the exported names of a package: functions, types, constants, variables, and the methods of
// exported types as "Type.Method".
func exported(t *testing.T, folder string) map[string]token.Pos {
	names := make(map[string]token.Pos)
	add := func(prefix string, name *ast.Ident) {
		if name.IsExported() {
			names[prefix+name.Name] = name.Pos()
		}
	}
	for _, s := range sources(t) {
		if s.test || s.folder() != folder {
			continue
		}
		for _, d := range s.file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if prefix := receiver(d); d.Recv == nil || ast.IsExported(prefix) {
					add(prefix, d.Name)
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					switch spec := spec.(type) {
					case *ast.TypeSpec:
						add("", spec.Name)
						if i, ok := spec.Type.(*ast.InterfaceType); ok && spec.Name.IsExported() {
							for _, m := range i.Methods.List {
								for _, name := range m.Names {
									add(spec.Name.Name+".", name)
								}
							}
						}
					case *ast.ValueSpec:
						for _, name := range spec.Names {
							add("", name)
						}
					}
				}
			}
		}
	}
	return names
}

// receiver returns "Type." of a method, and nothing of a function.
func receiver(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return ""
	}
	typ := f.Recv.List[0].Type
	for {
		switch x := typ.(type) {
		case *ast.StarExpr:
			typ = x.X
		case *ast.IndexExpr:
			typ = x.X
		case *ast.IndexListExpr:
			typ = x.X
		case *ast.Ident:
			return x.Name + "."
		default:
			return ""
		}
	}
}

// They are counted as go doc shows them, with the methods that a type has of an embedded one which is not exported.
func TestStoreHasFewNames(t *testing.T) {
	names := exported(t, "store")
	var files []*ast.File
	for _, s := range sources(t) {
		if !s.test && s.folder() == "store" {
			files = append(files, s.file)
		}
	}
	pkg, err := doc.NewFromFiles(fileSet, files, module+"/store", doc.PreserveAST)
	require.NoError(t, err)
	for _, typ := range pkg.Types {
		for _, m := range typ.Methods {
			names[typ.Name+"."+m.Name] = m.Decl.Pos()
		}
	}
	t.Logf("%d exported names", len(names))
	if len(names) > mostNames {
		t.Errorf("package store has %d exported names, at most %d are allowed: %s", len(names), mostNames,
			strings.Join(slices.Sorted(maps.Keys(names)), " "))
	}
}

// Names that need no caller, and why.
var callerless = map[string]string{
	"store/cassandra/internal/hooks.Logger.Warning": "gocql calls it",
	"store/cassandra/internal/hooks.Logger.Debug":   "gocql calls it",
}

// An exported name has a caller that is not one of its package's own tests, or an example that shows what it is for.
// A method that an interface asks for has the callers of the interface.
func TestExportedNamesHaveCallers(t *testing.T) {
	if testing.Short() {
		t.Skip("it checks the types of the whole module")
	}
	used := references(t).names
	require.Greater(t, len(used), 1000, "these are not all uses")
	folders := make(map[string]bool)
	for _, s := range sources(t) {
		folders[s.folder()] = true
	}
	for _, folder := range slices.Sorted(maps.Keys(folders)) {
		if folder == "internal/house" {
			continue
		}
		for name, pos := range exported(t, folder) {
			full := folder + "." + name
			_, method, isMethod := strings.Cut(name, ".")
			if used[full] || isMethod && used["."+method] || callerless[full] != "" {
				continue
			}
			p := fileSet.Position(pos)
			rel, _ := filepath.Rel(root, p.Filename)
			t.Errorf("%s:%d: %s is exported, and nobody outside its tests uses it", rel, p.Line, full)
		}
	}
}

// refs is what refers to what in the module.
type refs struct {
	// names has the names that are used: "folder.Name", "folder.Type.Method", and ".Method" of what is called on any
	// interface. What tests use of their own package does not count, but in examples.
	names map[string]bool
	// files has, of each shipped file, those of its package whose names it uses.
	files map[string]map[string]bool
}

var found *refs

// native is the system whose files are looked at: with all cases this one, elsewhere the one that the module is checked
// for anyhow, by [TestCompilesOnOtherSystems].
func native() (goos, goarch string) {
	if sim.Full() {
		return runtime.GOOS, runtime.GOARCH
	}
	return differs[0], differs[1]
}

// references returns what refers to what. It checks the types of the whole module, once.
func references(t *testing.T) *refs {
	if found != nil {
		return found
	}
	found = &refs{make(map[string]bool), make(map[string]map[string]bool)}
	used := found.names
	goos, goarch := native()
	c := newCompiler(t, goos, goarch)
	c.note = func(importPath string, file *ast.File, info *types.Info) {
		isTest := func(pos token.Pos) bool { return strings.HasSuffix(c.files.Position(pos).Filename, "_test.go") }
		name := func(pos token.Pos) string {
			return path.Join(strings.TrimPrefix(importPath, module+"/"), filepath.Base(c.files.Position(pos).Filename))
		}
		from := name(file.Package)
		for id, o := range info.Uses {
			if o.Pkg() == nil || id.Pos() < file.FileStart || file.FileEnd < id.Pos() {
				continue
			}
			if o.Pkg().Path() == importPath && !isTest(id.Pos()) && !isTest(o.Pos()) {
				if found.files[from] == nil {
					found.files[from] = make(map[string]bool)
				}
				found.files[from][name(o.Pos())] = true
			}
			own := o.Pkg().Path() == strings.TrimSuffix(importPath, "_test")
			if own && isTest(id.Pos()) && !inExample(file, id) {
				continue
			}
			if name := nameOf(o); name != "" {
				used[name] = true
			}
		}
		for _, s := range info.Selections {
			if types.IsInterface(s.Recv()) {
				used["."+s.Obj().Name()] = true
			}
		}
	}
	c.all(t)
	// What the standard library calls on values that it is given.
	for _, method := range []string{"String", "Error", "Unwrap", "Is", "As", "MarshalJSON", "UnmarshalJSON", "MarshalText", "UnmarshalText", "GoString", "Format", "LogValue"} {
		used["."+method] = true
	}
	// Marks: having the method is all that is asked of a scheme.
	for _, method := range []string{"ImmutableCiphertexts", "LinearOrder"} {
		used["."+method] = true
	}
	return found
}

// inExample reports whether an identifier is in an example that the documentation shows.
func inExample(file *ast.File, id *ast.Ident) bool {
	for _, d := range file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && strings.HasPrefix(f.Name.Name, "Example") && f.Pos() <= id.Pos() && id.Pos() <= f.End() {
			return true
		}
	}
	return false
}

// nameOf returns the name of an object as uses does, or nothing where it is not of this module.
func nameOf(o types.Object) string {
	folder, ours := strings.CutPrefix(strings.TrimSuffix(o.Pkg().Path(), "_test"), module+"/")
	if !ours {
		return ""
	}
	if f, ok := o.(*types.Func); ok {
		if recv := f.Signature().Recv(); recv != nil {
			typ := recv.Type()
			if p, ok := typ.(*types.Pointer); ok {
				typ = p.Elem()
			}
			if named, ok := typ.(*types.Named); ok {
				return folder + "." + named.Obj().Name() + "." + o.Name()
			}
			return "." + o.Name()
		}
	}
	return folder + "." + o.Name()
}
