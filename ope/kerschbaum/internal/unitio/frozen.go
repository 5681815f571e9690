package unitio

import (
	"context"
	"fmt"

	"github.com/rangecrypt/rangecrypt/ope/kerschbaum/internal/order"
	"github.com/rangecrypt/rangecrypt/ope/kerschbaum/internal/unit"
)

// Frozen returns the elements of a unit, of which label 0 was read, that are being handed over; none if others have gone on.
func (s *Shard) Frozen(ctx context.Context, p unit.Page) ([]order.Element, error) {
	u, is := p.Unit, p.PartOf()
	from := is.Given.Label.Previous().Next() // 1 for 0
	view, err := s.ReadRecords(ctx, u, from.Bytes(), is.Low.Label.Bytes(), int(is.N)+1)
	if err != nil || view.Meta.Generation != p.Meta.Generation {
		return nil, err
	}
	if len(view.Records) != int(is.N) {
		return nil, u.Corrupt(fmt.Errorf("%w: it has %d of %d values that are being handed over", order.ErrCorrupt, len(view.Records), is.N))
	}
	frozen := make([]order.Element, len(view.Records))
	for i, r := range view.Records {
		if frozen[i], err = u.OpenElement(r); err != nil {
			return nil, err
		}
	}
	return frozen, nil
}
