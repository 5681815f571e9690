package store

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
)

// What the database has of a column that was dropped or changed is as docs/operations.md says: the value of a plain column
// that was dropped stays in the clear though the row is put again, unless the table is conditional; a conversion removes it.
func TestDroppedPlainColumnStaysUntilConverted(t *testing.T) {
	dropped := []Change{DropColumn("secret")}
	changed := []Change{ChangeColumn(RandomisedColumn("secret", String))}
	for _, kind := range []struct {
		name        string
		column      Column
		changes     [][]Change
		conditional bool
		stays       bool // also if the row is put again
	}{
		{"dropped", PlainColumn("secret", String), [][]Change{dropped}, false, true},
		{"changed", PlainColumn("secret", String), [][]Change{changed}, false, false},
		{"changed and dropped", PlainColumn("secret", String), [][]Change{changed, dropped}, false, true},
		{"conditional, dropped", PlainColumn("secret", String), [][]Change{dropped}, true, false},
		{"conditional, changed", PlainColumn("secret", String), [][]Change{changed}, true, false},
	} {
		for _, cells := range []bool{false, true} {
			t.Run(fmt.Sprint(kind.name, cells), func(t *testing.T) {
				db := drivertest.NewMemory()
				clients := stores(t, db, 2)
				tbl, err := clients[0].Create(t.Context(), Schema{
					Name: "t", CellPerColumn: cells, Conditional: kind.conditional, Key: []KeyPart{HashedPart("id", Int64)},
					Columns: []Column{OrderedColumn("rank", Int32, MOPE), kind.column},
				})
				require.NoError(t, err)
				theirs, err := clients[1].Table(t.Context(), "t") // which learns of the changes when it puts
				require.NoError(t, err)
				for i := range 3 {
					require.NoError(t, tbl.Put(t.Context(), Row{"id": i, "rank": i, "secret": "in the clear"}))
				}
				clear := func() (n int) {
					for row, err := range tbl.now().Data.Scan(t.Context(), driver.Range{AnyOrder: true}) {
						require.NoError(t, err)
						for _, cell := range row.Cells {
							if bytes.Contains(cell.Value, []byte("in the clear")) {
								n++
							}
						}
					}
					return n
				}
				for _, changes := range kind.changes {
					require.NoError(t, clients[0].Alter(t.Context(), "t", changes...))
				}
				require.Equal(t, 3, clear())
				require.NoError(t, tbl.Put(t.Context(), Row{"id": 0, "rank": 0}))
				left := 2
				if kind.stays {
					left = 3
				}
				require.Equal(t, left, clear())
				require.NoError(t, theirs.Put(t.Context(), Row{"id": 1, "rank": 1})) // which reads what is there, as it converts the row
				require.Equal(t, left-1, clear())
				s, err := tbl.Status(t.Context())
				require.NoError(t, err)
				require.Less(t, s.Version, s.Latest)
				_, err = tbl.Convert(t.Context(), nil)
				require.NoError(t, err)
				require.Zero(t, clear())
				s, err = tbl.Status(t.Context())
				require.NoError(t, err)
				require.Equal(t, s.Latest, s.Version)
				require.Equal(t, s.Total, s.Done)
			})
		}
	}
}

// What a row of a dropped column had from a time when it did not expire is not removed with the row: the database was told to keep it
// for ever. A conversion removes it, whether the row has expired just now, or the database has removed the rest of it.
func TestDroppedPlainColumnOfExpiredRows(t *testing.T) {
	for name, wait := range map[string]time.Duration{"lives": 0, "expired": 2 * time.Hour, "removed": 4 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			ctx, clock := t.Context(), newHandClock()
			st := clocked(t, drivertest.NewMemoryAt(clock.now), clock, 0)[0]
			tbl, err := st.Create(ctx, Schema{
				Name: "t", TTL: TTLByRow, Key: []KeyPart{HashedPart("id", Int64)},
				Columns: []Column{OrderedColumn("rank", Int32, MOPE), RandomisedColumn("note", String), PlainColumn("secret", String), PlainColumn("other", String)},
			})
			require.NoError(t, err)
			require.NoError(t, tbl.Put(ctx, Row{"id": 1, "rank": 1, "secret": "in the clear", "other": "in the clear"}, Row{"id": 2, "rank": 2, "secret": "in the clear"}))
			require.NoError(t, st.Alter(ctx, "t", DropColumn("secret"), DropColumn("other")))
			require.NoError(t, tbl.Expiring(time.Hour).Put(ctx, Row{"id": 1, "rank": 1, "note": "n"}))
			clock.advance(wait)
			_, err = tbl.Convert(ctx, nil)
			require.NoError(t, err)
			for _, row := range familyRows(t, st.db.Driver, tbl, "t") {
				for _, cell := range row.Cells {
					require.NotContains(t, string(cell.Value), "in the clear")
				}
			}
			report, err := tbl.Verify(ctx, nil)
			require.NoError(t, err)
			require.Empty(t, report.Faults)
			// Whoever puts the row again has it.
			require.NoError(t, tbl.Put(ctx, Row{"id": 1, "rank": 3, "note": "again"}))
			row, err := tbl.Get(ctx, Row{"id": 1})
			require.NoError(t, err)
			require.Equal(t, "again", row["note"])
		})
	}
}
