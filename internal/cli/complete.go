package cli

import (
	"cmp"
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rangecrypt/rangecrypt/internal/cli/columns"
	"github.com/rangecrypt/rangecrypt/internal/cli/csvrows"
	"github.com/rangecrypt/rangecrypt/internal/cli/show"
	"github.com/rangecrypt/rangecrypt/internal/cli/stores"
	"github.com/rangecrypt/rangecrypt/store"
)

// The kinds of values that a shell can be offered, as annotations of flags and commands have them.
const (
	offerValues  = "values"  // these, of a flag
	offerColumns = "columns" // the columns of the table, of a flag
	offerArgs    = "args"    // what each argument of a command is
)

// patience is how long a shell waits for names of a store.
const patience = 2 * time.Second

// Offer has a shell complete the values of a flag, to those that it takes or to such as have a name. Where a flag takes a list with commas, it
// completes the last.
func Offer(f *pflag.FlagSet, flag string, values ...string) { annotate(f, flag, offerValues, values) }

// OfferColumns has a shell complete the values of flags to the columns of the table that the command is about. After
// FIELD= it completes the column of a field.
func OfferColumns(f *pflag.FlagSet, flags ...string) {
	for _, flag := range flags {
		annotate(f, flag, offerColumns, nil)
	}
}

// OfferColumnsOf does so of the table that an argument names, alone or with a column after it.
func OfferColumnsOf(f *pflag.FlagSet, flag string, argument int) {
	annotate(f, flag, offerColumns, []string{strconv.Itoa(argument)})
}

func annotate(f *pflag.FlagSet, flag, key string, values []string) {
	if err := f.SetAnnotation(flag, key, values); err != nil {
		panic("cli: " + err.Error())
	}
}

// completeValues has the shell complete the values of all flags and arguments of a command and its subcommands.
func (e *Env) completeValues(cmd *cobra.Command) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		placeholder, _ := pflag.UnquoteUsage(f) // which forCompletion takes out
		if f.NoOptDefVal == "" {                // it takes a value
			_ = cmd.RegisterFlagCompletionFunc(f.Name, func(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
				return e.flagValues(cmd, f, placeholder, args, begun)
			})
		}
	})
	if args := cmd.Annotations[offerArgs]; args != "" || len(cmd.ValidArgs) == 0 {
		cmd.ValidArgsFunction = func(cmd *cobra.Command, given []string, begun string) ([]string, cobra.ShellCompDirective) {
			return e.argument(cmd, strings.Split(args, "\n"), given, begun)
		}
	}
	for _, sub := range cmd.Commands() {
		e.completeValues(sub)
	}
}

// flagValues returns what a flag may be given, whose value the help text has a word for.
func (e *Env) flagValues(cmd *cobra.Command, f *pflag.Flag, placeholder string, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	none := cobra.ShellCompDirectiveNoFileComp
	values, closed := f.Annotations[offerValues]
	argument, columns := f.Annotations[offerColumns]
	switch {
	case closed:
	case columns:
		table := tableOf(cmd, args)
		if len(argument) > 0 {
			at, _ := strconv.Atoi(argument[0])
			if at >= len(args) {
				return nil, none
			}
			table = args[at]
		}
		values = e.fromStore(cmd, func(ctx context.Context, st *store.Store) []string { return columnsOf(ctx, st, table) })
		field, _, ok := strings.Cut(begun, "=")
		switch {
		case placeholder == "FIELD=COLUMN" && ok:
			return matching(values, field+"=", begun), none
		case placeholder == "old=new" && !ok:
			for i := range values {
				values[i] += "="
			}
			return matching(values, "", begun), none | cobra.ShellCompDirectiveNoSpace
		case placeholder == "FIELD=COLUMN", placeholder == "old=new":
			return nil, none
		}
	case f.Name == "store":
		return storeNames(begun)
	case placeholder == "source": // of a key
		values = []string{envKey, programKey, passphraseKey}
		if slices.ContainsFunc(values, func(v string) bool { return begun != "" && strings.HasPrefix(v, begun) }) {
			return matching(values, "", begun), none | cobra.ShellCompDirectiveNoSpace
		}
		return nil, cobra.ShellCompDirectiveDefault
	case f.Name == "column" && cmd.Flags().Lookup("input") != nil:
		values = header(cmd.Flags().Lookup("input").Value.String())
	case f.Name == "tenant":
		values = e.fromStore(cmd, tenants)
	case f.Name == "table":
		values = e.fromStore(cmd, tables)
	case placeholder == "zone":
		values = zones()
	case placeholder == "file":
		return nil, cobra.ShellCompDirectiveDefault
	case placeholder == "folder":
		return nil, cobra.ShellCompDirectiveFilterDirs
	}
	if _, list := f.Value.(pflag.SliceValue); list && f.Value.Type() == "stringSlice" {
		// These would be two names, or need quotation marks that a shell takes away.
		values = slices.DeleteFunc(values, func(name string) bool { return strings.ContainsAny(name, ",\"") })
		if last := strings.LastIndex(begun, ","); last >= 0 {
			return matching(values, begun[:last+1], begun), none | cobra.ShellCompDirectiveNoSpace
		}
		return matching(values, "", begun), none | cobra.ShellCompDirectiveNoSpace
	}
	return matching(values, "", begun), none
}

// argument returns what the next argument of a command may be, by what [Command.Args] says of it.
func (e *Env) argument(cmd *cobra.Command, whats, given []string, begun string) ([]string, cobra.ShellCompDirective) {
	none := cobra.ShellCompDirectiveNoFileComp
	if len(given) >= len(whats) {
		// The last may be given more than once.
		if last := whats[len(whats)-1]; !strings.HasPrefix(last, "the columns") {
			return nil, none
		}
	}
	switch what := whats[min(len(given), len(whats)-1)]; {
	case strings.Contains(what, "column of a table"):
		table, _, dotted := strings.Cut(begun, ".")
		names := e.fromStore(cmd, func(ctx context.Context, st *store.Store) []string {
			if !dotted {
				return tables(ctx, st)
			}
			return columnsOf(ctx, st, table)
		})
		if dotted {
			return matching(names, table+".", begun), none
		}
		for i := range names {
			names[i] += "."
		}
		return matching(names, "", begun), none | cobra.ShellCompDirectiveNoSpace
	case strings.HasPrefix(what, "the columns"):
		offered := columnsOf
		if what == "the columns" {
			offered = movable
		}
		names := e.fromStore(cmd, func(ctx context.Context, st *store.Store) []string { return offered(ctx, st, tableOf(cmd, given)) })
		names = slices.DeleteFunc(names, func(name string) bool { return slices.Contains(given[1:], name) })
		return matching(names, "", begun), none
	case strings.Contains(what, "name of a table"):
		names := matching(e.fromStore(cmd, tables), "", begun)
		if strings.Contains(what, "file") {
			return names, cobra.ShellCompDirectiveDefault
		}
		return names, none
	case strings.Contains(what, "name of a tenant"):
		return matching(e.fromStore(cmd, tenants), "", begun), none
	case strings.HasSuffix(what, "or off"):
		return matching([]string{"off"}, "", begun), none
	case strings.Contains(what, "file"):
		return nil, cobra.ShellCompDirectiveDefault
	}
	return nil, none
}

// matching returns the values that go on with what was begun, each with a text before it. A name that a terminal does
// not show as it is, is left out.
func matching(values []string, before, begun string) (found []string) {
	for _, v := range values {
		if v = before + v; strings.HasPrefix(v, begun) && show.Visible(v) == v {
			found = append(found, v)
		}
	}
	return found
}

// storeNames returns the kinds of stores, or the folders that an embedded one may be in.
func storeNames(begun string) ([]string, cobra.ShellCompDirective) {
	if kind, folder, ok := strings.Cut(begun, ":"); ok {
		if kind != "pebble" {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var names []string
		parent, _ := filepath.Split(folder)
		entries, _ := os.ReadDir(cmp.Or(parent, "."))
		for _, entry := range entries {
			if entry.IsDir() {
				names = append(names, kind+":"+parent+entry.Name())
			}
		}
		return matching(names, "", begun), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	}
	return matching(stores.Prefixes(), "", begun), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

// tableOf returns the table that a command is about.
func tableOf(cmd *cobra.Command, args []string) string {
	if f := cmd.Flags().Lookup("table"); f != nil {
		return strings.Trim(f.Value.String(), "[]")
	}
	if len(args) > 0 {
		return args[0]
	}
	return ""
}

func tables(ctx context.Context, st *store.Store) (names []string) {
	schemas, _ := st.Tables(ctx)
	for _, s := range schemas {
		names = append(names, s.Name)
	}
	return names
}

func tenants(ctx context.Context, st *store.Store) []string {
	names, _ := st.Tenants(ctx)
	return names
}

// columnsOf returns the columns of a table, whose name may have that of a column after it.
func columnsOf(ctx context.Context, st *store.Store, table string) []string {
	tbl, err := st.Table(ctx, table)
	for at := len(table); err != nil; {
		if at = strings.LastIndexByte(table[:at], '.'); at < 0 {
			return nil
		}
		tbl, err = st.Table(ctx, table[:at])
	}
	return columns.Names(tbl.Schema())
}

// movable returns the columns of a table whose ciphertexts can be moved.
func movable(ctx context.Context, st *store.Store, table string) (names []string) {
	tbl, err := st.Table(ctx, table)
	if err != nil {
		return nil
	}
	for _, c := range tbl.Schema().Columns {
		scheme, err := store.ParseScheme(c.Describe().Scheme)
		if _, ok := scheme.(store.MutableScheme); err == nil && ok {
			names = append(names, c.Describe().Name)
		}
	}
	return names
}

// header returns the cells of the first row of a file in CSV.
func header(name string) []string {
	info, err := os.Stat(name)
	if err != nil || !info.Mode().IsRegular() {
		return nil
	}
	f, err := os.Open(name)
	if err != nil {
		return nil
	}
	defer f.Close()
	const longest = 1 << 20
	rows, err := csvrows.New(f, ',', longest)
	if err != nil || rows.Next() != nil {
		return nil
	}
	return rows.Cells()
}

// zoneFolders are where systems keep time zones.
var zoneFolders = []string{"/usr/share/zoneinfo", "/usr/share/lib/zoneinfo", "/etc/zoneinfo"}

// zones returns the names of the time zones that this computer knows.
func zones() []string {
	names := []string{"UTC"}
	for _, folder := range zoneFolders {
		_ = fs.WalkDir(os.DirFS(folder), ".", func(name string, entry fs.DirEntry, err error) error {
			// Others, such as posix/Europe/Berlin and zone.tab, are the same again or no zones.
			if first := name[0]; err == nil && !entry.IsDir() && first >= 'A' && first <= 'Z' && name != "UTC" {
				names = append(names, name)
			}
			return nil
		})
		if len(names) > 1 {
			break
		}
	}
	return names
}

// fromStore returns names that a store has, or none: where it is not named, or cannot be opened without a question, or
// does not answer in time. Nothing is said of it, and nothing is changed.
func (e *Env) fromStore(cmd *cobra.Command, names func(context.Context, *store.Store) []string) []string {
	name, key := cmd.Flags().Lookup("store"), cmd.Flags().Lookup("key")
	if name == nil || key == nil || name.Value.Type() != "string" {
		return nil
	}
	source := key.Value.String()
	// A passphrase is asked for, and a program may ask for one.
	if CheckKey("--key", source) != nil || source == passphraseKey || strings.HasPrefix(source, programKey) {
		return nil
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), patience)
	found := make(chan []string, 1)
	go func() {
		defer cancel()
		found <- e.readNames(ctx, Kept{name.Value.String(), source}, names)
	}()
	select {
	case all := <-found:
		return all
	case <-ctx.Done(): // a client may go on with what it does
		select {
		case all := <-found:
			return all
		default:
			return nil
		}
	}
}

func (e *Env) readNames(ctx context.Context, k Kept, names func(context.Context, *store.Store) []string) []string {
	key, err := e.ReadKey(k.Key)
	if err != nil || stores.Check(k.Name) != nil {
		return nil
	}
	open := e.OpenStore
	if e.AskPassword != nil {
		open = stores.Open
	}
	db, err := open(ctx, k.Name, stores.How{})
	if err != nil {
		return nil
	}
	defer db.Close()
	st, err := stores.Tables(ctx, stores.ReadOnly(db), key, false)
	if err != nil {
		return nil
	}
	return names(ctx, st)
}
