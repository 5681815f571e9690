package kerschbaum

import (
	"context"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/kerschbaum/internal/order"
	"github.com/rangecrypt/rangecrypt/ope/kerschbaum/internal/unit"
)

// unit returns an epoch.
func (s *shard) unit(epoch uint64) *unit.Unit { return s.units.Unit(epoch) }

// seen returns the state and the generation that this client has met of an epoch, if it has met any.
func (s *shard) seen(epoch uint64) (least ope.Meta, met bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return ope.Meta{State: s.known.state, Generation: s.known.generation}, s.known.met && s.known.epoch == epoch
}

// addMoved adds to a change what says where elements move when its generation begins. Only the last ones are kept.
func (s *shard) addMoved(change *ope.Change, u *unit.Unit, m order.Moved) {
	generation := change.Meta.Generation
	change.Puts = append(change.Puts, u.SealMoved(generation, m))
	if kept := uint64(s.kept); generation > kept {
		change.Deletes = append(change.Deletes, unit.MovedKey(generation-kept))
	}
}

// read returns the elements with from <= label < to, at most limit of them. Of those that another unit has by now, there
// are none.
func (s *shard) read(ctx context.Context, epoch uint64, from, to order.Label, limit int) (unit.Page, error) {
	s.mu.Lock()
	from = s.known.rules.ReadFrom(from)
	s.mu.Unlock()
	return s.units.Read(ctx, epoch, from, to, limit)
}
