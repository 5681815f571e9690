package store

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/intercept"
	"github.com/rangecrypt/rangecrypt/internal/pause"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
)

// A request whose answer was lost may be sent again, and be made once more after another client has replaced or deleted the rows that
// the first one had put, and dropped what they are found by. The rows that are back are found again.
func TestRowsThatArePutTwiceAreFound(t *testing.T) {
	replace := func(ctx context.Context, tbl *Table, row Row) error {
		row["n"] = int64(9)
		return tbl.Put(ctx, row)
	}
	remove := func(ctx context.Context, tbl *Table, row Row) error { return tbl.Delete(ctx, row) }
	for name, c := range map[string]struct {
		key    []KeyPart
		column Column
		other  func(context.Context, *Table, Row) error
	}{
		"replaced":          {nil, OrderedColumn("n", Int64, MOPE), replace},
		"deleted":           {nil, DeterministicColumn("n", Int64), remove},
		"deleted, appended": {[]KeyPart{TiePart("tie")}, DeterministicColumn("n", Int64), remove},
		"deleted, copied":   {[]KeyPart{TiePart("tie")}, DeterministicColumn("n", Int64).Covering(), remove},
	} {
		t.Run(name, func(t *testing.T) {
			memory, family, between := drivertest.NewMemory(), "", func() {}
			var tbl *Table
			var first, again []string
			postings := func() (values []string) {
				f, err := memory.Family(t.Context(), tbl.now().PostingSpec)
				require.NoError(t, err)
				for row, err := range f.Scan(t.Context(), driver.Range{AnyOrder: true}) {
					require.NoError(t, err)
					values = append(values, string(row.Cells[0].Value))
				}
				return values
			}
			hooked := intercept.New(memory, func(ctx context.Context, op intercept.Op, c intercept.Call) error {
				err := c.Make(nil)
				if first != nil && again == nil && op.Method == "Apply" && op.Family == tbl.now().PostingSpec.Name {
					again = postings()
				}
				if now := between; op.Method == "Apply" && op.Family == family && err == nil {
					family = ""
					first = postings()
					now()
					pause.Repeats(ctx, "server_unavailable")
					err = c.Make(nil)
				}
				return err
			}, nil)
			st := stores(t, hooked, 1)[0]
			schema := Schema{Name: "t", Key: append([]KeyPart{HashedPart("id", Int64)}, c.key...), Columns: []Column{c.column}, AppendOnly: c.key != nil}
			var err error
			tbl, err = st.Create(t.Context(), schema)
			require.NoError(t, err)
			five := func(tbl *Table) (rows []Row) {
				for row, err := range tbl.Query(t.Context(), Query{Where: Field[int64]("n").Equal(5)}) {
					require.NoError(t, err)
					rows = append(rows, row)
				}
				return rows
			}
			between = func() {
				other := tableOfAnother(t, memory, "t")
				found := five(other)
				require.Len(t, found, 1)
				require.NoError(t, c.other(t.Context(), other, found[0]))
				require.Empty(t, five(other))
			}
			family = tbl.now().Family()
			require.NoError(t, tbl.Put(t.Context(), Row{"id": int64(1), "n": int64(5)}))
			require.NotEmpty(t, again)
			if name == "deleted, copied" {
				require.NotSubset(t, again, first, "who has read the posting of before the deletion would put a copy into this one")
			}
			require.Len(t, five(tbl), 1)
			require.Len(t, five(tableOfAnother(t, memory, "t")), 1)
			report, err := tbl.Verify(t.Context(), nil)
			require.NoError(t, err)
			require.True(t, report.Sound(), report.Faults)
		})
	}
}
