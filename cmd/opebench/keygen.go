package main

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"github.com/rangecrypt/rangecrypt/ope"
)

type keygenOptions struct {
	file string // "" is stdout
}

func newKeygen(e *env, runF func(*env, *keygenOptions) error) *cobra.Command {
	return &cobra.Command{
		Use:   "keygen [FILE]",
		Short: "Make a key",
		Long: `Keygen writes a new random key of 32 bytes, in hexadecimal, to FILE, which only its
owner may read, or to the standard output. It never overwrites a file: without its
key, a store cannot be read by anyone.`,
		Example: "  opebench keygen bench.key",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usagef("keygen takes one file, %d are given", len(args))
			}
			return nil
		},
		RunE: func(_ *cobra.Command, args []string) error {
			opts := &keygenOptions{}
			if len(args) == 1 {
				opts.file = args[0]
			}
			return runF(e, opts)
		},
	}
}

func keygen(e *env, opts *keygenOptions) error {
	line := hex.EncodeToString(ope.GenerateKey().Secret()) + "\n"
	if opts.file == "" {
		_, err := fmt.Fprint(e.stdout, line)
		return err
	}
	f, err := os.OpenFile(opts.file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s exists and is not overwritten; it may be the only copy of a key", opts.file)
	}
	if err != nil {
		return fmt.Errorf("write the key: %w", err)
	}
	_, err = f.WriteString(line)
	if err == nil {
		err = f.Sync()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return errors.Join(fmt.Errorf("write the key: %w", err), os.Remove(opts.file))
	}
	return nil
}
