package cmd

import (
	"bytes"
	"cmp"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/cmd/internal/lab/repro"
	"github.com/rangecrypt/rangecrypt/internal/cli"
)

// The pages that users read are held to the program: commands that they show are run and what is printed
// is compared; commands, flags, files, tests and messages that they name must be there.

// notRun are the commands of the pages that no test runs, and why. A command is named by how it begins. One
// that no page has any more has to go from here, too.
var notRun = map[string]string{
	"go build -o opebench ./cmd/opebench":     "the test has built it",
	"go build -o rangecrypt ./cmd/rangecrypt": "the test has built it",
	"go run ./cmd/opebench run":               "takes a minute; testdata/script/run.txtar runs it with fewer rows",
	"go test ./...":                           "is this",

	"./opebench servers up cassandra":                          "needs Maven",
	"./opebench run --store cassandra://":                      "needs servers",
	"opebench servers up cassandra":                            "needs Maven",
	"opebench run --input flights.csv --column delay --layout": "needs a server",
	"rangecrypt verify --store cassandra://":                   "needs a server",
	"rangecrypt verify --store 'cassandra://":                  "needs a server",
	"opebench repro saas-fig":                                  "needs a server and minutes",

	"rangecrypt migrate ":                 "needs a server; TestMigrationFromCassandra runs it",
	"rangecrypt table rename orders ":     "no page makes that table; testdata/script/migratetable.txtar runs it",
	"rangecrypt table create orders.yaml": "likewise",

	"rangecrypt keys rotate --store pebble:data --key app.key --to 'exec:": "needs openssl 3; testdata/script/openssl.txtar runs it",
	"rangecrypt keys verify --store pebble:data --key 'exec:":              "needs openssl 3; testdata/script/openssl.txtar runs it",
}

// asking are commands that ask on a terminal. There is none here, so that the test says yes.
var asking = []string{"rangecrypt table drop ", "rangecrypt tenant drop "}

// varies is what differs from run to run. Both sides have it replaced before they are compared.
var varies = []struct {
	pattern *regexp.Regexp
	by      string
}{
	{regexp.MustCompile(`\bin [0-9.]+ (ns|us|ms|s)\b`), "in TIME"},
	{regexp.MustCompile(`\([0-9]+ rows/s\)`), "(RATE)"},
	{regexp.MustCompile(`\b[0-9a-f]{16}-[0-9a-f]{10}\b`), "LOAD"},
	{regexp.MustCompile(`\b[0-9a-f]{16}\b`), "ID16"},
	{regexp.MustCompile(`\b[0-9a-f]{32}\b`), "ID32"},
}

const repository = ".."

// A docPage is a text for users.
type docPage struct {
	name  string // from the top of the repository
	lines []string
}

func readPages(t *testing.T) (pages []docPage) {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(repository, "docs", "*.md"))
	require.NoError(t, err)
	require.NotEmpty(t, found)
	for _, file := range append(found, filepath.Join(repository, "README.md"), filepath.Join(repository, "SECURITY.md"), filepath.Join(repository, "CHANGELOG.md")) {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		name, err := filepath.Rel(repository, file)
		require.NoError(t, err)
		pages = append(pages, docPage{filepath.ToSlash(name), strings.Split(string(text), "\n")})
	}
	return pages
}

// A docBlock is code of a page: between fences, or indented, which has the language "".
type docBlock struct {
	page  string
	line  int // of the first line, from 1
	lang  string
	lines []string
}

func (p docPage) blocks() (blocks []docBlock) {
	for i := 0; i < len(p.lines); i++ {
		line := p.lines[i]
		if lang, ok := strings.CutPrefix(line, "```"); ok {
			b := docBlock{page: p.name, line: i + 2, lang: cmp.Or(lang, "text")}
			for i++; i < len(p.lines) && p.lines[i] != "```"; i++ {
				b.lines = append(b.lines, p.lines[i])
			}
			blocks = append(blocks, b)
			continue
		}
		b := docBlock{page: p.name, line: i + 1}
		for ; i < len(p.lines) && strings.HasPrefix(p.lines[i], "    "); i++ {
			b.lines = append(b.lines, p.lines[i][4:])
		}
		if len(b.lines) > 0 {
			blocks = append(blocks, b)
			i-- // the line after it may begin another
		}
	}
	return blocks
}

// A docCommand is one that a page has, maybe with what it prints.
type docCommand struct {
	page   string
	line   int
	text   string
	output []string
	prints bool // the page shows what it prints
}

func (s docCommand) place() string { return fmt.Sprintf("%s:%d", s.page, s.line) }

var (
	comment   = regexp.MustCompile(`\s+#\s.*$`)
	shell     = regexp.MustCompile(`^(\./)?(opebench|rangecrypt|go|cp|sed|printf|awk|mkdir) `)
	mayBeLeft = regexp.MustCompile(`\[(--[^\]]*)\]`)
)

// commands returns the commands of a block. A line that ends with a backslash goes on in the next.
func (b docBlock) commands() (list []docCommand) {
	console := b.lang == "console"
	if !console && b.lang != "sh" && b.lang != "" {
		return nil
	}
	for i := 0; i < len(b.lines); i++ {
		line := b.lines[i]
		c := docCommand{page: b.page, line: b.line + i, prints: console}
		if console {
			var ok bool
			if line, ok = strings.CutPrefix(line, "$ "); !ok {
				if n := len(list); n > 0 {
					list[n-1].output = append(list[n-1].output, line)
				}
				continue
			}
		}
		for strings.HasSuffix(line, `\`) && i+1 < len(b.lines) {
			i++
			line = strings.TrimSuffix(line, `\`) + strings.TrimSpace(b.lines[i])
		}
		c.text = strings.TrimSpace(comment.ReplaceAllString(line, ""))
		if c.text == "" || b.lang == "" && !shell.MatchString(c.text) {
			continue // a comment, or a formula
		}
		list = append(list, c)
	}
	return list
}

// program reports whether a block belongs to the program of the README, which TestReadmeProgram runs.
func (b docBlock) program() bool {
	return b.lang == "console" && slices.Contains(b.lines, "$ go mod tidy")
}

// The commands of each page, in order and in one folder, do what the page says.
func TestDocsSessions(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the pages have commands of a shell")
	}
	met := map[string]bool{}
	for _, p := range readPages(t) {
		list := p.session(met)
		if len(list) == 0 {
			continue
		}
		t.Run(p.name, func(t *testing.T) {
			dir := sessionFolder(t)
			for _, c := range list {
				c.check(t, dir)
			}
			if p.name == "README.md" {
				requireIgnored(t, dir)
			}
		})
	}
	for begin := range notRun {
		require.True(t, met[begin], "notRun of docs_test.go has %q, which no page has any more: take it out", begin)
	}
}

// session returns the commands of a page that are run, and adds to met what of notRun keeps others out.
func (p docPage) session(met map[string]bool) (list []docCommand) {
	for _, b := range p.blocks() {
		if b.program() {
			continue
		}
		for _, c := range b.commands() {
			run := true
			for begin := range notRun {
				if strings.HasPrefix(c.text, begin) {
					met[begin], run = true, false
				}
			}
			if run {
				list = append(list, c)
			}
		}
	}
	return list
}

// sessionFolder returns a folder that looks to commands like the top of the repository after a build.
func sessionFolder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for program := range programs {
		binary, err := exec.LookPath(program) // where TestMain has put it
		require.NoError(t, err)
		require.NoError(t, os.Symlink(binary, filepath.Join(dir, program)))
	}
	top, err := filepath.Abs(repository)
	require.NoError(t, err)
	require.NoError(t, os.Symlink(filepath.Join(top, "cmd"), filepath.Join(dir, "cmd")))
	return dir
}

// check runs the command and compares what it prints with what the page shows.
func (c docCommand) check(t *testing.T, dir string) {
	t.Helper()
	text := mayBeLeft.ReplaceAllString(c.text, "$1")
	for _, begin := range asking {
		if strings.HasPrefix(text, begin) && !strings.Contains(text, "--yes") {
			text += " --yes"
		}
	}
	got, err := c.run(t, dir, text)
	fails := slices.ContainsFunc(c.output, func(line string) bool { return failure.MatchString(line) })
	if (err != nil) != fails {
		t.Errorf("%s: the command ends with %v; mend the page or the command, or, if it needs a server or minutes, name it in notRun of docs_test.go\n  $ %s\n%s",
			c.place(), err, text, indent("printed", got))
		return
	}
	if c.prints && !slices.Equal(alike(got), alike(c.output)) {
		t.Errorf("%s: the page shows something else than is printed; put what is printed there, or mend the command\n  $ %s\n%s%s",
			c.place(), text, indent("shown", c.output), indent("printed", got))
	}
}

// failure matches the line with which a program says that it failed.
var failure = regexp.MustCompile(`^(opebench|rangecrypt): `)

// run returns what a command prints, on either stream, by lines.
func (c docCommand) run(t *testing.T, dir, text string, environment ...string) ([]string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sh", "-c", text)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), environment...)
	out, err := cmd.CombinedOutput()
	printed := strings.TrimSuffix(string(out), "\n")
	if printed == "" {
		return nil, err
	}
	return strings.Split(printed, "\n"), err
}

func alike(lines []string) (same []string) {
	for _, line := range lines {
		for _, v := range varies {
			line = v.pattern.ReplaceAllString(line, v.by)
		}
		same = append(same, line)
	}
	return same
}

func indent(what string, lines []string) string {
	if len(lines) == 0 {
		lines = []string{"(nothing)"}
	}
	return fmt.Sprintf("  %s:\n    %s\n", what, strings.Join(lines, "\n    "))
}

// requireIgnored fails unless git leaves out what the commands of the README have made: a key that is
// committed is no key any more.
func requireIgnored(t *testing.T, dir string) {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	if err := exec.Command("git", "-C", repository, "rev-parse").Run(); err != nil {
		t.Skip("not a clone")
	}
	made, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range made {
		name := e.Name()
		if name == "cmd" {
			continue
		}
		if e.IsDir() {
			name += "/"
		}
		err := exec.Command("git", "-C", repository, "check-ignore", "-q", "--no-index", name).Run()
		require.NoError(t, err, "the commands of README.md make %s, which .gitignore must name", name)
	}
}

// The program of the README builds by the commands beside it, and prints what they show. What it links, this module
// links too: the network is asked once for the go.mod files of modules that nothing of this one links.
func TestReadmeProgram(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the page has commands of a shell")
	}
	if testing.Short() {
		t.Skip("links a program")
	}
	var program, session *docBlock
	for _, p := range readPages(t) {
		if p.name != "README.md" {
			continue
		}
		for _, b := range p.blocks() {
			if b.lang == "go" && strings.HasPrefix(b.lines[0], "package main") {
				program = &b
			}
			if b.program() {
				session = &b
			}
		}
	}
	require.NotNil(t, program, "README.md has no Go block that begins with \"package main\"")
	require.NotNil(t, session, "README.md has no console block with \"$ go mod tidy\"")
	require.LessOrEqual(t, len(program.lines), 30, "the smallest complete program, with all its lines")
	source := strings.Join(program.lines, "\n") + "\n"
	formatted, err := format.Source([]byte(source))
	require.NoError(t, err)
	require.Equal(t, string(formatted), source, "as gofmt has it")
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "main.go"), []byte(source), 0o600))
	top, err := filepath.Abs(repository)
	require.NoError(t, err)
	graph := exec.Command("go", "mod", "graph")
	graph.Dir = top
	if out, err := graph.CombinedOutput(); err != nil {
		t.Fatalf("go mod graph: %v\n%s", err, out)
	}
	for _, c := range session.commands() {
		text := strings.NewReplacer("../rangecrypt/opebench", "opebench", "../rangecrypt/rangecrypt ", "rangecrypt ").Replace(c.text)
		text = strings.ReplaceAll(text, "../rangecrypt", top)
		if text == "go mod tidy" {
			// It also asks for the tests of what is linked, which nobody has here: that is no error with -e.
			text += " -e 2>/dev/null"
		}
		got, err := c.run(t, dir, text, "GOFLAGS=-mod=mod", "GOPROXY=off", "GOSUMDB=off", "GOWORK=off")
		if err != nil || !slices.Equal(got, c.output) {
			t.Fatalf("%s: %v\n  $ %s\n%s%s", c.place(), err, text, indent("shown", c.output), indent("printed", got))
		}
	}
}

var codeSpan = regexp.MustCompile("`[^`]+`")

// A docSpan is a piece of code within the text of a page.
type docSpan struct {
	page string
	line int
	text string
}

func (s docSpan) place() string { return fmt.Sprintf("%s:%d", s.page, s.line) }

// prose returns the lines of the page with those of blocks empty, and without the mark of quotations.
func (p docPage) prose() (lines []string) {
	fenced := false
	for _, line := range p.lines {
		if strings.HasPrefix(line, "```") {
			fenced, line = !fenced, ""
		}
		if fenced || strings.HasPrefix(line, "    ") {
			line = ""
		}
		lines = append(lines, strings.TrimPrefix(line, "> "))
	}
	return lines
}

// spans returns the code within the text of a page; one that goes on in the next line is of the first.
func (p docPage) spans() (list []docSpan) {
	// A paragraph at a time, so that a lonely quote does not turn the rest of the page inside out.
	line := 1
	for paragraph := range strings.SplitSeq(strings.Join(p.prose(), "\n"), "\n\n") {
		for _, at := range codeSpan.FindAllStringIndex(paragraph, -1) {
			list = append(list, docSpan{p.name, line + strings.Count(paragraph[:at[0]], "\n"),
				strings.Join(strings.Fields(paragraph[at[0]+1:at[1]-1]), " ")})
		}
		line += strings.Count(paragraph, "\n") + 2
	}
	return list
}

// Every command and flag that a page or a help text names is there.
func TestDocsNameCommandsThatExist(t *testing.T) {
	commands, flags := 0, 0
	check := func(place, text string) {
		commands++
		if err := parses(text); err != nil {
			t.Errorf("%s: %v\n  %s", place, err, text)
		}
	}
	for _, p := range readPages(t) {
		for _, b := range p.blocks() {
			for _, c := range b.commands() {
				check(c.place(), c.text)
			}
		}
		for _, s := range p.spans() {
			switch {
			case strings.HasPrefix(s.text, "--"):
				flags++
				name := strings.TrimLeft(strings.Fields(s.text)[0], "-")
				if !anyHasFlag(name) {
					t.Errorf("%s: no command has the flag --%s", s.place(), name)
				}
			case isCommand(s.text) && (p.name != "docs/format.md" || named.MatchString(s.text)): // which has labels of keys
				check(s.place(), s.text)
			}
		}
	}
	require.Greater(t, commands, 50)
	require.Greater(t, flags, 10)

	// What help texts and messages name.
	before := commands
	for _, root := range lookedAt() {
		for _, cmd := range allCommands(root) {
			for line := range strings.Lines(strings.ReplaceAll(cmd.Example, "\\\n", " ")) {
				if line = strings.TrimSpace(line); named.MatchString(line) {
					check(cmd.CommandPath()+" --help", line)
				}
			}
		}
	}
	require.Greater(t, commands, before+20)
	before = commands
	quoted := regexp.MustCompile(`'((?:opebench|rangecrypt) [^']*)'`)
	for _, literal := range literals(t) {
		for _, m := range quoted.FindAllStringSubmatch(literal.text, -1) {
			check(literal.place, m[1])
		}
	}
	require.Greater(t, commands, before+10)
}

func newTestRoot(program string) *cobra.Command {
	return programs[program](&cli.Env{Stdout: &bytes.Buffer{}, Stderr: &bytes.Buffer{}})
}

// lookedAt are the command trees, by program, for those who parse no flags into them.
var lookedAt = sync.OnceValue(func() map[string]*cobra.Command {
	trees := map[string]*cobra.Command{}
	for program := range programs {
		trees[program] = newTestRoot(program)
	}
	return trees
})

func allCommands(cmd *cobra.Command) []*cobra.Command {
	list := []*cobra.Command{cmd}
	for _, c := range cmd.Commands() {
		list = append(list, allCommands(c)...)
	}
	return list
}

func anyHasFlag(name string) bool {
	for _, root := range lookedAt() {
		if slices.ContainsFunc(allCommands(root), func(c *cobra.Command) bool { return c.Flags().Lookup(name) != nil }) {
			return true
		}
	}
	return name == "help" || name == "version" // which cobra adds when it executes
}

// named matches what begins with the name of a program.
var named = regexp.MustCompile(`^(\./)?(opebench|rangecrypt)( |$)`)

// isCommand reports whether code in a text is a command: it begins with a program, or with a command that has
// commands of its own, or is a command with flags.
func isCommand(text string) bool {
	words := strings.Fields(text)
	if named.MatchString(text) || len(words) > 4 && words[0] == "time" && named.MatchString(words[1]+" ") {
		return true
	}
	for _, root := range lookedAt() {
		cmd, rest, err := root.Find(words[:1])
		if err == nil && len(rest) == 0 && len(words) > 1 && (cmd.HasSubCommands() || strings.Contains(text, " --")) {
			return true
		}
	}
	return false
}

var word = regexp.MustCompile(`'[^']*'|"[^"]*"|\S+`)

// parses returns an error unless a program has the command, its sub-command and its flags, and takes the values
// of the flags. Words in capitals stand for any value. Other programs are not looked at.
func parses(text string) error {
	text = mayBeLeft.ReplaceAllString(text, "$1")
	text = strings.TrimPrefix(strings.TrimPrefix(text, "time "), "./")
	text = strings.Replace(text, "go run ./cmd/", "", 1)
	text, _, _ = strings.Cut(text, " | ")
	text, _, _ = strings.Cut(text, " > ")
	var args []string
	for _, w := range word.FindAllString(strings.TrimSuffix(text, "|"), -1) {
		args = append(args, strings.Trim(w, `'"`))
	}
	program := args[0]
	switch {
	case programs[program] != nil:
		args = args[1:]
	case !isCommand(text):
		return nil
	default:
		program = programOf(args)
	}
	root := newTestRoot(program)
	if len(args) == 0 {
		return nil
	}
	for i, arg := range args { // a list of sub-commands
		if strings.Contains(arg, "|") && i > 0 && i == len(args)-1 {
			for one := range strings.SplitSeq(arg, "|") {
				if err := parses(strings.Join(append(append([]string{program}, args[:i]...), one), " ")); err != nil {
					return err
				}
			}
			return nil
		}
	}
	cmd, rest, err := root.Find(args)
	if err != nil {
		return err
	}
	if cmd == root || cmd.HasSubCommands() && len(rest) > 0 && !strings.HasPrefix(rest[0], "-") {
		return fmt.Errorf("%s has no command %q", cmd.CommandPath(), rest[0])
	}
	if err := cmd.ParseFlags(withExamples(cmd, rest)); err != nil && err != pflag.ErrHelp {
		return fmt.Errorf("%s: %w", cmd.CommandPath(), err)
	}
	if cmd.Name() == "repro" && cmd.Flags().NArg() > 0 {
		return figure(cmd.Flags().Arg(0))
	}
	return nil
}

var placeholder = regexp.MustCompile(`^[A-Z]+$`)

// withExamples gives flags of numbers a number where the text has a word in capitals.
func withExamples(cmd *cobra.Command, args []string) []string {
	args = slices.Clone(args)
	for i := 1; i < len(args); i++ {
		name, ok := strings.CutPrefix(args[i-1], "--")
		if f := cmd.Flags().Lookup(name); ok && f != nil && placeholder.MatchString(args[i]) && f.Value.Type() != "string" && f.Value.Type() != "stringArray" {
			args[i] = "1"
			if f.Value.Type() == "duration" {
				args[i] = "1s"
			}
		}
	}
	return args
}

func figure(name string) error {
	if name == "all" {
		return nil
	}
	for _, f := range repro.Figures() {
		if f.Name == name || placeholder.MatchString(name) {
			return nil
		}
	}
	return fmt.Errorf("repro has no figure %q", name)
}

// A literal is a string of the source, without that of tests.
type literal struct{ place, text string }

func literals(t *testing.T) (list []literal) {
	t.Helper()
	files, err := sources()
	require.NoError(t, err)
	for name, file := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		for n := range ast.Preorder(file) {
			if l, ok := n.(*ast.BasicLit); ok && l.Kind == token.STRING {
				text, err := strconv.Unquote(l.Value)
				require.NoError(t, err)
				list = append(list, literal{fmt.Sprintf("%s:%d", name, positions.Position(l.Pos()).Line), text})
			}
		}
	}
	require.Greater(t, len(list), 1000)
	return list
}

// sources are the Go files of the repository by their names from its top, parsed once for all tests.
var sources = sync.OnceValues(func() (map[string]*ast.File, error) {
	files := map[string]*ast.File{}
	err := filepath.WalkDir(repository, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if e.IsDir() && strings.HasPrefix(e.Name(), ".") && path != repository {
			return fs.SkipDir
		}
		if e.IsDir() || !strings.HasSuffix(path, ".go") {
			return nil
		}
		name, err := filepath.Rel(repository, path)
		if err != nil {
			return err
		}
		files[filepath.ToSlash(name)], err = parser.ParseFile(positions, path, nil, parser.SkipObjectResolution)
		return err
	})
	return files, err
})

var positions = token.NewFileSet()

var (
	message = regexp.MustCompile(`^(store|driver|kms|ope|opebench|rangecrypt|pebble|cassandra|hbase|seal|catalogue|index|bench|boldyreva|wozniak|kerschbaum|encode): \S.* `)
	aFile   = regexp.MustCompile(`^\.?[a-z]+/[a-zA-Z0-9_./-]+$`)
	aName   = regexp.MustCompile(`^((Test|Fuzz|Benchmark)[A-Z]\w*|([A-Z]\w*|store|ope|encode|kms|driver|pebble|cassandra|hbase|leakage|boldyreva|wozniak|kerschbaum)(\.[A-Z]\w*)+)$`)
	aLink   = regexp.MustCompile(`\]\(([^)#:]+)(#[^)]*)?\)`)
)

// declarations returns the names that the source declares, as a page may write them: Name, Type.Name for
// methods and fields, and both with the package before them.
func declarations(t *testing.T) map[string]bool {
	t.Helper()
	files, err := sources()
	require.NoError(t, err)
	names := map[string]bool{}
	for _, file := range files {
		add := func(name string) { names[name], names[file.Name.Name+"."+name] = true, true }
		for _, d := range file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				name := d.Name.Name
				if d.Recv != nil {
					name = receiver(d.Recv.List[0].Type) + "." + name
				}
				add(name)
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					addSpec(spec, add)
				}
			}
		}
	}
	return names
}

func receiver(typ ast.Expr) string {
	switch typ := typ.(type) {
	case *ast.StarExpr:
		return receiver(typ.X)
	case *ast.IndexExpr:
		return receiver(typ.X)
	case *ast.Ident:
		return typ.Name
	}
	return ""
}

func addSpec(spec ast.Spec, add func(name string)) {
	switch spec := spec.(type) {
	case *ast.ValueSpec:
		for _, name := range spec.Names {
			add(name.Name)
		}
	case *ast.TypeSpec:
		add(spec.Name.Name)
		var fields *ast.FieldList
		switch typ := spec.Type.(type) {
		case *ast.StructType:
			fields = typ.Fields
		case *ast.InterfaceType:
			fields = typ.Methods
		default:
			return
		}
		for _, f := range fields.List {
			for _, name := range f.Names {
				add(spec.Name.Name + "." + name.Name)
			}
		}
	}
}

// What pages quote as a message is in the source; files, tests and names of Go that they have are there.
func TestDocsNameWhatExists(t *testing.T) {
	all := literals(t)
	names := declarations(t)
	messages, identifiers, files := 0, 0, 0
	for _, p := range readPages(t) {
		for _, s := range p.spans() {
			switch {
			case message.MatchString(s.text + " "):
				messages++
				if part := missingPart(s.text, all); part != "" {
					t.Errorf("%s: the message `%s` is quoted, but no string of the source has %q", s.place(), s.text, part)
				}
			case aName.MatchString(s.text):
				identifiers++
				if !names[s.text] {
					t.Errorf("%s: the source declares no %s", s.place(), s.text)
				}
			case aFile.MatchString(s.text) && isFolder(filepath.Join(repository, strings.SplitN(s.text, "/", 2)[0])):
				files++
				requireFile(t, s.place(), s.text)
			}
		}
		for i, line := range p.prose() {
			for _, m := range aLink.FindAllStringSubmatch(line, -1) {
				files++
				requireFile(t, fmt.Sprintf("%s:%d", p.name, i+1), filepath.Join(filepath.Dir(p.name), m[1]))
			}
		}
	}
	require.Positive(t, messages)
	require.Greater(t, identifiers, 30)
	require.Greater(t, files, 30)
}

// missingPart returns the first part of a message, cut where errors are wrapped, that no literal has.
func missingPart(text string, all []literal) string {
	if has(all, text) {
		return ""
	}
	for part := range strings.SplitSeq(text, ": ") {
		if !has(all, part) {
			return part
		}
	}
	return ""
}

func has(all []literal, text string) bool {
	return slices.ContainsFunc(all, func(l literal) bool { return strings.Contains(l.text, text) })
}

func isFolder(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.IsDir()
}

func requireFile(t *testing.T, place, name string) {
	t.Helper()
	if _, err := os.Stat(filepath.Join(repository, name)); err != nil {
		t.Errorf("%s: there is no %s", place, name)
	}
}

// The checks themselves must be able to fail.
// Each figure of a paper that can be measured is listed with its command.
func TestDocsListFigures(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(repository, "docs", "papers.md"))
	require.NoError(t, err)
	for _, f := range repro.Figures() {
		require.Regexp(t, "\\| `opebench repro .*\\b"+f.Name+"\\b.*` \\|\\n", string(text), "no row of the table has the command")
	}
}

func TestDocsChecksFail(t *testing.T) {
	for _, text := range []string{
		"rangecrypt tabel list", "rangecrypt table lists", "opebench insert --inptu x", "opebench run --n many", "opebench repro waage-fig99",
		"table lists", "rangecrypt tenant create|lists", "rangecrypt keys verify --deeper", "insert --nothing 1", "opebench table list",
	} {
		require.Error(t, parses(text), text)
	}
	require.True(t, declarations(t)["Table.Convert"] && declarations(t)["store.ErrWrongKey"])
	require.False(t, declarations(t)["Table.Nothing"] || declarations(t)["kms.ErrNothing"])
	require.Equal(t, "no such thing", missingPart("store: no such thing", literals(t)))
	require.NotEqual(t, alike([]string{"5 rows in 1.00 s"}), alike([]string{"6 rows in 2.00 s"}))
	require.Equal(t, alike([]string{"5 rows in 1.00 s"}), alike([]string{"5 rows in 2.00 s"}))

	p := docPage{"p.md", strings.Split("text `opebench x\ny` and\n\n```console\n$ opebench a \\\n  b # why\none\n\ntwo\n```\n    opebench c [--json]\n    x = y\n```sh\nopebench d\n```", "\n")}
	require.Equal(t, []docSpan{{"p.md", 1, "opebench x y"}}, p.spans())
	var list []docCommand
	for _, b := range p.blocks() {
		list = append(list, b.commands()...)
	}
	require.Equal(t, []docCommand{
		{"p.md", 5, "opebench a b", []string{"one", "", "two"}, true},
		{"p.md", 11, "opebench c [--json]", nil, false},
		{"p.md", 14, "opebench d", nil, false},
	}, list)

	// A page that shows something else than is printed, by a word only, does not pass.
	printed := []string{"5 int64 rows inserted under mope/key in 0.02 s (1 rows/s), load 0000000000000001"}
	require.Equal(t, alike(printed), alike([]string{"5 int64 rows inserted under mope/key in 0.00 s (9883 rows/s), load 2b4d594c97ff08a5"}))
	require.NotEqual(t, alike(printed), alike([]string{"5 int64 rows written under mope/key in 0.00 s (9883 rows/s), load 2b4d594c97ff08a5"}))
}
