package store_test

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/sim"
	"github.com/rangecrypt/rangecrypt/internal/testdb"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
	"github.com/rangecrypt/rangecrypt/store/inspect"
)

// A changing is a table in the middle of one or two changes of column v: rows of the first conversion, of one that is not at its
// end, and of writes since.
type changing struct {
	tbl  *store.Table
	rows map[int64]int32 // by id
}

// numbers returns column v as each of the schemes has it.
func numbers(names ...string) (columns []store.Column) {
	all := map[string]store.Column{
		"boldyreva": store.OrderedColumn("v", store.Int32, store.Boldyreva), "mope": store.OrderedColumn("v", store.Int32, store.MOPE),
		"wozniak": store.OrderedColumn("v", store.Int32, store.Wozniak), "indexed": store.OrderedColumn("v", store.Int32, store.WozniakIndexed),
		"kerschbaum": store.OrderedColumn("v", store.Int32, store.Kerschbaum), "ranked": store.OrderedColumn("v", store.Int32, store.KerschbaumRanked),
		"deterministic": store.DeterministicColumn("v", store.Int32),
	}
	for _, name := range names {
		columns = append(columns, all[name])
	}
	return columns
}

// newChanging makes a table whose column is as the columns have it, one after the other, and which is never converted to its end.
func newChanging(t *testing.T, st *store.Store, columns []store.Column) *changing {
	t.Helper()
	w := &changing{rows: make(map[int64]int32)}
	w.tbl = create(t, st, store.Schema{
		Name: "t", Key: []store.KeyPart{store.HashedPart("id", store.Int64)}, Columns: []store.Column{columns[0], store.PlainColumn("parity", store.Int8)},
	})
	const n = 120
	put := func(from, to int) {
		t.Helper()
		var rows []store.Row
		for i := from; i < to; i++ {
			v := int32(i*7919%61 - 30)
			w.rows[int64(i)] = v
			rows = append(rows, store.Row{"id": int64(i), "v": v, "parity": int8(i % 2)})
		}
		require.NoError(t, w.tbl.Put(background, rows...))
	}
	put(0, n)
	for i, c := range columns[1:] {
		if reflect.DeepEqual(c.Describe(), columns[i].Describe()) {
			require.NoError(t, st.RotateSearchKeys(background, "t", "v"))
		} else {
			require.NoError(t, st.Alter(background, "t", store.ChangeColumn(c)))
		}
		_, err := w.tbl.ConvertPart(background, inspect.Part{Index: i, Of: 3})
		require.NoError(t, err)
		put(n/4*i+10, n/4*i+20) // of rows that are there
		put(n+10*i, n+10*i+10)
	}
	return w
}

// want returns the ids of rows whose value a function wants, sorted by value.
func (w *changing) want(which func(v int32) bool, reverse bool) (values []int32) {
	for _, v := range w.rows {
		if which(v) {
			values = append(values, v)
		}
	}
	slices.Sort(values)
	if reverse {
		slices.Reverse(values)
	}
	return values
}

// check asks for rows in every way, and returns which ids the pages of a query had.
func (w *changing) check(t *testing.T, ranges bool) {
	t.Helper()
	field := store.Int32.Field("v")
	between := func(v int32) bool { return -9 <= v && v <= 17 }
	where := field.Between(-9, 17)
	if !ranges {
		list := []int32{}
		for v := int32(-9); v <= 17; v++ {
			list = append(list, v)
		}
		where = field.In(list...)
	}
	values := func(rows []store.Row) (values []int32) {
		seen := make(map[int64]bool)
		for _, row := range rows {
			id := row["id"].(int64)
			require.False(t, seen[id], "row %d twice", id)
			require.Equal(t, w.rows[id], row["v"])
			seen[id] = true
			values = append(values, row["v"].(int32))
		}
		return values
	}
	rows, err := all(w.tbl, store.Query{Where: where})
	require.NoError(t, err)
	got := values(rows)
	slices.Sort(got)
	require.Equal(t, w.want(between, false), got)
	e, err := w.tbl.Analyze(background, store.Query{Where: where, By: "v"})
	require.NoError(t, err)
	require.Equal(t, "v", e.Driver)
	require.Empty(t, e.Unconverted)
	e, err = w.tbl.Explain(background, store.Query{Where: where, By: "v"})
	require.NoError(t, err)
	require.GreaterOrEqual(t, e.Estimate.Rows, len(got))
	n, err := w.tbl.Count(background, store.And(where, store.Int8.Field("parity").Equal(1)))
	require.NoError(t, err)
	odd := 0
	for id, v := range w.rows {
		if between(v) && id%2 == 1 {
			odd++
		}
	}
	require.Equal(t, odd, n)
	for _, reverse := range []bool{false, true} {
		for _, q := range []store.Query{{Where: where, Reverse: reverse, OrderBy: "v"}, {Where: where, Reverse: reverse, By: "v"}, {Where: where, Reverse: reverse, OrderBy: "v", Limit: 9}} {
			if q.OrderBy == "" && !reverse {
				continue // rows of several forms come in no order
			}
			rows, err := all(w.tbl, q)
			require.NoError(t, err)
			want := w.want(between, reverse)
			if q.Limit > 0 {
				want = want[:q.Limit]
			}
			require.Equal(t, want, values(rows))
			require.True(t, slices.IsSortedFunc(rows, func(a, b store.Row) int {
				order := cmp.Compare(a["v"].(int32), b["v"].(int32))
				if reverse {
					return -order
				}
				return order
			}))
			var paged []store.Row
			for token := ""; ; {
				q.Limit, q.PageToken = 7, token
				var page []store.Row
				page, token, err = w.tbl.Page(background, q)
				require.NoError(t, err)
				if paged = append(paged, page...); token == "" {
					break
				}
			}
			require.Equal(t, w.want(between, reverse), values(paged))
		}
	}
	if ranges {
		least, err := w.tbl.Min(background, "v", where)
		require.NoError(t, err)
		greatest, err := w.tbl.Max(background, "v", store.Predicate{})
		require.NoError(t, err)
		every := w.want(func(int32) bool { return true }, true)
		require.Equal(t, []any{w.want(between, false)[0], every[0]}, []any{least, greatest})
	}
}

// A column whose encryption was changed drives queries before its rows are converted, while they are, and after that.
func TestChangedColumnDrives(t *testing.T) {
	for _, names := range [][]string{
		{"boldyreva", "mope"}, {"mope", "wozniak"}, {"wozniak", "boldyreva", "mope"}, {"mope", "indexed"}, {"indexed", "mope"},
		{"mope", "kerschbaum"}, {"kerschbaum", "mope"}, {"kerschbaum", "indexed", "ranked"}, {"ranked", "wozniak"}, {"indexed", "kerschbaum"},
		{"deterministic", "mope"}, {"mope", "deterministic"}, {"deterministic", "kerschbaum"},
		{"mope", "mope"}, {"kerschbaum", "kerschbaum"}, {"indexed", "indexed"}, {"deterministic", "deterministic"},
	} {
		t.Run(fmt.Sprint(names), func(t *testing.T) {
			testdb.EachOf(t, len(names) > 2, func(t *testing.T, kind testdb.Database) {
				st := open(t, kind.Open(t, nil))
				w := newChanging(t, st, numbers(names...))
				ranges := names[0] != "deterministic" && names[len(names)-1] != "deterministic"
				w.check(t, ranges)
				e, err := w.tbl.Analyze(background, store.Query{Where: store.Int32.Field("v").Equal(3)})
				require.NoError(t, err)
				require.Equal(t, []string{"v"}, e.Changing)
				_, err = w.tbl.Convert(background, nil)
				require.NoError(t, err)
				w.check(t, names[len(names)-1] != "deterministic")
				e, err = w.tbl.Analyze(background, store.Query{Where: store.Int32.Field("v").Equal(3)})
				require.NoError(t, err)
				require.Empty(t, e.Changing)
			})
		})
	}
}

// A page token holds when the column is changed after the page, and when all rows are converted.
func TestPagesGoOnAcrossChange(t *testing.T) {
	testdb.Each(t, func(t *testing.T, kind testdb.Database) {
		for _, names := range [][]string{{"mope", "wozniak"}, {"kerschbaum", "boldyreva"}, {"mope", "indexed"}} {
			for _, reverse := range []bool{false, true} {
				if !kind.Runs(reverse && names[0] == "kerschbaum") {
					continue
				}
				st := open(t, kind.Open(t, nil))
				columns := numbers(names...)
				w := newChanging(t, st, columns[:1])
				q := store.Query{Where: store.Int32.Field("v").AtLeast(-20), Limit: 9, Reverse: reverse}
				var got []int32
				seen := make(map[any]bool)
				page := func(n int) (more bool) {
					t.Helper()
					for range n {
						rows, next, err := w.tbl.Page(background, q)
						require.NoError(t, err)
						for _, row := range rows {
							require.False(t, seen[row["id"]])
							seen[row["id"]] = true
							got = append(got, row["v"].(int32))
						}
						if q.PageToken = next; next == "" {
							return false
						}
					}
					return true
				}
				require.True(t, page(2))
				require.NoError(t, st.Alter(background, "t", store.ChangeColumn(columns[1])))
				require.True(t, page(2))
				_, err := w.tbl.ConvertPart(background, inspect.Part{Index: 1, Of: 2})
				require.NoError(t, err)
				require.True(t, page(2))
				_, err = w.tbl.Convert(background, nil)
				require.NoError(t, err)
				require.False(t, page(100))
				require.Equal(t, w.want(func(v int32) bool { return v >= -20 }, reverse), got)
				require.NoError(t, st.Drop(background, "t"))
			}
		}
	})
}

// A token that is not that of the query is said to be so while the column that drives it is being changed, too: all rows, which
// are tried then, have no order to go on in.
func TestWrongTokensAcrossChange(t *testing.T) {
	st := open(t, testdb.All[0].Open(t, nil))
	columns := numbers("mope", "wozniak")
	w := newChanging(t, st, columns[:1])
	q := store.Query{Where: store.Int32.Field("v").AtLeast(-20), Limit: 9, Reverse: true}
	_, token, err := w.tbl.Page(background, q)
	require.NoError(t, err)
	require.NoError(t, st.Alter(background, "t", store.ChangeColumn(columns[1])))
	for _, wrong := range []store.Query{
		{Where: q.Where, PageToken: token[:len(token)-1]},
		{Where: store.Int32.Field("v").AtLeast(-19), PageToken: token},
	} {
		wrong.Limit, wrong.Reverse = q.Limit, true
		_, _, err := w.tbl.Page(background, wrong)
		require.ErrorIs(t, err, store.ErrToken)
		_, err = w.tbl.Explain(background, wrong)
		require.ErrorIs(t, err, store.ErrToken)
	}
	q.PageToken = token
	_, _, err = w.tbl.Page(background, q)
	require.NoError(t, err)
}

// Where rows have no postings of before, or those have no order, the column drives no query until all are converted.
func TestChangedColumnWaits(t *testing.T) {
	for _, columns := range [][]store.Column{
		append([]store.Column{store.RandomisedColumn("v", store.Int32)}, numbers("mope")...), numbers("deterministic", "mope"),
		numbers("ranked", "ranked"), // the index of ranks may have been damaged, which is why the column was renewed
	} {
		st := open(t, testdb.All[0].Open(t, nil))
		w := newChanging(t, st, columns)
		q := store.Query{Where: store.Int32.Field("v").AtLeast(5), By: "v"}
		e, err := w.tbl.Analyze(background, q)
		require.NoError(t, err)
		require.Equal(t, "all rows", e.Driver)
		require.Equal(t, []string{"v"}, e.Unconverted)
		require.Equal(t, len(w.want(func(v int32) bool { return v >= 5 }, false)), e.Rows)
		q.Reverse = true
		_, err = all(w.tbl, q)
		require.ErrorIs(t, err, driver.ErrRange)
		_, err = w.tbl.Convert(background, nil)
		require.NoError(t, err)
		w.check(t, true)
	}
}

// A column whose search key was rotated has another one, and no row is found by the old one after a conversion.
func TestRotateSearchKeys(t *testing.T) {
	testdb.Each(t, func(t *testing.T, kind testdb.Database) {
		st := open(t, kind.Open(t, nil))
		tbl := create(t, st, store.Schema{
			Name: "t", Key: []store.KeyPart{store.HashedPart("id", store.Int64)},
			Columns: []store.Column{
				store.OrderedColumn("v", store.Int32, store.MOPE), store.DeterministicColumn("w", store.Int32), store.RandomisedColumn("sealed", store.Int32),
				store.DeterministicColumn("shares", store.Int32).DatabaseWide(), store.DeterministicColumn("alike", store.Int32).SharedWith("t", "w"),
				store.OrderedColumn("clear", store.Int32, store.Plaintext), store.OrderedColumn("own", store.Int32, store.Wozniak),
			},
		})
		for name, want := range map[string]error{
			"id": store.ErrSchema, "sealed": store.ErrSchema, "clear": store.ErrSchema, "none": store.ErrColumn,
			"shares": store.ErrShared, "alike": store.ErrShared, "w": store.ErrShared,
		} {
			require.ErrorIs(t, st.RotateSearchKeys(background, "t", "v", name), want, name)
		}
		require.ErrorIs(t, st.RotateSearchKeys(background, "t"), store.ErrColumn)
		was := columnsNow(t, tbl)
		const n = 90
		var rows []store.Row
		for i := range n {
			rows = append(rows, store.Row{"id": int64(i), "v": int32(i % 10), "own": int32(i % 7)})
		}
		require.NoError(t, tbl.Put(background, rows...))
		require.NoError(t, st.RotateSearchKeys(background, "t", "v", "own", "v"))
		now := columnsNow(t, tbl)
		require.NotEqual(t, was["v"].SearchKey, now["v"].SearchKey)
		require.NotEqual(t, was["own"].SearchKey, now["own"].SearchKey)
		require.Equal(t, was["w"], now["w"])
		require.Equal(t, was["v"].SearchKey, now["v"].Former[0].SearchKey)
		require.Len(t, now["v"].Former, 1)
		found := func() {
			t.Helper()
			for _, q := range []store.Query{{Where: store.Int32.Field("v").Between(3, 5)}, {Where: store.Int32.Field("own").Equal(2)}} {
				e, err := tbl.Analyze(background, q)
				require.NoError(t, err)
				require.NotEqual(t, "all rows", e.Driver)
				count := 0
				for i := range n {
					if v, own := i%10, i%7; e.Driver == "v" && 3 <= v && v <= 5 || e.Driver == "own" && own == 2 {
						count++
					}
				}
				require.Equal(t, count, e.Rows)
				require.Equal(t, count, e.Hits)
			}
		}
		found()
		stats, err := tbl.Convert(background, nil)
		require.NoError(t, err)
		require.Equal(t, n, stats.Converted)
		found()
		report, err := tbl.Verify(background, nil)
		require.NoError(t, err)
		require.True(t, report.Sound(), "%v", report.Faults)
		require.Zero(t, report.Dangling)
	})
	st := open(t, testdb.All[0].Open(t, nil))
	create(t, st, store.Schema{
		Name: "t", Tenants: true, Key: []store.KeyPart{store.HashedPart("id", store.Int64)},
		Columns: []store.Column{store.OrderedColumn("v", store.Int32, store.MOPE)},
	})
	require.ErrorIs(t, st.RotateSearchKeys(background, "t", "v"), store.ErrTenant)
}

// columnsNow returns what is said of the columns of a table, by their names.
func columnsNow(t *testing.T, tbl *store.Table) map[string]inspect.Field {
	t.Helper()
	d, err := tbl.Describe(background)
	require.NoError(t, err)
	columns := make(map[string]inspect.Field)
	for _, f := range d.Columns {
		columns[f.Name] = f
	}
	return columns
}

// A conversion that another client makes at any moment of a query hides no row from it, and changes no order.
func TestConversionAtEveryCallOfQuery(t *testing.T) {
	type run struct {
		names     []string
		order     string
		snapshots bool
		untouched bool // no row is converted before the query
	}
	runs := []run{{[]string{"mope", "indexed"}, "", false, true}, {[]string{"mope", "ranked"}, "v", false, true}}
	for _, names := range [][]string{{"mope", "wozniak"}, {"mope", "indexed"}, {"mope", "kerschbaum"}, {"indexed", "ranked"}, {"kerschbaum", "mope", "wozniak"}, {"mope", "kerschbaum", "wozniak"}} {
		for _, order := range []string{"", "v"} {
			runs = append(runs, run{names, order, false, false})
		}
		runs = append(runs, run{names, "v", true, false})
	}
	for _, r := range runs {
		names, order := r.names, r.order
		t.Run(fmt.Sprint(r), func(t *testing.T) {
			changed := 0
			for n, more := 0, true; more; n += sim.Every(3) {
				require.Less(t, n, 1000)
				db := drivertest.NewMemory()
				st, columns := open(t, db), numbers(names...)
				if r.untouched {
					columns = columns[:1]
				}
				w := newChanging(t, st, columns)
				if r.untouched {
					require.NoError(t, st.Alter(background, "t", store.ChangeColumn(numbers(names...)[1])))
				}
				calls, asks := 0, false
				asked := drivertest.NewFaulty(db, func(drivertest.Op) drivertest.Fault {
					if asks {
						if calls++; calls == n+1 {
							asks = false
							_, err := w.tbl.Convert(background, nil)
							require.NoError(t, err)
							asks = true
						}
					}
					return drivertest.NoFault
				})
				if !r.snapshots {
					asked = noSnapshots{asked}
				}
				tbl, err := open(t, asked).Table(background, "t")
				require.NoError(t, err)
				asks = true
				rows, err := all(tbl, store.Query{Where: store.Int32.Field("v").AtLeast(-20), OrderBy: order})
				asks, more = false, calls > n
				if r.snapshots && errors.Is(err, store.ErrSchemaChanged) {
					changed++ // the index that goes with the snapshot is gone, after rows were returned
					continue
				}
				require.NoError(t, err)
				var got []int32
				for _, row := range rows {
					require.Equal(t, w.rows[row["id"].(int64)], row["v"])
					got = append(got, row["v"].(int32))
				}
				if order == "" {
					slices.Sort(got)
				}
				require.Equal(t, w.want(func(v int32) bool { return v >= -20 }, false), got, "before call %d", n+1)
			}
			indexed := slices.ContainsFunc(names[:len(names)-1], func(name string) bool { return name != "mope" })
			require.True(t, changed == 0 || indexed, "%d", changed)
		})
	}
}

// noSnapshots is a database without snapshots.
type noSnapshots struct{ driver.DB }

// Of texts that are ordered by their beginnings, many have one ciphertext. Rows of several forms are in order all the same.
func TestTextsOfSeveralForms(t *testing.T) {
	testdb.Each(t, func(t *testing.T, kind testdb.Database) {
		st := open(t, kind.Open(t, nil))
		tbl := create(t, st, store.Schema{
			Name: "t", Key: []store.KeyPart{store.HashedPart("id", store.Int64)}, Columns: []store.Column{store.OrderedColumn("v", store.String, store.MOPE)},
		})
		var want []string
		var rows []store.Row
		for i := range 150 {
			v := fmt.Sprintf("beginning %d, and the number %03d", i%2, i*71%150)
			want = append(want, v)
			rows = append(rows, store.Row{"id": int64(i), "v": v})
		}
		slices.Sort(want)
		require.NoError(t, tbl.Put(background, rows...))
		require.NoError(t, st.Alter(background, "t", store.ChangeColumn(store.OrderedColumn("v", store.String, store.Wozniak))))
		require.NoError(t, tbl.Put(background, rows[:75]...))
		for _, reverse := range []bool{false, true} {
			q := store.Query{Where: store.String.Field("v").AtLeast("beginning"), OrderBy: "v", Reverse: reverse, Limit: 11}
			var got []string
			for more := true; more; more = q.PageToken != "" {
				page, next, err := tbl.Page(background, q)
				require.NoError(t, err)
				for _, row := range page {
					got = append(got, row["v"].(string))
				}
				q.PageToken = next
			}
			require.Equal(t, want, got)
			slices.Reverse(want)
		}
	})
}
