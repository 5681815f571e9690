package cli

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rangecrypt/rangecrypt/internal/cli/exit"
	"github.com/rangecrypt/rangecrypt/internal/cli/outfile"
	"github.com/rangecrypt/rangecrypt/internal/cli/show"
	"github.com/rangecrypt/rangecrypt/internal/cli/stores"
)

// writes is the annotation of flags, and of commands by their arguments, that name files which are written.
const writes = "writes"

// Writes says that flags name files that the command writes. Any other flag whose value is called a `file` names one that
// it reads. No command begins that would write a file that it reads, or two times the same, or into an embedded store.
func Writes(f *pflag.FlagSet, flags ...string) {
	for _, flag := range flags {
		annotate(f, flag, writes, nil)
	}
}

// IsWritten reports whether a flag names files that are written.
func IsWritten(f *pflag.Flag) bool {
	_, written := f.Annotations[writes]
	return written
}

// WritesArguments says that the arguments of a command are files that it writes.
func WritesArguments(cmd *cobra.Command) {
	if cmd.Annotations == nil {
		cmd.Annotations = make(map[string]string)
	}
	cmd.Annotations[writes] = writes
}

// A namedFile is a file that is named on the command line.
type namedFile struct {
	by   string // the flag
	name string
	outfile.Place
}

// commandFiles are the files of a command.
type commandFiles struct {
	written, read []namedFile
	stores        []namedFile // the folders of embedded ones
}

func fileOf(by, name string) namedFile { return namedFile{by, name, outfile.PlaceOf(name)} }

// filesOf returns the files that flags and arguments name.
func filesOf(cmd *cobra.Command, args []string) (all commandFiles) {
	cmd.Flags().Visit(func(f *pflag.Flag) {
		by := "--" + f.Name
		placeholder, _ := pflag.UnquoteUsage(f)
		written := IsWritten(f)
		given := []string{f.Value.String()}
		if list, ok := f.Value.(pflag.SliceValue); ok {
			given = list.GetSlice()
		}
		for _, value := range given {
			switch {
			case written && value != "-":
				all.written = append(all.written, fileOf(by, value))
			case written:
			case placeholder == "file" && value == "-":
				if place, regular := outfile.PlaceOfOpen(os.Stdin); regular {
					all.read = append(all.read, namedFile{by, value, place})
				}
			case placeholder == "file":
				all.read = append(all.read, fileOf(by, value))
			case placeholder == "source":
				all.read = append(all.read, keyFiles(by, value)...)
			case placeholder == "store":
				all.ofStore(by, value)
			}
		}
	})
	if cmd.Annotations[writes] != "" {
		for _, arg := range args {
			all.written = append(all.written, fileOf("", arg))
		}
	}
	return all
}

// keyFiles returns the files that the source of a key names: its own, or those among the words of a program's command.
func keyFiles(by, source string) (files []namedFile) {
	command, isProgram := strings.CutPrefix(source, programKey)
	if !isProgram {
		if source == passphraseKey || strings.HasPrefix(source, envKey) {
			return nil
		}
		return []namedFile{fileOf(by, source)}
	}
	words, err := commandWords(by, command)
	if err != nil {
		return nil // the command says so
	}
	for _, word := range words {
		files = append(files, fileOf(by, word))
		if _, value, ok := strings.Cut(word, "="); ok && value != "" {
			files = append(files, fileOf(by, value))
		}
	}
	return files
}

// ofStore adds what the name of a store names.
func (all *commandFiles) ofStore(by, name string) {
	read, folder := stores.Files(name)
	for _, f := range read {
		all.read = append(all.read, fileOf(fmt.Sprintf("%s= of %s", f.Option, by), f.Name))
	}
	if folder != "" {
		all.stores = append(all.stores, fileOf(by, folder))
	}
}

// checkFiles refuses to write a file that the command reads, one file twice, the file of a master key, and a file in the
// folder of an embedded store. Nothing was opened yet. What is no regular file, such as /dev/null, is not replaced, and may
// be named as often as one likes.
func (e *Env) checkFiles(cmd *cobra.Command, args []string) error {
	if cmd.DisableFlagParsing {
		return nil // a shell asks what may come next
	}
	all := filesOf(cmd, args)
	all.written = slices.DeleteFunc(all.written, func(f namedFile) bool { return f.Special() })
	for i, f := range all.written {
		if err := f.check(all, all.written[:i], e.Stdout); err != nil {
			return err
		}
	}
	return nil
}

func (f namedFile) check(all commandFiles, before []namedFile, stdout any) error {
	name := show.Visible(f.name)
	for _, other := range all.read {
		if f.Same(other.Place) {
			return exit.Usagef("%s and %s are one file, %s, which the command reads and would replace: name another file with %[1]s", f.by, other.by, name)
		}
	}
	for _, other := range before {
		switch {
		case !f.Same(other.Place):
		case f.by == other.by:
			return exit.Usagef("%s names one file twice, %s", f.by, name)
		default:
			return exit.Usagef("%s and %s are one file, %s, of which only one would be left: name two files", other.by, f.by, name)
		}
	}
	if out, ok := stdout.(*os.File); ok && !strings.HasPrefix(f.name, "/dev/") {
		if place, regular := outfile.PlaceOfOpen(out); regular && f.Same(place) {
			return exit.Usagef("%s is the file that the standard output goes to, %s, of which only one would be left: name another file", f.by, name)
		}
	}
	of := ""
	if f.by != "" {
		of = f.by + ": "
	}
	for _, folder := range all.stores {
		if f.In(folder.Place) {
			return exit.Usagef("%s%s is in the folder of the store that %s names, where the database removes and replaces files: name a file elsewhere", of, name, folder.by)
		}
	}
	if folder := f.Store(); folder != "" {
		return exit.Usagef("%s%s is in the folder of an embedded store, %s, where the database removes and replaces files: name a file elsewhere", of, name, show.Visible(folder))
	}
	if f.by == "" { // what an argument names is never replaced
		return nil
	}
	if err := outfile.CheckKey(f.name); err != nil {
		return fmt.Errorf("%s: %w", f.by, err)
	}
	return nil
}
