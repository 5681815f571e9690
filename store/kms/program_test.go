package kms

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store/internal/fault"
)

// The tests start this binary as the program.
const asProgram = "as-program"

func TestMain(m *testing.M) {
	if len(os.Args) > 3 && os.Args[1] == asProgram {
		last := len(os.Args) - 1
		os.Exit(behaviours[os.Args[2]](os.Args[last], os.Args[3:last]))
	}
	if os.Getenv("GORACE") == "" {
		os.Setenv("GORACE", "atexit_sleep_ms=0") // else each program would take a second to end
	}
	os.Exit(m.Run())
}

// behaves returns the Program that does what behaviours has under a name.
func behaves(t testing.TB, name string, args ...string) *Program {
	t.Helper()
	return behavesWithin(t, 0, name, args...)
}

func behavesWithin(t testing.TB, limit time.Duration, name string, args ...string) *Program {
	t.Helper()
	require.Contains(t, behaviours, name)
	p, err := NewProgram(append([]string{os.Args[0], asProgram, name}, args...), &ProgramOptions{Timeout: limit})
	require.NoError(t, err)
	return p
}

// input returns what the program is given, and the line as it is.
func input() (b []byte, line string) {
	text, err := io.ReadAll(os.Stdin)
	line, ok := strings.CutSuffix(string(text), "\n")
	b, decodeErr := base64.StdEncoding.Strict().DecodeString(line)
	if err != nil || !ok || decodeErr != nil || strings.ContainsAny(line, "\r\n") {
		panic("the input is no line of base64")
	}
	return b, line
}

// behaviours are what programs may do, right and wrong.
var behaviours = map[string]func(action string, args []string) (code int){
	// An honest one, whose master key is in a file.
	"local": func(action string, args []string) int {
		master, err := ReadFile(args[0])
		if err != nil {
			fmt.Fprintln(os.Stderr, "no key file")
			return exitUnavailable
		}
		in, _ := input()
		do := NewLocal(master).Wrap
		if action == "unwrap" {
			do = NewLocal(master).Unwrap
		}
		switch out, err := do(background, in); {
		case errors.Is(err, ErrWrongKey):
			fmt.Fprintln(os.Stderr, "not mine")
			return exitWrongKey
		case err != nil:
			return exitTampered
		default:
			fmt.Println(base64.StdEncoding.EncodeToString(out))
			return 0
		}
	},
	// One that authenticates nothing.
	"xor": func(_ string, args []string) int {
		in, _ := input()
		for i := range in {
			in[i] ^= args[0][0]
		}
		fmt.Println(base64.StdEncoding.EncodeToString(in))
		return 0
	},
	"cat": func(string, []string) int {
		_, line := input()
		fmt.Println(line)
		return 0
	},
	// Writes its arguments as they are: CODE STDOUT STDERR. INPUT stands for the line of input, HEX for
	// its bytes in hexadecimal.
	"say": func(_ string, args []string) int {
		in, line := input()
		r := strings.NewReplacer("INPUT", line, "HEX", hex.EncodeToString(in), "GROUPED", fmt.Sprintf("% x", in), "PART", line[5:17],
			"ARRAY", fmt.Sprintf("%#v", in), "NUMBERS", fmt.Sprint(in),
			"SHIFTED", base64.StdEncoding.EncodeToString(append([]byte("k"), in...)))
		r.WriteString(os.Stdout, args[1])
		r.WriteString(os.Stderr, args[2])
		code, _ := strconv.Atoi(args[0])
		return code
	},
	// Has unwrapped the key, shows it, and fails.
	"tell": func(_ string, args []string) int {
		in, _ := input()
		key := make([]byte, len(in))
		for i := range in {
			key[i] = in[i] ^ 'A'
		}
		switch args[1] {
		case "base64":
			fmt.Fprint(os.Stderr, "key=", base64.StdEncoding.EncodeToString(key), " is refused")
		case "base64, after a byte":
			fmt.Fprint(os.Stderr, "key=", base64.StdEncoding.EncodeToString(append([]byte("k"), key...)))
		case "base64, after two bytes, not padded":
			fmt.Fprint(os.Stderr, base64.RawStdEncoding.EncodeToString(append([]byte("kk"), key...)))
		case "base64 of URLs, not padded":
			fmt.Fprint(os.Stderr, "k ", base64.RawURLEncoding.EncodeToString(key))
		case "base64, apart":
			fmt.Fprint(os.Stderr, "made: ", strings.Join(strings.Split(base64.StdEncoding.EncodeToString(key), ""), " "))
		case "digits":
			fmt.Fprint(os.Stderr, "made ", hex.EncodeToString(key), "ed")
		case "capital digits":
			fmt.Fprintf(os.Stderr, "key %X: no", key)
		case "digits in groups":
			fmt.Fprintf(os.Stderr, "a % x.", key)
		case "an array":
			fmt.Fprintf(os.Stderr, "%#v", key)
		case "numbers":
			fmt.Fprint(os.Stderr, "error 17: ", key)
		case "bytes":
			_, _ = os.Stderr.Write(append([]byte("key: "), key...))
		case "a digest":
			fmt.Fprintf(os.Stderr, "request %x", sha256.Sum256(key))
		}
		code, _ := strconv.Atoi(args[0])
		return code
	},
	"bytes": func(_ string, args []string) int {
		n, _ := strconv.Atoi(args[0])
		fmt.Println(base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{'k'}, n)))
		return 0
	},
	// Has read nothing when it answers.
	"deaf": func(string, []string) int {
		fmt.Println(base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{'k'}, 32)))
		return 0
	},
	"endless": func(string, []string) int {
		for {
			if _, err := os.Stdout.WriteString(strings.Repeat("A", 1<<10)); err != nil {
				time.Sleep(time.Hour)
			}
		}
	},
	"chatty": func(string, []string) int {
		_, _ = os.Stderr.WriteString("first line\n" + strings.Repeat("log\n", 1<<18))
		return 1
	},
	"sleep": func(_ string, args []string) int {
		if len(args) > 0 {
			_ = os.WriteFile(args[0], []byte(strconv.Itoa(os.Getpid())), 0o600)
		}
		time.Sleep(time.Hour)
		return 0
	},
	// Leaves a child that has its output, and ends with a code and an output: CODE STDOUT FILE. The number of
	// the child's process is written to FILE.
	"leaves a child": func(_ string, args []string) int {
		child := exec.Command(os.Args[0], asProgram, "sleep", args[2], "-")
		child.Stdout, child.Stderr = os.Stdout, os.Stderr
		if child.Start() != nil {
			return 99
		}
		for {
			if text, err := os.ReadFile(args[2]); err == nil && len(text) > 0 {
				break
			}
			time.Sleep(time.Millisecond)
		}
		fmt.Print(args[1])
		code, _ := strconv.Atoi(args[0])
		if code < 0 {
			time.Sleep(time.Hour)
		}
		return code
	},
	"killed": func(string, []string) int {
		self, _ := os.FindProcess(os.Getpid())
		_ = self.Kill()
		time.Sleep(time.Hour)
		return 0
	},
}

// keyFile returns the name of a new key file.
func keyFile(t testing.TB) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "master key")
	require.NoError(t, WriteFile(name, ope.GenerateKey()))
	return name
}

func requireHidden(t *testing.T, err error, secrets ...[]byte) {
	t.Helper()
	for _, secret := range secrets {
		require.False(t, fault.ShowsPart(err.Error(), secret), "a part of a key is shown: %v", err)
	}
	for _, r := range err.Error() {
		require.True(t, strconv.IsPrint(r), "%q", err.Error())
	}
	require.Less(t, len(err.Error()), 1000)
}

func TestProgramWrapsAndUnwraps(t *testing.T) {
	p := behaves(t, "local", keyFile(t))
	key := ope.GenerateKey().Secret()
	wrapped, err := p.Wrap(background, key)
	require.NoError(t, err)
	require.LessOrEqual(t, len(wrapped), MaxWrapped)
	require.False(t, fault.ShowsPart(string(wrapped), key))
	got, err := p.Unwrap(background, wrapped)
	require.NoError(t, err)
	require.Equal(t, key, got)

	other := behaves(t, "local", keyFile(t))
	_, err = other.Unwrap(background, wrapped)
	require.ErrorIs(t, err, ErrWrongKey)
	require.ErrorContains(t, err, "it was wrapped under another master key: not mine")
	for i := range wrapped {
		changed := bytes.Clone(wrapped)
		changed[i] ^= 1
		if i > 2 && i < len(wrapped)-1 && i%20 > 0 {
			continue // a process each
		}
		got, err := p.Unwrap(background, changed)
		require.Nil(t, got)
		require.True(t, isAny(err, ErrWrongKey, ErrTampered, ErrFormat), "byte %d: %v", i, err)
		requireHidden(t, err, key)
	}
	_, err = p.Wrap(background, key[:31])
	require.ErrorIs(t, err, ope.ErrKey)
	gone := behaves(t, "local", "no file")
	_, err = gone.Wrap(background, key)
	require.ErrorIs(t, err, ErrUnavailable)
	require.ErrorContains(t, err, "no key file")
}

// What programs have wrapped is read for ever.
func TestProgramFormatIsPinned(t *testing.T) {
	key := testKey(t, 7)
	p := behaves(t, "xor", "A")
	wrapped, err := p.Wrap(background, key.Secret())
	require.NoError(t, err)
	check := key.Derive("wrapped by a program").Secret()[:16]
	want := append(append([]byte{'x', 1}, check...), bytes.Repeat([]byte{7 ^ 'A'}, 32)...)
	require.Equal(t, want, wrapped)
	got, err := p.Unwrap(background, want)
	require.NoError(t, err)
	require.Equal(t, key.Secret(), got)

	// The largest.
	p = behaves(t, "bytes", strconv.Itoa(mostByProgram))
	wrapped, err = p.Wrap(background, key.Secret())
	require.NoError(t, err)
	require.Len(t, wrapped, MaxWrapped)
	require.Equal(t, 2030, mostByProgram, "as is documented")
}

// Another kind of master key is told apart before any program is started.
func TestProgramsKeysAreToldApart(t *testing.T) {
	key := ope.GenerateKey().Secret()
	p := behaves(t, "killed")
	byKey, err := local(t, 1).Wrap(background, key)
	require.NoError(t, err)
	_, err = p.Unwrap(background, byKey)
	require.ErrorIs(t, err, ErrWrongKey)
	require.ErrorContains(t, err, "opened with a key, not with a program")
	byPassphrase, err := passphrase(t, "correct horse").wrap(background, key, cheap)
	require.NoError(t, err)
	_, err = p.Unwrap(background, byPassphrase)
	require.ErrorIs(t, err, ErrWrongKey)
	require.ErrorContains(t, err, "opened with a passphrase, not with a program")

	byProgram, err := behaves(t, "xor", "A").Wrap(background, key)
	require.NoError(t, err)
	_, err = local(t, 1).Unwrap(background, byProgram)
	require.ErrorIs(t, err, ErrWrongKey)
	require.ErrorContains(t, err, "opened with a program, not with a key")
	_, err = passphrase(t, "correct horse").Unwrap(background, byProgram)
	require.ErrorIs(t, err, ErrWrongKey)
	require.ErrorContains(t, err, "opened with a program, not with a passphrase")

	newer := bytes.Clone(byProgram)
	newer[1] = 2
	for _, foreign := range [][]byte{nil, {'x'}, byProgram[:programHeader], []byte("of another service"), newer, append(byProgram, make([]byte, MaxWrapped)...)} {
		_, err = p.Unwrap(background, foreign)
		require.ErrorIs(t, err, ErrFormat)
	}

	// A program that authenticates nothing gives another key, which is noticed.
	_, err = behaves(t, "xor", "B").Unwrap(background, byProgram)
	require.ErrorIs(t, err, ErrWrongKey)
	require.ErrorContains(t, err, "unwraps another key than was wrapped")
	requireHidden(t, err, key)
}

// Whatever a program does wrong, the error says what it is and has nothing of the key.
func TestProgramsThatBehaveBadly(t *testing.T) {
	key := ope.GenerateKey().Secret()
	wrapped, err := behaves(t, "xor", "A").Wrap(background, key)
	require.NoError(t, err)
	say := func(code int, stdout, stderr string) []string {
		return []string{"say", strconv.Itoa(code), stdout, stderr}
	}
	const noBase64, hidden = "is no line of base64", "its message is not shown, since it has a part of the key"
	for name, c := range map[string]struct {
		behaviour    []string
		wrap, unwrap string // parts of the errors; "" where there is none
		kind         error  // of unwrap
	}{
		"nothing":            {say(0, "", "all is well"), "answers with nothing", "answers with nothing", nil},
		"only a line feed":   {say(0, "\n", ""), "answers with nothing", "answers with nothing", nil},
		"a text":             {say(0, "wrapped it!\n", ""), noBase64, noBase64, nil},
		"not padded":         {say(0, "QUI\n", ""), noBase64, noBase64, nil},
		"URLs' alphabet":     {say(0, "-_-_\n", ""), noBase64, noBase64, nil},
		"superfluous bits":   {say(0, "QUJ=\n", ""), noBase64, noBase64, nil},
		"blank before it":    {say(0, " QUJD\n", ""), noBase64, noBase64, nil},
		"something after it": {say(0, "QUJD done\n", ""), noBase64, noBase64, nil},
		"key and more":       {say(0, "INPUT INPUT\n", ""), noBase64, noBase64, nil},
		"byte order mark":    {say(0, "\ufeffQUJD\n", ""), noBase64, noBase64, nil},
		"zero byte":          {say(0, "HEX\b\n", ""), noBase64, noBase64, nil},
		"two lines":          {say(0, "QUJD\nQUJD\n", ""), "more than one line; 'base64 -w 0' writes one", "more than one line", nil},
		"an empty line more": {say(0, "QUJD\n\n", ""), "more than one line", "more than one line", nil},
		"a line within":      {say(0, "QU\r\nJD\n", ""), "more than one line", "more than one line", nil},
		"short":              {[]string{"bytes", "31"}, "", "answers with 31 bytes, a key has 32", nil},
		"long":               {[]string{"bytes", "33"}, "", "answers with 33 bytes, a key has 32", nil},
		"another key":        {[]string{"bytes", "32"}, "", "unwraps another key than was wrapped", ErrWrongKey},
		"does not read":      {[]string{"deaf"}, "", "unwraps another key than was wrapped", ErrWrongKey},
		"too long by a byte": {[]string{"bytes", "2031"}, "answers with 2031 bytes, at most 2030", "answers with 2031 bytes, a key has 32", nil},
		"too long":           {[]string{"bytes", "2032"}, "answers with more than 2710 characters", "answers with more than 2710 characters", nil},
		"endless":            {[]string{"endless"}, "answers with more than 2710 characters", "answers with more than 2710 characters", nil},
		"the key itself":     {[]string{"cat"}, "answers with the key itself", "answers with 32 bytes, a key has 32", ErrWrongKey},
		"the key as digits":  {say(0, "HEX", ""), "answers with the key itself", "", nil},

		"fails":               {say(1, "", "access denied\n"), "exit code 1: access denied", "exit code 1: access denied", nil},
		"fails silently":      {say(255, "", ""), "exit code 255", "exit code 255", nil},
		"fails with answer":   {say(1, "INPUT", "access denied"), "exit code 1: access denied", "exit code 1: access denied", nil},
		"another master key":  {say(10, "", "key 7 is not here"), "exit code 10: key 7 is not here", "another master key: key 7 is not here", ErrWrongKey},
		"unavailable":         {say(11, "", "\n \n connection refused \r\nat line 5"), "wrap: connection refused", "unwrap: connection refused", ErrUnavailable},
		"changed":             {say(12, "", ""), "exit code 12", "the wrapped key is not as it was written", ErrTampered},
		"its shell finds not": {say(127, "", "sh: 1: kmstool: not found"), "exit code 127: sh: 1: kmstool: not found", "exit code 127", nil},
		"many lines":          {[]string{"chatty"}, "exit code 1: first line", "exit code 1: first line", nil},

		"shows its input":      {say(1, "", "+ echo INPUT"), hidden, hidden, nil},
		"shows it as digits":   {say(1, "", "key=HEX"), hidden, hidden, nil},
		"shows it in groups":   {say(1, "", "key=GROUPED"), hidden, hidden, nil},
		"shows an array":       {say(1, "", "key=ARRAY"), hidden, hidden, nil},
		"shows it as numbers":  {say(1, "", "key=NUMBERS"), hidden, hidden, nil},
		"shows a part":         {say(1, "", "key=PART..."), hidden, hidden, nil},
		"shows it after bytes": {say(1, "", "SHIFTED"), hidden, hidden, nil},
		"shows it, cut":        {say(1, "", strings.Repeat("x", mostShown-20)+"INPUT"), hidden, hidden, nil},
		"shows its answer":     {say(1, "c2VjcmV0IG9mIHRoZSBwcm9ncmFt", "c2VjcmV0IG9mIHRoZSBwcm9ncmFt"), hidden, hidden, nil},
		"shows what it stands": {say(1, "c2VjcmV0IG9mIHRoZSBwcm9ncmFt", "a secret of the program"), hidden, hidden, nil},
		"unavailable, shows":   {say(11, "", "INPUT"), hidden, hidden, ErrUnavailable},
		"shows it later":       {say(1, "", "no\nINPUT"), "exit code 1: no", "exit code 1: no", nil},
		"obeyed by terminals":  {say(1, "", "\x1b[2Jno\a\u202e\xff"), "exit code 1: ?[2Jno???", "exit code 1: ?[2Jno???", nil},
		"tells a story":        {say(1, "", strings.Repeat("no ", mostRemark)), "no no...", "no no...", nil},
	} {
		t.Run(name, func(t *testing.T) {
			p := behaves(t, c.behaviour[0], c.behaviour[1:]...)
			got, err := p.Wrap(background, key)
			if c.wrap == "" {
				require.NoError(t, err)
			} else {
				require.Nil(t, got)
				require.ErrorContains(t, err, c.wrap)
				require.ErrorContains(t, err, filepath.Base(os.Args[0]))
				require.Equal(t, c.kind == ErrUnavailable, errors.Is(err, ErrUnavailable))
				require.False(t, isAny(err, ErrWrongKey, ErrTampered, ErrFormat), "of a key that is only now wrapped: %v", err)
				requireHidden(t, err, key)
			}
			got, err = p.Unwrap(background, wrapped)
			if name == "the key as digits" || name == "the key itself" {
				return // what is wrapped is no secret
			}
			require.Nil(t, got)
			require.ErrorContains(t, err, c.unwrap)
			for _, kind := range []error{ErrWrongKey, ErrTampered, ErrUnavailable, ErrFormat} {
				require.Equal(t, c.kind == kind, errors.Is(err, kind), "%v", err)
			}
			requireHidden(t, err, key, wrapped[programHeader:])
		})
	}
}

func TestProgramThatIsKilled(t *testing.T) {
	_, err := behaves(t, "killed").Wrap(background, ope.GenerateKey().Secret())
	require.Error(t, err)
	require.NotErrorIs(t, err, ErrUnavailable)
	if runtime.GOOS != "windows" {
		require.ErrorContains(t, err, "wrap: signal: killed")
	}
}

// A program that hangs ends with the time limit, or with the context.
func TestProgramThatHangs(t *testing.T) {
	key := ope.GenerateKey().Secret()
	_, err := behavesWithin(t, 300*time.Millisecond, "sleep").Wrap(background, key)
	require.ErrorIs(t, err, ErrUnavailable)
	require.ErrorContains(t, err, "no answer within 300ms")
	require.NotErrorIs(t, err, context.DeadlineExceeded, "the caller has set no deadline")

	ctx, cancel := context.WithCancel(background)
	time.AfterFunc(200*time.Millisecond, cancel)
	began := time.Now()
	_, err = behaves(t, "sleep").Wrap(ctx, key)
	require.Equal(t, context.Canceled, err)
	require.Less(t, time.Since(began), usualTimeout/2)
	_, err = behaves(t, "sleep").Wrap(ctx, key) // ended before
	require.Equal(t, context.Canceled, err)

	ctx, cancel = context.WithTimeout(background, 200*time.Millisecond)
	defer cancel()
	_, err = behaves(t, "sleep").Wrap(ctx, key)
	require.Equal(t, context.DeadlineExceeded, err)
}

func TestProgramsInParallel(t *testing.T) {
	p := behaves(t, "local", keyFile(t))
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			key := ope.GenerateKey().Secret()
			for range 3 {
				wrapped, err := p.Wrap(background, key)
				if err == nil {
					var got []byte
					if got, err = p.Unwrap(background, wrapped); err == nil && !bytes.Equal(got, key) {
						err = errors.New("another key")
					}
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}

func TestProgramsThatCannotBeStarted(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string, mode fs.FileMode) string {
		t.Helper()
		name = filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
		require.NoError(t, os.Chmod(name, mode))
		return name
	}
	for name, c := range map[string]struct {
		command []string
		want    string
		kind    error
	}{
		"no command":   {nil, "names no program", nil},
		"empty":        {[]string{"", "x"}, "names no program", nil},
		"zero byte":    {[]string{"kmstool", "a\x00b"}, "a word of the command has a zero byte", nil},
		"not in PATH":  {[]string{"rangecrypt-test-nothing"}, "no program rangecrypt-test-nothing in the folders of PATH; give its path", fs.ErrNotExist},
		"not there":    {[]string{filepath.Join(dir, "nothing")}, "there is no program " + filepath.Join(dir, "nothing"), fs.ErrNotExist},
		"folder":       {[]string{dir}, dir + " is a folder; name the program in it", nil},
		"below a file": {[]string{filepath.Join(write("file", "", 0o600), "below")}, "below", nil},
		"control":      {[]string{"./a\x1bb"}, "./a?b", fs.ErrNotExist},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := NewProgram(c.command, nil)
			require.ErrorContains(t, err, c.want)
			requireHidden(t, err)
			if c.kind != nil {
				require.ErrorIs(t, err, c.kind)
			}
		})
	}
	_, err := NewProgram([]string{os.Args[0]}, &ProgramOptions{Timeout: -1})
	require.ErrorContains(t, err, "need more than 0")
	if runtime.GOOS == "windows" {
		return
	}
	_, err = NewProgram([]string{write("text", "", 0o600)}, nil)
	require.ErrorContains(t, err, "text is not executable; if it is the program, do 'chmod u+x ")
	_, err = NewProgram([]string{write("open", "#!/bin/sh\n", 0o757)}, nil)
	require.ErrorContains(t, err, "has mode 0757: others may change it, and then get the key; do 'chmod o-w ")
	t.Chdir(dir)
	write("here", "#!/bin/sh\n", 0o700)
	_, err = NewProgram([]string{"here"}, nil)
	require.ErrorContains(t, err, "the one in this folder is ./here")

	// What shows only when it is started.
	key := ope.GenerateKey().Secret()
	for name, want := range map[string]string{
		write("no script", "echo hello\n", 0o700):                  "a script begins with a line such as #!/bin/sh",
		write("no interpreter", "#!/no/such/interpreter\n", 0o700): "there is no such interpreter",
	} {
		p, err := NewProgram([]string{name}, nil)
		require.NoError(t, err)
		_, err = p.Wrap(background, key)
		require.ErrorContains(t, err, want)
		require.NotErrorIs(t, err, ErrUnavailable)
		require.NoError(t, os.Remove(name))
		_, err = p.Wrap(background, key)
		require.ErrorContains(t, err, "there is no program "+name)
	}
}

// FuzzAnswer: whatever a program writes is either the one line of base64 that the bytes have, or an error without
// a part of it.
func FuzzAnswer(f *testing.F) {
	f.Add([]byte("QUJD\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		answer, err := parseAnswer(text)
		if err != nil {
			require.Nil(t, answer)
			require.Contains(t, []string{
				"it answers with nothing, and exit code 0",
				"it answers with more than one line; 'base64 -w 0' writes one",
				"its answer is no line of base64 (RFC 4648, section 4, with padding) and nothing else",
			}, err.Error())
			return
		}
		require.NotEmpty(t, answer)
		line := base64.StdEncoding.EncodeToString(answer)
		require.Contains(t, []string{line, line + "\n", line + "\r\n", line + "\r"}, string(text))
	})
}

// A program may show the key that it has unwrapped, and fail: it is known by what commits to it.
func TestProgramThatShowsWhatItUnwrapped(t *testing.T) {
	key := ope.GenerateKey().Secret()
	for bytes.ContainsAny(key, "\n") || len(bytes.TrimSpace(key)) < len(key) {
		key = ope.GenerateKey().Secret() // bytes are shown up to the end of a line
	}
	wrapped, err := behaves(t, "xor", "A").Wrap(background, key)
	require.NoError(t, err)
	for _, form := range []string{"base64", "base64, after a byte", "base64, after two bytes, not padded", "base64 of URLs, not padded", "base64, apart",
		"digits", "capital digits", "digits in groups", "an array", "numbers", "bytes"} {
		for _, code := range []int{1, exitWrongKey, exitUnavailable, exitTampered} {
			_, err := behaves(t, "tell", strconv.Itoa(code), form).Unwrap(background, wrapped)
			require.ErrorContains(t, err, "its message is not shown, since it has a part of the key", "%s, %d", form, code)
			requireHidden(t, err, key)
		}
	}
	_, err = behaves(t, "tell", "1", "a digest").Unwrap(background, wrapped)
	require.ErrorContains(t, err, fmt.Sprintf("request %x", sha256.Sum256(key)))
}

// A program may have secrets of its own, such as a token, and show what it was about to answer with.
func TestProgramThatShowsItsAnswer(t *testing.T) {
	for _, answer := range []string{"token_of_the_service-0123456789", "c2VjcmV0IG9mIHRoZSBwcm9ncmFt", strings.Repeat("5ec2e7", 8)} {
		_, err := behaves(t, "say", "1", answer, "cannot use "+answer).Wrap(background, ope.GenerateKey().Secret())
		require.ErrorContains(t, err, "exit code 1")
		require.NotContains(t, err.Error(), answer)
	}
}

// FuzzRemark: what is shown of a program's messages is short, has nothing that a terminal obeys, and no part of a secret.
func FuzzRemark(f *testing.F) {
	secret := testKey(f, 0).Derive("secret").Secret()
	f.Add("no", 0)
	f.Fuzz(func(t *testing.T, text string, at int) {
		for _, form := range []string{"", base64.StdEncoding.EncodeToString(secret), base64.URLEncoding.EncodeToString(secret), hex.EncodeToString(secret)} {
			where := 0
			if len(text) > 0 {
				where = int(uint(at) % uint(len(text)))
			}
			shown := remark([]byte(text[:where]+form+text[where:]), secret)
			require.LessOrEqual(t, len([]rune(shown)), mostShown+5)
			require.False(t, fault.ShowsPart(shown, secret), "%q", shown)
			for _, r := range shown {
				require.True(t, strconv.IsPrint(r), "%q", shown)
			}
		}
	})
}

// Once a context has ended, no program is started and no key derived.
func TestContextThatHasEnded(t *testing.T) {
	ended, end := context.WithCancel(background)
	p := behaves(t, "local", keyFile(t))
	byProgram, err := p.Wrap(background, theKey)
	require.NoError(t, err)
	byPassphrase, err := passphrase(t, "correct horse").wrap(background, theKey, cheap)
	require.NoError(t, err)
	end()
	_, err = p.Unwrap(ended, byProgram)
	require.Equal(t, context.Canceled, err)
	_, err = passphrase(t, "correct horse").Unwrap(ended, byPassphrase)
	require.Equal(t, context.Canceled, err)
}
