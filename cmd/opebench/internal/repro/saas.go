package repro

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/rangecrypt/rangecrypt/cmd/opebench/internal/bench"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
)

// Figures 7 to 9 of Rafique, Van Landuyt, Reniers and Joosen (IEEE BigData 2017), section IV: the
// time to insert, read, update and delete log entries of several tenants, of which some attributes
// are encrypted. Prototype A is the state of the practice: a row for each encrypted attribute, found
// by its own key. The paper's prototype B keeps the encrypted attributes of an entity in one
// partition, as tables here do.

var saasFigures = []Figure{
	{
		Name:   "saas-fig7",
		About:  "time to insert, read, update and delete, by entries (one node)",
		Source: "Rafique, Van Landuyt, Reniers and Joosen, IEEE BigData 2017, figure 7",
		Stored: true,
		Drawn:  true,
		Run:    func(ctx context.Context, cfg Config) (*Result, error) { return saasEntries(ctx, cfg, 1) },
	},
	{
		Name:   "saas-fig8",
		About:  "the same on three nodes, which --store must name",
		Source: "Rafique, Van Landuyt, Reniers and Joosen, IEEE BigData 2017, figure 8",
		Stored: true,
		Drawn:  true,
		Run:    func(ctx context.Context, cfg Config) (*Result, error) { return saasEntries(ctx, cfg, 3) },
	},
	{
		Name:   "saas-fig9",
		About:  "the same by encrypted attributes",
		Source: "Rafique, Van Landuyt, Reniers and Joosen, IEEE BigData 2017, figure 9",
		Stored: true,
		Drawn:  true,
		Run:    saasAttributes,
	},
}

const (
	entrySteps     = 10
	entryStep      = 1000
	entryQuickStep = 20
	entryRounds    = 6 // the fewest that have an interval
	entryQuick     = 2
	entrySensitive = 3

	// Of saas-fig9, the paper's 10,000 entries.
	sensitiveEntries = 1000
	sensitiveRounds  = 10
)

// sensitiveSteps are the numbers of encrypted attributes of saas-fig9.
var sensitiveSteps = []int{1, 2, 3, 5, 7, 10}

// An entry is a log entry of a tenant. Its first attributes are the sensitive ones.
type entry struct {
	id         int64
	tenant     string
	attributes [entryAttributes]string
}

// entryNames are the attributes of an entry: the paper's three first.
var entryNames = [entryAttributes]string{
	"device_id", "device_name", "device_type", "user", "source", "session", "object", "rule", "message", "comment", "time", "severity",
}

const (
	entryAttributes = 12
	mostSensitive   = 10 // the others are plain in any case
)

var entryTenants = []string{"bank", "market", "hospital"}

// entryOf returns the n-th entry of a seed, as it is written at first or after an update.
func entryOf(seed uint64, n int, updated bool) entry {
	e := entry{id: int64(n), tenant: entryTenants[n%len(entryTenants)]}
	stream := 2 * uint64(n)
	if updated {
		stream++
	}
	r := rand.New(rand.NewPCG(seed, stream))
	for i := range e.attributes {
		text := make([]byte, 6+r.IntN(20))
		for j := range text {
			text[j] = byte('a' + r.IntN(26))
		}
		e.attributes[i] = string(text)
	}
	return e
}

// A logTable keeps log entries. Its methods work on one entry.
type logTable interface {
	put(ctx context.Context, e entry) error                          // also in place of the entry that is there
	get(ctx context.Context, id int64, tenant string) (entry, error) // errNoEntry where there is none
	remove(ctx context.Context, id int64, tenant string) error
}

var errNoEntry = errors.New("no such entry")

// The ways to keep log entries.
const (
	prototypeA         = "Prototype A"
	prototypeAParallel = "Prototype A, in parallel"
	oneRow             = "one partition"
)

// A logKind is a way to keep log entries of which so many attributes are sensitive.
type logKind struct {
	name string
	// make makes an empty table in the workspace, under a name of its own.
	make func(ctx context.Context, w *workspace, name string, sensitive int) error
	// open opens a table that was made as a client of st and db.
	open func(ctx context.Context, w *workspace, st *store.Store, db driver.DB, name string, sensitive int) (logTable, error)
}

var logKinds = []logKind{
	{prototypeA, makePrototypeA, openPrototypeA(false)},
	{prototypeAParallel, makePrototypeA, openPrototypeA(true)},
	{oneRow, makeOneRow, openOneRow},
}

// logKey returns a key of tables that are not the store's.
func logKey(w *workspace, label string) []byte {
	return w.key.Expand(32, "opebench/1", label)
}

// makeOneRow makes a table as this module has them: one partition for each entry, of which the
// database sees keyed hashes, with the sensitive attributes in one cell.
func makeOneRow(ctx context.Context, w *workspace, name string, sensitive int) error {
	s := store.Schema{
		Name: name, // w makes it its own
		Key:  []store.KeyPart{store.HashedPart("id", store.Int64), store.HashedPart("tenant", store.String)},
	}
	for i, attribute := range entryNames {
		column := store.PlainColumn
		if i < sensitive {
			column = store.RandomisedColumn
		}
		s.Columns = append(s.Columns, column(attribute, store.String))
	}
	_, err := w.create(ctx, s)
	return err
}

func openOneRow(ctx context.Context, w *workspace, st *store.Store, _ driver.DB, name string, _ int) (logTable, error) {
	t, err := st.Table(ctx, w.name(name))
	return oneRowTable{t}, err
}

type oneRowTable struct{ t *store.Table }

func (o oneRowTable) put(ctx context.Context, e entry) error {
	row := store.Row{"id": e.id, "tenant": e.tenant}
	for i, name := range entryNames {
		row[name] = e.attributes[i]
	}
	return o.t.Put(ctx, row)
}

func (o oneRowTable) get(ctx context.Context, id int64, tenant string) (entry, error) {
	e := entry{id: id, tenant: tenant}
	row, err := o.t.Get(ctx, store.Row{"id": id, "tenant": tenant})
	if err != nil {
		return e, err
	}
	if row == nil {
		return e, errNoEntry
	}
	for i, name := range entryNames {
		e.attributes[i], _ = row[name].(string)
	}
	return e, nil
}

func (o oneRowTable) remove(ctx context.Context, id int64, tenant string) error {
	return o.t.Delete(ctx, store.Row{"id": id, "tenant": tenant})
}

// logMAC returns the keyed hash that names a row: of an entry or one of its attributes.
func logMAC(key []byte, table string, id int64, tenant, attribute string) []byte {
	mac := hmac.New(sha256.New, key)
	var b []byte
	for _, part := range []string{table, string(binary.BigEndian.AppendUint64(nil, uint64(id))), tenant, attribute} {
		b = append(binary.BigEndian.AppendUint32(b, uint32(len(part))), part...)
	}
	mac.Write(b)
	return mac.Sum(nil)[:logMACSize]
}

const logMACSize = 16

// A timing of log entries: by operation and round, the time of each step since the first entry.
type logTiming struct {
	name    string
	seconds [len(logOperations)][][]float64
	asked   [len(logOperations)]tally // of one entry
}

// The operations, in the order in which a round has them.
var logOperations = [4]string{"insert", "read", "update", "delete"}

// total returns the time of an operation in each round.
func (t *logTiming) total(operation int) []float64 {
	var all []float64
	for _, steps := range t.seconds[operation] {
		all = append(all, steps[len(steps)-1])
	}
	return all
}

// timeLogs does a number of rounds. In each, every kind fills a new table with the same entries,
// reads, updates and deletes them one by one; they take turns step by step. It returns the rounds
// that are whole also together with an error.
func timeLogs(ctx context.Context, cfg Config, sensitive, steps, step, rounds int) (all []*logTiming, whole int, err error) {
	for _, k := range logKinds {
		all = append(all, &logTiming{name: k.name})
	}
	progress(cfg).Start(fmt.Sprintf("%d encrypted", sensitive), rounds*len(all)*len(logOperations)*steps*step)
	defer progress(cfg).Done()
	for round := range rounds {
		if err := logRound(ctx, cfg, all, sensitive, steps, step, round); err != nil {
			for _, t := range all {
				for operation, seconds := range t.seconds {
					t.seconds[operation] = seconds[:min(len(seconds), round)]
				}
			}
			return all, round, err
		}
	}
	return all, rounds, nil
}

func logRound(ctx context.Context, cfg Config, all []*logTiming, sensitive, steps, step, round int) (err error) {
	w, err := newWorkspace(ctx, cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.drop(ctx)) }()
	var tables []logTable
	for i, k := range logKinds {
		name := fmt.Sprint("log", i)
		if err := k.make(ctx, w, name, sensitive); err != nil {
			return fmt.Errorf("%s: %w", k.name, err)
		}
		t, err := k.open(ctx, w, w.store, w.db, name, sensitive)
		if err != nil {
			return fmt.Errorf("%s: %w", k.name, err)
		}
		tables = append(tables, t)
	}
	if round == 0 {
		for i, k := range logKinds {
			if all[i].asked, err = countLog(ctx, cfg, w, k, fmt.Sprint("log", i), sensitive); err != nil {
				return fmt.Errorf("%s: %w", k.name, err)
			}
		}
	}
	for operation := range logOperations {
		for _, t := range all {
			t.seconds[operation] = append(t.seconds[operation], make([]float64, steps))
		}
		for s := range steps {
			for j := range all {
				at := (j + s + round) % len(all)
				start := time.Now()
				for n := s * step; n < (s+1)*step; n++ {
					if err := logOperate(ctx, tables[at], cfg.Seed, n, operation); err != nil {
						return fmt.Errorf("%s: %w", all[at].name, err)
					}
				}
				seconds := all[at].seconds[operation][round]
				seconds[s] = time.Since(start).Seconds()
				if s > 0 {
					seconds[s] += seconds[s-1]
				}
				progress(cfg).Add(step)
			}
		}
	}
	if round == 0 {
		// What was deleted is gone, in all of them.
		for i, t := range tables {
			e := entryOf(cfg.Seed, steps*step-1, false)
			_, err := t.get(ctx, e.id, e.tenant)
			if err == nil {
				err = fmt.Errorf("%w: an entry is there that was deleted", bench.ErrWrongAnswer)
			}
			if !errors.Is(err, errNoEntry) {
				return fmt.Errorf("%s: %w", all[i].name, err)
			}
		}
	}
	return nil
}

// logOperate does an operation on the n-th entry. An entry that is read is compared with the one
// that was written.
func logOperate(ctx context.Context, t logTable, seed uint64, n, operation int) error {
	e := entryOf(seed, n, logOperations[operation] == "update")
	switch logOperations[operation] {
	case "insert", "update":
		return t.put(ctx, e)
	case "delete":
		return t.remove(ctx, e.id, e.tenant)
	}
	got, err := t.get(ctx, e.id, e.tenant)
	if errors.Is(err, errNoEntry) || err == nil && got != e {
		return fmt.Errorf("%w: an entry is not as it was written", bench.ErrWrongAnswer)
	}
	return err
}

// countLog returns what each operation on one entry asks of the database, by another client.
func countLog(ctx context.Context, cfg Config, w *workspace, k logKind, name string, sensitive int) (asked [len(logOperations)]tally, err error) {
	// Slow enough for requests that are sent together to be seen under way together.
	db := &counter{DB: drivertest.WithLatency(struct{ driver.DB }{cfg.Database.DB}, func() time.Duration { return countLatency })}
	st, err := store.OpenKMS(ctx, db, cfg.Database.Key, nil)
	if err != nil {
		return asked, err
	}
	t, err := k.open(ctx, w, st, db, name, sensitive)
	if err != nil {
		return asked, err
	}
	for warm := range 2 { // the first client of a table may have to ask more
		for operation := range logOperations {
			before := db.now()
			if err := logOperate(ctx, t, cfg.Seed, 1<<30+warm, operation); err != nil {
				return asked, err
			}
			asked[operation] = db.now().since(before)
		}
	}
	return asked, nil
}

// logRatio returns how many times as long a kind takes as another.
func logRatio(all []*logTiming, a, b string, operation int) ratio {
	at := func(name string) []float64 {
		for _, t := range all {
			if t.name == name {
				return t.total(operation)
			}
		}
		return nil
	}
	return ratioOf(at(a), at(b))
}

var logNote = "Entries are worked on one by one by one client. Prototype A has a row for the plain attributes and one for each encrypted attribute, which is found by MAC(table, id, tenant, attribute); it asks for them one after the other, as the paper's does, or all at a time. one partition: a table of this module, keyed by hashes of id and tenant, with the encrypted attributes in one cell. requests: reads and writes of a row for one entry, and trips: how many of them are one after the other. x one partition: the time of all entries in the same round, with its 95 % interval."

func saasEntries(ctx context.Context, cfg Config, nodes int) (*Result, error) {
	step, rounds := entryStep, cmp.Or(cfg.Rounds, entryRounds)
	if cfg.Quick {
		step, rounds = entryQuickStep, cmp.Or(cfg.Rounds, entryQuick)
	}
	planned := rounds
	all, rounds, err := timeLogs(ctx, cfg, entrySensitive, entrySteps, step, rounds)
	if rounds == 0 {
		return nil, err
	}
	last := step * entrySteps
	r := &Result{
		Title: fmt.Sprintf("Time for up to %s log entries with %d encrypted attributes: %s, median of %d %s",
			commas(float64(last)), entrySensitive, cfg.Database.Name, rounds, plural(rounds, "round")),
		X: "number of log entries", Y: "time in s (log scale)", LogY: true, Runs: rounds,
		Table: &Table{
			Names:   2,
			Columns: []string{"", "operation", commas(float64(step)) + " s", commas(float64(last/2)) + " s", commas(float64(last)) + " s", "x one partition", "requests", "trips"},
			Words:   []bool{true, true, false, false, false, false, false, false},
		},
		Notes: []string{logNote},
	}
	for operation, what := range logOperations {
		for _, t := range all {
			c := Curve{Name: what + ", " + t.name, Kin: t.name}
			for s := range entrySteps {
				var at []float64
				for _, steps := range t.seconds[operation] {
					at = append(at, steps[s])
				}
				c.Points = append(c.Points, medianOf(at).at(float64((s+1)*step)))
			}
			r.Curves = append(r.Curves, c)
			row := []Cell{words("%s", t.name), words("%s", what)}
			for _, s := range []int{0, entrySteps/2 - 1, entrySteps - 1} {
				row = append(row, numeral(c.Points[s].Y, 3))
			}
			beside := words("1")
			if t.name != oneRow {
				beside = logRatio(all, t.name, oneRow, operation).cell()
			}
			r.Table.Rows = append(r.Table.Rows, append(row, beside,
				numeral(float64(t.asked[operation].requests), 0), numeral(float64(t.asked[operation].trips), 0)))
		}
	}
	if hosts := strings.Count(cfg.Database.Name, ",") + 1; nodes > 1 && hosts < nodes {
		r.Notes = append(r.Notes, fmt.Sprintf("The paper measured this on a cluster of %d nodes; --store names fewer.", nodes))
	}
	r.early(planned)
	r.Findings = saasFindings(all, nodes)
	return r, err
}

func saasFindings(all []*logTiming, nodes int) []Finding {
	beside := func(operation int) ratio { return logRatio(all, prototypeA, oneRow, operation) }
	parallel := func(operation int) ratio { return logRatio(all, prototypeAParallel, oneRow, operation) }
	var found []Finding
	if nodes == 1 {
		found = append(found, both(beside(0).about(1.1, 1.25), beside(0).above(0.8)).finding(
			"The paper: both take almost the same time to insert. Here Prototype A takes %v times as long as one partition, and %v times where it writes all rows at a time.", beside(0), parallel(0)))
	} else {
		found = append(found, beside(0).below(1).finding(
			"The paper: on three nodes Prototype A is a little faster to insert, since the other has to find the node that keeps all attributes. Here it takes %v times as long as one partition, and %v times where it writes all rows at a time.", beside(0), parallel(0)))
	}
	found = append(found, every(beside(1).above(1), beside(2).above(1), beside(3).above(1)).finding(
		"The paper: to read, update and delete, Prototype A takes longer, since it has to find %d rows. Here %v, %v and %v times as long as one partition.",
		entrySensitive+1, beside(1), beside(2), beside(3)))
	found = append(found, every(parallel(1).above(1), parallel(2).above(1), parallel(3).above(1)).finding(
		"The same where Prototype A asks for all rows at a time, which the paper's does not: %v, %v and %v times as long.", parallel(1), parallel(2), parallel(3)))
	a := all[0]
	growth := make([]ratio, len(logOperations))
	for operation := range logOperations {
		var first, last []float64
		for _, steps := range a.seconds[operation] {
			first = append(first, steps[0])
			last = append(last, steps[len(steps)-1]-steps[len(steps)-2])
		}
		growth[operation] = ratioOf(last, first)
	}
	return append(found, both(growth[1].above(1.2), growth[2].above(1.2)).finding(
		"The paper: the time of Prototype A increases drastically with the number of entries. What an entry takes, the last tenth beside the first: read %v, update %v, delete %v. All rows are found by their keys; nothing here depends on how many there are.",
		growth[1], growth[2], growth[3]))
}

func saasAttributes(ctx context.Context, cfg Config) (*Result, error) {
	entries, rounds, steps := sensitiveEntries, cmp.Or(cfg.Rounds, sensitiveRounds), sensitiveSteps
	if cfg.Quick {
		entries, rounds, steps = entryQuickStep, cmp.Or(cfg.Rounds, entryQuick), []int{1, 3, mostSensitive}
	}
	r := &Result{
		Title: fmt.Sprintf("Time for a log entry, by encrypted attributes: %s, median of %d %s of %s entries",
			cfg.Database.Name, rounds, plural(rounds, "round"), commas(float64(entries))),
		X: "number of encrypted attributes", Y: "time of an entry in ms", Runs: rounds,
		Table: &Table{
			Names:   3,
			Columns: []string{"", "operation", "encrypted", "ms", "x one partition", "requests", "trips"},
			Words:   []bool{true, true, false, false, false, false, false},
		},
		Notes: []string{logNote},
	}
	for _, what := range logOperations {
		for _, k := range logKinds {
			r.Curves = append(r.Curves, Curve{Name: what + ", " + k.name, Kin: k.name})
		}
	}
	var by [][]*logTiming
	for _, sensitive := range steps {
		all, _, err := timeLogs(ctx, cfg, sensitive, 1, entries, rounds)
		if err != nil {
			return nil, err
		}
		by = append(by, all)
		for operation, what := range logOperations {
			for i, t := range all {
				var ms []float64
				for _, s := range t.total(operation) {
					ms = append(ms, 1e3*s/float64(entries))
				}
				took := medianOf(ms)
				c := &r.Curves[operation*len(all)+i]
				c.Points = append(c.Points, took.at(float64(sensitive)))
				beside := words("1")
				if t.name != oneRow {
					beside = logRatio(all, t.name, oneRow, operation).cell()
				}
				r.Table.Rows = append(r.Table.Rows, []Cell{
					words("%s", t.name), words("%s", what), numeral(float64(sensitive), 0), numeral(took.mid, 3), beside,
					numeral(float64(t.asked[operation].requests), 0), numeral(float64(t.asked[operation].trips), 0),
				})
			}
		}
	}
	r.Findings = attributeFindings(steps, by)
	return r, nil
}

// attributeFindings compares the fewest encrypted attributes with the most. The tables of both are
// not of one round, so that the weather has its part in it.
func attributeFindings(steps []int, by [][]*logTiming) []Finding {
	few, most := by[0], by[len(by)-1]
	growth := func(kind, operation int) ratio {
		return ratioOf(most[kind].total(operation), few[kind].total(operation))
	}
	const a, parallel, ours = 0, 1, 2
	from, to := steps[0], steps[len(steps)-1]
	return []Finding{
		both(growth(a, 0).below(1.25), growth(a, 0).above(0.8)).finding(
			"The paper: Prototype A inserts in the same time whatever the number of encrypted attributes. From %d to %d of them it takes %v times as long here, and %v times where it writes all rows at a time.", from, to, growth(a, 0), growth(parallel, 0)),
		every(growth(a, 1).above(2), growth(a, 2).above(2), growth(a, 3).above(2)).finding(
			"The paper: to read, update and delete, Prototype A takes rapidly longer. From %d to %d encrypted attributes %v, %v and %v times as long; where it asks for all rows at a time %v, %v and %v times.",
			from, to, growth(a, 1), growth(a, 2), growth(a, 3), growth(parallel, 1), growth(parallel, 2), growth(parallel, 3)),
		every(growth(ours, 1).about(1.1, 1.25), growth(ours, 2).about(1.1, 1.25), growth(ours, 3).about(1.1, 1.25)).finding(
			"The paper: with one partition the times stay the same. From %d to %d encrypted attributes insert %v, read %v, update %v and delete %v times as long.",
			from, to, growth(ours, 0), growth(ours, 1), growth(ours, 2), growth(ours, 3)),
	}
}
