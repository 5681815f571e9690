package repro

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rangecrypt/rangecrypt/internal/cli/exit"
	"github.com/rangecrypt/rangecrypt/store"
)

// Figure 4 of Iyer, Mehrotra, Mykletun, Tsudik and Wu (EDBT 2004), section 5.5: the time of ten queries of TPC-H on its tables, of
// which some attributes are encrypted. Pages without encryption (NSM), encrypted as a whole (NSM-page) and split into a plain and
// an encrypted part (PPC) are here rows as in figure 3.

var ppcTPCH = []Figure{
	{
		Name: "ppc-fig4", About: "time of queries of TPC-H by how its tables are encrypted",
		Source: "Iyer, Mehrotra, Mykletun, Tsudik and Wu, EDBT 2004, section 5.5 and figure 4",
		Stored: true, Drawn: true, Run: ppcFig4,
	},
	{
		Name: "ppc-bulk", About: "time to load the tables of TPC-H, at three sizes",
		Source: "Iyer, Mehrotra, Mykletun, Tsudik and Wu, EDBT 2004, section 5.3",
		Stored: true, Drawn: true, Run: ppcBulk,
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
	proof      bool // of columns that are plain, too
}

// queriedSeries are the series of the figure. The first is what others are compared with.
var queriedSeries = []tpchSeries{
	{formPlain, formPlain, true},
	{formPlainCells, formPlainCells, true},
	{formPacked, formPacked, true},
	{formCells, formCells, true},
	{formWhole, formWhole, true},
}

// A formSource is the tables of a form.
type formSource struct {
	tables map[string]formTable
	proof  bool
}

func (s formSource) each(ctx context.Context, relation string, columns []string, do func(store.Row)) error {
	for row, err := range s.tables[relation].query(ctx, columns, s.proof || anySensitive(columns)) {
		if err != nil {
			return fmt.Errorf("%s: %w", relation, err)
		}
		do(row)
	}
	return nil
}

// A queryTiming is a series and how long its queries took.
type queryTiming struct {
	tpchSeries
	from    formSource
	seconds [][]float64 // by query and round
}

func ppcFig4(ctx context.Context, cfg Config) (*Result, error) {
	orders, rounds := cfg.size(tpchOrders, tpchOrdersQuick), cfg.rounds(tpchRounds, tpchRoundsQuick)
	data := tpchOf(cfg.Seed, orders)
	all, err := timeTPCH(ctx, cfg, data, rounds)
	if err != nil {
		return nil, err
	}
	r := &Result{
		Title: fmt.Sprintf("Time of %d queries of TPC-H: %s orders with %s lines, %s, median of %d %s",
			len(tpchQueries), commas(float64(orders)), commas(float64(len(data[lines]))), cfg.Database.Name, rounds, plural(rounds, "round")),
		X: "query of TPC-H", Y: "time beside plain", Runs: rounds,
		Table:    queryTable(all),
		Findings: queryFindings(all),
	}
	for _, t := range all[1:] {
		c := Curve{Name: t.name}
		for q, query := range tpchQueries {
			c.Points = append(c.Points, t.beside(all[0], q).at(float64(query.number)))
		}
		r.Curves = append(r.Curves, c)
	}
	r.Notes = append(r.Notes,
		"x plain: the time beside that of plain in the same round, with its 95 % interval. mean: the mean of that over the queries, and sum: the time of all queries beside plain's. sensitive: columns that a query reads and that the paper encrypts.",
		formNotes,
		"The client reads the columns of whole tables, as the paper's database did without an index, and joins them in memory. Each answer is compared with the one of the rows in memory.",
		tpchSimplified,
		"The paper names queries 1, 6, 8 and 10 of its ten. It says that 8 reads sensitive columns of lineitem, partsupp and orders: in TPC-H query 9 does so, and 8 reads no partsupp. Both are here.",
	)
	for _, q := range tpchLeftOut {
		r.Notes = append(r.Notes, fmt.Sprintf("Left out, query %d: %s.", q.number, q.why))
	}
	r.below("a database of 200 MB, some 300,000 orders")
	return r, nil
}

const formNotes = "plain: nothing is encrypted, and a row is one cell; or each column has a cell. packed: the sensitive columns of a row share a cell, the others have one each. " +
	"cell per column: so do the sensitive ones. whole row: all columns are encrypted, in one cell. Row keys are plain, and in order, in all of them."

// timeTPCH fills the tables of all forms and asks each series the same queries once a round, in turns.
func timeTPCH(ctx context.Context, cfg Config, data tpchData, rounds int) (all []*queryTiming, err error) {
	w, err := newWorkspace(ctx, cfg)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.drop(ctx)) }()
	filled := make(map[string]map[string]formTable)
	cfg.bar().Start("insert", len(tpchForms)*data.rows())
	defer cfg.bar().Done()
	for _, f := range tpchForms {
		if filled[f.name], err = f.fill(ctx, w, w.store, data, cfg.Batch, cfg.bar().Add); err != nil {
			return nil, fmt.Errorf("%s: %w", f.name, err)
		}
	}
	for _, s := range queriedSeries {
		all = append(all, &queryTiming{s, formSource{filled[s.form], s.proof}, make([][]float64, len(tpchQueries))})
	}
	var answers [][]string
	for _, q := range tpchQueries {
		answer, err := q.run(ctx, data)
		if err != nil {
			return nil, err
		}
		answers = append(answers, answer)
	}
	cfg.bar().Start("query", (rounds+1)*len(all)*len(tpchQueries))
	for round := -1; round < rounds; round++ { // the first is not counted
		for q, query := range tpchQueries {
			for i := range all {
				t := all[(i+max(round, 0))%len(all)]
				s, err := t.time(ctx, query, answers[q])
				if err != nil {
					return nil, fmt.Errorf("%s: %w", t.name, err)
				}
				if round >= 0 {
					t.seconds[q] = append(t.seconds[q], s)
				}
				cfg.bar().Add(1)
			}
		}
	}
	return all, nil
}

// time asks a query and returns how long it took. An answer that is not as it should be is exit.ErrWrongAnswer.
func (t *queryTiming) time(ctx context.Context, query tpchQuery, want []string) (float64, error) {
	start := time.Now()
	answer, err := query.run(ctx, t.from)
	took := time.Since(start).Seconds()
	switch {
	case err != nil:
		return 0, fmt.Errorf("query %d: %w", query.number, err)
	case !slices.Equal(answer, want):
		return 0, fmt.Errorf("%w: query %d of TPC-H is not answered as from the rows in memory", exit.ErrWrongAnswer, query.number)
	}
	return took, nil
}

// beside returns how many times longer a query took than in another series.
func (t *queryTiming) beside(other *queryTiming, q int) ratio {
	return ratioOf(t.seconds[q], other.seconds[q])
}

// number returns that of a query of TPC-H.
func (t *queryTiming) number(other *queryTiming, number int) ratio {
	return t.beside(other, slices.IndexFunc(tpchQueries, func(q tpchQuery) bool { return q.number == number }))
}

// mean returns the mean, over the queries, of how many times longer they took.
func (t *queryTiming) mean(other *queryTiming) ratio {
	var all []float64
	for round := range t.seconds[0] {
		sum := 0.0
		for q := range t.seconds {
			sum += t.seconds[q][round] / other.seconds[q][round]
		}
		all = append(all, sum/float64(len(t.seconds)))
	}
	return medianOf(all)
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

func queryTable(all []*queryTiming) *Table {
	table := &Table{
		Names: 2, Columns: []string{"query", "", "ms", "x plain", "sensitive"},
		Words: []bool{true, true, false, false, true},
	}
	plain := all[0]
	add := func(query, series string, ms, beside Cell, about string) {
		if series == plain.name {
			beside = words("1")
		}
		table.Rows = append(table.Rows, []Cell{words("%s", query), words("%s", series), ms, beside, words("%s", about)})
	}
	ms := func(seconds []float64) Cell { return numeral(1e3*medianOf(seconds).mid, 2) }
	for q, query := range tpchQueries {
		read := strings.Join(query.sensitive(), " ")
		for _, t := range all {
			add(fmt.Sprintf("Q%d", query.number), t.name, ms(t.seconds[q]), t.beside(plain, q).cell(), read)
		}
	}
	for _, t := range all {
		add("mean", t.name, words(""), t.mean(plain).cell(), "")
	}
	for _, t := range all {
		add("sum", t.name, ms(t.whole()), ratioOf(t.whole(), plain.whole()).cell(), "")
	}
	return table
}

func queryFindings(all []*queryTiming) []Finding {
	at := func(series string) *queryTiming {
		return all[slices.IndexFunc(all, func(t *queryTiming) bool { return t.name == series })]
	}
	plain, cells, packed, perColumn, whole := all[0], at(formPlainCells), at(formPacked), at(formCells), at(formWhole)
	outdone := packed.mean(whole)
	return []Finding{
		packed.mean(plain).about(paperPPC, paperPPC+0.1).finding(
			"The paper: over ten queries PPC takes 6 %% longer than no encryption. Packed, they take %v times as long as rows in one plain cell, and %v times as long as plain columns with a cell each, which themselves take %v times as long as one cell: what packed rows cost is mostly the cells of their plain columns. With a cell for each column it is %v times one plain cell.",
			packed.mean(plain), packed.mean(cells), cells.mean(plain), perColumn.mean(plain)),
		whole.mean(plain).about(paperPage, paperPage+0.1).finding(
			"The paper: encrypting pages as a whole takes 33 %% longer. The whole row in one cell takes %v times as long as the row in one plain cell.", whole.mean(plain)),
		outdone.below(1).finding(
			"The paper: encrypting only what is sensitive is faster than the whole. Packed, the queries take %v times as long as with the whole row in one cell: a row is read from as many cells as it has plain columns, which costs more than to decrypt the rest of it.", outdone),
		every(packed.number(cells, 1).about(1.05, 1.15), packed.number(cells, 6).about(1.05, 1.15)).finding(
			"The paper: queries 1 and 6, which read nothing sensitive, take as long as without encryption. Packed, they take %v and %v times as long as plain columns with a cell each, and %v and %v times as long as one plain cell.",
			packed.number(cells, 1), packed.number(cells, 6), packed.number(plain, 1), packed.number(plain, 6)),
		every(packed.number(whole, 8).below(1), packed.number(whole, 9).below(1), packed.number(whole, 10).below(1)).finding(
			"The paper: queries 8 and 10 take less time than with all of it encrypted. Packed, 8, 9 and 10 take %v, %v and %v times as long as the whole row in one cell.",
			packed.number(whole, 8), packed.number(whole, 9), packed.number(whole, 10)),
	}
}
