package ppc

import (
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/cmd/internal/lab/repro/experiment"
	"github.com/rangecrypt/rangecrypt/cmd/internal/lab/repro/reprotest"
	"github.com/rangecrypt/rangecrypt/cmd/internal/lab/repro/testbed"
	"github.com/rangecrypt/rangecrypt/cmd/internal/lab/repro/tpc"
	"github.com/rangecrypt/rangecrypt/internal/cli/exit"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/driver"
)

// The seed decides all rows, on every machine.
func TestTPCHRowsAreDecidedByTheSeed(t *testing.T) {
	text := func(d tpchData) string { return fmt.Sprint(map[string][]store.Row(d)) }
	require.Equal(t, text(tpchOf(1, 100)), text(tpchOf(1, 100)))
	require.NotEqual(t, text(tpchOf(1, 100)), text(tpchOf(2, 100)))
	require.Equal(t, "4bf2ff9aeeb18cb4", fmt.Sprintf("%x", sha256.Sum256([]byte(text(tpchOf(1, 100)))))[:16])
}

// Rows have all columns of their relation and no others, their keys ascend, and what they refer to is there.
func TestTPCHRowsFitTogether(t *testing.T) {
	d := tpchOf(1, 600)
	require.Len(t, d, len(relations))
	keys := make(map[string]map[string]bool)
	for _, r := range relations {
		keys[r.Name] = make(map[string]bool)
		last := ""
		for _, row := range d[r.Name] {
			require.Len(t, row, len(r.Key)+len(r.Columns))
			key := ""
			for _, f := range slices.Concat(r.Key, r.Columns) {
				require.Contains(t, row, f.Name)
			}
			for _, f := range r.Key {
				key += fmt.Sprintf("%010d ", row[f.Name])
			}
			require.Greater(t, key, last, r.Name)
			last = key
			keys[r.Name][key] = true
		}
	}
	require.Len(t, d[regions], 5)
	require.Len(t, d[nations], 25)
	require.Len(t, d[purchases], 600)
	require.Len(t, d[offers], 4*len(d[parts]))
	for from, to := range map[string]string{
		"n_regionkey": regions, "s_nationkey": nations, "c_nationkey": nations, "o_custkey": customers,
		"l_orderkey": purchases, "l_partkey l_suppkey": offers, "ps_partkey": parts, "ps_suppkey": suppliers,
	} {
		columns := strings.Fields(from)
		for _, r := range relations {
			for _, row := range d[r.Name] {
				if _, ok := row[columns[0]]; !ok {
					break // of another relation
				}
				key := ""
				for _, c := range columns {
					key += fmt.Sprintf("%010d ", row[c])
				}
				require.True(t, keys[to][key], "%s %s", from, key)
			}
		}
	}
}

// The values that queries compare follow TPC-H's rules.
func TestTPCHValues(t *testing.T) {
	d := tpchOf(1, 600)
	ordered, total := make(map[int64]int), make(map[int64]int64)
	for _, o := range d[purchases] {
		r := tpchRow(o)
		require.NotZero(t, r.key("o_custkey")%3, "a third of the customers have no orders")
		require.True(t, r.day("o_orderdate") >= 19920101 && r.day("o_orderdate") <= 19980802, r.day("o_orderdate"))
		ordered[r.key("o_orderkey")], total[r.key("o_orderkey")] = r.day("o_orderdate"), r.cents("o_totalprice")
	}
	price, sums := make(map[int64]int64), make(map[int64]int64)
	for _, p := range d[parts] {
		price[tpchRow(p).key("p_partkey")] = tpchRow(p).cents("p_retailprice")
	}
	require.EqualValues(t, 90_100, price[1])
	for _, l := range d[lines] {
		r := tpchRow(l)
		require.Equal(t, r.cents("l_quantity")*price[r.key("l_partkey")], 100*r.cents("l_extendedprice"))
		require.Greater(t, r.day("l_shipdate"), ordered[r.key("l_orderkey")])
		require.Greater(t, r.day("l_receiptdate"), r.day("l_shipdate"))
		require.Equal(t, r.text("l_linestatus") == "O", r.day("l_shipdate") > 19950617)
		require.Equal(t, r.text("l_returnflag") == "N", r.day("l_receiptdate") > 19950617)
		sums[r.key("l_orderkey")] += r.revenue() * (100 + r.cents("l_tax"))
	}
	for k, sum := range sums {
		require.Equal(t, (sum+5_000)/10_000, total[k])
	}
	for _, c := range tpchSensitive {
		require.True(t, slices.ContainsFunc(relations, func(r tpc.Relation) bool { return slices.Contains(r.ColumnNames(), c) }), c)
	}
}

func TestTPCHQueriesAreAllNamed(t *testing.T) {
	var all, want []int
	for _, q := range tpchQueries {
		all = append(all, q.number)
	}
	for _, q := range tpchLeftOut {
		all = append(all, q.number)
	}
	for n := range 22 {
		want = append(want, n+1)
	}
	slices.Sort(all)
	require.Equal(t, want, all)
	require.Len(t, tpchQueries, 10, "as the paper has")
	for _, plain := range []int{0, 4} { // 1 and 6
		require.Empty(t, tpchQueries[plain].sensitive())
	}
}

// Every query has an answer, at the size at which it is measured, and not the same for other rows.
func TestTPCHQueriesHaveAnswers(t *testing.T) {
	ctx := context.Background()
	d, other := tpchOf(1, tpchOrders), tpchOf(2, tpchOrders)
	for _, q := range tpchQueries {
		answer, err := q.run(ctx, d)
		require.NoError(t, err)
		require.NotEmpty(t, answer, q.number)
		otherwise, err := q.run(ctx, other)
		require.NoError(t, err)
		require.NotEqual(t, answer, otherwise, q.number)
	}
}

// Queries answer as the statements of TPC-H do, row by row of the product of their tables.
func TestTPCHQueriesByTheirStatements(t *testing.T) {
	ctx := context.Background()
	d := tpchOf(3, 240)
	rows := func(name string) (all []tpchRow) {
		for _, r := range d[name] {
			all = append(all, tpchRow(r))
		}
		return all
	}
	answer := func(number int) []string {
		i := slices.IndexFunc(tpchQueries, func(q tpchQuery) bool { return q.number == number })
		a, err := tpchQueries[i].run(ctx, d)
		require.NoError(t, err)
		return a
	}
	late, profit, modes := make(map[string]int64), make(map[string]int64), make(map[string]int64)
	for _, o := range rows(purchases) {
		exists := false
		for _, l := range rows(lines) {
			if l.key("l_orderkey") != o.key("o_orderkey") {
				continue
			}
			exists = exists || l.day("l_commitdate") < l.day("l_receiptdate")
			if m := l.text("l_shipmode"); slices.Contains([]string{"MAIL", "SHIP"}, m) && l.day("l_commitdate") < l.day("l_receiptdate") &&
				l.day("l_shipdate") < l.day("l_commitdate") && l.day("l_receiptdate") >= 19940101 && l.day("l_receiptdate") < 19950101 {
				modes[fmt.Sprint(m, " ", slices.Contains([]string{"1-URGENT", "2-HIGH"}, o.text("o_orderpriority")))]++
			}
			for _, ps := range rows(offers) {
				if ps.key("ps_partkey") != l.key("l_partkey") || ps.key("ps_suppkey") != l.key("l_suppkey") {
					continue
				}
				// Keys are numbers from 1, or from 0 of nations, without gaps.
				part, supplier := rows(parts)[ps.key("ps_partkey")-1], rows(suppliers)[ps.key("ps_suppkey")-1]
				if strings.Contains(part.text("p_name"), "green") {
					nation := rows(nations)[supplier.key("s_nationkey")]
					profit[fmt.Sprint(nation.text("n_name"), " ", o.year("o_orderdate"))] +=
						l.cents("l_extendedprice")*(100-l.cents("l_discount")) - ps.cents("ps_supplycost")*l.cents("l_quantity")
				}
			}
		}
		if exists && o.day("o_orderdate") >= 19930701 && o.day("o_orderdate") < 19931001 {
			late[o.text("o_orderpriority")]++
		}
	}
	require.Equal(t, sumLines(late), answer(4))
	require.Equal(t, sumLines(profit), answer(9))
	require.Equal(t, sumLines(modes), answer(12))
	require.NotEmpty(t, profit)
}

func TestPPCFig4(t *testing.T) {
	cfg := experiment.Config{Seed: 1, Quick: true, Rounds: 2, Batch: 30, Database: reprotest.Memory()}
	r, err := figure4(context.Background(), cfg)
	require.NoError(t, err)
	reprotest.WellFormed(t, r)
	reprotest.Smaller(t, r)
	require.Len(t, r.Curves, len(queriedSeries)-1)
	require.Len(t, r.Table.Rows, (len(tpchQueries)+2)*len(queriedSeries))
	require.Equal(t, "?????++", reprotest.Marks(r.Findings), "so few rounds have no interval")
	for _, q := range tpchLeftOut {
		require.Contains(t, strings.Join(r.Notes, "\n"), fmt.Sprintf("Left out, query %d: ", q.number))
	}
	require.NotZero(t, reprotest.Families(t, cfg.Database))

	_, err = figure4(reprotest.Ended(), experiment.Config{Quick: true, Database: reprotest.Memory()})
	require.ErrorIs(t, err, context.Canceled)
}

func TestPPCBulk(t *testing.T) {
	cfg := experiment.Config{Seed: 1, Quick: true, Rounds: 1, Batch: 30, Database: reprotest.Memory()}
	r, err := bulkFigure(context.Background(), cfg)
	require.NoError(t, err)
	reprotest.WellFormed(t, r)
	reprotest.Smaller(t, r)
	require.Len(t, r.Curves, len(tpchForms))
	require.Len(t, r.Table.Rows, len(loadSizes(cfg))*len(tpchForms))
	put := make(map[string]float64)
	for _, row := range r.Table.Rows {
		put[row[1].Text] = *row[6].Number
		require.LessOrEqual(t, put[row[1].Text], *row[5].Number)
	}
	require.Greater(t, put[formCells], put[formPacked])
	require.Greater(t, put[formWhole], put[formPlain])
	require.Less(t, put[formPages], put[formPacked])
	require.Equal(t, "???+", reprotest.Marks(r.Findings))
	require.NotZero(t, reprotest.Families(t, cfg.Database))

	_, err = bulkFigure(reprotest.Ended(), experiment.Config{Quick: true, Database: reprotest.Memory()})
	require.ErrorIs(t, err, context.Canceled)
}

// A row that is not as it was written is noticed, in every form.
func TestTPCHAnswersAreChecked(t *testing.T) {
	ctx := context.Background()
	d := tpchOf(1, 40)
	for _, f := range tpchForms {
		w, err := testbed.NewWorkspace(ctx, experiment.Config{Database: reprotest.Memory()})
		require.NoError(t, err)
		require.NoError(t, f.fill(ctx, w, d, 50, func(int) {}))
		tables, err := f.tables(ctx, w, w.Store)
		require.NoError(t, err)
		timing := &queryTiming{tpchSeries: tpchSeries{f.name, f.name, true}, opened: make([]uint64, len(tpchQueries))}
		for q, query := range tpchQueries {
			want, err := query.run(ctx, d)
			require.NoError(t, err)
			_, err = timing.time(ctx, w, q, want)
			require.NoError(t, err, "%s: query %d", f.name, query.number)
			require.Equal(t, f.pages, timing.opened[q] > 0, "of tables that nothing was read of before")
		}
		require.NoError(t, checkLoaded(ctx, tables, d))

		row := maps.Clone(d[lines][5])
		row["l_extendedprice"] = tpc.Money(1)
		require.NoError(t, tables[lines].Put(ctx, row))
		want, err := tpchQueries[0].run(ctx, d)
		require.NoError(t, err)
		_, err = timing.time(ctx, w, 0, want)
		require.ErrorIs(t, err, exit.ErrWrongAnswer, f.name)
		require.ErrorIs(t, checkLoaded(ctx, tables, d), exit.ErrWrongAnswer, f.name)

		fewer := maps.Clone(d)
		fewer[regions] = d[regions][1:]
		require.ErrorIs(t, checkLoaded(ctx, tables, fewer), exit.ErrWrongAnswer, f.name)
		fewer[regions] = append(slices.Clone(d[regions]), store.Row{})
		require.ErrorIs(t, checkLoaded(ctx, tables, fewer), exit.ErrWrongAnswer, f.name)
	}
}

func TestQueryFindings(t *testing.T) {
	d := tpchOf(1, 40)
	made := func(opened uint64, x map[string]float64) (all []*queryTiming) {
		for _, s := range queriedSeries {
			timing := &queryTiming{tpchSeries: s}
			for _, q := range tpchQueries {
				timing.seconds = append(timing.seconds, reprotest.Steady(9, x[s.form]))
				if len(q.sensitive()) == 0 && s.proof {
					timing.opened = append(timing.opened, 0)
				} else {
					timing.opened = append(timing.opened, opened)
				}
			}
			all = append(all, timing)
		}
		return all
	}
	good := made(1, map[string]float64{formPlain: 1, formPlainCells: 1, formPacked: 1, formCells: 1, formWhole: 1, formPagesPlain: 1, formPages: 1.05, formPagesWhole: 1.3})
	seriesOf(good, formPages+withoutProof).opened[0], seriesOf(good, formPages+withoutProof).opened[4] = 0, 0
	require.Equal(t, "+++++++", reprotest.Marks(queryFindings(good, d)))
	require.Equal(t, "-------", reprotest.Marks(queryFindings(made(100, map[string]float64{
		formPlain: 1, formPlainCells: 1, formPacked: 1, formCells: 1, formWhole: 1, formPagesPlain: 1, formPages: 2, formPagesWhole: 1.5,
	}), d)))
}

func TestLoadFindings(t *testing.T) {
	made := func(x map[string]float64) (all []*loadTiming) {
		for _, f := range tpchForms {
			timing := &loadTiming{form: f, stored: []float64{0, 0, 100 * x[f.name]}}
			for range 3 {
				timing.seconds = append(timing.seconds, reprotest.Steady(9, x[f.name]))
			}
			all = append(all, timing)
		}
		return all
	}
	rows := map[string]float64{formPlain: 1, formPlainCells: 1, formPacked: 1.3, formCells: 1.3, formWhole: 1.3, formPagesPlain: 1, formPages: 1.1, formPagesWhole: 1.2}
	require.Equal(t, "++++", reprotest.Marks(loadFindings(made(rows))))
	rows[formPages], rows[formPagesWhole] = 2, 1.5
	require.Equal(t, "----", reprotest.Marks(loadFindings(made(rows))))
}

// What is stored is counted of the families that were used, as often as it is there.
func TestHolding(t *testing.T) {
	ctx := context.Background()
	h := &testbed.Holding{DB: reprotest.Memory().DB}
	f, err := h.Family(ctx, driver.FamilySpec{Name: "f", Layout: driver.LayoutOrdered})
	require.NoError(t, err)
	for range 2 {
		require.NoError(t, f.Apply(ctx, driver.Mutation{Row: []byte("row"), Puts: []driver.Cell{{Qualifier: []byte("q"), Value: []byte("value")}}}))
	}
	n, err := h.Stored(ctx)
	require.NoError(t, err)
	require.Equal(t, 3+1+5, n)
}
