package drivertest

import (
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/store/driver"
)

var orderChecks = []check{
	{"rows are in unsigned bytewise order", onEdges, checkRowOrder},
	{"cells are in unsigned bytewise order", onBoth, checkCellOrder},
	{"values are any bytes", onOrdered, checkValues},
	{"a row exists while it has a cell", onOrdered, checkExistence},
	{"the limits are accepted and what exceeds them refused", onWide, checkLimits},
}

func checkRowOrder(tb testing.TB, _ *suite, f driver.Family, _ string) {
	rows := scan(tb, f, driver.Range{})
	require.Equal(tb, edges[1:], keys(rows))
	for _, r := range rows {
		require.Equal(tb, []string{"q=of " + string(r.Key)}, show(r.Cells))
		is(tb, f, string(r.Key), "q=of "+string(r.Key))
	}
	require.Equal(tb, reversed(edges[1:]), keys(scan(tb, f, driver.Range{Reverse: true})))
}

func checkCellOrder(tb testing.TB, _ *suite, f driver.Family, p string) {
	m := row(p + "r")
	var want []string
	for i, q := range shuffled(edges) {
		m.Puts = append(m.Puts, put(q, "v"))
		want = append(want, edges[i]+"=v")
	}
	// Rows beside it, of which one key is a prefix of the other, keep their cells apart.
	apply(tb, f, m, row(p+"r\x00", put("\x00", "other")), row(p+"r\x00\x01", put("", "other")), row(p+"q\xff", put("\xff", "other")))
	is(tb, f, p+"r", want...)
	is(tb, f, p+"r\x00", "\x00=other")
	is(tb, f, p+"r\x00\x01", "=other")
}

func checkValues(tb testing.TB, _ *suite, f driver.Family, p string) {
	var all []byte
	for i := range 256 {
		all = append(all, byte(i))
	}
	apply(tb, f, row(p+"r", put("all", string(all)), put("empty", ""), put("zero", "\x00"), put("ff", "\xff\xff")))
	want := []string{"all=" + string(all), "empty=", "ff=\xff\xff", "zero=\x00"}
	is(tb, f, p+"r", want...)
	rows := scan(tb, f, within(p))
	require.Len(tb, rows, 1)
	require.Equal(tb, want, show(rows[0].Cells))

	apply(tb, f, row(p+"s", driver.Cell{Qualifier: b("nil")}))
	is(tb, f, p+"s", "nil=") // a put without a value puts the empty one
}

func checkExistence(tb testing.TB, _ *suite, f driver.Family, p string) {
	exist := func(why string, rows ...string) {
		tb.Helper()
		require.Equal(tb, append([]string{}, rows...), keys(scan(tb, f, within(p))), why)
	}
	apply(tb, f, row(p+"a", put("x", ""), put("y", "1")), row(p+"b", put("x", "1")), row(p+"c"))
	exist("a mutation without cells makes no row", p+"a", p+"b")
	apply(tb, f, deleteCells(p+"a", "y"), deleteCells(p+"b", "x"))
	exist("a row with an empty value is a row", p+"a")
	apply(tb, f, deleteCells(p+"a", "x"))
	exist("a row without cells is none")
	is(tb, f, p+"a")
}

func checkLimits(tb testing.TB, s *suite, f driver.Family, p string) {
	longKey := p + strings.Repeat("\x00", driver.MaxRowKey-len(p))
	longQualifier := strings.Repeat("\xff", driver.MaxQualifier)
	longValue := strings.Repeat("0123456789abcdef", driver.MaxValue/16)
	longHead := longValue[:driver.MaxHeadValue+1]

	apply(tb, f, row(longKey, put("q", "v")))
	is(tb, f, longKey, "q=v")
	apply(tb, f, row(p+"q", put(longQualifier, "v"), put(longQualifier[1:], "w")))
	is(tb, f, p+"q", longQualifier[1:]+"=w", longQualifier+"=v")
	apply(tb, f, row(p+"v", put("q", longValue)))
	found := read(tb, f, p+"v", driver.Slice{})
	require.Len(tb, found, 1)
	require.True(tb, string(found[0].Value) == longValue, "a value of the full length came back as another")
	apply(tb, f, row(p+"h", put("", longHead[1:]), put("\x00\x00", longHead)))
	apply(tb, s.ordered(tb), row(p+"h", put("", longHead))) // its rows have no head

	tooLarge := func(what string, err error) {
		tb.Helper()
		require.ErrorIs(tb, err, driver.ErrTooLarge, what)
		require.Less(tb, len(err.Error()), 1000, "the error contains the key or value")
	}
	for _, m := range []driver.Mutation{
		row(longKey+"x", put("q", "v")),
		row(p+"x", put(longQualifier+"x", "v")),
		row(p+"x", put("q", longValue+"x")),
		row(p+"x", put("", longHead)),
		row(p+"x", put("\x00", longHead)),
	} {
		tooLarge("Apply", f.Apply(background, row(p+"y", put("q", "v")), m))
		_, err := f.CheckAndPut(background, m.Row, absent("other"), m.Puts...)
		tooLarge("CheckAndPut", err)
		if c, ok := f.(driver.Committer); ok {
			_, err := c.Commit(background, m.Row, nil, m.Puts, nil)
			tooLarge("Commit", err)
		}
	}
	_, err := f.Get(background, b(longKey+"x"), driver.Slice{})
	tooLarge("Get", err)
	tooLarge("Apply", f.Apply(background, deleteRow(longKey+"x")))
	checkLargestChange(tb, f, p, longKey[:len(longKey)-1], longValue, tooLarge)

	noKey := "an empty row key was accepted"
	require.Error(tb, f.Apply(background, row("", put("q", "v"))), noKey)
	_, err = f.Get(background, nil, driver.Slice{})
	require.Error(tb, err, noKey)
	_, err = f.CheckAndPut(background, nil, absent("q"), put("q", "v"))
	require.Error(tb, err, noKey)

	// Before anything is sent.
	is(tb, f, p+"x")
	is(tb, f, p+"y")
	apply(tb, f, deleteRow(p+"v")) // 8 MB that later scans of the whole family would read
}

// checkLargestChange tests the limit of a change of one row as a whole, with as much besides its
// values as there can be.
func checkLargestChange(tb testing.TB, f driver.Family, p, key, longValue string, tooLarge func(string, error)) {
	half := longValue[:(driver.MaxChange-2*(len(key)+1)-2)/2]
	largest := row(key+"c", put("q", half), put("r", half))
	apply(tb, f, largest)
	require.True(tb, checkAndPut(tb, f, key+"d", absent("q"), largest.Puts[0], put("r", half[:len(half)-2*(len(key)+1)])))
	largest.Puts = append(largest.Puts, put("s", "x"))
	tooLarge("Apply", f.Apply(background, row(p+"y", put("q", "v")), largest))
	_, err := f.CheckAndPut(background, largest.Row, absent("other"), largest.Puts...)
	tooLarge("CheckAndPut", err)
	many := deleteCells(p + "n")
	for i := range driver.MaxCells + 1 {
		many.Deletes = append(many.Deletes, b(strconv.Itoa(i)))
	}
	tooLarge("Apply", f.Apply(background, many))
	apply(tb, f, deleteRow(key+"c"), deleteRow(key+"d")) // 30 MB that later scans of the whole family would read
}
