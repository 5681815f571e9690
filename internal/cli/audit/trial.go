package audit

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/rangecrypt/rangecrypt/internal/cli/show"
)

// A sampler draws the trials of an audit.
type sampler struct {
	Config
	halved  bool
	whole   *column               // what every trial attacks, unless the column is halved
	keyFree map[string]*encrypted // whole under the schemes whose labels do not depend on the key
}

func newSampler(ctx context.Context, cfg Config, specs []schemeSpec) (*sampler, error) {
	s := &sampler{Config: cfg, halved: cfg.Aux == nil && cfg.Dist == nil}
	attacked, others := len(cfg.Values), len(cfg.Aux)
	if s.halved {
		attacked, others = len(cfg.Values)-len(cfg.Values)/2, len(cfg.Values)/2
	}
	if attacked < MinRows || cfg.Dist == nil && others < MinRows {
		return nil, fmt.Errorf("%d %s to attack and %d that the adversary knows are too few: an audit needs %d rows of each, or %d rows of which one half is held against the other, or --dist",
			attacked, show.Plural(attacked, "row"), others, MinRows, 2*MinRows)
	}
	if s.halved {
		return s, nil
	}
	s.whole = newColumn(cfg, cfg.Values, cfg.Aux)
	s.keyFree = make(map[string]*encrypted)
	for _, spec := range specs {
		if spec.trace == nil {
			continue
		}
		e, err := s.whole.encrypted(ctx, spec, 0)
		if err != nil {
			return nil, err
		}
		s.keyFree[spec.name] = e
	}
	return s, nil
}

// halve deals the values out to two halves, each in the order of the rows.
func halve(values []int64, r *rand.Rand) (a, b []int64) {
	second := make([]bool, len(values))
	for _, i := range r.Perm(len(values))[:len(values)/2] {
		second[i] = true
	}
	a, b = make([]int64, 0, (len(values)+1)/2), make([]int64, 0, len(values)/2)
	for i, x := range values {
		if second[i] {
			b = append(b, x)
		} else {
			a = append(a, x)
		}
	}
	return a, b
}

// A trial is what the attacks found with one key of each scheme, and with one choice of known rows
// and halves.
type trial struct {
	known   int
	without Finding
	schemes []attacked
}

// attacked is what the attacks of a trial found of a scheme.
type attacked struct {
	id     string
	traced float64
	views  map[Adversary][]attack
	errors []float64 // of the best attack of KnowsDistribution
}

func (s *sampler) trial(ctx context.Context, specs []schemeSpec, k int) (*trial, error) {
	c := s.whole
	if s.halved {
		values, aux := halve(s.Values, newRand(s.Seed, fmt.Sprintf("halves %d", k)))
		c = newColumn(s.Config, values, aux)
	}
	t := &trial{known: c.known}
	t.without = c.constants(c.distribution)[0].Finding
	for _, a := range c.constants(c.distribution)[1:] {
		t.without = t.without.best(a.Finding)
	}
	for _, spec := range specs {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		e := s.keyFree[spec.name]
		if e == nil {
			var err error
			if e, err = c.encrypted(ctx, spec, k); err != nil {
				return nil, fmt.Errorf("audit of %s: %w", spec.name, err)
			}
		}
		a := attacked{id: e.id, traced: e.traced}
		var err error
		if a.views, err = c.attack(e, newRand(s.Seed, fmt.Sprintf("known %d", k))); err != nil {
			return nil, fmt.Errorf("audit of %s: %w", spec.name, err)
		}
		a.errors = c.errors(slices.MaxFunc(a.views[KnowsDistribution], func(a, b attack) int { return cmp.Compare(a.Near, b.Near) }).guesses)
		for _, attacks := range a.views {
			for i := range attacks {
				attacks[i].guesses = nil // many rows, many attacks, many trials
			}
		}
		t.schemes = append(t.schemes, a)
		if s.Progress != nil {
			s.Progress.Add(1)
		}
	}
	return t, nil
}
