package kerschbaum

import (
	"context"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/kerschbaum/internal/reencrypt"
)

// pass makes the pass that ends an epoch, or finishes it. Of a unit that is retired already it
// returns the result.
func (s *shard) pass(ctx context.Context, epoch uint64, progress func(done, total int)) (stats ope.RebalanceStats, err error) {
	// One goroutine of a process is enough.
	select {
	case s.passing <- struct{}{}:
		defer func() { <-s.passing }()
	case <-ctx.Done():
		return stats, ctx.Err()
	}
	return s.finish(ctx, epoch, progress)
}

// finish is pass, for one goroutine at a time.
func (s *shard) finish(ctx context.Context, epoch uint64, progress func(done, total int)) (stats ope.RebalanceStats, err error) {
	return s.copier().Run(ctx, epoch, progress)
}

// copier returns what makes passes, and counts them.
func (s *shard) copier() *reencrypt.Copier {
	return &reencrypt.Copier{
		Shard: s.units, Rules: s.rules, Chunk: s.chunk, Page: s.passPage,
		Begun:  func() { s.count(func(n *Stats) { n.Passes++ }) },
		Copied: func(values int) { s.count(func(n *Stats) { n.Moved += values }) },
		Ended:  s.enter,
	}
}
