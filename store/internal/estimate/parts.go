package estimate

import (
	"context"
	"math"

	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/inspect"
	"github.com/rangecrypt/rangecrypt/store/internal/chunks"
	"github.com/rangecrypt/rangecrypt/store/internal/engine"
	"github.com/rangecrypt/rangecrypt/store/internal/rowcodec"
)

// rowsOfPart is how many rows a part of a table has that is cut as its size wants, if keys are spread evenly. They take some
// seconds to convert. With fewer, a process for each part would mostly start; with more, one that dies loses minutes.
const rowsOfPart = 100_000

// Parts cuts a table into n parts, or with 0 into as many as its size wants.
func Parts(ctx context.Context, t *engine.Engine, n int) (parts []inspect.Part, err error) {
	if n == 0 {
		all := chunks.Under(t.Prefix)
		all.Cells.Only = [][]byte{rowcodec.KeyQualifier}
		const draws, drawn = 64, 32 // as for the plan of a query
		rows, err := Keys{Family: t.Data, Spec: t.Spec, Scans: []driver.Range{all}}.Draw(ctx, draws, drawn,
			func(rows []driver.Row) (int, error) { return len(rows), nil })
		if err != nil {
			return nil, err
		}
		n = int(min(max(math.Ceil(rows.Rows/rowsOfPart), 1), inspect.MaxParts))
	}
	if err := (inspect.Part{Of: n}).Check(); err != nil {
		return nil, err
	}
	for i := range n {
		parts = append(parts, inspect.Part{Index: i, Of: n})
	}
	return parts, nil
}
