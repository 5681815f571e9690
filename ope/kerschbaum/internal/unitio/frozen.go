package unitio

import (
	"context"
	"fmt"

	"github.com/rangecrypt/rangecrypt/ope"
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

// FrozenEntries yields the values within that are being handed over, and raises the lower bound beyond them. It reports whether
// there may be more: all of them, if others have gone on.
func (s *Shard) FrozenEntries(ctx context.Context, p unit.Page, ciphers *unit.Ciphers, within *ope.Domain, yield func(ope.Entry, error) bool) (bool, error) {
	u, is := p.Unit, p.PartOf()
	frozen, err := s.Frozen(ctx, p)
	if err != nil || frozen == nil {
		return err == nil, err
	}
	version := ope.Version{Epoch: u.Epoch, Generation: is.Since}
	for _, e := range frozen {
		if e.Value < within.Min {
			continue
		}
		if e.Value > within.Max || !yield(ope.Entry{Plaintext: e.Value, Ciphertext: ciphers.Of(u.Epoch, e.Value, e.Label), Version: version}, nil) {
			return false, nil
		}
	}
	within.Min = is.Low.Value
	return within.Min <= within.Max, nil
}
