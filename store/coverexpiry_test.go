package store

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/testdb"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
	"github.com/rangecrypt/rangecrypt/store/internal/rowcodec"
)

func coverExpiry(ttl time.Duration, columns ...Column) Schema {
	return Schema{
		Name: "events", AppendOnly: true, TTL: ttl,
		Key: []KeyPart{HashedPart("device", String), TiePart("id")},
		Columns: append([]Column{
			OrderedColumn("celsius", Int32, MOPE).Covering(), DeterministicColumn("room", String).Covering(), RandomisedColumn("note", String),
		}, columns...),
	}
}

func coverExpiryRow(i int) Row {
	return Row{"device": "a", "id": LoadTie{byte(i), 1}, "celsius": i, "room": "r", "note": "n"}
}

// countedInAllWays returns how many rows there are by the row key, and requires as many by each column that covers.
func countedInAllWays(t *testing.T, tbl *Table) int {
	t.Helper()
	n, err := tbl.Count(t.Context(), Predicate{})
	require.NoError(t, err)
	for by, where := range map[string]Predicate{"celsius": Int32.Field("celsius").AtLeast(0), "room": String.Field("room").Equal("r")} {
		m, err := tbl.Count(t.Context(), where)
		require.NoError(t, err)
		require.Equal(t, n, m, by)
		least, err := tbl.Exists(t.Context(), where)
		require.NoError(t, err)
		require.Equal(t, n > 0, least, by)
	}
	return n
}

// A row that has expired is found in no copy, by the clock of the reader, while the copy is there. Conversions and repairs keep
// when a row expires, and the copies are such as the row.
func TestCopiesExpire(t *testing.T) {
	ctx, clock := t.Context(), newHandClock()
	memory := drivertest.NewMemoryAt(clock.now)
	clients := clocked(t, memory, clock, 0, 20*time.Minute, -20*time.Minute)
	tbl, err := clients[0].Create(ctx, coverExpiry(time.Hour))
	require.NoError(t, err)
	for _, st := range clients {
		require.NoError(t, st.Close(ctx))
	}
	var tables []*Table
	for _, st := range clients {
		theirs, err := st.Table(ctx, "events")
		require.NoError(t, err)
		tables = append(tables, theirs)
	}
	require.NoError(t, tbl.Put(ctx, coverExpiryRow(0), coverExpiryRow(1)))
	require.NoError(t, tbl.Expiring(3*time.Hour).Put(ctx, coverExpiryRow(2)))
	require.NoError(t, tbl.Expiring(0).Put(ctx, coverExpiryRow(3)))
	counts := func(want ...int) {
		t.Helper()
		for i, tbl := range tables {
			require.Equal(t, want[i], countedInAllWays(t, tbl), "client %d", i)
		}
	}
	counts(4, 4, 4)
	clock.advance(59 * time.Minute)
	counts(4, 2, 4)
	require.NoError(t, clients[0].RotateKeys(ctx, "events"))
	_, err = tables[1].Convert(ctx, nil) // by a client whose clock is fast
	require.NoError(t, err)
	require.Equal(t, []int{3 * 4, 0}, keyCells(t, tables[0], ""))
	counts(4, 2, 4)
	clock.advance(2 * time.Minute)
	counts(2, 2, 4)
	copies := func() (n int) {
		for row, err := range tbl.now().Postings.Scan(ctx, driver.Range{AnyOrder: true}) {
			require.NoError(t, err)
			if rowcodec.HasCopy(row.Cells[0].Value) {
				n++
			}
		}
		return n
	}
	require.Equal(t, 8, copies(), "they are there, and not found")
	sound := func(repair bool) {
		t.Helper()
		for _, tbl := range tables {
			v, err := tbl.Verify(ctx, &VerifyOptions{Repair: repair, Grace: 1})
			require.NoError(t, err)
			require.True(t, v.Sound(), "%v", v.Faults)
			require.Zero(t, v.Uncopied)
			require.Zero(t, v.Dangling)
		}
	}
	sound(false)
	// The copies of expired rows, too, are sealed again or left to expire; none of them comes to life.
	require.NoError(t, clients[0].Alter(ctx, "events", ChangeColumn(DeterministicColumn("room", String))))
	_, err = tables[0].Convert(ctx, nil)
	require.NoError(t, err)
	require.NoError(t, clients[0].Alter(ctx, "events", ChangeColumn(DeterministicColumn("room", String).Covering())))
	_, err = tables[2].Convert(ctx, nil) // by one whose clock is slow
	require.NoError(t, err)
	counts(2, 2, 4)
	sound(true)
	counts(2, 2, 4)
	clock.advance(time.Hour)
	counts(2, 2, 2)
	clock.advance(80*time.Minute + time.Second) // the database removes what expired, as the slow client said last
	require.Equal(t, 4, copies())
	sound(false)
	counts(1, 1, 1)
	// A row of a load is put again when it has expired, and lives anew.
	require.NoError(t, tbl.Put(ctx, coverExpiryRow(0), coverExpiryRow(2)))
	counts(3, 3, 3)
	clock.advance(61 * time.Minute)
	counts(1, 1, 3)
	require.NoError(t, clients[0].Alter(ctx, "events", SetTTL(30*time.Minute)))
	require.NoError(t, tables[0].Put(ctx, coverExpiryRow(5)))
	require.NoError(t, tables[0].Delete(ctx, Row{"device": "a", "id": LoadTie{3, 1}}))
	clock.advance(31 * time.Minute)
	counts(0, 0, 1)
	clock.advance(6 * time.Hour)
	counts(0, 0, 0)
	v, err := tbl.Verify(ctx, &VerifyOptions{Repair: true, Grace: 1})
	require.NoError(t, err)
	require.True(t, v.Sound())
	require.Equal(t, 2, v.Dropped, "of the row of a load that was deleted and would never have expired")
	sound(false)
	for range tbl.now().Postings.Scan(ctx, driver.Range{AnyOrder: true}) {
		t.Fatal("something is left")
	}
}

// On each database copies go with their rows: after expiry and before the database removes them nobody finds them, and at
// last nothing is left.
func TestCopiesExpireInDatabases(t *testing.T) {
	testdb.Every(t, func(t *testing.T, kind testdb.Database) {
		if !kind.Server {
			t.Parallel()
		}
		ctx, db := t.Context(), kind.Open(t, nil)
		st := stores(t, db, 1)[0]
		st.db.Clock = rowcodec.Clock{Grace: 3 * time.Second}
		tbl, err := st.Create(ctx, coverExpiry(3*time.Second))
		require.NoError(t, err)
		require.NoError(t, st.Close(ctx))
		began := time.Now()
		require.NoError(t, tbl.Put(ctx, coverExpiryRow(0), coverExpiryRow(1), coverExpiryRow(2)))
		require.NoError(t, tbl.Expiring(time.Hour).Put(ctx, coverExpiryRow(3)))
		if n := countedInAllWays(t, tbl); time.Since(began) < 3*time.Second {
			require.Equal(t, 4, n)
		}
		require.NoError(t, st.RotateKeys(ctx, "events"))
		_, err = tbl.Convert(ctx, nil)
		require.NoError(t, err)
		time.Sleep(time.Until(began.Add(4100 * time.Millisecond)))
		n := 0
		count := func() (n int) {
			for _, err := range tbl.now().Postings.Scan(ctx, driver.Range{AnyOrder: true}) {
				require.NoError(t, err)
				n++
			}
			return n
		}
		if n = count(); time.Since(began) < 8*time.Second {
			require.Equal(t, 8, n, "the database has them yet")
		}
		require.Equal(t, 1, countedInAllWays(t, tbl))
		v, err := tbl.Verify(ctx, nil)
		require.NoError(t, err)
		require.True(t, v.Sound(), "%v", v.Faults)
		require.Eventually(t, func() bool { return count() == 2 }, 30*time.Second, 200*time.Millisecond, "copies outlive their rows")
		require.Equal(t, 1, countedInAllWays(t, tbl))
		v, err = tbl.Verify(ctx, nil)
		require.NoError(t, err)
		require.True(t, v.Sound(), "%v", v.Faults)
		require.Zero(t, v.Dangling+v.Uncopied)
	})
}

// A row that expires while Verify looks at it, between its copy and the row, is no fault.
func TestRowExpiresWhileItsCopyIsVerified(t *testing.T) {
	ctx, clock := t.Context(), newHandClock()
	armed, reads := false, 0
	db := drivertest.NewFaulty(drivertest.NewMemoryAt(clock.now), func(op drivertest.Op) drivertest.Fault {
		if armed && op.Method == "Get" && op.Family[0] == 't' {
			if reads++; reads == 2 {
				clock.advance(2 * time.Hour)
			}
		}
		return drivertest.NoFault
	})
	st := clocked(t, db, clock, 0)[0]
	tbl, err := st.Create(ctx, coverExpiry(time.Hour))
	require.NoError(t, err)
	require.NoError(t, st.Close(ctx))
	require.NoError(t, tbl.Put(ctx, Row{"device": "a", "celsius": 1}))
	armed = true
	v, err := tbl.Verify(ctx, nil)
	require.NoError(t, err)
	require.GreaterOrEqual(t, reads, 2)
	require.True(t, v.Sound(), "%v", v.Faults)
}

// A client whose clock is fast leaves no copy under an old key, also of rows that have expired for it alone and which another
// has sealed again.
func TestFastClockConvertsCopies(t *testing.T) {
	ctx, clock := t.Context(), newHandClock()
	memory, fails := drivertest.NewMemoryAt(clock.now), false
	db := drivertest.NewFaulty(memory, func(op drivertest.Op) drivertest.Fault {
		if fails && op.Method == "Replace" && op.Family[0] == 'x' {
			return drivertest.FailBefore
		}
		return drivertest.NoFault
	})
	st, fast := clocked(t, db, clock, 0)[0], clocked(t, memory, clock, 20*time.Minute)[0]
	tbl, err := st.Create(ctx, coverExpiry(time.Hour))
	require.NoError(t, err)
	require.NoError(t, st.Close(ctx))
	require.NoError(t, tbl.Put(ctx, coverExpiryRow(0), coverExpiryRow(1)))
	clock.advance(50 * time.Minute)
	require.NoError(t, st.RotateKeys(ctx, "events"))
	fails = true
	_, err = tbl.Convert(ctx, nil)
	require.Error(t, err)
	require.Equal(t, []int{2, 4}, keyCells(t, tbl, ""), "rows are sealed again, and copies are not")
	theirs, err := fast.Table(ctx, "events")
	require.NoError(t, err)
	require.Zero(t, countedInAllWays(t, theirs))
	_, err = theirs.Convert(ctx, nil)
	require.NoError(t, err)
	require.Equal(t, []int{6, 0}, keyCells(t, tbl, ""))
	require.Equal(t, 2, countedInAllWays(t, tbl))
}

// A client whose clock is fast deletes also rows that have expired for it alone: nobody finds them from then on, nor a copy of them.
func TestFastClockDeletesCopies(t *testing.T) {
	ctx, clock := t.Context(), newHandClock()
	clients := clocked(t, drivertest.NewMemoryAt(clock.now), clock, 0, 20*time.Minute)
	tbl, err := clients[0].Create(ctx, coverExpiry(time.Hour))
	require.NoError(t, err)
	require.NoError(t, clients[0].Close(ctx))
	require.NoError(t, clients[1].Close(ctx))
	require.NoError(t, tbl.Put(ctx, coverExpiryRow(0), coverExpiryRow(1)))
	clock.advance(50 * time.Minute)
	require.Equal(t, 2, countedInAllWays(t, tbl))
	theirs, err := clients[1].Table(ctx, "events")
	require.NoError(t, err)
	require.NoError(t, theirs.Delete(ctx, Row{"device": "a", "id": LoadTie{1, 1}}))
	require.Equal(t, 1, countedInAllWays(t, tbl))
	require.Len(t, familyRows(t, clients[0].db.Driver, tbl, tbl.now().Spec.Name), 1)
}
