package outfile

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// A file is written under another name beside it, .NAME.TOKEN.part, so that it only has to be renamed. The process that
// writes a part has its lock. One that was killed leaves the part, and nobody has the lock. Half of a token is random, and the
// other half is a hash of that and of the file's name: so nobody else gives a file such a name by chance.
const partSuffix = ".part"

// tokens are the texts of tokens, in letters that differ by more than capitals.
var tokens = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

const tokenHalf = 8 // bytes

// tokenOf returns the token of the part of a file that begins with these random bytes.
func tokenOf(base string, random []byte) string {
	sum := sha256.Sum256(slices.Concat([]byte("rangecrypt part"), random, []byte(base)))
	return tokens.EncodeToString(slices.Concat(random, sum[:tokenHalf]))
}

// isToken reports whether a text is a token of the part of a file.
func isToken(base, text string) bool {
	token, err := tokens.DecodeString(text)
	return err == nil && len(token) == 2*tokenHalf && tokenOf(base, token[:tokenHalf]) == text
}

// createPart makes the part of a file, and removes those that were left. An error names the folder, and not the part.
func createPart(file string) (*os.File, error) {
	dir, base := filepath.Dir(file), filepath.Base(file)
	removeLeft(dir, base)
	for {
		random := make([]byte, tokenHalf)
		_, _ = rand.Read(random) // which does not fail
		part := filepath.Join(dir, "."+base+"."+tokenOf(base, random)+partSuffix)
		f, err := os.OpenFile(part, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if errors.Is(err, syscall.ENAMETOOLONG) {
			return nil, fmt.Errorf("%s: the name is too long: until the file is complete, its name is %d bytes longer", file, len(filepath.Base(part))-len(base))
		}
		var of *fs.PathError
		if errors.As(err, &of) {
			return nil, &fs.PathError{Op: "write into folder", Path: dir, Err: of.Err}
		}
		if err != nil {
			return nil, err
		}
		taken, held := tryLock(f)
		if !held && (!taken || sameFile(f)) {
			return f, nil // without locks nobody takes it for one that was left
		}
		_ = f.Close() // another process has taken it for one before it had its lock
	}
}

// removeLeft removes the parts of a file that nobody writes any more. What cannot be removed stays, and so does a master key.
func removeLeft(dir, base string) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		token, named := strings.CutPrefix(e.Name(), "."+base+".")
		token, ends := strings.CutSuffix(token, partSuffix)
		if !named || !ends || !isToken(base, token) || !e.Type().IsRegular() {
			continue
		}
		name := filepath.Join(dir, e.Name())
		f, err := os.OpenFile(name, os.O_RDWR, 0)
		if err != nil {
			continue
		}
		if taken, _ := tryLock(f); taken && sameFile(f) && CheckKey(name) == nil {
			_ = os.Remove(f.Name())
		}
		_ = f.Close()
	}
}

// sameFile reports whether an open file still has its name.
func sameFile(f *os.File) bool {
	opened, err := f.Stat()
	if err != nil {
		return false
	}
	named, err := os.Lstat(f.Name())
	return err == nil && os.SameFile(opened, named)
}
