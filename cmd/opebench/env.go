package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"golang.org/x/term"

	"github.com/rangecrypt/rangecrypt/cmd/opebench/internal/bench"
	"github.com/rangecrypt/rangecrypt/cmd/opebench/internal/report"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/driver"
)

// An env is what a command knows of the world.
type env struct {
	stdout, stderr io.Writer

	stdoutWidth int  // columns of the terminal that stdout is; 0 where it is none
	progress    bool // stderr is a terminal that can redraw a line
	colour      bool // stdout may be coloured

	// ask asks a question that is answered by yes or no; nil where nobody can be asked.
	ask func(ctx context.Context, question string) (bool, error)

	openStore  openFunc
	passphrase askFunc

	helpErr error // of writing a help text
}

// system returns the env of this process.
func system() *env {
	e := &env{stdout: os.Stdout, stderr: os.Stderr, openStore: openStore, passphrase: askPassphrase}
	able := os.Getenv("TERM") != "dumb"
	if fd := int(os.Stdout.Fd()); term.IsTerminal(fd) {
		e.stdoutWidth = 80
		if width, _, err := term.GetSize(fd); err == nil && width > 0 {
			e.stdoutWidth = width
		}
		e.colour = able && os.Getenv("NO_COLOR") == ""
	}
	e.progress = able && term.IsTerminal(int(os.Stderr.Fd()))
	if term.IsTerminal(int(os.Stdin.Fd())) {
		e.ask = ask
	}
	return e
}

// An exitCode tells a script how a command ended.
type exitCode int

const (
	exitOK          exitCode = 0
	exitFailed      exitCode = 1
	exitUsage       exitCode = 2   // wrong flags or arguments
	exitWrong       exitCode = 3   // the database gave a wrong answer, or data that was changed
	exitUnreachable exitCode = 4   // the store cannot be reached, or another process has it
	exitLeaky       exitCode = 5   // an audit found a column that gives away more than it may
	exitInterrupted exitCode = 130 // by Ctrl-C
)

// execute runs the command that the arguments name.
func execute(e *env, args []string) exitCode {
	// A reader that goes away, such as head, is an error like others, not the end of the
	// process: stores are closed and temporary ones removed.
	signal.Ignore(syscall.SIGPIPE)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	// After the first signal the next one ends the process at once.
	context.AfterFunc(ctx, stop)

	root := newRoot(e)
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		err = e.helpErr
	}
	code := codeOf(ctx, err)
	switch {
	case code == exitOK: // also where nobody reads on
	case code == exitInterrupted:
		fmt.Fprintln(e.stderr, "opebench: interrupted")
	default:
		fmt.Fprintf(e.stderr, "opebench: %v\n", err)
		if code == exitUsage {
			fmt.Fprintf(e.stderr, "Run '%s --help' for usage.\n", cmd.CommandPath())
		}
	}
	return code
}

// errInterrupted is returned by commands that ended early because they were told to.
var errInterrupted = errors.New("interrupted")

// interrupted turns what comes of an ended context into errInterrupted.
func interrupted(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil && !errors.Is(err, bench.ErrWrongAnswer) {
		return errInterrupted
	}
	return err
}

func codeOf(ctx context.Context, err error) exitCode {
	switch {
	case errors.Is(err, bench.ErrWrongAnswer), errors.Is(err, store.ErrTampered):
		return exitWrong
	case err == nil, errors.Is(err, syscall.EPIPE):
		return exitOK
	case errors.Is(err, bench.ErrUsage):
		return exitUsage
	case errors.Is(err, errLeaky):
		return exitLeaky
	case errors.Is(err, errInterrupted), errors.Is(err, context.Canceled) && ctx.Err() != nil:
		return exitInterrupted
	case fileSystemError(err):
		return exitFailed // also where it made the embedded database unavailable
	case errors.Is(err, driver.ErrUnavailable), errors.Is(err, driver.ErrLocked):
		return exitUnreachable
	}
	return exitFailed
}

// fileSystemError reports whether a disk refused something: no space left, say.
func fileSystemError(err error) bool {
	for _, errno := range []syscall.Errno{
		syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG, syscall.EIO, syscall.EROFS, syscall.EACCES, syscall.EPERM,
	} {
		if errors.Is(err, errno) && !errors.Is(err, driver.ErrLocked) {
			return true
		}
	}
	return false
}

type usageError string

func (e usageError) Error() string        { return string(e) }
func (e usageError) Is(target error) bool { return target == bench.ErrUsage }

func usagef(format string, args ...any) error { return usageError(fmt.Sprintf(format, args...)) }

// style returns how tables on stdout are to look.
func (e *env) style() report.Style { return report.Style{Width: e.stdoutWidth, Bold: e.colour} }

// list writes names and what they are about in two columns, for the help texts of flags.
func list(names, abouts []string) string {
	const columns = 42 // of 80, that pflag leaves to the text
	width := 0
	for _, n := range names {
		width = max(width, len(n))
	}
	var b strings.Builder
	for i, n := range names {
		used := width + 1
		fmt.Fprintf(&b, "%-*s ", width, n)
		for _, word := range strings.Fields(abouts[i]) {
			if used+1+len(word) > columns {
				used = width + 1
				fmt.Fprintf(&b, "\n%*s", used, "")
			}
			used += 1 + len(word)
			b.WriteString(" " + word)
		}
		b.WriteString("\n")
	}
	return strings.TrimSuffix(b.String(), "\n")
}
