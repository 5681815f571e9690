package kms

import (
	"bytes"
	"context"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store/internal/fault"
)

// Program has a program wrap and unwrap: the client of a key management service, of a hardware
// module or of any other keeper of a master key. It is safe for concurrent use; each Wrap and
// Unwrap starts the program once.
//
// The program is started without a shell, with the environment and the folder of this process. It
// gets one more argument, and one line on its standard input. It writes one line to its standard
// output. Both lines are base64 with the standard alphabet and padding (RFC 4648, section 4):
//
//	argument  input                            output
//	wrap      the key, 32 bytes                what it was wrapped to, 1 to 2030 bytes
//	unwrap    what wrap has returned           the key, 32 bytes
//
// A line ends with a line feed, with a carriage return before it or not; that of the output may
// also end with the output. The exit code says what came of it:
//
//	0         done; all others mean that the output does not count
//	10        unwrap: it was wrapped under another master key, [ErrWrongKey]
//	11        the service cannot be reached or does not answer, [ErrUnavailable]
//	12        unwrap: what was wrapped has been changed, [ErrTampered]
//	others    it failed
//
// The first line of its standard error is part of the error then, unless it has a part of the key.
// Programs must authenticate what they wrap: package store trusts the key that comes back.
//
// A call has a time limit. When that is over, or the context of the call ends, the program is
// killed. On Unix it has a process group of its own, which is killed with it: so it cannot ask
// anything on the terminal, and its child processes end with it unless they leave the group.
//
// A wrapped key begins with what tells it from those of [Local] and [Passphrase], and commits to
// the key, so that a program that unwraps another key than was wrapped is ErrWrongKey:
//
//	offset  bytes
//	0       1   'x'
//	1       1   version, 1
//	2       16  derived from the key for the purpose "wrapped by a program": the first 16 bytes
//	18      n   what the program has returned
//
// The command is not part of it: a program may move, and get other arguments.
type Program struct {
	command []string
	timeout time.Duration
}

// ProgramOptions are options of a [Program]. The zero value has the defaults.
type ProgramOptions struct {
	// Timeout is how long one call of the program may take. After that it is killed, and the error is
	// [ErrUnavailable]. The default is one minute, in which somebody can also touch a hardware key.
	Timeout time.Duration
}

const (
	programVersion = 1
	checkSize      = 16
	programHeader  = 1 + 1 + checkSize
	mostByProgram  = MaxWrapped - programHeader

	usualTimeout = time.Minute

	// waitDelay is how long a program that has ended may leave its output open, by a process that it
	// started and left running.
	waitDelay = time.Second
)

// The exit codes of programs. They are none that openssl, a shell, or curl with an https address ends with on its own.
const (
	exitWrongKey    = 10
	exitUnavailable = 11
	exitTampered    = 12
)

// NewProgram returns the Program that is started by a command: the program, which is searched in
// the folders of PATH unless its name has a separator of paths, and its arguments. A program that
// is not there is [fs.ErrNotExist]. Other users see the command while it runs: it must have no
// secret. With the zero Program, and with a nil one, Wrap and Unwrap are [ope.ErrKey].
func NewProgram(command []string, opts *ProgramOptions) (*Program, error) {
	p := &Program{command: slices.Clone(command), timeout: usualTimeout}
	if opts != nil && opts.Timeout != 0 {
		p.timeout = opts.Timeout
	}
	switch {
	case len(command) == 0 || command[0] == "":
		return nil, errors.New("kms: the command names no program")
	case slices.ContainsFunc(command, func(word string) bool { return strings.ContainsRune(word, 0) }):
		return nil, errors.New("kms: a word of the command has a zero byte")
	case p.timeout < 0:
		return nil, fmt.Errorf("kms: the time limit of a program is %v, need more than 0", p.timeout)
	}
	if err := findProgram(command[0]); err != nil {
		return nil, err
	}
	return p, nil
}

// findProgram returns an error, with what to do, unless a program is there and may be run.
func findProgram(name string) error {
	shown := printable(name)
	path, err := exec.LookPath(name)
	if err == nil {
		info, err := os.Stat(path)
		if err == nil && info.Mode()&0o002 != 0 && runtime.GOOS != "windows" {
			return fmt.Errorf("kms: program %s has mode %04o: others may change it, and then get the key; do 'chmod o-w %[1]s'", printable(path), info.Mode().Perm())
		}
		return nil
	}
	info, statErr := os.Stat(name)
	switch inPath := filepath.Base(name) == name; {
	case inPath && statErr == nil && !info.IsDir():
		return fmt.Errorf("kms: there is no program %s in the folders of PATH; the one in this folder is ./%[1]s: %w", shown, fs.ErrNotExist)
	case inPath:
		return fmt.Errorf("kms: there is no program %s in the folders of PATH; give its path: %w", shown, fs.ErrNotExist)
	case errors.Is(statErr, fs.ErrNotExist):
		return fmt.Errorf("kms: there is no program %s: %w", shown, fs.ErrNotExist)
	case statErr == nil && info.IsDir():
		return fmt.Errorf("kms: %s is a folder; name the program in it", shown)
	case statErr == nil && errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("kms: %s is not executable; if it is the program, do 'chmod u+x %[1]s': %w", shown, fs.ErrPermission)
	}
	return fmt.Errorf("kms: find the program %s: %s", shown, reason(err))
}

// Wrap has the program wrap a key of 32 bytes. The errors are [ErrUnavailable], those of ctx, and
// others that are worth no repetition.
func (p *Program) Wrap(ctx context.Context, key []byte) ([]byte, error) {
	if err := p.made(); err != nil {
		return nil, err
	}
	check, err := checkOf(key)
	if err != nil {
		return nil, fmt.Errorf("kms: wrap: %w", err)
	}
	wrapped, err := p.call(ctx, "wrap", key, nil)
	switch {
	case err != nil:
		return nil, err
	case len(wrapped) > mostByProgram:
		return nil, p.errorf("wrap", "it answers with %d bytes, at most %d are a wrapped key", len(wrapped), mostByProgram)
	case fault.ShowsKey(wrapped, key):
		return nil, p.errorf("wrap", "it answers with the key itself, which is not wrapped")
	}
	return slices.Concat([]byte{underProgram, programVersion}, check, wrapped), nil
}

// Unwrap has the program unwrap what Wrap has returned. The errors are [ErrWrongKey],
// [ErrTampered], [ErrFormat], [ErrUnavailable], those of ctx, and others that are worth no
// repetition. The program is not started for what another kind of KMS has wrapped.
func (p *Program) Unwrap(ctx context.Context, wrapped []byte) ([]byte, error) {
	if err := p.made(); err != nil {
		return nil, err
	}
	switch {
	case len(wrapped) > 0 && wrapped[0] == underKey:
		return nil, fmt.Errorf("%w: the database is opened with a key, not with a program", ErrWrongKey)
	case len(wrapped) > 0 && wrapped[0] == underPassphrase:
		return nil, fmt.Errorf("%w: the database is opened with a passphrase, not with a program", ErrWrongKey)
	case len(wrapped) <= programHeader || len(wrapped) > MaxWrapped || wrapped[0] != underProgram:
		return nil, errForeign
	case wrapped[1] != programVersion:
		return nil, fmt.Errorf("%w: version %d of what a program has wrapped, known is %d", ErrFormat, wrapped[1], programVersion)
	}
	isKey := func(key []byte) bool {
		check, err := checkOf(key)
		return err == nil && subtle.ConstantTimeCompare(check, wrapped[2:programHeader]) == 1
	}
	key, err := p.call(ctx, "unwrap", wrapped[programHeader:], isKey)
	switch {
	case err != nil:
		return nil, err
	case len(key) != ope.KeySize:
		return nil, p.errorf("unwrap", "it answers with %d bytes, a key has %d", len(key), ope.KeySize)
	case !isKey(key):
		return nil, fmt.Errorf("%w: program %s unwraps another key than was wrapped", ErrWrongKey, p.name())
	}
	return key, nil
}

// made returns an error unless there is a program.
func (p *Program) made() error {
	if p == nil || len(p.command) == 0 {
		return zero("program", "kms.NewProgram")
	}
	return nil
}

// checkOf returns what commits to a key and tells nothing about it.
func checkOf(key []byte) ([]byte, error) {
	k, err := ope.NewKey(key)
	if err != nil {
		return nil, err
	}
	return k.Expand(checkSize, "wrapped by a program"), nil
}

func (p *Program) name() string { return printable(p.command[0]) }

func (p *Program) errorf(action, format string, args ...any) error {
	return fmt.Errorf("kms: program %s: %s: %w", p.name(), action, fmt.Errorf(format, args...))
}

// call starts the program and returns its answer. Of a message with a key that isKey knows nothing is shown; isKey may be nil.
func (p *Program) call(ctx context.Context, action string, input []byte, isKey func([]byte) bool) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	limited, end := context.WithTimeout(ctx, p.timeout)
	defer end()
	stdout, stderr := &capture{most: mostAnswer, full: end}, &capture{most: mostRemark}
	cmd := exec.CommandContext(limited, p.command[0], slices.Concat(p.command[1:], []string{action})...)
	cmd.Stdin = strings.NewReader(base64.StdEncoding.EncodeToString(input) + "\n")
	cmd.Stdout, cmd.Stderr = stdout, stderr
	cmd.WaitDelay = waitDelay
	inGroup(cmd)
	err := cmd.Run()
	if errors.Is(err, exec.ErrWaitDelay) && !stdout.over && bytes.HasSuffix(stdout.kept, []byte("\n")) {
		err = nil // an agent was left running, say: the line is whole, whoever has the output open
	}
	ended := new(exec.ExitError)
	switch {
	case err == nil && !stdout.over:
		answer, err := parseAnswer(stdout.kept)
		if err != nil {
			return nil, p.errorf(action, "%w", err)
		}
		return answer, nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case stdout.over:
		return nil, p.errorf(action, "it answers with more than %d characters, which is no line of base64 of %d bytes", mostAnswer, mostByProgram)
	case limited.Err() != nil:
		return nil, fmt.Errorf("%w: program %s: %s: no answer within %v", ErrUnavailable, p.name(), action, p.timeout)
	case errors.As(err, &ended):
		secrets := append(secretsIn(stdout.kept), input)
		if isKey != nil { // the key was never answered with, and may be in the message all the same
			secrets = append(secrets, keysIn(firstLine(stderr.kept), isKey)...)
		}
		return nil, p.failed(action, ended, remark(stderr.kept, secrets...))
	case errors.Is(err, exec.ErrWaitDelay):
		killGroup(cmd)
		return nil, p.errorf(action, "it has ended without an answer, and a process that it started has its output open")
	case cmd.Process != nil:
		return nil, p.errorf(action, "%s", reason(err))
	}
	return nil, p.notStarted(action, err)
}

// failed returns the error of a program that ended by itself, or was ended by a signal.
func (p *Program) failed(action string, ended *exec.ExitError, remark string) error {
	where := fmt.Sprintf("program %s: %s", p.name(), action)
	switch code := ended.ExitCode(); {
	case code == exitUnavailable:
		return fmt.Errorf("%w: %s%s", ErrUnavailable, where, remark)
	case code == exitWrongKey && action == "unwrap":
		return fmt.Errorf("%w: %s: it was wrapped under another master key%s", ErrWrongKey, where, remark)
	case code == exitTampered && action == "unwrap":
		return fmt.Errorf("%w: %s%s", ErrTampered, where, remark)
	}
	return fmt.Errorf("kms: %s: %s%s", where, strings.Replace(ended.ProcessState.String(), "exit status", "exit code", 1), remark)
}

// notStarted returns the error of a program that the system did not start. It does not wrap the
// number of the system's error, which package store would take for one of the network.
func (p *Program) notStarted(action string, err error) error {
	if gone := findProgram(p.command[0]); gone != nil {
		return gone
	}
	var passing interface{ Temporary() bool }
	switch {
	case errors.As(err, &passing) && passing.Temporary(): // too many processes or files
		return fmt.Errorf("%w: program %s: %s: it was not started: %s", ErrUnavailable, p.name(), action, reason(err))
	case errors.Is(err, fs.ErrNotExist):
		return p.errorf(action, "it was not started: there is no such interpreter as its first line names, or no such library as it needs")
	}
	return p.errorf(action, "it was not started: %s; a script begins with a line such as #!/bin/sh, and a program is made for this kind of machine", reason(err))
}

// reason returns what the system says of a program, without its name.
func reason(err error) string {
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err.Error()
		}
		err = inner
	}
}
