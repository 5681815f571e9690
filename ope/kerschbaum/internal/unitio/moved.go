package unitio

import (
	"bytes"
	"context"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/kerschbaum/internal/order"
	"github.com/rangecrypt/rangecrypt/ope/kerschbaum/internal/unit"
)

// Moved says where elements of a unit have moved since a generation.
type Moved struct {
	Is    ope.Meta
	First unit.Page     // with the part of the index that the unit has, if it was divided
	All   []order.Moved // one for each generation
	Whole bool          // each generation is there
}

// Last says where elements moved last. It is zero if none have moved.
func (m Moved) Last() (last order.Moved) {
	if n := len(m.All); n > 0 {
		last = m.All[n-1]
	}
	return last
}

// ReadMoved reads where elements have moved after a generation. Without records, it reads the header only.
func (s *Shard) ReadMoved(ctx context.Context, u *unit.Unit, after uint64, most int, records bool) (m Moved, err error) {
	if !records {
		m.First, err = s.ReadHeader(ctx, u)
		m.Is = m.First.Meta
		return m, err
	}
	view, err := s.ReadRecords(ctx, u, unit.MovedKey(after+1), unit.AboveMoved, most)
	m.Is, m.First = view.Meta, unit.Page{Unit: u, Meta: view.Meta}
	if err == nil && m.Is.State == ope.StateDivided {
		m.First, err = s.ReadHeader(ctx, u)
	}
	if err != nil {
		return m, err
	}
	m.All = make([]order.Moved, len(view.Records))
	for i, r := range view.Records {
		if m.All[i], err = u.OpenMoved(r); err != nil {
			return m, err
		}
	}
	n := uint64(len(m.All))
	m.Whole = !view.More && n == m.Is.Generation-after && (n == 0 || bytes.Equal(view.Records[n-1].Key, unit.MovedKey(m.Is.Generation)))
	return m, nil
}
