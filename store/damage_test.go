package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/testdb"
	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
	"github.com/rangecrypt/rangecrypt/store/internal/fault"
	"github.com/rangecrypt/rangecrypt/store/internal/scheme"
	"github.com/rangecrypt/rangecrypt/store/kms"
)

// A query that meets damage says so with an error that is about what the database holds.
func TestQueriesMeetDamage(t *testing.T) {
	ctx := context.Background()
	for name, c := range map[string]struct {
		damage func(*Table) error
		where  Predicate
	}{
		"format byte of a key cell": {func(tbl *Table) error {
			return rewriteCell(ctx, tbl.now().Data, func(r *driver.Row) { r.Cells[0].Value[0] = 200 })
		}, Field[int64]("c").Equal(7)},
		"format byte of a cell": {func(tbl *Table) error {
			return rewriteCell(ctx, tbl.now().Data, func(r *driver.Row) { r.Cells[1].Value[0] = 200 })
		}, Field[int64]("c").Equal(7)},
		"torn row": {func(tbl *Table) error {
			return rewriteCell(ctx, tbl.now().Data, func(r *driver.Row) { r.Cells = r.Cells[:1] })
		}, Field[int64]("c").Equal(7)},
		"truncated posting": {func(tbl *Table) error {
			return rewriteCell(ctx, tbl.now().Postings, func(r *driver.Row) { r.Key = r.Key[:len(r.Key)-20] })
		}, Field[int64]("c").AtLeast(0)},
		"index record": {func(tbl *Table) error {
			index, err := tbl.store().db.Driver.Family(ctx, driver.FamilySpec{Name: tbl.now().Meta.IndexFamily(), Layout: driver.LayoutWide, Existing: true})
			if err != nil {
				return err
			}
			return rewriteCell(ctx, index, func(r *driver.Row) {
				for i := range r.Cells {
					if v := r.Cells[i].Value; len(v) > 20 {
						v[len(v)-1] ^= 1
					}
				}
			})
		}, Field[int64]("k").Between(0, 1000)},
	} {
		t.Run(name, func(t *testing.T) {
			db := drivertest.NewMemory()
			st, err := Open(ctx, db, kms.NewLocal(testMaster), nil)
			require.NoError(t, err)
			_, err = st.Create(ctx, Schema{
				Name: "t", Key: []KeyPart{HashedPart("id", Int64)},
				Columns: []Column{OrderedColumn("c", Int64, MOPE), OrderedColumn("k", Int64, Kerschbaum)},
			})
			require.NoError(t, err)
			tbl, err := st.Table(ctx, "t")
			require.NoError(t, err)
			require.NoError(t, tbl.Put(ctx, Row{"id": 1, "c": 7, "k": 7}))
			require.NoError(t, c.damage(tbl))
			st, err = Open(ctx, db, kms.NewLocal(testMaster), nil) // which remembers nothing
			require.NoError(t, err)
			tbl, err = st.Table(ctx, "t")
			require.NoError(t, err)
			for _, err = range tbl.Query(ctx, Query{Where: c.where}) {
			}
			require.Error(t, err)
			require.True(t, fault.Refused(err) || errors.Is(err, ErrTorn), "%v", err)
		})
	}
}

// rewrite puts other rows in the place of all that there are.
func rewriteCell(ctx context.Context, f driver.Family, change func(*driver.Row)) error {
	var rows []driver.Row
	for r, err := range f.Scan(ctx, driver.Range{AnyOrder: true}) {
		if err != nil {
			return err
		}
		rows = append(rows, r)
	}
	for _, r := range rows {
		if err := f.Apply(ctx, driver.Mutation{Row: r.Key, DeleteRow: true}); err != nil {
			return err
		}
		r.Key = bytes.Clone(r.Key)
		change(&r)
		if err := f.Apply(ctx, driver.Mutation{Row: r.Key, Puts: r.Cells}); err != nil {
			return err
		}
	}
	return nil
}

// Schemes of package compare, which these tests cannot import.
var (
	kerschbaumPublished = MutableScheme{named{scheme.KerschbaumPublished}}
	plaintextIndexed    = MutableScheme{named{scheme.PlaintextIndexed}}
)

// tableOfHundreds returns an embedded database with a table whose column c, of a scheme, has the values 0 to 1900 in hundreds.
func tableOfHundreds(t *testing.T, scheme ColumnScheme) (driver.DB, *Table) {
	db := testdb.All[1].Open(t, nil)
	tbl, err := stores(t, db, 1)[0].Create(t.Context(), Schema{
		Name: "t", Key: []KeyPart{HashedPart("id", Int64)}, Columns: []Column{OrderedColumn("c", Int64, scheme)},
	})
	require.NoError(t, err)
	for i := range 20 {
		require.NoError(t, tbl.Put(t.Context(), Row{"id": i, "c": 100 * i}))
	}
	return db, tbl
}

// A unit whose generation was changed, or that is gone, is an error, or read on as one whose values have
// moved: a writer does not try again for ever.
func TestUnitOfAnotherGeneration(t *testing.T) {
	for _, scheme := range []ColumnScheme{WozniakIndexed, Kerschbaum, KerschbaumRanked, plaintextIndexed} {
		for _, what := range []string{"later", "put back", "gone"} {
			for who, fresh := range map[string]bool{"who has it open": false, "who opens it": true} {
				t.Run(fmt.Sprintf("%s, %s, %s", scheme, what, who), func(t *testing.T) {
					db, tbl := tableOfHundreds(t, scheme)
					set := func(generation byte) {
						family, unit := unitOf(t, tbl, "c")
						meta := unit.Cells[0]
						meta.Value = bytes.Clone(meta.Value)
						meta.Value[9] = generation
						require.NoError(t, family.Apply(t.Context(), driver.Mutation{Row: unit.Key, Puts: []driver.Cell{meta}}))
					}
					set(1)
					ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
					defer cancel()
					if what != "later" { // it was seen before
						for _, err := range tbl.Query(ctx, Query{Where: Field[int64]("c").Between(0, 1500)}) {
							_ = err
						}
					}
					switch what {
					case "put back":
						set(0)
					case "gone":
						family, unit := unitOf(t, tbl, "c")
						require.NoError(t, family.Apply(t.Context(), driver.Mutation{Row: unit.Key, DeleteRow: true}))
					}
					if fresh {
						var err error
						tbl, err = stores(t, db, 1)[0].Table(ctx, "t")
						require.NoError(t, err)
					}
					for i := range 3 {
						if err := tbl.Put(ctx, Row{"id": 100 + i, "c": 55 + 100*i}); err != nil {
							require.ErrorIs(t, err, ope.ErrIndex)
						}
					}
					require.NoError(t, ctx.Err())
				})
			}
		}
	}
}

// Rows whose ciphertexts were drawn from an index that was put back are not returned as if they were in
// order, and 'verify --repair' stores them again.
func TestRowsRiseWithTheirCiphertexts(t *testing.T) {
	for _, reverse := range []bool{false, true} {
		for _, by := range []string{"key", "column"} {
			t.Run(fmt.Sprintf("%s, reverse %t", by, reverse), func(t *testing.T) {
				db := drivertest.NewMemory()
				schema := Schema{
					Name: "t", Key: []KeyPart{OrderedPart("c", Int64, WozniakIndexed), PlainPart("id", Int64)},
				}
				if by == "column" {
					schema = Schema{Name: "t", Key: []KeyPart{HashedPart("id", Int64)}, Columns: []Column{OrderedColumn("c", Int64, WozniakIndexed)}}
				}
				old, err := stores(t, db, 1)[0].Create(t.Context(), schema)
				require.NoError(t, err)
				require.NoError(t, old.Put(t.Context(), Row{"id": 0, "c": 0}))
				family, before := unitOf(t, old, "c")
				for i := 1; i <= 20; i++ {
					require.NoError(t, old.Put(t.Context(), Row{"id": i, "c": 10 * i}))
				}
				require.NoError(t, family.Apply(t.Context(), driver.Mutation{Row: before.Key, DeleteRow: true}))
				require.NoError(t, family.Apply(t.Context(), driver.Mutation{Row: before.Key, Puts: before.Cells}))
				tbl, err := stores(t, db, 1)[0].Table(t.Context(), "t")
				require.NoError(t, err)
				for i := 1; i <= 20; i++ {
					require.NoError(t, tbl.Put(t.Context(), Row{"id": 100 + i, "c": 10*i + 5}))
				}
				query := func() (n int, err error) {
					for _, err := range tbl.Query(t.Context(), Query{Where: Field[int64]("c").AtLeast(0), Reverse: reverse}) {
						if err != nil {
							return n, err
						}
						n++
					}
					return n, nil
				}
				n, err := query()
				require.ErrorIs(t, err, ErrTampered)
				require.ErrorContains(t, err, `column "c"`)
				require.Less(t, n, 41)

				_, err = tbl.Verify(t.Context(), &VerifyOptions{Repair: true})
				require.NoError(t, err)
				n, err = query()
				require.NoError(t, err)
				require.Equal(t, 41, n)
			})
		}
	}
}

// A unit whose state was changed is named by Verify, where it keeps writers out, and mended. Nobody waits for it for ever.
func TestUnitOfAnotherState(t *testing.T) {
	for _, scheme := range []ColumnScheme{Kerschbaum, KerschbaumRanked} {
		for _, state := range []ope.State{ope.StateAbsent, ope.StateSealed, ope.StateRetired, ope.StateDivided} {
			t.Run(fmt.Sprintf("%s, %d", scheme, state), func(t *testing.T) {
				db, tbl := tableOfHundreds(t, scheme)
				family, unit := unitOf(t, tbl, "c")
				meta := unit.Cells[0]
				meta.Value = bytes.Clone(meta.Value)
				meta.Value[1] = byte(state)
				require.NoError(t, family.Apply(t.Context(), driver.Mutation{Row: unit.Key, Puts: []driver.Cell{meta}}))

				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
				defer cancel()
				fresh := func() *Table {
					tbl, err := stores(t, db, 1)[0].Table(ctx, "t")
					require.NoError(t, err)
					return tbl
				}
				err := fresh().Put(ctx, Row{"id": 100, "c": 55})
				require.NoError(t, ctx.Err(), "it goes on for ever")
				if err != nil {
					require.ErrorIs(t, err, ope.ErrIndex)
					found, failed := fresh().Verify(ctx, nil)
					require.NoError(t, failed)
					require.False(t, found.Sound(), "what keeps writers out is no fault")
				}
				_, err = fresh().Verify(ctx, &VerifyOptions{Repair: true, Grace: time.Millisecond})
				require.NoError(t, err)
				require.NoError(t, fresh().Put(ctx, Row{"id": 101, "c": 56}))
				found, err := fresh().Verify(ctx, nil)
				require.NoError(t, err)
				require.True(t, found.Sound(), "%+v", found)
			})
		}
	}
}
