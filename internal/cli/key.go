package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"

	"github.com/spf13/pflag"

	"github.com/rangecrypt/rangecrypt/internal/cli/exit"
	"github.com/rangecrypt/rangecrypt/internal/cli/show"
	"github.com/rangecrypt/rangecrypt/internal/cli/stores"
	"github.com/rangecrypt/rangecrypt/store/kms"
)

const (
	envKey        = "env:"
	programKey    = "exec:"
	passphraseKey = "passphrase:"
)

// KeyHelp returns the help of a flag that names a master key.
func KeyHelp(whose string) string {
	return whose + ", by its `source`:\n" + List([]string{"FILE", envKey + "NAME", programKey + "COMMAND", passphraseKey}, []string{
		"a file that only its owner may read, as 'keys generate' makes it",
		"a variable of the environment that holds what the file would",
		"a program that wraps and unwraps the key of the database",
		"asked for on the terminal, or the next line of standard input",
	})
}

// CheckKey returns an error unless source can name a key. A source that is none is not shown: it
// may be a key or a passphrase.
func CheckKey(flag, source string) error {
	if command, ok := strings.CutPrefix(source, programKey); ok {
		_, err := commandWords(flag, command)
		return err
	}
	name, isEnv := strings.CutPrefix(source, envKey)
	switch {
	case source == "":
		return exit.Usagef("a store that is kept needs a key: make one with 'keys generate FILE' and give it with %s FILE", flag)
	case source == "-":
		return exit.Usagef("%s takes the name of a file, and - is none: a key in a variable is read with %sNAME, and ./- is a file of that name", flag, envKey)
	case source == envKey:
		return exit.Usagef("%s %s needs the name of a variable", flag, envKey)
	case strings.HasPrefix(source, passphraseKey) && source != passphraseKey:
		return exit.Usagef("%s %s takes nothing after the colon, where other users see it: the passphrase is asked for", flag, passphraseKey)
	case keyLike.MatchString(name):
		return exit.Usagef("%s takes the name of a file or %sNAME, and this looks like a key itself: it is not shown here, but other users "+
			"may have seen it, and the shell may remember it; write it to a file with mode 600, give that, and rotate the key. "+
			"A file that is named so is given with ./ before it", flag, envKey)
	case isEnv && !variableName.MatchString(name):
		return exit.Usagef("%s %s takes the name of a variable, and this is none; it is not shown, since it may be a key", flag, envKey)
	}
	return nil
}

var (
	// keyLike matches what may be a key: 16 bytes or more in hexadecimal, as keys generate and other
	// tools write them, or 32 bytes in base64. It does not match a UUID.
	keyLike = regexp.MustCompile(`^\s*(?:(?:0[xX])?(?:[0-9a-fA-F]{2}[\s:]?){16,}[0-9a-fA-F]?|[A-Za-z0-9+/_-]{43}=)\s*$`)

	variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

	// keyText matches the text of a key file, and what is longer.
	keyText = regexp.MustCompile(`[0-9a-fA-F]{64,}`)
)

// conceal takes out of a message what may be a key or a password on the command line, whatever flag it was given to.
func conceal(message string, args []string) string {
	for _, arg := range args {
		if _, name, ok := strings.Cut("="+arg, "=cassandra:"); ok {
			message = strings.ReplaceAll(message, name, strings.TrimPrefix(stores.Shown("cassandra:"+name), "cassandra:"))
		}
		for _, text := range keyText.FindAllString(arg, -1) {
			message = strings.ReplaceAll(message, text, fmt.Sprintf("(%d hexadecimal digits, not shown)", len(text)))
		}
	}
	return message
}

// askedFor reports whether a command is to ask for a passphrase, so that an argument too many may be one.
func askedFor(f *pflag.FlagSet) bool {
	for _, name := range []string{"key", "to"} {
		if flag := f.Lookup(name); flag != nil && flag.Value.String() == passphraseKey {
			return true
		}
	}
	return false
}

// ReadKey returns the master key that a source names. Files and variables are read now, and a program
// must be there; a passphrase is asked for when it is needed.
func (e *Env) ReadKey(source string) (kms.KMS, error) {
	if source == passphraseKey {
		return &asked{ask: e.passphrase}, nil
	}
	if command, ok := strings.CutPrefix(source, programKey); ok {
		words, err := commandWords("--key", command)
		if err != nil {
			return nil, err
		}
		p, err := kms.NewProgram(words, nil)
		if err != nil {
			return nil, err // and not a KMS that holds no program
		}
		return p, nil
	}
	read := kms.ReadFile
	name, isEnv := strings.CutPrefix(source, envKey)
	if isEnv {
		read = kms.ReadEnv
	}
	key, err := read(name)
	if !isEnv && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENAMETOOLONG)) && passphraseLike(name) {
		return nil, fmt.Errorf("there is no such key file; its name is not shown, since it may be a passphrase: that is asked for with %s", passphraseKey)
	}
	switch {
	case isEnv:
	case errors.Is(err, fs.ErrNotExist):
		return nil, noKeyFile(name)
	case errors.Is(err, syscall.ENOTDIR):
		return nil, fmt.Errorf("there is no key file %s: what stands before the last / is no folder", name)
	}
	if err != nil {
		return nil, err
	}
	if runtime.GOOS == "windows" && !isEnv {
		e.Warn("check who may read the key file %s; Windows does not say", name)
	}
	return kms.NewLocal(key), nil
}

// ReadNewKey is ReadKey of a key that is to be the master key of an open store from now on. A passphrase is asked for now, and as a new one: a slip of
// the finger would close the store for ever.
func (e *Env) ReadNewKey(ctx context.Context, source string) (kms.KMS, error) {
	key, err := e.ReadKey(source)
	if a, is := key.(*asked); is {
		err = a.get(ctx, true)
	}
	return key, err
}

// noKeyFile returns the error of a key file that is not there. Who makes one by mistake has a key that opens nothing.
func noKeyFile(name string) error {
	var others []string
	entries, _ := os.ReadDir(filepath.Dir(name)) // which may not be there
	for _, e := range entries {
		if e.Type().IsRegular() {
			others = append(others, e.Name())
		}
	}
	return fmt.Errorf("there is no key file %s%s; a key file has the master key of a store, and is none of its tables or columns; "+
		"'keys generate %[1]s' makes one for a new store: %[3]w", name, strings.TrimSuffix(show.DidYouMean(others, filepath.Base(name)), "?"), fs.ErrNotExist)
}

// passphraseLike reports whether what should name a file may be a passphrase.
func passphraseLike(name string) bool {
	return strings.ContainsAny(name, " \t\r\n:") || len(name) > 255
}

// asked is a passphrase that is asked for when it is needed: a store that cannot be reached asks
// for none. One that opens a store is asked for once; one that a store will be opened with from
// now on, twice.
type asked struct {
	ask  askFunc
	have *kms.Passphrase
}

// leastPassphrase is how many bytes a new passphrase must have. It keeps slips of the finger out,
// and no more than that: docs/operations.md says what a good one is.
const leastPassphrase = 8

func (a *asked) Unwrap(ctx context.Context, wrapped []byte) ([]byte, error) {
	if err := a.get(ctx, false); err != nil {
		return nil, err
	}
	return a.have.Unwrap(ctx, wrapped)
}

func (a *asked) Wrap(ctx context.Context, key []byte) ([]byte, error) {
	if err := a.get(ctx, true); err != nil {
		return nil, err
	}
	return a.have.Wrap(ctx, key)
}

// get asks for the passphrase, unless it is known.
func (a *asked) get(ctx context.Context, isNew bool) error {
	if a.have != nil {
		return nil
	}
	what := "Passphrase: "
	if isNew {
		what = "New passphrase: "
	}
	text, typed, err := a.ask(ctx, what)
	if err != nil {
		return err
	}
	if isNew && len(text) < leastPassphrase {
		return fmt.Errorf("the passphrase is too short: need %d bytes; six words drawn by lot are good", leastPassphrase)
	}
	if isNew && typed {
		again, _, err := a.ask(ctx, "The same again: ")
		if err != nil {
			return err
		}
		if !bytes.Equal(again, text) {
			return errors.New("the passphrases differ; nothing was changed")
		}
	}
	a.have, err = kms.NewPassphrase(text)
	return err
}
