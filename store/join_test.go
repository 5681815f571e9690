package store

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/testdb"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
	"github.com/rangecrypt/rangecrypt/store/inspect"
	"github.com/rangecrypt/rangecrypt/store/internal/rowcodec"
	"github.com/rangecrypt/rangecrypt/store/internal/value"
	"github.com/rangecrypt/rangecrypt/store/kms"
)

// joinColumns are the kinds of columns that can be joined.
func joinColumns() map[string]Column {
	small := Int32.Within(-1000, 1000)
	columns := map[string]Column{
		"deterministic": DeterministicColumn("", small), "deterministic string": DeterministicColumn("", String),
		"mope string": OrderedColumn("", String, MOPE), "kerschbaum string": OrderedColumn("", String, Kerschbaum),
	}
	for _, s := range []ColumnScheme{Boldyreva, MOPE, Wozniak, WozniakIndexed, Kerschbaum, kerschbaumPublished, Plaintext, plaintextIndexed} {
		columns[s.columnScheme()] = OrderedColumn("", small, s)
	}
	return columns
}

func joinSchema(name string, c Column, value string) Schema {
	c.spec.Name = value
	return Schema{
		Name:    name,
		Key:     []KeyPart{HashedPart("id", Int64)},
		Columns: []Column{RandomisedColumn("note", String), c},
	}
}

// joinRows are random rows with few different values, some of them null, and some long strings of
// one prefix.
func joinRows(r *rand.Rand, n int, column string, typ value.Type) []Row {
	rows := make([]Row, n)
	for i := range rows {
		rows[i] = Row{"id": int64(i), "note": fmt.Sprint("note ", i)}
		v := r.Int32N(int32(n)) - int32(n/2)
		switch {
		case r.IntN(6) == 0:
		case typ.Width() == 0:
			rows[i][column] = fmt.Sprint([]string{"", "the same prefix "}[v&1], v/2)
		default:
			rows[i][column] = v
		}
	}
	return rows
}

// nested is the join, by definition.
func nested(left []Row, a string, right []Row, b string) (pairs []string) {
	for _, l := range left {
		for _, r := range right {
			if l[a] != nil && l[a] == r[b] {
				pairs = append(pairs, fmt.Sprint(l, r))
			}
		}
	}
	slices.Sort(pairs)
	return pairs
}

func joined(t *testing.T, left *Table, a string, right *Table, b string, opts *JoinOptions) (pairs []string) {
	t.Helper()
	for j, err := range Join(t.Context(), left, a, right, b, opts) {
		require.NoError(t, err)
		pairs = append(pairs, fmt.Sprint(j[0], j[1]))
	}
	slices.Sort(pairs)
	return pairs
}

// Two columns that share a key are joined as two nested loops over the rows do it, also after rows
// were replaced and deleted, and with what was left behind in the postings.
func TestJoin(t *testing.T) {
	testdb.Each(t, func(t *testing.T, kind testdb.Database) {
		ctx := t.Context()
		st, err := Open(ctx, kind.Open(t, nil), kms.NewLocal(testMaster), nil)
		require.NoError(t, err)
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		random := rand.New(rand.NewPCG(seed, 0))
		n := 120
		for name, column := range joinColumns() {
			for _, wide := range []bool{false, true} {
				if !kind.Runs(wide == (name == "kerschbaum") && slices.Contains([]string{"mope", "kerschbaum", "deterministic string"}, name)) {
					continue
				}
				t.Run(fmt.Sprint(name, map[bool]string{true: ", database-wide"}[wide]), func(t *testing.T) {
					a := joinSchema(fmt.Sprint("left ", name, wide), column, "a")
					b := joinSchema(fmt.Sprint("right ", name, wide), column.SharedWith(a.Name, "a"), "b")
					if wide {
						a, b = joinSchema(a.Name, column.DatabaseWide(), "a"), joinSchema(b.Name, column.DatabaseWide(), "b")
					}
					left, err := st.Create(ctx, a)
					require.NoError(t, err)
					right, err := st.Create(ctx, b)
					require.NoError(t, err)
					rows := joinRows(random, n, "a", column.spec.Type)
					others := joinRows(random, n, "b", column.spec.Type)
					require.NoError(t, left.Put(ctx, joinRows(random, n, "a", column.spec.Type)...))
					require.NoError(t, left.Put(ctx, rows...))
					require.NoError(t, right.Put(ctx, others...))
					require.NoError(t, right.Delete(ctx, others[:n/10]...))
					others = others[n/10:]
					if column.spec.Type.Exact() { // a posting that no row stands behind
						r := left.now().NewRecord()
						require.NoError(t, left.now().CheckKey(r, Row{"id": int64(0)}))
						require.NoError(t, left.now().EncodeKey(ctx, r))
						r.Values[len(left.now().Parts)+1] = int32(1)
						if column.spec.Scheme != WozniakIndexed.name {
							require.NoError(t, encoded(ctx, left.now().View, &rowcodec.Record{Key: nil, Values: r.Values, Search: r.Search}))
							for _, key := range left.now().PostingKeys(r) {
								require.NoError(t, left.now().Postings.Apply(ctx, driver.Mutation{Row: key, Puts: []driver.Cell{rowcodec.PostingCell}}))
							}
						}
					}
					want := nested(rows, "a", others, "b")
					require.Greater(t, len(want), n/4)
					require.Equal(t, want, joined(t, left, "a", right, "b", nil))
					require.Len(t, joined(t, right, "b", left, "a", nil), len(want))
					require.Equal(t, nested(rows, "a", rows, "a"), joined(t, left, "a", left, "a", nil), "with itself")
					some := joined(t, left, "a", right, "b", &JoinOptions{Limit: 7})
					require.Len(t, some, 7)
					for _, pair := range some {
						require.Contains(t, want, pair)
					}
					for j, err := range Join(ctx, left, "a", right, "b", &JoinOptions{Left: []string{"note"}, Right: []string{"id"}, Limit: 1}) {
						require.NoError(t, err)
						require.Len(t, j[0], 2)
						require.Len(t, j[1], 1)
					}
				})
			}
		}
	})
}

// A key of their own keeps values of equal columns apart; a shared key makes them equal.
func TestSharedKeys(t *testing.T) {
	ctx, db := t.Context(), drivertest.NewMemory()
	st := stores(t, db, 1)[0]
	_, err := st.Create(ctx, Schema{
		Name: "owner",
		Key:  []KeyPart{HashedPart("id", Int64)},
		Columns: []Column{
			OrderedColumn("value", Int64, Boldyreva), OrderedColumn("same", Int64, Boldyreva).SharedWith("owner", "value"),
			OrderedColumn("own", Int64, Boldyreva), OrderedColumn("wide", Int64, Boldyreva).DatabaseWide(),
		},
	})
	require.NoError(t, err)
	_, err = st.Create(ctx, Schema{
		Name: "sharer",
		Key:  []KeyPart{HashedPart("id", Int64)},
		Columns: []Column{
			OrderedColumn("value", Int64, Boldyreva).SharedWith("owner", "value"),
			OrderedColumn("again", Int64, Boldyreva).SharedWith("owner", "same"),
			OrderedColumn("own", Int64, Boldyreva), OrderedColumn("wide", Int64, Boldyreva).DatabaseWide(),
			OrderedColumn("other", Int64, MOPE).DatabaseWide(), OrderedColumn("less", Int64.Within(0, 9), Boldyreva).DatabaseWide(),
		},
	})
	require.NoError(t, err)
	encrypted := make(map[string][]string)
	for _, name := range []string{"owner", "sharer"} {
		tbl := tableOfAnother(t, db, name)
		for _, c := range tbl.now().Columns {
			b, err := c.AppendSearch(ctx, nil, int64(5))
			require.NoError(t, err)
			encrypted[string(b)] = append(encrypted[string(b)], name+"."+c.Name)
		}
	}
	var groups [][]string
	for _, group := range encrypted {
		groups = append(groups, group)
	}
	slices.SortFunc(groups, func(a, b []string) int { return cmp.Compare(a[0], b[0]) })
	require.Equal(t, [][]string{
		{"owner.own"}, {"owner.value", "owner.same", "sharer.value", "sharer.again"}, {"owner.wide", "sharer.wide"},
		{"sharer.less"}, {"sharer.other"}, {"sharer.own"},
	}, groups)

	// The schema says so, and a table can be made from it again.
	again := schemaOf(t, db, "sharer")
	of := again.Columns[1].Describe().KeyOf
	require.Equal(t, &inspect.ColumnName{Table: "owner", Column: "value"}, of, "the column whose key it was first")
	require.Equal(t, "database", again.Columns[3].Describe().Confidentiality)
	require.Equal(t, "value: int64, ordered (boldyreva), key shared with owner.value", again.Columns[0].Describe().String())
	require.Equal(t, "wide: int64, ordered (boldyreva), key shared by the database", again.Columns[3].Describe().String())
	again.Name = "copy"
	_, err = st.Create(ctx, again)
	require.NoError(t, err)

	// Names follow, and an owner stays as long as others share its key.
	require.NoError(t, st.RenameTable(ctx, "owner", "renamed"))
	require.NoError(t, st.Alter(ctx, "renamed", RenameColumn("value", "amount")))
	require.Contains(t, schemaOf(t, db, "sharer").Columns[1].Describe().String(), "key shared with renamed.amount")
	require.Contains(t, schemaOf(t, db, "renamed").Columns[1].Describe().String(), "key shared with renamed.amount")
	for _, err := range []error{
		st.Drop(ctx, "renamed"), st.Alter(ctx, "renamed", DropColumn("amount")),
		st.Alter(ctx, "renamed", ChangeColumn(RandomisedColumn("amount", Int64))),
	} {
		require.ErrorIs(t, err, ErrShared)
		require.ErrorContains(t, err, `table "`)
		require.ErrorContains(t, err, `"amount"`)
	}
	require.NoError(t, st.Drop(ctx, "copy"))
	require.NoError(t, st.Alter(ctx, "sharer", DropColumn("value"), ChangeColumn(RandomisedColumn("again", Int64))))
	require.ErrorIs(t, st.Alter(ctx, "renamed", DropColumn("amount")), ErrShared, "a former column still shares its key")
	require.NoError(t, st.Drop(ctx, "sharer"))
	require.ErrorContains(t, st.Alter(ctx, "renamed", DropColumn("amount")), `"same"`)
	require.NoError(t, st.Alter(ctx, "renamed", DropColumn("same"), DropColumn("amount")))
	require.NoError(t, st.Drop(ctx, "renamed"))
}

func TestJoinRefused(t *testing.T) {
	ctx, db := t.Context(), drivertest.NewMemory()
	list := stores(t, db, 2)
	st := list[0]
	tbl, err := st.Create(ctx, Schema{
		Name: "t",
		Key:  []KeyPart{HashedPart("id", Int64)},
		Columns: []Column{
			DeterministicColumn("a", Int64), DeterministicColumn("b", Int64), DeterministicColumn("wide", Int64).DatabaseWide(),
			OrderedColumn("ordered", Int64, MOPE), RandomisedColumn("note", Int64), DeterministicColumn("shared", Int64).SharedWith("t", "a"),
		},
	})
	require.NoError(t, err)
	second, err := list[1].Table(ctx, "t")
	require.NoError(t, err)
	require.NoError(t, st.Alter(ctx, "t", AddColumn(DeterministicColumn("changed", Int64)), ChangeColumn(DeterministicColumn("b", Int64).DatabaseWide())))
	for _, c := range []struct {
		left, right string
		other       *Table
		text        string
	}{
		{"a", "changed", tbl, "search keys of their own"},
		{"a", "wide", tbl, "search keys of their own"},
		{"a", "ordered", tbl, "types, encryptions or schemes differ"},
		{"a", "note", tbl, `"note" of table "t" cannot be joined: it is randomised`},
		{"id", "a", tbl, `"id" of table "t" cannot be joined: it is a part of the row key`},
		{"a", "none", tbl, `no column "none"`},
		{"wide", "b", tbl, "not all rows were converted"},
		{"a", "a", second, "two Stores"},
	} {
		n := 0
		for _, err := range Join(ctx, tbl, c.left, c.other, c.right, nil) {
			require.ErrorIs(t, err, ErrColumn)
			require.ErrorContains(t, err, c.text)
			n++
		}
		require.Equal(t, 1, n)
	}
	for _, err := range Join(ctx, tbl, "a", tbl, "shared", &JoinOptions{Limit: -1}) {
		require.ErrorIs(t, err, driver.ErrRange)
	}
	for _, err := range Join(ctx, tbl, "a", tbl, "shared", &JoinOptions{Left: []string{"none"}}) {
		require.ErrorIs(t, err, ErrColumn)
	}
	require.Empty(t, joined(t, tbl, "a", tbl, "shared", nil))
	for _, err := range Join(ctx, tbl, "a", nil, "shared", nil) {
		require.ErrorContains(t, err, "nil")
	}
}

// A join that reads postings bit by bit is told when its column was changed behind those that it
// has read: rows that were converted meanwhile have no postings there any more.
func TestJoinWhileColumnsChange(t *testing.T) {
	ctx, db := t.Context(), noSnapshots{DB: drivertest.NewMemory()}
	two := stores(t, db, 2)
	var tables []*Table
	for _, name := range []string{"l", "r"} {
		tbl, err := two[0].Create(ctx, Schema{
			Name: name, Key: []KeyPart{HashedPart("id", Int64)},
			Columns: []Column{DeterministicColumn("a", Int64).DatabaseWide()},
		})
		require.NoError(t, err)
		tables = append(tables, tbl)
		var rows []Row
		for i := range int64(2000) {
			rows = append(rows, Row{"id": i, "a": i})
		}
		require.NoError(t, tbl.Put(ctx, rows...))
	}
	for _, changed := range []string{"l", "r"} {
		n := 0
		var last error
		for _, err := range Join(ctx, tables[0], "a", tables[1], "a", nil) {
			if last = err; err != nil {
				break
			}
			if n++; n == 1 {
				require.NoError(t, two[1].Alter(ctx, changed, ChangeColumn(RandomisedColumn("a", Int64))))
				tbl, err := two[1].Table(ctx, changed)
				require.NoError(t, err)
				_, err = tbl.Convert(ctx, nil)
				require.NoError(t, err)
			}
		}
		require.True(t, errors.Is(last, ErrSchemaChanged), "%d pairs, %v", n, last)
		require.Less(t, n, 2000)
		require.NoError(t, two[0].Alter(ctx, changed, ChangeColumn(DeterministicColumn("a", Int64).DatabaseWide())))
		tbl, err := two[0].Table(ctx, changed)
		require.NoError(t, err)
		_, err = tbl.Convert(ctx, nil)
		require.NoError(t, err)
	}
}
