package rekey

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rangecrypt/rangecrypt/internal/cli/command"
	"github.com/rangecrypt/rangecrypt/internal/cli/show"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/inspect"
	"github.com/rangecrypt/rangecrypt/store/paged"
	"github.com/rangecrypt/rangecrypt/store/rekey"
)

// report counts what is under listed keys still, prunes keys that nothing is under, and says what stays and why. It is an error if
// something is left of what was to be replaced.
func (r *rekeying) report(ctx context.Context, d inspect.Database) error {
	var left []string // what should be gone
	for _, t := range d.Tables {
		if !r.concerns(t.Name) {
			continue
		}
		text, err := r.reportTable(ctx, d, t)
		if err != nil {
			return err
		}
		if text == "" && slices.Contains(r.renewed, t.Name) && r.listedRowKey(t) { // its copy was cut over before there was the list
			text = show.Visible(t.Name) + " has row keys"
		}
		if text != "" {
			left = append(left, text)
		}
	}
	if err := r.stays("", r.database(d)); err != nil {
		return err
	}
	if len(left) > 0 && !r.dryRun {
		return fmt.Errorf("not all is under new keys yet: %s; the same command goes on. Index entries that stay even so lead to no row: 'rangecrypt verify --repair' drops them",
			strings.Join(left, "; "))
	}
	return nil
}

// reportTable reports one table. It returns what is under old keys that should be under new ones.
func (r *rekeying) reportTable(ctx context.Context, d inspect.Database, t inspect.Table) (left string, err error) {
	switch t.Layout {
	case inspect.Elsewhere:
		return "", r.stays(t.Name, []string{"the application keeps its rows, whose keys are not replaced: register another column, and write the values there"})
	case inspect.Paged:
		return r.reportPages(ctx, t)
	}
	named := countListed(r.list, rekey.KeysOf(t))
	var under rekey.Under
	if named > 0 || t.Tenants {
		tbl, err := command.Table(ctx, r.Store, t.Name)
		if err != nil {
			return "", err
		}
		bar := r.Totals()
		use, err := tbl.KeyUse(ctx, func(rows int) { bar.At(show.Visible(t.Name)+": rows", rows, -1) })
		bar.End()
		if err != nil {
			return "", err
		}
		under = r.list.Under(d, t, use)
		if !r.dryRun && !t.Tenants {
			pruned, err := rekey.Prune(ctx, r.Store, t.Name, use)
			if errors.Is(err, rekey.ErrKept) {
				under.Shared += r.hadInCommon(d, t, use)
			} else if err != nil {
				return "", err
			}
			if pruned > 0 {
				named, err = r.stillNamed(ctx, t.Name)
				if err != nil {
					return "", err
				}
			}
		}
	}
	if err := r.printUnder(t.Name, under, named); err != nil {
		return "", err
	}
	left = r.wanted(t, under)
	return left, r.stays(t.Name, r.kept(d, t, under))
}

// reportPages reports a table whose rows share pages.
func (r *rekeying) reportPages(ctx context.Context, t inspect.Table) (left string, err error) {
	tbl, err := paged.Open(ctx, r.Store, t.Name)
	if err != nil {
		return "", err
	}
	all, err := tbl.Verify(ctx)
	if err != nil {
		return "", err
	}
	under := all.Old
	if len(t.RowKeys) > 0 && r.list.Has(t.RowKeys[0]) {
		under = all.Pages
	}
	if err := r.step(t.Name, "pages", fmt.Sprintf("under old keys are %d of %s", under, show.Counted(all.Pages, "page"))); err != nil {
		return "", err
	}
	if r.cells && under > 0 {
		left = fmt.Sprintf("%s has %s", show.Visible(t.Name), show.Counted(under, "page"))
	}
	if !r.listedRowKey(t) {
		return left, nil
	}
	return left, r.stays(t.Name, r.keptRowKeys())
}

// stillNamed returns how many listed keys the catalogue has for a table.
func (r *rekeying) stillNamed(ctx context.Context, table string) (int, error) {
	d, err := r.Store.Describe(ctx)
	for _, t := range d.Tables {
		if t.Name == table {
			return countListed(r.list, rekey.KeysOf(t)), err
		}
	}
	return 0, err
}

func countListed(list rekey.List, ids []string) (n int) {
	for _, id := range slices.Compact(slices.Sorted(slices.Values(ids))) {
		if list.Has(id) {
			n++
		}
	}
	return n
}

func (r *rekeying) printUnder(table string, u rekey.Under, named int) error {
	line := fmt.Sprintf("%s: under old keys are %s, %s and %s; %s of them", show.Visible(table), show.Counted(u.Cells, "cell"),
		countedEntries(u.Entries+u.Rows), show.Counted(u.Records, "index record"), "the catalogue has "+show.Count(named))
	return r.Result(struct {
		Record    string `json:"record"`
		Store     string `json:"store"`
		Table     string `json:"table"`
		Cells     int    `json:"cells"`
		Entries   int    `json:"entries"`
		RowKeys   int    `json:"row_keys"`
		Records   int    `json:"records"`
		Catalogue int    `json:"catalogue"`
	}{"rekey-left", r.ShownStore(), table, u.Cells, u.Entries, u.Rows, u.Records, named}, line)
}

func countedEntries(n int) string {
	return show.Count(n) + " " + map[bool]string{true: "index entry", false: "index entries"}[n == 1]
}

// wanted says what of a table was to be replaced, and is under old keys.
func (r *rekeying) wanted(t inspect.Table, u rekey.Under) string {
	var left []string
	add := func(n int, what string) {
		if n > 0 {
			left = append(left, show.Counted(n, what))
		}
	}
	if cells := r.cells; cells && !t.Tenants || r.tenants && t.Tenants {
		add(u.Cells-u.Deleted, "cell")
	}
	if entries := u.Entries - u.Shared; r.search && !t.Tenants && entries > 0 {
		left = append(left, countedEntries(entries))
	}
	if len(left) == 0 {
		return ""
	}
	return show.Visible(t.Name) + " has " + strings.Join(left, " and ")
}

// kept says what of a table stays under old keys after all that was asked for, and what replaces it.
func (r *rekeying) kept(d inspect.Database, t inspect.Table, u rekey.Under) (why []string) {
	if u.Rows > 0 && !t.Tenants {
		why = r.keptRowKeys()
	}
	if u.Deleted > 0 {
		why = append(why, deletedRows(u.Deleted, t.Tenants))
	}
	if t.Tenants && u.Entries+u.Rows > 0 {
		why = append(why, "what its rows are found by derives from the first key of each tenant, and stays: --into copies all tables into another store")
	}
	var searched []string
	for _, c := range t.Columns {
		switch {
		case !r.list.Has(c.SearchKey) || c.Scheme == store.Plaintext.String():
		case r.search:
			if reason := sharedKey(d, c); reason != "" { // otherwise it is replaced
				why = append(why, "column "+show.Visible(c.Name)+" "+reason)
			}
		default:
			searched = append(searched, c.Name)
		}
	}
	if len(searched) > 0 {
		why = append(why, fmt.Sprintf("the search keys of %s stay: --search replaces them", show.Names(searched)))
	}
	return why
}

// hadInCommon counts index entries under listed keys that columns of other tables had, too: where clients may sleep, these are replaced by copies only.
func (r *rekeying) hadInCommon(d inspect.Database, t inspect.Table, use inspect.KeyUse) (n int) {
	for _, c := range t.Columns {
		if len(c.SharedWith) > 0 || c.Confidentiality == "database" || !r.list.Has(c.SearchKey) || sharedKey(d, c) == "" {
			continue
		}
		for _, k := range use.Search {
			if k.ID == c.SearchKey {
				n += k.Entries
			}
		}
	}
	return n
}

// sharedKey says why the search key of a column is not replaced, or "".
func sharedKey(d inspect.Database, c inspect.Field) string {
	const own = ", so it stays: 'rangecrypt table alter' gives it one of its own"
	switch {
	case len(c.SharedWith) > 0:
		return "has its search key in common with " + show.Names(c.SharedWith) + own
	case c.Confidentiality == "database":
		return "has the search key of all such columns of the database" + own
	}
	for _, other := range d.Tables {
		for _, had := range other.Columns {
			if had.ID != c.ID && slices.ContainsFunc(had.Former, func(f inspect.Field) bool { return f.SearchKey == c.SearchKey }) {
				return fmt.Sprintf("had its search key in common with %s, where a client that sleeps may write under it still: --row-keys copies both tables", show.Names([]string{other.Name + "." + had.Name}))
			}
		}
	}
	return ""
}

// deletedRows says what leaves the cells of n deleted rows behind, which no conversion seals again.
func deletedRows(n int, tenants bool) string {
	with := "--row-keys copies the table"
	if tenants {
		with = "--into copies all tables"
	}
	if n == 1 {
		return "1 of the cells is what a deleted row leaves, without values, and stays: " + with + " without it"
	}
	return fmt.Sprintf("%s of the cells are what deleted rows leave, without values, and stay: %s without them", show.Count(n), with)
}

// keptRowKeys says what replaces the keys of a row key that are on the list.
func (r *rekeying) keptRowKeys() []string {
	switch {
	case !r.rowKeys:
		return []string{"the keys of its row key stay: --row-keys copies it into a new table"}
	case !r.dryRun:
		return []string{"the keys of its row key stay"}
	}
	return nil
}

// database says what of the database stays.
func (r *rekeying) database(d inspect.Database) (why []string) {
	if r.list.Has(d.Key) {
		why = append(why, "the database key stays, and what derives from it, as the names in the catalogue: 'rangecrypt rekey --into STORE' copies all tables into another store, under another one")
	}
	kept := 0
	for _, t := range d.Tenants {
		kept += countListed(r.list, t.Keys)
	}
	if kept > 0 {
		why = append(why, fmt.Sprintf("the catalogue has %s of tenants that are on the list", show.Counted(kept, "key")))
	}
	if r.to == "" {
		why = append(why, "the master key stays: --to replaces it")
	}
	return why
}

func (r *rekeying) stays(table string, why []string) error {
	for _, text := range why {
		if err := r.step(table, "stays", text); err != nil {
			return err
		}
	}
	return nil
}
