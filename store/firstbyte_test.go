package store

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
	"github.com/rangecrypt/rangecrypt/store/internal/rowcodec"
)

// The first byte of a cell says how it is stored. One that is changed is damage, and no sign of a later version: that would
// have said so in the catalogue.
func TestFirstBytesAreTampered(t *testing.T) {
	key := []KeyPart{HashedPart("k", String), TiePart("id")}
	for name, schema := range map[string]Schema{
		"packed":          {Key: key, Columns: []Column{OrderedColumn("o", Int32, MOPE), RandomisedColumn("r", String), PlainColumn("p", String)}},
		"cell per column": {CellPerColumn: true, Key: key, Columns: []Column{DeterministicColumn("o", Int32), RandomisedColumn("r", String), PlainColumn("p", String)}},
		"copies":          {AppendOnly: true, Key: key, Columns: []Column{OrderedColumn("o", Int32, MOPE).Covering(), RandomisedColumn("r", String)}},
		"clear":           {Key: []KeyPart{PlainPart("k", Int64), TiePart("id")}, Columns: []Column{OrderedColumn("o", Int32, Plaintext), PlainColumn("p", String)}},
		"clear copies": {AppendOnly: true, Key: []KeyPart{PlainPart("k", Int64), TiePart("id")}, Columns: []Column{
			OrderedColumn("o", Int32, Plaintext).Covering(), PlainColumn("p", String),
		}},
	} {
		t.Run(name, func(t *testing.T) {
			schema.Name = "t"
			tbl, err := stores(t, drivertest.NewMemory(), 1)[0].Create(t.Context(), schema)
			require.NoError(t, err)
			row := Row{"k": "a", "o": 1}
			if schema.Key[0].Describe().Type == "int64" {
				row["k"] = 1
			}
			for _, c := range schema.Columns[1:] {
				row[c.Describe().Name] = "value"
			}
			require.NoError(t, tbl.Put(t.Context(), row))
			ask := func() (err error) {
				for _, where := range []Predicate{{}, Int32.Field("o").AtLeast(0)} {
					for _, failed := range tbl.Query(t.Context(), Query{Where: where}) {
						if failed != nil {
							err = failed
						}
					}
				}
				return err
			}
			require.NoError(t, ask())
			cells := 0
			damage := func(family driver.Family, copies bool) {
				for stored, err := range family.Scan(t.Context(), driver.Range{AnyOrder: true}) {
					require.NoError(t, err)
					for _, cell := range stored.Cells {
						if copies && !rowcodec.HasCopy(cell.Value) {
							continue
						}
						cells++
						cell.Stamp = 0
						put := func(value []byte) {
							cell.Value = value
							require.NoError(t, family.Apply(t.Context(), driver.Mutation{Row: stored.Key, Puts: []driver.Cell{cell}}))
						}
						whole := cell.Value
						for first := range 256 {
							damaged := bytes.Clone(whole)
							damaged[0] = byte(first)
							put(damaged)
							err := ask()
							if first == int(whole[0]) || copies && !rowcodec.HasCopy(damaged) { // which makes it a hint
								require.NoError(t, err)
								continue
							}
							what := fmt.Sprintf("first byte %d of cell %x", first, cell.Qualifier)
							require.ErrorIs(t, err, ErrTampered, what)
							require.NotErrorIs(t, err, ErrFormat, what)
						}
						put(whole)
					}
				}
			}
			damage(tbl.now().Data, false)
			if tbl.now().Postings != nil {
				damage(tbl.now().Postings, true)
			}
			require.Greater(t, cells, 1)
		})
	}
}

// What a key cell that anybody can write says is as well damage where it cannot be read.
func TestPlainKeyCellsThatCannotBeRead(t *testing.T) {
	tbl, err := stores(t, drivertest.NewMemory(), 1)[0].Create(t.Context(), Schema{
		Name: "t", TTL: TTLByRow, Key: []KeyPart{PlainPart("k", Int64)}, Columns: []Column{PlainColumn("p", Int64), PlainColumn("q", String)},
	})
	require.NoError(t, err)
	require.NoError(t, tbl.Put(t.Context(), Row{"k": 1, "p": 2, "q": "q"}))
	for row, err := range tbl.now().Data.Scan(t.Context(), driver.Range{AnyOrder: true}) {
		require.NoError(t, err)
		failed := 0
		for n := rowcodec.PlainOverhead + 1; n < len(row.Cells[0].Value); n++ { // with nothing after that, the row was deleted
			cut := row.Cells[0]
			cut.Stamp, cut.Value = 0, cut.Value[:n]
			require.NoError(t, tbl.now().Data.Apply(t.Context(), driver.Mutation{Row: row.Key, Puts: []driver.Cell{cut}}))
			if _, err := tbl.Get(t.Context(), Row{"k": 1}); err != nil {
				failed++
				require.ErrorIs(t, err, ErrTampered)
				require.NotErrorIs(t, err, ErrFormat)
			}
		}
		require.Greater(t, failed, 10)
	}
}
