package store

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
)

// A column as it is after some changes: its name, how it is drawn, and the value of the row that is older than all.
type seriesColumn struct {
	name  string
	value any
}

// alterSeries draws changes that are one alteration.
type alterSeries struct {
	r       *rand.Rand
	columns []seriesColumn
	fresh   int
}

// column draws how a column is encrypted, in a conditional table.
func (s *alterSeries) column(name string) Column {
	covering := func(c Column) Column {
		switch s.r.IntN(3) {
		case 0:
			return c
		case 1:
			return c.Covering()
		}
		var of []string
		for _, other := range s.columns {
			if s.r.IntN(2) == 0 {
				of = append(of, other.name)
			}
		}
		return c.Covering(append(of, name)...)
	}
	switch s.r.IntN(6) {
	case 0:
		return PlainColumn(name, Int64)
	case 1:
		return RandomisedColumn(name, Int64)
	case 2:
		return covering(DeterministicColumn(name, Int64))
	case 3:
		return OrderedColumn(name, Int64, WozniakIndexed)
	}
	return covering(OrderedColumn(name, Int64, []KeyScheme{MOPE, Boldyreva, Wozniak}[s.r.IntN(3)]))
}

func (s *alterSeries) name() string {
	s.fresh++
	return fmt.Sprint("c", s.fresh)
}

// change draws one change.
func (s *alterSeries) change() Change {
	i := s.r.IntN(len(s.columns))
	c := &s.columns[i]
	switch s.r.IntN(8) {
	case 0:
		name := s.name()
		s.columns = append(s.columns, seriesColumn{name: name})
		return AddColumn(s.column(name))
	case 1:
		if len(s.columns) > 1 {
			name := c.name
			s.columns = slices.Delete(s.columns, i, i+1)
			return DropColumn(name)
		}
	case 2:
		was := c.name
		c.name = s.name()
		return RenameColumn(was, c.name)
	}
	return ChangeColumn(s.column(c.name))
}

// Changes of one alteration that follow one another, also of the same column, leave a table that has all its values,
// for clients that were open and for others.
func TestAlterInSeries(t *testing.T) {
	runs := 150
	if testing.Short() {
		runs = 30
	}
	for seed := range runs {
		ctx, db := t.Context(), drivertest.NewMemory()
		s := &alterSeries{r: rand.New(rand.NewPCG(uint64(seed), 1))}
		list := stores(t, db, 2)
		schema := Schema{Name: "t", Key: []KeyPart{HashedPart("id", Int64)}, Conditional: true}
		row := Row{"id": int64(0)}
		for range 3 {
			c := seriesColumn{s.name(), int64(10 + s.fresh)}
			s.columns, row[c.name] = append(s.columns, c), c.value
			schema.Columns = append(schema.Columns, s.column(c.name))
		}
		// A list names columns that there are.
		for i, c := range schema.Columns {
			if c.Describe().Covering {
				schema.Columns[i] = c.Covering(s.columns[0].name)
			}
		}
		tbl, err := list[0].Create(ctx, schema)
		require.NoError(t, err, "seed %d", seed)
		require.NoError(t, tbl.Put(ctx, row))
		for round := range 2 {
			var changes []Change
			for range 1 + s.r.IntN(5) {
				changes = append(changes, s.change())
			}
			require.NoError(t, list[s.r.IntN(2)].Alter(ctx, "t", changes...), "seed %d, round %d", seed, round)
			s.check(t, db, tbl, seed, round)
		}
		_, err = tbl.Convert(ctx, nil)
		require.NoError(t, err, "seed %d", seed)
		s.check(t, db, tbl, seed, 2)
	}
}

// check looks at the row that is older than all changes, and at one that is put now.
func (s *alterSeries) check(t *testing.T, db driver.DB, open *Table, seed, round int) {
	t.Helper()
	ctx := t.Context()
	other, err := stores(t, db, 1)[0].Table(ctx, "t")
	require.NoError(t, err, "seed %d, round %d", seed, round)
	_, err = other.Describe(ctx)
	require.NoError(t, err, "seed %d, round %d", seed, round)
	old, now := Row{"id": int64(0)}, Row{"id": int64(1)}
	for i, c := range s.columns {
		if c.value != nil {
			old[c.name] = c.value
		}
		now[c.name] = int64(20 + i)
	}
	for _, tbl := range []*Table{open, other} {
		require.NoError(t, tbl.Put(ctx, now), "seed %d, round %d", seed, round)
		for _, row := range []Row{old, now} {
			got, err := tbl.Get(ctx, Row{"id": row["id"]})
			require.NoError(t, err, "seed %d, round %d", seed, round)
			for _, c := range s.columns {
				require.Equal(t, row[c.name], got[c.name], "seed %d, round %d, column %s", seed, round, c.name)
				if row[c.name] == nil {
					continue
				}
				found := all(t, tbl, Query{Where: Field[int64](c.name).Equal(row[c.name].(int64))})
				require.Len(t, found, 1, "seed %d, round %d, column %s", seed, round, c.name)
				require.Equal(t, got, found[0], "seed %d, round %d, column %s", seed, round, c.name)
			}
		}
	}
	_, faults := verified(t, other, VerifyOptions{})
	require.Empty(t, faults, "seed %d, round %d", seed, round)
}

// A list of columns to copy may name one that a later change of the same alteration makes. One that is there in the end of
// none is refused, and nothing is changed.
func TestCopiesOfColumnsThatComeLater(t *testing.T) {
	ctx, db := t.Context(), drivertest.NewMemory()
	st := stores(t, db, 1)[0]
	a := func(names ...string) Column { return OrderedColumn("a", Int64, MOPE).Covering(names...) }
	tbl, err := st.Create(ctx, Schema{Name: "t", Conditional: true, Key: []KeyPart{HashedPart("id", Int64)}, Columns: []Column{a("b"), RandomisedColumn("b", String)}})
	require.NoError(t, err)
	require.NoError(t, tbl.Put(ctx, Row{"id": 1, "a": 2, "b": "three"}))
	for _, changes := range [][]Change{
		{ChangeColumn(a("b", "c"))},
		{AddColumn(OrderedColumn("d", Int64, MOPE).Covering("e"))},
		{ChangeColumn(a("b", "c")), AddColumn(RandomisedColumn("c", String)), DropColumn("c")},
	} {
		before, _ := catalogueCells(t, db)
		require.ErrorIs(t, st.Alter(ctx, "t", changes...), ErrSchema)
		after, _ := catalogueCells(t, db)
		require.Equal(t, before, after)
	}
	require.NoError(t, st.Alter(ctx, "t", ChangeColumn(a("b", "c", "e")), AddColumn(OrderedColumn("d", Int64, MOPE).Covering("e")),
		AddColumn(RandomisedColumn("c", String)), AddColumn(RandomisedColumn("e", String)), RenameColumn("b", "note"), RenameColumn("note", "b")))
	copied := map[string][]string{}
	for _, c := range schemaOf(t, db, "t").Columns {
		copied[c.Describe().Name] = c.Describe().Copied
	}
	require.Equal(t, map[string][]string{"a": {"b", "c", "e"}, "b": nil, "d": {"e"}, "c": nil, "e": nil}, copied)
	require.NoError(t, tbl.Put(ctx, Row{"id": 2, "a": 2, "b": "b", "c": "c", "d": 5, "e": "e"}))
	_, err = tbl.Convert(ctx, nil)
	require.NoError(t, err)
	require.Len(t, all(t, tbl, Query{Where: Field[int64]("a").Equal(2), Columns: []string{"b", "c", "e"}}), 2)
	_, faults := verified(t, tbl, VerifyOptions{})
	require.Empty(t, faults)

	// What was to cover and is gone again asks for nothing.
	require.NoError(t, st.Alter(ctx, "t", AddColumn(OrderedColumn("f", Int64, MOPE).Covering("g")), DropColumn("f")))
}
