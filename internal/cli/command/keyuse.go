package command

import (
	"cmp"
	"context"
	"fmt"
	"strconv"

	"github.com/rangecrypt/rangecrypt/internal/cli"
	"github.com/rangecrypt/rangecrypt/internal/cli/show"
	"github.com/rangecrypt/rangecrypt/store/inspect"
	"github.com/rangecrypt/rangecrypt/store/paged"
)

// countTable prints how much of a table is under each key, and returns how many cells are under none of them.
func countTable(ctx context.Context, c *cli.Call, t inspect.Table, database string) (unknown int, err error) {
	if t.Layout == inspect.Paged {
		return 0, countPages(ctx, c, t)
	}
	return countKeys(ctx, c, t.Name, database)
}

// countKeys does so for a table whose rows stand alone.
func countKeys(ctx context.Context, c *cli.Call, table, database string) (unknown int, err error) {
	tbl, err := Table(ctx, c.Store, table)
	if err != nil {
		return 0, err
	}
	bar := c.Totals()
	use, err := tbl.KeyUse(ctx, func(rows int) { bar.At(show.Visible(table)+": rows", rows, -1) })
	bar.End()
	if err != nil {
		return 0, err
	}
	if c.JSON {
		return use.Unknown, encodeKeyUse(c, table, use)
	}
	return use.Unknown, c.Print(show.Line("table "+show.Visible(table)+":", c.Style()) +
		show.Rows([]string{"KEY OF", "FOR", "ID", "CELLS", "ENTRIES", "RECORDS"}, keyUseRows(use, database), []int{3, 4, 5}, c.Style()))
}

// countPages opens all pages of a table, and prints how many are under its newest key.
func countPages(ctx context.Context, c *cli.Call, t inspect.Table) error {
	tbl, err := paged.Open(ctx, c.Store, t.Name)
	if err != nil {
		return err
	}
	all, err := tbl.Verify(ctx)
	if err != nil {
		return err
	}
	newest := ""
	if len(t.RowKeys) > 0 {
		newest = t.RowKeys[0]
	}
	return c.Result(struct {
		Record string `json:"record"`
		Store  string `json:"store"`
		Table  string `json:"table"`
		Key    string `json:"newest_key,omitempty"`
		Pages  int    `json:"pages"`
		Old    int    `json:"under_earlier_keys"`
	}{"keys-pages", c.ShownStore(), t.Name, newest, all.Pages, all.Old},
		fmt.Sprintf("table %s: %d of %s under the newest key, %d under earlier ones", show.Visible(t.Name), all.Pages-all.Old, show.Counted(all.Pages, "page"), all.Old))
}

func keyUseRows(use inspect.KeyUse, database string) (rows [][]string) {
	whose := func(tenant, column string) string {
		name := "(rows)"
		if column != "" {
			name = show.Visible(column)
		}
		if tenant != "" {
			name = show.Visible(tenant) + ": " + name
		}
		return name
	}
	age := map[bool]string{true: "new ", false: "earlier "}
	for _, k := range use.Keys {
		rows = append(rows, []string{whose(k.Tenant, k.Column), age[k.Newest] + "cells", k.ID, strconv.Itoa(k.Cells), "", ""})
	}
	for _, k := range use.Search {
		records := ""
		if k.Records > 0 {
			records = strconv.Itoa(k.Records)
		}
		rows = append(rows, []string{whose(k.Tenant, k.Column), age[k.Newest] + "entries", k.ID, "", strconv.Itoa(k.Entries), records})
	}
	rows = append(rows, []string{"(database)", "catalogue", database, strconv.Itoa(use.Catalogue), "", ""})
	for _, rest := range []struct {
		what           string
		cells, entries int
	}{
		{"not sealed", use.Plain, 0}, {"of dropped tenants", use.Orphans, 0}, {"of dropped columns", use.Dropped, 0},
		{"of nothing that is there", 0, use.Left}, {"of no known key", use.Unknown, 0},
	} {
		if cmp.Or(rest.cells, rest.entries) == 0 {
			continue
		}
		row := []string{"", rest.what, "", strconv.Itoa(rest.cells), "", ""}
		if rest.entries > 0 {
			row[3], row[4] = "", strconv.Itoa(rest.entries)
		}
		rows = append(rows, row)
	}
	return rows
}

func encodeKeyUse(c *cli.Call, table string, use inspect.KeyUse) error {
	type key struct {
		Tenant string `json:"tenant,omitempty"`
		Column string `json:"column,omitempty"`
		ID     string `json:"id"`
		Newest bool   `json:"newest"`
		Cells  int    `json:"cells"`

		Deleted int `json:"deleted,omitempty"`
	}
	type search struct {
		Tenant  string `json:"tenant,omitempty"`
		Column  string `json:"column"`
		ID      string `json:"id"`
		Newest  bool   `json:"newest"`
		Entries int    `json:"entries"`
		Records int    `json:"records"`
	}
	keys, searches := []key{}, []search{}
	for _, k := range use.Keys {
		keys = append(keys, key(k))
	}
	for _, k := range use.Search {
		searches = append(searches, search(k))
	}
	return c.Encode(struct {
		Record    string   `json:"record"`
		Store     string   `json:"store"`
		Table     string   `json:"table"`
		Keys      []key    `json:"keys"`
		Search    []search `json:"search"`
		Catalogue int      `json:"catalogue"`
		Plain     int      `json:"plain"`
		Orphans   int      `json:"orphans,omitempty"`
		Left      int      `json:"left,omitempty"`
		Dropped   int      `json:"dropped"`
		Unknown   int      `json:"unknown"`
	}{"key-use", c.ShownStore(), table, keys, searches, use.Catalogue, use.Plain, use.Orphans, use.Left, use.Dropped, use.Unknown})
}
