package unit

import (
	"context"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/internal/reads"
	"github.com/rangecrypt/rangecrypt/ope/kerschbaum/internal/order"
)

// An Ahead reads the pages of a unit, the next one while the last is opened. It is for one goroutine.
type Ahead struct {
	*reads.Ahead
	unit *Unit
}

// ReadAhead returns an Ahead that reads records by read. Who is done with it calls Stop.
func (u *Unit) ReadAhead(ctx context.Context, read func(ctx context.Context, from, to []byte) (ope.View, error)) *Ahead {
	return &Ahead{reads.NewAhead(ctx, read), u}
}

// Page returns what is between two elements of the part of the index that has the rules, with the lower one.
func (a *Ahead) Page(left, right order.Element, r order.Rules) (Page, error) {
	from := r.ReadFrom(left.Label)
	view, err := a.Read(from.Bytes(), right.Label.Bytes())
	if err != nil {
		return Page{}, err
	}
	return a.unit.Open(view, from.IsZero())
}
