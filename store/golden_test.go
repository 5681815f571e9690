package store_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/compare"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
	"github.com/rangecrypt/rangecrypt/store/inspect"
	"github.com/rangecrypt/rangecrypt/store/kms"
)

// goldenFiles are the golden databases with their SHA-256: a file is never changed, since it is what an
// earlier version wrote.
var goldenFiles = map[string]string{
	"table-1.json":      "dc0aff7d8959629c0af121db553affd22254024f8255d9ef35f6d7bfefe9293b",
	"tenants-1.json":    "c585702e599f36b30eed56e38d614ee422d95fadb6fd2dd1489bb86cfe8d1ff5",
	"features-2.json":   "aec4319a1861cbb578707c82d0f4995b01b1eb3b6d4deea7c4d2d57321f92085",
	"tenants-3.json":    "404b9f8f8f75224d3d581ddcf94e57e2e68dd8604df45a008257f3dd87d32e13",
	"features-1.json":   "aca09325727452fb9685b50fb8cc3cad53e76d29cf41852b450d10d7acfcaf39",
	"tenants-2.json":    "a7f702d13d34fef52331a7377472615a1ee2921a5f441146cbbda7887881e6d2",
	"covering-1.json":   "0307a5f591f28950835c302d57134d76cd9150bf9fa5db92a0160d0fdecd8eee",
	"served-1.json":     "c13b29df52d7616dab72049f057346e4c85736fe8d4e0952edcb140bda3cae95",
	"lease-1.json":      "e63ccce11b9535412d66fca0f59eedf20b9717933e67bee7672358f82fed0e9e",
	"divided-1.json":    "b7fb1c066e2d457e5d994bff088ca8f294e8d89ea45f46a0cb8f0a65b00ba6e3",
	"drawn-1.json":      "3751572d127691c815c6cde9f95683331bdfa98f6b47617747e327db6df2e988",
	"rebalanced-1.json": "476a936d665f6f76c8bf144e7eac3363b6339c824fd8c3cf6d4f81143b392239",
	"ranked-1.json":     "2317c74ea17ec4ed41582e52bfa87fb6ab1c241629073e21cd63a9a13e2e1b4e",
	"elsewhere-1.json":  "e82ba30cad6aa64fd015c9eed3f6ae4540431c6fbe49679df606433d4650c6c2",
	"parts-1.json":      "be8fd133c5cea8fa0ada5bfa5415388db94a1a96ed5b11252d7325e2f8489b25",
	"migration-1.json":  "a9ac2f5424baff3b2ebd66e0e0697418ac7cf0c849e472ab87f4741b6c6ca5df",
	"archive-1.json":    "f0c7830db8e6e1788747c7ad74d401a18a72a40d5fda655b1689dacb57735630",
	"covering-2.json":   "1e49b4f01bc5fc6579954c8b611239294d3a00346dc5437e437f51011ba5a02f",
	"covering-3.json":   "0386a2889933571fb917f2df201910de38385b825be51c306182437d402f1efe",
	"expiry-1.json":     "758d5016350e5ab6ec92ffe5c6a87d0b66c7055d3ae1c8190844913b7cea4815",
	"paged-1.json":      "3d660b7d1fcc168cf929bbc27b293f3827dc0524bec6811f1e5f00fa064e4897",
}

func TestGoldenDatabasesAreAsTheyWere(t *testing.T) {
	for name, want := range goldenFiles {
		b, err := os.ReadFile("../testdata/vectors/" + name)
		require.NoError(t, err)
		sum := sha256.Sum256(b)
		require.Equal(t, want, hex.EncodeToString(sum[:]), "%s was changed; a golden database is what an earlier version wrote: write a new one beside it", name)
	}
}

// A chronicle is a database in the making, and what its tables are to hold by the end.
type chronicle struct {
	t    *testing.T
	db   specDB
	key  ope.Key // the master key
	st   *store.Store
	dump dump
}

func newChronicle(t *testing.T, key ope.Key, comment string) *chronicle {
	t.Helper()
	return newChronicleIn(t, drivertest.NewMemory(), key, comment)
}

func newChronicleIn(t *testing.T, db driver.DB, key ope.Key, comment string) *chronicle {
	t.Helper()
	h := &chronicle{t: t, db: newSpecDB(db), key: key}
	h.st = openWith(t, h.db, ope.GenerateKey())
	require.NoError(t, h.st.RotateMaster(background, kms.NewLocal(key)))
	h.dump = dump{
		Comment: comment, Key: hex.EncodeToString(key.Secret()), Tables: map[string][]map[string]string{},
		Tenants: map[string]map[string][]map[string]string{}, Orphans: map[string]int{}, Dangling: map[string]int{}, Schemas: map[string][]string{},
	}
	return h
}

func openWith(t *testing.T, db driver.DB, key ope.Key) *store.Store {
	t.Helper()
	st, err := store.Open(background, db, kms.NewLocal(key), nil)
	require.NoError(t, err)
	require.NoError(t, st.Close(background)) // so that writes leave nothing to do
	return st
}

func (h *chronicle) create(schema store.Schema) *store.Table { return create(h.t, h.st, schema) }

func (h *chronicle) alter(table string, changes ...store.Change) {
	h.t.Helper()
	require.NoError(h.t, h.st.Alter(background, table, changes...))
}

func (h *chronicle) put(tbl *store.Table, rows ...store.Row) {
	h.t.Helper()
	require.NoError(h.t, tbl.Put(background, rows...))
}

func (h *chronicle) convert(tbl *store.Table) {
	h.t.Helper()
	_, err := tbl.Convert(background, nil)
	require.NoError(h.t, err)
}

// dying returns the table for a client that dies where die says.
func (h *chronicle) dying(table, tenant string, die func(op drivertest.Op) drivertest.Fault) *store.Table {
	h.t.Helper()
	armed := false
	tbl, err := openWith(h.t, drivertest.NewFaulty(h.db, func(op drivertest.Op) drivertest.Fault {
		if !armed {
			return drivertest.NoFault
		}
		return die(op)
	}), h.key).Table(background, table)
	require.NoError(h.t, err)
	if tenant != "" {
		tbl, err = tbl.Tenant(background, tenant)
		require.NoError(h.t, err)
	}
	armed = true
	return tbl
}

// diesAtRows is a client that dies right before or after it changes rows: postings are left behind.
func diesAtRows(fault drivertest.Fault) func(op drivertest.Op) drivertest.Fault {
	return func(op drivertest.Op) drivertest.Fault {
		if op.Family != "" && op.Family[0] == 't' && !op.Reads() && op.Method != "Family" {
			return fault
		}
		return drivertest.NoFault
	}
}

// dangle leaves postings of rows that never came, and of values that rows do not have any more.
func (h *chronicle) dangle(table, tenant string, never, was, is store.Row) {
	h.t.Helper()
	require.Error(h.t, h.dying(table, tenant, diesAtRows(drivertest.CrashBefore)).Put(background, never))
	require.NoError(h.t, h.dying(table, tenant, diesAtRows(drivertest.NoFault)).Put(background, was))
	require.Error(h.t, h.dying(table, tenant, diesAtRows(drivertest.CrashAfter)).Put(background, is))
}

// interrupt begins a conversion and ends it half way.
func (h *chronicle) interrupt(tbl *store.Table) {
	h.t.Helper()
	ctx, cancel := context.WithCancel(background)
	defer cancel()
	_, err := tbl.Convert(ctx, func(done, total int) {
		if done >= total/2 {
			cancel()
		}
	})
	require.ErrorIs(h.t, err, context.Canceled)
	status, err := tbl.Status(background)
	require.NoError(h.t, err)
	require.Positive(h.t, status.Done)
	require.Less(h.t, status.Done, status.Total)
}

// finish notes what the tables hold, and returns the database.
func (h *chronicle) finish() dump {
	h.t.Helper()
	schemas, err := h.st.Tables(background)
	require.NoError(h.t, err)
	for _, schema := range schemas {
		h.dump.Schemas[schema.Name] = described(schema)
		tbl, err := h.st.Table(background, schema.Name)
		require.NoError(h.t, err)
		report, err := tbl.Verify(background, nil)
		require.NoError(h.t, err)
		if report.Dangling > 0 {
			h.dump.Dangling[schema.Name] = report.Dangling
		}
		if report.Orphans > 0 {
			h.dump.Orphans[schema.Name] = report.Orphans
		}
	}
	h.dump.Families = dumped(h.t, h.db)
	return h.dump
}

// featureRow returns a row of some columns: what they hold is as their names begin, i for integers.
func featureRow(i int, columns ...string) store.Row {
	row := store.Row{"id": int64(i)}
	for j, name := range columns {
		row[name] = any(fmt.Sprintf("%s %d", name, i%3))
		if name[0] == 'i' {
			row[name] = int64((i*7+j*3)%11 - 5)
		}
	}
	return row
}

func featureRows(from, to int, columns ...string) (rows []store.Row) {
	for i := from; i < to; i++ {
		rows = append(rows, featureRow(i, columns...))
	}
	return rows
}

// goldenFeatures are databases of every feature of tables without tenants, goldenPolicies those of tenants: the
// first of each have a catalogue of format 2, the second of format 3.
var (
	goldenFeatures = []string{"../testdata/vectors/features-1.json", "../testdata/vectors/features-2.json"}
	goldenPolicies = []string{"../testdata/vectors/tenants-2.json", "../testdata/vectors/tenants-3.json"}
)

// featureDump writes tables in a new database: of each scheme, with schemas that changed, rows that
// were converted or not, and what clients left that died.
func featureDump(t *testing.T, key ope.Key) dump {
	t.Helper()
	h := newChronicle(t, key, "A database of every feature as store wrote it, see docs/format.md.")
	h.schemes()
	h.conditional()
	h.shared()
	for layout, conditional := range map[bool]bool{packed: false, cellPerColumn: true} {
		h.changed(layout, conditional, "converted", h.convert)
		h.changed(layout, conditional, "not converted", func(*store.Table) {})
		h.changed(layout, conditional, "half converted", h.interrupt)
	}
	h.create(store.Schema{Name: "dropped", Key: []store.KeyPart{store.HashedPart("id", store.Int64)}})
	require.NoError(t, h.st.Drop(background, "dropped"))
	return h.finish()
}

// small is a type that all schemes can order.
var small = store.Int64.Within(-1<<31, 1<<31)

// schemes makes a table of each scheme, and indexes in the middle of being rebuilt.
func (h *chronicle) schemes() {
	for name, scheme := range map[string]store.KeyScheme{
		"boldyreva": store.Boldyreva, "mope": store.MOPE, "wozniak": store.Wozniak, "plaintext": store.Plaintext, "wozniak-indexed": store.WozniakIndexed,
	} {
		tbl := h.create(store.Schema{
			Name: name,
			Key: []store.KeyPart{
				store.OrderedPart("id", store.Int64, scheme), store.OrderedPart("label", store.String, scheme), store.PlainPart("shard", store.Int64), store.TiePart("tie"),
			},
			Columns: []store.Column{store.OrderedColumn("i1", store.Int64.Within(-100, 100), scheme), store.OrderedColumn("text", store.String, scheme)},
		})
		var rows []store.Row
		for i, row := range featureRows(-2, 3, "i1", "text", "label") {
			row["shard"], row["tie"] = int64(i%2), [16]byte{byte(i)}
			rows = append(rows, row)
		}
		h.put(tbl, rows...)
		h.dump.Tables[name] = texts(rows)
	}
	for name, scheme := range map[string]store.MutableScheme{
		"kerschbaum": store.Kerschbaum, "kerschbaum-published": compare.KerschbaumPublished, "plaintext-indexed": compare.PlaintextIndexed,
		"kerschbaum sealed":           store.Kerschbaum, // as this version calls it: moved, but its client does not know
		"kerschbaum-published sealed": compare.KerschbaumPublished, "kerschbaum-published half written": compare.KerschbaumPublished,
	} {
		tbl := h.create(store.Schema{
			Name: name, Key: []store.KeyPart{store.HashedPart("id", store.Int64)},
			Columns: []store.Column{store.OrderedColumn("i1", store.Int64.Within(-100, 100), scheme), store.OrderedColumn("i2", small, scheme)},
		})
		rows := featureRows(-4, 5, "i1", "i2")
		h.put(tbl, rows[:5]...)
		if name[0] == 'k' {
			_, err := tbl.Rebalance(background, "i1", nil)
			require.NoError(h.t, err)
		}
		h.put(tbl, rows[5:]...)
		for suffix, commits := range map[string]int{"sealed": 1, "written": 2} { // of a second pass
			if !strings.HasSuffix(name, suffix) {
				continue
			}
			dying := h.dying(name, "", func(op drivertest.Op) drivertest.Fault {
				if !op.Conditional() {
					return drivertest.NoFault
				}
				if commits--; commits > 0 {
					return drivertest.NoFault
				}
				return drivertest.CrashAfter
			})
			_, err := dying.Rebalance(background, "i1", nil)
			require.ErrorIs(h.t, err, drivertest.ErrInjected)
		}
		h.dump.Tables[name] = texts(rows)
	}
}

// conditional makes tables that are written by compare-and-set, with rows that are deleted, and columns
// that are null again.
func (h *chronicle) conditional() {
	for _, layout := range []bool{packed, cellPerColumn} {
		name := "conditional, " + inspect.Layout(layout)
		tbl := h.create(store.Schema{
			Name: name, CellPerColumn: layout, Conditional: true,
			Key: []store.KeyPart{store.HashedPart("id", store.Int64), store.OrderedPart("label", store.String, store.MOPE)},
			Columns: []store.Column{
				store.RandomisedColumn("note", store.String), store.PlainColumn("zone", store.String), store.DeterministicColumn("kind", store.String),
				store.OrderedColumn("i1", store.Int64, store.MOPE), store.OrderedColumn("i2", store.Int64, store.Kerschbaum),
			},
		})
		rows := featureRows(0, 8, "label", "note", "zone", "kind", "i1", "i2")
		h.put(tbl, rows...)
		require.NoError(h.t, tbl.Delete(background, rows[0], rows[1]))
		h.put(tbl, rows[1])
		rows[2]["note"], rows[2]["zone"], rows[2]["i1"] = nil, nil, nil
		h.put(tbl, rows[2])
		was, is := maps.Clone(rows[3]), rows[3]
		was["i1"], was["kind"] = int64(99), "of before"
		h.dangle(name, "", featureRow(100, "label", "note", "zone", "kind", "i1", "i2"), was, is)
		h.dump.Tables[name] = texts(rows[1:])
	}
}

// shared makes tables with columns whose keys others share, and renames the one and its columns.
func (h *chronicle) shared() {
	columns := []store.Column{
		store.OrderedColumn("i1", store.Int64, store.Kerschbaum), store.OrderedColumn("i2", store.Int64, store.MOPE), store.DeterministicColumn("kind", store.String),
		store.OrderedColumn("i3", store.Int64, store.Kerschbaum).DatabaseWide(), store.OrderedColumn("i4", store.Int64, store.WozniakIndexed).DatabaseWide(),
		store.OrderedColumn("i5", store.Int64, store.Boldyreva).DatabaseWide(), store.DeterministicColumn("token", store.String).DatabaseWide(),
	}
	owner := h.create(store.Schema{Name: "of before", Key: []store.KeyPart{store.HashedPart("id", store.Int64)}, Columns: columns})
	sharer := h.create(store.Schema{
		Name: "sharer", Key: []store.KeyPart{store.HashedPart("id", store.Int64)},
		Columns: append([]store.Column{
			store.OrderedColumn("i1", store.Int64, store.Kerschbaum).SharedWith("of before", "i1"),
			store.OrderedColumn("i2", store.Int64, store.MOPE).SharedWith("of before", "i2"),
			store.DeterministicColumn("kind", store.String).SharedWith("of before", "kind"),
		}, columns[3:]...),
	})
	names := []string{"i1", "i2", "kind", "i3", "i4", "i5", "token"}
	rows := featureRows(0, 4, names...)
	h.put(owner, rows[:2]...)
	require.NoError(h.t, h.st.RenameTable(background, "of before", "owner"))
	h.alter("owner", store.RenameColumn("kind", "sort"), store.RenameColumn("id", "number"))
	for i := range rows {
		rows[i]["sort"], rows[i]["number"] = rows[i]["kind"], rows[i]["id"]
		delete(rows[i], "kind")
		delete(rows[i], "id")
	}
	h.put(owner, rows[2:]...)
	h.dump.Tables["owner"] = texts(rows)
	rows = featureRows(0, 4, names...)
	h.put(sharer, rows...)
	h.dump.Tables["sharer"] = texts(rows)
}

// changed makes a table whose columns are added, dropped, renamed and encrypted in another way, and
// whose keys are replaced, while rows are written.
func (h *chronicle) changed(layout bool, conditional bool, name string, convert func(*store.Table)) {
	name += ", " + inspect.Layout(layout)
	if conditional {
		name += ", conditional"
	}
	tbl := h.create(store.Schema{
		Name: name, CellPerColumn: layout, Conditional: conditional, Key: []store.KeyPart{store.HashedPart("id", store.Int64)},
		Columns: []store.Column{
			store.RandomisedColumn("i1", small), store.OrderedColumn("i2", store.Int64, store.MOPE), store.PlainColumn("zone", store.String),
			store.DeterministicColumn("kind", store.String), store.OrderedColumn("i3", store.Int64, store.Kerschbaum), store.RandomisedColumn("secret", store.String),
			store.PlainColumn("gone", store.String), store.OrderedColumn("i9", store.Int64, store.Boldyreva), store.RandomisedColumn("name", store.String),
		},
	})
	columns := []string{"i1", "i2", "zone", "kind", "i3", "secret", "name"}
	rows := featureRows(0, 10, columns...)
	for _, row := range rows[:4] { // some have what is dropped later
		row = maps.Clone(row)
		row["gone"], row["i9"] = "a value", int64(9)
		h.put(tbl, row)
	}
	require.NoError(h.t, h.st.RotateKeys(background, name))
	h.alter(name, store.DropColumn("gone"), store.DropColumn("i9"), store.RenameColumn("name", "called"))
	for _, row := range rows {
		row["called"] = row["name"]
		delete(row, "name")
	}
	h.put(tbl, rows[4:6]...)
	h.alter(name,
		store.ChangeColumn(store.OrderedColumn("i1", small, store.Boldyreva)), store.ChangeColumn(store.DeterministicColumn("i2", store.Int64)),
		store.ChangeColumn(store.RandomisedColumn("zone", store.String)), store.ChangeColumn(store.PlainColumn("kind", store.String)),
		store.ChangeColumn(store.OrderedColumn("i3", store.Int64, store.WozniakIndexed)), store.AddColumn(store.OrderedColumn("i4", store.Int64, store.MOPE)),
	)
	for i := 6; i < 8; i++ {
		rows[i]["i4"] = int64(i)
	}
	h.put(tbl, rows[6:8]...)
	if !conditional {
		was := maps.Clone(rows[7])
		was["i1"], was["i4"] = int64(1000), int64(1000)
		h.dangle(name, "", featureRow(100, "i1", "i2", "kind"), was, rows[7])
	}
	convert(tbl)
	if name[0] == 'c' { // and another change, of which nothing is converted
		h.alter(name, store.ChangeColumn(store.OrderedColumn("i1", small, compare.KerschbaumPublished)))
	}
	require.NoError(h.t, h.st.RotateKeys(background, name, "secret"))
	h.put(tbl, rows[8:]...)
	h.dump.Tables[name] = texts(rows)
}

// policyDump writes tables of tenants: policies that change with the schema, conversions of one, of
// all, and one that was interrupted, and tenants that go.
func policyDump(t *testing.T, key ope.Key) dump {
	t.Helper()
	h := newChronicle(t, key, "A database of tenants and policies as store wrote it, see docs/format.md.")
	for _, name := range []string{"alpha", "beta", "gamma", "gone"} {
		require.NoError(t, h.st.CreateTenant(background, name))
	}
	for layout, conditional := range map[bool]bool{packed: false, cellPerColumn: true} {
		h.tenants(layout, conditional)
	}
	require.NoError(t, h.st.DropTenant(background, "gone"))
	require.NoError(t, h.st.CreateTenant(background, "gone")) // another one
	return h.finish()
}

func (h *chronicle) tenants(layout bool, conditional bool) {
	name := inspect.Layout(layout)
	if conditional {
		name += ", conditional"
	}
	unbound := h.create(store.Schema{
		Name: name, CellPerColumn: layout, Conditional: conditional, Tenants: true,
		Key: []store.KeyPart{store.HashedPart("id", store.Int64), store.OrderedPart("label", store.String, store.MOPE)},
		Columns: []store.Column{
			store.RandomisedColumn("note", store.String), store.PlainColumn("zone", store.String), store.RandomisedColumn("i1", store.Int64),
			store.OrderedColumn("i2", store.Int64, store.Kerschbaum), store.DeterministicColumn("kind", store.String), store.PlainColumn("dropped", store.String),
			store.OrderedColumn("i3", store.Int64, store.WozniakIndexed).DatabaseWide(), store.OrderedColumn("i4", store.Int64, store.MOPE),
		},
	})
	bound := map[string]*store.Table{}
	rows := map[string][]store.Row{}
	each := func(do func(tenant string, tbl *store.Table)) {
		for _, tenant := range []string{"alpha", "beta", "gamma", "gone"} {
			if bound[tenant] == nil {
				var err error
				bound[tenant], err = unbound.Tenant(background, tenant)
				require.NoError(h.t, err)
			}
			do(tenant, bound[tenant])
		}
	}
	policy := func(tenant string, p store.Policy, unseal ...string) {
		require.NoError(h.t, h.st.SetPolicy(background, tenant, name, p, unseal...))
	}
	put := func(columns ...string) {
		each(func(tenant string, tbl *store.Table) {
			at := len(rows[tenant])
			fresh := featureRows(at, at+2, append([]string{"label"}, columns...)...)
			h.put(tbl, fresh...)
			rows[tenant] = append(rows[tenant], fresh...)
		})
	}
	put("note", "zone", "i1", "i2", "kind", "i3", "i4")
	policy("alpha", store.Policy{Sensitive: []string{"zone", "i1"}}, "note")
	policy("beta", store.Policy{}, "note", "i1")
	policy("gamma", store.Policy{Whole: true})
	put("note", "zone", "i1", "i2", "kind", "i3")
	h.alter(name, store.AddColumn(store.PlainColumn("later", store.String)), store.RenameColumn("note", "remark"), store.DropColumn("dropped"))
	for _, of := range rows {
		for _, row := range of {
			row["remark"] = row["note"]
			delete(row, "note")
		}
	}
	require.NoError(h.t, h.st.RotateTenantKey(background, "alpha"))
	put("remark", "zone", "i1", "i2", "kind", "i3", "later")
	h.convert(bound["alpha"])
	h.alter(name, store.ChangeColumn(store.OrderedColumn("i1", store.Int64, store.MOPE)), store.ChangeColumn(store.RandomisedColumn("kind", store.String)))
	put("remark", "zone", "i1", "i2", "kind", "i3")
	_, err := bound["beta"].Rebalance(background, "i2", nil)
	require.NoError(h.t, err)
	h.convert(bound["beta"])
	require.NoError(h.t, bound["beta"].Delete(background, rows["beta"][0]))
	rows["beta"] = rows["beta"][1:]
	h.interrupt(bound["gamma"])
	policy("beta", store.Policy{Sensitive: []string{"kind"}})
	was := maps.Clone(rows["alpha"][1])
	was["i1"], was["i2"] = int64(1000), int64(1000)
	h.dangle(name, "alpha", featureRow(100, "label", "i1"), was, rows["alpha"][1])
	h.dump.Tenants[name] = map[string][]map[string]string{"gone": {}}
	for _, tenant := range []string{"alpha", "beta", "gamma"} {
		h.dump.Tenants[name][tenant] = texts(rows[tenant])
	}
}

// Every database that an earlier version wrote, with all features, is read: every row, also by the
// postings of every searched column. It is sound, is written to, converted and altered, and is read
// again.
func TestGoldenFeatures(t *testing.T) {
	writes := map[string]func(*testing.T, ope.Key) dump{}
	for i := range goldenFeatures {
		writes[goldenFeatures[i]], writes[goldenPolicies[i]] = featureDump, policyDump
	}
	for file, write := range writes {
		t.Run(filepath.Base(file), func(t *testing.T) {
			d := golden(t, file, write)
			st := openDump(t, d)
			for g := range goldenTables(t, d, st) {
				g.check()
				g.rewrite()
				g.check()
				g.convert()
				g.check()
				g.alter()
				g.check()
				g.convert()
				g.check()
			}
		})
	}
}

// A goldenTable is a table of a golden database, in use.
type goldenTable struct {
	t    *testing.T
	st   *store.Store
	name string
	dump dump
}

func (g *goldenTable) open() *store.Table {
	g.t.Helper()
	tbl, err := g.st.Table(background, g.name)
	require.NoError(g.t, err)
	return tbl
}

// goldenTables yields the tables of a dump that was opened, whose schemas must be as they were.
func goldenTables(t *testing.T, d dump, st *store.Store) iter.Seq2[*goldenTable, store.Schema] {
	t.Helper()
	schemas, err := st.Tables(background)
	require.NoError(t, err)
	require.Len(t, schemas, len(d.Tables)+len(d.Tenants))
	return func(yield func(*goldenTable, store.Schema) bool) {
		for _, schema := range schemas {
			require.Equal(t, d.Schemas[schema.Name], described(schema), schema.Name)
			if !yield(&goldenTable{t: t, st: st, name: schema.Name, dump: d}, schema) {
				return
			}
		}
	}
}

// each calls do with the table, or with it opened for each tenant, and what it is to hold.
func (g *goldenTable) each(do func(tbl *store.Table, want []map[string]string)) {
	g.t.Helper()
	unbound := g.open()
	if !unbound.Schema().Tenants {
		do(unbound, g.dump.Tables[g.name])
		return
	}
	for tenant, want := range g.dump.Tenants[g.name] {
		tbl, err := unbound.Tenant(background, tenant)
		require.NoError(g.t, err)
		do(tbl, want)
	}
}

// check reads all rows, in the order of the table and by every column that is searched, and verifies them.
func (g *goldenTable) check() {
	g.t.Helper()
	g.each(func(tbl *store.Table, want []map[string]string) {
		rows := collect(g.t, tbl, store.Query{})
		require.Equal(g.t, sorted(want), texts(rows), g.name)
		for _, c := range tbl.Schema().Columns {
			if line := c.Describe().String(); !strings.Contains(line, "ordered") && !strings.Contains(line, "deterministic") {
				continue
			}
			for _, row := range rows {
				switch v := row[c.Describe().Name].(type) {
				case int64:
					g.finds(tbl, rows, c.Describe().Name, v, store.Field[int64](c.Describe().Name).Equal(v))
				case string:
					g.finds(tbl, rows, c.Describe().Name, v, store.Field[string](c.Describe().Name).Equal(v))
				}
			}
		}
	})
	report, err := g.open().Verify(background, nil)
	require.NoError(g.t, err)
	require.Empty(g.t, report.Faults, g.name)
	require.Equal(g.t, g.dump.Orphans[g.name], report.Orphans)
}

func (g *goldenTable) finds(tbl *store.Table, rows []store.Row, column string, value any, where store.Predicate) {
	g.t.Helper()
	var want []store.Row
	for _, row := range rows {
		if row[column] == value {
			want = append(want, row)
		}
	}
	require.Equal(g.t, texts(want), texts(collect(g.t, tbl, store.Query{Where: where})), "%s: by %s", g.name, column)
}

// rewrite puts every row again, and deletes one and puts it again.
func (g *goldenTable) rewrite() {
	g.t.Helper()
	g.each(func(tbl *store.Table, want []map[string]string) {
		rows := collect(g.t, tbl, store.Query{})
		require.NoError(g.t, tbl.Put(background, rows...))
		if len(rows) > 0 {
			require.NoError(g.t, tbl.Delete(background, rows[0]))
			require.NoError(g.t, tbl.Put(background, rows[0]))
		}
	})
}

// mend repairs and converts the table, which is sound then and has all copies.
func (g *goldenTable) mend() {
	g.t.Helper()
	_, err := g.open().Verify(background, &store.VerifyOptions{Repair: true, Grace: 1})
	require.NoError(g.t, err)
	g.convert()
	g.check()
	report, err := g.open().Verify(background, nil)
	require.NoError(g.t, err)
	require.True(g.t, report.Sound(), g.name)
	require.Zero(g.t, report.Uncopied, g.name)
}

func (g *goldenTable) convert() {
	g.t.Helper()
	_, err := g.open().Convert(background, nil)
	require.NoError(g.t, err)
	if !g.open().Schema().Tenants {
		status, err := g.open().Status(background)
		require.NoError(g.t, err)
		require.Empty(g.t, status.Pending)
		require.Equal(g.t, status.Total, status.Done)
	}
}

// alter adds a column, and encrypts one in another way.
func (g *goldenTable) alter() {
	g.t.Helper()
	changes := []store.Change{store.AddColumn(store.PlainColumn("fresh", store.String))}
	for _, c := range g.open().Schema().Columns {
		if line := c.Describe().String(); strings.HasPrefix(line, "i2: int64,") && !strings.Contains(line, "shared") && g.name != "owner" {
			changes = append(changes, store.ChangeColumn(store.OrderedColumn("i2", store.Int64, store.Boldyreva)))
		}
	}
	require.NoError(g.t, g.st.Alter(background, g.name, changes...))
}
