package repro

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/rangecrypt/rangecrypt/internal/cli/exit"
	"github.com/rangecrypt/rangecrypt/store"
)

// Figure 3 of Iyer, Mehrotra, Mykletun, Tsudik and Wu (EDBT 2004), section 5.4: the time of a query
// of the 16 attributes of TPC-H's lineitem, 7 of which it reads, against the number of encrypted
// attributes. The paper's pages without encryption (NSM), encrypted as a whole (NSM-page) and split
// into a plain and an encrypted part (PPC) are here rows of which nothing is encrypted, all is, or
// the sensitive columns are, which then share a cell or have one each.

var ppcQueries = []Figure{{
	Name:   "ppc-fig3",
	About:  "read time by the number of encrypted attributes",
	Source: "Iyer, Mehrotra, Mykletun, Tsudik and Wu, EDBT 2004, section 5.4 and figure 3",
	Stored: true,
	Drawn:  true,
	Run:    ppcFig3,
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

// attributesRead are those that the query reads, spread as those of TPC-H's query 1 are.
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
	table     *store.Table
	bytes     float64 // put for a row
	seconds   []float64
	plain     []float64 // of queries of plain columns only, where these are measured
}

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
func (t *readTiming) same() bool { return t.encrypted == 0 || t.form == formWhole }

// asksPlain reports whether columns that are plain elsewhere are asked for alone.
func (t *readTiming) asksPlain() bool { return t.same() || t.encrypted == onlyPlain }

func ppcFig3(ctx context.Context, cfg Config) (*Result, error) {
	rows, rounds := cfg.size(attributeRows, attributeQuick), cfg.rounds(attributeRounds, attributeQuickRounds)
	all, err := timeReads(ctx, cfg, rows, rounds)
	if err != nil {
		return nil, err
	}
	plain := all[0]
	r := &Result{
		Title: fmt.Sprintf("Time to read %s rows: %d of %d attributes, %s, median of %d %s",
			commas(float64(rows)), len(attributesRead), attributes, cfg.Database.Name, rounds, plural(rounds, "round")),
		X: "number of encrypted attributes", Y: "time of a query in ms", Runs: rounds,
		Table: &Table{
			Names:   2,
			Columns: []string{"", "encrypted", "read", "ms", "x plain", "only plain columns, x plain", "bytes/row", "x plain row"},
			Words:   []bool{true, false, false, false, false, false, false, false},
		},
		Notes: []string{
			fmt.Sprintf("encrypted: how many of the %d attributes are, and read: how many of these are among the %d that the query reads. x plain: the time beside that of rows without encryption in the same round, with its 95 %% interval. only plain columns: the same of a query of columns that are not encrypted in the form with %d encrypted ones. bytes/row: keys, qualifiers and values as they are put.",
				attributes, len(attributesRead), onlyPlain),
			"plain: nothing is encrypted, and each attribute has a cell; or all share one. whole row: every attribute is, in one cell, whatever is sensitive. packed: the sensitive ones share a cell, the others have one each. cell per column: so do the sensitive ones. Row keys are plain. Packed rows with more encrypted attributes have fewer cells, which a database reads faster.",
		},
		Findings: readFindings(all),
	}
	curves := make(map[string]int)
	for _, t := range all {
		i, known := curves[t.form]
		if !known {
			i = len(r.Curves)
			curves[t.form] = i
			r.Curves = append(r.Curves, Curve{Name: t.form})
		}
		var ms []float64
		for _, s := range t.seconds {
			ms = append(ms, 1e3*s)
		}
		took := medianOf(ms)
		if t.same() {
			// A line across; the interval is in the table.
			r.Curves[i].Points = []Point{{X: 0, Y: took.mid}, {X: attributes, Y: took.mid}}
		} else {
			r.Curves[i].Points = append(r.Curves[i].Points, took.at(float64(t.encrypted)))
		}
		beside, only := words("1"), words("")
		if t != plain {
			beside = ratioOf(t.seconds, plain.seconds).cell()
			if t.asksPlain() {
				only = ratioOf(t.plain, plain.plain).cell()
			}
		}
		read := 0
		for _, i := range attributesRead {
			if i < t.encrypted {
				read++
			}
		}
		r.Table.Rows = append(r.Table.Rows, []Cell{
			words("%s", t.form), numeral(float64(t.encrypted), 0), numeral(float64(read), 0), numeral(took.mid, 3), beside, only,
			numeral(t.bytes, 0), numeral(t.bytes/plain.bytes, 2),
		})
	}
	return r, nil
}

// fillReads makes the tables and puts the rows. Another client of the same tables counts what is put.
func fillReads(ctx context.Context, cfg Config, w *workspace, all []*readTiming, rows int) error {
	count := new(counter)
	counted, err := store.Open(ctx, count.over(cfg.Database.DB), cfg.Database.Key, nil)
	if err != nil {
		return err
	}
	cfg.bar().Start("insert", len(all)*rows)
	defer cfg.bar().Done()
	batch := max(1, cfg.Batch)
	for _, t := range all {
		if t.table, err = w.create(ctx, attributeSchema(t.form, t.encrypted)); err != nil {
			return err
		}
		writer, err := counted.Table(ctx, t.table.Schema().Name)
		if err != nil {
			return err
		}
		before := count.now()
		for from := 0; from < rows; from += batch {
			var part []store.Row
			for n := from; n < min(rows, from+batch); n++ {
				part = append(part, attributeRow(cfg.Seed, n))
			}
			if err := writer.Put(ctx, part...); err != nil {
				return err
			}
			cfg.bar().Add(len(part))
		}
		t.bytes = float64(count.now().since(before).bytes) / float64(rows)
	}
	return nil
}

// timeReads fills the tables and asks each the same query once a round, in turns. The first is the
// plain one.
func timeReads(ctx context.Context, cfg Config, rows, rounds int) (all []*readTiming, err error) {
	w, err := newWorkspace(ctx, cfg)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.drop(ctx)) }()
	all = []*readTiming{{form: formPlain}, {form: formOne}, {form: formWhole, encrypted: attributes}}
	for _, n := range attributeSteps {
		all = append(all, &readTiming{form: formPacked, encrypted: n}, &readTiming{form: formCells, encrypted: n})
	}
	if err := fillReads(ctx, cfg, w, all, rows); err != nil {
		return nil, err
	}

	var asked, plain []string
	for _, i := range attributesRead {
		asked = append(asked, attribute(i))
	}
	for i := onlyPlain; i < attributes; i++ {
		plain = append(plain, attribute(i))
	}
	cfg.bar().Start("query", (rounds+1)*len(all))
	defer cfg.bar().Done()
	for round := -1; round < rounds; round++ { // the first is not counted: every answer is checked
		for i := range all {
			t := all[(i+max(round, 0))%len(all)]
			s, err := t.query(ctx, asked, rows, cfg.Seed, round < 0)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", t.form, err)
			}
			var only float64
			if t.asksPlain() {
				if only, err = t.query(ctx, plain, rows, cfg.Seed, round < 0); err != nil {
					return nil, fmt.Errorf("%s: %w", t.form, err)
				}
			}
			if round >= 0 {
				t.seconds, t.plain = append(t.seconds, s), append(t.plain, only)
			}
			cfg.bar().Add(1)
		}
	}
	return all, nil
}

// query reads the columns of all rows and returns how long it took. An answer that is not as it
// should be is exit.ErrWrongAnswer; the values are looked at where they are to be checked.
func (t *readTiming) query(ctx context.Context, columns []string, rows int, seed uint64, check bool) (float64, error) {
	where := store.And(store.Field[int32]("group").Equal(1), store.Field[int64]("line").Between(0, int64(rows)))
	start, n := time.Now(), 0
	for row, err := range t.table.Query(ctx, store.Query{Where: where, Columns: columns}) {
		if err != nil {
			return 0, err
		}
		if check {
			want := attributeRow(seed, n)
			for _, c := range columns {
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

func readFindings(all []*readTiming) []Finding {
	at := func(form string, encrypted int) *readTiming {
		for _, t := range all {
			if t.form == form && t.encrypted == encrypted {
				return t
			}
		}
		return nil
	}
	plain, one, whole := at(formPlain, 0), at(formOne, 0), at(formWhole, attributes)
	beside := func(t *readTiming) ratio { return ratioOf(t.seconds, plain.seconds) }
	few, most := at(formPacked, 1), at(formPacked, attributes)
	cells, oneCell := at(formCells, attributes), at(formCells, 1)
	added, addedCells := ratioOf(most.seconds, few.seconds), ratioOf(cells.seconds, oneCell.seconds)
	packedWhole := ratioOf(most.seconds, whole.seconds)
	packedOnly := ratioOf(at(formPacked, onlyPlain).plain, plain.plain)
	cellsOnly := ratioOf(at(formCells, onlyPlain).plain, plain.plain)
	wholeOnly := ratioOf(whole.plain, plain.plain)
	return []Finding{
		added.about(1.1, 1.25).finding(
			"The paper: to encrypt further attributes costs little. Packed, rows with %d encrypted attributes take %v times as long to read as rows with one; with a cell for each, %v times.", attributes, added, addedCells),
		beside(few).about(1.1, 1.25).finding(
			"The paper: with few encrypted attributes it is almost as fast as without encryption. Packed, one takes %v times as long as none; with a cell for each, %v times.", beside(few), beside(oneCell)),
		packedWhole.about(1.05, 1.15).finding(
			"The paper: with all of them it is as fast as encrypting the whole. Packed, it takes %v times as long as the whole row in one cell, which takes, whatever is sensitive, %v times as long as no encryption with a cell for each and %v times as long as none in one cell. Encrypted with a cell for each it takes %v times as long as no encryption.", packedWhole, beside(whole), ratioOf(whole.seconds, one.seconds), beside(cells)),
		packedOnly.about(1.05, 1.15).finding(
			"The paper: queries that read no sensitive attribute cost nothing more. Of rows with %d encrypted attributes out of %d, packed, they take %v times as long as without encryption; with a cell for each %v times; with the whole row in one cell %v times.", onlyPlain, attributes, packedOnly, cellsOnly, wholeOnly),
		{Holds: most.bytes <= cells.bytes, Text: fmt.Sprintf(
			"The paper: it takes no more space than encrypting attribute by attribute. With %d encrypted ones a row takes %.2f times the bytes of one without encryption packed, and %.2f times with a cell for each.",
			attributes, most.bytes/plain.bytes, cells.bytes/plain.bytes)},
	}
}
