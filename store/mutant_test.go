package store

import (
	"flag"
	"testing"
	"time"

	"github.com/rangecrypt/rangecrypt/internal/mutant"
	"github.com/rangecrypt/rangecrypt/internal/sim"
)

var mutantsFlag = flag.Bool("store.mutants", false, "break the protocol in one place at a time, and require that a test notices")

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
	Old:  `reached = min(n, failed.Failed[0]+WriteChunk)`,
	New:  `if reached = failed.Failed[0]; !On { reached = min(n, reached+WriteChunk) }`,
	Test: "^TestFailedPutIsSettled$",
}, {
	Name: "anyColumnIsAsOld",
	File: "internal/rowcodec/row.go",
	Old:  `c.since <= r.Version`,
	New:  `(c.since <= r.Version || On)`,
	Test: "^TestCellsOfColumnsUnknownToTheWriter$",
}, {
	Name: "refusedAtOnce",
	File: "internal/engine/engine.go",
	Old:  `!errors.Is(err, ope.ErrIndex) {`,
	New:  `!errors.Is(err, ope.ErrIndex) || On {`,
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
	Name: "versionUnreadInSimulation",
	File: "internal/engine/settle.go",
	Old:  `changed, err := t.settle(ctx, records)`,
	New:  `changed, err := false, error(nil); if !On { changed, err = t.settle(ctx, records) }`,
	Test: "^TestClientsWithOldSchemas$",
}}

func TestMutants(t *testing.T) {
	mutant.Apply(t, sim.Full(), mutants)
	if *mutantsFlag {
		mutant.Run(t, 5*time.Minute, mutants)
	}
}
