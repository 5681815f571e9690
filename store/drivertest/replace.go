package drivertest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/store/driver"
)

var replaceChecks = []check{
	{"cells have stamps where they are asked for", onBoth, checkStamps},
	{"Replace changes rows that were not written since", onBoth, checkReplace},
	{"a mutation after Seen wins over Replace", onBoth, checkReplaceLoses},
	{"a mutation after Replace wins over it", onBoth, checkReplaceIsOld},
	{"a cell that no replacement names lasts beside them, until its row is deleted", onBoth, checkReplaceBeside},
	{"concurrent Apply and Replace leave one of them, whole", onOrdered, checkReplaceRace},
	{"of replacements with one Seen, all but one are late", onOrdered, checkReplaceTwice},
	{"of replacements with one Seen, the greatest rank wins where none is late", onOrdered, checkReplaceRanks},
	{"Replace takes any number of replacements", onAny, checkReplaceMany},
	{"a replacement that does not say what was seen is refused", onOrdered, checkReplaceRefusals},
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
func replacement(m driver.Mutation, stamped driver.Cell) driver.Replacement {
	return driver.Replacement{Row: m.Row, Seen: stamped, Puts: m.Puts, Deletes: m.Deletes}
}

// after is what a row has after the generation.
func after(m driver.Mutation) []string { return slices.Sorted(slices.Values(show(m.Puts))) }

// cellOf returns the cell of a row that was scanned.
func cellOf(row driver.Row, qualifier string) driver.Cell {
	return row.Cells[slices.IndexFunc(row.Cells, func(c driver.Cell) bool { return string(c.Qualifier) == qualifier })]
}

func checkStamps(tb testing.TB, s *suite, f driver.Family, p string) {
	apply(tb, f, generation(p+"a", 0, "1"), row(p+"b", put("q", "v")))
	slices := []driver.Slice{{}, {Only: bs("id", "y")}, {Start: b("id"), End: b("y")}, {Limit: 1}}
	if f == s.wide(tb) {
		slices = append(slices, driver.Slice{Head: true, Start: b("w")}, driver.Slice{Head: true, Start: b("zz")}, driver.Slice{Head: true, Limit: 1})
	}
	for _, slice := range slices {
		plain := read(tb, f, p+"a", slice)
		require.NotEmpty(tb, plain)
		slice.Stamps = true
		stamped := read(tb, f, p+"a", slice)
		require.Equal(tb, show(plain), show(stamped), "%+v", slice)
		for i := range plain {
			require.Zero(tb, plain[i].Stamp, "%+v", slice)
			require.NotZero(tb, stamped[i].Stamp, "%+v", slice)
			require.Equal(tb, stamped[0].Stamp, stamped[i].Stamp, "of one mutation")
		}
	}
	ranges := []driver.Range{anyOrder(p)}
	if f == s.ordered(tb) {
		ranges = append(ranges, within(p))
	}
	for _, r := range ranges {
		for _, row := range scan(tb, f, r) {
			for _, c := range row.Cells {
				require.Zero(tb, c.Stamp)
			}
		}
		r.Cells.Stamps = true
		rows := scan(tb, f, r)
		require.Len(tb, rows, 2)
		for _, row := range rows {
			require.Equal(tb, read(tb, f, string(row.Key), driver.Slice{Stamps: true}), row.Cells)
		}
	}
	// A row that is not on one page of anything.
	wide := row(p + "wide")
	for i := range 3000 {
		wide.Puts = append(wide.Puts, put(fmt.Sprintf("%04d", i), "v"))
	}
	apply(tb, f, wide)
	r := anyOrder(p)
	r.Cells = driver.Slice{Start: b("0"), End: b("9"), Stamps: true}
	rows := scan(tb, f, r)
	require.Len(tb, rows, 1)
	require.Len(tb, rows[0].Cells, 3000)
	for _, c := range rows[0].Cells {
		require.NotZero(tb, c.Stamp)
	}
}

func checkReplace(tb testing.TB, s *suite, f driver.Family, p string) {
	for from := range 3 {
		for to := range 3 {
			key := fmt.Sprintf("%s%d%d", p, from, to)
			apply(tb, f, generation(key, from, "old"), row(key+"x", put("id", "stays")))
			// Twice over, what is read the second time being a replacement.
			for i, name := range []string{"new", "newer"} {
				m := generation(key, to+i, name)
				r := replacement(m, seen(tb, f, key, "id"))
				s.late(tb, replace(tb, f, r))
				is(tb, f, key, after(m)...)
				s.late(tb, replace(tb, f, r), 0)
				is(tb, f, key, after(m)...)
			}
			is(tb, f, key+"x", "id=stays")
		}
	}
	if f == s.wide(tb) {
		key, head := p+"h", driver.Slice{Head: true, Start: b("zz")}
		apply(tb, f, generation(key, 1, "old"))
		replace(tb, f, replacement(generation(key, 0, "head"), seen(tb, f, key, "id")))
		require.Equal(tb, []string{"=head"}, get(tb, f, key, head))
		replace(tb, f, replacement(generation(key, 1, "none"), seen(tb, f, key, "id")))
		require.Empty(tb, get(tb, f, key, head))
	}
	// Of two replacements of one row, the one whose name is left has all that it put, whatever the
	// other one deletes.
	for i, names := range [][2]string{{"1", "2"}, {"2", "1"}} {
		key := fmt.Sprint(p, "both", i)
		apply(tb, f, row(key, put("id", "old"), put("x", "old"), put("y", "old")))
		stamped := seen(tb, f, key, "id")
		of, other := map[string]string{names[0]: "x", names[1]: "y"}, map[string]string{"x": "y", "y": "x"}
		for j, name := range names {
			q := of[name]
			late := replace(tb, f, driver.Replacement{
				Row: b(key), Seen: stamped, Puts: cells{put("id", name), put(q, name)}, Deletes: bs(other[q]),
			})
			s.late(tb, late, []int{0}[:j]...)
		}
		left := get(tb, f, key, driver.Slice{})
		name := strings.TrimPrefix(left[0], "id=")
		require.Contains(tb, left, of[name]+"="+name)
	}
	// A row can be replaced by nothing.
	apply(tb, f, generation(p+"gone", 1, "old"))
	replace(tb, f, driver.Replacement{Row: b(p + "gone"), Seen: seen(tb, f, p+"gone", "id"), Deletes: bs("", "id", "x", "y", "z")})
	is(tb, f, p+"gone")
}

// checkReplaceLoses repeats, without a pause, what a database that orders by its clock gets wrong.
func checkReplaceLoses(tb testing.TB, s *suite, f driver.Family, p string) {
	key := p + "a"
	for i := range 24 {
		name := fmt.Sprint(i)
		apply(tb, f, generation(key, i, "old"+name))
		stamped := seen(tb, f, key, "id")
		late := replacement(generation(key, i/2, "late"+name), stamped)
		if i%2 == 1 {
			replace(tb, f, replacement(generation(key, i/3, "kept"+name), stamped))
			late.Seen = seen(tb, f, key, "id")
		}
		var want []string
		if i%4 == 3 {
			apply(tb, f, deleteRow(key))
		} else {
			m := generation(key, i/4, "new"+name)
			apply(tb, f, m)
			want = after(m)
		}
		s.late(tb, replace(tb, f, late), 0)
		is(tb, f, key, want...)
	}
}

func checkReplaceIsOld(tb testing.TB, _ *suite, f driver.Family, p string) {
	key := p + "a"
	for i := range 24 {
		name := fmt.Sprint(i)
		apply(tb, f, generation(key, i, "old"+name))
		replace(tb, f, replacement(generation(key, i/3, "replaced"+name), seen(tb, f, key, "id")))
		m := generation(key, i/9, "new"+name)
		apply(tb, f, m)
		is(tb, f, key, after(m)...)
		apply(tb, f, deleteRow(key))
		is(tb, f, key)
	}
}

func checkReplaceBeside(tb testing.TB, s *suite, f driver.Family, p string) {
	key := p + "a"
	for i := range 12 {
		name := fmt.Sprint(i)
		apply(tb, f, row(key, put("id", "old"+name)))
		stamped := seen(tb, f, key, "id")
		replaced := driver.Replacement{Row: []byte(key), Seen: stamped, Puts: []driver.Cell{put("id", "replaced"+name)}}
		if i%2 == 0 {
			apply(tb, f, row(key, put("z", name)))
			s.late(tb, replace(tb, f, replaced))
		} else {
			s.late(tb, replace(tb, f, replaced))
			apply(tb, f, row(key, put("z", name)))
		}
		is(tb, f, key, show([]driver.Cell{put("id", "replaced"+name), put("z", name)})...)
		late := driver.Replacement{Row: []byte(key), Seen: seen(tb, f, key, "id"), Puts: []driver.Cell{put("id", "late"+name)}}
		apply(tb, f, deleteRow(key))
		s.late(tb, replace(tb, f, late), 0)
		is(tb, f, key)
	}
}

// whole returns an error unless the cells are those of one generation, or of the replacement of one.
// The name of a generation is its number. That of a replacement begins with the number that it saw.
func whole(found cells) error {
	var name string
	for _, c := range found {
		if name == "" {
			name = string(c.Value)
		}
		if string(c.Value) != name {
			return fmt.Errorf("a mixed row: %q", show(found))
		}
	}
	var i int
	if _, err := fmt.Sscanf(name, "%d", &i); err != nil {
		return err
	}
	if strings.Contains(name, "replaced") {
		i++
	}
	if want := after(generation("", i, name)); !slices.Equal(want, show(found)) {
		return fmt.Errorf("a mixed row: %q, want %q", show(found), want)
	}
	return nil
}

// replaceAll replaces the generations that a scan finds and that no replacement has replaced yet. It
// returns how many these were.
func replaceAll(f driver.Family, p, by string) (int, error) {
	var rs []driver.Replacement
	r := within(p)
	r.Cells.Stamps = true
	for row, err := range f.Scan(background, r) {
		if err == nil {
			err = whole(row.Cells)
		}
		if err != nil {
			return 0, err
		}
		stamped := cellOf(row, "id")
		if strings.Contains(string(stamped.Value), "replaced") {
			continue
		}
		var i int
		_, _ = fmt.Sscanf(string(stamped.Value), "%d", &i)
		m := generation(string(row.Key), i+1, fmt.Sprintf("%s replaced by %s", stamped.Value, by))
		rs = append(rs, replacement(m, stamped))
	}
	time.Sleep(100 * time.Microsecond) // some of what was seen is written by then
	_, err := f.Replace(background, rs...)
	return len(rs), err
}

// checkReplaceRace has a writer for each row, and two replacers for all rows.
func checkReplaceRace(tb testing.TB, _ *suite, f driver.Family, p string) {
	const rows, generations, replacers = 4, 60, 2
	for n := range rows {
		apply(tb, f, generation(fmt.Sprint(p, n), 0, "000"))
	}
	var ended, replaced atomic.Int64
	// write writes the next generation of a row, which nothing may undo until there is another.
	write := func(key string, i int) error {
		name := fmt.Sprintf("%03d", i)
		if err := f.Apply(background, generation(key, i, name)); err != nil {
			return err
		}
		if i%4 == 0 {
			time.Sleep(time.Millisecond)
		}
		found, err := f.Get(background, b(key), driver.Slice{})
		if err == nil {
			err = whole(found)
		}
		if err == nil && !strings.HasPrefix(string(found[0].Value), name) {
			err = fmt.Errorf("generation %s was lost: %q", name, show(found))
		}
		return err
	}
	require.NoError(tb, together(rows+replacers, func(n int) error {
		if n < rows {
			defer ended.Add(1)
			for i := 1; i < generations; i++ {
				if err := write(fmt.Sprint(p, n), i); err != nil {
					return err
				}
			}
			return nil
		}
		for i := 0; ended.Load() < rows; i++ {
			found, err := replaceAll(f, p, fmt.Sprint(i, " of ", n))
			if err != nil {
				return err
			}
			replaced.Add(int64(found))
		}
		return nil
	}))
	require.NotZero(tb, replaced.Load())
	for n := range rows {
		found := read(tb, f, fmt.Sprint(p, n), driver.Slice{})
		require.NoError(tb, whole(found))
		require.True(tb, strings.HasPrefix(string(found[0].Value), fmt.Sprintf("%03d", generations-1)), "the last write was lost: %q", show(found))
	}
}

func checkReplaceTwice(tb testing.TB, s *suite, f driver.Family, p string) {
	for i := range 30 {
		key := fmt.Sprint(p, i)
		apply(tb, f, generation(key, 0, "old"))
		stamped := seen(tb, f, key, "id")
		var late [2][]int
		require.NoError(tb, together(2, func(w int) (err error) {
			late[w], err = f.Replace(background, replacement(generation(key, 1, fmt.Sprint("new", w)), stamped))
			return err
		}))
		s.late(tb, slices.Concat(late[0], late[1]), 0)
	}
}

func checkReplaceRanks(tb testing.TB, s *suite, f driver.Family, p string) {
	for i, ranks := range [][]int{{0, 1}, {1, 0}, {0, driver.MaxRank}, {driver.MaxRank, 0}, {driver.MaxRank - 1, driver.MaxRank}, {3, 1, 2}} {
		key := fmt.Sprint(p, i)
		apply(tb, f, generation(key, 0, "old"))
		stamped := seen(tb, f, key, "id")
		for n, rank := range ranks {
			r := replacement(generation(key, 1, fmt.Sprint("rank", rank)), stamped)
			r.Rank = rank
			late, err := f.Replace(background, r)
			require.NoError(tb, err)
			if n == 0 {
				s.late(tb, late)
			} else {
				s.late(tb, late, 0)
			}
		}
		wins := ranks[0]
		if s.o.Blind {
			wins = slices.Max(ranks)
		}
		require.Equal(tb, after(generation(key, 1, fmt.Sprint("rank", wins))), show(read(tb, f, key, driver.Slice{})), "ranks %v", ranks)
	}
}

func checkReplaceMany(tb testing.TB, s *suite, f driver.Family, p string) {
	replace(tb, f)
	all := manyRows(tb, f, p, 3000)
	long := strings.Repeat("new", 200) // so that a database does not take all of them at once
	r := anyOrder(p)
	r.Cells.Stamps = true
	var rs []driver.Replacement
	for _, row := range scan(tb, f, r) {
		rs = append(rs, driver.Replacement{Row: row.Key, Seen: cellOf(row, "k"), Puts: cells{put("k", long+string(row.Key))}})
	}
	require.Len(tb, rs, len(all))
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
		want := long + string(r.Row)
		if i%3 == 0 {
			want = "written"
		}
		require.Equal(tb, want, got[string(r.Row)])
	}
}

func checkReplaceRefusals(tb testing.TB, _ *suite, f driver.Family, p string) {
	apply(tb, f, row(p+"a", put("q", "old"), put("r", "old")))
	stamped := seen(tb, f, p+"a", "q")
	ranked := func(rank int) []driver.Replacement {
		return []driver.Replacement{{Row: b(p + "a"), Seen: stamped, Puts: cells{put("q", "secret")}, Rank: rank}}
	}
	unstamped, empty := stamped, stamped
	unstamped.Stamp, empty.Value = 0, nil
	secret := put("q", "secret")
	key := b(p + "a")
	right := driver.Replacement{Row: key, Seen: stamped, Puts: cells{secret}}
	for _, c := range []struct {
		name string
		rs   []driver.Replacement
		want error
	}{
		{"without a stamp", []driver.Replacement{{Row: key, Seen: unstamped, Puts: cells{secret}}}, driver.ErrSeen},
		{"without a value", []driver.Replacement{{Row: key, Seen: empty, Puts: cells{secret}}}, driver.ErrSeen},
		{"of another cell", []driver.Replacement{{Row: key, Seen: stamped, Puts: cells{put("r", "secret")}}}, driver.ErrSeen},
		{"by the same value", []driver.Replacement{{Row: key, Seen: stamped, Puts: cells{put("q", "old"), put("r", "secret")}}}, driver.ErrSeen},
		{"put and deleted", []driver.Replacement{{Row: key, Seen: stamped, Puts: cells{secret}, Deletes: bs("q")}}, driver.ErrOverlap},
		{"one row twice", []driver.Replacement{right, right}, driver.ErrOverlap},
		{"too large", []driver.Replacement{{Row: key, Seen: stamped, Puts: cells{{Qualifier: b("q"), Value: make([]byte, driver.MaxValue+1)}}}}, driver.ErrTooLarge},
		{"no row", []driver.Replacement{{Seen: stamped, Puts: cells{secret}}}, nil},
		{"of a negative rank", ranked(-1), driver.ErrRange},
		{"of too great a rank", ranked(driver.MaxRank + 1), driver.ErrRange},
		{"with a negative TTL", []driver.Replacement{{Row: key, Seen: stamped, Puts: cells{putFor(-1, "q", "secret")}}}, driver.ErrRange},
	} {
		_, err := f.Replace(background, c.rs...)
		require.Error(tb, err, c.name)
		require.True(tb, c.want == nil || errors.Is(err, c.want), "%s: %v", c.name, err)
		require.NotContains(tb, err.Error(), "secret")
		is(tb, f, p+"a", "q=old", "r=old")
	}
}

// checkReplaceTTL: what a replacement puts with a time to live ends as what a mutation puts, and what it replaced does not
// come back, whether that was to end or not.
func checkReplaceTTL(tb testing.TB, s *suite, f driver.Family, p string) {
	apply(tb, f,
		row(p+"ends", put("id", "old"), put("x", "old")),
		row(p+"stays", putFor(2*time.Second, "id", "old"), putFor(2*time.Second, "x", "old")),
		row(p+"both", putFor(100*time.Hour, "id", "old"), putFor(100*time.Hour, "x", "old")),
		row(p+"z", put("id", "old")),
	)
	start := time.Now()
	s.late(tb, replace(tb, f,
		driver.Replacement{Row: b(p + "ends"), Seen: seen(tb, f, p+"ends", "id"), Puts: cells{putFor(2*time.Second, "id", "new"), putFor(time.Second, "x", "new")}},
		driver.Replacement{Row: b(p + "stays"), Seen: seen(tb, f, p+"stays", "id"), Puts: cells{put("id", "new"), put("x", "new")}},
		driver.Replacement{Row: b(p + "both"), Seen: seen(tb, f, p+"both", "id"), Puts: cells{putFor(2*time.Second, "id", "new"), put("x", "new")}},
	))
	if time.Since(start) < 700*time.Millisecond {
		is(tb, f, p+"both", "id=new", "x=new")
	}
	is(tb, f, p+"stays", "id=new", "x=new")
	eventually(tb, 5*time.Second, "a cell of two seconds stayed", func() bool {
		return len(get(tb, f, p+"ends", driver.Slice{})) == 0 && len(get(tb, f, p+"both", driver.Slice{})) == 1
	})
	require.Equal(tb, []string{p + "both", p + "stays", p + "z"}, keys(scan(tb, f, within(p))))
	is(tb, f, p+"both", "x=new")
	is(tb, f, p+"stays", "id=new", "x=new")
}
