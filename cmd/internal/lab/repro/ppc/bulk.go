package ppc

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/rangecrypt/rangecrypt/cmd/internal/lab/repro/experiment"
	"github.com/rangecrypt/rangecrypt/cmd/internal/lab/repro/testbed"
	"github.com/rangecrypt/rangecrypt/internal/cli/show"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/driver"
)

// Section 5.3 of Iyer et al. (EDBT 2004): the time to load the database of figure 4 at 100, 200 and 500 MB.

const (
	loadRounds      = 12
	loadRoundsQuick = 2

	paperLoadPPC  = 1.15 // times as long as without encryption
	paperLoadPage = 1.24
)

// loadSizes returns the numbers of orders, in the paper's proportions: a hundredth of its own, and fewer where it is to be quick.
func loadSizes(c experiment.Config) []int {
	all := []int{1500, 3000, 7500}
	if c.Quick {
		all = []int{60, 120, 300}
	}
	return all
}

// A loadTiming is a form and how long loading it took.
type loadTiming struct {
	form
	seconds [][]float64 // by size and round
	put     []float64   // bytes for a row, by size
	stored  []float64   // bytes of a row, by size
}

func bulkFigure(ctx context.Context, cfg experiment.Config) (*experiment.Result, error) {
	sizes, rounds := loadSizes(cfg), cfg.RoundsOr(loadRounds, loadRoundsQuick)
	var data []tpchData
	for _, orders := range sizes {
		data = append(data, tpchOf(cfg.Seed, orders))
	}
	all, err := timeLoads(ctx, cfg, data, rounds)
	if err != nil {
		return nil, err
	}
	r := &experiment.Result{
		Title: fmt.Sprintf("Time to load the tables of TPC-H: %s to %s rows, %s, batches of %d, median of %d %s",
			experiment.Commas(float64(data[0].rows())), experiment.Commas(float64(data[len(data)-1].rows())), cfg.Database.Name, cfg.Batch, rounds, show.Plural(rounds, "round")),
		X: "number of rows", Y: "time in s", Runs: rounds,
		Table: &experiment.Table{
			Names: 2, Columns: []string{"rows", "", "s", "x plain", "x plain pages", "put/row", "stored/row"},
			Words: []bool{false, true, false, false, false, false, false},
		},
		Notes: []string{
			"x plain: the time beside that of plain in the same round, with its 95 % interval. x plain pages: the same beside plain pages. put/row: bytes of keys, qualifiers and values that are put for a row, over all tables; stored/row: of those that are there in the end. One client puts one batch after the other, in the order of keys. A page that gets full is written again as several, so that it is always whole. Making the tables and dropping them is not counted.",
			formNotes, tpchSimplified,
		},
		Findings: loadFindings(all),
	}
	for _, t := range all {
		c := experiment.Curve{Name: t.name}
		for i := range data {
			c.Points = append(c.Points, experiment.MedianOf(t.seconds[i]).At(float64(data[i].rows())))
		}
		r.Curves = append(r.Curves, c)
	}
	plain, pages := all[0], loadOf(all, formPagesPlain)
	for i := range data {
		for _, t := range all {
			row := []experiment.Cell{
				experiment.Numeral(float64(data[i].rows()), 0), experiment.Words("%s", t.name), experiment.Numeral(experiment.MedianOf(t.seconds[i]).Mid, 3), experiment.Words("1"), experiment.Words(""),
				experiment.Numeral(t.put[i], 0), experiment.Numeral(t.stored[i], 0),
			}
			if t != plain {
				row[3] = experiment.RatioOf(t.seconds[i], plain.seconds[i]).Cell()
			}
			if t == pages {
				row[4] = experiment.Words("1")
			} else if t.pages {
				row[4] = experiment.RatioOf(t.seconds[i], pages.seconds[i]).Cell()
			}
			r.Table.Rows = append(r.Table.Rows, row)
		}
	}
	r.Below("100, 200 and 500 MB, some 870,000 to 4,300,000 rows")
	return r, nil
}

// timeLoads loads all sizes in all forms, in turns, and drops what it loaded.
func timeLoads(ctx context.Context, cfg experiment.Config, data []tpchData, rounds int) (all []*loadTiming, err error) {
	rows := 0
	for _, d := range data {
		rows += d.rows()
	}
	for _, f := range tpchForms {
		all = append(all, &loadTiming{f, make([][]float64, len(data)), make([]float64, len(data)), make([]float64, len(data))})
	}
	cfg.Bar().Start("load", (rounds+1)*len(all)*rows)
	defer cfg.Bar().Done()
	for round := -1; round < rounds; round++ { // in the first, bytes are counted
		for size, d := range data {
			for i := range all {
				t := all[(i+max(round, 0))%len(all)]
				if round < 0 {
					err = t.count(ctx, cfg, size, d)
				} else {
					err = t.time(ctx, cfg, size, d)
				}
				if err != nil {
					return nil, fmt.Errorf("%s: %w", t.name, err)
				}
			}
		}
	}
	return all, nil
}

// loaded makes the tables of the form, has do load them as a client of a store over db, and drops them.
func (t *loadTiming) loaded(ctx context.Context, cfg experiment.Config, db driver.DB, do func(tables map[string]formTable) error) (err error) {
	w, err := testbed.NewWorkspace(ctx, cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Drop(ctx)) }()
	if err := t.create(ctx, w); err != nil {
		return err
	}
	st, err := store.Open(ctx, db, cfg.Database.Key, nil)
	if err != nil {
		return err
	}
	tables, err := t.tables(ctx, w, st)
	if err != nil {
		return err
	}
	return do(tables)
}

// time loads the rows and notes how long it took.
func (t *loadTiming) time(ctx context.Context, cfg experiment.Config, size int, data tpchData) error {
	return t.loaded(ctx, cfg, cfg.Database.DB, func(tables map[string]formTable) error {
		start := time.Now()
		err := load(ctx, tables, data, cfg.Batch, cfg.Bar().Add)
		t.seconds[size] = append(t.seconds[size], time.Since(start).Seconds())
		return err
	})
}

// count loads the rows and notes how many bytes were put, and how many are there. It reads them again: a row that is lost or not
// as it was written is exit.ErrWrongAnswer.
func (t *loadTiming) count(ctx context.Context, cfg experiment.Config, size int, data tpchData) error {
	count, held := new(testbed.Counter), &testbed.Holding{DB: cfg.Database.DB}
	return t.loaded(ctx, cfg, count.Over(held), func(tables map[string]formTable) error {
		before := count.Now()
		empty, err := held.Stored(ctx)
		if err != nil {
			return err
		}
		if err := load(ctx, tables, data, cfg.Batch, cfg.Bar().Add); err != nil {
			return err
		}
		t.put[size] = float64(count.Now().Since(before).Bytes) / float64(data.rows())
		stored, err := held.Stored(ctx)
		if err != nil {
			return err
		}
		t.stored[size] = float64(stored-empty) / float64(data.rows())
		return checkLoaded(ctx, tables, data)
	})
}

func loadOf(all []*loadTiming, name string) *loadTiming {
	return all[slices.IndexFunc(all, func(t *loadTiming) bool { return t.name == name })]
}

func loadFindings(all []*loadTiming) []experiment.Finding {
	at := func(form string) *loadTiming { return loadOf(all, form) }
	plain, cells, packed, perColumn, whole := all[0], at(formPlainCells), at(formPacked), at(formCells), at(formWhole)
	nsm, ppc, nsmPage := at(formPagesPlain), at(formPages), at(formPagesWhole)
	last := len(plain.seconds) - 1
	least := min(packed.stored[last], perColumn.stored[last], whole.stored[last], nsmPage.stored[last])
	return []experiment.Finding{
		ppc.mean(nsm).About(paperLoadPPC, paperLoadPPC+0.1).Finding(
			"The paper: PPC takes 15 %% longer to load than no encryption, on the average. Pages take %v times as long as plain pages, which take %v times as long as rows in one plain cell. Packed rows take %v times as long as plain columns with a cell each, which take %v times as long as one plain cell. With a cell for each column it is %v times one plain cell.",
			ppc.mean(nsm), nsm.mean(plain), packed.mean(cells), cells.mean(plain), perColumn.mean(plain)),
		nsmPage.mean(nsm).About(paperLoadPage, paperLoadPage+0.1).Finding(
			"The paper: encrypting pages as a whole takes 24 %% longer, at most so here. Whole pages take %v times as long as plain pages, and the whole row in one cell %v times as long as the row in one plain cell.", nsmPage.mean(nsm), whole.mean(plain)),
		ppc.mean(nsmPage).Below(1).Finding(
			"The paper: to encrypt only what is sensitive loads faster than to encrypt the whole. Pages take %v times as long as whole pages. Packed rows take %v times as long as the whole row in one cell: they have a cell for each plain column besides.", ppc.mean(nsmPage), packed.mean(whole)),
		{Holds: ppc.stored[last] <= least, Text: fmt.Sprintf(
			"The paper: it takes no more space than any other way to encrypt. A row takes %.0f bytes in pages, %.0f in whole pages, %.0f packed, %.0f with a cell for each column, %.0f as a whole, and without encryption %.0f in plain pages and %.0f in one cell.",
			ppc.stored[last], nsmPage.stored[last], packed.stored[last], perColumn.stored[last], whole.stored[last], nsm.stored[last], plain.stored[last])},
	}
}

// mean returns the mean, over the sizes, of how many times longer loading took.
func (t *loadTiming) mean(other *loadTiming) experiment.Ratio {
	return experiment.MeanRatio(t.seconds, other.seconds)
}
