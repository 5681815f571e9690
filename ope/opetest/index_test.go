package opetest

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/stretchr/testify/require"
)

// A writer that follows the contract gets through every fault, so the suite holds under them.
func TestLinearizableUnderFaults(t *testing.T) {
	for _, fault := range []Fault{LostBefore, LostAfter} {
		ix := NewIndex()
		ix.Inject(func(_ context.Context, op Op) Fault {
			if op.Commit && op.N%3 == 0 {
				return fault
			}
			return None
		})
		checkLinearizable(t, ix)
	}
}

// brokenIndex breaks one rule of the contract.
type brokenIndex struct {
	*Index
	bug  string
	last struct {
		change ope.Change
		view   ope.View
		set    bool
	}
}

func (b *brokenIndex) Read(ctx context.Context, unit ope.Unit, from, to []byte, limit int) (ope.View, error) {
	switch b.bug {
	case "to is included":
		if to != nil {
			to = append(bytes.Clone(to), 0)
		}
	case "from is excluded":
		if from != nil {
			from = append(bytes.Clone(from), 0)
		}
	case "empty bounds are no bounds":
		if len(to) == 0 {
			to = nil
		}
	case "units are cut to 63 bytes":
		unit = unit[:min(63, len(unit))]
	case "context is ignored":
		ctx = context.Background()
	case "reads are stale":
		if b.last.set && from == nil && to == nil {
			return b.last.view, nil
		}
	}
	v, err := b.Index.Read(ctx, unit, from, to, limit)
	if err != nil {
		return v, err
	}
	switch b.bug {
	case "order is descending":
		slices.Reverse(v.Records)
	case "order is by signed bytes":
		slices.SortFunc(v.Records, func(a, c ope.Record) int {
			return slices.CompareFunc(a.Key, c.Key, func(x, y byte) int { return int(int8(x)) - int(int8(y)) })
		})
	case "more is never said":
		v.More = false
	case "more is said of a full page":
		v.More = limit > 0 && len(v.Records) == limit
	case "meta and records of two instants":
		time.Sleep(100 * time.Microsecond)
		late, err := b.Index.Read(ctx, unit, from, to, limit)
		v.Records = late.Records
		return v, err
	case "results are shared":
		if b.last.set {
			v.Records = b.last.view.Records
		}
		b.last.view, b.last.set = v, true
	case "reads are stale":
		b.last.view, b.last.set = v, true
	}
	return v, err
}

func (b *brokenIndex) Commit(ctx context.Context, unit ope.Unit, cond ope.Condition, change ope.Change) (bool, error) {
	switch b.bug {
	case "nonce is ignored":
		cond.Nonce = nil
	case "absence is ignored":
		cond.Absent = nil
	case "only the first absence is checked":
		cond.Absent = cond.Absent[:min(1, len(cond.Absent))]
	case "generation is ignored", "state is ignored":
		v, err := b.Index.Read(ctx, unit, nil, nil, 1)
		if err != nil {
			return false, err
		}
		if b.bug == "generation is ignored" {
			cond.Generation = v.Meta.Generation
		} else {
			cond.State = v.Meta.State
			change.Meta.State = max(change.Meta.State, v.Meta.State)
		}
	case "deletes are forgotten":
		change.Deletes = nil
	case "puts do not overwrite":
		change.Puts = slices.DeleteFunc(slices.Clone(change.Puts), func(r ope.Record) bool {
			v, _ := b.Index.Read(ctx, unit, r.Key, append(bytes.Clone(r.Key), 0), 0)
			return len(v.Records) > 0
		})
	case "deletes win":
		change.Puts = slices.DeleteFunc(slices.Clone(change.Puts), func(r ope.Record) bool {
			return slices.ContainsFunc(change.Deletes, func(k []byte) bool { return bytes.Equal(k, r.Key) })
		})
	case "units are cut to 63 bytes":
		unit = unit[:min(63, len(unit))]
	case "refused commits change the meta":
		applied, err := b.Index.Commit(ctx, unit, cond, change)
		if err == nil && !applied {
			v, _ := b.Index.Read(ctx, unit, nil, nil, 1)
			change = ope.Change{Meta: v.Meta}
			change.Meta.Nonce[15]++
			b.Index.Commit(ctx, unit, ope.Condition{State: v.Meta.State, Generation: v.Meta.Generation}, change)
		}
		return applied, err
	case "the records are not in the commit":
		meta := change
		meta.Puts, meta.Deletes = nil, nil
		applied, err := b.Index.Commit(ctx, unit, cond, meta)
		if !applied {
			return applied, err
		}
		time.Sleep(100 * time.Microsecond)
		change.Meta = meta.Meta
		return b.Index.Commit(ctx, unit, ope.Condition{State: meta.Meta.State, Generation: meta.Meta.Generation}, change)
	case "a lost race is acknowledged":
		_, err := b.Index.Commit(ctx, unit, cond, change)
		return err == nil, err
	}
	return b.Index.Commit(ctx, unit, cond, change)
}

func TestBrokenIndexesFail(t *testing.T) {
	proved := map[string]bool{}
	for bug, names := range map[string]string{
		"to is included":                    "Slices",
		"from is excluded":                  "Slices",
		"empty bounds are no bounds":        "Slices",
		"order is descending":               "Slices",
		"order is by signed bytes":          "Slices",
		"more is never said":                "Slices",
		"more is said of a full page":       "Slices",
		"nonce is ignored":                  "Condition",
		"absence is ignored":                "Condition AllOrNothing Model",
		"only the first absence is checked": "Condition AllOrNothing",
		"generation is ignored":             "Condition Model",
		"state is ignored":                  "Condition NeverWritten",
		"deletes are forgotten":             "AllOrNothing FinalStates Model",
		"puts do not overwrite":             "FinalStates",
		"deletes win":                       "SharedKey",
		"units are cut to 63 bytes":         "Units",
		"results are shared":                "Copies",
		"context is ignored":                "CancelledContext",
		"refused commits change the meta":   "AllOrNothing Model",
		"meta and records of two instants":  "Linearizable",
		"the records are not in the commit": "Linearizable",
		"a lost race is acknowledged":       "Linearizable",
		"reads are stale":                   "FinalStates",
	} {
		for _, c := range indexChecks {
			if !slices.Contains(strings.Fields(names), c.name) {
				continue
			}
			proved[c.name] = true
			t.Run(bug+"/"+c.name, func(t *testing.T) {
				require.True(t, caught(t, func() bool {
					return record(t, func(tb testing.TB) { c.run(tb, &brokenIndex{Index: NewIndex(), bug: bug}) }).failed
				}), "the check passes")
			})
		}
	}
	for _, c := range indexChecks {
		if !filtered() {
			require.True(t, proved[c.name], "no broken index proves that the check %s can fail", c.name)
		}
	}
}

var (
	opened = ope.Meta{State: ope.StateOpen}
	put    = ope.Change{Puts: records("a"), Meta: opened}
)

func TestFaults(t *testing.T) {
	for _, c := range []struct {
		fault   Fault
		err     error
		applied bool
	}{
		{None, nil, true},
		{Fail, ErrInjected, false},
		{LostBefore, ope.ErrUnknownOutcome, false},
		{LostAfter, ope.ErrUnknownOutcome, true},
	} {
		ix := NewIndex()
		var ops []Op
		ix.Inject(func(_ context.Context, op Op) Fault { ops = append(ops, op); return c.fault })
		applied, err := ix.Commit(ctx, "u", ope.Condition{}, put)
		require.Equal(t, c.fault == None, applied)
		require.ErrorIs(t, err, c.err)
		require.Len(t, ops, 1)
		require.Equal(t, Op{N: 1, Unit: "u", Commit: true, Change: &put}, ops[0])

		ix.Inject(nil)
		has := func() bool { return len(read(t, ix, "u", nil, nil, 0).Records) == 1 }
		require.Equal(t, c.applied, has(), "fault %d", c.fault)
		require.Equal(t, c.applied, ix.Commits() == 1)
	}
}

func TestFaultsOfReads(t *testing.T) {
	for _, fault := range []Fault{Fail, LostBefore, LostAfter} {
		ix := NewIndex()
		ix.Inject(func(context.Context, Op) Fault { return fault })
		_, err := ix.Read(ctx, "u", nil, nil, 0)
		require.ErrorIs(t, err, ErrInjected)
	}
}

func TestHookMayBlockAndUseTheIndex(t *testing.T) {
	ix := NewIndex()
	ix.Inject(func(_ context.Context, op Op) Fault {
		if op.Commit && op.N == 1 { // another writer gets in between
			commit(t, ix, "u", ope.Condition{}, ope.Change{Puts: records("b"), Meta: opened})
		}
		return None
	})
	require.False(t, commit(t, ix, "u", ope.Condition{}, put))

	ix.Inject(func(ctx context.Context, op Op) Fault { <-ctx.Done(); return None })
	ctx, cancel := context.WithTimeout(ctx, time.Millisecond)
	defer cancel()
	_, err := ix.Read(ctx, "u", nil, nil, 0)
	require.ErrorIs(t, err, context.DeadlineExceeded)
}
