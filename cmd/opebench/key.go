package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"strings"

	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/kms"
)

const (
	envKey        = "env:"
	passphraseKey = "passphrase:"
)

// keyFlagHelp tells what the flags take that name a master key.
func keyFlagHelp(whose string) string {
	return whose + ", by its `source`:\n" + list([]string{"FILE", envKey + "NAME", passphraseKey}, []string{
		"a file that only its owner may read, as 'keys generate' makes it",
		"a variable of the environment that holds what the file would",
		"asked for on the terminal, or the next line of standard input",
	})
}

// checkKey returns an error unless source can name a key. A source that is none is not shown: it
// may be a passphrase.
func checkKey(flag, source string) error {
	switch {
	case source == "":
		return usagef("a store that is kept needs a key: make one with 'opebench keys generate FILE' and give it with %s FILE", flag)
	case source == envKey:
		return usagef("%s %s needs the name of a variable", flag, envKey)
	case strings.HasPrefix(source, passphraseKey) && source != passphraseKey:
		return usagef("%s %s takes nothing behind the colon, where other users see it: the passphrase is asked for", flag, passphraseKey)
	}
	return nil
}

// readKey returns the master key that a source names. Files and variables are read now; a
// passphrase is asked for when it is needed.
func readKey(e *env, source string) (store.KMS, error) {
	if source == passphraseKey {
		return &asked{ask: e.passphrase}, nil
	}
	read := kms.ReadFile
	name, isEnv := strings.CutPrefix(source, envKey)
	if isEnv {
		read = kms.ReadEnv
	}
	key, err := read(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("there is no key file %s; 'opebench keys generate %[1]s' makes one: %w", name, fs.ErrNotExist)
	}
	if err != nil {
		return nil, err
	}
	if runtime.GOOS == "windows" && !isEnv {
		fmt.Fprintf(e.stderr, "opebench: check who may read the key file %s; Windows does not tell\n", name)
	}
	return kms.NewLocal(key)
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
	if a.have == nil {
		text, _, err := a.ask(ctx, "Passphrase: ")
		if err != nil {
			return nil, err
		}
		if a.have, err = kms.NewPassphrase(text); err != nil {
			return nil, err
		}
	}
	return a.have.Unwrap(ctx, wrapped)
}

func (a *asked) Wrap(ctx context.Context, key []byte) ([]byte, error) {
	if a.have == nil {
		text, typed, err := a.ask(ctx, "New passphrase: ")
		if err != nil {
			return nil, err
		}
		if len(text) < leastPassphrase {
			return nil, fmt.Errorf("the passphrase is too short: need %d bytes; six words drawn by lot are good", leastPassphrase)
		}
		if typed {
			again, _, err := a.ask(ctx, "The same again: ")
			if err != nil {
				return nil, err
			}
			if !bytes.Equal(again, text) {
				return nil, errors.New("the passphrases differ; nothing was changed")
			}
		}
		if a.have, err = kms.NewPassphrase(text); err != nil {
			return nil, err
		}
	}
	return a.have.Wrap(ctx, key)
}
