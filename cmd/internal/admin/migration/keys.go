package migration

import (
	"bufio"
	"errors"
	"fmt"

	"github.com/spf13/pflag"

	"github.com/rangecrypt/rangecrypt/cmd/internal/admin/anytable"
	"github.com/rangecrypt/rangecrypt/cmd/internal/admin/celltext"
	"github.com/rangecrypt/rangecrypt/internal/cli"
	"github.com/rangecrypt/rangecrypt/internal/cli/outfile"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/migrate"
)

// A keyList is a file with the row keys of what a pass lists, in the clear: from a hash alone nobody finds the row.
type keyList struct {
	name    string // "" for none
	file    *outfile.File
	w       *bufio.Writer
	columns []*celltext.Column
}

func (k *keyList) bind(f *pflag.FlagSet) {
	f.StringVar(&k.name, "show-keys", "", "write the keys of the rows that are listed, in the clear, to a new `file` that only\nits owner can read: lines of JSON with the hash, the key and what is wrong")
	cli.Writes(f, "show-keys")
}

// check refuses a file that exists.
func (k *keyList) check() error {
	if k.name == "" {
		return nil
	}
	return k.failed(outfile.Check(k.name, false))
}

func (k *keyList) failed(err error) error {
	switch {
	case errors.Is(err, outfile.ErrExists):
		return fmt.Errorf("--show-keys: %w: name another file", err)
	case err != nil:
		return fmt.Errorf("--show-keys: %w", err)
	}
	return nil
}

// open begins the file.
func (k *keyList) open(tbl anytable.Table) (err error) {
	if k.name == "" {
		return nil
	}
	texts := new(celltext.Flags)
	texts.Bind(pflag.NewFlagSet("", pflag.ContinueOnError)) // which sets the defaults
	format, err := texts.Format()
	if err != nil {
		return err
	}
	if k.columns, err = format.Columns(store.Schema{Key: tbl.Schema().Key}); err != nil {
		return err
	}
	if k.file, err = outfile.Create(k.name, false); err != nil {
		return k.failed(err)
	}
	k.w = bufio.NewWriter(k.file)
	return nil
}

// add writes a row. One whose key no table takes has a place instead.
func (k *keyList) add(f migrate.Finding) error {
	if k.file == nil {
		return nil
	}
	line := append(celltext.AppendQuoted([]byte(`{"row":`), f.Row), `,"key":`...)
	if f.Key == nil {
		line = append(line, "null"...)
		if f.Place != "" {
			line = celltext.AppendQuoted(append(line, `,"place":`...), f.Place)
		}
	} else {
		for i, c := range k.columns {
			line = celltext.AppendQuoted(append(line, "{,"[min(i, 1)]), c.Name)
			var err error
			if line, err = c.AppendJSON(append(line, ':'), f.Key[c.Name]); err != nil {
				return k.failed(err)
			}
		}
		line = append(line, '}')
	}
	line = celltext.AppendQuoted(append(line, `,"error":`...), f.Err.Error())
	_, err := k.w.Write(append(line, "}\n"...))
	return k.failed(err)
}

// end gives the file its name. What was listed before an error is in it.
func (k *keyList) end() error {
	if k.file == nil {
		return nil
	}
	err := k.w.Flush()
	if err == nil {
		err = k.file.Commit()
	}
	return k.failed(errors.Join(err, k.file.Discard()))
}
