package opetest

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"

	"github.com/rangecrypt/rangecrypt/ope"
	"pgregory.net/rapid"
)

// TestIndex checks every sentence of the contract of [ope.Index]. newIndex returns an index that
// may hold units already: the test makes up names of its own, and does not delete its units.
func TestIndex(t *testing.T, newIndex func(tb testing.TB) ope.Index) {
	for _, c := range indexChecks {
		t.Run(c.name, func(t *testing.T) { c.run(t, newIndex(t)) })
	}
}

var indexChecks = []struct {
	name string
	run  func(tb testing.TB, ix ope.Index)
}{
	{"NeverWritten", checkNeverWritten},
	{"Slices", checkSlices},
	{"Condition", checkCondition},
	{"AllOrNothing", checkAllOrNothing},
	{"FinalStates", checkFinalStates},
	{"SharedKey", checkSharedKey},
	{"Units", checkUnits},
	{"Copies", checkCopies},
	{"CancelledContext", checkCancelledContext},
	{"Model", checkIndexModel},
	{"Linearizable", checkLinearizable},
}

// newUnit returns a name that no other test uses. It has the 64 bytes that are allowed, not all
// of them text.
func newUnit() ope.Unit {
	name := make([]byte, 64)
	rand.Read(name)
	return ope.Unit(name)
}

func read(t rapid.TB, ix ope.Index, u ope.Unit, from, to []byte, limit int) ope.View {
	t.Helper()
	v, err := ix.Read(ctx, u, from, to, limit)
	if err != nil {
		t.Fatalf("Read(%q, %q, %d): %v", from, to, limit, err)
	}
	return v
}

func commit(t rapid.TB, ix ope.Index, u ope.Unit, cond ope.Condition, change ope.Change) bool {
	t.Helper()
	applied, err := ix.Commit(ctx, u, cond, change)
	if err != nil {
		t.Fatalf("Commit under %+v: %v", cond, err)
	}
	return applied
}

// open opens the unit with the records, whose values are their keys in reverse.
func open(t rapid.TB, ix ope.Index, u ope.Unit, keys ...string) ope.Condition {
	t.Helper()
	meta := ope.Meta{State: ope.StateOpen, Generation: 1}
	if !commit(t, ix, u, ope.Condition{}, ope.Change{Puts: records(keys...), Meta: meta}) {
		t.Fatalf("a unit that was never written refuses a commit under the zero Condition")
	}
	return ope.Condition{State: meta.State, Generation: meta.Generation}
}

func records(keys ...string) (rs []ope.Record) {
	for _, key := range keys {
		value := []byte(key)
		slices.Reverse(value)
		rs = append(rs, ope.Record{Key: []byte(key), Value: value})
	}
	return rs
}

// wantView compares what is read with keys, whose values are their keys in reverse.
func wantView(t rapid.TB, got ope.View, meta ope.Meta, more bool, keys ...string) {
	t.Helper()
	if got.Meta != meta {
		t.Fatalf("read the meta %+v, want %+v", got.Meta, meta)
	}
	if !slices.EqualFunc(got.Records, records(keys...), equalRecords) {
		t.Fatalf("read the records %q, want those of %q", got.Records, keys)
	}
	if got.More != more {
		t.Fatalf("read More = %v, want %v", got.More, more)
	}
}

func equalRecords(a, b ope.Record) bool {
	return bytes.Equal(a.Key, b.Key) && bytes.Equal(a.Value, b.Value)
}

func checkNeverWritten(tb testing.TB, ix ope.Index) {
	wantView(tb, read(tb, ix, newUnit(), nil, nil, 0), ope.Meta{}, false)
	u := newUnit()
	if commit(tb, ix, u, ope.Condition{State: ope.StateOpen}, ope.Change{Puts: records("a")}) {
		tb.Fatal("a unit that was never written is open")
	}
	wantView(tb, read(tb, ix, u, nil, nil, 0), ope.Meta{}, false)
}

func checkSlices(tb testing.TB, ix ope.Index) {
	u := newUnit()
	keys := []string{"\x00", "\x00\x00", "a", "a\x00", "a\xff", "b", "\x7f", "\x80", "\xff", "\xff\xff"}
	slices.Sort(keys)
	open(tb, ix, u, keys[5], keys[9], keys[0], keys[3], keys[7], keys[1], keys[8], keys[2], keys[6], keys[4])
	meta := ope.Meta{State: ope.StateOpen, Generation: 1}
	bounds := append([]string{"", "\x01", "a\x01", "zzz", "\xff\xff\xff"}, keys...)
	for limit := range len(keys) + 2 {
		wantView(tb, read(tb, ix, u, nil, nil, limit), meta, limit > 0 && limit < len(keys), keys[:min(len(keys), cond(limit == 0, len(keys), limit))]...)
	}
	for _, from := range bounds {
		wantView(tb, read(tb, ix, u, []byte(from), nil, 0), meta, false, within(keys, &from, nil)...)
		wantView(tb, read(tb, ix, u, nil, []byte(from), 0), meta, false, within(keys, nil, &from)...)
		for _, to := range bounds {
			want := within(keys, &from, &to)
			wantView(tb, read(tb, ix, u, []byte(from), []byte(to), 0), meta, false, want...)
			wantView(tb, read(tb, ix, u, []byte(from), []byte(to), 2), meta, len(want) > 2, want[:min(2, len(want))]...)
		}
	}
}

func cond[T any](c bool, yes, no T) T {
	if c {
		return yes
	}
	return no
}

func within(keys []string, from, to *string) (out []string) {
	for _, key := range keys {
		if (from == nil || *from <= key) && (to == nil || key < *to) {
			out = append(out, key)
		}
	}
	return out
}

func checkCondition(tb testing.TB, ix ope.Index) {
	u := newUnit()
	nonce, other := ope.Nonce{1}, ope.Nonce{2}
	meta := ope.Meta{State: ope.StateOpen, Generation: 1 << 63, Nonce: nonce}
	commit(tb, ix, u, ope.Condition{}, ope.Change{Puts: records("a", "b"), Meta: meta})
	keys := func(ks ...string) (out [][]byte) {
		for _, k := range ks {
			out = append(out, []byte(k))
		}
		return out
	}
	for i, c := range []struct {
		cond  ope.Condition
		holds bool
	}{
		{ope.Condition{}, false},
		{ope.Condition{State: ope.StateOpen}, false},
		{ope.Condition{Generation: 1 << 63}, false},
		{ope.Condition{State: ope.StateSealed, Generation: 1 << 63}, false},
		{ope.Condition{State: ope.StateOpen, Generation: 1<<63 - 1}, false},
		{ope.Condition{State: ope.StateOpen, Generation: 1<<63 + 1}, false},
		{ope.Condition{State: ope.StateOpen, Generation: 1 << 63, Nonce: &other}, false},
		{ope.Condition{State: ope.StateOpen, Generation: 1 << 63, Nonce: new(ope.Nonce)}, false},
		{ope.Condition{State: ope.StateOpen, Generation: 1 << 63, Absent: keys("a")}, false},
		{ope.Condition{State: ope.StateOpen, Generation: 1 << 63, Absent: keys("c", "b")}, false},
		{ope.Condition{State: ope.StateOpen, Generation: 1 << 63, Nonce: &nonce, Absent: keys("a")}, false},
		{ope.Condition{State: ope.StateOpen, Generation: 1 << 63}, true},
		{ope.Condition{State: ope.StateOpen, Generation: 1 << 63, Nonce: &nonce}, true},
		{ope.Condition{State: ope.StateOpen, Generation: 1 << 63, Absent: keys("c", "a\x00", "")}, true},
		{ope.Condition{State: ope.StateOpen, Generation: 1 << 63, Nonce: &nonce, Absent: keys("c")}, true},
	} {
		if applied := commit(tb, ix, u, c.cond, ope.Change{Meta: meta}); applied != c.holds {
			tb.Fatalf("condition %d, %+v: applied = %v, want %v", i, c.cond, applied, c.holds)
		}
	}
	wantView(tb, read(tb, ix, u, nil, nil, 0), meta, false, "a", "b")
}

// checkAllOrNothing checks that a commit changes puts, deletes and meta, and a refused one none
// of them.
func checkAllOrNothing(tb testing.TB, ix ope.Index) {
	u := newUnit()
	is := open(tb, ix, u, "a", "b", "c")
	change := ope.Change{
		Puts:    records("d", "e"),
		Deletes: [][]byte{[]byte("a")},
		Meta:    ope.Meta{State: ope.StateSealed, Generation: 2, Nonce: ope.Nonce{3}},
	}
	refused := is
	refused.Absent = [][]byte{[]byte("x"), []byte("c")}
	if commit(tb, ix, u, refused, change) {
		tb.Fatal("a commit was applied though a key was present")
	}
	wantView(tb, read(tb, ix, u, nil, nil, 0), ope.Meta{State: ope.StateOpen, Generation: 1}, false, "a", "b", "c")
	if !commit(tb, ix, u, is, change) {
		tb.Fatal("a commit was refused though its condition held")
	}
	wantView(tb, read(tb, ix, u, nil, nil, 0), change.Meta, false, "b", "c", "d", "e")
	if commit(tb, ix, u, is, change) {
		tb.Fatal("a commit was applied again, on the condition that it changed")
	}
}

func checkFinalStates(tb testing.TB, ix ope.Index) {
	u := newUnit()
	is := open(tb, ix, u, "a", "b")
	meta := ope.Meta{State: ope.StateOpen, Generation: 1}
	commit(tb, ix, u, is, ope.Change{Puts: []ope.Record{{Key: []byte("a"), Value: []byte("other")}}, Deletes: [][]byte{[]byte("never there")}, Meta: meta})
	commit(tb, ix, u, is, ope.Change{Deletes: [][]byte{[]byte("b"), []byte("b")}, Meta: meta})
	got := read(tb, ix, u, nil, nil, 0)
	if len(got.Records) != 1 || !equalRecords(got.Records[0], ope.Record{Key: []byte("a"), Value: []byte("other")}) {
		tb.Fatalf("after an overwrite and a deletion: %q", got.Records)
	}
	// A deleted record is absent, and its key may come back.
	is.Absent = [][]byte{[]byte("b")}
	if !commit(tb, ix, u, is, ope.Change{Puts: records("b"), Deletes: [][]byte{[]byte("a")}, Meta: meta}) {
		tb.Fatal("a deleted record counts as present")
	}
	wantView(tb, read(tb, ix, u, nil, nil, 0), meta, false, "b")
}

func checkSharedKey(tb testing.TB, ix ope.Index) {
	u := newUnit()
	is := open(tb, ix, u, "a", "b")
	applied, err := ix.Commit(ctx, u, is, ope.Change{Puts: records("c", "a"), Deletes: [][]byte{[]byte("b"), []byte("a")}, Meta: ope.Meta{State: ope.StateSealed}})
	if err == nil || applied {
		tb.Fatalf("a change that puts and deletes the same key: applied = %v, error %v; want an error", applied, err)
	}
	if errors.Is(err, ope.ErrUnknownOutcome) {
		tb.Fatalf("the outcome of a change that puts and deletes the same key is known: %v", err)
	}
	wantView(tb, read(tb, ix, u, nil, nil, 0), ope.Meta{State: ope.StateOpen, Generation: 1}, false, "a", "b")
}

func checkUnits(tb testing.TB, ix ope.Index) {
	base := newUnit()
	base = base[:62] + "ab" // at random, it could be one of the others
	names := []ope.Unit{base, base[:63], base[:62] + "\x00", base[:62] + "\xff", base[:62]}
	for i, u := range names {
		open(tb, ix, u, fmt.Sprint(i))
	}
	for i, u := range names {
		wantView(tb, read(tb, ix, u, nil, nil, 0), ope.Meta{State: ope.StateOpen, Generation: 1}, false, fmt.Sprint(i))
	}
}

func checkCopies(tb testing.TB, ix ope.Index) {
	u := newUnit()
	change := ope.Change{Puts: records("abc"), Meta: ope.Meta{State: ope.StateOpen}}
	commit(tb, ix, u, ope.Condition{}, change)
	scribble := func(rs []ope.Record) {
		for _, r := range rs {
			clear(r.Key)
			clear(r.Value)
		}
	}
	scribble(change.Puts)
	view := read(tb, ix, u, nil, nil, 0)
	wantView(tb, view, change.Meta, false, "abc")
	scribble(view.Records)
	wantView(tb, read(tb, ix, u, nil, nil, 0), change.Meta, false, "abc")
}

func checkCancelledContext(tb testing.TB, ix ope.Index) {
	u := newUnit()
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := ix.Read(cancelled, u, nil, nil, 0); err == nil {
		tb.Fatal("Read with a cancelled context succeeded")
	}
	// It may or may not be applied, but it may not say that its condition failed.
	applied, err := ix.Commit(cancelled, u, ope.Condition{}, ope.Change{Puts: records("a"), Meta: ope.Meta{State: ope.StateOpen}})
	if err == nil && !applied {
		tb.Fatal("Commit with a cancelled context reports that its condition does not hold")
	}
	if meta := read(tb, ix, u, nil, nil, 0).Meta; applied && meta.State != ope.StateOpen {
		tb.Fatal("Commit with a cancelled context reports that it was applied, and was not")
	}
}

// checkIndexModel runs random histories against a map.
func checkIndexModel(tb testing.TB, ix ope.Index) {
	key := rapid.OneOf(
		rapid.SliceOfN(rapid.SampledFrom([]byte{0, 1, 'a', 0x7f, 0x80, 0xff}), 1, 3),
		rapid.SliceOfN(rapid.Byte(), 1, 24),
	)
	rapid.Check(tb, func(t *rapid.T) {
		u := newUnit()
		var meta ope.Meta
		held := map[string]string{}
		for range rapid.IntRange(1, 12).Draw(t, "commits") {
			var change ope.Change
			named := map[string]bool{}
			for _, k := range rapid.SliceOfN(key, 0, 6).Draw(t, "keys") {
				if named[string(k)] {
					continue
				}
				named[string(k)] = true
				if rapid.Bool().Draw(t, "delete") {
					change.Deletes = append(change.Deletes, k)
				} else {
					change.Puts = append(change.Puts, ope.Record{Key: k, Value: rapid.SliceOfN(rapid.Byte(), 1, 8).Draw(t, "value")})
				}
			}
			change.Meta = ope.Meta{
				State:      max(meta.State, rapid.SampledFrom([]ope.State{ope.StateOpen, ope.StateOpen, ope.StateSealed}).Draw(t, "state")),
				Generation: rapid.Uint64().Draw(t, "generation"),
				Nonce:      ope.Nonce(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "nonce")),
			}
			is := ope.Condition{State: meta.State, Generation: meta.Generation}
			holds := true
			if rapid.IntRange(0, 4).Draw(t, "wrong generation") == 0 {
				is.Generation++
				holds = false
			}
			if rapid.Bool().Draw(t, "nonce too") {
				nonce := meta.Nonce
				is.Nonce = &nonce
			}
			for _, k := range rapid.SliceOfN(key, 0, 2).Draw(t, "absent") {
				is.Absent = append(is.Absent, k)
				if _, present := held[string(k)]; present {
					holds = false
				}
			}
			if applied := commit(t, ix, u, is, change); applied != holds {
				t.Fatalf("Commit under %+v: applied = %v, want %v", is, applied, holds)
			}
			if holds {
				meta = change.Meta
				for _, k := range change.Deletes {
					delete(held, string(k))
				}
				for _, r := range change.Puts {
					held[string(r.Key)] = string(r.Value)
				}
			}

			from, to := string(key.Draw(t, "from")), string(key.Draw(t, "to"))
			for _, bounded := range []bool{false, true} {
				keys := slices.Sorted(maps.Keys(held))
				var view ope.View
				if bounded {
					keys = within(keys, &from, &to)
					view = read(t, ix, u, []byte(from), []byte(to), 0)
				} else {
					view = read(t, ix, u, nil, nil, 0)
				}
				if view.Meta != meta || view.More || len(view.Records) != len(keys) {
					t.Fatalf("read %+v with %d records, want %+v with %d", view.Meta, len(view.Records), meta, len(keys))
				}
				for i, k := range keys {
					if !equalRecords(view.Records[i], ope.Record{Key: []byte(k), Value: []byte(held[k])}) {
						t.Fatalf("read %q, want the value %q of %q", view.Records[i], held[k], k)
					}
				}
			}
		}
	})
}

// checkLinearizable lets writers raise the generation by one each, with one record per
// generation that names the writer. Of the writers that see the same generation exactly one may
// succeed, and every reader sees as many records as the generation says.
func checkLinearizable(tb testing.TB, ix ope.Index) {
	const writers, target = 6, 30
	u := newUnit()
	open(tb, ix, u, "\x00\x01")
	acknowledged := make([][]uint64, writers)
	failures := make([]error, 2*writers)
	var wg, allRead sync.WaitGroup
	allRead.Add(writers)
	for w := range writers {
		wg.Go(func() { acknowledged[w], failures[w] = raise(ix, u, target, byte(w), &allRead) })
		wg.Go(func() { failures[writers+w] = watch(ix, u, target) })
	}
	wg.Wait()
	if err := errors.Join(failures...); err != nil {
		tb.Fatal(err)
	}
	final := read(tb, ix, u, nil, nil, 0).Records
	for w, generations := range acknowledged {
		for _, g := range generations {
			if got := final[g-1].Value; !bytes.Equal(got, []byte{byte(w)}) {
				tb.Fatalf("the generation %d was acknowledged to the writer %d, and is by %x", g, w, got)
			}
		}
	}
}

// raise returns the generations that were acknowledged. A commit of unknown outcome is not
// repeated, but followed by a read: if it was applied after all, the next condition fails. No
// writer commits before allRead, so that at least the first commits race.
func raise(ix ope.Index, u ope.Unit, target uint64, writer byte, allRead *sync.WaitGroup) (acknowledged []uint64, err error) {
	for first := true; ; first = false {
		v, err := ix.Read(ctx, u, nil, nil, 0)
		if first {
			allRead.Done()
			allRead.Wait()
		}
		if err != nil || v.Meta.Generation == target {
			return acknowledged, err
		}
		if n := len(acknowledged); n > 0 && v.Meta.Generation < acknowledged[n-1] {
			return nil, fmt.Errorf("a read after the acknowledged generation %d sees generation %d", acknowledged[n-1], v.Meta.Generation)
		}
		next := v.Meta.Generation + 1
		applied, err := ix.Commit(ctx, u,
			ope.Condition{State: v.Meta.State, Generation: v.Meta.Generation},
			ope.Change{
				Puts: []ope.Record{{Key: []byte{0, byte(next)}, Value: []byte{writer}}},
				Meta: ope.Meta{State: ope.StateOpen, Generation: next, Nonce: ope.Nonce{writer, byte(next)}},
			})
		if err != nil && !errors.Is(err, ope.ErrUnknownOutcome) {
			return nil, err
		}
		if applied {
			acknowledged = append(acknowledged, next)
		}
	}
}

func watch(ix ope.Index, u ope.Unit, target uint64) error {
	for last := uint64(0); last < target; {
		v, err := ix.Read(ctx, u, nil, nil, 0)
		if err != nil {
			return err
		}
		if v.Meta.Generation < last {
			return fmt.Errorf("a read sees generation %d after %d", v.Meta.Generation, last)
		}
		last = v.Meta.Generation
		if uint64(len(v.Records)) != last {
			return fmt.Errorf("a read sees %d records with generation %d", len(v.Records), last)
		}
	}
	return nil
}
