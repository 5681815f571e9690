package saas

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rangecrypt/rangecrypt/cmd/internal/lab/repro/experiment"
	"github.com/rangecrypt/rangecrypt/cmd/internal/lab/repro/testbed"
	"github.com/rangecrypt/rangecrypt/internal/cassandraurl"
	"github.com/rangecrypt/rangecrypt/internal/cli/exit"
	"github.com/rangecrypt/rangecrypt/internal/cli/show"
	"github.com/rangecrypt/rangecrypt/internal/intercept"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/driver"
)

// Figures 7 to 9 of Rafique, Van Landuyt, Reniers and Joosen (IEEE BigData 2017), section IV: the
// time to insert, read, update and delete log entries of several tenants, of which some attributes
// are encrypted. Prototype A is the state of the practice: a row for each encrypted attribute, found
// by its own key. Prototype B, which the paper proposes, keeps the encrypted attributes of an entry in
// one partition, with a cell for each. Tables with tenants, which are this module's, keep the whole
// entry in one partition, and the encrypted attributes in one cell.

var saasFigures = []experiment.Figure{
	{
		Name: "saas-fig7", About: "time to insert, read, update and delete log entries, by entries",
		Source: "Rafique, Van Landuyt, Reniers and Joosen, IEEE BigData 2017, figure 7",
		Stored: true, Drawn: true,
		Run: func(ctx context.Context, cfg experiment.Config) (*experiment.Result, error) {
			return saasEntries(ctx, cfg, 1)
		},
	},
	{
		Name: "saas-fig8", About: "time of log entries, by entries (three nodes)",
		Source: "Rafique, Van Landuyt, Reniers and Joosen, IEEE BigData 2017, figure 8",
		Stored: true, Drawn: true,
		Run: func(ctx context.Context, cfg experiment.Config) (*experiment.Result, error) {
			return saasEntries(ctx, cfg, saasNodes)
		},
	},
	{
		Name: "saas-fig9", About: "time of log entries, by encrypted attributes",
		Source: "Rafique, Van Landuyt, Reniers and Joosen, IEEE BigData 2017, figure 9",
		Stored: true, Drawn: true,
		Run: saasAttributes,
	},
}

const (
	entrySteps     = 10
	entryStep      = 1000
	entryQuickStep = 20
	entryRounds    = 6 // the fewest that have an interval
	entryQuick     = 2
	entrySensitive = 3

	// Of saas-fig9: a round has entries in turns of some.
	sensitiveTurns      = 10
	sensitiveTurn       = 40
	sensitiveQuickTurns = 2
	sensitiveQuickTurn  = 10
	sensitiveRounds     = 10
)

// paperEntries is the paper's size.
var paperEntries = experiment.Commas(entrySteps*entryStep) + " log entries"

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
	plainEntries       = "plaintext"
	prototypeA         = "Prototype A"
	prototypeAParallel = "Prototype A, parallel"
	prototypeB         = "Prototype B"
	tenantTable        = "table with tenants"
)

// A logKind is a way to keep log entries of which so many attributes are sensitive.
type logKind struct {
	name string
	// make makes an empty table in the workspace, under a name of its own.
	make func(ctx context.Context, w *testbed.Workspace, name string, sensitive int) error
	// open opens a table that was made as a client of st and db.
	open func(ctx context.Context, w *testbed.Workspace, st *store.Store, db driver.DB, name string, sensitive int) (logTable, error)
}

// logKinds are drawn and listed in this order.
var logKinds = []logKind{
	{plainEntries, makePlainEntries, openPlainEntries},
	{prototypeA, makePrototype, openPrototypeA(false)},
	{prototypeAParallel, makePrototype, openPrototypeA(true)},
	{prototypeB, makePrototype, openPrototypeB},
	{tenantTable, makeTenantTable, openTenantTable},
}

// logKey returns a key of tables that are not the store's.
func logKey(w *testbed.Workspace, label string) []byte {
	return w.Key.Expand(32, "opebench/1", label)
}

// makeTenantTable makes a table as this module has them for tenants. Its columns are plain in the
// schema, and the policy of each tenant says which of them are sealed: these share a cell. An entry is
// a partition, of which the database sees keyed hashes of tenant and id.
func makeTenantTable(ctx context.Context, w *testbed.Workspace, name string, sensitive int) error {
	s := store.Schema{
		Name:    name, // w makes it its own
		Key:     []store.KeyPart{store.HashedPart("id", store.Int64)},
		Tenants: true,
	}
	for _, attribute := range entryNames {
		s.Columns = append(s.Columns, store.PlainColumn(attribute, store.String))
	}
	if _, err := w.Create(ctx, s); err != nil {
		return err
	}
	for _, tenant := range entryTenants {
		if err := w.Tenant(ctx, tenant); err != nil {
			return err
		}
		if err := w.Store.SetPolicy(ctx, w.Name(tenant), w.Name(name), store.Policy{Sensitive: entryNames[:sensitive]}); err != nil {
			return err
		}
	}
	return nil
}

func openTenantTable(ctx context.Context, w *testbed.Workspace, st *store.Store, _ driver.DB, name string, _ int) (logTable, error) {
	t, err := st.Table(ctx, w.Name(name))
	if err != nil {
		return nil, err
	}
	of := make(tenantsTable)
	for _, tenant := range entryTenants {
		if of[tenant], err = t.Tenant(ctx, w.Name(tenant)); err != nil {
			return nil, err
		}
	}
	return of, nil
}

// A tenantsTable is a table by the tenant that it is open for.
type tenantsTable map[string]*store.Table

func (of tenantsTable) put(ctx context.Context, e entry) error {
	row := store.Row{"id": e.id}
	for i, name := range entryNames {
		row[name] = e.attributes[i]
	}
	return of[e.tenant].Put(ctx, row)
}

func (of tenantsTable) get(ctx context.Context, id int64, tenant string) (entry, error) {
	e := entry{id: id, tenant: tenant}
	row, err := of[tenant].Get(ctx, store.Row{"id": id})
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

func (of tenantsTable) remove(ctx context.Context, id int64, tenant string) error {
	return of[tenant].Delete(ctx, store.Row{"id": id})
}

// plainSpec describes rows in the clear, found by id and tenant, with a cell for each attribute. It is
// no table of this module, and as little as a database can be asked for. Each row is a partition.
func plainSpec(w *testbed.Workspace, name string) driver.FamilySpec { return w.Spec(name, 8) }

func makePlainEntries(ctx context.Context, w *testbed.Workspace, name string, _ int) error {
	_, err := w.Family(ctx, plainSpec(w, name))
	return err
}

func openPlainEntries(ctx context.Context, w *testbed.Workspace, _ *store.Store, db driver.DB, name string, _ int) (logTable, error) {
	f, err := db.Family(ctx, plainSpec(w, name))
	return plainLog{f}, err
}

type plainLog struct{ rows driver.Family }

func plainRow(id int64, tenant string) []byte {
	return append(binary.BigEndian.AppendUint64(nil, uint64(id)), tenant...)
}

func (p plainLog) put(ctx context.Context, e entry) error {
	return p.rows.Apply(ctx, driver.Mutation{Row: plainRow(e.id, e.tenant), Puts: plainCells(e, 0)})
}

func (p plainLog) get(ctx context.Context, id int64, tenant string) (entry, error) {
	e := entry{id: id, tenant: tenant}
	cells, err := p.rows.Get(ctx, plainRow(id, tenant), driver.Slice{})
	if err == nil && len(cells) == 0 {
		err = errNoEntry
	}
	if err == nil {
		err = e.setPlain(cells)
	}
	return e, err
}

func (p plainLog) remove(ctx context.Context, id int64, tenant string) error {
	return p.rows.Apply(ctx, driver.Mutation{Row: plainRow(id, tenant), DeleteRow: true})
}

// plainCells returns the attributes from one on as cells in the clear.
func plainCells(e entry, from int) (cells []driver.Cell) {
	for i := from; i < entryAttributes; i++ {
		cells = append(cells, driver.Cell{Qualifier: []byte{byte(i)}, Value: []byte(e.attributes[i])})
	}
	return cells
}

// setPlain sets the attributes that cells in the clear have.
func (e *entry) setPlain(cells []driver.Cell) error {
	for _, c := range cells {
		if len(c.Qualifier) != 1 || int(c.Qualifier[0]) >= entryAttributes {
			return errors.New("a plain row has an unknown attribute")
		}
		e.attributes[c.Qualifier[0]] = string(c.Value)
	}
	return nil
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

// A logTiming is a kind of table, and how long operations took: by operation and round, the time of
// each step since the first entry.
type logTiming struct {
	kind      logKind
	sensitive int // attributes
	seconds   [len(logOperations)][][]float64
	asked     [len(logOperations)]testbed.Tally // of one entry
	bytes     float64                           // of the row keys, qualifiers and values that are put for an entry
	disk      float64                           // of an entry, or 0 where the database does not know it
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

// logName names the i-th of the tables that are measured.
func logName(i int) string { return fmt.Sprint("log", i) }

// logTimings returns what is to be measured: each kind with each number of encrypted attributes. Plain
// entries have none.
func logTimings(numbers []int) (all []*logTiming) {
	for i, n := range numbers {
		for _, k := range logKinds {
			switch {
			case k.name != plainEntries:
				all = append(all, &logTiming{kind: k, sensitive: n})
			case i == 0:
				all = append(all, &logTiming{kind: k})
			}
		}
	}
	return all
}

// logAt returns the timing of a kind with a number of encrypted attributes.
func logAt(all []*logTiming, kind string, sensitive int) *logTiming {
	i := slices.IndexFunc(all, func(t *logTiming) bool {
		return t.kind.name == kind && (t.sensitive == sensitive || kind == plainEntries)
	})
	return all[i]
}

// timeLogs makes a table of each kind for each number of encrypted attributes, and does a number of
// rounds. In each, all tables are given the same new entries, which are then read, updated and deleted
// one by one; in every step they take turns, in another random order. It returns the rounds
// that are whole also together with an error.
func timeLogs(ctx context.Context, cfg experiment.Config, numbers []int, steps, step, rounds int) (all []*logTiming, whole int, err error) {
	all = logTimings(numbers)
	w, err := testbed.NewWorkspace(ctx, cfg)
	if err != nil {
		return all, 0, err
	}
	defer func() { err = errors.Join(err, w.Drop(ctx)) }()
	var tables []logTable
	cfg.Bar().Start("make tables", len(all))
	for i, t := range all {
		var table logTable
		if err = t.kind.make(ctx, w, logName(i), t.sensitive); err == nil {
			table, err = t.kind.open(ctx, w, w.Store, w.DB, logName(i), t.sensitive)
		}
		if err == nil {
			err = t.count(ctx, cfg, w, logName(i))
		}
		if err != nil {
			cfg.Bar().Done()
			return all, 0, fmt.Errorf("%s: %w", t.kind.name, err)
		}
		tables = append(tables, table)
		cfg.Bar().Add(1)
	}
	cfg.Bar().Done()
	if err := logDisk(ctx, cfg, all); err != nil {
		return all, 0, err
	}
	cfg.Bar().Start("entries", rounds*len(all)*len(logOperations)*steps*step)
	defer cfg.Bar().Done()
	for round := range rounds {
		if err := logRound(ctx, cfg, all, tables, steps, step, round); err != nil {
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

func logRound(ctx context.Context, cfg experiment.Config, all []*logTiming, tables []logTable, steps, step, round int) error {
	first := round * steps * step
	for operation := range logOperations {
		for _, t := range all {
			t.seconds[operation] = append(t.seconds[operation], make([]float64, steps))
		}
		for s := range steps {
			entries := entriesFor(cfg.Seed, first+s*step, step, operation) // to make them is no part of what is timed
			turns := rand.New(rand.NewPCG(cfg.Seed, uint64((round*len(logOperations)+operation)*steps+s))).Perm(len(all))
			for _, at := range turns {
				start := time.Now()
				for _, e := range entries {
					if err := logOperate(ctx, tables[at], e, operation); err != nil {
						return fmt.Errorf("%s: %w", all[at].kind.name, err)
					}
				}
				seconds := all[at].seconds[operation][round]
				seconds[s] = time.Since(start).Seconds()
				if s > 0 {
					seconds[s] += seconds[s-1]
				}
				cfg.Bar().Add(step)
			}
		}
	}
	if round == 0 {
		// What was deleted is gone, in all of them.
		for i, t := range tables {
			e := entryOf(cfg.Seed, steps*step-1, false)
			_, err := t.get(ctx, e.id, e.tenant)
			if err == nil {
				err = fmt.Errorf("%w: an entry is there that was deleted", exit.ErrWrongAnswer)
			}
			if !errors.Is(err, errNoEntry) {
				return fmt.Errorf("%s: %w", all[i].kind.name, err)
			}
		}
	}
	return nil
}

// entryFor returns the n-th entry as an operation has it.
func entryFor(seed uint64, n, operation int) entry {
	return entryOf(seed, n, logOperations[operation] == "update")
}

// entriesFor returns n entries from one on.
func entriesFor(seed uint64, from, n, operation int) (all []entry) {
	for i := range n {
		all = append(all, entryFor(seed, from+i, operation))
	}
	return all
}

// logOperate does an operation on an entry. An entry that is read is compared with the one
// that was written.
func logOperate(ctx context.Context, t logTable, e entry, operation int) error {
	switch logOperations[operation] {
	case "insert", "update":
		return t.put(ctx, e)
	case "delete":
		return t.remove(ctx, e.id, e.tenant)
	}
	got, err := t.get(ctx, e.id, e.tenant)
	if errors.Is(err, errNoEntry) || err == nil && got != e {
		return fmt.Errorf("%w: an entry is not as it was written", exit.ErrWrongAnswer)
	}
	return err
}

// Entries that are counted are none of those that are measured.
const (
	countedFrom    = 1 << 30
	countedEntries = 60
	diskEntries    = 3000
	diskQuick      = 300
	diskWriters    = 32
)

// count finds out, as other clients, what each operation on one entry asks of the database, and how
// many bytes an entry is.
func (t *logTiming) count(ctx context.Context, cfg experiment.Config, w *testbed.Workspace, name string) error {
	// Slow enough for requests that are sent together to be seen under way together.
	slow := intercept.WithLatency(struct{ driver.DB }{cfg.Database.DB}, func() time.Duration { return testbed.CountLatency })
	db, table, err := t.client(ctx, cfg, w, slow, name)
	if err != nil {
		return err
	}
	for warm := range 2 { // the first client of a table may have to ask more
		for operation := range logOperations {
			before := db.Now()
			if err := logOperate(ctx, table, entryFor(cfg.Seed, countedFrom+warm, operation), operation); err != nil {
				return err
			}
			t.asked[operation] = db.Now().Since(before)
		}
	}
	if db, table, err = t.client(ctx, cfg, w, cfg.Database.DB, name); err != nil {
		return err
	}
	before := db.Now()
	for _, operation := range []int{0, 3} {
		for n := range countedEntries {
			if err := logOperate(ctx, table, entryFor(cfg.Seed, countedFrom+n, operation), operation); err != nil {
				return err
			}
		}
	}
	t.bytes = float64(db.Now().Since(before).Bytes) / countedEntries
	return nil
}

// client opens the table as a client whose requests to a database are counted.
func (t *logTiming) client(ctx context.Context, cfg experiment.Config, w *testbed.Workspace, of driver.DB, name string) (*testbed.Counter, logTable, error) {
	count := new(testbed.Counter)
	db := count.Over(of)
	st, err := store.Open(ctx, db, cfg.Database.Key, nil)
	if err != nil {
		return nil, nil, err
	}
	table, err := t.kind.open(ctx, w, st, db, name, t.sensitive)
	return count, table, err
}

// logDisk finds out how much of the disk an entry takes, where the database knows it.
func logDisk(ctx context.Context, cfg experiment.Config, all []*logTiming) error {
	if cfg.Database.Disk == nil {
		return nil
	}
	entries := cfg.Size(diskEntries, diskQuick)
	cfg.Bar().Start("fill the disk", len(all))
	defer cfg.Bar().Done()
	sizes, err := testbed.DiskOf(ctx, cfg, len(all), func(ctx context.Context, w *testbed.Workspace, db driver.DB, i int) error {
		t := all[i]
		if err := t.kind.make(ctx, w, logName(i), t.sensitive); err != nil {
			return err
		}
		table, err := t.kind.open(ctx, w, w.Store, db, logName(i), t.sensitive)
		if err != nil {
			return err
		}
		group, groupCtx := errgroup.WithContext(ctx)
		group.SetLimit(diskWriters)
		for n := range entries {
			group.Go(func() error { return table.put(groupCtx, entryOf(cfg.Seed, n, false)) })
		}
		err = group.Wait()
		cfg.Bar().Add(1)
		return err
	})
	if err != nil {
		return err
	}
	for i, t := range all {
		t.disk = float64(sizes[i]) / float64(entries)
	}
	return nil
}

// logRatio returns how many times as long a table takes as another of the same rounds.
func logRatio(a, b *logTiming, operation int) experiment.Ratio {
	return experiment.RatioOf(a.total(operation), b.total(operation))
}

// besides returns the cell that says how many times as long a table takes as the one with tenants.
func besides(t, ours *logTiming, operation int) experiment.Cell {
	if t == ours {
		return experiment.Words("1")
	}
	return logRatio(t, ours, operation).Cell()
}

// stored returns the cell of the bytes of an entry, which stand with what inserts it.
func (t *logTiming) stored(operation int) experiment.Cell {
	if operation > 0 {
		return experiment.Words("")
	}
	return experiment.Numeral(math.Round(t.bytes), 0)
}

var logNote = "Entries are worked on one by one by one client. Prototype A has a row for the plain attributes and one for each encrypted attribute, which is found by MAC(table, id, tenant, attribute); it asks for them one after the other, or all at a time; the paper does not say which its own does. Prototype B is the mapping that the paper proposes, without the columns that repeat what the key says: a row for the plain attributes, and then a partition found by MAC(table, id, tenant), with a cell for each encrypted attribute. table with tenants: one of this module, where an entry is a partition named by hashes of tenant and id, the policy of each tenant seals the attributes, and those share a cell. plaintext: rows in the clear with a cell for each attribute, and no table of this module. requests: reads and writes of a row for one entry, and trips: how many of them are one after the other. bytes: of row keys, qualifiers and values for an entry, with a row key for each cell. In the table with tenants each plain attribute is a cell with such a key, and all sealed ones share one: so it takes less with more of them."

func saasEntries(ctx context.Context, cfg experiment.Config, nodes int) (*experiment.Result, error) {
	step, planned := cfg.Size(entryStep, entryQuickStep), cfg.RoundsOr(entryRounds, entryQuick)
	all, rounds, err := timeLogs(ctx, cfg, []int{entrySensitive}, entrySteps, step, planned)
	if rounds == 0 {
		return nil, err
	}
	last := step * entrySteps
	r := &experiment.Result{
		Title: fmt.Sprintf("Time for up to %s log entries with %d encrypted attributes: %s, median of %d %s",
			experiment.Commas(float64(last)), entrySensitive, cfg.Database.Name, rounds, show.Plural(rounds, "round")),
		X: "number of log entries", Y: "time in s (log scale)", LogY: true, Runs: rounds,
		Table: &experiment.Table{
			Names:   2,
			Columns: []string{"", "operation", experiment.Commas(float64(last)) + " s", "x tenants", "requests", "trips", "bytes"},
			Words:   []bool{true, true, false, false, false, false, false},
		},
		Notes: []string{logNote + " x tenants: the time beside that of the table with tenants in the same round, with its 95 % interval."},
	}
	ours := logAt(all, tenantTable, entrySensitive)
	for operation, what := range logOperations {
		for _, t := range all {
			c := experiment.Curve{Name: what + ", " + t.kind.name, Kin: t.kind.name, Panel: what}
			for s := range entrySteps {
				var at []float64
				for _, steps := range t.seconds[operation] {
					at = append(at, steps[s])
				}
				c.Points = append(c.Points, experiment.MedianOf(at).At(float64((s+1)*step)))
			}
			r.Curves = append(r.Curves, c)
			r.Table.Rows = append(r.Table.Rows, []experiment.Cell{
				experiment.Words("%s", t.kind.name), experiment.Words("%s", what), experiment.Numeral(c.Points[entrySteps-1].Y, 3), besides(t, ours, operation),
				experiment.Numeral(float64(t.asked[operation].Requests), 0), experiment.Numeral(float64(t.asked[operation].Trips), 0), t.stored(operation),
			})
		}
	}
	if nodes > 1 && nodesOf(cfg.Database.Name) < nodes {
		r.Notes = append(r.Notes, fewerNodes)
	}
	r.Early(planned)
	r.Findings = append(saasFindings(all, nodes), storageFinding(all, entrySensitive))
	if cfg.Quick {
		r.Below(paperEntries)
	}
	return r, err
}

// saasNodes is how many nodes the paper's cluster has.
const saasNodes = 3

var fewerNodes = fmt.Sprintf("The paper measured this on a cluster of %d nodes of Cassandra; --store names fewer.", saasNodes)

// nodesOf returns how many nodes the name of a database names. One of HBase names those of ZooKeeper,
// which say nothing of it.
func nodesOf(name string) int {
	n, err := cassandraurl.Parse(name)
	if err != nil {
		return 1
	}
	return len(n.Hosts)
}

func saasAttributes(ctx context.Context, cfg experiment.Config) (*experiment.Result, error) {
	turns, turn := cfg.Size(sensitiveTurns, sensitiveQuickTurns), cfg.Size(sensitiveTurn, sensitiveQuickTurn)
	planned, numbers := cfg.RoundsOr(sensitiveRounds, entryQuick), sensitiveSteps
	if cfg.Quick {
		numbers = []int{1, 3, mostSensitive}
	}
	all, rounds, err := timeLogs(ctx, cfg, numbers, turns, turn, planned)
	if rounds == 0 {
		return nil, err
	}
	few, most := numbers[0], numbers[len(numbers)-1]
	entries := float64(turns * turn)
	nodes, part := nodesOf(cfg.Database.Name), "a, b"
	if nodes > 1 {
		part = "c, d"
	}
	r := &experiment.Result{
		Title: fmt.Sprintf("Time for a log entry, by encrypted attributes (figure 9 %s): %s, median of %d %s of %s entries",
			part, cfg.Database.Name, rounds, show.Plural(rounds, "round"), experiment.Commas(entries)),
		X: "number of encrypted attributes", Y: "time of an entry in ms", Runs: rounds,
		Table: &experiment.Table{
			Names:   3,
			Columns: []string{"", "operation", "sealed", "ms", fmt.Sprintf("x %d sealed", few), "requests", "trips", "bytes"},
			Words:   []bool{true, true, false, false, false, false, false, false},
		},
		Notes: []string{logNote + fmt.Sprintf(" sealed: how many attributes are encrypted, and x %d sealed: the time beside that of the same kind with %d of them in the same round, with its 95 %% interval.", few, few)},
	}
	for operation, what := range logOperations {
		for _, k := range logKinds {
			c := experiment.Curve{Name: what + ", " + k.name, Kin: k.name, Panel: what}
			for _, t := range all {
				if t.kind.name != k.name {
					continue
				}
				var ms []float64
				for _, s := range t.total(operation) {
					ms = append(ms, 1e3*s/entries)
				}
				took := experiment.MedianOf(ms)
				growth := experiment.Words("")
				if k.name == plainEntries {
					// A line across; the interval is in the table.
					c.Points = []experiment.Point{{X: float64(few), Y: took.Mid}, {X: float64(most), Y: took.Mid}}
				} else {
					c.Points = append(c.Points, took.At(float64(t.sensitive)))
					growth = experiment.Words("1")
					if t.sensitive != few {
						growth = logRatio(t, logAt(all, k.name, few), operation).Cell()
					}
				}
				r.Table.Rows = append(r.Table.Rows, []experiment.Cell{
					experiment.Words("%s", k.name), experiment.Words("%s", what), experiment.Numeral(float64(t.sensitive), 0), experiment.Numeral(took.Mid, 3), growth,
					experiment.Numeral(float64(t.asked[operation].Requests), 0), experiment.Numeral(float64(t.asked[operation].Trips), 0), t.stored(operation),
				})
			}
			r.Curves = append(r.Curves, c)
		}
	}
	switch {
	case nodes == 1:
		r.Notes = append(r.Notes, fmt.Sprintf("Figure 9 a, b is of one node. For 9 c, d, of a cluster of %d, name its nodes: --store cassandra://A,B,C/KEYSPACE?replication=3.", saasNodes))
	case nodes < saasNodes:
		r.Notes = append(r.Notes, fewerNodes)
	}
	r.Early(planned)
	r.Findings = append(attributeFindings(all, numbers, int(entries), nodes), storageFinding(all, few), storageFinding(all, most))
	r.Below(paperEntries)
	return r, err
}
