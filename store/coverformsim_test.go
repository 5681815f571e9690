package store

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/store/internal/forms"
)

// The simulation of copies where two clients give covering columns other schemes and search keys, and convert the rows. Queries
// are asked in the order of a column, too, and in pages. While a column has several forms, its copies are hints.

// reform gives columns another scheme or search key, or converts the rows.
func (c *coverClient) reform() error {
	ctx, w := context.Background(), c.World
	change := func(s Column) error { return c.st.Alter(ctx, "t", ChangeColumn(s)) }
	switch w.r.IntN(9) {
	case 0:
		return change(OrderedColumn("celsius", Int8, Boldyreva).Covering())
	case 1:
		return change(OrderedColumn("celsius", Int8, Wozniak).Covering("note", "room"))
	case 2:
		return change(OrderedColumn("celsius", Int8, MOPE))
	case 3:
		return change(OrderedColumn("watt", Int8, MOPE).Covering())
	case 4:
		return c.st.RotateSearchKeys(ctx, "t", "celsius", "watt")
	case 5:
		return c.st.RotateSearchKeys(ctx, "t", "room")
	}
	_, err := c.tbl.Convert(ctx, nil)
	if err == nil {
		w.Count("conversions")
	}
	return err
}

// reorder draws an order for a query, and whether it is asked for in pages.
func (c *coverClient) reorder(q *Query) (paged bool) {
	w := c.World
	if w.r.IntN(3) == 0 {
		q.OrderBy = "celsius"
	}
	if len(forms.Of(c.tbl.now().ByName["celsius"])) > 1 {
		w.Count("queries by several forms")
	}
	return w.r.IntN(3) == 0
}

// answer yields the rows of a query, or those of all its pages.
func (c *coverClient) answer(q Query, paged bool) iter.Seq2[Row, error] {
	if !paged {
		return c.tbl.Query(context.Background(), q)
	}
	return func(yield func(Row, error) bool) {
		for more := true; more; more = q.PageToken != "" {
			var page []Row
			var err error
			q.Limit = 1 + c.World.r.IntN(4)
			if page, q.PageToken, err = c.tbl.Page(context.Background(), q); err != nil {
				yield(nil, err)
				return
			}
			for _, row := range page {
				if !yield(row, nil) {
					return
				}
			}
		}
	}
}

// checkOrder looks whether rows are in the order that was asked for. Those without a value come last.
func (w *coverWorld) checkOrder(q Query, rows []Row) {
	if q.OrderBy == "" || slices.IsSortedFunc(rows, func(a, b Row) int {
		x, has := a[q.OrderBy].(int8)
		y, have := b[q.OrderBy].(int8)
		switch {
		case has != have && has:
			return -1
		case has != have:
			return 1
		case q.Reverse:
			return cmp.Compare(y, x)
		}
		return cmp.Compare(x, y)
	}) {
		return
	}
	w.Fail("the rows of a query are not in order")
}

// Simulated: queries find every row once, and in order, whoever changes a column whose index entries have copies, and dies.
func TestCopiesOfSeveralFormsSimulated(t *testing.T) {
	for name, v := range map[string]coverVariant{
		"compared": {forms: true}, "clocks": {forms: true, clocks: true}, "conditional": {forms: true, conditional: true},
	} {
		t.Run(name, func(t *testing.T) {
			runs := max(10, *simRuns/2)
			if testing.Short() {
				runs = min(runs, 20)
			}
			total, found, _ := coverRuns(t, v, runs)
			t.Logf("%d runs: %v; queries had to return %d rows", runs, total, found)
			if runs >= 40 { // fewer may lack some of it
				require.Empty(t, total.Missing("copies", "queries", "queries by several forms", "conversions", "dies before", "dies after", "dies, late"))
				require.Greater(t, found, runs)
			}
		})
	}
}
