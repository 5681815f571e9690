package inspect

import (
	"fmt"

	"github.com/rangecrypt/rangecrypt/store/driver"
)

// A Part is one of some parts of a table, by ranges of its stored keys: Part{0, 64} is the first of 64. It can be written down, and
// handed to another process, which does a pass over it: Table.ConvertPart or Table.VerifyPart.
//
// Each row is in one of the parts that a table is cut into. Parts are alike in their share of the possible keys, and not in the
// number of their rows: under an order-preserving scheme most rows may be in few parts.
type Part struct {
	Index int `json:"part"`  // from 0
	Of    int `json:"parts"` // how many there are, at most [MaxParts]
}

// MaxParts is how many parts a table can be cut into.
const MaxParts = 5000

// Check returns an error unless there is such a part.
func (p Part) Check() error {
	if p.Of < 1 || p.Of > MaxParts || p.Index < 0 || p.Index >= p.Of {
		return fmt.Errorf("%w: part %d of %d: a table has 1 to %d parts, and the first one is 0", driver.ErrRange, p.Index, p.Of, MaxParts)
	}
	return nil
}
