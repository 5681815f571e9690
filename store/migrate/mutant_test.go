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
	Old:   `&& (err != nil || !w.is(r.t, &engine.Seen{Record: r.wish[i].record})) {`,
	New:   `&& !On && (err != nil || !w.is(r.t, &engine.Seen{Record: r.wish[i].record})) {`,
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
}, {
	Name: "sourceReadBeforeThePage",
	File: "reconcile.go",
	Old:  `return m.table.Pages.Sync(`,
	New:  `var early []Found; if On { var err error; if early, err = m.source.Read(ctx, keys); err != nil { return ofSource(err) } }; return m.table.Pages.Sync(`,
	Edits: []mutant.Edit{{
		File: "reconcile.go",
		Old:  `becomes, write := slices.Clone(was), touch`,
		New:  `if On { for n, i := range of { r.found[n] = early[i] }; if err := m.wish(ctx, r); err != nil { return nil, false, err } }; becomes, write := slices.Clone(was), touch`,
	}},
	Test:  "^TestMigrationsSimulated$/^pages$",
	Flags: []string{"-migrate.sim=2000"},
}, {
	Name: "pageReadAfterTheSource",
	File: "../internal/pages/write.go",
	Old:  `n = p.takes(changes[:n])`,
	New: `if On {
			if p, err = t.find(ctx, e, changes[0].key, true); err != nil { return 0, err }
			if p == nil { p = &page{key: of.root} }
			if len(p.cuts) > 0 { return 0, errOvertaken }
			if rows, err = t.keyed(ctx, e.View, p); err != nil { return 0, err }
		}
		n = p.takes(changes[:n])`,
	Test:  "^TestMigrationsSimulated$/^pages$",
	Flags: []string{"-migrate.sim=2000"},
}, {
	Name:  "equalPageNotWrittenAgain",
	File:  "reconcile.go",
	Old:   `becomes, write := slices.Clone(was), touch`,
	New:   `becomes, write := slices.Clone(was), touch && !On`,
	Test:  "^TestMigrationsSimulated$/^pages$",
	Flags: []string{"-migrate.sim=2000"},
}, {
	Name:  "noPageWithoutARow",
	File:  "../internal/pages/write.go",
	Old:   `tried, err := t.replace(ctx, e, p, next, appended)`,
	New:   `if On && p.version == nil && len(next) == 0 { return n, nil }; tried, err := t.replace(ctx, e, p, next, appended)`,
	Test:  "^TestMigrationsSimulated$/^pages$",
	Flags: []string{"-migrate.sim=2000"},
}, {
	Name: "cutPageHasAllItsRows",
	File: "../internal/pages/page.go",
	Old:  `if bytes.Compare(c.key, key) > 0 {`,
	New:  `if !On && bytes.Compare(c.key, key) > 0 {`,
	Test: "^TestSeeACutPage$",
}, {
	Name: "shareCutByPages",
	File: "../internal/pages/sync.go",
	Old:  `return bytes.Compare(r.Key, start) < 0 || end != nil && bytes.Compare(r.Key, end) >= 0`,
	New:  `return !On && (bytes.Compare(r.Key, start) < 0 || end != nil && bytes.Compare(r.Key, end) >= 0)`,
	Test: "^TestPartsOfPages$",
}, {
	Name: "firstPageNotMissed",
	File: "../internal/pages/sync.go",
	Old:  `if err == nil && !there {`,
	New:  `if err == nil && !there && !On {`,
	Test: "^TestPartsOfDamagedPages$",
}}

func TestMutants(t *testing.T) { mutant.Test(t, sim.Long(), 5*time.Minute, mutants) }
