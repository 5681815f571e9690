package store_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/sim"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
)

var accounts = store.Schema{
	Name: "accounts",
	Key:  []store.KeyPart{store.OrderedPart("id", store.Int64, store.MOPE)},
	Columns: []store.Column{
		store.OrderedColumn("balance", store.Int64, store.Boldyreva),
		store.DeterministicColumn("owner", store.String),
		store.RandomisedColumn("note", store.String),
	},
}

// stateful is accounts with schemes that keep their state in the table's index.
var stateful = func() store.Schema {
	s := accounts
	s.Key = []store.KeyPart{store.OrderedPart("id", store.Int64, store.WozniakIndexed)}
	s.Columns = slices.Clone(s.Columns)
	s.Columns[0] = store.OrderedColumn("balance", store.Int64, store.Kerschbaum)
	return s
}()

// ranked is accounts with a column whose ciphertexts begin with ranks.
var ranked = func() store.Schema {
	s := accounts
	s.Columns = slices.Clone(s.Columns)
	s.Columns[0] = store.OrderedColumn("balance", store.Int64, store.KerschbaumRanked)
	return s
}()

const (
	id      = store.Field[int64]("id")
	balance = store.Field[int64]("balance")
	owner   = store.Field[string]("owner")
)

// A client that dies at any call of a Put, Delete or batch leaves each row either as it was or as
// it was to be, found by every column exactly once.
func TestCrashAtEveryCall(t *testing.T) {
	byCondition, statefulByCondition := accounts, stateful
	byCondition.Conditional, statefulByCondition.Conditional = true, true
	for name, schema := range map[string]store.Schema{
		"stateless": accounts, "stateful": stateful, "conditional": byCondition, "stateful, conditional": statefulByCondition, "ranked": ranked,
	} {
		t.Run(name, func(t *testing.T) { testCrashAtEveryCall(t, schema) })
	}
}

func testCrashAtEveryCall(t *testing.T, schema store.Schema) {
	before := func(i int) store.Row {
		return store.Row{"id": int64(i), "balance": int64(100 * i), "owner": "old", "note": "before"}
	}
	after := func(i int) store.Row { return store.Row{"id": int64(i), "balance": int64(-i), "owner": "new"} }
	type crash struct {
		do      func(tbl *store.Table) error
		becomes func(i int) store.Row // nil for no row
	}
	crashes := map[string]crash{
		"replace":      {func(tbl *store.Table) error { return tbl.Put(background, after(1)) }, after},
		"replace many": {func(tbl *store.Table) error { return tbl.Put(background, after(1), after(2), after(3)) }, after},
		"insert":       {func(tbl *store.Table) error { return tbl.Put(background, after(7), after(8)) }, after},
		"insert new":   {func(tbl *store.Table) error { return tbl.Insert(background, after(7), after(8)) }, after},
		"delete":       {func(tbl *store.Table) error { return tbl.Delete(background, after(1), after(2)) }, func(int) store.Row { return nil }},
	}
	if schema.Conditional {
		updated := func(i int) store.Row {
			row := before(i)
			row["balance"], row["note"] = int64(-i), "after"
			return row
		}
		crashes["update"] = crash{func(tbl *store.Table) error {
			return tbl.Update(background, store.Row{"id": int64(1), "balance": int64(-1), "note": "after"}, store.Row{"id": int64(2), "balance": int64(-2), "note": "after"})
		}, updated}
		crashes["upsert"] = crash{func(tbl *store.Table) error {
			return tbl.Upsert(background, store.Row{"id": 1, "balance": -1, "owner": "new", "note": nil}, after(7))
		}, after}
		crashes["increment"] = crash{func(tbl *store.Table) error {
			_, err := tbl.Increment(background, store.Row{"id": 1}, "balance", 1)
			return err
		}, func(i int) store.Row {
			row := before(i)
			row["balance"] = int64(100*i + 1)
			return row
		}}
	}
	for name, c := range crashes {
		t.Run(name, func(t *testing.T) {
			died, step := 0, sim.Share(1, 2)
			for _, late := range []bool{false, true} {
				for n := 1; ; n += step {
					memory := drivertest.NewMemory()
					tbl := create(t, open(t, memory), schema)
					for i := range 5 {
						require.NoError(t, tbl.Put(background, before(i)))
					}
					counting := 0
					faulty := drivertest.NewFaulty(memory, func(op drivertest.Op) drivertest.Fault {
						if op.Method == "Family" || op.Family == "catalogue" {
							return drivertest.NoFault // opening the table
						}
						counting++
						switch {
						case counting != n:
							return drivertest.NoFault
						case late:
							return drivertest.CrashAfter
						}
						return drivertest.CrashBefore
					})
					dying, err := open(t, faulty).Table(background, schema.Name)
					require.NoError(t, err)
					err = c.do(dying)
					if err == nil && counting < n {
						break // it did not come that far
					}
					died++
					if err != nil {
						require.ErrorIs(t, err, drivertest.ErrInjected)
						if name == "increment" {
							require.NotEqual(t, errors.Is(err, driver.ErrUnknownOutcome), store.Retryable(err), "who cannot know does not repeat it")
						} else {
							var batch *store.BatchError
							require.ErrorAs(t, err, &batch)
							require.NotEmpty(t, batch.Failed)
							require.True(t, store.Retryable(err))
						}
					}
					found := make(map[int64]store.Row)
					for _, row := range collect(t, tbl, store.Query{}) {
						i := row["id"].(int64)
						found[i] = row
						if is, was, will := showRow(row), before(int(i)), c.becomes(int(i)); is != showRow(was) {
							require.Equal(t, showRow(will), is)
						}
					}
					for i := range int64(5) {
						if c.becomes(int(i)) != nil {
							require.Contains(t, found, i, "call %d", n)
						}
					}
					for i, row := range found {
						for _, p := range []store.Predicate{id.Equal(i), balance.Equal(row["balance"].(int64)), owner.Equal(row["owner"].(string))} {
							n := 0
							for _, hit := range collect(t, tbl, store.Query{Where: p}) {
								if hit["id"] == i {
									n++
								}
							}
							require.Equal(t, 1, n)
						}
					}
					require.Len(t, collect(t, tbl, store.Query{Where: balance.AtLeast(-1000)}), len(found))
					// The next client does it again, and all is well.
					if err := c.do(tbl); name == "insert new" && schema.Conditional && len(found) > 5 {
						require.ErrorIs(t, err, store.ErrRowExists) // it was made
					} else {
						require.NoError(t, err)
					}
				}
			}
			if name == "insert new" {
				died++ // it makes two calls at least, and the others three
			}
			require.Greater(t, died, 4/step)
		})
	}
}

// Left-over postings of a row, of writers that died, do not repeat it, neither on one page nor on
// the next.
func TestLeftOverPostings(t *testing.T) {
	memory := drivertest.NewMemory()
	tbl := create(t, open(t, memory), accounts)
	const rows = 6
	for i := range int64(rows) {
		row := store.Row{"id": i, "balance": int64(5), "owner": "same"}
		require.NoError(t, tbl.Put(background, row))
		for range 3 {
			// These writers die between the postings and the row.
			faulty := drivertest.NewFaulty(memory, func(op drivertest.Op) drivertest.Fault {
				if op.Method == "Apply" && op.Family[0] == 't' {
					return drivertest.CrashBefore
				}
				return drivertest.NoFault
			})
			dying, err := open(t, faulty).Table(background, accounts.Name)
			require.NoError(t, err)
			require.ErrorIs(t, dying.Put(background, row), drivertest.ErrInjected)
		}
	}
	for _, where := range []store.Predicate{balance.Equal(5), balance.AtLeast(0), owner.Equal("same")} {
		for _, reverse := range []bool{false, true} {
			for limit := 1; limit <= rows+1; limit++ {
				q := store.Query{Where: where, Reverse: reverse, Limit: limit}
				seen := make(map[int64]bool)
				for {
					page, next, err := tbl.Page(background, q)
					require.NoError(t, err)
					for _, row := range page {
						require.False(t, seen[row["id"].(int64)], "row %d twice, pages of %d", row["id"], limit)
						seen[row["id"].(int64)] = true
					}
					if q.PageToken = next; next == "" {
						break
					}
				}
				require.Len(t, seen, rows)
			}
		}
		e, err := tbl.Analyze(background, store.Query{Where: where})
		require.NoError(t, err)
		require.Equal(t, 3*rows, e.Discarded, "the left-overs were there")
	}
}

// The rows that a BatchError names are those that may be missing, by their positions in the call.
func TestBatchErrorNamesRows(t *testing.T) {
	for name, remove := range map[string]bool{"put": false, "delete": true} {
		t.Run(name, func(t *testing.T) {
			memory := drivertest.NewMemory()
			tbl := create(t, open(t, memory), accounts)
			const n = 600
			rows := make([]store.Row, n)
			for i := range rows {
				rows[i] = store.Row{"id": int64(n - i), "balance": int64(i)} // not in the order of keys
			}
			if remove {
				require.NoError(t, tbl.Put(background, rows...))
			}
			applied := 0
			faulty := drivertest.NewFaulty(memory, func(op drivertest.Op) drivertest.Fault {
				if op.Method == "Apply" && op.Family[0] == 't' {
					if applied++; applied == 2 {
						return drivertest.FailBefore
					}
				}
				return drivertest.NoFault
			})
			dying, err := open(t, faulty).Table(background, accounts.Name)
			require.NoError(t, err)
			if remove {
				err = dying.Delete(background, rows...)
			} else {
				err = dying.Put(background, rows...)
			}
			var batch *store.BatchError
			require.ErrorAs(t, err, &batch)
			failed := make(map[int]bool)
			for _, i := range batch.Failed {
				failed[i] = true
			}
			require.Greater(t, len(failed), 0)
			require.Less(t, len(failed), n)
			for i, row := range rows {
				got, err := tbl.Get(background, row)
				require.NoError(t, err)
				if !failed[i] {
					require.Equal(t, remove, got == nil, "row %d", i)
				}
			}
		})
	}
}

// Random faults of every kind: what a call reports as done is done, and repeating what failed
// ends well.
func TestFaultsAreRetried(t *testing.T) {
	r := seeded(t)
	for run := range 30 {
		schema := accounts
		if run >= 20 {
			schema = stateful
		}
		memory := drivertest.NewMemory()
		tbl := create(t, open(t, memory), schema)
		seed := r.Uint64()
		decide := drivertest.Randomly(seed, 0.1)
		wrapped := drivertest.NewFaulty(memory, func(op drivertest.Op) drivertest.Fault {
			if op.Method == "Family" || op.Family == "catalogue" {
				return drivertest.NoFault
			}
			if f := decide(op); f != drivertest.FailLate { // a late write of this client would undo its next one
				return f
			}
			return drivertest.FailBefore
		})
		faulty, err := open(t, wrapped).Table(background, schema.Name)
		require.NoError(t, err)
		want := make(map[int64]string)
		for range 40 {
			i := r.Int64N(6)
			row := store.Row{"id": i, "balance": r.Int64N(4), "owner": fmt.Sprint(r.IntN(2))}
			do := func() error { return faulty.Put(background, row) }
			if r.IntN(4) == 0 {
				do = func() error { return faulty.Delete(background, row) }
				delete(want, i)
			} else {
				want[i] = showRow(row)
			}
			err := do()
			for ; err != nil; err = do() {
				require.True(t, errors.Is(err, driver.ErrUnavailable), err)
				require.True(t, store.Retryable(err))
			}
		}
		for _, p := range []store.Predicate{{}, balance.AtLeast(0), owner.In("0", "1")} {
			got := make(map[int64]string)
			for _, row := range collect(t, tbl, store.Query{Where: p}) {
				got[row["id"].(int64)] = showRow(row)
			}
			require.Equal(t, want, got, "run %d", run)
		}
	}
}

// A Create whose outcome is not known must not take away the families of a table that others
// already use.
func TestCreateOfUnknownOutcome(t *testing.T) {
	memory := drivertest.NewMemory()
	open(t, memory)
	dead := false
	faulty := drivertest.NewFaulty(memory, func(op drivertest.Op) drivertest.Fault {
		switch {
		case op.Method == "CheckAndPut":
			dead = true
			return drivertest.FailAfter
		case dead && op.Method != "Drop":
			return drivertest.FailBefore
		}
		return drivertest.NoFault
	})
	_, err := open(t, faulty).Create(background, accounts)
	require.Error(t, err)
	require.True(t, store.Retryable(err))
	families, err := memory.Families(background)
	require.NoError(t, err)
	require.Len(t, families, 3, "the table is in the catalogue: its families have to stay")
}

// A scarceDB makes some families only, and refuses others, as a guardrail of Cassandra does.
type scarceDB struct {
	driver.DB
	most, made *int
}

func (db scarceDB) Family(ctx context.Context, spec driver.FamilySpec) (driver.Family, error) {
	if !spec.Existing {
		if *db.made == *db.most {
			return nil, driver.ErrUnauthorised
		}
		*db.made++
	}
	return db.DB.Family(ctx, spec)
}

// Who makes a table that is there makes nothing, and where the database refuses a family of a new one, none of it stays.
func TestCreateLeavesNothing(t *testing.T) {
	memory := drivertest.NewMemory()
	most, made := 100, 0
	st := open(t, scarceDB{memory, &most, &made})
	create(t, st, accounts)
	before, err := memory.Families(background)
	require.NoError(t, err)
	was := made
	_, err = st.Create(background, accounts)
	require.ErrorIs(t, err, store.ErrExists)
	require.Equal(t, was, made)

	more := accounts
	more.Name = "more"
	most = made + 1
	_, err = st.Create(background, more)
	require.ErrorIs(t, err, driver.ErrUnauthorised)
	require.Equal(t, most, made)
	after, err := memory.Families(background)
	require.NoError(t, err)
	require.Equal(t, before, after)
}

// A table that is dropped while it is opened is not made again.
func TestDropWhileOpening(t *testing.T) {
	memory := drivertest.NewMemory()
	first := open(t, memory)
	create(t, first, accounts)
	dropped := false
	meddling := drivertest.NewFaulty(memory, func(op drivertest.Op) drivertest.Fault {
		if op.Method == "Family" && op.Family[0] == 't' && !dropped {
			dropped = true
			require.NoError(t, first.Drop(background, accounts.Name))
		}
		return drivertest.NoFault
	})
	_, err := open(t, meddling).Table(background, accounts.Name)
	require.ErrorIs(t, err, store.ErrNoTable)
	require.True(t, dropped)
	families, err := memory.Families(background)
	require.NoError(t, err)
	require.Equal(t, []string{"catalogue"}, families)
}

// Readers and writers of a table that another client drops get an error that says so.
func TestDroppedUnderReadersAndWriters(t *testing.T) {
	memory := newWeak(1)
	first := open(t, memory)
	create(t, first, accounts)
	tbl, err := open(t, memory).Table(background, accounts.Name)
	require.NoError(t, err)
	var rows []store.Row
	for i := range int64(2000) {
		rows = append(rows, store.Row{"id": i, "balance": i})
	}
	require.NoError(t, tbl.Put(background, rows...))
	for _, where := range []store.Predicate{{}, balance.AtLeast(0)} {
		n := 0
		var last error
		for _, err := range tbl.Query(background, store.Query{Where: where}) {
			if n++; n == 10 {
				_ = first.Drop(background, accounts.Name)
			}
			last = err
		}
		require.ErrorIs(t, last, store.ErrNoTable)
	}
	require.ErrorIs(t, tbl.Put(background, rows[0]), store.ErrNoTable)
	require.ErrorIs(t, tbl.Delete(background, rows[0]), store.ErrNoTable)
	_, err = tbl.Get(background, rows[0])
	require.ErrorIs(t, err, store.ErrNoTable)
	require.False(t, store.Retryable(err))
	_, err = first.Table(background, accounts.Name)
	require.ErrorIs(t, err, store.ErrNoTable)
	require.ErrorIs(t, first.Drop(background, accounts.Name), store.ErrNoTable)
	// The name is free again, and the new table is another one.
	again := create(t, first, accounts)
	require.Empty(t, collect(t, again, store.Query{}))
}
