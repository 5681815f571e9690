package kms

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"github.com/rangecrypt/rangecrypt/internal/secretfile"
	"github.com/rangecrypt/rangecrypt/ope"
)

// ReadFile reads a master key from a file as [WriteFile] makes it: 64 hexadecimal digits, with or
// without white space around or a mark of UTF-8 before, 128 bytes at most. On all systems but Windows, a file that others than
// its owner may read or change is refused, and so is a named pipe, whose writer may never come. One that does not exist is
// [fs.ErrNotExist].
func ReadFile(name string) (ope.Key, error) {
	text, err := secretfile.Read(name, secretfile.Kind{Name: "key file", Remedy: "rotate the key", Most: mostText})
	if errors.Is(err, secretfile.ErrUTF16) {
		err = fmt.Errorf("%w: %w", ope.ErrKey, err)
	}
	if err != nil {
		return ope.Key{}, fmt.Errorf("kms: %w", err)
	}
	return parse(text, "key file "+name)
}

// ReadEnv reads a master key from a variable of the environment, which holds it as a file does.
// The environment of a process can be read by its user's other processes, is inherited by those
// that it starts, and often printed by what supervises it: a file is safer.
func ReadEnv(name string) (ope.Key, error) {
	text, ok := os.LookupEnv(name)
	if !ok || text == "" {
		return ope.Key{}, fmt.Errorf("kms: the environment has no variable %s, or an empty one; it must hold the key, %d hexadecimal digits", name, hex.EncodedLen(ope.KeySize))
	}
	return parse([]byte(text), "environment variable "+name)
}

// mostText is how long the text of a key may be, white space included. What is longer is some other
// file, and is refused whatever its beginning.
const mostText = 4 * ope.KeySize

func parse(text []byte, where string) (ope.Key, error) {
	secret := make([]byte, ope.KeySize)
	digits := bytes.TrimSpace(text)
	if len(text) <= mostText && len(digits) == hex.EncodedLen(ope.KeySize) {
		if _, err := hex.Decode(secret, digits); err == nil {
			return ope.NewKey(secret)
		}
		// That error shows a character of the key.
	}
	return ope.Key{}, fmt.Errorf("kms: %s: %w: need %d hexadecimal digits", where, ope.ErrKey, hex.EncodedLen(ope.KeySize))
}

// Encode returns the text of a key file, 64 hexadecimal digits and a line feed. It panics for the zero Key.
func Encode(key ope.Key) string { return hex.EncodeToString(key.Secret()) + "\n" }

// WriteFile writes a master key to a new file that its owner alone may read, and has it on the
// disk when it returns. It never overwrites: a file that exists is [fs.ErrExist], as it may be the
// only copy of a key.
func WriteFile(name string, key ope.Key) error {
	if key.IsZero() {
		return fmt.Errorf("kms: write the key: %w: the zero Key holds no secret", ope.ErrKey)
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if info, staterr := os.Stat(name); err != nil && staterr == nil && info.IsDir() {
		return fmt.Errorf("kms: %s is a folder; name a new file in it: %w", name, fs.ErrExist)
	}
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("kms: %s exists and is not overwritten; it may be the only copy of a key: %w", name, fs.ErrExist)
	}
	if err != nil {
		return fmt.Errorf("kms: write the key: %w", err)
	}
	_, err = f.WriteString(Encode(key))
	if err == nil {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close())
	if err == nil && runtime.GOOS != "windows" { // which does not sync folders
		err = syncFolder(filepath.Dir(name))
	}
	if err != nil {
		return errors.Join(fmt.Errorf("kms: write the key: %w", err), os.Remove(name))
	}
	return nil
}

func syncFolder(name string) error {
	dir, err := os.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
