// Package mutant holds tests to what they promise: it breaks the source of a package on purpose, one place at a
// time, and requires that a test notices. The product itself has no switch for that.
//
// All mutants of a package are in one test binary, which is built from an overlay ("go build -overlay"). An
// environment variable chooses the mutant of a run.
package mutant

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// A Mutant is one change of the source, and the test that must fail because of it.
type Mutant struct {
	Name string // a word, as in "insertAnywhere"

	// In File, a path below the package's folder, the text Old is replaced by New. Old must occur exactly
	// once. New is Go that decides by On, which becomes an expression that is true in this mutant's run:
	//
	//	Old: `if r.version < since {`
	//	New: `if r.version < since && !On {`
	//
	// A change in several places has more Edits.
	File, Old, New string
	Edits          []Edit

	Test  string   // as for "go test -run"
	Flags []string // of the test binary, as in "-store.sim=50"
}

// An Edit is one more place of a [Mutant].
type Edit struct{ File, Old, New string }

func (m Mutant) edits() []Edit {
	if m.File == "" {
		return m.Edits
	}
	return append([]Edit{{m.File, m.Old, m.New}}, m.Edits...)
}

// variable chooses the mutant.
const variable = "RANGECRYPT_MUTANT"

// Test requires that all mutants can still be made of the source, and that their types fit, against what the go command
// has compiled before. It takes seconds, and belongs in every run. If run, it also requires that a test notices each: it
// builds the test binary of the package in the working directory, and runs the test of each mutant in it. A test that
// does not fail is an error: the mutant survived. So is one that fails without a mutant. Each may take the time given, or
// four times what the longest one takes without a mutant if that is more: a test that takes longer fails.
func Test(t *testing.T, run bool, limit time.Duration, mutants []Mutant) {
	t.Helper()
	changed, err := sources(".", mutants)
	if err != nil {
		t.Fatal(err)
	}
	if testing.Short() {
		t.Skip("the go command lists and compiles what is changed")
	}
	if err := check(changed, folders(mutants)); err != nil {
		t.Fatal("the mutants do not compile: ", err)
	}
	if run {
		survivors(t, limit, mutants)
	}
}

// check checks the types of the packages in folders, with the files that are changed.
func check(changed map[string]string, folders []string) error {
	out, err := exec.Command("go", append([]string{"list", "-export", "-deps", "-json=ImportPath,Name,Dir,GoFiles,Export,DepOnly"}, folders...)...).Output()
	if err != nil {
		return fmt.Errorf("go list: %w", err)
	}
	type listed struct {
		ImportPath, Name, Dir, Export string
		GoFiles                       []string
		DepOnly                       bool
	}
	exported := make(map[string]string)
	var ours []listed
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return err
		}
		exported[p.ImportPath] = p.Export
		if !p.DepOnly {
			ours = append(ours, p)
		}
	}
	wd, err := os.Getwd()
	if err != nil {
		return err
	}
	fset := token.NewFileSet()
	imports := importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exported[path]) })
	left := maps.Clone(changed)
	for _, p := range ours {
		var files []*ast.File
		parse := func(name, text string) error {
			f, err := parser.ParseFile(fset, name, text, parser.SkipObjectResolution)
			files = append(files, f)
			return err
		}
		for _, name := range p.GoFiles {
			place, err := filepath.Rel(wd, filepath.Join(p.Dir, name))
			if err != nil {
				return err
			}
			text, ok := changed[place]
			if !ok {
				b, err := os.ReadFile(place)
				if err != nil {
					return err
				}
				text = string(b)
			}
			delete(left, place)
			if err := parse(name, text); err != nil {
				return err
			}
		}
		if err := parse("mutant_of_this_run.go", "package "+p.Name+"\nvar mutantOfThisRun string"); err != nil {
			return err
		}
		if _, err := (&types.Config{Importer: imports}).Check(p.ImportPath, fset, files, nil); err != nil {
			return err
		}
	}
	if len(left) > 0 {
		return fmt.Errorf("no package has %s", slices.Sorted(maps.Keys(left)))
	}
	return nil
}

// sources returns the changed files, by path.
func sources(dir string, mutants []Mutant) (map[string]string, error) {
	files := make(map[string]string)
	names := make(map[string]bool)
	for _, m := range mutants {
		if m.Name == "" || names[m.Name] || m.Test == "" || len(m.edits()) == 0 {
			return nil, fmt.Errorf("mutant %q: it needs a name of its own, a test and a change", m.Name)
		}
		names[m.Name] = true
		for _, e := range m.edits() {
			path := filepath.Join(dir, e.File)
			text, ok := files[path]
			if !ok {
				b, err := os.ReadFile(path)
				if err != nil {
					return nil, err
				}
				text = string(b)
			}
			if n := strings.Count(text, e.Old); n != 1 || !strings.Contains(e.New, "On") {
				return nil, fmt.Errorf("mutant %q: its text is %d times in %s, and must be there once; what replaces it must use On", m.Name, n, e.File)
			}
			on := fmt.Sprintf("(mutantOfThisRun == %q)", m.Name)
			files[path] = strings.Replace(text, e.Old, replaceWord(e.New, on), 1)
		}
	}
	return files, nil
}

// replaceWord replaces the word On.
func replaceWord(text, by string) string {
	letter := func(c byte) bool {
		return c == '_' || c == '.' || '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z'
	}
	var b strings.Builder
	for i := 0; i < len(text); {
		if strings.HasPrefix(text[i:], "On") && (i == 0 || !letter(text[i-1])) && (i+2 == len(text) || !letter(text[i+2])) {
			b.WriteString(by)
			i += 2
			continue
		}
		b.WriteByte(text[i])
		i++
	}
	return b.String()
}

// patience is how many times longer than expected a test may take.
const patience = 4

// survivors runs the test of each mutant.
func survivors(t *testing.T, limit time.Duration, mutants []Mutant) {
	t.Helper()
	binary := build(t, mutants)
	var tests []string
	for _, m := range mutants {
		tests = append(tests, m.Test+"\x00"+strings.Join(m.Flags, "\x00"))
	}
	slices.Sort(tests)
	least := limit
	for _, test := range slices.Compact(tests) {
		words := strings.Split(strings.TrimSuffix(test, "\x00"), "\x00")
		began := time.Now()
		if out, err := run(t, binary, "", patience*least, words[0], words[1:]); err != nil {
			t.Fatalf("without any mutant, %s fails: %v\n%s", words[0], err, out)
		}
		// A mutant that survives on a busy machine must not pass for one that hangs.
		limit = max(limit, patience*time.Since(began))
	}
	for _, m := range mutants {
		t.Run(m.Name, func(t *testing.T) {
			out, err := run(t, binary, m.Name, limit, m.Test, m.Flags)
			switch {
			case err == nil:
				t.Errorf("the mutant survived: %s passes", m.Test)
			case !bytes.Contains(out, []byte("--- FAIL")) && !bytes.Contains(out, []byte("panic: ")):
				t.Errorf("%s did not fail as a test does: %v\n%s", m.Test, err, out)
			}
		})
	}
}

func run(t *testing.T, binary, mutant string, limit time.Duration, test string, flags []string) ([]byte, error) {
	args := append([]string{"-test.run", test, "-test.failfast", "-test.timeout", limit.String()}, flags...)
	cmd := exec.CommandContext(t.Context(), binary, args...)
	cmd.Env = append(os.Environ(), variable+"="+mutant)
	out, err := cmd.CombinedOutput()
	if err == nil && bytes.Contains(out, []byte("no tests to run")) {
		t.Fatalf("there is no test %s", test)
	}
	return out, err
}

// folders returns those of the files that mutants change, as the go command takes them.
func folders(mutants []Mutant) (all []string) {
	for _, m := range mutants {
		for _, e := range m.edits() {
			all = append(all, "./"+path.Dir(e.File))
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// build returns the path of the test binary.
func build(t *testing.T, mutants []Mutant) string {
	t.Helper()
	temp := t.TempDir()
	binary := filepath.Join(temp, "mutants.test")
	cmd := exec.CommandContext(t.Context(), "go", "test", "-vet=off", "-c", "-overlay", overlay(t, temp, mutants), "-o", binary, ".")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("the mutants do not compile: %v\n%s", err, out)
	}
	return binary
}

// overlay writes the changed files of mutants to a folder, and returns the path of the list that the go command takes.
func overlay(t *testing.T, temp string, mutants []Mutant) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	files, err := sources(dir, mutants)
	if err != nil {
		t.Fatal(err)
	}
	list := struct{ Replace map[string]string }{make(map[string]string)}
	packages := make(map[string]string) // by folder
	write := func(path, text string) {
		name := filepath.Join(temp, fmt.Sprintf("%d.go", len(list.Replace)))
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		list.Replace[path] = name
	}
	for name, text := range files {
		write(name, text)
		packages[filepath.Dir(name)] = packageName(text)
	}
	for folder, name := range packages {
		write(filepath.Join(folder, "mutant_of_this_run.go"),
			fmt.Sprintf("package %s\n\nimport \"os\"\n\nvar mutantOfThisRun = os.Getenv(%q)\n", name, variable))
	}
	b, err := json.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(temp, "overlay.json")
	if err := os.WriteFile(config, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return config
}

// packageName returns the name in a source file's package clause.
func packageName(text string) string {
	for line := range strings.Lines(text) {
		if name, ok := strings.CutPrefix(line, "package "); ok {
			return strings.Fields(name)[0]
		}
	}
	return ""
}
