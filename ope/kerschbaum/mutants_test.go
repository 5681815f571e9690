package kerschbaum

import (
	"testing"
	"time"

	"github.com/rangecrypt/rangecrypt/internal/mutant"
	"github.com/rangecrypt/rangecrypt/internal/sim"
)

// Each guard of the protocol is taken away, and the simulation must notice. It must do so by harm to users:
// values are lost, out of order or missing in a range, and not only an invariant of the checker is violated.
var mutants = []mutant.Mutant{
	simulated("insertAnyGeneration", "fewest labels, appends", "insert.go", `
	applied, err := s.units.Commit(ctx, u, cond, change)
	if err != nil || !applied {
		return false, err
	}
	s.count(func(n *Stats) { n.Inserted +=`, `
	if On {
		view, err := s.units.ReadRecords(ctx, u, nil, nil, 1)
		if err != nil {
			return false, err
		}
		cond.Generation, change.Meta.Generation = view.Meta.Generation, view.Meta.Generation
	}
	applied, err := s.units.Commit(ctx, u, cond, change)
	if err != nil || !applied {
		return false, err
	}
	s.count(func(n *Stats) { n.Inserted +=`),
	simulated("insertOverOccupied", "few labels", "insert.go",
		`cond.Absent = p.Firsts`,
		`if !On { cond.Absent = p.Firsts }`),
	simulated("insertIntoGapsThatAreNotEmpty", "fewest labels, passes", "insert.go",
		`cond.Nonce = &p.nonce`,
		`if !On { cond.Nonce = &p.nonce }`),
	simulated("insertAnywhere", "few labels", "internal/order/batch.go", `
	e, ok, err := r.Place(left, right)
	if err != nil {`, `
	e, ok, err := r.Place(left, right)
	if ok && On {
		labels := Probes(left.Label, right.Label, 255)
		e.Label = labels[uint64(x)%uint64(len(labels))]
	}
	if err != nil {`),
	simulated("insertBesideWhatIsKnownByThen", "some labels, goroutines", "insert.go",
		`if l.Gap(run[i].Value) == (order.Gap{Left: run[i-1], Right: g.Right, Linked: true}) {`,
		`if On || l.Gap(run[i].Value) == (order.Gap{Left: run[i-1], Right: g.Right, Linked: true}) {`),
	simulated("relabelWhatHasChanged", "fewest labels, appends", "insert.go",
		`cond.Nonce = &w.meta.Nonce`,
		`if !On { cond.Nonce = &w.meta.Nonce }`),
	simulated("refreshAnyGeneration", "fewest labels, appends", "internal/order/list.go", `
	for _, m := range all {
		l.Forget(m)`, `
	for _, m := range all {
		if !On { l.Forget(m) }`),
	simulated("forgetLessThanMoved", "some labels, passes, small caches", "internal/unitio/moved.go", `m.Whole = !view.More`, `m.Whole = On || !view.More`),
	{
		Name: "encryptWhatIsUndecided", Test: "^TestSimulationOfUndecidedValues$", File: "insert.go",
		Old: `case p.missing == 0 && doubtful:`,
		New: `case p.missing == 0 && doubtful && !On:`,
	},
	{
		Name: "moveBesideInsertions", Test: "^TestSimulation$", File: "insert.go",
		Flags: append(flags("labels enough, many passes"), "-kerschbaum.seeds=40"),
		Old:   `Generation: w.meta.Generation, Absent: w.firsts}`,
		New: `Generation: w.meta.Generation, Absent: w.firsts}
	if On {
		cond.Absent = nil
	}`,
	},
	simulated("moveBesideWhatWasNotRead", "labels enough, many passes", "rebalance.go",
		`return beside || i == 0 && lower.Linked ||`,
		`return beside || !On && i == 0 && lower.Linked || !On &&`),
	simulated("moveAcrossOthers", "fewest labels, passes", "internal/sweep/sweep.go",
		`ok && !out[i].Label.Less(to.Label) && out[i-1].Label.Less(to.Label) {`,
		`ok && (On || !out[i].Label.Less(to.Label)) && out[i-1].Label.Less(to.Label) {`),
	simulated("rangeAnyGeneration", "fewest labels, appends", "range.go",
		`p.Meta.Generation != version.Generation {
			return true, nil`, `p.Meta.Generation != version.Generation && !On {
			return true, nil`),
	{
		Name: "copyIntoOpen", Test: "^TestSimulation$", Flags: flags("few labels, appends, copies"),
		Edits: []mutant.Edit{
			{File: "internal/reencrypt/reencrypt.go", Old: `		applied, err := c.Commit(ctx, next, cond, change)
		if applied || err != nil {
			return false, err`, New: `		if On {
			meta, err := c.ReadMeta(ctx, next)
			if err != nil {
				return false, err
			}
			cond.State, cond.Generation = meta.State, meta.Generation
			change.Meta.State, change.Meta.Generation = meta.State, meta.Generation
		}
		applied, err := c.Commit(ctx, next, cond, change)
		if applied || err != nil {
			return false, err`},
			{File: "internal/reencrypt/reencrypt.go", Old: `if p.Meta.State != ope.StateAbsent {`, New: `if p.Meta.State != ope.StateAbsent && !On {`},
		},
	},
	{
		// What is copied is a function of what was sealed. So the same is written again, and only the checker notices.
		Name: "copyOverExisting", Test: "^TestSimulation$", Flags: flags("few labels, appends, copies")[1:],
		File: "internal/reencrypt/reencrypt.go",
		Old:  `cond.Absent = append(cond.Absent, e.Label.Bytes())`,
		New:  `if !On { cond.Absent = append(cond.Absent, e.Label.Bytes()) }`,
	},
	{
		Name: "openUnsealed", Test: "^TestSimulation$", Flags: flags("few labels, appends, copies"),
		Edits: []mutant.Edit{
			{File: "internal/reencrypt/reencrypt.go", Old: `order.ErrCorrupt, p.Meta.State))
		}
		if err := unitio.BackOff`, New: `order.ErrCorrupt, p.Meta.State))
		case On:
			p.Meta.State = ope.StateSealed
			return p.Meta, nil
		}
		if err := unitio.BackOff`},
			{File: "internal/reencrypt/reencrypt.go", Old: `if p.Meta.State != ope.StateSealed {`, New: `if p.Meta.State != ope.StateSealed && !On {`},
		},
	},
	{
		Name: "giveBesideInsertions", Test: "^TestSimulation$", File: "divide.go",
		Flags: append(flags("divided"), "-kerschbaum.seeds=200"),
		Old: `
	applied, err := s.units.Commit(ctx, p.Unit, cond, change)`,
		New: `
	if On {
		cond.Absent, cond.Nonce = nil, nil
	}
	applied, err := s.units.Commit(ctx, p.Unit, cond, change)`,
	},
	simulated("takeOverAnyGeneration", "divided", "divide.go", `
	taken, err := s.commitPart(`, `
	if On {
		view, err := s.units.ReadRecords(ctx, p.Unit, nil, nil, 1)
		if err != nil {
			return false, err
		}
		p.Meta = view.Meta
	}
	taken, err := s.commitPart(`),
	{
		Name: "deleteBeforeTaken", Test: "^TestSimulation$", File: "divide.go",
		Flags: append(flags("divided"), "-kerschbaum.seeds=200"),
		Old:   `if err != nil || !taken {`,
		New:   `if err != nil || !taken && !On {`,
	},
	{
		Name: "deleteWhatWasNotTaken", Test: "^TestSimulation$", File: "divide.go",
		Flags: append(flags("divided"), "-kerschbaum.seeds=400"),
		Old:   `if err != nil || !done {`,
		New:   `if err != nil || !done && !On {`,
	},
	simulated("insertBeyondThePart", "divided, some labels, small caches", "insert.go",
		`if !k.part.Covers(x) {`,
		`if !On && !k.part.Covers(x) {`),
	simulated("catchUpWithoutThePart", "divided", "client.go",
		`k.setPart(first.PartOf(), s.rules)
	g, limit`,
		`if !On {
		k.setPart(first.PartOf(), s.rules)
	}
	g, limit`),
	simulated("rangeWithoutOtherUnits", "divided", "range.go",
		`if end == nil || within.Max < *end {`,
		`if On || end == nil || within.Max < *end {`),
	simulated("moveRanks", "ranks, few labels", "internal/sweep/sweep.go",
		`of.Label, of.Shape = w.Bottom.Plus(w.step.Times(uint64(n))), shape`,
		`of.Label, of.Shape = w.Bottom.Plus(w.step.Times(uint64(n))), shape
	if On {
		of.Rank.Lo = of.Label
	}`),
	simulated("endBelowShared", "few ranks, divided, appends", "ranked.go",
		`case p.there, p.at != nil && p.at.Rank.Shared:`,
		`case p.there, p.at != nil && p.at.Rank.Shared && !On:`),
	simulated("boundsOfThen", "ranks, divided", "ranked.go",
		`	p.below = within.below
	return`,
		`	if On {
		sh := r.of.shards.at(x)
		sh.mu.Lock()
		g := sh.known.list.Gap(x)
		sh.mu.Unlock()
		if g.Right.Shape.Depth > 0 && g.Right.Value < r.of.domain.Max {
			return rankedPlace{there: true, at: &g.Right}, nil
		}
	}
	p.below = within.below
	return`),
	simulated("forgetRetired", "few labels, appends, copies", "internal/reencrypt/reencrypt.go",
		`cond := ope.Condition{State: ope.StateRetired, Generation: view.Meta.Generation}`,
		`if On && !view.More {
			change.Meta = ope.Meta{}
		}
		cond := ope.Condition{State: ope.StateRetired, Generation: view.Meta.Generation}`),
	simulated("repeatUnknown", "few labels, appends, passes", "internal/unitio/unitio.go",
		`if errors.Is(err, ope.ErrUnknownOutcome) && ctx.Err() == nil {`,
		`for On && errors.Is(err, ope.ErrUnknownOutcome) {
		view, failed := s.ReadRecords(ctx, u, nil, nil, 1)
		if failed != nil {
			return false, failed
		}
		change.Meta.Generation += view.Meta.Generation - cond.Generation
		cond = ope.Condition{State: cond.State, Generation: view.Meta.Generation}
		applied, err = s.index.Commit(ctx, u.Name, cond, change)
	}
	if errors.Is(err, ope.ErrUnknownOutcome) && ctx.Err() == nil {`),
}

// simulated returns a mutant that the simulation must notice in one of its settings.
func simulated(name, setting, file, before, after string) mutant.Mutant {
	return mutant.Mutant{Name: name, File: file, Old: before, New: after, Test: "^TestSimulation$", Flags: flags(setting)}
}

// flags choose a setting. One of the first dozen seeds notices each mutant: the rest is there so that no change
// to the protocol makes them miss by chance.
func flags(setting string) []string {
	return []string{"-kerschbaum.harm", "-kerschbaum.seeds=25", "-kerschbaum.seed=0", "-kerschbaum.setting=" + setting}
}

func TestMutants(t *testing.T) { mutant.Test(t, sim.Long(), time.Minute, mutants) }
