package main

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"

	"github.com/rangecrypt/rangecrypt/ope"
)

// readKey reads the key from a file as keygen writes it.
func readKey(e *env, name string) (ope.Key, error) {
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return ope.Key{}, fmt.Errorf("there is no key file %s; 'opebench keygen %[1]s' makes one: %w", name, fs.ErrNotExist)
	}
	if err != nil {
		return ope.Key{}, fmt.Errorf("read the key: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return ope.Key{}, fmt.Errorf("read the key: %w", err)
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		if runtime.GOOS != "windows" {
			return ope.Key{}, fmt.Errorf("key file %s has mode %04o and may be read by others; do 'chmod 600 %[1]s'", name, mode)
		}
		fmt.Fprintf(e.stderr, "opebench: check who may read the key file %s; Windows does not tell\n", name)
	}
	text, err := io.ReadAll(io.LimitReader(f, 4*ope.KeySize))
	if err != nil {
		return ope.Key{}, fmt.Errorf("read the key: %w", err)
	}
	secret := make([]byte, ope.KeySize)
	trimmed := bytes.TrimSpace(text)
	if len(trimmed) != hex.EncodedLen(ope.KeySize) {
		return ope.Key{}, fmt.Errorf("key file %s: need %d hexadecimal digits, as 'opebench keygen' writes them", name, hex.EncodedLen(ope.KeySize))
	}
	if _, err := hex.Decode(secret, trimmed); err != nil {
		// Not wrapped: that error shows a character of the key.
		return ope.Key{}, fmt.Errorf("key file %s: need %d hexadecimal digits, as 'opebench keygen' writes them", name, hex.EncodedLen(ope.KeySize))
	}
	return ope.NewKey(secret)
}
