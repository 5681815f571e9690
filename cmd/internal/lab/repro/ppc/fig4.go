package ppc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rangecrypt/rangecrypt/cmd/internal/lab/repro/experiment"
	"github.com/rangecrypt/rangecrypt/cmd/internal/lab/repro/testbed"
	"github.com/rangecrypt/rangecrypt/internal/cli/exit"
	"github.com/rangecrypt/rangecrypt/internal/cli/show"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/paged"
)

// Figure 4 of Iyer, Mehrotra, Mykletun, Tsudik and Wu (EDBT 2004), section 5.5: the time of ten queries of TPC-H on its tables, of
// which some attributes are encrypted. Pages without encryption (NSM), encrypted as a whole (NSM-page) and split into a plain and
// an encrypted part (PPC) are here tables of pages, and rows as in figure 3.

var tpchFigures = []experiment.Figure{
	{
		Name: "ppc-fig4", About: "time of queries of TPC-H by how its tables are encrypted",
		Source: "Iyer, Mehrotra, Mykletun, Tsudik and Wu, EDBT 2004, section 5.5 and figure 4",
		Stored: true, Loads: experiment.Batched, Drawn: true, Run: figure4,
	},
	{
		Name: "ppc-bulk", About: "time to load the tables of TPC-H, at three sizes",
		Source: "Iyer, Mehrotra, Mykletun, Tsudik and Wu, EDBT 2004, section 5.3",
		Stored: true, Loads: experiment.Batched, Drawn: true, Run: bulkFigure,
	},
}

const (
	tpchOrders      = 3000 // 2 MB of TPC-H, a hundredth of the paper's
	tpchOrdersQuick = 300
	tpchRounds      = 20
	tpchRoundsQuick = 2

	paperPPC  = 1.06 // times as long as without encryption, over the ten queries
	paperPage = 1.33
)

// A tpchSeries is a form, and how its tables are read.
type tpchSeries struct {
	name, form string
	proof      bool // of columns that are plain, too, where a query reads no others of a table
}

const withoutProof = ", no proof"

// queriedSeries are the series of the figure. The first is what others are compared with.
var queriedSeries = []tpchSeries{
	{formPlain, formPlain, true},
	{formPlainCells, formPlainCells, true},
	{formPacked, formPacked, true},
	{formPacked + withoutProof, formPacked, false},
	{formCells, formCells, true},
	{formWhole, formWhole, true},
	{formPagesPlain, formPagesPlain, false},
	{formPages, formPages, true},
	{formPages + withoutProof, formPages, false},
	{formPagesWhole, formPagesWhole, true},
}

// A formSource is tables of a form.
type formSource struct {
	form
	tables map[string]formTable
	proof  bool
}

func (s formSource) each(ctx context.Context, relation string, columns []string, do func(store.Row)) error {
	unproven := !s.proof && !slices.ContainsFunc(columns, s.encrypted)
	for row, err := range s.tables[relation].Query(ctx, store.Query{Columns: columns, Unauthenticated: unproven}) {
		if err != nil {
			return fmt.Errorf("%s: %w", relation, err)
		}
		do(row)
	}
	return nil
}

// A queryTiming is a series, how long its queries took, and what they opened.
type queryTiming struct {
	tpchSeries
	seconds [][]float64 // by query and round
	opened  []uint64    // sealed pages, by query
}

func figure4(ctx context.Context, cfg experiment.Config) (*experiment.Result, error) {
	orders, rounds := cfg.Size(tpchOrders, tpchOrdersQuick), cfg.RoundsOr(tpchRounds, tpchRoundsQuick)
	data := tpchOf(cfg.Seed, orders)
	all, err := timeTPCH(ctx, cfg, data, rounds)
	if err != nil {
		return nil, err
	}
	r := &experiment.Result{
		Title: fmt.Sprintf("Time of %d queries of TPC-H: %s orders with %s lines, %s, median of %d %s",
			len(tpchQueries), experiment.Commas(float64(orders)), experiment.Commas(float64(len(data[lines]))), cfg.Database.Name, rounds, show.Plural(rounds, "round")),
		X: "query of TPC-H", Y: "time beside plain", Runs: rounds,
		Table:    queryTable(all),
		Findings: queryFindings(all, data),
	}
	for _, t := range all[1:] {
		c := experiment.Curve{Name: t.name}
		for q, query := range tpchQueries {
			c.Points = append(c.Points, t.beside(all[0], q).At(float64(query.number)))
		}
		r.Curves = append(r.Curves, c)
	}
	r.Notes = append(r.Notes,
		"x plain: the time beside that of plain in the same round, with its 95 % interval. mean: the mean of that over the queries, and sum: the time of all queries beside plain's. x plain pages: the same beside plain pages. pages opened: sealed ones, of tables that nothing was read of before.",
		formNotes,
		"no proof: a query that reads no sensitive column of a table takes the plain ones as the database gives them. The others have a proof that they are as they were written, for which something sealed is opened.",
		sensitiveRead(),
		"The client reads the columns of whole tables, as the paper's database did without an index, and joins them in memory. Each answer is compared with the one of the rows in memory.",
		tpchSimplified,
		"The paper names queries 1, 6, 8 and 10 of its ten. It says that 8 reads sensitive columns of lineitem, partsupp and orders: in TPC-H query 9 does so, and 8 reads no partsupp. Both are here.",
	)
	for _, q := range tpchLeftOut {
		r.Notes = append(r.Notes, fmt.Sprintf("Left out, query %d: %s.", q.number, q.why))
	}
	r.Below("a database of 200 MB, some 300,000 orders")
	return r, nil
}

const formNotes = "plain: nothing is encrypted, and a row is one cell; or each column has a cell. packed: the sensitive columns of a row share a cell, the others have one each. " +
	"cell per column: so do the sensitive ones. whole row: all columns are encrypted, in one cell. pages: up to 64 rows share two cells, one with their sensitive columns, sealed, and one with the others, as in the paper's PPC. " +
	"plain pages (NSM) have nothing sensitive, and of whole pages (NSM-page) all columns are sealed. Row keys are plain, and in order, in all of them."

// sensitiveRead says which sensitive columns the queries read.
func sensitiveRead() string {
	var all []string
	for _, q := range tpchQueries {
		read := strings.Join(q.sensitive(), ", ")
		all = append(all, fmt.Sprintf("Q%d (%s): %s", q.number, q.about, cmp.Or(read, "none")))
	}
	return "Sensitive columns that the queries read: " + strings.Join(all, "; ") + "."
}

// timeTPCH fills the tables of all forms and asks each series the same queries once a round, in turns.
func timeTPCH(ctx context.Context, cfg experiment.Config, data tpchData, rounds int) (all []*queryTiming, err error) {
	w, err := testbed.NewWorkspace(ctx, cfg)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.Drop(ctx)) }()
	cfg.Bar().Start("insert", len(tpchForms)*data.rows())
	defer cfg.Bar().Done()
	for _, f := range tpchForms {
		if err := f.fill(ctx, w, data, cfg.Batch, cfg.Bar().Add); err != nil {
			return nil, fmt.Errorf("%s: %w", f.name, err)
		}
	}
	for _, s := range queriedSeries {
		all = append(all, &queryTiming{tpchSeries: s, seconds: make([][]float64, len(tpchQueries)), opened: make([]uint64, len(tpchQueries))})
	}
	var answers [][]string
	for _, q := range tpchQueries {
		answer, err := q.run(ctx, data)
		if err != nil {
			return nil, err
		}
		answers = append(answers, answer)
	}
	cfg.Bar().Start("query", (rounds+1)*len(all)*len(tpchQueries))
	for round := -1; round < rounds; round++ { // the first is not counted
		for q := range tpchQueries {
			for i := range all {
				t := all[(i+max(round, 0))%len(all)]
				s, err := t.time(ctx, w, q, answers[q])
				if err != nil {
					return nil, fmt.Errorf("%s: %w", t.name, err)
				}
				if round >= 0 {
					t.seconds[q] = append(t.seconds[q], s)
				}
				cfg.Bar().Add(1)
			}
		}
	}
	return all, nil
}

// time asks a query of tables that are opened for it, so that nothing of them is in memory, and returns how long it took. An
// answer that is not as it should be is exit.ErrWrongAnswer.
func (t *queryTiming) time(ctx context.Context, w *testbed.Workspace, q int, want []string) (float64, error) {
	f := tpchForms[slices.IndexFunc(tpchForms, func(f form) bool { return f.name == t.form })]
	tables, err := f.tables(ctx, w, w.Store)
	if err != nil {
		return 0, err
	}
	query := tpchQueries[q]
	start := time.Now()
	answer, err := query.run(ctx, formSource{f, tables, t.proof})
	took := time.Since(start).Seconds()
	switch {
	case err != nil:
		return 0, fmt.Errorf("query %d: %w", query.number, err)
	case !slices.Equal(answer, want):
		return 0, fmt.Errorf("%w: query %d of TPC-H is not answered as from the rows in memory", exit.ErrWrongAnswer, query.number)
	}
	t.opened[q] = 0
	for _, table := range tables {
		t.opened[q] += openings(table)
	}
	return took, nil
}

// beside returns how many times longer a query took than in another series.
func (t *queryTiming) beside(other *queryTiming, q int) experiment.Ratio {
	return experiment.RatioOf(t.seconds[q], other.seconds[q])
}

// number returns that of a query of TPC-H.
func (t *queryTiming) number(other *queryTiming, number int) experiment.Ratio {
	return t.beside(other, slices.IndexFunc(tpchQueries, func(q tpchQuery) bool { return q.number == number }))
}

// mean returns the mean, over the queries, of how many times longer they took.
func (t *queryTiming) mean(other *queryTiming) experiment.Ratio {
	return experiment.MeanRatio(t.seconds, other.seconds)
}

// whole returns the seconds of all queries together, by round.
func (t *queryTiming) whole() []float64 {
	all := make([]float64, len(t.seconds[0]))
	for _, seconds := range t.seconds {
		for round, s := range seconds {
			all[round] += s
		}
	}
	return all
}

func queryTable(all []*queryTiming) *experiment.Table {
	table := &experiment.Table{
		Names: 2, Columns: []string{"query", "", "ms", "x plain", "x plain pages", "pages opened"},
		Words: []bool{true, true, false, false, false, false},
	}
	plain, pages := all[0], seriesOf(all, formPagesPlain)
	add := func(query string, t *queryTiming, ms experiment.Cell, beside func(other *queryTiming) experiment.Ratio, opened experiment.Cell) {
		row := []experiment.Cell{experiment.Words("%s", query), experiment.Words("%s", t.name), ms, experiment.Words("1"), experiment.Words(""), opened}
		if t != plain {
			row[3] = beside(plain).Cell()
		}
		if t == pages {
			row[4] = experiment.Words("1")
		} else if t.paged() {
			row[4] = beside(pages).Cell()
		}
		table.Rows = append(table.Rows, row)
	}
	ms := func(seconds []float64) experiment.Cell {
		return experiment.Numeral(1e3*experiment.MedianOf(seconds).Mid, 2)
	}
	for q, query := range tpchQueries {
		for _, t := range all {
			opened := experiment.Words("")
			if t.paged() {
				opened = experiment.Numeral(float64(t.opened[q]), 0)
			}
			add(fmt.Sprintf("Q%d", query.number), t, ms(t.seconds[q]), func(other *queryTiming) experiment.Ratio { return t.beside(other, q) }, opened)
		}
	}
	for _, t := range all {
		add("mean", t, experiment.Words(""), t.mean, experiment.Words(""))
	}
	for _, t := range all {
		add("sum", t, ms(t.whole()), func(other *queryTiming) experiment.Ratio { return experiment.RatioOf(t.whole(), other.whole()) }, experiment.Words(""))
	}
	return table
}

func seriesOf(all []*queryTiming, name string) *queryTiming {
	return all[slices.IndexFunc(all, func(t *queryTiming) bool { return t.name == name })]
}

// paged reports whether the tables of the series have pages.
func (t *queryTiming) paged() bool {
	return slices.ContainsFunc(tpchForms, func(f form) bool { return f.name == t.form && f.pages })
}

func queryFindings(all []*queryTiming, data tpchData) []experiment.Finding {
	at := func(series string) *queryTiming { return seriesOf(all, series) }
	plain, cells, packed, perColumn, whole := all[0], at(formPlainCells), at(formPacked), at(formCells), at(formWhole)
	nsm, ppc, proved, nsmPage := at(formPagesPlain), at(formPages+withoutProof), at(formPages), at(formPagesWhole)
	return []experiment.Finding{
		ppc.mean(nsm).About(paperPPC, paperPPC+0.1).Finding(
			"The paper: over ten queries PPC takes 6 %% longer than no encryption. Pages take %v times as long as plain pages, and with a proof also of plain columns %v times. Packed, rows take %v times as long as plain columns with a cell each, and these %v times as long as one plain cell; with a cell for each column it is %v times one plain cell.",
			ppc.mean(nsm), proved.mean(nsm), packed.mean(cells), cells.mean(plain), perColumn.mean(plain)),
		nsmPage.mean(nsm).About(paperPage, paperPage+0.1).Finding(
			"The paper: encrypting pages as a whole takes 33 %% longer, at most so here. Whole pages take %v times as long as plain pages, and the whole row in one cell %v times as long as the row in one plain cell.",
			nsmPage.mean(nsm), whole.mean(plain)),
		ppc.mean(nsmPage).Below(1).Finding(
			"The paper: encrypting only what is sensitive is faster than the whole. Pages take %v times as long as whole pages, and with a proof also of plain columns %v times. Packed rows take %v times as long as the whole row in one cell: a row is read from as many cells as it has plain columns, which costs more than to decrypt the rest of it.",
			ppc.mean(nsmPage), proved.mean(nsmPage), packed.mean(whole)),
		experiment.Every(ppc.number(nsm, 1).About(1.05, 1.15), ppc.number(nsm, 6).About(1.05, 1.15)).Finding(
			"The paper: queries 1 and 6, which read nothing sensitive, take as long as without encryption. Pages take %v and %v times as long as plain pages. Packed rows take %v and %v times as long as plain columns with a cell each.",
			ppc.number(nsm, 1), ppc.number(nsm, 6), packed.number(cells, 1), packed.number(cells, 6)),
		experiment.Every(ppc.number(nsmPage, 8).Below(1), ppc.number(nsmPage, 9).Below(1), ppc.number(nsmPage, 10).Below(1)).Finding(
			"The paper: queries 8 and 10 take less time than with all of it encrypted. Of pages, 8, 9 and 10 take %v, %v and %v times as long as whole pages; of packed rows %v, %v and %v times as long as the whole row in one cell.",
			ppc.number(nsmPage, 8), ppc.number(nsmPage, 9), ppc.number(nsmPage, 10), packed.number(whole, 8), packed.number(whole, 9), packed.number(whole, 10)),
		ppc.openedFinding(data),
		ppc.plainFinding(proved),
	}
}

// spread is in how many partitions a database without ordered ones lays a table, and how many pages may have few rows so.
const spread = 16

// openedFinding says for how many rows a page is opened.
func (t *queryTiming) openedFinding(data tpchData) experiment.Finding {
	rows, opened, most := 0, uint64(0), 0
	for q, query := range tpchQueries {
		for relation, columns := range query.reads() {
			if anySensitive(columns) {
				n := len(data[relation])
				rows, most = rows+n, most+(n+paged.Rows-1)/paged.Rows+min(n, spread)
			}
		}
		opened += t.opened[q]
	}
	return experiment.Finding{Holds: opened > 0 && opened <= uint64(most), Text: fmt.Sprintf(
		"The paper: a page takes one decryption. The queries read %s rows of tables of which they need sensitive columns, and open %s pages for it: one for %.1f rows. A page has up to %d; small tables have a page that is not full.",
		experiment.Commas(float64(rows)), experiment.Commas(float64(opened)), float64(rows)/float64(max(1, opened)), paged.Rows)}
}

// plainFinding says what queries open that read nothing sensitive.
func (t *queryTiming) plainFinding(proved *queryTiming) experiment.Finding {
	var opened, with uint64
	for q, query := range tpchQueries {
		if len(query.sensitive()) == 0 {
			opened, with = opened+t.opened[q], with+proved.opened[q]
		}
	}
	return experiment.Finding{Holds: opened == 0, Text: fmt.Sprintf(
		"The paper: queries that read nothing sensitive decrypt nothing. Queries 1 and 6 open %d pages, and %d where they want a proof of plain columns.", opened, with)}
}
