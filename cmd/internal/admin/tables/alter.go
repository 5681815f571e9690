package tables

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rangecrypt/rangecrypt/cmd/internal/admin/anytable"
	"github.com/rangecrypt/rangecrypt/cmd/internal/admin/schemafile"
	"github.com/rangecrypt/rangecrypt/internal/cli"
	"github.com/rangecrypt/rangecrypt/internal/cli/benchtable"
	"github.com/rangecrypt/rangecrypt/internal/cli/exit"
	"github.com/rangecrypt/rangecrypt/internal/cli/show"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/inspect"
)

// A wantedChange is a flag that asks for a change; they are made in the order of the command line.
type wantedChange struct{ kind, text string }

// changeFlag appends the flag's values to those of other flags.
type changeFlag struct {
	kind string
	to   *[]wantedChange
}

// String returns what was given last, by any of these flags.
func (f changeFlag) String() string {
	if f.to == nil || len(*f.to) == 0 {
		return ""
	}
	return (*f.to)[len(*f.to)-1].text
}

func (f changeFlag) Type() string { return "text" }
func (f changeFlag) Set(text string) error {
	if text == "" {
		return errors.New("it is empty")
	}
	*f.to = append(*f.to, wantedChange{f.kind, text})
	return nil
}

func newTableAlter(e *cli.Env) *cobra.Command {
	a := &alteration{}
	return cli.Command{
		Use:   "alter NAME|FILE",
		Short: "Add, drop, rename and change columns",
		Long: `Alter makes the changes that the flags name, in their order. Without any of these flags
it makes those that turn the table into what the schema file FILE says: it shows them and
asks. All are made or none, in one small write. No row is written, and other programs may
go on. What changes in the row key, the layout and the types of columns is refused.

Adding or changing takes a whole column as a schema file has it; a change names no type.
A change that leaves out covering, server-index or a shared key which the column has is
refused, and shows how the column is stored: so none of them is lost unsaid. Rows
keep the values of a changed column, but until 'rangecrypt table convert' has written them
again, queries by it open and check all rows. Values of a dropped column are lost.

A table that 'opebench insert' made stays as it is, and so does its name: insert and
range-query find it by both.`,
		Example: `  rangecrypt table alter readings --store pebble:data --key app.key \
    --rename note=remark --add 'name: site, type: string, encryption: deterministic'
  rangecrypt table alter readings --store pebble:data --key app.key \
    --change 'name: celsius, encryption: ordered, scheme: wozniak'
  rangecrypt table alter readings.yaml --store pebble:data --key app.key --dry-run`,
		Args: []string{"the name of a table or a schema file"},
		Yes:  true,
		Flags: func(f *pflag.FlagSet) {
			f.Var(changeFlag{"add", &a.wanted}, "add", "add a `column`, such as\n'name: note, type: string, encryption: randomised'")
			f.Var(changeFlag{"drop", &a.wanted}, "drop", "drop the column of that `name` with its values")
			cli.OfferColumns(f, "drop")
			f.Var(changeFlag{"rename", &a.wanted}, "rename", "rename a column or part of the row key: `old=new`")
			cli.OfferColumns(f, "rename")
			f.Var(changeFlag{"change", &a.wanted}, "change", "change encryption, scheme, confidentiality, covering\n(true, or a list, such as [] or [note]) or server-index of a `column`, such as 'name: note, encryption: plain'")
			cli.Gathers(f, "add", "drop", "rename", "change")
			f.BoolVar(&a.dryRun, "dry-run", false, "show the changes, make none")
		},
		Check: func(c *cli.Call) (err error) {
			if err := c.Kept.Check(); err != nil {
				return err
			}
			a.name, c.ReadOnly = c.Arg(), a.dryRun
			if len(a.wanted) == 0 {
				a.schema, err = readSchema(c.Arg())
				if errors.As(err, new(*fs.PathError)) {
					err = fmt.Errorf("%w; to change the table of that name, give --add, --drop, --rename or --change", err)
				}
				a.name = a.schema.Name
			}
			return err
		},
		Run: func(ctx context.Context, c *cli.Call) error { return a.run(ctx, c) },
	}.New(e)
}

// An alteration is what flags or, without any, a schema file ask for.
type alteration struct {
	name   string // of the table
	wanted []wantedChange
	schema schemafile.Table
	pages  bool // the rows of the table share some
	dryRun bool
}

func (a *alteration) run(ctx context.Context, c *cli.Call) error {
	tbl, err := anytable.Find(ctx, c, a.name)
	if err != nil {
		return err
	}
	if err := checkOwn(tbl.Schema(), "changed"); err != nil {
		return err
	}
	a.pages = anytable.IsPaged(tbl)
	var changes []change
	if len(a.wanted) == 0 {
		changes, err = difference(anytable.FileOf(tbl), a.schema)
	} else {
		changes, err = namedChanges(tbl.Schema(), a.wanted)
	}
	if err != nil {
		return err
	}
	if len(changes) == 0 {
		return c.Line("table %s is as it is wanted", show.Visible(a.name))
	}
	return a.make(ctx, c, changes)
}

// make makes the changes, and shows them once the store has accepted them: before somebody is asked, or that they are made.
func (a *alteration) make(ctx context.Context, c *cli.Call, changes []change) error {
	var made []store.Change
	ask, loses, rewrite := len(a.wanted) == 0, false, false
	for _, ch := range changes {
		made = append(made, ch.store)
		loses, rewrite = loses || ch.loses, rewrite || ch.rewrites
	}
	if ask = (ask || loses) && !a.dryRun; ask || a.dryRun {
		if err := a.check(ctx, c, made); err != nil {
			return err
		}
		if err := say(c, changes); err != nil || a.dryRun {
			return err
		}
		question := fmt.Sprintf("Change table %s?", show.Visible(a.name))
		if loses {
			question = fmt.Sprintf("Change table %s, so that values are lost?", show.Visible(a.name))
		}
		if err := c.Confirm(ctx, question); err != nil {
			return err
		}
	}
	if err := c.Store.Alter(ctx, a.name, made...); err != nil {
		return err
	}
	if !ask {
		if err := say(c, changes); err != nil {
			return err
		}
	}
	line := fmt.Sprintf("table %s was changed", show.Visible(a.name))
	switch {
	case a.pages && (rewrite || loses):
		line += fmt.Sprintf("; pages stay as they are until 'rangecrypt keys rotate --table %[1]s' and then 'rangecrypt table convert %[1]s' write them again", show.Argument(a.name))
	case rewrite:
		line += "; 'rangecrypt table convert' stores the rows that are there as it is now"
	}
	return c.Line("%s", line)
}

// check lets the store check all changes. It finds then that nothing can be written.
func (a *alteration) check(ctx context.Context, c *cli.Call, changes []store.Change) error {
	return c.Unwritable(ctx, func(st *store.Store) error {
		if err := st.Alter(ctx, a.name, changes...); !errors.Is(err, driver.ErrReadOnly) {
			return err
		}
		return nil
	})
}

// say shows changes.
func say(c *cli.Call, changes []change) error {
	for _, ch := range changes {
		if err := c.Line("%s", ch.line); err != nil {
			return err
		}
		if ch.shares != "" {
			c.Warn("warning: %s", ch.shares)
		}
	}
	return nil
}

// A change is a change of a table and what there is to say about it.
type change struct {
	store    store.Change
	line     string
	loses    bool // values are lost
	rewrites bool // rows must be written again to be found by the column
	shares   string
}

func added(c store.Column) change {
	return change{store: store.AddColumn(c), line: fmt.Sprintf("+ add %s: %s", show.Visible(c.Describe().Name), stored(c)), shares: sharing(c)}
}

// dropped drops a column, which an earlier change may have given the name.
func dropped(name string, c store.Column) change {
	return change{store: store.DropColumn(name), line: fmt.Sprintf("- drop %s: %s; its values are lost", show.Visible(name), stored(c)), loses: true}
}

// livesFor changes how long rows live that are put from now on.
func livesFor(from, to time.Duration) change {
	text := func(ttl time.Duration) string { return cmp.Or(ttlText(ttl), "none") }
	return change{store: store.SetTTL(to), line: fmt.Sprintf("~ change ttl: from %s to %s, of rows that are put from now on", text(from), text(to))}
}

func changed(from, to store.Column) change {
	return change{
		store:    store.ChangeColumn(to),
		line:     fmt.Sprintf("~ change %s: from %s to %s", show.Visible(to.Describe().Name), stored(from), stored(to)),
		rewrites: anytable.Searched(from) || anytable.Searched(to),
		shares:   sharing(to),
	}
}

// stored says how a column is stored, in words that a terminal can show.
func stored(c store.Column) string {
	d := c.Describe()
	s := d.Type + ", " + d.Encryption
	if d.Scheme != "" {
		s += " (" + d.Scheme + ")"
	}
	if d.Covering {
		s += ", covering"
		if d.Copied != nil {
			s += " " + copies(d.Copied)
		}
	}
	if d.ServerIndex {
		s += ", server index"
	}
	if with := sharedWith(c); with != "" {
		s += ", key of " + with
	}
	return s
}

// sharedWith says whose search key a column has besides its own; "" for one with a key of its own.
func sharedWith(c store.Column) string {
	switch d := c.Describe(); {
	case d.KeyOf != nil:
		return show.Visible(d.KeyOf.Table) + ", " + show.Visible(d.KeyOf.Column)
	case d.Confidentiality == "database":
		return "the database"
	}
	return ""
}

// sharing warns of what the search key of a column gives away that others have, too.
func sharing(c store.Column) string {
	others := "all database-wide columns of its type, encryption and scheme"
	d := c.Describe()
	if d.KeyOf != nil {
		others = fmt.Sprintf("column %s of table %s", show.Visible(d.KeyOf.Column), show.Visible(d.KeyOf.Table))
	} else if d.Confidentiality != "database" {
		return ""
	}
	learns := "which rows of them have equal values"
	if d.Encryption == "ordered" {
		learns += ", and which have less"
	}
	return fmt.Sprintf("column %s has one search key with %s: the database sees %s; who knows the values of one reads the others by it",
		show.Visible(c.Describe().Name), others, learns)
}

// byName returns the columns of a schema by their names.
func byName(s store.Schema) map[string]store.Column {
	columns := make(map[string]store.Column, len(s.Columns))
	for _, c := range s.Columns {
		columns[c.Describe().Name] = c
	}
	return columns
}

// namedChanges returns the changes that flags ask for.
func namedChanges(s store.Schema, wanted []wantedChange) ([]change, error) {
	columns, parts := byName(s), make(map[string]bool, len(s.Key))
	for _, p := range s.Key {
		parts[p.Describe().Name] = true
	}
	var changes []change
	for _, w := range wanted {
		switch w.kind {
		case "add":
			c, err := schemafile.ParseColumn("--add", w.text, nil)
			if err != nil {
				return nil, exit.Usagef("%v", err)
			}
			columns[c.Describe().Name] = c
			changes = append(changes, added(c))
		case "drop":
			c, ok := columns[w.text]
			if !ok {
				return nil, noColumn(s, w.text)
			}
			delete(columns, w.text)
			changes = append(changes, dropped(w.text, c))
		case "rename":
			from, to, err := cutRename(w.text, func(name string) bool {
				_, ok := columns[name]
				return ok || parts[name]
			})
			if err != nil {
				return nil, err
			}
			if c, ok := columns[from]; ok {
				delete(columns, from)
				columns[to] = c
			} else if parts[from] {
				delete(parts, from)
				parts[to] = true
			}
			changes = append(changes, change{store: store.RenameColumn(from, to), line: fmt.Sprintf("> rename %s to %s", show.Visible(from), show.Visible(to))})
		case "change":
			var unknown *string
			c, err := schemafile.ParseChange("--change", w.text, func(name string) (store.Column, bool) {
				c, ok := columns[name]
				if unknown = nil; !ok && name != "" {
					unknown = &name
				}
				return c, ok
			})
			if unknown != nil {
				return nil, noColumn(s, *unknown)
			}
			if err != nil {
				return nil, exit.Usagef("%v", err)
			}
			before, ok := columns[c.Describe().Name]
			if !ok {
				return nil, noColumn(s, c.Describe().Name)
			}
			if sameStored(s, before, c) {
				continue
			}
			columns[c.Describe().Name] = c
			changes = append(changes, changed(before, c))
		}
	}
	return changes, nil
}

// cutRename cuts old=new where the old name is one that there is, since names may have a = in them, too. Of a text with a single
// = the store says what is wrong with it.
func cutRename(text string, known func(name string) bool) (from, to string, err error) {
	var all, found []string
	for i, r := range text {
		if r != '=' || i == 0 || i == len(text)-1 {
			continue
		}
		if all = append(all, text[:i]); known(text[:i]) {
			found = append(found, text[:i])
		}
	}
	if len(all) == 1 {
		found = all
	}
	switch len(found) {
	case 1:
		return found[0], text[len(found[0])+1:], nil
	case 0:
		if len(all) == 0 {
			return "", "", exit.Usagef("--rename %q is not of the form old=new", text)
		}
		return "", "", fmt.Errorf("%w: --rename %q: there is no column %s", store.ErrColumn, text, quotedOr(all))
	}
	return "", "", exit.Usagef("--rename %q may mean that %s is renamed, since there are columns of these names: give one of them a name without = first",
		text, quotedOr(found))
}

// quotedOr lists names of which one is meant.
func quotedOr(names []string) string {
	shown := make([]string, len(names))
	for i, name := range names {
		shown[i] = strconv.Quote(name)
	}
	return strings.Join(shown, " or ")
}

// checkOwn refuses tables that insert made: insert and range-query would not find them again.
func checkOwn(s store.Schema, become string) error {
	if insertable, _ := benchtable.Insertable(s); insertable {
		return fmt.Errorf("%w: table %s was made by 'opebench insert', which finds it by its name and columns, as range-query does, "+
			"so that it cannot be %s; make a table of your own with 'rangecrypt table create FILE'", store.ErrSchema, show.Visible(s.Name), become)
	}
	return nil
}

// checkName refuses names of tables that insert makes, for any other table: insert could not make
// its own.
func checkName(s store.Schema) error {
	if insertable, reserved := benchtable.Insertable(s); reserved && !insertable {
		return fmt.Errorf("%w: a table named %s is one that 'opebench insert' makes, and has other columns; choose another name", store.ErrSchema, show.Visible(s.Name))
	}
	return nil
}

// noColumn refuses to drop or change what is no column.
func noColumn(s store.Schema, name string) error {
	if slices.ContainsFunc(s.Key, func(p store.KeyPart) bool { return p.Describe().Name == name }) {
		return fmt.Errorf("%w: %s is a part of the row key of table %s, which stays as it is, but for its name (--rename): for another key make a new table, "+
			"and copy the rows with 'rangecrypt table export' and 'rangecrypt table insert'", store.ErrColumn, show.Visible(name), show.Visible(s.Name))
	}
	var names []string
	for _, c := range s.Columns {
		names = append(names, c.Describe().Name)
	}
	return fmt.Errorf("%w: table %s has no column %s that can be dropped or changed%s", store.ErrColumn, show.Visible(s.Name), show.Visible(name), show.DidYouMean(names, name))
}

// difference returns the changes that turn one schema into the other.
func difference(was, wanted schemafile.Table) ([]change, error) {
	from, to := was.Schema, wanted.Schema
	var refused []error
	refuse := func(format string, args ...any) {
		refused = append(refused, fmt.Errorf("%w: "+format, append([]any{store.ErrSchema}, args...)...))
	}
	if !slices.EqualFunc(from.Key, to.Key, func(a, b store.KeyPart) bool { return a.Describe().String() == b.Describe().String() }) {
		refuse("the row key cannot be changed; it is %s, and the file says %s", keyOf(from), keyOf(to))
	}
	if was.Layout() != wanted.Layout() {
		refuse("the layout cannot be changed from %q to %q", was.Layout(), wanted.Layout())
	} else if was.PageRows != wanted.PageRows {
		refuse("page-rows cannot be changed from %d to %d: make a new table for it, and copy the rows", was.PageRows, wanted.PageRows)
	}
	if to.SpreadBits != 0 && from.SpreadBits != to.SpreadBits {
		refuse("spread-bits cannot be changed from %d to %d", from.SpreadBits, to.SpreadBits)
	}
	if from.Conditional != to.Conditional {
		refuse("conditional cannot be changed from %t to %t, as the file says, or is by default: make a new table for it", from.Conditional, to.Conditional)
	}
	if from.AppendOnly != to.AppendOnly {
		refuse("append-only cannot be changed from %t to %t, as the file says, or is by default: make a new table for it, and copy the rows", from.AppendOnly, to.AppendOnly)
	}
	if from.Tenants != to.Tenants {
		refuse("tenants cannot be changed from %t to %t, as the file says, or is by default: rows are under keys of tenants or of the table; make a new table for it", from.Tenants, to.Tenants)
	}
	if to.Conditional && to.TTL != 0 {
		refuse("rows of a table that is conditional cannot expire: leave ttl out")
	}
	var changes []change
	if to.TTL != from.TTL && !(from.TTL == store.TTLByRow && to.TTL == 0) { // which is as far as it goes back
		changes = append(changes, livesFor(from.TTL, to.TTL))
	}
	stay := byName(to)
	for _, c := range from.Columns {
		if _, stays := stay[c.Describe().Name]; !stays {
			changes = append(changes, dropped(c.Describe().Name, c))
		}
	}
	old := byName(from)
	for _, c := range to.Columns {
		before, there := old[c.Describe().Name]
		was, is := before.Describe(), c.Describe()
		switch {
		case !there:
			changes = append(changes, added(c))
		case was.Type != is.Type:
			refuse("column %s: the type cannot be changed from %s to %s; give the new column another name", show.Visible(is.Name), was.Type, is.Type)
		case !sameStored(from, before, c):
			changes = append(changes, changed(before, c))
		}
	}
	return changes, errors.Join(refused...)
}

// sameStored reports whether a column of the table stays as it is stored, if it is to be as another of its name and type.
func sameStored(s store.Schema, before, after store.Column) bool {
	var key []inspect.Field
	for _, part := range s.Key {
		key = append(key, part.Describe())
	}
	was, is := before.Describe(), after.Describe()
	return was.String() == is.String() && was.Covering == is.Covering && was.SameCopies(is, key) && was.ServerIndex == is.ServerIndex
}

// keyOf says what the row key of a table consists of.
func keyOf(s store.Schema) string {
	var parts []string
	for _, p := range s.Key {
		parts = append(parts, p.Describe().String())
	}
	return fmt.Sprintf("%q", strings.Join(parts, "; "))
}
