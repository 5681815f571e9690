package drivertest

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/store/driver"
)

// checks are in the order of the comments in package driver.
var checks = []check{
	{"a family is created once and found again", checkFamily},
	{"another layout is refused", checkLayout},
	{"a family that is to exist is not created", checkExisting},
	{"an invalid specification is refused", checkSpec},
	{"Families are in ascending order", checkFamilies},
	{"Drop removes a family with all that it holds", checkDrop},

	{"rows are in unsigned bytewise order", checkRowOrder},
	{"cells are in unsigned bytewise order", checkCellOrder},
	{"values are any bytes", checkValues},
	{"a row exists while it has a cell", checkExistence},
	{"the limits are accepted and what exceeds them refused", checkLimits},
	{"what is returned belongs to the caller", checkReturned},
	{"what is passed in is neither kept nor changed", checkPassed},
	{"a context that is done ends every method", checkContext},
	{"a deadline ends a method that is under way", checkDeadline},
	{"reads observe what was acknowledged", checkReadYourWrites},

	{"Get of an absent row has no cells", checkAbsentRow},
	{"slices are half-open, limited and reversed", checkSlices},
	{"slices by qualifier", checkOnly},
	{"slices of a wide row across pages", checkWideRow},
	{"a slice has the head of its row added", checkHead},
	{"the head follows every change", checkHeadChanges},
	{"a slice and the head are of one instant", checkHeadInstant},
	{"an invalid slice is refused", checkInvalidSlice},

	{"ranges are half-open", checkBounds},
	{"scans are limited and reversed", checkScanLimits},
	{"scans yield rows that have a cell in the slice", checkScanSlices},
	{"scans yield each row once across pages", checkScanPages},
	{"scans stop when the caller stops", checkScanStop},
	{"rows stay valid after the iteration", checkRowsStay},
	{"scans see every row that stays", checkScanWhileWriting},
	{"an invalid range is refused", checkInvalidRange},
	{"scans in order keep within a prefix", checkPrefix},
	{"spread bits keep the order", checkSpread},
	{"scans in any order are complete", checkAnyOrder},
	{"the parts of a scan are disjoint and together the whole", checkParts},
	{"rows of a wide family are scanned in any order", checkWideScan},

	{"Apply takes any number of mutations", checkApplyMany},
	{"applying again is harmless", checkApplyAgain},
	{"a change that names a cell or row twice is refused", checkOverlap},
	{"DeleteRow removes the whole row", checkDeleteRow},
	{"a mutation after an acknowledged one wins over it", checkLastWins},
	{"concurrent mutations leave the value of one", checkConcurrentApply},
	{"the cells of a mutation appear all at once", checkAtomicRow},
	{"cells end after their time to live", checkTTL},

	{"cells have stamps where they are asked for", checkStamps},
	{"Replace changes rows that were not written since", checkReplace},
	{"a mutation after Seen wins over Replace", checkReplaceLoses},
	{"a mutation after Replace wins over it", checkReplaceIsOld},
	{"concurrent Apply and Replace leave one of them, whole", checkReplaceRace},
	{"Replace takes any number of replacements", checkReplaceMany},
	{"a replacement that does not say what was seen is refused", checkReplaceRefusals},

	{"CheckAndPut puts if, and only if, the cell is as expected", checkCheckAndPut},
	{"CheckAndPut refuses what not every database can", checkConditionalRefusals},
	{"CheckAndPut lets exactly one of many win", checkRace},
	{"CheckAndPut loses no update", checkCounter},
	{"Commit needs all expectations", checkCommit},
	{"Commit swaps cells at once", checkSwap},
	{"Commit tells absent from empty", checkAbsentOrEmpty},

	{"a snapshot is of one instant", checkSnapshot},
	{"a random history agrees with a model", checkModel},
}

var background = context.Background()

// Families.

func checkFamily(tb testing.TB, s *suite) {
	f := s.ordered(tb)
	p := s.prefix()
	apply(tb, f, row(p+"a", put("q", "v")))
	again, err := s.db.Family(background, s.specs["ordered"])
	require.NoError(tb, err)
	require.Equal(tb, []string{"q=v"}, get(tb, again, p+"a", driver.Slice{}))
	apply(tb, again, row(p+"a", put("q", "w")))
	require.Equal(tb, []string{"q=w"}, get(tb, f, p+"a", driver.Slice{}))

	// Families do not see each other's rows.
	require.Empty(tb, get(tb, s.wide(tb), p+"a", driver.Slice{}))
}

func checkLayout(tb testing.TB, s *suite) {
	s.ordered(tb)
	s.wide(tb)
	spec := s.specs["ordered"]
	for _, other := range []driver.FamilySpec{
		{Name: spec.Name, Layout: driver.LayoutWide},
		{Name: spec.Name, Layout: driver.LayoutOrdered, PrefixBytes: 2},
		{Name: spec.Name, Layout: driver.LayoutOrdered, SpreadBits: 2},
		{Name: s.specs["wide"].Name, Layout: driver.LayoutOrdered},
	} {
		_, err := s.db.Family(background, other)
		require.ErrorIs(tb, err, driver.ErrLayout, "%+v", other)
	}
}

func checkExisting(tb testing.TB, s *suite) {
	never := driver.FamilySpec{Name: s.name + "_existing", Layout: driver.LayoutWide, Existing: true}
	_, err := s.db.Family(background, never)
	require.ErrorIs(tb, err, driver.ErrNoFamily)
	names, err := s.db.Families(background)
	require.NoError(tb, err)
	require.NotContains(tb, names, never.Name)

	f := s.ordered(tb)
	p := s.prefix()
	apply(tb, f, row(p+"a", put("q", "v")))
	spec := s.specs["ordered"]
	spec.Existing = true
	again, err := s.db.Family(background, spec)
	require.NoError(tb, err)
	require.Equal(tb, []string{"q=v"}, get(tb, again, p+"a", driver.Slice{}))
	other := spec
	other.SpreadBits = 2
	_, err = s.db.Family(background, other)
	require.ErrorIs(tb, err, driver.ErrLayout)

	db, ok := s.db.(driver.Snapshotter)
	if !ok {
		return
	}
	snap, err := db.Snapshot()
	require.NoError(tb, err)
	defer func() { require.NoError(tb, snap.Close()) }()
	_, err = snap.Family(background, never)
	require.ErrorIs(tb, err, driver.ErrNoFamily)
	again, err = snap.Family(background, spec)
	require.NoError(tb, err)
	require.Equal(tb, []string{"q=v"}, get(tb, again, p+"a", driver.Slice{}))
}

func checkSpec(tb testing.TB, s *suite) {
	for _, spec := range []driver.FamilySpec{
		{Name: "x"},
		{Name: "", Layout: driver.LayoutWide},
		{Name: "1x", Layout: driver.LayoutWide},
		{Name: "X", Layout: driver.LayoutWide},
		{Name: "x-y", Layout: driver.LayoutWide},
		{Name: "x'; drop", Layout: driver.LayoutWide},
		{Name: strings.Repeat("x", 41), Layout: driver.LayoutWide},
		{Name: "x", Layout: driver.LayoutWide, PrefixBytes: 1},
		{Name: "x", Layout: driver.LayoutWide, SpreadBits: 1},
		{Name: "x", Layout: driver.LayoutOrdered, PrefixBytes: -1},
		{Name: "x", Layout: driver.LayoutOrdered, SpreadBits: 17},
		{Name: "x", Layout: 3},
	} {
		_, err := s.db.Family(background, spec)
		require.ErrorIs(tb, err, driver.ErrRange, "%+v", spec)
	}
}

func checkFamilies(tb testing.TB, s *suite) {
	s.wide(tb)
	s.ordered(tb)
	names, err := s.db.Families(background)
	require.NoError(tb, err)
	require.True(tb, slices.IsSorted(names), "%q", names)
	require.Equal(tb, names, slices.Compact(slices.Clone(names)), "a name twice")
	require.Contains(tb, names, s.specs["wide"].Name)
	require.Contains(tb, names, s.specs["ordered"].Name)
}

func checkDrop(tb testing.TB, s *suite) {
	require.NoError(tb, s.db.Drop(background, s.name+"_never"), "a family that does not exist is no error")
	require.NoError(tb, s.db.Drop(background, "No family's name"), "nor is one that cannot exist")

	// A name of the full length.
	spec := driver.FamilySpec{Name: (s.name + "_" + strings.Repeat("z9_", 20))[:40], Layout: driver.LayoutOrdered}
	tb.Cleanup(func() { require.NoError(tb, s.db.Drop(background, spec.Name)) })
	f, err := s.db.Family(background, spec)
	require.NoError(tb, err)
	apply(tb, f, row("a", put("q", "v")))
	read := seen(tb, f, "a", "q")
	require.NoError(tb, s.db.Drop(background, spec.Name))
	names, err := s.db.Families(background)
	require.NoError(tb, err)
	require.NotContains(tb, names, spec.Name)

	fails := func(method string, err error) {
		require.Error(tb, err, "%s of a dropped family", method)
		require.True(tb, s.o.Own == nil || s.o.Own(err), "%s: the error does not wrap that of the database's client: %v", method, err)
	}
	_, err = f.Get(background, b("a"), driver.Slice{})
	fails("Get", err)
	fails("Apply", f.Apply(background, row("b", put("q", "v"))))
	_, err = f.Replace(background, driver.Replacement{Row: b("a"), Seen: read, Puts: []driver.Cell{put("q", "w")}})
	fails("Replace", err)
	_, err = f.CheckAndPut(background, b("c"), absent("q"), put("q", "v"))
	fails("CheckAndPut", err)
	fails("Scan", scanError(tb, f, background, driver.Range{}))

	// The name can be used again, with another layout, and nothing comes back.
	spec.Layout = driver.LayoutWide
	f, err = s.db.Family(background, spec)
	require.NoError(tb, err)
	require.Empty(tb, scan(tb, f, driver.Range{AnyOrder: true}))
}

// Rows and cells.

// edgeFamily holds a row for every edge but the empty one, and nothing else.
func edgeFamily(tb testing.TB, s *suite) driver.Family {
	if f := s.families["edges"]; f != nil {
		return f
	}
	f := s.family(tb, "edges", driver.FamilySpec{Layout: driver.LayoutOrdered})
	var ms []driver.Mutation
	for i := range edges {
		if key := edges[(i*7)%len(edges)]; key != "" { // not in order
			ms = append(ms, row(key, put("q", "of "+key)))
		}
	}
	apply(tb, f, ms...)
	return f
}

func checkRowOrder(tb testing.TB, s *suite) {
	f := edgeFamily(tb, s)
	rows := scan(tb, f, driver.Range{})
	require.Equal(tb, edges[1:], keys(rows))
	for _, r := range rows {
		require.Equal(tb, []string{"q=of " + string(r.Key)}, show(r.Cells))
		require.Equal(tb, []string{"q=of " + string(r.Key)}, get(tb, f, string(r.Key), driver.Slice{}))
	}
	require.Equal(tb, reversed(edges[1:]), keys(scan(tb, f, driver.Range{Reverse: true})))
}

func checkCellOrder(tb testing.TB, s *suite) {
	for _, f := range []driver.Family{s.wide(tb), s.ordered(tb)} {
		// Rows beside it, of which one key is a prefix of the other, keep their cells apart.
		p := s.prefix()
		var want []string
		m := row(p + "r")
		for i := range edges {
			m.Puts = append(m.Puts, put(edges[(i*7)%len(edges)], "v"))
			want = append(want, edges[i]+"=v")
		}
		apply(tb, f, m, row(p+"r\x00", put("\x00", "other")), row(p+"r\x00\x01", put("", "other")), row(p+"q\xff", put("\xff", "other")))
		require.Equal(tb, want, get(tb, f, p+"r", driver.Slice{}))
		require.Equal(tb, reversed(want), get(tb, f, p+"r", driver.Slice{Reverse: true}))
		require.Equal(tb, []string{"\x00=other"}, get(tb, f, p+"r\x00", driver.Slice{}))
		require.Equal(tb, []string{"=other"}, get(tb, f, p+"r\x00\x01", driver.Slice{}))
	}
}

func checkValues(tb testing.TB, s *suite) {
	f := s.ordered(tb)
	p := s.prefix()
	var all []byte
	for i := range 256 {
		all = append(all, byte(i))
	}
	apply(tb, f, row(p+"r", put("all", string(all)), put("empty", ""), put("zero", "\x00"), put("ff", "\xff\xff")))
	require.Equal(tb, []string{"all=" + string(all), "empty=", "ff=\xff\xff", "zero=\x00"}, get(tb, f, p+"r", driver.Slice{}))
	rows := scan(tb, f, within(p))
	require.Len(tb, rows, 1)
	require.Equal(tb, []string{"all=" + string(all), "empty=", "ff=\xff\xff", "zero=\x00"}, show(rows[0].Cells))

	// A put without a value is a put of the empty one.
	apply(tb, f, driver.Mutation{Row: b(p + "s"), Puts: []driver.Cell{{Qualifier: b("nil")}}})
	require.Equal(tb, []string{"nil="}, get(tb, f, p+"s", driver.Slice{}))
}

func checkExistence(tb testing.TB, s *suite) {
	f := s.ordered(tb)
	p := s.prefix()
	apply(tb, f, row(p+"a", put("x", ""), put("y", "1")), row(p+"b", put("x", "1")), row(p+"c"))
	require.Equal(tb, []string{p + "a", p + "b"}, keys(scan(tb, f, within(p))), "a mutation without cells makes no row")
	apply(tb, f, driver.Mutation{Row: b(p + "a"), Deletes: bs("y")}, driver.Mutation{Row: b(p + "b"), Deletes: bs("x")})
	require.Equal(tb, []string{p + "a"}, keys(scan(tb, f, within(p))), "a row with an empty value is a row")
	apply(tb, f, driver.Mutation{Row: b(p + "a"), Deletes: bs("x")})
	require.Empty(tb, scan(tb, f, within(p)))
	require.Empty(tb, get(tb, f, p+"a", driver.Slice{}))
}

func checkLimits(tb testing.TB, s *suite) {
	f := s.wide(tb)
	p := s.prefix()
	longKey := p + strings.Repeat("\x00", driver.MaxRowKey-len(p))
	longQualifier := strings.Repeat("\xff", driver.MaxQualifier)
	longValue := strings.Repeat("0123456789abcdef", driver.MaxValue/16)

	apply(tb, f, row(longKey, put("q", "v")))
	require.Equal(tb, []string{"q=v"}, get(tb, f, longKey, driver.Slice{}))
	apply(tb, f, row(p+"q", put(longQualifier, "v"), put(longQualifier[1:], "w")))
	require.Equal(tb, []string{longQualifier[1:] + "=w", longQualifier + "=v"}, get(tb, f, p+"q", driver.Slice{}))
	apply(tb, f, row(p+"v", put("q", longValue)))
	cells, err := f.Get(background, b(p+"v"), driver.Slice{})
	require.NoError(tb, err)
	require.Len(tb, cells, 1)
	require.True(tb, string(cells[0].Value) == longValue, "a value of the full length came back as another")

	tooLarge := func(what string, err error) {
		tb.Helper()
		require.ErrorIs(tb, err, driver.ErrTooLarge, what)
		require.Less(tb, len(err.Error()), 1000, "the error contains the key or value")
	}
	for _, m := range []driver.Mutation{
		row(longKey+"x", put("q", "v")),
		row(p+"x", put(longQualifier+"x", "v")),
		row(p+"x", put("q", longValue+"x")),
		row(p+"x", put("", longValue[:driver.MaxHeadValue+1])),
		row(p+"x", put("\x00", longValue[:driver.MaxHeadValue+1])),
	} {
		tooLarge("Apply", f.Apply(background, row(p+"y", put("q", "v")), m))
		_, err := f.CheckAndPut(background, m.Row, absent("other"), m.Puts...)
		tooLarge("CheckAndPut", err)
		if c, ok := f.(driver.Committer); ok {
			_, err := c.Commit(background, m.Row, nil, m.Puts, nil)
			tooLarge("Commit", err)
		}
	}
	apply(tb, f, row(p+"h", put("", longValue[:driver.MaxHeadValue]), put("\x00\x00", longValue[:driver.MaxHeadValue+1])))
	apply(tb, s.ordered(tb), row(p+"h", put("", longValue[:driver.MaxHeadValue+1]))) // its rows have no head
	_, err = f.Get(background, b(longKey+"x"), driver.Slice{})
	tooLarge("Get", err)
	tooLarge("Apply", f.Apply(background, driver.Mutation{Row: b(longKey + "x"), DeleteRow: true}))

	require.Error(tb, f.Apply(background, row("", put("q", "v"))), "an empty row key was accepted")
	_, err = f.Get(background, nil, driver.Slice{})
	require.Error(tb, err, "an empty row key was accepted")
	_, err = f.CheckAndPut(background, nil, absent("q"), put("q", "v"))
	require.Error(tb, err, "an empty row key was accepted")

	// Before anything is sent.
	require.Empty(tb, get(tb, f, p+"x", driver.Slice{}))
	require.Empty(tb, get(tb, f, p+"y", driver.Slice{}))
	apply(tb, f, driver.Mutation{Row: b(p + "v"), DeleteRow: true}) // 8 MB that later scans need not read
}

func checkReturned(tb testing.TB, s *suite) {
	f := s.ordered(tb)
	p := s.prefix()
	apply(tb, f, row(p+"a", put("q", "value a"), put("r", "")), row(p+"b", put("q", "value b")))
	spoil := func(cells []driver.Cell) {
		// An append must not reach a neighbour either.
		for _, c := range cells {
			_ = append(c.Qualifier, "zzzzzzzz"...)
			_ = append(c.Value, "zzzzzzzz"...)
		}
		_ = append(cells, put("zz", "zz"))
	}
	destroy := func(cells []driver.Cell) {
		for i, c := range cells {
			for _, b := range [][]byte{c.Qualifier, c.Value} {
				for j := range b {
					b[j] = 'X'
				}
			}
			cells[i] = driver.Cell{}
		}
	}
	for range 2 {
		cells, err := f.Get(background, b(p+"a"), driver.Slice{})
		require.NoError(tb, err)
		spoil(cells)
		require.Equal(tb, []string{"q=value a", "r="}, show(cells))
		destroy(cells)

		rows := scan(tb, f, within(p))
		for _, r := range rows {
			spoil(r.Cells)
			_ = append(r.Key, "zzzzzzzz"...)
		}
		require.Equal(tb, []string{p + "a", p + "b"}, keys(rows))
		require.Equal(tb, []string{"q=value a", "r="}, show(rows[0].Cells))
		require.Equal(tb, []string{"q=value b"}, show(rows[1].Cells))
		for _, r := range rows {
			destroy(r.Cells)
			r.Key[0] = 'X'
		}
	}
	names, err := s.db.Families(background)
	require.NoError(tb, err)
	for i := range names {
		names[i] = "X"
	}
	names, err = s.db.Families(background)
	require.NoError(tb, err)
	require.NotContains(tb, names, "X")
}

func checkPassed(tb testing.TB, s *suite) {
	f := s.ordered(tb)
	p := s.prefix()
	roomy := func(text string) []byte { return append(make([]byte, 0, 100), text...) }
	intact := func(bs ...[]byte) {
		tb.Helper()
		for _, b := range bs {
			for _, x := range b[len(b):cap(b)] {
				require.Zero(tb, x, "something was written behind a slice that was passed")
			}
			for i := range b {
				b[i] = 'X'
			}
		}
	}

	key, q, v, d := roomy(p+"a"), roomy("q"), roomy("value"), roomy("d")
	m := driver.Mutation{Row: key, Puts: []driver.Cell{{Qualifier: q, Value: v}}, Deletes: [][]byte{d}}
	apply(tb, f, m)
	require.Equal(tb, []string{p + "a", "q", "value", "d"}, []string{string(key), string(q), string(v), string(d)})
	intact(key, q, v, d)
	require.Equal(tb, []string{"q=value"}, get(tb, f, p+"a", driver.Slice{}))

	key, q, v, d = roomy(p+"a"), roomy("q"), roomy("other"), roomy("d")
	read := seen(tb, f, p+"a", "q")
	read.Qualifier, read.Value = roomy("q"), roomy("value")
	replacement := driver.Replacement{Row: key, Seen: read, Puts: []driver.Cell{{Qualifier: q, Value: v}}, Deletes: [][]byte{d}}
	require.Empty(tb, replace(tb, f, replacement))
	require.Equal(tb, []string{p + "a", "q", "other", "d", "q", "value"},
		[]string{string(key), string(q), string(v), string(d), string(read.Qualifier), string(read.Value)})
	intact(key, q, v, d, read.Qualifier, read.Value)
	require.Equal(tb, []string{"q=other"}, get(tb, f, p+"a", driver.Slice{}))

	key, q, v = roomy(p+"b"), roomy("q"), roomy("value")
	ok, err := f.CheckAndPut(background, key, driver.Cell{Qualifier: q}, driver.Cell{Qualifier: q, Value: v})
	require.NoError(tb, err)
	require.True(tb, ok)
	require.Equal(tb, []string{p + "b", "q", "value"}, []string{string(key), string(q), string(v)})
	intact(key, q, v)
	require.Equal(tb, []string{"q=value"}, get(tb, f, p+"b", driver.Slice{}))

	apply(tb, f, row(p+"c", put("q", "1"), put("r", "2"), put("s", "3")))
	only := [][]byte{roomy("s"), roomy("q"), roomy("s")}
	key, start, end := roomy(p+"c"), roomy("q"), roomy("s")
	cells, err := f.Get(background, key, driver.Slice{Only: only})
	require.NoError(tb, err)
	require.Equal(tb, []string{"s", "q", "s"}, []string{string(only[0]), string(only[1]), string(only[2])})
	_, err = f.Get(background, key, driver.Slice{Start: start, End: end})
	require.NoError(tb, err)
	require.Equal(tb, []string{p + "c", "q", "s"}, []string{string(key), string(start), string(end)})
	intact(append(only, key, start, end)...)
	require.Equal(tb, []string{"q=1", "s=3"}, show(cells))

	start, end = roomy(p+"a"), roomy(p+"z")
	rows := scan(tb, f, driver.Range{Start: start, End: end, Cells: driver.Slice{Only: bs("q")}})
	require.Equal(tb, []string{p + "a", p + "z"}, []string{string(start), string(end)})
	intact(start, end)
	require.Equal(tb, []string{p + "a", p + "b", p + "c"}, keys(rows))
}

// Contexts.

type contextCause struct{}

func (contextCause) Error() string { return "the cause" }

func checkContext(tb testing.TB, s *suite) {
	f := s.ordered(tb)
	p := s.prefix()
	apply(tb, f, row(p+"a", put("q", "v")))
	cancelled, cancel := context.WithCancel(background)
	cancel()
	caused, cancelCause := context.WithCancelCause(background)
	cancelCause(contextCause{})
	expired, cancelExpired := context.WithDeadline(background, time.Now().Add(-time.Second))
	defer cancelExpired()

	for _, c := range []struct {
		name string
		ctx  context.Context
		is   func(error) bool
	}{
		{"cancelled", cancelled, func(err error) bool { return errors.Is(err, context.Canceled) }},
		{"cancelled with a cause", caused, func(err error) bool {
			return errors.Is(err, context.Canceled) || errors.As(err, new(contextCause))
		}},
		{"expired", expired, func(err error) bool { return errors.Is(err, context.DeadlineExceeded) }},
	} {
		check := func(method string, err error) {
			tb.Helper()
			require.Error(tb, err, "%s with a context that is %s", method, c.name)
			require.True(tb, c.is(err), "%s with a context that is %s: %v", method, c.name, err)
		}
		_, err := f.Get(c.ctx, b(p+"a"), driver.Slice{})
		check("Get", err)
		check("Scan", scanError(tb, f, c.ctx, within(p)))
		check("Apply", f.Apply(c.ctx, row(p+"b", put("q", "v"))))
		_, err = f.Replace(c.ctx, driver.Replacement{Row: b(p + "a"), Seen: seen(tb, f, p+"a", "q"), Puts: []driver.Cell{put("q", "w")}})
		check("Replace", err)
		ok, err := f.CheckAndPut(c.ctx, b(p+"c"), absent("q"), put("q", "v"))
		check("CheckAndPut", err)
		require.False(tb, ok)
		if committer, is := f.(driver.Committer); is {
			ok, err := committer.Commit(c.ctx, b(p+"d"), nil, []driver.Cell{put("q", "v")}, nil)
			check("Commit", err)
			require.False(tb, ok)
		}
		_, err = s.db.Family(c.ctx, s.specs["ordered"])
		check("Family", err)
		_, err = s.db.Families(c.ctx)
		check("Families", err)
		check("Drop", s.db.Drop(c.ctx, s.specs["ordered"].Name))
	}
	require.Equal(tb, []string{p + "a"}, keys(scan(tb, f, within(p))), "something was written although the context was done")
	require.Equal(tb, []string{"q=v"}, get(tb, f, p+"a", driver.Slice{}), "something was written although the context was done")

	// In the middle of a scan.
	var ms []driver.Mutation
	for i := range 3000 {
		ms = append(ms, row(fmt.Sprintf("%s%04d", p, i), put("q", "v")))
	}
	apply(tb, f, ms...)
	ctx, cancel := context.WithCancel(background)
	defer cancel()
	n := 0
	var failed error
	for _, err := range f.Scan(ctx, within(p)) {
		require.NoError(tb, failed, "something was yielded after an error")
		if failed = err; err != nil {
			continue
		}
		if n++; n == 1 {
			cancel()
		}
	}
	require.ErrorIs(tb, failed, context.Canceled, "the scan went on to its end, %d rows", n)
}

func checkDeadline(tb testing.TB, s *suite) {
	f := s.ordered(tb)
	p := s.prefix()
	var ms []driver.Mutation
	for i := range 2000 {
		ms = append(ms, row(fmt.Sprintf("%s%04d", p, i), put("q", strings.Repeat("v", 200))))
	}
	for i := range 12 {
		timeout := 200 * time.Microsecond << i // to 0.4 s
		begin := time.Now()
		ctx, cancel := context.WithTimeout(background, timeout)
		err := f.Apply(ctx, ms...)
		if err == nil {
			err = scanError(tb, f, ctx, within(p))
		}
		if err != nil {
			require.ErrorIs(tb, err, context.DeadlineExceeded)
		}
		require.Less(tb, time.Since(begin), timeout+5*time.Second, "a deadline was not kept")
		cancel()
	}
	// The connection is still good.
	apply(tb, f, ms...)
	require.Len(tb, scan(tb, f, within(p)), len(ms))
}

func checkReadYourWrites(tb testing.TB, s *suite) {
	f := s.ordered(tb)
	p := s.prefix()
	for i := range 20 {
		v := fmt.Sprint(i)
		apply(tb, f, row(p+"a", put("q", v)))
		require.Equal(tb, []string{"q=" + v}, get(tb, f, p+"a", driver.Slice{}))
		rows := scan(tb, f, within(p))
		require.Len(tb, rows, 1)
		require.Equal(tb, []string{"q=" + v}, show(rows[0].Cells))
	}
}

// Slices.

func checkAbsentRow(tb testing.TB, s *suite) {
	p := s.prefix()
	for _, f := range []driver.Family{s.ordered(tb), s.wide(tb)} {
		for _, slice := range []driver.Slice{{}, {Only: bs("q")}, {Start: b("a"), End: b("b"), Limit: 1, Reverse: true}} {
			cells, err := f.Get(background, b(p+"none"), slice)
			require.NoError(tb, err)
			require.Empty(tb, cells)
		}
	}
}

// sliced is what a slice of the qualifiers should be.
func sliced(qualifiers []string, s driver.Slice) []string {
	var out, head []string
	for _, q := range qualifiers {
		if s.Head && (q == "" || q == "\x00") {
			head = append(head, q)
			continue
		}
		in := bytes.Compare(b(q), s.Start) >= 0 && (s.End == nil || bytes.Compare(b(q), s.End) < 0)
		if len(s.Only) > 0 {
			in = false
			for _, o := range s.Only {
				in = in || string(o) == q
			}
		}
		if in {
			out = append(out, q)
		}
	}
	if s.Reverse {
		slices.Reverse(out)
	}
	if s.Limit > 0 && len(out) > s.Limit {
		out = out[:s.Limit]
	}
	return append(head, out...)
}

func names(cells []driver.Cell) []string {
	var out []string
	for _, c := range cells {
		out = append(out, string(c.Qualifier))
	}
	return out
}

func checkSlices(tb testing.TB, s *suite) {
	f := s.wide(tb)
	p := s.prefix()
	m := row(p + "r")
	for _, q := range edges {
		m.Puts = append(m.Puts, put(q, "v"))
	}
	apply(tb, f, m, row(p+"q", put("before", "")), row(p+"s", put("behind", "")))
	bounds := [][]byte{nil, {}, b("\x00"), b("\x00\x00\x00"), b("\x01"), b("a"), b("a\x00"), b("ac"), b("\x80"), b("\xff"), b("\xff\xff\xff"), b("\xff\xff\xff\x00")}
	n := 0
	for _, start := range bounds {
		for _, end := range bounds {
			slice := driver.Slice{Start: start, End: end}
			if n++; n%3 == 0 {
				slice.Reverse = true
			}
			if n%4 == 0 {
				slice.Limit = 1 + n%5
			}
			cells, err := f.Get(background, b(p+"r"), slice)
			require.NoError(tb, err)
			require.Equal(tb, sliced(edges, slice), names(cells), "%+v", slice)
		}
	}
}

func checkOnly(tb testing.TB, s *suite) {
	f := s.wide(tb)
	p := s.prefix()
	m := row(p + "r")
	for i, q := range edges {
		if i%2 == 0 {
			m.Puts = append(m.Puts, put(q, "v"))
		}
	}
	apply(tb, f, m)
	var have []string
	for i := 0; i < len(edges); i += 2 {
		have = append(have, edges[i])
	}
	for _, slice := range []driver.Slice{
		{Only: bs(edges[0])},
		{Only: bs(edges[1])},
		{Only: bs(edges[4], edges[0], edges[3])},
		{Only: bs(edges[2], edges[2], edges[2])},
		{Only: bs(edges...)},
		{Only: bs(edges...), Limit: 3},
		{Only: bs(edges...), Limit: 3, Reverse: true},
		{Only: bs(reversed(edges)...), Reverse: true},
		{Only: bs(edges[1], edges[2], edges[4]), Limit: 1},
		{Only: bs(strings.Repeat("\xff", driver.MaxQualifier))},
	} {
		cells, err := f.Get(background, b(p+"r"), slice)
		require.NoError(tb, err)
		require.Equal(tb, sliced(have, slice), names(cells), "%+v", slice)
	}
}

func checkWideRow(tb testing.TB, s *suite) {
	f := s.wide(tb)
	p := s.prefix()
	const n = 6000
	var qualifiers []string
	for i := range n {
		qualifiers = append(qualifiers, fmt.Sprintf("q%05d", 2*i))
	}
	for i := 0; i < n; i += 500 { // a row is written bit by bit
		m := row(p + "r")
		for _, q := range qualifiers[i : i+500] {
			m.Puts = append(m.Puts, put(q, "value of "+q))
		}
		apply(tb, f, m)
	}
	for _, slice := range []driver.Slice{
		{},
		{Reverse: true},
		{Limit: n - 1},
		{Limit: 5500, Reverse: true},
		{Start: b("q00001"), End: b("q11997")},
		{Start: b("q05000"), Limit: 10},
		{End: b("q05000"), Limit: 10, Reverse: true},
		{Start: b("q05001"), End: b("q05002")},
		{Start: b("q99999")},
		{Only: bs("q00000", "q00001", "q06000", "q11998")},
	} {
		cells, err := f.Get(background, b(p+"r"), slice)
		require.NoError(tb, err)
		want := sliced(qualifiers, slice)
		got := names(cells)
		require.Len(tb, got, len(want), "%+v", slice)
		require.True(tb, slices.Equal(want, got), "%+v: wrong cells", slice)
		for _, c := range cells {
			require.Equal(tb, "value of "+string(c.Qualifier), string(c.Value))
		}
	}
	// Slices that are empty.
	for _, slice := range []driver.Slice{
		{Start: b("b"), End: b("a")}, {Start: b("q00002"), End: b("q00002")}, {End: []byte{}}, {Start: b("r")}, {Only: bs("none")},
	} {
		require.Empty(tb, get(tb, f, p+"r", slice), "%+v", slice)
	}
}

func checkHead(tb testing.TB, s *suite) {
	f := s.wide(tb)
	p := s.prefix()
	bounds := [][]byte{nil, {}, b("\x00"), b("\x00\x00"), b("\x00\x00\x00"), b("\x01"), b("a"), b("a\x00"), b("ac"), b("\xff\xff\xff\x00")}
	for i, have := range [][]string{
		edges, edges[1:], append([]string{""}, edges[2:]...), edges[2:], // edges[:2] are the head
		edges[:2], {""}, {"\x00"}, {"a"}, {"\x00\x00", "\x00\x01", "b"}, {"", "b"}, nil,
	} {
		m := row(fmt.Sprint(p, i))
		for _, q := range have {
			m.Puts = append(m.Puts, put(q, "of "+q))
		}
		if len(have) > 0 {
			apply(tb, f, m)
		}
		for j, start := range bounds {
			for k, end := range bounds {
				slice := driver.Slice{Start: start, End: end, Limit: (i + j + k) % 3, Head: true}
				want := []string{}
				for _, q := range sliced(have, slice) {
					want = append(want, q+"=of "+q)
				}
				require.Equal(tb, want, get(tb, f, fmt.Sprint(p, i), slice), "%q, %+v", have, slice)
			}
		}
	}
}

func checkHeadChanges(tb testing.TB, s *suite) {
	f := s.wide(tb)
	p := s.prefix()
	// A slice that has a cell, one that has none, one below which there is nothing but the head,
	// and one that is within the head.
	slices := []driver.Slice{{Start: b("m")}, {Start: b("x")}, {Start: b("b"), End: b("c")}, {End: b("\x00")}, {Start: b("n"), End: b("m")}}
	is := func(key string, head ...string) {
		tb.Helper()
		for i, slice := range slices {
			slice.Head = true
			want := append([]string{}, head...)
			if i == 0 {
				want = append(want, "m=v")
			}
			require.Equal(tb, want, get(tb, f, key, slice), "%+v", slice)
		}
		// They are cells as all others are.
		require.Equal(tb, append(append([]string{}, head...), "m=v"), get(tb, f, key, driver.Slice{}))
	}
	key := p + "applied"
	apply(tb, f, row(key, put("m", "v")))
	is(key)
	apply(tb, f, row(key, put("", "1")))
	is(key, "=1")
	apply(tb, f, row(key, put("\x00", "2"), put("", "")))
	is(key, "=", "\x00=2")
	apply(tb, f, driver.Mutation{Row: b(key), Deletes: bs("")})
	is(key, "\x00=2")
	apply(tb, f, driver.Mutation{Row: b(key), Puts: []driver.Cell{put("", "3")}, Deletes: bs("\x00")})
	is(key, "=3")
	apply(tb, f, driver.Mutation{Row: b(key), DeleteRow: true}, row(p+"other", put("", "4")))
	require.Empty(tb, get(tb, f, key, driver.Slice{Start: b("m"), Head: true}))
	apply(tb, f, row(key, put("m", "v")))
	is(key)

	key = p + "conditional"
	conditionally := func(expect driver.Cell, puts ...driver.Cell) {
		tb.Helper()
		ok, err := f.CheckAndPut(background, b(key), expect, puts...)
		require.NoError(tb, err)
		require.True(tb, ok)
	}
	conditionally(absent(""), put("m", "v"))
	is(key)
	conditionally(absent(""), put("", "1"))
	is(key, "=1")
	conditionally(put("", "1"), put("\x00", "2"))
	is(key, "=1", "\x00=2")
	conditionally(put("\x00", "2"), put("\x00", "3"), put("", "4"))
	is(key, "=4", "\x00=3")
	ok, err := f.CheckAndPut(background, b(key), put("", "1"), put("", "5"), put("\x00", "5"))
	require.NoError(tb, err)
	require.False(tb, ok)
	is(key, "=4", "\x00=3")
	if c, ok := f.(driver.Committer); ok {
		commit := func(expect, puts []driver.Cell, deletes ...string) {
			tb.Helper()
			ok, err := c.Commit(background, b(key), expect, puts, bs(deletes...))
			require.NoError(tb, err)
			require.True(tb, ok)
		}
		commit([]driver.Cell{put("", "4"), absent("n")}, []driver.Cell{put("\x00", "6")})
		is(key, "=4", "\x00=6")
		commit([]driver.Cell{put("", "4")}, nil, "\x00")
		is(key, "=4")
		commit([]driver.Cell{put("", "4"), absent("\x00")}, []driver.Cell{put("\x00", "7")}, "")
		is(key, "\x00=7")
		commit([]driver.Cell{absent("")}, []driver.Cell{put("", "8")}, "\x00")
		is(key, "=8")
	}
}

// checkHeadInstant has a writer who counts in the head, and puts a cell with the same number at
// odd ones and deletes it at even ones.
func checkHeadInstant(tb testing.TB, s *suite) {
	f := s.wide(tb)
	key := s.prefix() + "a"
	write := func(i int) error {
		n := fmt.Sprint(i)
		m := row(key, put("", n), put("\x00", n), put("z", n))
		if i%2 == 1 {
			m.Puts = append(m.Puts, put("m", n))
		} else {
			m.Deletes = bs("m")
		}
		return f.Apply(background, m)
	}
	require.NoError(tb, write(0))
	ctx, cancel := context.WithCancel(background)
	var writer sync.WaitGroup
	var writeErr error
	writer.Go(func() {
		for i := 1; ctx.Err() == nil && writeErr == nil; i++ {
			writeErr = write(i)
		}
	})
	func() {
		defer writer.Wait()
		defer cancel()
		for range 300 {
			got := get(tb, f, key, driver.Slice{Start: b("b"), End: b("n"), Limit: 1, Head: true})
			require.GreaterOrEqual(tb, len(got), 2)
			n := got[0][1:]
			want := []string{"=" + n, "\x00=" + n}
			if strings.ContainsAny(n[len(n)-1:], "13579") {
				want = append(want, "m="+n)
			}
			require.Equal(tb, want, got)
		}
	}()
	require.NoError(tb, writeErr)
}

func checkInvalidSlice(tb testing.TB, s *suite) {
	for _, slice := range []driver.Slice{{Only: bs("q"), Head: true}, {Reverse: true, Head: true}} {
		_, err := s.wide(tb).Get(background, b("r"), slice)
		require.ErrorIs(tb, err, driver.ErrRange, "%+v", slice)
	}
	_, err := s.ordered(tb).Get(background, b("r"), driver.Slice{Head: true})
	require.ErrorIs(tb, err, driver.ErrRange, "the head of a row of an ordered family")
	for _, err := range s.wide(tb).Scan(background, driver.Range{AnyOrder: true, Cells: driver.Slice{Head: true}}) {
		require.ErrorIs(tb, err, driver.ErrRange, "the head in a scan")
	}
	f := s.ordered(tb)
	p := s.prefix()
	for _, slice := range []driver.Slice{
		{Limit: -1}, {Only: bs("q"), Start: b("a")}, {Only: bs("q"), End: b("z")},
	} {
		_, err := f.Get(background, b(p+"r"), slice)
		require.ErrorIs(tb, err, driver.ErrRange, "%+v", slice)
		r := within(p)
		r.Cells = slice
		require.ErrorIs(tb, scanError(tb, f, background, r), driver.ErrRange, "%+v", slice)
	}
}

// Scans.

func checkBounds(tb testing.TB, s *suite) {
	f := edgeFamily(tb, s)
	bounds := [][]byte{nil, {}, b("\x00"), b("\x00\x00"), b("\x00\x00\x00"), b("\x00\xff"), b("a"), b("a\x00"), b("ac"), b("\x80"), b("\xff"), b("\xff\xff\xff"), b("\xff\xff\xff\x00")}
	for i, start := range bounds {
		for j, end := range bounds {
			r := driver.Range{Start: start, End: end, Reverse: (i+j)%3 == 0}
			want := sliced(edges[1:], driver.Slice{Start: start, End: end, Reverse: r.Reverse})
			require.Equal(tb, append([]string{}, want...), keys(scan(tb, f, r)), "%+v", r)
		}
	}
}

func checkScanLimits(tb testing.TB, s *suite) {
	f := edgeFamily(tb, s)
	for _, limit := range []int{1, 2, len(edges) - 2, len(edges) - 1, len(edges), 10000} {
		for _, reverse := range []bool{false, true} {
			r := driver.Range{Limit: limit, Reverse: reverse}
			want := sliced(edges[1:], driver.Slice{Limit: limit, Reverse: reverse})
			require.Equal(tb, want, keys(scan(tb, f, r)), "%+v", r)
		}
	}
	r := driver.Range{Start: b("\x00\x02"), End: b("b"), Limit: 3, Reverse: true}
	require.Equal(tb, sliced(edges[1:], driver.Slice{Start: r.Start, End: r.End, Limit: 3, Reverse: true}), keys(scan(tb, f, r)))
	// The cells of a row ascend in a scan that descends.
	p := s.prefix()
	g := s.ordered(tb)
	apply(tb, g, row(p+"a", put("1", ""), put("2", ""), put("3", "")))
	r = within(p)
	r.Reverse = true
	require.Equal(tb, []string{"1=", "2=", "3="}, show(scan(tb, g, r)[0].Cells))
}

func checkScanSlices(tb testing.TB, s *suite) {
	f := s.ordered(tb)
	p := s.prefix()
	qualifiers := []string{"", "a", "b", "b\x00", "c", "d"}
	var ms []driver.Mutation
	for i := range 1 << len(qualifiers) {
		m := row(fmt.Sprintf("%s%02d", p, i))
		for j, q := range qualifiers {
			if i>>j&1 == 1 {
				m.Puts = append(m.Puts, put(q, fmt.Sprint(i)))
			}
		}
		for j := range i % 20 { // cells that no slice asks for
			m.Puts = append(m.Puts, put(fmt.Sprintf("x%02d", j), "no"), put(fmt.Sprintf("bb%02d", j), "no"))
		}
		ms = append(ms, m)
	}
	apply(tb, f, ms...)
	for _, slice := range []driver.Slice{
		{Only: bs("a")},
		{Only: bs("c", "", "a")},
		{Only: bs("d", "none")},
		{Only: bs("none")},
		{Start: b("b"), End: b("bb")},
		{Start: b("c"), End: b("x")},
		{End: b("b")},
		{End: []byte{}},
		{Start: b("b"), End: b("a")},
	} {
		for _, reverse := range []bool{false, true} {
			for _, limit := range []int{0, 7} {
				var want []string
				for _, m := range ms {
					var have []string
					for _, c := range m.Puts {
						have = append(have, string(c.Qualifier))
					}
					slices.Sort(have)
					if in := sliced(have, slice); len(in) > 0 {
						want = append(want, fmt.Sprintf("%s %q", m.Row, in))
					}
				}
				if reverse {
					slices.Reverse(want)
				}
				if limit > 0 && len(want) > limit {
					want = want[:limit]
				}
				r := within(p)
				r.Cells, r.Reverse, r.Limit = slice, reverse, limit
				var got []string
				for _, row := range scan(tb, f, r) {
					got = append(got, fmt.Sprintf("%s %q", row.Key, names(row.Cells)))
				}
				require.Equal(tb, want, got, "%+v", r)
			}
		}
	}
}

// manyRows writes rows that need several pages.
func manyRows(tb testing.TB, f driver.Family, p string, n int) []string {
	var ms []driver.Mutation
	var want []string
	for i := range n {
		key := fmt.Sprintf("%s%05d", p, i)
		ms = append(ms, row(key, put("k", key), put("v", strings.Repeat("v", 50+i%50))))
		want = append(want, key)
	}
	apply(tb, f, ms...)
	return want
}

func checkScanPages(tb testing.TB, s *suite) {
	f := s.ordered(tb)
	p := s.prefix()
	want := manyRows(tb, f, p, 5000)
	r := within(p)
	for _, reverse := range []bool{false, true} {
		r.Reverse = reverse
		if reverse {
			want = reversed(want)
		}
		seq := f.Scan(background, r)
		for range 2 { // a sequence can be ranged over again
			var got []string
			for row, err := range seq {
				require.NoError(tb, err)
				require.Len(tb, row.Cells, 2)
				require.Equal(tb, string(row.Key), string(row.Cells[0].Value))
				got = append(got, string(row.Key))
			}
			require.Len(tb, got, len(want))
			require.True(tb, slices.Equal(want, got), "wrong rows or order")
		}
	}
	r.Reverse, r.Limit = false, 4321
	require.Len(tb, scan(tb, f, r), 4321)
}

func checkScanStop(tb testing.TB, s *suite) {
	f := s.ordered(tb)
	p := s.prefix()
	want := manyRows(tb, f, p, 1500)
	for _, stop := range []int{1, 2, 999, 1000, 1001} {
		var got []string
		for row, err := range f.Scan(background, within(p)) {
			require.NoError(tb, err)
			if got = append(got, string(row.Key)); len(got) == stop {
				break
			}
		}
		require.Equal(tb, want[:stop], got)
	}
	// Within a scan anything may be done, the same scan included.
	n := 0
	for outer, err := range f.Scan(background, within(p)) {
		require.NoError(tb, err)
		for inner, err := range f.Scan(background, driver.Range{Start: outer.Key, Limit: 1}) {
			require.NoError(tb, err)
			require.Equal(tb, outer.Key, inner.Key)
			apply(tb, f, driver.Mutation{Row: inner.Key, DeleteRow: true})
		}
		if n++; n == 10 {
			break
		}
	}
	require.Len(tb, scan(tb, f, within(p)), len(want)-10)
}

func checkRowsStay(tb testing.TB, s *suite) {
	f := s.ordered(tb)
	p := s.prefix()
	want := manyRows(tb, f, p, 2500)
	rows := scan(tb, f, within(p))
	scan(tb, f, within(p))
	require.Equal(tb, want, keys(rows))
	for i, r := range rows {
		require.Len(tb, r.Cells, 2)
		require.Equal(tb, "k="+want[i], show(r.Cells)[0])
	}
}

func checkScanWhileWriting(tb testing.TB, s *suite) {
	f := s.ordered(tb)
	p := s.prefix()
	const n = 1200
	var ms []driver.Mutation
	for i := range n {
		ms = append(ms, row(fmt.Sprintf("%s%05d", p, i), put("q", "stays")))
	}
	apply(tb, f, ms...)
	ctx, cancel := context.WithCancel(background)
	var writing sync.WaitGroup
	var writeErr atomic.Value
	for w := range 2 {
		writing.Go(func() {
			for i := w; ctx.Err() == nil; i = (i + 7) % n {
				key := fmt.Sprintf("%s%05d-%d", p, i, w)
				err := errors.Join(
					f.Apply(background, row(key, put("q", "goes"))),
					f.Apply(background, driver.Mutation{Row: b(key), DeleteRow: true}))
				if err != nil {
					writeErr.Store(err)
					return
				}
			}
		})
	}
	defer writing.Wait()
	defer cancel()
	for i := range 6 {
		r := within(p)
		r.Reverse = i%2 == 1
		stay, last := 0, ""
		for row, err := range f.Scan(background, r) {
			require.NoError(tb, err)
			key := string(row.Key)
			require.True(tb, last == "" || (key > last) != r.Reverse && key != last, "%q after %q", key, last)
			last = key
			switch len(key) {
			case len(p) + 5:
				require.Equal(tb, []string{"q=stays"}, show(row.Cells))
				stay++
			default:
				require.Equal(tb, []string{"q=goes"}, show(row.Cells))
			}
		}
		require.Equal(tb, n, stay, "rows that stay")
	}
	cancel()
	writing.Wait()
	require.Nil(tb, writeErr.Load())
}

func checkInvalidRange(tb testing.TB, s *suite) {
	f := s.ordered(tb)
	p := s.prefix()
	for _, r := range []driver.Range{
		{Limit: -1},
		{Reverse: true, AnyOrder: true},
		{Parts: 2},
		{Parts: -1, AnyOrder: true},
		{Parts: driver.MaxParts + 1, AnyOrder: true},
		{Part: -1, Parts: 2, AnyOrder: true},
		{Part: 2, Parts: 2, AnyOrder: true},
		{Part: 1, AnyOrder: true},
		{Cells: driver.Slice{Limit: 1}},
		{Cells: driver.Slice{Reverse: true}},
	} {
		r.Start, r.End = within(p).Start, within(p).End
		require.ErrorIs(tb, scanError(tb, f, background, r), driver.ErrRange, "%+v", r)
	}
	// Ranges that are empty are not invalid.
	apply(tb, f, row(p+"a", put("q", "v")))
	for _, r := range []driver.Range{
		{Start: b(p + "z"), End: b(p)}, {Start: b(p + "a"), End: b(p + "a")}, {End: []byte{}}, {Start: b(p + "z"), End: b(p), Reverse: true},
		{Start: b(p + "z"), End: b(p), AnyOrder: true}, {Start: b(p + "b"), End: b(p + "c")},
	} {
		require.Empty(tb, scan(tb, f, r), "%+v", r)
	}
}

func checkPrefix(tb testing.TB, s *suite) {
	f := s.family(tb, "prefix", driver.FamilySpec{Layout: driver.LayoutOrdered, PrefixBytes: 2})
	var all []string
	var ms []driver.Mutation
	for _, hash := range []string{"\x00\x00", "aa", "ab", "a\xff", "b\x00", "\xff\xff"} {
		for _, rest := range []string{"", "\x00", "1", "2", "\xff"} {
			all = append(all, hash+rest)
			ms = append(ms, row(hash+rest, put("q", "v")))
		}
	}
	slices.SortFunc(all, func(x, y string) int { return bytes.Compare(b(x), b(y)) })
	apply(tb, f, ms...)
	for _, r := range []driver.Range{
		{Start: b("aa"), End: b("ab")},
		{Start: b("aa"), End: b("ab"), Reverse: true},
		{Start: b("aa\x00"), End: b("aa2")},
		{Start: b("a\xff"), End: b("b")},
		{Start: b("a\xff"), End: b("b\x00")},
		{Start: b("a\xff1"), End: b("b"), Reverse: true, Limit: 2},
		{Start: b("\xff\xff")},
		{Start: b("zz"), End: b("zz\x01")},
		{Start: b("zz"), End: b("aa")},
		{Start: b("\x00\x00"), End: b("\x00\x01"), Limit: 1},
	} {
		want := sliced(all, driver.Slice{Start: r.Start, End: r.End, Reverse: r.Reverse, Limit: r.Limit})
		require.Equal(tb, append([]string{}, want...), keys(scan(tb, f, r)), "%+v", r)
	}
	for _, r := range []driver.Range{
		{}, {Start: b("aa")}, {Start: b("a"), End: b("ab")}, {Start: b("aa"), End: b("ab\x00")}, {End: b("aa")}, {Start: b("aa"), End: b("b")},
	} {
		require.ErrorIs(tb, scanError(tb, f, background, r), driver.ErrRange, "%+v", r)
	}
	got := keys(scan(tb, f, driver.Range{AnyOrder: true}))
	slices.Sort(got)
	require.Equal(tb, all, got)

	require.Error(tb, f.Apply(background, row("a", put("q", "v"))), "a row key shorter than the prefix was accepted")
	_, err := f.Get(background, b("a"), driver.Slice{})
	require.Error(tb, err, "a row key shorter than the prefix was accepted")
	_, err = f.CheckAndPut(background, b("a"), absent("q"), put("q", "v"))
	require.Error(tb, err, "a row key shorter than the prefix was accepted")
}

func checkSpread(tb testing.TB, s *suite) {
	r := random(tb)
	for _, spec := range []driver.FamilySpec{
		{Layout: driver.LayoutOrdered, SpreadBits: 5},
		{Layout: driver.LayoutOrdered, PrefixBytes: 1, SpreadBits: 3},
	} {
		f := s.family(tb, fmt.Sprintf("spread%d_%d", spec.PrefixBytes, spec.SpreadBits), spec)
		var all []string
		var ms []driver.Mutation
		hash := strings.Repeat("h", spec.PrefixBytes)
		for _, e := range edges {
			if key := hash + e; key != "" {
				all = append(all, key)
			}
		}
		for range 200 {
			key := []byte(hash)
			for range 1 + r.IntN(4) {
				key = append(key, byte(r.Uint32()))
			}
			all = append(all, string(key))
		}
		slices.Sort(all)
		all = slices.Compact(all)
		for _, key := range all {
			ms = append(ms, row(key, put("q", "v")))
		}
		apply(tb, f, ms...)
		for i := range 40 {
			q := driver.Range{Reverse: i%2 == 1}
			if i >= 4 {
				x, y := all[r.IntN(len(all))], all[r.IntN(len(all))]
				q.Start, q.End = b(min(x, y)), b(max(x, y))
			}
			if i%3 == 0 {
				q.Limit = 1 + r.IntN(50)
			}
			if spec.PrefixBytes > 0 && i < 4 {
				q.Start, q.End = b("h"), b("i")
			}
			want := sliced(all, driver.Slice{Start: q.Start, End: q.End, Reverse: q.Reverse, Limit: q.Limit})
			require.Equal(tb, append([]string{}, want...), keys(scan(tb, f, q)), "%+v", q)
		}
		for _, key := range all[:20] {
			require.Equal(tb, []string{"q=v"}, get(tb, f, key, driver.Slice{}))
		}
		got := keys(scan(tb, f, driver.Range{AnyOrder: true}))
		slices.Sort(got)
		require.Equal(tb, all, got)
	}
}

func checkAnyOrder(tb testing.TB, s *suite) {
	for _, f := range []driver.Family{s.ordered(tb), s.family(tb, "prefix", driver.FamilySpec{Layout: driver.LayoutOrdered, PrefixBytes: 2})} {
		p := s.prefix()
		want := manyRows(tb, f, p, 2500)
		for _, limit := range []int{0, 1, 1700} {
			r := within(p)
			r.AnyOrder, r.Limit = true, limit
			r.Cells = driver.Slice{Only: bs("k")}
			seen := make(map[string]bool)
			for _, row := range scan(tb, f, r) {
				require.False(tb, seen[string(row.Key)], "%q twice", row.Key)
				require.True(tb, strings.HasPrefix(string(row.Key), p), "%q is not in the range", row.Key)
				require.Equal(tb, []string{"k=" + string(row.Key)}, show(row.Cells))
				seen[string(row.Key)] = true
			}
			if limit == 0 {
				limit = len(want)
			}
			require.Len(tb, seen, limit)
		}
	}
}

func checkParts(tb testing.TB, s *suite) {
	rng := random(tb)
	for _, kind := range []string{"parts", "parts_prefix", "parts_wide"} {
		spec := driver.FamilySpec{Layout: driver.LayoutOrdered, SpreadBits: 4}
		switch kind {
		case "parts_prefix":
			spec = driver.FamilySpec{Layout: driver.LayoutOrdered, PrefixBytes: 2}
		case "parts_wide":
			spec = driver.FamilySpec{Layout: driver.LayoutWide}
		}
		f := s.family(tb, kind, spec)
		var all []string
		for _, e := range edges {
			if len(e) >= max(1, spec.PrefixBytes) {
				all = append(all, e, "tenant"+e)
			}
		}
		for range 300 {
			key := string(binary.BigEndian.AppendUint32(nil, rng.Uint32()))
			all = append(all, key, "tenant"+key)
		}
		slices.Sort(all)
		all = slices.Compact(all)
		var ms []driver.Mutation
		for _, key := range all {
			ms = append(ms, row(key, put("k", key), put("x", "")))
		}
		apply(tb, f, ms...)
		x, y := all[rng.IntN(len(all))], all[rng.IntN(len(all))]
		for _, r := range []driver.Range{
			{}, {Start: b("tenant"), End: b("tenanu")}, {Start: b(min(x, y)), End: b(max(x, y))}, {Start: b(x)}, {End: b(y)},
		} {
			r.AnyOrder, r.Cells = true, driver.Slice{Only: bs("k")}
			want := sliced(all, driver.Slice{Start: r.Start, End: r.End})
			for _, parts := range []int{1, 2, 7} {
				r.Parts = parts
				var got []string
				for r.Part = 0; r.Part < max(1, parts); r.Part++ {
					rows := scan(tb, f, r)
					for _, row := range rows {
						require.Equal(tb, []string{"k=" + string(row.Key)}, show(row.Cells))
					}
					got = append(got, keys(rows)...)
					if r.Part == parts/2 && len(rows) > 1 {
						limited := r
						limited.Limit = len(rows) - 1
						require.Len(tb, scan(tb, f, limited), len(rows)-1, "%+v", limited)
					}
				}
				slices.Sort(got)
				require.Equal(tb, want, slices.Clip(got), "%d parts of %q to %q", parts, r.Start, r.End)
			}
		}
		// The largest number, of which these are the first and last parts.
		for _, part := range []int{0, driver.MaxParts - 1} {
			scan(tb, f, driver.Range{AnyOrder: true, Part: part, Parts: driver.MaxParts})
		}
	}
}

func checkWideScan(tb testing.TB, s *suite) {
	f := s.wide(tb)
	p := s.prefix()
	want := manyRows(tb, f, p, 300)
	require.ErrorIs(tb, scanError(tb, f, background, within(p)), driver.ErrRange)
	r := within(p)
	r.AnyOrder = true
	r.Cells = driver.Slice{Start: b("k"), End: b("l")}
	rows := scan(tb, f, r)
	got := keys(rows)
	slices.Sort(got)
	require.Equal(tb, want, got)
	for _, row := range rows {
		require.Equal(tb, []string{"k=" + string(row.Key)}, show(row.Cells))
	}
}

// Mutations.

func checkApplyMany(tb testing.TB, s *suite) {
	f := s.ordered(tb)
	p := s.prefix()
	apply(tb, f)
	want := manyRows(tb, f, p, 7000)
	require.Equal(tb, want, keys(scan(tb, f, within(p))))
	// Values that are large together.
	var ms []driver.Mutation
	big := strings.Repeat("v", 1<<20)
	for i := range 12 {
		ms = append(ms, row(fmt.Sprintf("%sbig%d", p, i), put("q", big)))
	}
	apply(tb, f, ms...)
	for _, m := range ms {
		cells, err := f.Get(background, m.Row, driver.Slice{})
		require.NoError(tb, err)
		require.Len(tb, cells, 1)
		require.True(tb, string(cells[0].Value) == big)
	}
	for i := range ms {
		ms[i] = driver.Mutation{Row: ms[i].Row, DeleteRow: true}
	}
	apply(tb, f, ms...)
}

func checkApplyAgain(tb testing.TB, s *suite) {
	f := s.ordered(tb)
	p := s.prefix()
	apply(tb, f, row(p+"a", put("old", "1"), put("x", "1")), row(p+"b", put("x", "1")))
	ms := []driver.Mutation{
		{Row: b(p + "a"), Puts: []driver.Cell{put("x", "2"), put("y", "2")}, Deletes: bs("old", "never")},
		{Row: b(p + "b"), DeleteRow: true},
		{Row: b(p + "c"), Deletes: bs("never")},
		{Row: b(p + "d"), DeleteRow: true},
	}
	for range 3 {
		apply(tb, f, ms...)
		require.Equal(tb, []string{p + "a"}, keys(scan(tb, f, within(p))))
		require.Equal(tb, []string{"x=2", "y=2"}, get(tb, f, p+"a", driver.Slice{}))
	}
}

func checkOverlap(tb testing.TB, s *suite) {
	f := s.ordered(tb)
	p := s.prefix()
	apply(tb, f, row(p+"a", put("q", "old")))
	for _, c := range []struct {
		name string
		ms   []driver.Mutation
	}{
		{"put and deleted", []driver.Mutation{{Row: b(p + "a"), Puts: []driver.Cell{put("q", "secret")}, Deletes: bs("q")}}},
		{"put twice", []driver.Mutation{row(p+"a", put("q", "secret"), put("q", "secret"))}},
		{"deleted twice", []driver.Mutation{{Row: b(p + "a"), Deletes: bs("q", "q")}}},
		{"row deleted and put", []driver.Mutation{{Row: b(p + "a"), DeleteRow: true, Puts: []driver.Cell{put("r", "secret")}}}},
		{"row deleted and cell deleted", []driver.Mutation{{Row: b(p + "a"), DeleteRow: true, Deletes: bs("r")}}},
		{"one row twice", []driver.Mutation{row(p+"b", put("q", "secret")), row(p+"a", put("x", "1")), row(p+"a", put("y", "1"))}},
		{"empty qualifier twice", []driver.Mutation{row(p+"a", put("", "secret"), driver.Cell{Value: b("secret")})}},
	} {
		err := f.Apply(background, c.ms...)
		require.ErrorIs(tb, err, driver.ErrOverlap, c.name)
		require.NotContains(tb, err.Error(), "secret")
		m := c.ms[0]
		if committer, ok := f.(driver.Committer); ok && len(c.ms) == 1 && !m.DeleteRow {
			_, err := committer.Commit(background, m.Row, nil, m.Puts, m.Deletes)
			require.ErrorIs(tb, err, driver.ErrOverlap, "Commit: %s", c.name)
		}
	}
	_, err := f.CheckAndPut(background, b(p+"a"), put("q", "old"), put("q", "1"), put("q", "2"))
	require.ErrorIs(tb, err, driver.ErrOverlap)
	require.Equal(tb, []string{"q=old"}, get(tb, f, p+"a", driver.Slice{}), "a refused change was applied")
	require.Empty(tb, get(tb, f, p+"b", driver.Slice{}), "a refused change was applied")
}

func checkDeleteRow(tb testing.TB, s *suite) {
	for _, f := range []driver.Family{s.ordered(tb), s.wide(tb)} {
		p := s.prefix()
		for _, n := range []int{1, 3, 700} {
			m := row(p + "a")
			for i := range n {
				m.Puts = append(m.Puts, put(fmt.Sprintf("%04d", i), "v"))
			}
			apply(tb, f, m, row(p+"a\x00", put("q", "stays")), row(p+"Z", put("q", "stays")))
			apply(tb, f, driver.Mutation{Row: b(p + "a"), DeleteRow: true})
			require.Empty(tb, get(tb, f, p+"a", driver.Slice{}), "%d cells", n)
			apply(tb, f, row(p+"a", put("new", "v")))
			require.Equal(tb, []string{"new=v"}, get(tb, f, p+"a", driver.Slice{}), "old cells came back")
			require.Equal(tb, []string{"q=stays"}, get(tb, f, p+"a\x00", driver.Slice{}))
			require.Equal(tb, []string{"q=stays"}, get(tb, f, p+"Z", driver.Slice{}))
		}
	}
}

// checkLastWins repeats, without a pause, what a database that orders by milliseconds gets wrong.
func checkLastWins(tb testing.TB, s *suite) {
	f := s.ordered(tb)
	p := s.prefix()
	key := p + "a"
	deleteCell := driver.Mutation{Row: b(key), Deletes: bs("q")}
	deleteRow := driver.Mutation{Row: b(key), DeleteRow: true}
	for i := range 40 {
		v := fmt.Sprint(i)
		apply(tb, f, row(key, put("q", "old")))
		apply(tb, f, row(key, put("q", v)))
		require.Equal(tb, []string{"q=" + v}, get(tb, f, key, driver.Slice{}), "put then put")
		apply(tb, f, deleteCell)
		require.Empty(tb, get(tb, f, key, driver.Slice{}), "put then delete")
		apply(tb, f, row(key, put("q", v)))
		require.Equal(tb, []string{"q=" + v}, get(tb, f, key, driver.Slice{}), "delete then put")
		apply(tb, f, deleteRow)
		require.Empty(tb, get(tb, f, key, driver.Slice{}), "put then delete row")
		apply(tb, f, row(key, put("q", v)))
		require.Equal(tb, []string{"q=" + v}, get(tb, f, key, driver.Slice{}), "delete row then put")
		apply(tb, f, deleteCell)
		apply(tb, f, row(key, put("q", "w"+v)))
		apply(tb, f, deleteRow)
		apply(tb, f, row(key, put("q", "x"+v)))
		require.Equal(tb, []string{"q=x" + v}, get(tb, f, key, driver.Slice{}), "put and delete by turns")
	}
}

func checkConcurrentApply(tb testing.TB, s *suite) {
	f := s.ordered(tb)
	p := s.prefix()
	var writers sync.WaitGroup
	errs := make([]error, 8)
	for w := range errs {
		writers.Go(func() {
			for i := range 10 {
				v := fmt.Sprintf("%d-%d", w, i)
				// A row that all write and one of its own.
				errs[w] = errors.Join(errs[w], f.Apply(background, row(p+"a", put("q", v)), row(p+"own"+fmt.Sprint(w), put("q", v))))
			}
		})
	}
	writers.Wait()
	require.NoError(tb, errors.Join(errs...))
	got := get(tb, f, p+"a", driver.Slice{})
	require.Len(tb, got, 1)
	require.Regexp(tb, `^q=[0-7]-[0-9]$`, got[0])
	for w := range errs {
		require.Equal(tb, []string{"q=" + fmt.Sprint(w) + "-9"}, get(tb, f, p+"own"+fmt.Sprint(w), driver.Slice{}))
	}
}

func checkAtomicRow(tb testing.TB, s *suite) {
	for _, f := range []driver.Family{s.ordered(tb), s.wide(tb)} {
		p := s.prefix()
		const cells = 10
		write := func(i int) error {
			// Odd generations have the cells 0 to 9, even ones 5 to 14.
			m := driver.Mutation{Row: b(p + "a")}
			low, other := 5, 0
			if i%2 == 1 {
				low, other = 0, 10
			}
			for c := range cells {
				m.Puts = append(m.Puts, put(fmt.Sprintf("%02d", low+c), fmt.Sprint(i)))
			}
			for c := range cells / 2 {
				m.Deletes = append(m.Deletes, fmt.Appendf(nil, "%02d", other+c))
			}
			return f.Apply(background, m)
		}
		require.NoError(tb, write(0))
		ctx, cancel := context.WithCancel(background)
		var writer sync.WaitGroup
		var writeErr error
		writer.Go(func() {
			for i := 1; ctx.Err() == nil && writeErr == nil; i++ {
				writeErr = write(i)
			}
		})
		whole := func(got []driver.Cell) {
			tb.Helper()
			require.Len(tb, got, cells, "a torn row: %q", show(got))
			var first int
			_, err := fmt.Sscanf(string(got[0].Qualifier), "%d", &first)
			require.NoError(tb, err)
			for i, c := range got {
				require.Equal(tb, string(got[0].Value), string(c.Value), "a torn row: %q", show(got))
				require.Equal(tb, fmt.Sprintf("%02d", first+i), string(c.Qualifier), "a torn row: %q", show(got))
			}
		}
		r := within(p)
		r.AnyOrder = f == s.wide(tb)
		func() {
			defer writer.Wait()
			defer cancel()
			for i := range 150 {
				got, err := f.Get(background, b(p+"a"), driver.Slice{})
				require.NoError(tb, err)
				whole(got)
				if r.AnyOrder && i%8 > 0 {
					continue // it may have to read the whole family
				}
				rows := scan(tb, f, r)
				require.Len(tb, rows, 1)
				whole(rows[0].Cells)
			}
		}()
		require.NoError(tb, writeErr)
	}
}

// checkTTL allows for databases that round the time of the put down, so that a cell may end up to
// a second early, and for a second of other slack.
func checkTTL(tb testing.TB, s *suite) {
	f := s.ordered(tb)
	p := s.prefix()
	ttl := func(c driver.Cell, ttl time.Duration) driver.Cell {
		c.TTL = ttl
		return c
	}
	start := time.Now()
	apply(tb, f,
		row(p+"mixed", ttl(put("gone", "1"), 2*time.Second), put("stays", "1")),
		row(p+"gone", ttl(put("q", "1"), 2*time.Second)),
		row(p+"brief", ttl(put("q", "1"), 1)), // rounded up to a second
		row(p+"renewed", ttl(put("q", "1"), 2*time.Second)),
		row(p+"long", ttl(put("q", "1"), 100*time.Hour)),
	)
	stored := time.Now()
	apply(tb, f, row(p+"renewed", put("q", "2")))
	rows := scan(tb, f, within(p))
	if time.Since(start) < 700*time.Millisecond {
		require.Equal(tb, []string{"gone=1", "stays=1"}, get(tb, f, p+"mixed", driver.Slice{}), "ended early")
		require.Equal(tb, []string{"q=1"}, get(tb, f, p+"gone", driver.Slice{}), "ended early")
		require.Contains(tb, keys(rows), p+"gone")
	}
	for _, r := range rows {
		for _, c := range r.Cells {
			require.Zero(tb, c.TTL, "reads leave the TTL zero")
		}
	}
	eventually(tb, 4*time.Second, "a cell of one second stayed", func() bool {
		return len(get(tb, f, p+"brief", driver.Slice{})) == 0
	})
	eventually(tb, time.Until(stored.Add(5*time.Second)), "a cell of two seconds stayed", func() bool {
		return len(get(tb, f, p+"gone", driver.Slice{})) == 0 && len(get(tb, f, p+"mixed", driver.Slice{})) == 1
	})
	require.Equal(tb, []string{p + "long", p + "mixed", p + "renewed"}, keys(scan(tb, f, within(p))))
	require.Equal(tb, []string{"stays=1"}, get(tb, f, p+"mixed", driver.Slice{}))
	require.Equal(tb, []string{"q=2"}, get(tb, f, p+"renewed", driver.Slice{}), "the time to live of an overwritten value")
	require.Equal(tb, []string{"q=1"}, get(tb, f, p+"long", driver.Slice{}))

	require.ErrorIs(tb, f.Apply(background, row(p+"x", ttl(put("q", "1"), -1))), driver.ErrRange)
}

// Replacements.

// seen reads a cell of a row with its stamp.
func seen(tb testing.TB, f driver.Family, key, qualifier string) driver.Cell {
	tb.Helper()
	cells, err := f.Get(background, b(key), driver.Slice{Only: bs(qualifier), Stamps: true})
	require.NoError(tb, err)
	require.Len(tb, cells, 1)
	return cells[0]
}

func replace(tb testing.TB, f driver.Family, replacements ...driver.Replacement) (late []int) {
	tb.Helper()
	late, err := f.Replace(background, replacements...)
	require.NoError(tb, err)
	return late
}

// late requires that exactly the replacements at the indexes are reported as too late, or none by a
// database that cannot tell.
func (s *suite) late(tb testing.TB, got []int, want ...int) {
	tb.Helper()
	if s.o.Blind {
		want = nil
	}
	require.Equal(tb, append([]int{}, want...), append([]int{}, got...), "the replacements that came too late")
}

// generation is a mutation of the row as the contract of Replace demands: all of them name the
// same cells, and give "id" a value of its own. One cell is there in every other generation only.
func generation(key string, i int, name string) (m driver.Mutation) {
	m = row(key, put("id", name), put("x", name))
	switch i % 3 {
	case 0:
		m.Puts, m.Deletes = append(m.Puts, put("", name), put("y", name)), bs("z")
	case 1:
		m.Puts, m.Deletes = append(m.Puts, put("z", name)), bs("", "y")
	default:
		m.Deletes = bs("", "y", "z")
	}
	return m
}

// replacement is what the generation is to be replaced by.
func replacement(m driver.Mutation, read driver.Cell) driver.Replacement {
	return driver.Replacement{Row: m.Row, Seen: read, Puts: m.Puts, Deletes: m.Deletes}
}

// after is what a row has after the generation.
func after(m driver.Mutation) []string {
	want := show(m.Puts)
	slices.Sort(want)
	return want
}

func checkStamps(tb testing.TB, s *suite) {
	for _, f := range []driver.Family{s.ordered(tb), s.wide(tb)} {
		p := s.prefix()
		m := generation(p+"a", 0, "1")
		apply(tb, f, m, row(p+"b", put("q", "v")))
		slices := []driver.Slice{{}, {Only: bs("id", "y")}, {Start: b("id"), End: b("y")}, {Limit: 1}, {Reverse: true, Limit: 2}}
		if f == s.wide(tb) {
			slices = append(slices, driver.Slice{Head: true, Start: b("w")}, driver.Slice{Head: true, Start: b("zz")}, driver.Slice{Head: true, Limit: 1})
		}
		for _, slice := range slices {
			plain, err := f.Get(background, b(p+"a"), slice)
			require.NoError(tb, err)
			require.NotEmpty(tb, plain)
			slice.Stamps = true
			stamped, err := f.Get(background, b(p+"a"), slice)
			require.NoError(tb, err)
			require.Equal(tb, show(plain), show(stamped), "%+v", slice)
			for i := range plain {
				require.Zero(tb, plain[i].Stamp, "%+v", slice)
				require.NotZero(tb, stamped[i].Stamp, "%+v", slice)
				require.Equal(tb, stamped[0].Stamp, stamped[i].Stamp, "of one mutation")
			}
		}
		for _, anyOrder := range []bool{false, true} {
			if !anyOrder && f == s.wide(tb) {
				continue
			}
			r := within(p)
			r.AnyOrder = anyOrder
			for _, row := range scan(tb, f, r) {
				for _, c := range row.Cells {
					require.Zero(tb, c.Stamp)
				}
			}
			r.Cells.Stamps = true
			rows := scan(tb, f, r)
			require.Len(tb, rows, 2)
			for _, row := range rows {
				got, err := f.Get(background, row.Key, driver.Slice{Stamps: true})
				require.NoError(tb, err)
				require.Equal(tb, got, row.Cells)
			}
		}
		// A row that is not on one page of anything.
		wide := row(p + "wide")
		for i := range 3000 {
			wide.Puts = append(wide.Puts, put(fmt.Sprintf("%04d", i), "v"))
		}
		apply(tb, f, wide)
		r := within(p)
		r.AnyOrder, r.Cells = true, driver.Slice{Start: b("0"), End: b("9"), Stamps: true}
		rows := scan(tb, f, r)
		require.Len(tb, rows, 1)
		require.Len(tb, rows[0].Cells, 3000)
		for _, c := range rows[0].Cells {
			require.NotZero(tb, c.Stamp)
		}
	}
}

func checkReplace(tb testing.TB, s *suite) {
	for _, f := range []driver.Family{s.ordered(tb), s.wide(tb)} {
		p := s.prefix()
		for from := range 3 {
			for to := range 3 {
				key := fmt.Sprintf("%s%d%d", p, from, to)
				apply(tb, f, generation(key, from, "old"), row(key+"x", put("id", "stays")))
				// Twice over, what is read the second time being a replacement.
				for i, name := range []string{"new", "newer"} {
					m := generation(key, to+i, name)
					r := replacement(m, seen(tb, f, key, "id"))
					s.late(tb, replace(tb, f, r))
					require.Equal(tb, after(m), get(tb, f, key, driver.Slice{}))
					s.late(tb, replace(tb, f, r), 0)
					require.Equal(tb, after(m), get(tb, f, key, driver.Slice{}), "again")
				}
				require.Equal(tb, []string{"id=stays"}, get(tb, f, key+"x", driver.Slice{}))
			}
		}
		if f == s.wide(tb) {
			m := generation(p+"h", 0, "head")
			apply(tb, f, generation(p+"h", 1, "old"))
			replace(tb, f, replacement(m, seen(tb, f, p+"h", "id")))
			require.Equal(tb, []string{"=head"}, get(tb, f, p+"h", driver.Slice{Head: true, Start: b("zz")}))
			replace(tb, f, replacement(generation(p+"h", 1, "none"), seen(tb, f, p+"h", "id")))
			require.Empty(tb, get(tb, f, p+"h", driver.Slice{Head: true, Start: b("zz")}))
		}
		// Of two replacements of one row, the one whose name is left has all that it put, whatever the
		// other one deletes.
		for i, names := range [][2]string{{"1", "2"}, {"2", "1"}} {
			key := fmt.Sprint(p, "both", i)
			apply(tb, f, row(key, put("id", "old"), put("x", "old"), put("y", "old")))
			read := seen(tb, f, key, "id")
			of := map[string]string{names[0]: "x", names[1]: "y"}
			for j, name := range names {
				q := of[name]
				late := replace(tb, f, driver.Replacement{
					Row: b(key), Seen: read, Puts: []driver.Cell{put("id", name), put(q, name)}, Deletes: bs(string("yx"[q[0]-'x'])),
				})
				s.late(tb, late, []int{0}[:j]...)
			}
			left := get(tb, f, key, driver.Slice{})
			name := strings.TrimPrefix(left[0], "id=")
			require.Contains(tb, left, of[name]+"="+name)
		}
		// A row can be replaced by nothing.
		m := generation(p+"gone", 1, "old")
		apply(tb, f, m)
		replace(tb, f, driver.Replacement{Row: m.Row, Seen: seen(tb, f, p+"gone", "id"), Deletes: bs("", "id", "x", "y", "z")})
		require.Empty(tb, get(tb, f, p+"gone", driver.Slice{}))
	}
}

// checkReplaceLoses repeats, without a pause, what a database that orders by its clock gets wrong.
func checkReplaceLoses(tb testing.TB, s *suite) {
	for _, f := range []driver.Family{s.ordered(tb), s.wide(tb)} {
		key := s.prefix() + "a"
		for i := range 24 {
			name := fmt.Sprint(i)
			apply(tb, f, generation(key, i, "old"+name))
			read := seen(tb, f, key, "id")
			late := replacement(generation(key, i/2, "late"+name), read)
			if i%2 == 1 {
				replace(tb, f, replacement(generation(key, i/3, "kept"+name), read))
				late.Seen = seen(tb, f, key, "id")
			}
			want := []string{}
			if i%4 == 3 {
				apply(tb, f, driver.Mutation{Row: b(key), DeleteRow: true})
			} else {
				m := generation(key, i/4, "new"+name)
				apply(tb, f, m)
				want = after(m)
			}
			s.late(tb, replace(tb, f, late), 0)
			require.Equal(tb, want, get(tb, f, key, driver.Slice{}), "step %d", i)
		}
	}
}

func checkReplaceIsOld(tb testing.TB, s *suite) {
	for _, f := range []driver.Family{s.ordered(tb), s.wide(tb)} {
		key := s.prefix() + "a"
		for i := range 24 {
			name := fmt.Sprint(i)
			apply(tb, f, generation(key, i, "old"+name))
			replace(tb, f, replacement(generation(key, i/3, "replaced"+name), seen(tb, f, key, "id")))
			m := generation(key, i/9, "new"+name)
			apply(tb, f, m)
			require.Equal(tb, after(m), get(tb, f, key, driver.Slice{}), "step %d", i)
			apply(tb, f, driver.Mutation{Row: b(key), DeleteRow: true})
			require.Empty(tb, get(tb, f, key, driver.Slice{}), "step %d", i)
		}
	}
}

// checkReplaceRace has one writer and two replacers to each row. The name of a generation is its
// number, and that of a replacement begins with the number that it saw.
func checkReplaceRace(tb testing.TB, s *suite) {
	f := s.ordered(tb)
	p := s.prefix()
	const rows, generations = 4, 60
	whole := func(cells []driver.Cell) error {
		var name string
		for _, c := range cells {
			if name == "" {
				name = string(c.Value)
			}
			if string(c.Value) != name {
				return fmt.Errorf("a mixed row: %q", show(cells))
			}
		}
		var i int
		if _, err := fmt.Sscanf(name, "%d", &i); err != nil {
			return err
		}
		if strings.Contains(name, "replaced") {
			i++
		}
		if want := after(generation("", i, name)); !slices.Equal(want, show(cells)) {
			return fmt.Errorf("a mixed row: %q, want %q", show(cells), want)
		}
		return nil
	}
	var failed atomic.Value
	var done atomic.Int64
	var all sync.WaitGroup
	for n := range rows {
		key := fmt.Sprint(p, n)
		apply(tb, f, generation(key, 0, "000"))
		all.Go(func() {
			defer done.Add(1)
			for i := 1; i < generations && failed.Load() == nil; i++ {
				if err := f.Apply(background, generation(key, i, fmt.Sprintf("%03d", i))); err != nil {
					failed.Store(err)
				}
				if i%4 == 0 {
					time.Sleep(time.Millisecond)
				}
			}
		})
	}
	var replaced atomic.Int64
	for w := range 2 {
		all.Go(func() {
			for n := 0; done.Load() < rows && failed.Load() == nil; n++ {
				var rs []driver.Replacement
				r := within(p)
				r.Cells.Stamps = true
				for row, err := range f.Scan(background, r) {
					if err == nil {
						err = whole(row.Cells)
					}
					if err != nil {
						failed.Store(err)
						return
					}
					read := row.Cells[slices.IndexFunc(row.Cells, func(c driver.Cell) bool { return string(c.Qualifier) == "id" })]
					if strings.Contains(string(read.Value), "replaced") {
						continue
					}
					var i int
					_, _ = fmt.Sscanf(string(read.Value), "%d", &i)
					m := generation(string(row.Key), i+1, fmt.Sprintf("%s replaced %d by %d", read.Value, n, w))
					rs = append(rs, replacement(m, read))
				}
				if _, err := f.Replace(background, rs...); err != nil {
					failed.Store(err)
				}
				replaced.Add(int64(len(rs)))
			}
		})
	}
	all.Wait()
	require.Nil(tb, failed.Load())
	require.NotZero(tb, replaced.Load())
	for n := range rows {
		cells, err := f.Get(background, b(fmt.Sprint(p, n)), driver.Slice{})
		require.NoError(tb, err)
		require.NoError(tb, whole(cells))
		require.True(tb, strings.HasPrefix(string(cells[0].Value), fmt.Sprintf("%03d", generations-1)), "the last write was lost: %q", show(cells))
	}
	// Of two replacements of what both have seen, one comes too late.
	for i := range 30 {
		key := fmt.Sprint(p, "two", i)
		apply(tb, f, generation(key, 0, "old"))
		read := seen(tb, f, key, "id")
		var late [2][]int
		var errs [2]error
		var both sync.WaitGroup
		for w := range late {
			both.Go(func() {
				late[w], errs[w] = f.Replace(background, replacement(generation(key, 1, fmt.Sprint("new", w)), read))
			})
		}
		both.Wait()
		require.NoError(tb, errors.Join(errs[:]...))
		s.late(tb, slices.Concat(late[0], late[1]), 0)
	}
}

func checkReplaceMany(tb testing.TB, s *suite) {
	for _, f := range []driver.Family{s.ordered(tb), s.family(tb, "prefix", driver.FamilySpec{Layout: driver.LayoutOrdered, PrefixBytes: 2})} {
		p := s.prefix()
		replace(tb, f)
		want := manyRows(tb, f, p, 3000)
		long := strings.Repeat("new", 200) // so that a database does not take all of them at once
		r := within(p)
		r.AnyOrder, r.Cells.Stamps = true, true
		var rs []driver.Replacement
		for _, row := range scan(tb, f, r) {
			read := row.Cells[slices.IndexFunc(row.Cells, func(c driver.Cell) bool { return string(c.Qualifier) == "k" })]
			rs = append(rs, driver.Replacement{Row: row.Key, Seen: read, Puts: []driver.Cell{put("k", long+string(row.Key))}})
		}
		require.Len(tb, rs, len(want))
		// Every third row is written between.
		var ms []driver.Mutation
		var written []int
		for i := 0; i < len(rs); i += 3 {
			ms, written = append(ms, row(string(rs[i].Row), put("k", "written"))), append(written, i)
		}
		apply(tb, f, ms...)
		s.late(tb, replace(tb, f, rs...), written...)
		r.Cells = driver.Slice{Only: bs("k")}
		got := make(map[string]string)
		for _, row := range scan(tb, f, r) {
			got[string(row.Key)] = string(row.Cells[0].Value)
		}
		for i, r := range rs {
			value := long + string(r.Row)
			if i%3 == 0 {
				value = "written"
			}
			require.Equal(tb, value, got[string(r.Row)])
		}
	}
}

func checkReplaceRefusals(tb testing.TB, s *suite) {
	f := s.ordered(tb)
	p := s.prefix()
	apply(tb, f, row(p+"a", put("q", "old"), put("r", "old")))
	read := seen(tb, f, p+"a", "q")
	unstamped, empty := read, read
	unstamped.Stamp, empty.Value = 0, nil
	expiring := put("q", "secret")
	expiring.TTL = time.Hour
	secret := []driver.Cell{put("q", "secret")}
	for _, c := range []struct {
		name string
		rs   []driver.Replacement
		want error // nil is any
	}{
		{"without a stamp", []driver.Replacement{{Row: b(p + "a"), Seen: unstamped, Puts: secret}}, driver.ErrSeen},
		{"without a value", []driver.Replacement{{Row: b(p + "a"), Seen: empty, Puts: secret}}, driver.ErrSeen},
		{"of another cell", []driver.Replacement{{Row: b(p + "a"), Seen: read, Puts: []driver.Cell{put("r", "secret")}}}, driver.ErrSeen},
		{"by the same value", []driver.Replacement{{Row: b(p + "a"), Seen: read, Puts: []driver.Cell{put("q", "old"), put("r", "secret")}}}, driver.ErrSeen},
		{"put and deleted", []driver.Replacement{{Row: b(p + "a"), Seen: read, Puts: secret, Deletes: bs("q")}}, driver.ErrOverlap},
		{"one row twice", []driver.Replacement{{Row: b(p + "a"), Seen: read, Puts: secret}, {Row: b(p + "a"), Seen: read, Puts: secret}}, driver.ErrOverlap},
		{"too large", []driver.Replacement{{Row: b(p + "a"), Seen: read, Puts: []driver.Cell{{Qualifier: b("q"), Value: make([]byte, driver.MaxValue+1)}}}}, driver.ErrTooLarge},
		{"no row", []driver.Replacement{{Seen: read, Puts: secret}}, nil},
		{"with a TTL", []driver.Replacement{{Row: b(p + "a"), Seen: read, Puts: []driver.Cell{expiring}}}, nil},
	} {
		_, err := f.Replace(background, c.rs...)
		require.Error(tb, err, c.name)
		if c.want != nil {
			require.ErrorIs(tb, err, c.want, c.name)
		}
		require.NotContains(tb, err.Error(), "secret")
		require.Equal(tb, []string{"q=old", "r=old"}, get(tb, f, p+"a", driver.Slice{}), c.name)
	}
}

// Conditions.

func checkAndPut(tb testing.TB, f driver.Family, key string, expect driver.Cell, puts ...driver.Cell) bool {
	tb.Helper()
	ok, err := f.CheckAndPut(background, b(key), expect, puts...)
	require.NoError(tb, err)
	return ok
}

func checkCheckAndPut(tb testing.TB, s *suite) {
	for _, f := range []driver.Family{s.ordered(tb), s.wide(tb)} {
		p := s.prefix()
		key := p + "a"
		is := func(cells ...string) {
			tb.Helper()
			require.Equal(tb, cells, get(tb, f, key, driver.Slice{}))
		}
		require.False(tb, checkAndPut(tb, f, key, put("v", "1"), put("v", "2")), "an absent row has no value")
		require.Empty(tb, get(tb, f, key, driver.Slice{}))
		require.True(tb, checkAndPut(tb, f, key, absent("v"), put("v", "1"), put("x", "a")))
		is("v=1", "x=a")
		require.False(tb, checkAndPut(tb, f, key, absent("v"), put("v", "2"), put("x", "b")), "a cell that exists is not absent")
		is("v=1", "x=a")
		require.False(tb, checkAndPut(tb, f, key, put("v", "2"), put("v", "3")), "another value")
		require.False(tb, checkAndPut(tb, f, key, put("v", "1\x00"), put("v", "3")), "a longer value")
		require.False(tb, checkAndPut(tb, f, key, put("v", "\x00"), put("v", "3")), "another value")
		is("v=1", "x=a")
		require.True(tb, checkAndPut(tb, f, key, put("v", "1"), put("v", "12"), put("y", "c")))
		is("v=12", "x=a", "y=c")
		require.False(tb, checkAndPut(tb, f, key, put("v", "1"), put("v", "3")), "a prefix of the value")
		require.True(tb, checkAndPut(tb, f, key, put("v", "12"), put("z", "d")), "the cell that is checked need not be put")
		is("v=12", "x=a", "y=c", "z=d")
		require.True(tb, checkAndPut(tb, f, key, absent("none"), put("v", "3")), "an absent cell of a row that exists")
		is("v=3", "x=a", "y=c", "z=d")
		require.True(tb, checkAndPut(tb, f, key, put("v", "3"), put("v", "3")), "the same value again")
		require.True(tb, checkAndPut(tb, f, key+"\x00", absent(""), put("", "edge")), "an empty qualifier")
		require.True(tb, checkAndPut(tb, f, key+"\x00", put("", "edge"), put("", "\xff\x00")))
		is("v=3", "x=a", "y=c", "z=d")
		for i := range 20 { // without a pause
			require.True(tb, checkAndPut(tb, f, p+"n", number(i), number(i+1)), "step %d", i)
		}
	}
}

// number is the cell "n" of a counter, absent for zero.
func number(i int) driver.Cell {
	if i == 0 {
		return absent("n")
	}
	return put("n", fmt.Sprint(i))
}

func checkConditionalRefusals(tb testing.TB, s *suite) {
	f := s.ordered(tb)
	p := s.prefix()
	_, err := f.CheckAndPut(background, b(p+"a"), driver.Cell{Qualifier: b("q"), Value: []byte{}}, put("q", "v"))
	require.Error(tb, err, "an empty value was expected")
	_, err = f.CheckAndPut(background, b(p+"a"), absent("q"), driver.Cell{Qualifier: b("q"), Value: b("v"), TTL: time.Hour})
	require.Error(tb, err, "a TTL under a condition")
	if c, ok := f.(driver.Committer); ok {
		_, err := c.Commit(background, b(p+"a"), []driver.Cell{absent("x"), {Qualifier: b("q"), Value: []byte{}}}, nil, nil)
		require.Error(tb, err, "an empty value was expected")
		_, err = c.Commit(background, b(p+"a"), nil, []driver.Cell{{Qualifier: b("q"), Value: b("v"), TTL: time.Hour}}, nil)
		require.Error(tb, err, "a TTL under a condition")
	}
	require.Empty(tb, get(tb, f, p+"a", driver.Slice{}))
}

func checkRace(tb testing.TB, s *suite) {
	f := s.wide(tb)
	p := s.prefix()
	for round := range 10 {
		key := fmt.Sprintf("%s%d", p, round)
		expect := absent("q")
		if round%2 == 1 {
			require.True(tb, checkAndPut(tb, f, key, absent("q"), put("q", "old")))
			expect = put("q", "old")
		}
		const racers = 8
		var (
			race sync.WaitGroup
			won  [racers]bool
			errs [racers]error
			gate = make(chan struct{})
		)
		for i := range racers {
			race.Go(func() {
				<-gate
				won[i], errs[i] = f.CheckAndPut(background, b(key), expect, put("q", fmt.Sprint(i)), put(fmt.Sprintf("by%d", i), ""))
			})
		}
		close(gate)
		race.Wait()
		winners, unknown := 0, 0
		for i := range racers {
			switch {
			case errors.Is(errs[i], driver.ErrUnknownOutcome):
				unknown++
			default:
				require.NoError(tb, errs[i])
			}
			if won[i] {
				winners++
			}
		}
		got := get(tb, f, key, driver.Slice{})
		require.Len(tb, got, 2, "%q", got)
		var winner int
		_, err := fmt.Sscanf(got[1], "q=%d", &winner)
		require.NoError(tb, err, "%q", got)
		require.Equal(tb, fmt.Sprintf("by%d=", winner), got[0])
		require.True(tb, won[winner] || errs[winner] != nil, "the loser %d left its value", winner)
		require.LessOrEqual(tb, winners, 1, "several won")
		if unknown == 0 {
			require.Equal(tb, 1, winners, "exactly one wins")
		}
	}
}

func checkCounter(tb testing.TB, s *suite) {
	f := s.wide(tb)
	p := s.prefix()
	const workers, steps = 8, 4
	var (
		work    sync.WaitGroup
		errs    [workers]error
		unknown atomic.Int64
	)
	for w := range workers {
		work.Go(func() {
			for done := 0; done < steps && errs[w] == nil; {
				cells, err := f.Get(background, b(p+"a"), driver.Slice{})
				if err != nil {
					errs[w] = err
					return
				}
				n := 0
				if len(cells) > 0 {
					_, err = fmt.Sscan(string(cells[0].Value), &n)
				}
				if err != nil {
					errs[w] = err
					return
				}
				ok, err := f.CheckAndPut(background, b(p+"a"), number(n), number(n+1))
				switch {
				case errors.Is(err, driver.ErrUnknownOutcome):
					unknown.Add(1)
					done++ // counted, perhaps in vain
				case err != nil:
					errs[w] = err
				case ok:
					done++
				}
			}
		})
	}
	work.Wait()
	require.NoError(tb, errors.Join(errs[:]...))
	var n int
	_, err := fmt.Sscanf(get(tb, f, p+"a", driver.Slice{})[0], "n=%d", &n)
	require.NoError(tb, err)
	require.LessOrEqual(tb, n, workers*steps)
	require.GreaterOrEqual(tb, n, workers*steps-int(unknown.Load()), "updates were lost")
}

func committer(tb testing.TB, f driver.Family) driver.Committer {
	tb.Helper()
	c, ok := f.(driver.Committer)
	if !ok {
		tb.Skip("no Committer")
	}
	return c
}

func checkCommit(tb testing.TB, s *suite) {
	for _, f := range []driver.Family{s.wide(tb), s.ordered(tb)} {
		c := committer(tb, f)
		p := s.prefix()
		key := p + "a"
		commit := func(expect, puts []driver.Cell, deletes ...string) bool {
			tb.Helper()
			ok, err := c.Commit(background, b(key), expect, puts, bs(deletes...))
			require.NoError(tb, err)
			return ok
		}
		is := func(cells ...string) {
			tb.Helper()
			require.Equal(tb, append([]string{}, cells...), get(tb, f, key, driver.Slice{}))
		}
		type cells = []driver.Cell
		require.True(tb, commit(cells{absent("x"), absent("y")}, cells{put("x", "1"), put("y", "1"), put("z", "1")}))
		is("x=1", "y=1", "z=1")
		require.False(tb, commit(cells{put("x", "1"), put("y", "2")}, cells{put("x", "9")}, "z"), "the second does not hold")
		require.False(tb, commit(cells{put("x", "2"), put("y", "1")}, cells{put("x", "9")}, "z"), "the first does not hold")
		require.False(tb, commit(cells{put("x", "1"), absent("y")}, cells{put("x", "9")}, "z"), "present, not absent")
		require.False(tb, commit(cells{put("x", "1"), put("none", "1")}, cells{put("x", "9")}, "z"), "absent, not present")
		is("x=1", "y=1", "z=1")
		require.True(tb, commit(cells{put("x", "1"), put("y", "1"), absent("none")}, cells{put("x", "2")}, "y", "never"))
		is("x=2", "z=1")
		require.True(tb, commit(cells{absent("y"), put("x", "2")}, nil, "z"), "deletes alone")
		is("x=2")
		require.True(tb, commit(cells{absent("z")}, cells{put("z", "2")}), "a deleted cell is absent")
		is("x=2", "z=2")
		require.True(tb, commit(cells{put("z", "2")}, nil, "x", "z"), "the cell that is checked may be deleted")
		is()
		require.True(tb, commit(cells{absent("x"), absent("z")}, cells{put("x", "3")}), "the row may come back")
		is("x=3")
		for i := range 10 { // without a pause
			require.True(tb, commit(cells{put("x", "3")}, cells{put("w", fmt.Sprint(i))}), "round %d", i)
			require.True(tb, commit(cells{put("w", fmt.Sprint(i))}, nil, "w"), "round %d", i)
			is("x=3")
		}
		// Many cells in one commit.
		var puts []driver.Cell
		var deletes []string
		for i := range 50 {
			puts = append(puts, put(fmt.Sprintf("m%03d", i), "v"))
			deletes = append(deletes, fmt.Sprintf("m%03d", i))
		}
		require.True(tb, commit(cells{put("x", "3")}, puts))
		require.Len(tb, get(tb, f, key, driver.Slice{}), 51)
		require.True(tb, commit(cells{put("m049", "v")}, cells{put("x", "4")}, deletes...))
		is("x=4")
		_, err := c.Commit(background, b(key), nil, cells{put("x", "5")}, bs("x"))
		require.ErrorIs(tb, err, driver.ErrOverlap)
		is("x=4")
	}
}

// checkSwap relabels as an order index does: labels that exist before and after change their
// values, some go and some come, and no reader sees a mixture.
func checkSwap(tb testing.TB, s *suite) {
	f := s.wide(tb)
	c := committer(tb, f)
	p := s.prefix()
	key := b(p + "a")
	ok, err := c.Commit(background, key, []driver.Cell{absent("version")},
		[]driver.Cell{put("version", "0"), put("label1", "A"), put("label2", "B")}, nil)
	require.NoError(tb, err)
	require.True(tb, ok)
	ctx, cancel := context.WithCancel(background)
	var readers sync.WaitGroup
	var torn atomic.Value
	for range 2 {
		readers.Go(func() {
			for ctx.Err() == nil {
				cells, err := f.Get(background, key, driver.Slice{})
				if err != nil {
					torn.Store(err.Error())
					return
				}
				got := strings.Join(show(cells), " ")
				if !strings.HasPrefix(got, "label1=A label2=B version=") && !strings.HasPrefix(got, "label1=B label2=A version=") &&
					!strings.HasPrefix(got, "label2=A label3=B version=") {
					torn.Store(got)
					return
				}
			}
		})
	}
	func() {
		defer readers.Wait()
		defer cancel()
		for i := 0; i < 30; i += 3 {
			for j, change := range []struct {
				puts    []driver.Cell
				deletes [][]byte
			}{
				{[]driver.Cell{put("label1", "B"), put("label2", "A")}, nil},
				{[]driver.Cell{put("label3", "B")}, bs("label1")},
				{[]driver.Cell{put("label1", "A"), put("label2", "B")}, bs("label3")},
			} {
				ok, err := c.Commit(background, key, []driver.Cell{put("version", fmt.Sprint(i+j))},
					append(change.puts, put("version", fmt.Sprint(i+j+1))), change.deletes)
				require.NoError(tb, err)
				require.True(tb, ok)
			}
		}
	}()
	require.Nil(tb, torn.Load(), "a torn commit")
	require.Equal(tb, []string{"label1=A", "label2=B", "version=30"}, get(tb, f, p+"a", driver.Slice{}))
}

func checkAbsentOrEmpty(tb testing.TB, s *suite) {
	f := s.wide(tb)
	c := committer(tb, f)
	p := s.prefix()
	ok, err := c.Commit(background, b(p+"a"), nil, []driver.Cell{put("empty", "")}, nil)
	require.NoError(tb, err)
	require.True(tb, ok, "without an expectation")
	require.Equal(tb, []string{"empty="}, get(tb, f, p+"a", driver.Slice{}))
	ok, err = c.Commit(background, b(p+"a"), []driver.Cell{absent("empty")}, []driver.Cell{put("q", "1")}, nil)
	require.NoError(tb, err)
	require.False(tb, ok, "an empty value is not absent")
	ok, err = c.Commit(background, b(p+"a"), []driver.Cell{absent("none")}, []driver.Cell{put("q", "1")}, nil)
	require.NoError(tb, err)
	require.True(tb, ok)
	require.Equal(tb, []string{"empty=", "q=1"}, get(tb, f, p+"a", driver.Slice{}))
}

// Snapshots.

func checkSnapshot(tb testing.TB, s *suite) {
	db, ok := s.db.(driver.Snapshotter)
	if !ok {
		tb.Skip("no Snapshotter")
	}
	f, g := s.ordered(tb), s.wide(tb)
	p := s.prefix()
	apply(tb, f, row(p+"a", put("q", "1")), row(p+"b", put("q", "1")))
	apply(tb, g, row(p+"w", put("q", "1")))
	dropped := driver.FamilySpec{Name: s.name + "_snap", Layout: driver.LayoutOrdered}
	h, err := db.Family(background, dropped)
	require.NoError(tb, err)
	apply(tb, h, row("a", put("q", "1")))

	snap, err := db.Snapshot()
	require.NoError(tb, err)
	defer func() { require.NoError(tb, snap.Close()) }()
	apply(tb, f, row(p+"a", put("q", "2")), driver.Mutation{Row: b(p + "b"), DeleteRow: true}, row(p+"c", put("q", "2")))
	apply(tb, g, row(p+"w", put("q", "2")))
	require.NoError(tb, db.Drop(background, dropped.Name))

	view := func(spec driver.FamilySpec) driver.Family {
		tb.Helper()
		v, err := snap.Family(background, spec)
		require.NoError(tb, err)
		return v
	}
	vf := view(s.specs["ordered"])
	require.Equal(tb, []string{p + "a", p + "b"}, keys(scan(tb, vf, within(p))))
	require.Equal(tb, []string{"q=1"}, get(tb, vf, p+"a", driver.Slice{}))
	require.Equal(tb, []string{"q=1"}, get(tb, view(s.specs["wide"]), p+"w", driver.Slice{}))
	require.Equal(tb, []string{"q=1"}, get(tb, view(dropped), "a", driver.Slice{}))
	require.Equal(tb, []string{p + "a", p + "c"}, keys(scan(tb, f, within(p))))

	require.ErrorIs(tb, vf.Apply(background, row(p+"x", put("q", "1"))), driver.ErrReadOnly)
	replacement := driver.Replacement{Row: b(p + "a"), Seen: seen(tb, vf, p+"a", "q"), Puts: []driver.Cell{put("q", "3")}}
	_, err = vf.Replace(background, replacement)
	require.ErrorIs(tb, err, driver.ErrReadOnly)
	_, err = vf.CheckAndPut(background, b(p+"x"), absent("q"), put("q", "1"))
	require.ErrorIs(tb, err, driver.ErrReadOnly)
	if c, ok := vf.(driver.Committer); ok {
		_, err = c.Commit(background, b(p+"x"), nil, []driver.Cell{put("q", "1")}, nil)
		require.ErrorIs(tb, err, driver.ErrReadOnly)
	}
	require.Empty(tb, get(tb, f, p+"x", driver.Slice{}))

	other := s.specs["ordered"]
	other.SpreadBits = 3
	_, err = snap.Family(background, other)
	require.ErrorIs(tb, err, driver.ErrLayout)
	late := driver.FamilySpec{Name: s.name + "_late", Layout: driver.LayoutOrdered}
	_, err = db.Family(background, late)
	require.NoError(tb, err)
	defer func() { require.NoError(tb, db.Drop(background, late.Name)) }()
	_, err = snap.Family(background, late)
	require.ErrorIs(tb, err, driver.ErrNoFamily)
}

// checkReopen is not in the list, since it replaces the database.
func (s *suite) checkReopen(tb testing.TB) {
	f, g := s.ordered(tb), s.wide(tb)
	p := s.prefix()
	want := manyRows(tb, f, p, 500)
	require.True(tb, checkAndPut(tb, g, p+"w", absent("q"), put("q", "1")))
	apply(tb, f, driver.Mutation{Row: b(want[0]), DeleteRow: true})
	before, err := s.db.Families(background)
	require.NoError(tb, err)

	s.db = s.o.Reopen(tb, s.db)
	clear(s.families)
	after, err := s.db.Families(background)
	require.NoError(tb, err)
	for _, spec := range s.specs {
		require.Contains(tb, before, spec.Name)
		require.Contains(tb, after, spec.Name)
	}
	f, err = s.db.Family(background, s.specs["ordered"])
	require.NoError(tb, err)
	require.Equal(tb, want[1:], keys(scan(tb, f, within(p))))
	g, err = s.db.Family(background, s.specs["wide"])
	require.NoError(tb, err)
	require.Equal(tb, []string{"q=1"}, get(tb, g, p+"w", driver.Slice{}))
	other := s.specs["ordered"]
	other.PrefixBytes = 1
	_, err = s.db.Family(background, other)
	require.ErrorIs(tb, err, driver.ErrLayout)
}
