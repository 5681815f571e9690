package store

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/sim"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
	"github.com/rangecrypt/rangecrypt/store/internal/bykey"
	"github.com/rangecrypt/rangecrypt/store/internal/engine"
	"github.com/rangecrypt/rangecrypt/store/internal/rowcodec"
)

// Two clients that know different schemas convert a row which both have read as it was. Where the
// later of two writes is not told by a condition but by a timestamp, the two have the same, and each
// cell is left as one of them says. A tieRule is how that is decided.
type tieRule struct {
	deletesWin bool // over what the other one puts, as if they had its timestamp
	anyValue   bool // of a cell that both put may be left, not only the greater one
}

// replacing is a family that notes replacements and makes none.
type replacing struct {
	driver.Family
	noted []driver.Replacement
}

func (f *replacing) Replace(_ context.Context, replacements ...driver.Replacement) ([]int, error) {
	f.noted = append(f.noted, replacements...)
	return nil, nil
}

// conversionOf returns how a client with the view converts a row, if it does.
func conversionOf(t *testing.T, v *engine.Engine, row driver.Row) (driver.Replacement, bool) {
	t.Helper()
	noting, data := *v, &replacing{Family: v.Data}
	noting.Data = data
	done, err := noting.Convert(t.Context(), []driver.Row{row}, nil, false)
	require.NoError(t, err)
	require.Zero(t, done.Unreadable)
	require.Len(t, data.noted, done.Converted)
	if done.Converted == 0 {
		return driver.Replacement{}, false
	}
	return data.noted[0], true
}

// merges returns every row that two replacements of one can leave.
func merges(row driver.Row, a, b driver.Replacement, rule tieRule) (rows [][]driver.Cell) {
	may := make(map[string][][]byte) // by qualifier, what may be left there; nil is nothing
	for _, c := range row.Cells {
		may[string(c.Qualifier)] = [][]byte{c.Value}
	}
	for _, r := range []driver.Replacement{a, b} {
		for _, q := range r.Deletes {
			may[string(q)] = [][]byte{nil}
		}
	}
	puts := func(r driver.Replacement, q string) []byte {
		for _, c := range r.Puts {
			if string(c.Qualifier) == q {
				return c.Value
			}
		}
		return nil
	}
	for _, c := range slices.Concat(a.Puts, b.Puts) {
		q := string(c.Qualifier)
		ofA, ofB := puts(a, q), puts(b, q)
		switch {
		case ofA == nil, ofB == nil:
			may[q] = [][]byte{c.Value}
			other := a
			if ofB == nil {
				other = b
			}
			if rule.deletesWin && slices.ContainsFunc(other.Deletes, func(d []byte) bool { return string(d) == q }) {
				may[q] = [][]byte{nil}
			}
		case ofA[0] != ofB[0] && !rule.anyValue: // what follows is random, or the id of a key
			may[q] = [][]byte{slices.MaxFunc([][]byte{ofA, ofB}, bytes.Compare)}
		default:
			may[q] = [][]byte{ofA, ofB}
		}
	}
	rows = [][]driver.Cell{nil}
	for _, q := range slices.Sorted(maps.Keys(may)) {
		var longer [][]driver.Cell
		for _, cells := range rows {
			for _, value := range may[q] {
				if value != nil {
					longer = append(longer, append(slices.Clip(cells), driver.Cell{Qualifier: []byte(q), Value: value}))
				} else {
					longer = append(longer, cells)
				}
			}
		}
		rows = longer
	}
	return rows
}

// tied is two changes of a table, and what three clients know of it: one before the first, one
// between the two, one after the second.
type tied struct {
	db    driver.DB
	want  Row
	views [3]*engine.Engine
}

// forgetful returns an engine that has not heard of anything since its view.
func forgetful(t *engine.Engine) *engine.Engine {
	stale, env := *t, *t.Env
	stale.Env = &env
	now := &stale
	env.Now = func() *engine.Engine { return now }
	env.Refresh = func(ctx context.Context) (*engine.Engine, error) {
		next, err := t.Env.Refresh(ctx)
		if err == nil {
			now = next
		}
		return next, err
	}
	return &stale
}

// faults returns what is wrong with the rows that two conversions, by the clients behind the first and
// the second change, can leave, and how many such rows there are.
func (c *tied) faults(t *testing.T, rule tieRule) (faults []string, rows int) {
	t.Helper()
	ctx, data := t.Context(), c.views[0].Data
	key, err := bykey.ExactKey(ctx, c.views[0], c.want)
	require.NoError(t, err)
	row := driver.Row{Key: key}
	row.Cells, err = data.Get(ctx, key, driver.Slice{Stamps: true})
	require.NoError(t, err)
	a, both := conversionOf(t, c.views[1], row)
	b, converted := conversionOf(t, c.views[2], row)
	if !both || !converted {
		return nil, 0
	}
	wrong := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	for _, cells := range merges(row, a, b, rule) {
		rows++
		require.NoError(t, data.Apply(ctx, driver.Mutation{Row: key, DeleteRow: true}))
		require.NoError(t, data.Apply(ctx, driver.Mutation{Row: key, Puts: cells}))
		for i, v := range c.views {
			got, err := bykey.GetRow(ctx, forgetful(v), c.want, nil)
			if err != nil {
				wrong("client %d: %v", i, err)
				continue
			}
			for name, value := range c.want {
				_, dropped := c.views[2].ByName[name]
				if dropped = !dropped; got[name] != value && !(dropped && got[name] == nil) {
					wrong("client %d: %s is %v", i, name, got[name])
				}
			}
		}
		// Whoever converts the row next makes it what it should be.
		if err := c.views[2].ConvertWrites(ctx, []*rowcodec.Record{{Key: key}}, false); err != nil {
			wrong("convert: %v", err)
			continue
		}
		got, err := data.Get(ctx, key, driver.Slice{})
		require.NoError(t, err)
		if old, err := c.views[2].Outdated(driver.Row{Key: key, Cells: got}, new(rowcodec.Scratch)); old || err != nil {
			wrong("it is not converted: %v", err)
		}
		for _, cell := range got[1:] { // not by what the code under test takes for old
			i := slices.IndexFunc(c.views[2].Stored, func(c *rowcodec.Column) bool { return string(c.Id[:]) == string(cell.Qualifier) })
			if i < 0 || rowcodec.Sealed(cell.Value) == c.views[2].Stored[i].Clear() {
				wrong("a cell is not stored as its column")
			}
		}
		r, err := c.views[2].Read(ctx, key, nil)
		if err != nil || r == nil {
			wrong("converted: %v", err)
			continue
		}
		for name, value := range c.views[2].Row(r, nil) {
			if value != c.want[name] {
				wrong("converted: %s is %v", name, value)
			}
		}
		postings := 0
		if c.views[2].Postings != nil {
			for _, key := range c.views[2].PostingKeys(r) {
				cells, err := c.views[2].Postings.Get(ctx, key, driver.Slice{})
				require.NoError(t, err)
				postings += 1 - len(cells)
			}
		}
		if postings != 0 {
			wrong("converted: %d postings are missing", postings)
		}
	}
	return faults, rows
}

// checkTies does so by the rule of the databases and, until one was found to be fatal, by others under
// which some row must be at fault.
func checkTies(t *testing.T, made func() *tied, fatal map[string]bool) (rows int) {
	t.Helper()
	faults, rows := made().faults(t, tieRule{})
	require.Empty(t, faults)
	for name, rule := range map[string]tieRule{"deletes": {deletesWin: true}, "values": {anyValue: true}} {
		if !fatal[name] {
			faults, _ := made().faults(t, rule)
			fatal[name] = len(faults) > 0
		}
	}
	return rows
}

// tieCases checks tables of both layouts that go through some changes, each of which is one of those
// named: all cases, or a tenth of them, drawn at random, where time is short. Some case must be at fault
// under each of the rules in needed, which says why.
func tieCases(t *testing.T, names []string, changes int, made func(t *testing.T, layout bool, changes []string) *tied, needed map[string]string) {
	t.Helper()
	layouts := []bool{packed, cellPerColumn}
	n := len(layouts)
	for range changes {
		n *= len(names)
	}
	cases, few := rand.Perm(n), testing.Short() || !sim.Full()
	if few {
		cases = cases[:n/10] // a failure tells which it was
	}
	rows, fatal := 0, make(map[string]bool)
	for _, i := range cases {
		layout, chosen := layouts[i%len(layouts)], make([]string, changes)
		i /= len(layouts)
		for j := range chosen {
			chosen[j] = names[i%len(names)]
			i /= len(names)
		}
		t.Run(fmt.Sprintf("%v/%s", layout, strings.Join(chosen, "/")), func(t *testing.T) {
			rows += checkTies(t, func() *tied { return made(t, layout, chosen) }, fatal)
		})
	}
	t.Logf("%d rows", rows)
	require.Positive(t, rows)
	if !few {
		require.Greater(t, rows, 1000)
		for rule, why := range needed {
			require.True(t, fatal[rule], why)
		}
	}
}

func TestTiedConversionsOfOneRow(t *testing.T) {
	changes := map[string][]Change{
		"none":               nil,
		"keys":               nil,
		"sealed to plain":    {ChangeColumn(PlainColumn("value", Int16))},
		"plain to sealed":    {ChangeColumn(RandomisedColumn("zone", String))},
		"sealed to ordered":  {ChangeColumn(OrderedColumn("value", Int16, MOPE))},
		"sealed again":       {ChangeColumn(RandomisedColumn("value", Int16))},
		"no longer searched": {ChangeColumn(RandomisedColumn("kind", Int16))},
		"ordered":            {ChangeColumn(OrderedColumn("kind", Int16, MOPE))},
		"dropped":            {DropColumn("note")},
		"plain, dropped":     {DropColumn("zone")},
		"another":            {DropColumn("value"), AddColumn(OrderedColumn("more", Int16, MOPE))},
	}
	made := func(t *testing.T, layout bool, chosen []string) *tied {
		c := &tied{db: drivertest.NewMemory(), want: staleRow(1, 5)}
		st, ctx := stores(t, c.db, 1)[0], t.Context()
		tbl, err := st.Create(ctx, staleSchema(layout, false))
		require.NoError(t, err)
		require.NoError(t, tbl.Put(ctx, c.want))
		for i, name := range slices.Concat([]string{""}, chosen) {
			if name == "keys" {
				require.NoError(t, st.RotateKeys(ctx, "t"))
			} else if err := st.Alter(ctx, "t", changes[name]...); err != nil {
				t.Skip("one of the changes excludes the other:", err)
			}
			tbl, err := stores(t, c.db, 1)[0].Table(ctx, "t")
			require.NoError(t, err)
			c.views[i] = tbl.now()
		}
		return c
	}
	tieCases(t, slices.Sorted(maps.Keys(changes)), 2, made, map[string]string{"deletes": "deletes could have the timestamp of the puts"})
}

func TestTiedConversionsOfATenant(t *testing.T) {
	policies := map[string]*Policy{
		"none": nil, "keys": nil, "whole": {Whole: true}, "plain": {}, "zone": {Sensitive: []string{"zone"}}, "value": {Sensitive: []string{"value", "note"}},
	}
	made := func(t *testing.T, layout bool, chosen []string) *tied {
		c := &tied{db: drivertest.NewMemory(), want: staleRow(1, 5)}
		st, ctx := stores(t, c.db, 1)[0], t.Context()
		schema := staleSchema(layout, false)
		schema.Tenants = true
		_, err := st.Create(ctx, schema)
		require.NoError(t, err)
		require.NoError(t, st.CreateTenant(ctx, "tenant"))
		for i, name := range chosen {
			if name == "keys" {
				require.NoError(t, st.RotateTenantKey(ctx, "tenant"))
			} else if p := policies[name]; p != nil {
				require.NoError(t, setPolicy(ctx, st, "tenant", "t", *p))
			}
			tbl := openTenants(t, stores(t, c.db, 1)[0], "t", "tenant")[0]
			if i == 0 {
				require.NoError(t, tbl.Put(ctx, c.want))
			}
			c.views[i] = tbl.now()
		}
		return c
	}
	tieCases(t, slices.Sorted(maps.Keys(policies)), 3, made, map[string]string{
		"deletes": "deletes could have the timestamp of the puts",
		"values":  "a plain value could win over a sealed one",
	})
}
