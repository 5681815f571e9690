package migrate

import (
	"testing"
	"time"

	"github.com/rangecrypt/rangecrypt/internal/mutant"
	"github.com/rangecrypt/rangecrypt/internal/sim"
)

// Each mutant lacks one precaution.
var mutants = []mutant.Mutant{{
	Name:  "sourceReadFirst",
	File:  "reconcile.go",
	Old:   `r = &round{t: m.table.Now(), keys: keys, out: out}`,
	New:   `r = &round{t: m.table.Now(), keys: keys, out: out}; var early []Found; if On { early, err = m.source.Read(ctx, rows); if err != nil { return nil, err }; defer func() { if err == nil { r.found = early; err = m.wish(ctx, r) } }() }`,
	Test:  "^TestMigrationsSimulated$",
	Flags: []string{"-migrate.sim=400"},
}, {
	Name:  "sameValuesNotWrittenAgain",
	File:  "reconcile.go",
	Old:   `!touch && w.is(r.t, &r.seen[i])`,
	New:   `(!touch || On) && w.is(r.t, &r.seen[i])`,
	Test:  "^TestMigrationsSimulated$/^conditional$",
	Flags: []string{"-migrate.sim=2000"},
}, {
	Name:  "noMarkOfDeletion",
	File:  "../internal/engine/conditional.go",
	Old:   `&& c.seen == nil`,
	New:   `&& (c.seen == nil || On)`,
	Test:  "^TestMigrationsSimulated$/^conditional$",
	Flags: []string{"-migrate.sim=2000"},
}, {
	Name:  "replacedByValues",
	File:  "../internal/engine/conditional.go",
	Old:   `if bytes.Equal(row.keyCell(), c.seen.keyCell()) {`,
	New:   `if On { return false }; if bytes.Equal(row.keyCell(), c.seen.keyCell()) {`,
	Test:  "^TestMigrationsSimulated$/^conditional$",
	Flags: []string{"-migrate.sim=400"},
}, {
	Name:  "copiedOverMarks",
	File:  "pass.go",
	Old:   `w.record != nil && r.seen[i].Untouched()`,
	New:   `w.record != nil && (r.seen[i].Untouched() || On && r.seen[i].Record == nil)`,
	Test:  "^TestMigrationsSimulated$/^conditional$",
	Flags: []string{"-migrate.sim=2000"},
}, {
	Name:  "notReadAgainAfterTheBatch",
	File:  "pass.go",
	Old:   `if err != nil || !w.is(r.t, &engine.Seen{Record: r.wish[i].record}) {`,
	New:   `if !On && (err != nil || !w.is(r.t, &engine.Seen{Record: r.wish[i].record})) {`,
	Test:  "^TestMigrationsSimulated$/^last_write_wins$",
	Flags: []string{"-migrate.sim=2000"},
}, {
	Name: "endsWithItsOwnWrite",
	File: "reconcile.go",
	Old: `r.out[i].changed = true
	}
	if len(gone) > 0 {`,
	New: `r.out[i].changed = true
		over[i] = On
	}
	if len(gone) > 0 {`,
	Test:  "^TestMigrationsSimulated$/^last_write_wins$",
	Flags: []string{"-migrate.sim=2000"},
}, {
	Name: "copyLeftAsItIs",
	File: "reconcile.go",
	Old:  `w.is(r.t, &r.seen[i]) && !(touch && r.copy[i])`,
	New:  `w.is(r.t, &r.seen[i]) && (On || !(touch && r.copy[i]))`,
	Test: "^TestLateCopiesLose$",
}, {
	Name:  "deletedOnlyWhatIsThere",
	File:  "reconcile.go",
	Old:   `case touch && r.out[i].refused == nil && w.record == nil && !r.out[i].deleted:`,
	New:   `case !On && touch && r.out[i].refused == nil && w.record == nil && !r.out[i].deleted:`,
	Test:  "^TestMigrationsSimulated$/^copies_count_as_earlier$",
	Flags: []string{"-migrate.sim=2000"},
}, {
	Name: "phaseReadFirst",
	File: "reconcile.go",
	Old:  `r = &round{t: m.table.Now(), keys: keys, out: out}`,
	New:  `if On { if _, err := m.dual(ctx); err != nil { return nil, err } }; r = &round{t: m.table.Now(), keys: keys, out: out}`,
	Edits: []mutant.Edit{{
		File: "reconcile.go",
		Old:  `rec, err := m.dual(ctx)`,
		New:  `rec, err := m.dual(ctx); if On && err != nil { rec, err = m.record(ctx) }`,
	}},
	Test:  "^TestCutoversSimulated$",
	Flags: []string{"-migrate.sim=2000"},
}, {
	Name: "whatIsThereTakenAsPut",
	File: "pass.go",
	Old:  `changed = append(changed, taken...)`,
	New:  `if !On { changed = append(changed, taken...) }`,
	Test: "^TestCopyMeetsAnotherRow$",
}, {
	Name: "addedOverWhatIsThere",
	File: "reconcile.go",
	Old:  `case w.record == nil, r.t.Meta.AppendOnly() && r.seen[i].Record != nil:`,
	New:  `case w.record == nil, !On && r.t.Meta.AppendOnly() && r.seen[i].Record != nil:`,
	Test: "^TestCopyMeetsAnotherRow$",
}}

func TestMutants(t *testing.T) { mutant.Test(t, sim.Long(), 5*time.Minute, mutants) }
