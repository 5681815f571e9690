package store

import (
	"testing"
	"time"

	"github.com/rangecrypt/rangecrypt/internal/mutant"
	"github.com/rangecrypt/rangecrypt/internal/sim"
)

// Each mutant lacks one precaution of the protocol.
var mutants = []mutant.Mutant{{
	Name: "versionUnread",
	File: "internal/engine/settle.go",
	Old:  `if len(records) == 0 {`,
	New:  `if len(records) == 0 || On {`,
	Test: "^TestPutSleepsThroughAlter$",
}, {
	Name: "versionUnreadByConversion",
	File: "internal/engine/rewrite.go",
	Old:  `return done, fault.Join(err, t.SettleWrites(settling, records))`,
	New:  `if On { return done, err }; return done, fault.Join(err, t.SettleWrites(settling, records))`,
	Test: "^TestConversionSleepsThroughPolicy$",
}, {
	Name: "failedUnsettled",
	File: "internal/engine/write.go",
	Old:  `reached = min(n, failed.Failed[0]+chunks.WriteChunk)`,
	New:  `if reached = failed.Failed[0]; !On { reached = min(n, reached+chunks.WriteChunk) }`,
	Test: "^TestFailedPutIsSettled$",
}, {
	Name: "anyColumnIsAsOld",
	File: "internal/rowcodec/row.go",
	Old:  `c.Since <= r.Version`,
	New:  `(c.Since <= r.Version || On)`,
	Test: "^TestCellsOfColumnsUnknownToTheWriter$",
}, {
	Name: "refusedAtOnce",
	File: "internal/engine/engine.go",
	Old:  `if !fault.BySchema(err) {`,
	New:  `if !fault.BySchema(err) || On {`,
	Test: "^TestNamesOfColumnsThatOthersMade$",
}, {
	Name:  "droppedWithoutGrace",
	File:  "internal/maintain/repair.go",
	Old:   `if !waited {`,
	New:   `if !waited && !On {`,
	Test:  "^TestVerifyBesideWriters$",
	Flags: []string{"-store.sim=400"},
}, {
	Name:  "droppedWithoutLook",
	File:  "internal/maintain/repair.go",
	Old:   `stale[i] = known && r == nil`,
	New:   `stale[i] = known && r == nil || On`,
	Test:  "^TestVerifyBesideWriters$",
	Flags: []string{"-store.sim=400"},
}, {
	Name:  "droppedBesideConversions",
	File:  "internal/maintain/check.go",
	Old:   `case c.Of == nil && r.Search[c.Position] == nil`,
	New:   `case !On && c.Of == nil && r.Search[c.Position] == nil`,
	Test:  "^TestRenewalsSimulated$/^compared$",
	Flags: []string{"-store.sim=400"},
}, {
	Name:  "laterColumnsConverted",
	File:  "internal/catalogue/progress.go",
	Old:   `if f.Since <= swept && !f.Former[j].Converted {`,
	New:   `if (f.Since <= swept || On) && !f.Former[j].Converted {`,
	Test:  "^TestRenewalsSimulated$/^compared$",
	Flags: []string{"-store.sim=100"},
}, {
	Name: "partsLeftOutThatAreDoneInPart",
	File: "internal/rewrite/part.go",
	Old:  `!now.Has(catalogue.SpanOf(part, parts))`,
	New:  `!now.Has(catalogue.SpanOf(part, parts)) && !(On && now.Has(catalogue.SpanOf(50*part, 50*parts)))`,
	Test: "^TestPartsGoOn$",
}, {
	Name: "spansForgotten",
	File: "internal/catalogue/progress.go",
	Old:  `	all := slices.Clone(p.Spans)`,
	New:  `	all := slices.Clone(p.Spans); if On { all = nil }`,
	Test: "^TestPartsGoOn$",
}, {
	Name: "partsWithUnfitRowsDone",
	File: "internal/rewrite/convert.go",
	Old:  `if !whole || !now.Continues(began)`,
	New:  `if !whole && !On || !now.Continues(began)`,
	Test: "^TestPartsWithUnfitRows$",
}, {
	Name: "partsOfAnotherRoundDone",
	File: "internal/rewrite/convert.go",
	Old:  `!now.Continues(began) || now.Has(span)`,
	New:  `!now.Continues(began) && !On || now.Has(span)`,
	Test: "^TestPartOfEarlierConversionAtEveryCall$",
}, {
	Name: "latePartsBeginAgain",
	File: "internal/rewrite/convert.go",
	Old:  `(enough || !p.Over)`,
	New:  `(enough && !On || !p.Over)`,
	Test: "^TestConvertParts$/^memory$",
}, {
	Name: "lastPartEndsNothing",
	File: "internal/rewrite/part.go",
	Old:  `if err := c.finish(ctx, t, began); err != nil {`,
	New:  `if On { return began, nil }; if err := c.finish(ctx, t, began); err != nil {`,
	Test: "^TestConvertParts$/^memory$",
}, {
	Name: "tenantsOverWithTheLastOne",
	File: "internal/rewrite/part.go",
	Old:  `over = over && p.Over`,
	New:  `over = (over || On) && p.Over`,
	Test: "^TestPartsOfTenants$",
}, {
	Name: "postingsOfEachPart",
	File: "internal/maintain/check.go",
	Old:  `r = r.Share()`,
	New:  `r.Part = 0; if !On { r.Part = v.part }; r = r.Share()`,
	Test: "^TestVerifySound$/^memory$",
}, {
	Name: "postingsOfNoColumnUnread",
	File: "internal/maintain/check.go",
	Old:  `if err := check(before); err != nil {`,
	New:  `if err := check(before); err != nil || On {`,
	Test: "^TestVerifyPartsBetweenColumns$",
}, {
	Name: "indexesOfEachPart",
	File: "internal/maintain/indexes.go",
	Old:  `	if v.part > 0 {`,
	New:  `	if v.part > 0 && !On {`,
	Test: "^TestVerifySound$/^memory$",
}, {
	Name: "postingsOfLoadsDroppedByRepair",
	File: "internal/maintain/check.go",
	Old:  `case !v.table.Meta.AppendOnly():`,
	New:  `case On, !v.table.Meta.AppendOnly():`,
	Test: "^TestRepairBesideLoadThatGoesOn$/^covers_false$/^memory$",
}, {
	Name: "copiesOfOtherColumns",
	File: "internal/rowcodec/view.go",
	Old:  `if wanted && !c.copied[i] {`,
	New:  `if wanted && !c.copied[i] && !On {`,
	Test: "^TestCopiesOfSomeColumns$",
}, {
	Name: "changedColumnsAreCopiedNoMore",
	File: "internal/meta/alter.go",
	Old:  `a.recopy(former.ID, next.ID)`,
	New:  `if !On { a.recopy(former.ID, next.ID) }`,
	Test: "^TestCopiesOfSomeColumns$",
}, {
	Name: "retimedWithoutDoubt",
	File: "internal/rowcodec/expiry.go",
	Old:  `case retimed && t.Meta.Copies():`,
	New:  `case retimed && t.Meta.Copies() && !On:`,
	Test: "^TestRetimedRowsAreWhole$",
}, {
	Name:  "copiesBeforeRows",
	File:  "internal/engine/copies.go",
	Old:   `twice, err := t.put(ctx, records)`,
	New:   `if On { _ = t.copyAdded(ctx, records) }; twice, err := t.put(ctx, records)`,
	Test:  "^TestCopiesSimulated$/^compared$",
	Flags: []string{"-store.sim=100"},
}, {
	Name: "conversionsOfOneRank",
	File: "internal/rowcodec/relation.go",
	Old:  `return min(n, driver.MaxRank)`,
	New:  `if On { n = 0 }; return min(n, driver.MaxRank)`,
	Test: "^TestConverterOfEarlierSchemaDiesAtEveryCall$",
}, {
	Name:  "doubtedAsEarlyAsTheRow",
	File:  "internal/engine/copies.go",
	Old:   `_, err := t.stampedPostings(ctx, postings)`,
	New:   `_, err := t.stampedPostings(ctx, postings[:len(postings)*map[bool]int{false: 1}[On]])`,
	Test:  "^TestCopiesOfSeveralFormsSimulated$/^clocks$",
	Flags: []string{"-store.sim=1", "-store.simseed=1"},
}, {
	Name:  "copiesOverWhateverIsThere",
	File:  "internal/engine/copies.go",
	Old:   `if p.record.Pends(rowcodec.PostingValue(cells[i])) {`,
	New:   `if p.record.Pends(rowcodec.PostingValue(cells[i])) || On && len(cells[i]) > 0 {`,
	Test:  "^TestCopiesSimulated$/^compared$",
	Flags: []string{"-store.sim=300"},
}, {
	Name:  "deletedWithoutDoubt",
	File:  "internal/engine/copies.go",
	Old:   `group.Go(func() error { return t.doubt(groupCtx, old) })`,
	New:   `group.Go(func() error { if On { return nil }; return t.doubt(groupCtx, old) })`,
	Test:  "^TestCopiesSimulated$/^compared$",
	Flags: []string{"-store.sim=100"},
}, {
	Name:  "deletedWithoutSayingSo",
	File:  "internal/engine/copies.go",
	Old:   `group.Go(func() error { return t.Post(groupCtx, deletions) })`,
	New:   `group.Go(func() error { if On { return nil }; return t.Post(groupCtx, deletions) })`,
	Test:  "^TestCopiesSimulated$/^clocks,_changes_of_schema$",
	Flags: []string{"-store.sim=1500"},
}, {
	Name: "deletionsUnread",
	File: "internal/engine/copies.go",
	Old: `	if err := t.UnderDeletion(ctx, keys); err != nil {
		return done, err
	}`,
	New: `	if On { keys = slices.Clone(keys) } else if err := t.UnderDeletion(ctx, keys); err != nil {
		return done, err
	}`,
	Test:  "^TestCopiesSimulated$/^clocks,_changes_of_schema$",
	Flags: []string{"-store.sim=1500"},
}, {
	Name: "versionUnreadByDelete",
	File: "internal/engine/copies.go",
	Old:  `if err := group.Wait(); err != nil || version <= t.Version {`,
	New:  `if err := group.Wait(); err != nil || version <= t.Version || On {`,
	Test: "^TestDeleteBesideConversionAtEveryCall$/^another_scheme$",
}, {
	Name:  "loadsLikeOtherRows",
	File:  "internal/engine/copies.go",
	Old:   `return errors.Join(t.copyAdded(ctx, others), t.copyPresent(ctx, present))`,
	New:   `if On { return t.copyAdded(ctx, records) }; return errors.Join(t.copyAdded(ctx, others), t.copyPresent(ctx, present))`,
	Test:  "^TestCopiesSimulated$/^clocks$",
	Flags: []string{"-store.sim=2000"},
}, {
	Name: "postingsOfLoadsDropped",
	File: "internal/engine/copies.go",
	Old:  `slices.DeleteFunc(slices.Clone(records), t.OfLoad), (*rowcodec.Column).Searched)`,
	New:  `slices.DeleteFunc(slices.Clone(records), func(r *rowcodec.Record) bool { return t.OfLoad(r) && !On }), (*rowcodec.Column).Searched)`,
	Test: "^TestLoadBesideDeleteAtEveryCall$",
}, {
	Name:  "loadsWithWritesOfTheirOwn",
	File:  "internal/rowcodec/copy.go",
	Old:   `sum := sha256.Sum256(append(append([]byte("rangecrypt/1 load write"), t.Meta.ID[:]...), tie[:]...))`,
	New:   `sum := sha256.Sum256(append(append([]byte("rangecrypt/1 load write"), t.Meta.ID[:]...), tie[:]...)); if On { rand.Read(sum[:]) }`,
	Test:  "^TestCopiesSimulated$/^compared$",
	Flags: []string{"-store.sim=100"},
}, {
	Name:  "replacedWithoutDoubt",
	File:  "internal/engine/conditional.go",
	Old:   `if !c.done && !known {`,
	New:   `if !c.done && !known && !On {`,
	Test:  "^TestCopiesSimulated$/^conditional$",
	Flags: []string{"-store.sim=100"},
}, {
	Name:  "doubtOverWritten",
	File:  "internal/rowcodec/copy.go",
	Old:   `func (d Doubt) Of(posting []byte) driver.Mutation {`,
	New:   `func (d Doubt) Of(posting []byte) driver.Mutation { if On { return driver.Mutation{Row: posting, Puts: []driver.Cell{{Qualifier: []byte{}, Value: d[:]}}} };`,
	Test:  "^TestCopiesSimulated$/^conditional,_clocks$",
	Flags: []string{"-store.sim=1000"},
}, {
	Name:  "newerRowsReplacedWithoutDoubt",
	File:  "internal/engine/conditional.go",
	Old:   `row.copies = now.copiesOf(was)`,
	New:   `if !On { row.copies = now.copiesOf(was) }`,
	Test:  "^TestCopiesSimulated$/^conditional,_clocks$",
	Flags: []string{"-store.sim=2000"},
}, {
	Name: "madeTwice",
	File: "internal/engine/conditional.go",
	Old:  `} else if c.unknown != nil && c.isPassed(&row) {`,
	New:  `} else if c.unknown != nil && c.isPassed(&row) && !On {`,
	Test: "^TestChangesOfUnknownOutcome$",
}, {
	Name: "passedPostingsStay",
	File: "internal/engine/conditional.go",
	Old:  `case c.done && !c.lost, c.passed:`,
	New:  `case c.done && !c.lost, c.passed && !On:`,
	Test: "^TestChangesOfUnknownOutcome$",
}, {
	Name: "droppedUnread",
	File: "internal/engine/conditional.go",
	Old: `t.Env.Now().Meta.Copies() {
			read`,
	New: `t.Env.Now().Meta.Copies() && !On {
			read`,
	Test:  "^TestCopiesSimulated$/^conditional,_clocks$",
	Flags: []string{"-store.sim=2000"},
}, {
	Name: "doubtsForgotten",
	File: "internal/engine/conditional.go",
	Old: `case c.lost, c.unknown == nil:
			gone`,
	New: `case On && c.unknown != nil:
			for _, posting := range c.doubted {
				settled = append(settled, doubt.Settled(posting))
			}
		case c.lost, c.unknown == nil:
			gone`,
	Test:  "^TestCopiesSimulated$/^conditional$",
	Flags: []string{"-store.sim=2000"},
}, {
	Name:  "mixedRowsAcknowledged",
	File:  "internal/engine/settle.go",
	Old:   `if err == nil && len(misplaced) > 0 {`,
	New:   `if err == nil && len(misplaced) > 0 && !On {`,
	Test:  "^TestConcurrentWritersAndCrashes$/^indexes_of_the_database$",
	Flags: []string{"-store.sim=100"},
}, {
	Name: "indexesUnverified",
	File: "internal/maintain/check.go",
	Old:  `if one.r == nil || len(t.IndexNames()) == 0 {`,
	New:  `if one.r == nil || len(t.IndexNames()) == 0 || On {`,
	Test: "^TestVerifyFindsValuesOfOtherWrites$/^memory$",
}, {
	Name:  "versionUnreadInSimulation",
	File:  "internal/engine/settle.go",
	Old:   `now, changed, err := t.settle(ctx, records)`,
	New:   `now, changed, err := t, false, error(nil); if !On { now, changed, err = t.settle(ctx, records) }`,
	Test:  "^TestClientsWithOldSchemas$",
	Flags: []string{"-store.sim=200"},
}, {
	Name:  "leaseFromTheEndOfTheRead",
	File:  "internal/catalogue/catalogue.go",
	Old:   `c.leases.note(r, began)`,
	New:   `if On { began = c.Clock() }; c.leases.note(r, began)`,
	Test:  "^TestLeasesSimulated$",
	Flags: []string{"-store.sim=3000"},
}, {
	Name:  "leaseOfAnyVersion",
	File:  "internal/catalogue/lease.go",
	Old:   `l.version == version`,
	New:   `(l.version == version || On)`,
	Test:  "^TestLeasesSimulated$",
	Flags: []string{"-store.sim=3000"},
}, {
	Name:  "leaseWithoutEnd",
	File:  "internal/catalogue/lease.go",
	Old:   `c.Clock()-l.began < l.terms.Granted()`,
	New:   `(c.Clock()-l.began < l.terms.Granted() || On)`,
	Test:  "^TestLeasesSimulated$",
	Flags: []string{"-store.sim=3000"},
}, {
	Name:  "leaseNotAwaitedByChange",
	File:  "internal/catalogue/edit.go",
	Old:   `if !e.awaited() {`,
	New:   `if !e.awaited() || On {`,
	Test:  "^TestLeasesSimulated$",
	Flags: []string{"-store.sim=3000"},
}, {
	Name:  "leaseNotAwaitedAfterDeath",
	File:  "internal/session/table.go",
	Old:   `return t, tbl.db.Catalogue.Quiesce(ctx, t.Since)`,
	New:   `if On { return t, nil }; return t, tbl.db.Catalogue.Quiesce(ctx, t.Since)`,
	Test:  "^TestLeasesSimulated$",
	Flags: []string{"-store.sim=3000"},
}, {
	Name: "leaseAwaitedForLess",
	File: "internal/lease/lease.go",
	Old:  `return d + d/16 + margin`,
	New:  `if On { return d - d/8 }; return d + d/16 + margin`,
	Test: "^TestLeaseStandsClocksThatDiffer$",
}, {
	Name: "driftDisregarded",
	File: "internal/lease/lease.go",
	Old:  `return d + d/16 + margin`,
	New:  `if On { return d }; return d + d/16 + margin`,
	Test: "^TestLeaseStandsClocksThatDiffer$",
}, {
	Name:  "leaseShrunkAtOnce",
	File:  "internal/catalogue/lease.go",
	Old:   `now.Since, now.Grant = 0, d.Milliseconds()`,
	New:   `now.Since, now.Grant = 0, d.Milliseconds(); if On { now.Wait = now.Grant }`,
	Test:  "^TestLeasesSimulated$",
	Flags: []string{"-store.sim=3000"},
}, {
	Name: "leaseOfAnotherForgotten",
	File: "internal/catalogue/lease.go",
	Old:  `if now == granted {`,
	New:  `if now == granted || On {`,
	Test: "^TestLeaseIsSetMeanwhile$",
}, {
	Name: "leaseNotAwaitedByIndex",
	File: "internal/rewrite/reindex.go",
	Old:  `if err := b.db.Catalogue.Quiesce(ctx, version); err != nil {`,
	New:  `if On { pause.Repeats(ctx, "") } else if err := b.db.Catalogue.Quiesce(ctx, version); err != nil {`,
	Test: "^TestIndexesMadeAgainWaitForLeases$",
}, {
	Name: "leaseNotDecided",
	File: "internal/catalogue/lease.go",
	Old:  `decided, err := c.decide(ctx, cells[0])`,
	New:  `decided, err := true, error(nil); if !On { decided, err = c.decide(ctx, cells[0]) }`,
	Test: "^TestWaitsForLeasesBeginWithADecision$",
}, {
	Name: "failedUnderALease",
	File: "internal/engine/settle.go",
	Old:  `if written && !looks && t.Env.Leased(t.Version) {`,
	New:  `if (written || On) && !looks && t.Env.Leased(t.Version) {`,
	Test: "^TestFailedWritesReadTheVersion$",
}, {
	Name: "indexNotLookedAtUnderALease",
	File: "internal/engine/settle.go",
	Old:  `looks := len(t.IndexNames()) > 0 &&`,
	New:  `looks := !On && len(t.IndexNames()) > 0 &&`,
	Test: "^TestRoundTripsWithALease$",
}, {
	Name: "leaseNotAwaitedByPurge",
	File: "internal/maintain/orphans.go",
	Old:  `if err := tbl.Database().Catalogue.Quiesce(ctx, t.Version); err != nil {`,
	New:  `if On { t.Version = 0 }; if err := tbl.Database().Catalogue.Quiesce(ctx, t.Version); err != nil {`,
	Test: "^TestRowsOfDroppedTenantsAreAwaited$",
}, {
	Name: "leaseNotAwaitedWhereNothingIsToChange",
	File: "internal/catalogue/edit.go",
	Old:  `return fault.Made(c.Quiesce(ctx, e.root.Version))`,
	New:  `if On { return nil }; return fault.Made(c.Quiesce(ctx, e.root.Version))`,
	Test: "^TestChangesWaitForLeases$",
}, {
	Name: "laterFormFirst",
	File: "internal/forms/forms.go",
	Old:  `slices.Reverse(all)`,
	New:  `if !On { slices.Reverse(all) }`,
	Test: "^TestConversionAtEveryCallOfQuery$",
}, {
	Name: "formsOfBeforeOverlooked",
	File: "internal/query/plan.go",
	Old: `all := forms.Of(c)
	if len(all) > 1 {`,
	New: `all := forms.Of(c); if On && len(all) > 1 { all = all[len(all)-1:] }
	if len(all) > 1 {`,
	Test: "^TestChangedColumnDrives$",
}, {
	Name: "formOfBeforeForgottenEarly",
	File: "internal/forms/forms.go",
	Old:  `case f.Converted:`,
	New:  `case f.Converted || On && len(c.Former) > 1 && f == c.Former[len(c.Former)-1]:`,
	Test: "^TestChangedColumnDrives$",
}, {
	Name: "postingOfOtherFormDiscarded",
	File: "internal/forms/forms.go",
	Old:  `if value == nil || form.Type`,
	New:  `if value == nil || On || form.Type`,
	Test: "^TestPostingCountsForRowOfOtherForm$",
}, {
	Name: "drawnFormDiscarded",
	File: "internal/forms/forms.go",
	Old:  `if anyOrder {`,
	New:  `if anyOrder && !On {`,
	Test: "^TestPostingCountsForRowOfOtherForm$",
}, {
	Name: "drawnFormBelieved",
	File: "internal/forms/forms.go",
	Old:  `return err == nil && has == code, err`,
	New:  `return err == nil && (has == code || On), err`,
	Test: "^TestPostingCountsForRowOfOtherForm$",
}, {
	Name: "rowsOfEarlierFormsUnseen",
	File: "internal/maintain/check.go",
	Old: `err != nil || led {
		return nil, err
	}
	return &inspect.Fault{Kind: inspect.FaultHidden, Column: c.Name, Place: r.Key`,
	New: `err != nil || led || On {
		return nil, err
	}
	return &inspect.Fault{Kind: inspect.FaultHidden, Column: c.Name, Place: r.Key`,
	Test: "^TestRowsAsEarlierSchemasHadThem$",
}, {
	Name: "lostValuesAcknowledged",
	File: "internal/forms/forms.go",
	Old:  `if lost == nil {`,
	New:  `if lost == nil || On {`,
	Test: "^TestValuesOfDroppedColumns$",
}, {
	Name: "rowsOfFormsTwice",
	File: "internal/query/find.go",
	Old:  `again = again || w.forms != nil ||`,
	New:  `again = again || w.forms != nil && !On ||`,
	Test: "^TestPostingCountsForRowOfOtherForm$",
}, {
	Name: "mergedSideBySide",
	File: "internal/inorder/merge.go",
	Old:  `upTo, part = s.Cut(part, chunk[len(chunk)-1])`,
	New:  `rest := part; if upTo, part = s.Cut(part, chunk[len(chunk)-1]); On { upTo = rest }`,
	Test: "^TestConversionAtEveryCallOfQuery$",
}, {
	Name: "chunkUnchecked",
	File: "internal/query/find.go",
	Old:  `|| f.chunk != nil && !f.chunk.Has(`,
	New:  `|| f.chunk != nil && !On && !f.chunk.Has(`,
	Test: "^TestTextsOfSeveralForms$",
}, {
	Name: "copiesOfFormsTrusted",
	File: "internal/query/find.go",
	Old: `	case w.forms != nil:
		return true // whoever`,
	New: `	case w.forms != nil && !On:
		return true // whoever`,
	Test:  "^TestCopiesOfSeveralFormsSimulated$/^clocks$",
	Flags: []string{"-store.sim=100"},
}, {
	Name:  "postingsOfLateRowsDropped",
	File:  "internal/engine/rewrite.go",
	Old:   `had[string(read[i].Key)], others[i] = others[i], nil`,
	New:   `if !On { had[string(read[i].Key)], others[i] = others[i], nil }`,
	Test:  "^TestCopiesOfSeveralFormsSimulated$/^compared$",
	Flags: []string{"-store.sim=300"},
}, {
	Name: "indexThatGoesMissed",
	File: "internal/query/merge.go",
	Old:  `if form.Of == nil || f.snapshot != nil || !errors.Is(err, ope.ErrIndex) {`,
	New:  `if form.Of == nil || f.snapshot != nil || !errors.Is(err, ope.ErrIndex) || On {`,
	Test: "^TestConversionAtEveryCallOfQuery$",
}, {
	Name: "pagesGoOnByKeyOfOtherForm",
	File: "internal/query/token.go",
	Old:  `return w.driving != nil && !w.served() && (w.forms != nil`,
	New:  `return w.driving != nil && !w.served() && !On && (w.forms != nil`,
	Test: "^TestPagesGoOnAcrossChange$",
}, {
	Name: "damagedFormFails",
	File: "internal/query/find.go",
	Old:  `case again && !q.RequireIndex &&`,
	New:  `case again && !On && !q.RequireIndex &&`,
	Test: "^TestDamagedIndexOfEarlierForm$",
}, {
	Name: "leaseOfWhatWasReadBefore",
	File: "internal/catalogue/lease.go",
	Old:  `return l.at + l.terms.Hold(), l.certain >= version`,
	New:  `return l.at + l.terms.Hold(), l.certain >= version || On && l.certain > 0`,
	Test: "^TestChangesWaitForLeases$",
}}

func TestMutants(t *testing.T) { mutant.Test(t, sim.Long(), 5*time.Minute, mutants) }
