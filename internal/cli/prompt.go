package cli

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"golang.org/x/term"

	"github.com/rangecrypt/rangecrypt/internal/cli/stores"
	"github.com/rangecrypt/rangecrypt/internal/pause"
)

// mostPassphrase is how many bytes of a passphrase are read. Why not more: a file that was given by
// mistake need not be read to its end.
const mostPassphrase = 4096

// An askFunc asks for a passphrase. typed says that somebody typed it, without seeing it.
type askFunc func(ctx context.Context, prompt string) (passphrase []byte, typed bool, err error)

// askPassphrase reads a passphrase: from the terminal, where standard input is one, without showing
// it, and otherwise the next line of standard input. typed says which.
func askPassphrase(ctx context.Context, prompt string) (passphrase []byte, typed bool, err error) {
	return askSecret(ctx, "passphrase", prompt)
}

// askPassword reads a password from the terminal that standard input is.
func askPassword(ctx context.Context, prompt string) ([]byte, error) {
	password, _, err := askSecret(ctx, "password", prompt)
	return password, err
}

// remember returns what asks each question once: some commands open a store more often.
func remember(ask stores.Ask) stores.Ask {
	var mu sync.Mutex
	answers := make(map[string][]byte)
	return func(ctx context.Context, prompt string) ([]byte, error) {
		mu.Lock()
		defer mu.Unlock()
		if answer, ok := answers[prompt]; ok {
			return answer, nil
		}
		answer, err := ask(ctx, prompt)
		if err == nil {
			answers[prompt] = answer
		}
		return answer, err
	}
}

func askSecret(ctx context.Context, what, prompt string) (secret []byte, typed bool, err error) {
	fd := int(os.Stdin.Fd())
	typed = term.IsTerminal(fd)
	read := readLine
	if typed {
		state, err := term.GetState(fd)
		if err != nil {
			return nil, true, fmt.Errorf("ask for the %s: %w", what, err)
		}
		fmt.Fprint(os.Stderr, prompt)
		defer fmt.Fprintln(os.Stderr) // the line feed that was typed is not shown
		// Ctrl-C ends the waiting, not the reading: the terminal has to show again what is typed.
		defer term.Restore(fd, state)
		read = func(*os.File) ([]byte, error) { return term.ReadPassword(fd) }
	}
	text, _, err := pause.Within(ctx, func() ([]byte, error) { return read(os.Stdin) })
	switch {
	case ctx.Err() != nil && err != nil:
		return nil, typed, ctx.Err()
	case errors.Is(err, io.EOF) && typed:
		return nil, typed, fmt.Errorf("no %s was given", what)
	case errors.Is(err, io.EOF):
		return nil, typed, fmt.Errorf("no %s: standard input is no terminal and has no line more; write the %[1]s to it, or take a key file", what)
	case err != nil:
		return nil, typed, fmt.Errorf("read the %s: %w", what, err)
	case len(text) > mostPassphrase:
		return nil, typed, fmt.Errorf("the %s has more than %d bytes", what, mostPassphrase)
	}
	return text, typed, nil
}

// Until returns a reader of what another one has, until a context ends: that also ends the waiting for more.
func Until(ctx context.Context, in io.Reader) io.Reader { return &until{ctx: ctx, in: in} }

type until struct {
	ctx context.Context
	in  io.Reader
	buf []byte // which a reading has that nobody waits for any more
}

func (u *until) Read(b []byte) (int, error) {
	if err := u.ctx.Err(); err != nil {
		return 0, err
	}
	if len(u.buf) < len(b) {
		u.buf = make([]byte, len(b))
	}
	var failed error
	n, _, err := pause.Within(u.ctx, func() (n int, _ error) {
		n, failed = u.in.Read(u.buf[:len(b)])
		return n, nil
	})
	if err != nil {
		return 0, err
	}
	return copy(b, u.buf[:n]), failed
}

// ask asks a question on the terminal.
func ask(ctx context.Context, question string) (bool, error) {
	fmt.Fprint(os.Stderr, question)
	// A terminal gives one line at a time.
	answer, _, err := pause.Within(ctx, func() (string, error) { return bufio.NewReader(os.Stdin).ReadString('\n') })
	switch {
	case ctx.Err() != nil && err != nil:
		fmt.Fprintln(os.Stderr)
		return false, ctx.Err()
	case err != nil && !errors.Is(err, io.EOF):
		return false, fmt.Errorf("read the answer: %w", err)
	}
	answer = strings.ToLower(strings.TrimSpace(answer))
	return answer == "y" || answer == "yes", nil
}

// readLine returns a line without its end. It reads byte by byte, so that the rest of the input
// stays for whoever reads next. A last line may lack its end; no line at all is io.EOF.
func readLine(f *os.File) ([]byte, error) {
	var line []byte
	for b := make([]byte, 1); len(line) <= mostPassphrase; {
		_, err := io.ReadFull(f, b)
		if errors.Is(err, io.EOF) && len(line) > 0 {
			break
		}
		if err != nil {
			return nil, err
		}
		if b[0] == '\n' {
			break
		}
		line = append(line, b[0])
	}
	return bytes.TrimSuffix(line, []byte("\r")), nil
}
