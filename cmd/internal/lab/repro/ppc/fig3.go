package ppc

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/rangecrypt/rangecrypt/cmd/internal/lab/repro/experiment"
	"github.com/rangecrypt/rangecrypt/cmd/internal/lab/repro/testbed"
	"github.com/rangecrypt/rangecrypt/internal/cli/exit"
	"github.com/rangecrypt/rangecrypt/internal/cli/show"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/paged"
)

// Figure 3 of Iyer, Mehrotra, Mykletun, Tsudik and Wu (EDBT 2004), section 5.4: the time of a query
// of the 16 attributes of TPC-H's lineitem, 7 of which it reads, against the number of encrypted
// attributes. The paper's pages without encryption (NSM), encrypted as a whole (NSM-page) and split
// into a plain and an encrypted part (PPC) are here tables of pages, and rows of which nothing is encrypted,
// all is, or the sensitive columns are, which then share a cell or have one each.

var queryFigures = []experiment.Figure{{
	Name:   "ppc-fig3",
	About:  "read time by the number of encrypted attributes",
	Source: "Iyer, Mehrotra, Mykletun, Tsudik and Wu, EDBT 2004, section 5.4 and figure 3",
	Stored: true,
	Loads:  experiment.Batched,
	Drawn:  true,
	Run:    figure3,
}}

const (
	attributes     = 16
	attributeRows  = 1000
	attributeQuick = 100

	attributeRounds      = 40
	attributeQuickRounds = 3
)

// attributeSteps are the numbers of encrypted attributes that are measured.
var attributeSteps = []int{1, 2, 4, 6, 8, 10, 12, 14, 16}

// attributesRead are those that the query reads: as many as TPC-H's query 1 reads. They are spread, so that
// the more attributes are encrypted, the more of these are read.
var attributesRead = []int{0, 2, 4, 6, 9, 12, 15}

// onlyPlain is the number of encrypted attributes at which columns are read that are none of these.
const onlyPlain = 8

// The forms of a row.
const (
	formPlain  = "plain"
	formOne    = "plain, one cell"
	formWhole  = "whole row"
	formPacked = "packed"
	formCells  = "cell per column"
)

func attribute(i int) string { return fmt.Sprintf("a%02d", i) }

// attributeNumbers is how many attributes are numbers. Names follow, and last the two long texts of
// lineitem, which weigh on the right end of the paper's figure.
const attributeNumbers = 8

// attributeLength is how long the texts are.
func attributeLength(i int) int {
	switch i {
	case attributes - 2:
		return 25
	case attributes - 1:
		return 44
	}
	return 10
}

// A readTiming is a table and how long queries of it took.
type readTiming struct {
	form      string
	encrypted int
	name      string    // of the table
	bytes     float64   // of a row that are stored
	seconds   []float64 // of queries
	plain     []float64 // of queries of plain columns only, where these are measured
	unproven  []float64 // of the same without a proof
	opened    [3]uint64 // sealed pages, by a query of each kind
}

// stored returns the form of the table.
func (t *readTiming) stored() form { return form{name: t.form, pages: t.form == formPages} }

// attributeSchema returns the schema of a table whose first columns are encrypted. Row keys are
// plain in all of them, so that nothing but the columns differs.
func attributeSchema(form string, encrypted int) store.Schema {
	s := store.Schema{
		Name:          fmt.Sprintf("%s %d", form, encrypted),
		Key:           []store.KeyPart{store.PlainPart("group", store.Int32), store.OrderedPart("line", store.Int64, store.Plaintext)},
		CellPerColumn: form == formCells || form == formPlain,
	}
	for i := range attributes {
		var typ store.Type = store.String
		if i < attributeNumbers {
			typ = store.Int64
		}
		column := store.PlainColumn
		if i < encrypted {
			column = store.RandomisedColumn
		}
		s.Columns = append(s.Columns, column(attribute(i), typ))
	}
	return s
}

// attributeRow returns the n-th row of a seed.
func attributeRow(seed uint64, n int) store.Row {
	r := rand.New(rand.NewPCG(seed, uint64(n)))
	row := store.Row{"group": int32(1), "line": int64(n)}
	for i := range attributes {
		if i < attributeNumbers {
			row[attribute(i)] = r.Int64N(1_000_000)
			continue
		}
		text := make([]byte, attributeLength(i))
		for j := range text {
			text[j] = byte('a' + r.IntN(26))
		}
		row[attribute(i)] = string(text)
	}
	return row
}

// same reports whether the form is the same whatever is sensitive.
func (t *readTiming) same() bool { return t.encrypted == 0 && !t.paged() || t.form == formWhole }

// paged reports whether rows share pages.
func (t *readTiming) paged() bool { return t.form == formPages }

// asksUnproven reports whether they are also asked for without a proof.
func (t *readTiming) asksUnproven() bool { return t.encrypted == onlyPlain && t.form != formWhole }

// asksPlain reports whether columns that are plain elsewhere are asked for alone.
func (t *readTiming) asksPlain() bool {
	return t.encrypted == 0 || t.same() || t.encrypted == onlyPlain
}

func figure3(ctx context.Context, cfg experiment.Config) (*experiment.Result, error) {
	rows, rounds := cfg.Size(attributeRows, attributeQuick), cfg.RoundsOr(attributeRounds, attributeQuickRounds)
	all, err := timeReads(ctx, cfg, rows, rounds)
	if err != nil {
		return nil, err
	}
	plain := all[0]
	r := &experiment.Result{
		Title: fmt.Sprintf("Time to read %s rows: %d of %d attributes, %s, median of %d %s",
			experiment.Commas(float64(rows)), len(attributesRead), attributes, cfg.Database.Name, rounds, show.Plural(rounds, "round")),
		X: "number of encrypted attributes", Y: "time of a query in ms", Runs: rounds,
		Table: &experiment.Table{
			Names:   2,
			Columns: []string{"", "encrypted", "read", "ms", "x plain", "only plain columns, x plain", "bytes/row", "x plain row", "no proof, x plain", "pages opened"},
			Words:   []bool{true, false, false, false, false, false, false, false, false, false},
		},
		Notes: []string{
			fmt.Sprintf("encrypted: how many of the %d attributes are, and read: how many of these are among the %d that the query reads. x plain: the time beside that of rows without encryption in the same round, with its 95 %% interval. only plain columns: the same of a query of columns that are not encrypted in the form with %d encrypted ones. no proof: the same, and the client takes these as the database gives them, so that nothing is opened. bytes/row: keys, qualifiers and values as they are stored. pages opened: by the query that reads %d attributes, of a table that nothing was read of before.",
				attributes, len(attributesRead), onlyPlain, len(attributesRead)),
			"plain: nothing is encrypted, and each attribute has a cell; or all share one. whole row: every attribute is, in one cell, whatever is sensitive. packed: the sensitive ones share a cell, the others have one each. cell per column: so do the sensitive ones. pages: up to 64 rows share two cells, one with their sensitive attributes, sealed, and one with the others; none and all of them are the paper's NSM and NSM-page. Row keys are plain. Packed rows with more encrypted attributes have fewer cells, which a database reads faster.",
		},
		Findings: append(readFindings(all), pageFindings(all, rows)...),
	}
	curves := make(map[string]int)
	for _, t := range all {
		i, known := curves[t.form]
		if !known {
			i = len(r.Curves)
			curves[t.form] = i
			r.Curves = append(r.Curves, experiment.Curve{Name: t.form})
		}
		took := t.took()
		if t.same() {
			// A line across; the interval is in the table.
			r.Curves[i].Points = []experiment.Point{{X: 0, Y: took.Mid}, {X: attributes, Y: took.Mid}}
		} else {
			r.Curves[i].Points = append(r.Curves[i].Points, took.At(float64(t.encrypted)))
		}
		r.Table.Rows = append(r.Table.Rows, t.cells(plain))
	}
	r.Below("a database of 200 MB, some 1,200,000 rows")
	return r, nil
}

// took returns the time of a query in ms.
func (t *readTiming) took() experiment.Ratio {
	var ms []float64
	for _, s := range t.seconds {
		ms = append(ms, 1e3*s)
	}
	return experiment.MedianOf(ms)
}

// cells returns a row of the table of results.
func (t *readTiming) cells(plain *readTiming) []experiment.Cell {
	beside, only, unproven, opened := experiment.Words("1"), experiment.Words(""), experiment.Words(""), experiment.Words("")
	if t != plain {
		beside = experiment.RatioOf(t.seconds, plain.seconds).Cell()
		if t.asksPlain() {
			only = experiment.RatioOf(t.plain, plain.plain).Cell()
		}
		if t.asksUnproven() {
			unproven = experiment.RatioOf(t.unproven, plain.plain).Cell()
		}
	}
	if t.paged() {
		opened = experiment.Numeral(float64(t.opened[0]), 0)
	}
	read := 0
	for _, i := range attributesRead {
		if i < t.encrypted {
			read++
		}
	}
	return []experiment.Cell{
		experiment.Words("%s", t.form), experiment.Numeral(float64(t.encrypted), 0), experiment.Numeral(float64(read), 0), experiment.Numeral(t.took().Mid, 3), beside, only,
		experiment.Numeral(t.bytes, 0), experiment.Numeral(t.bytes/plain.bytes, 2), unproven, opened,
	}
}

// fillReads makes the tables and puts the rows. Another client of the same tables knows what is stored.
func fillReads(ctx context.Context, cfg experiment.Config, w *testbed.Workspace, all []*readTiming, rows int) error {
	cfg.Bar().Start("insert", len(all)*rows)
	defer cfg.Bar().Done()
	batch := max(1, cfg.Batch)
	for _, t := range all {
		schema := attributeSchema(t.form, t.encrypted)
		t.name = w.Name(schema.Name)
		if err := t.stored().make(ctx, w, schema); err != nil {
			return err
		}
		held := &testbed.Holding{DB: cfg.Database.DB}
		st, err := store.Open(ctx, held, cfg.Database.Key, nil)
		if err != nil {
			return err
		}
		writer, err := t.stored().open(ctx, st, t.name)
		if err != nil {
			return err
		}
		empty, err := held.Stored(ctx)
		if err != nil {
			return err
		}
		for from := 0; from < rows; from += batch {
			var part []store.Row
			for n := from; n < min(rows, from+batch); n++ {
				part = append(part, attributeRow(cfg.Seed, n))
			}
			if err := writer.Put(ctx, part...); err != nil {
				return err
			}
			cfg.Bar().Add(len(part))
		}
		full, err := held.Stored(ctx)
		if err != nil {
			return err
		}
		t.bytes = float64(full-empty) / float64(rows)
	}
	return nil
}

// timeReads fills the tables and asks each the same query once a round, in turns. The first is the
// plain one.
func timeReads(ctx context.Context, cfg experiment.Config, rows, rounds int) (all []*readTiming, err error) {
	w, err := testbed.NewWorkspace(ctx, cfg)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.Drop(ctx)) }()
	all = []*readTiming{{form: formPlain}, {form: formOne}, {form: formWhole, encrypted: attributes}, {form: formPages}}
	for _, n := range attributeSteps {
		all = append(all, &readTiming{form: formPacked, encrypted: n}, &readTiming{form: formCells, encrypted: n}, &readTiming{form: formPages, encrypted: n})
	}
	if err := fillReads(ctx, cfg, w, all, rows); err != nil {
		return nil, err
	}
	cfg.Bar().Start("query", (rounds+1)*len(all))
	defer cfg.Bar().Done()
	for round := -1; round < rounds; round++ { // the first is not counted: every answer is checked
		for i := range all {
			t := all[(i+max(round, 0))%len(all)]
			if err := t.round(ctx, cfg, w, rows, round < 0); err != nil {
				return nil, fmt.Errorf("%s: %w", t.form, err)
			}
			cfg.Bar().Add(1)
		}
	}
	return all, nil
}

// round asks the queries of the table once. In the first round answers are checked, and times are not kept.
func (t *readTiming) round(ctx context.Context, cfg experiment.Config, w *testbed.Workspace, rows int, first bool) error {
	var asked, plain []string
	for _, i := range attributesRead {
		asked = append(asked, attribute(i))
	}
	for i := onlyPlain; i < attributes; i++ {
		plain = append(plain, attribute(i))
	}
	for kind, q := range []struct {
		query store.Query
		asks  bool
		to    *[]float64
	}{
		{store.Query{Columns: asked, Unauthenticated: t.paged() && t.encrypted == 0}, true, &t.seconds},
		{store.Query{Columns: plain, Unauthenticated: t.paged() && t.encrypted == 0}, t.asksPlain(), &t.plain},
		{store.Query{Columns: plain, Unauthenticated: true}, t.asksUnproven(), &t.unproven},
	} {
		if !q.asks {
			continue
		}
		table, err := t.stored().open(ctx, w.Store, t.name)
		if err != nil {
			return err
		}
		s, err := t.query(ctx, table, q.query, rows, cfg.Seed, first)
		if err != nil {
			return err
		}
		t.opened[kind] = openings(table)
		if !first {
			*q.to = append(*q.to, s)
		}
	}
	return nil
}

// query asks for all rows and returns how long it took. An answer that is not as it
// should be is exit.ErrWrongAnswer; the values are looked at where they are to be checked.
func (t *readTiming) query(ctx context.Context, table formTable, q store.Query, rows int, seed uint64, check bool) (float64, error) {
	q.Where = store.And(store.Field[int32]("group").Equal(1), store.Field[int64]("line").Between(0, int64(rows)))
	start, n := time.Now(), 0
	for row, err := range table.Query(ctx, q) {
		if err != nil {
			return 0, err
		}
		if check {
			want := attributeRow(seed, n)
			for _, c := range q.Columns {
				if row[c] != want[c] {
					return 0, fmt.Errorf("%w: a row is not as it was written", exit.ErrWrongAnswer)
				}
			}
		}
		n++
	}
	if n != rows {
		return 0, fmt.Errorf("%w: %d rows came instead of %d", exit.ErrWrongAnswer, n, rows)
	}
	return time.Since(start).Seconds(), nil
}

func readFindings(all []*readTiming) []experiment.Finding {
	at := func(form string, encrypted int) *readTiming {
		for _, t := range all {
			if t.form == form && t.encrypted == encrypted {
				return t
			}
		}
		return nil
	}
	plain, one, whole := at(formPlain, 0), at(formOne, 0), at(formWhole, attributes)
	beside := func(t *readTiming) experiment.Ratio { return experiment.RatioOf(t.seconds, plain.seconds) }
	few, most := at(formPacked, 1), at(formPacked, attributes)
	cells, oneCell := at(formCells, attributes), at(formCells, 1)
	added, addedCells := experiment.RatioOf(most.seconds, few.seconds), experiment.RatioOf(cells.seconds, oneCell.seconds)
	packedWhole := experiment.RatioOf(most.seconds, whole.seconds)
	packedOnly := experiment.RatioOf(at(formPacked, onlyPlain).plain, plain.plain)
	cellsOnly := experiment.RatioOf(at(formCells, onlyPlain).plain, plain.plain)
	wholeOnly := experiment.RatioOf(whole.plain, plain.plain)
	return []experiment.Finding{
		added.About(1.1, 1.25).Finding(
			"The paper: to encrypt further attributes costs little. Packed, rows with %d encrypted attributes take %v times as long to read as rows with one; with a cell for each, %v times.", attributes, added, addedCells),
		beside(few).About(1.1, 1.25).Finding(
			"The paper: with few encrypted attributes it is almost as fast as without encryption. Packed, one takes %v times as long as none; with a cell for each, %v times.", beside(few), beside(oneCell)),
		packedWhole.About(1.05, 1.15).Finding(
			"The paper expects: with all of them it is about as fast as encrypting the whole. Packed, it takes %v times as long as the whole row in one cell, which takes, whatever is sensitive, %v times as long as no encryption with a cell for each and %v times as long as none in one cell. Encrypted with a cell for each it takes %v times as long as no encryption.", packedWhole, beside(whole), experiment.RatioOf(whole.seconds, one.seconds), beside(cells)),
		packedOnly.About(1.05, 1.15).Finding(
			"The paper: queries that read no sensitive attribute cost nothing more. Of rows with %d encrypted attributes out of %d, packed, they take %v times as long as without encryption; with a cell for each %v times; with the whole row in one cell %v times.", onlyPlain, attributes, packedOnly, cellsOnly, wholeOnly),
		{Holds: most.bytes <= cells.bytes, Text: fmt.Sprintf(
			"The paper: it takes no more space than encrypting attribute by attribute. With %d encrypted ones a row takes %.2f times the bytes of one without encryption packed, and %.2f times with a cell for each.",
			attributes, most.bytes/plain.bytes, cells.bytes/plain.bytes)},
	}
}

// attributeBytes is how many bytes the key and the values of a row have.
func attributeBytes() int {
	n := 4 + 8 + 8*attributeNumbers
	for i := attributeNumbers; i < attributes; i++ {
		n += attributeLength(i)
	}
	return n
}

// pageFindings are those of pages, which are what the paper has. Plain pages are its rows without encryption, and pages of which all is
// sealed its pages that are encrypted as a whole.
func pageFindings(all []*readTiming, rows int) []experiment.Finding {
	at := func(encrypted int) *readTiming {
		return all[slices.IndexFunc(all, func(t *readTiming) bool { return t.paged() && t.encrypted == encrypted })]
	}
	none, one, half, most := at(0), at(1), at(onlyPlain), at(attributes)
	few, added := experiment.RatioOf(one.seconds, none.seconds), experiment.RatioOf(most.seconds, one.seconds)
	proved, unproven := experiment.RatioOf(half.plain, none.plain), experiment.RatioOf(half.unproven, none.plain)
	full := uint64((rows + paged.Rows - 1) / paged.Rows)
	more := most.bytes - float64(attributeBytes())
	return []experiment.Finding{
		experiment.Every(few.About(1.1, 1.25), added.About(1.1, 1.25)).Finding(
			"The same of pages, as the paper has them. Pages with one encrypted attribute take %v times as long to read as plain pages, and with %d %v times as long as with one.", few, attributes, added),
		unproven.About(1.05, 1.15).Finding(
			"The paper: queries that read no sensitive attribute cost nothing more. Of pages with %d encrypted attributes, they take %v times as long as of plain pages, and %v times with a proof of what they read.", onlyPlain, unproven, proved),
		{Holds: one.opened[0] == full && most.opened[0] == full, Text: fmt.Sprintf(
			"The paper: a page takes one decryption, whatever is sensitive. To read %s rows, %d pages are opened with one encrypted attribute and %d with %d: one for %.1f rows.",
			experiment.Commas(float64(rows)), one.opened[0], most.opened[0], attributes, float64(rows)/float64(max(1, most.opened[0])))},
		{Holds: half.opened[1] > 0 && half.opened[2] == 0, Text: fmt.Sprintf(
			"The paper: a query that reads no sensitive attribute decrypts nothing. It opens %d pages without a proof, and %d with one.", half.opened[2], half.opened[1])},
		{Holds: more <= 3, Text: fmt.Sprintf(
			"Asked of this module: pages of %d rows add at most 3 bytes to a row, of values of which each column has one length. A row takes %.1f bytes, with %d encrypted attributes and all that is stored counted, and its key and values have %d: %.1f more, since each page also has its keys, a number for each of %d columns and key parts, and one seal. Packed, it takes %.0f more.",
			paged.Rows, most.bytes, attributes, attributeBytes(), more, attributes+2, packedBytes(all)-float64(attributeBytes()))},
	}
}

// packedBytes returns how many bytes a row takes of which all attributes are packed.
func packedBytes(all []*readTiming) float64 {
	return all[slices.IndexFunc(all, func(t *readTiming) bool { return t.form == formPacked && t.encrypted == attributes })].bytes
}
