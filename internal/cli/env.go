// Package cli is what the commands share: how they meet the world, take a store and its key, and end.
package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/rangecrypt/rangecrypt/internal/cli/exit"
	"github.com/rangecrypt/rangecrypt/internal/cli/progress"
	"github.com/rangecrypt/rangecrypt/internal/cli/show"
	"github.com/rangecrypt/rangecrypt/internal/cli/stores"
	"github.com/rangecrypt/rangecrypt/internal/cli/wording"
)

// An Env is what a command knows of the world.
type Env struct {
	Stdout, Stderr io.Writer

	StdoutWidth int // columns of the terminal that Stdout is; 0 where it is none
	BarWidth    int // columns of the terminal that Stderr is, if it can redraw a line; 0 otherwise

	// Ask asks a question that is answered by yes or no; nil where nobody can be asked.
	Ask func(ctx context.Context, question string) (bool, error)

	// OpenStore opens the database that --store names.
	OpenStore stores.Opener

	// AskPassword asks for the password of a database; nil where nobody can be asked.
	AskPassword stores.Ask

	program    string // whose commands these are
	colour     bool   // Stdout may be coloured
	passphrase askFunc
	helpErr    error         // of writing a help text
	patience   time.Duration // with what does not end when it is interrupted; 0 is the default
}

// System returns the Env of this process.
func System() *Env {
	e := &Env{Stdout: os.Stdout, Stderr: os.Stderr, passphrase: askPassphrase}
	able := os.Getenv("TERM") != "dumb"
	e.StdoutWidth = terminalWidth(os.Stdout)
	e.colour = e.StdoutWidth > 0 && able && os.Getenv("NO_COLOR") == ""
	if able {
		e.BarWidth = terminalWidth(os.Stderr)
	}
	if term.IsTerminal(int(os.Stdin.Fd())) {
		e.Ask, e.AskPassword = ask, remember(askPassword)
	}
	e.OpenStore = stores.Asking(e.AskPassword, e.Tell)
	return e
}

// terminalWidth returns the columns of the terminal that a file is, and 0 if it is none.
func terminalWidth(f *os.File) int {
	fd := int(f.Fd())
	if !term.IsTerminal(fd) {
		return 0
	}
	if width, _, err := term.GetSize(fd); err == nil && width > 0 {
		return width
	}
	return 80
}

// Main runs the command that the arguments of the process name, and ends the process.
func Main(root func(*Env) *cobra.Command) {
	os.Exit(int(Execute(context.Background(), System(), root, os.Args[1:])))
}

// Execute runs the command of a program that the arguments name.
func Execute(ctx context.Context, e *Env, newRoot func(*Env) *cobra.Command, args []string) exit.Code {
	// A reader that goes away, such as head, is an error like others, not the end of the
	// process: stores are closed and temporary ones removed.
	signal.Ignore(syscall.SIGPIPE)
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // as it is after nohup
		signals = append(signals, syscall.SIGHUP) // of a terminal that was closed
	}
	ctx, stop := signal.NotifyContext(ctx, signals...)
	defer stop()
	ended := make(chan struct{})
	defer close(ended)
	context.AfterFunc(ctx, func() {
		stop() // so that the next signal ends the process at once
		select {
		case <-ended:
		case <-time.After(cmp.Or(e.patience, 7*time.Second)): // batches that are under way have 5
			e.Tell("interrupted, but something is still waited for, such as a pipe that nobody opens or reads: another Ctrl-C ends this at once")
		}
	})

	root := newRoot(e)
	e.program = root.Name()
	if len(args) > 0 && (args[0] == cobra.ShellCompRequestCmd || args[0] == cobra.ShellCompNoDescRequestCmd) {
		e.completeValues(root)
		forCompletion(root)
	}
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		err = e.helpErr
	}
	code := exit.CodeOf(ctx, err)
	switch {
	case code == exit.OK: // also where nobody reads on
	case code == exit.Interrupted:
		e.Warn("%v", exit.Early(ctx, err))
	default:
		text := conceal(once(wording.Of(err)), args)
		e.Warn("%s", text)
		if code == exit.Usage {
			fmt.Fprintf(e.Stderr, "Run '%s --help' for usage.\n", cmd.CommandPath())
		} else if exit.Damaged(err) && cmd.Name() != "verify" && !strings.Contains(text, "verify") && !strings.Contains(text, "restore") { // unless the error says what to do
			fmt.Fprintf(e.Stderr, "Run '%s verify' to see what is not as it was written.\n", e.program)
		}
	}
	return code
}

// Style returns how tables on Stdout are to look.
func (e *Env) Style() show.Style { return show.Style{Width: e.StdoutWidth, Bold: e.colour} }

// Progress returns what shows how far things are.
func (e *Env) Progress() progress.Reporter { return progress.New(e.Stderr, e.program, e.BarWidth) }

// Totals returns the same, for totals.
func (e *Env) Totals() *progress.Totals { return &progress.Totals{Reporter: e.Progress()} }

// Warn says something on Stderr, in a line that begins with the name of the program.
func (e *Env) Warn(format string, args ...any) {
	fmt.Fprintf(e.Stderr, "%s: %s\n", e.program, fmt.Sprintf(format, args...))
}

// Tell says something on Stderr, above a bar if there is one.
func (e *Env) Tell(text string) {
	if e.BarWidth == 0 {
		e.Warn("%s", text)
		return
	}
	fmt.Fprintf(e.Stderr, "\r%-78s\n", text)
}

// Line prints a line, or more than one where a terminal is too narrow.
func (e *Env) Line(format string, args ...any) error {
	return e.Print(show.Line(fmt.Sprintf(format, args...), e.Style()))
}

// Print prints a text.
func (e *Env) Print(text string) error {
	_, err := io.WriteString(e.Report(), text)
	return err
}

// Encode prints a line of JSON.
func (e *Env) Encode(line any) error { return json.NewEncoder(e.Report()).Encode(line) }

// Report returns the Stdout for what a command says of its work. That nobody reads on ends no work, and hides no fault.
func (e *Env) Report() io.Writer { return report{e.Stdout} }

type report struct{ io.Writer }

func (r report) Write(b []byte) (int, error) {
	n, err := r.Writer.Write(b)
	if errors.Is(err, syscall.EPIPE) {
		return len(b), nil
	}
	return n, err
}
