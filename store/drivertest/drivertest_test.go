package drivertest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/rangecrypt/rangecrypt/internal/sim"
	"github.com/rangecrypt/rangecrypt/store/driver"
)

func TestMain(m *testing.M) {
	sim.ManyAtOnce()
	goleak.VerifyTestMain(m)
}

func TestMemory(t *testing.T) {
	TestDriver(t, func(testing.TB) driver.DB { return NewMemory() }, nil)
}

func BenchmarkMemory(b *testing.B) {
	Benchmark(b, func(testing.TB) driver.DB { return NewMemory() })
}

func TestNamesAreUnique(t *testing.T) {
	seen := make(map[string]bool)
	for _, c := range checks {
		require.False(t, seen[c.name], c.name)
		seen[c.name] = true
	}
}

// A breakage is a driver with one promise broken, and the checks that must notice, each of them.
type breakage struct {
	name   string
	noted  []string                                // names of checks
	broken brokenFamily                            // or
	family func(driver.Committer) driver.Committer // or
	db     func(driver.DB) driver.DB
	own    func(error) bool // as in Options
}

func valid(s driver.Slice) bool {
	return driver.FamilySpec{Layout: driver.LayoutWide}.CheckSlice(s) == nil
}

var breakages = []breakage{
	{name: "a batch comes in the order of its keys",
		noted: []string{"GetBatch returns what Get returns", "GetBatch takes up to MaxBatch rows", "what GetBatch returns belongs to the caller", "a random history agrees with a model"},
		broken: brokenFamily{getBatch: func(f driver.Committer, ctx context.Context, rows [][]byte, s driver.Slice) ([][]driver.Cell, error) {
			rows = slices.Clone(rows)
			slices.SortFunc(rows, bytes.Compare)
			return f.GetBatch(ctx, rows, s)
		}}},
	{name: "a row needs the cell that is named first, not the least",
		noted: []string{"a slice may need its first cell"},
		broken: brokenFamily{get: func(f driver.Committer, ctx context.Context, row []byte, s driver.Slice) ([]driver.Cell, error) {
			found, err := f.Get(ctx, row, s)
			if s.NeedsFirst && !slices.ContainsFunc(found, func(c driver.Cell) bool { return bytes.Equal(c.Qualifier, s.Only[0]) }) {
				found = nil
			}
			return found, err
		}}},
	{name: "a batch returns a row once that it names twice",
		noted: []string{"GetBatch returns what Get returns", "GetBatch takes up to MaxBatch rows", "what GetBatch returns belongs to the caller"},
		broken: brokenFamily{getBatch: func(f driver.Committer, ctx context.Context, rows [][]byte, s driver.Slice) ([][]driver.Cell, error) {
			found, err := f.GetBatch(ctx, rows, s)
			for i := range found {
				if slices.ContainsFunc(rows[:i], func(row []byte) bool { return bytes.Equal(row, rows[i]) }) {
					found[i] = nil
				}
			}
			return found, err
		}}},
	{name: "a batch shares the memory of a row that it names twice",
		noted: []string{"what GetBatch returns belongs to the caller"},
		broken: brokenFamily{getBatch: func(f driver.Committer, ctx context.Context, rows [][]byte, s driver.Slice) ([][]driver.Cell, error) {
			found, err := f.GetBatch(ctx, rows, s)
			for i := range found {
				found[i] = found[slices.IndexFunc(rows, func(row []byte) bool { return bytes.Equal(row, rows[i]) })]
			}
			return found, err
		}}},
	{name: "a batch leaves out rows beyond a page",
		noted: []string{"GetBatch takes up to MaxBatch rows"},
		broken: brokenFamily{getBatch: func(f driver.Committer, ctx context.Context, rows [][]byte, s driver.Slice) ([][]driver.Cell, error) {
			found, err := f.GetBatch(ctx, rows, s)
			clear(found[min(len(found), 1000):])
			return found, err
		}}},
	{name: "a batch reads a row in two pieces",
		noted: []string{"each row of a batch is of one instant"},
		broken: brokenFamily{getBatch: func(f driver.Committer, ctx context.Context, rows [][]byte, s driver.Slice) ([][]driver.Cell, error) {
			found, err := f.GetBatch(ctx, rows, s)
			if err != nil || len(s.Only) > 0 {
				return found, err
			}
			time.Sleep(time.Millisecond)
			for i := range found {
				later, err := f.Get(ctx, rows[i], s)
				if err != nil {
					return nil, err
				}
				if len(later) == len(found[i]) {
					copy(found[i][len(later)/2:], later[len(later)/2:])
				}
			}
			return found, nil
		}}},
	{name: "a batch ignores its slice",
		noted: []string{"GetBatch returns what Get returns", "a random history agrees with a model"},
		broken: brokenFamily{getBatch: func(f driver.Committer, ctx context.Context, rows [][]byte, s driver.Slice) ([][]driver.Cell, error) {
			if s.Limit == 0 && !s.Head && valid(s) {
				s = driver.Slice{Stamps: s.Stamps}
			}
			return f.GetBatch(ctx, rows, s)
		}}},
	{name: "a batch has no stamps",
		noted: []string{"GetBatch returns what Get returns"},
		broken: brokenFamily{getBatch: func(f driver.Committer, ctx context.Context, rows [][]byte, s driver.Slice) ([][]driver.Cell, error) {
			s.Stamps = false
			return f.GetBatch(ctx, rows, s)
		}}},
	{name: "a batch keeps its keys",
		noted: []string{"what GetBatch is passed is neither kept nor changed"},
		broken: brokenFamily{getBatch: func(f driver.Committer, ctx context.Context, rows [][]byte, s driver.Slice) ([][]driver.Cell, error) {
			slices.SortFunc(s.Only, bytes.Compare)
			return f.GetBatch(ctx, rows, s)
		}}},
	{name: "a batch shows the past",
		noted: []string{"GetBatch observes what was acknowledged"},
		family: func(f driver.Committer) driver.Committer {
			var before [][]byte
			var past [][]driver.Cell
			return &brokenFamily{Committer: f, getBatch: func(f driver.Committer, ctx context.Context, rows [][]byte, s driver.Slice) ([][]driver.Cell, error) {
				found, err := f.GetBatch(ctx, rows, s)
				old := past
				same := slices.EqualFunc(before, rows, bytes.Equal)
				before, past = rows, found
				if same && err == nil {
					return old, nil
				}
				return found, err
			}}
		}},
	{name: "a batch has any size and any slice",
		noted: []string{"an invalid batch is refused"},
		broken: brokenFamily{getBatch: func(f driver.Committer, ctx context.Context, rows [][]byte, s driver.Slice) ([][]driver.Cell, error) {
			return GetEach(ctx, f, rows, s)
		}}},
	{name: "a batch goes on when its context is done",
		noted: []string{"a context that is done ends every method"},
		broken: brokenFamily{getBatch: func(f driver.Committer, ctx context.Context, rows [][]byte, s driver.Slice) ([][]driver.Cell, error) {
			return f.GetBatch(context.WithoutCancel(ctx), rows, s)
		}}},
	{name: "end is inclusive",
		noted: []string{"ranges are half-open", "scans in order keep within a prefix", "a random history agrees with a model"},
		broken: brokenFamily{rangeOf: func(r driver.Range) driver.Range {
			if len(r.End) > 0 {
				r.End = append(bytes.Clone(r.End), 0)
			}
			return r
		}}},
	{name: "start is exclusive",
		noted: []string{"ranges are half-open", "scans in order keep within a prefix", "a random history agrees with a model"},
		broken: brokenFamily{rangeOf: func(r driver.Range) driver.Range {
			if len(r.Start) > 0 {
				r.Start = append(bytes.Clone(r.Start), 0)
			}
			return r
		}}},
	{name: "bytes are signed",
		noted: []string{"rows are in unsigned bytewise order", "ranges are half-open"},
		broken: brokenFamily{rowsOf: func(rows []driver.Row) {
			slices.SortFunc(rows, func(x, y driver.Row) int {
				return slices.CompareFunc(x.Key, y.Key, func(a, b byte) int { return int(int8(a)) - int(int8(b)) })
			})
		}}},
	{name: "a longer key comes first",
		noted: []string{"rows are in unsigned bytewise order"},
		broken: brokenFamily{rowsOf: func(rows []driver.Row) {
			slices.SortFunc(rows, func(x, y driver.Row) int {
				switch {
				case bytes.HasPrefix(x.Key, y.Key):
					return len(y.Key) - len(x.Key)
				case bytes.HasPrefix(y.Key, x.Key):
					return len(y.Key) - len(x.Key)
				}
				return bytes.Compare(x.Key, y.Key)
			})
		}}},
	{name: "keys lose trailing zeros",
		noted: []string{"rows are in unsigned bytewise order", "cells are in unsigned bytewise order"},
		broken: brokenFamily{mutationOf: func(m driver.Mutation) driver.Mutation {
			if k := bytes.TrimRight(m.Row, "\x00"); len(k) > 0 {
				m.Row = k
			}
			return m
		}, lenient: true}},
	{name: "a scan ignores its limit",
		noted:  []string{"scans are limited and reversed", "scans yield each row once across pages"},
		broken: brokenFamily{rangeOf: func(r driver.Range) driver.Range { r.Limit = min(r.Limit, 0); return r }}},
	{name: "a scan ignores Reverse",
		noted:  []string{"rows are in unsigned bytewise order", "scans are limited and reversed"},
		broken: brokenFamily{rangeOf: func(r driver.Range) driver.Range { r.Reverse = false; return r }}},
	{name: "a scan ends after one page",
		noted: []string{"scans yield each row once across pages", "Apply takes any number of mutations", "scans in any order are complete"},
		broken: brokenFamily{rangeOf: func(r driver.Range) driver.Range {
			if r.Limit == 0 || r.Limit > 1000 {
				r.Limit = 1000
			}
			return r
		}}},
	{name: "a scan repeats the row between pages",
		noted: []string{"scans yield each row once across pages", "scans in any order are complete"},
		broken: brokenFamily{rowsAfter: func(rows []driver.Row) []driver.Row {
			if len(rows) > 1000 {
				return slices.Insert(rows, 1000, rows[999])
			}
			return rows
		}}},
	{name: "every part is the whole",
		noted: []string{"the parts of a scan are disjoint and together the whole"},
		broken: brokenFamily{rangeOf: func(r driver.Range) driver.Range {
			r.Part, r.Parts = 0, 0
			return r
		}}},
	{name: "the last part is left out",
		noted: []string{"the parts of a scan are disjoint and together the whole"},
		broken: brokenFamily{rangeOf: func(r driver.Range) driver.Range {
			if r.Parts > 1 && r.Part == r.Parts-1 {
				r.Limit = 1
			}
			return r
		}}},
	{name: "the parts of each number are cut from another end",
		noted: []string{"the parts of a scan are disjoint and together the whole"},
		broken: brokenFamily{rangeOf: func(r driver.Range) driver.Range {
			if r.Parts > 1 && r.Parts%2 == 0 {
				r.Part = r.Parts - 1 - r.Part
			}
			return r
		}}},
	{name: "a scan goes on after the caller stops",
		noted:  []string{"scans stop when the caller stops"},
		broken: brokenFamily{deaf: true}},
	{name: "a scan reuses its buffers",
		noted:  []string{"rows stay valid after the iteration"},
		broken: brokenFamily{reuse: true}},
	{name: "a scan yields rows without a cell in the slice",
		noted:  []string{"scans yield rows that have a cell in the slice", "a random history agrees with a model"},
		broken: brokenFamily{emptyRows: true}},
	{name: "wide rows are cut at 5,000 cells",
		noted:  []string{"slices of a wide row across pages"},
		broken: brokenFamily{cellsOf: func(c []driver.Cell) []driver.Cell { return c[:min(len(c), 5000)] }}},
	{name: "a slice ignores its limit",
		noted:  []string{"slices are half-open and limited", "slices by qualifier", "slices of a wide row across pages"},
		broken: brokenFamily{sliceOf: func(s driver.Slice) driver.Slice { s.Limit = 0; return s }}},
	{name: "a slice includes its end",
		noted: []string{"slices are half-open and limited"},
		broken: brokenFamily{sliceOf: func(s driver.Slice) driver.Slice {
			if len(s.End) > 0 {
				s.End = append(bytes.Clone(s.End), 0)
			}
			return s
		}}},
	{name: "a slice ignores Head",
		noted: []string{"a slice has the head of its row added", "the head follows every change", "a random history agrees with a model"},
		broken: brokenFamily{sliceOf: func(s driver.Slice) driver.Slice {
			if valid(s) {
				s.Head = false
			}
			return s
		}}},
	{name: "the limit counts the head",
		noted: []string{"a slice has the head of its row added", "a random history agrees with a model"},
		broken: brokenFamily{get: func(f driver.Committer, ctx context.Context, row []byte, s driver.Slice) ([]driver.Cell, error) {
			cells, err := f.Get(ctx, row, s)
			if s.Head && s.Limit > 0 {
				cells = cells[:min(len(cells), s.Limit)]
			}
			return cells, err
		}}},
	{name: "an empty slice has no head",
		noted: []string{"a slice has the head of its row added", "the head follows every change", "a slice and the head are of one instant"},
		broken: brokenFamily{cellsOf: func(cells []driver.Cell) []driver.Cell {
			for _, c := range cells {
				if !driver.InHead(c.Qualifier) {
					return cells
				}
			}
			return nil
		}}},
	{name: "the head is read on its own",
		noted: []string{"a slice and the head are of one instant"},
		broken: brokenFamily{get: func(f driver.Committer, ctx context.Context, row []byte, s driver.Slice) ([]driver.Cell, error) {
			if !s.Head || !valid(s) {
				return f.Get(ctx, row, s)
			}
			head, err := f.Get(ctx, row, driver.Slice{End: []byte{0, 0}})
			if err != nil {
				return nil, err
			}
			time.Sleep(50 * time.Microsecond)
			s.Head = false
			cells, err := f.Get(ctx, row, s)
			return append(head, cells...), err
		}}},
	{name: "the head is as of the first change",
		noted: []string{"the head follows every change", "a random history agrees with a model"},
		family: func(f driver.Committer) driver.Committer {
			var mu sync.Mutex
			first := make(map[string][]driver.Cell)
			return &brokenFamily{Committer: f, get: func(f driver.Committer, ctx context.Context, row []byte, s driver.Slice) ([]driver.Cell, error) {
				cells, err := f.Get(ctx, row, s)
				n := 0
				for n < len(cells) && driver.InHead(cells[n].Qualifier) {
					n++
				}
				if !s.Head || n == 0 {
					return cells, err
				}
				mu.Lock()
				defer mu.Unlock()
				if first[string(row)] == nil {
					first[string(row)] = slices.Clone(cells[:n])
				}
				return append(slices.Clone(first[string(row)]), cells[n:]...), err
			}}
		}},
	{name: "an empty end is no end",
		noted: []string{"slices are half-open and limited", "slices of a wide row across pages"},
		broken: brokenFamily{sliceOf: func(s driver.Slice) driver.Slice {
			if len(s.End) == 0 {
				s.End = nil
			}
			return s
		}}},
	{name: "empty values are not stored",
		noted: []string{"values are any bytes", "a row exists while it has a cell", "Commit distinguishes absent from empty"},
		broken: brokenFamily{mutationOf: func(m driver.Mutation) driver.Mutation {
			m.Puts = slices.DeleteFunc(slices.Clone(m.Puts), func(c driver.Cell) bool { return len(c.Value) == 0 })
			return m
		}, lenient: true}},
	{name: "the TTL is ignored",
		noted: []string{"cells end after their time to live"},
		broken: brokenFamily{mutationOf: func(m driver.Mutation) driver.Mutation {
			m.Puts = slices.Clone(m.Puts)
			for i := range m.Puts {
				m.Puts[i].TTL = min(m.Puts[i].TTL, 0)
			}
			return m
		}}},
	{name: "the TTL outlives an overwrite",
		noted: []string{"cells end after their time to live"},
		broken: brokenFamily{mutationOf: func(m driver.Mutation) driver.Mutation {
			m.Puts = slices.Clone(m.Puts)
			for i, c := range m.Puts {
				if bytes.HasSuffix(m.Row, []byte("renewed")) && c.TTL == 0 {
					m.Puts[i].TTL = time.Second
				}
			}
			return m
		}}},
	{name: "the cells of a mutation are written one by one",
		noted: []string{"the cells of a mutation appear all at once"},
		broken: brokenFamily{apply: func(f driver.Committer, ctx context.Context, ms []driver.Mutation) error {
			for _, m := range ms {
				if m.DeleteRow || len(ms) > 1 {
					return f.Apply(ctx, ms...)
				}
				for _, c := range m.Puts {
					if err := f.Apply(ctx, driver.Mutation{Row: m.Row, Puts: []driver.Cell{c}}); err != nil {
						return err
					}
					runtime.Gosched()
				}
				if err := f.Apply(ctx, driver.Mutation{Row: m.Row, Deletes: m.Deletes}); err != nil {
					return err
				}
			}
			return nil
		}}},
	{name: "a delete wins over a put in the same 2 milliseconds",
		noted: []string{"a mutation after an acknowledged one wins over it"},
		family: func(f driver.Committer) driver.Committer {
			var mu sync.Mutex
			deleted := make(map[string]time.Time)
			return &brokenFamily{Committer: f, mutationOf: func(m driver.Mutation) driver.Mutation {
				mu.Lock()
				defer mu.Unlock()
				if m.DeleteRow || len(m.Deletes) > 0 {
					deleted[string(m.Row)] = time.Now()
				} else if time.Since(deleted[string(m.Row)]) < 2*time.Millisecond {
					m.Puts = nil
				}
				return m
			}}
		}},
	{name: "writes are acknowledged before they are made",
		noted: []string{"reads observe what was acknowledged", "a mutation after an acknowledged one wins over it"},
		broken: brokenFamily{apply: func(f driver.Committer, ctx context.Context, ms []driver.Mutation) error {
			if len(ms) != 1 || len(ms[0].Puts) != 1 {
				return f.Apply(ctx, ms...)
			}
			c := ms[0].Puts[0]
			kept := row(string(ms[0].Row), put(string(c.Qualifier), string(c.Value)))
			kept.Puts[0].TTL = c.TTL
			go func() {
				time.Sleep(time.Millisecond)
				_ = f.Apply(context.Background(), kept)
			}()
			return nil
		}}},
	{name: "DeleteRow leaves cells after the first hundred",
		noted: []string{"DeleteRow removes the whole row"},
		broken: brokenFamily{apply: func(f driver.Committer, ctx context.Context, ms []driver.Mutation) error {
			ms = slices.Clone(ms)
			for i, m := range ms {
				if m.DeleteRow {
					cells, _ := f.Get(ctx, m.Row, driver.Slice{Limit: 100})
					m.DeleteRow = false
					for _, c := range cells {
						m.Deletes = append(m.Deletes, c.Qualifier)
					}
					ms[i] = m
				}
			}
			return f.Apply(ctx, ms...)
		}}},
	{name: "an overlap is not noticed",
		noted:  []string{"a change that names a cell or row twice is refused", "Commit needs all expectations"},
		broken: brokenFamily{blind: true}},
	{name: "Apply drops what is beyond 5,000 mutations",
		noted: []string{"Apply takes any number of mutations"},
		broken: brokenFamily{apply: func(f driver.Committer, ctx context.Context, ms []driver.Mutation) error {
			return f.Apply(ctx, ms[:min(len(ms), 5000)]...)
		}}},
	{name: "stamps are not filled",
		noted:  []string{"cells have stamps where they are asked for"},
		broken: brokenFamily{sliceOf: func(s driver.Slice) driver.Slice { s.Stamps = false; return s }}},
	{name: "stamps are always filled",
		noted:  []string{"cells have stamps where they are asked for"},
		broken: brokenFamily{sliceOf: func(s driver.Slice) driver.Slice { s.Stamps = true; return s }}},
	{name: "Replace ignores what was seen",
		noted: []string{"a mutation after Seen wins over Replace", "concurrent Apply and Replace leave one of them, whole", "Replace takes any number of replacements",
			"of replacements with one Seen, the greatest rank wins where none is late"},
		broken: brokenFamily{replace: func(f driver.Committer, ctx context.Context, rs []driver.Replacement) ([]int, error) {
			var ms []driver.Mutation
			for _, r := range rs {
				ms = append(ms, driver.Mutation{Row: r.Row, Puts: r.Puts, Deletes: r.Deletes})
			}
			return nil, f.Apply(ctx, ms...)
		}}},
	{name: "Replace looks, and then writes",
		noted: []string{"concurrent Apply and Replace leave one of them, whole"},
		broken: brokenFamily{replace: func(f driver.Committer, ctx context.Context, rs []driver.Replacement) ([]int, error) {
			var late []int
			for i, r := range rs {
				cells, err := f.Get(ctx, r.Row, driver.Slice{Only: [][]byte{r.Seen.Qualifier}})
				if err != nil || len(cells) == 0 || !bytes.Equal(cells[0].Value, r.Seen.Value) {
					late = append(late, i)
					continue
				}
				time.Sleep(100 * time.Microsecond)
				if err := f.Apply(ctx, driver.Mutation{Row: r.Row, Puts: r.Puts, Deletes: r.Deletes}); err != nil {
					return nil, err
				}
			}
			return late, nil
		}}},
	{name: "Replace does not say what came too late",
		noted: []string{"of replacements with one Seen, all but one are late", "a mutation after Seen wins over Replace", "Replace takes any number of replacements"},
		broken: brokenFamily{replace: func(f driver.Committer, ctx context.Context, rs []driver.Replacement) ([]int, error) {
			_, err := f.Replace(ctx, rs...)
			return nil, err
		}}},
	{name: "Replace takes all for too late",
		noted: []string{"Replace changes rows that were not written since", "Replace takes any number of replacements"},
		broken: brokenFamily{replace: func(f driver.Committer, ctx context.Context, rs []driver.Replacement) (late []int, err error) {
			for i := range rs {
				late = append(late, i)
			}
			_, err = f.Replace(ctx, rs...)
			return late, err
		}}},
	{name: "Replace forgets its deletes",
		noted: []string{"Replace changes rows that were not written since"},
		broken: brokenFamily{replace: func(f driver.Committer, ctx context.Context, rs []driver.Replacement) ([]int, error) {
			rs = slices.Clone(rs)
			for i, r := range rs {
				if len(r.Puts) > 0 {
					rs[i].Deletes = nil
				}
			}
			return f.Replace(ctx, rs...)
		}}},
	{name: "Replace makes the row what it puts",
		noted: []string{"a cell that no replacement names lasts beside them, until its row is deleted"},
		broken: brokenFamily{replace: func(f driver.Committer, ctx context.Context, rs []driver.Replacement) ([]int, error) {
			rs = slices.Clone(rs)
			for i, r := range rs {
				there, err := f.Get(ctx, r.Row, driver.Slice{})
				if err != nil {
					return nil, err
				}
				named := func(c driver.Cell) bool {
					return slices.ContainsFunc(r.Puts, func(p driver.Cell) bool { return bytes.Equal(p.Qualifier, c.Qualifier) }) ||
						slices.ContainsFunc(r.Deletes, func(q []byte) bool { return bytes.Equal(q, c.Qualifier) })
				}
				rs[i].Deletes = slices.Clone(r.Deletes)
				for _, c := range there {
					if !named(c) {
						rs[i].Deletes = append(rs[i].Deletes, c.Qualifier)
					}
				}
			}
			return f.Replace(ctx, rs...)
		}}},
	{name: "Replace locks the row",
		noted: []string{"a mutation after Replace wins over it"},
		family: func(f driver.Committer) driver.Committer {
			var replaced sync.Map
			return &brokenFamily{Committer: f, replace: func(f driver.Committer, ctx context.Context, rs []driver.Replacement) ([]int, error) {
				for _, r := range rs {
					replaced.Store(string(r.Row), true)
				}
				return f.Replace(ctx, rs...)
			}, apply: func(f driver.Committer, ctx context.Context, ms []driver.Mutation) error {
				ms = slices.DeleteFunc(slices.Clone(ms), func(m driver.Mutation) bool {
					_, later := replaced.LoadAndDelete(string(m.Row))
					return later
				})
				return f.Apply(ctx, ms...)
			}}
		}},
	{name: "a replacement stays for ever",
		noted: []string{"a replacement ends after its time to live"},
		broken: brokenFamily{replace: func(f driver.Committer, ctx context.Context, rs []driver.Replacement) ([]int, error) {
			rs = slices.Clone(rs)
			for i := range rs {
				rs[i].Puts = slices.Clone(rs[i].Puts)
				for j := range rs[i].Puts {
					rs[i].Puts[j].TTL = min(rs[i].Puts[j].TTL, 0)
				}
			}
			return f.Replace(ctx, rs...)
		}}},
	{name: "any replacement will do",
		noted: []string{"a replacement that does not say what was seen is refused"},
		broken: brokenFamily{replace: func(f driver.Committer, ctx context.Context, rs []driver.Replacement) ([]int, error) {
			late, err := f.Replace(ctx, rs...)
			if !errors.Is(err, driver.ErrSeen) {
				return late, err
			}
			return nil, nil
		}}},
	{name: "CheckAndPut is not atomic",
		noted: []string{"CheckAndPut lets exactly one of many win", "CheckAndPut loses no update"},
		broken: brokenFamily{checkAndPut: func(f driver.Committer, ctx context.Context, row []byte, expect driver.Cell, puts []driver.Cell) (bool, error) {
			ok, err := f.CheckAndPut(ctx, row, expect)
			if !ok || err != nil {
				return ok, err
			}
			time.Sleep(100 * time.Microsecond)
			return true, f.Apply(ctx, driver.Mutation{Row: row, Puts: puts})
		}}},
	{name: "CheckAndPut compares a prefix",
		noted: []string{"CheckAndPut puts if, and only if, the cell is as expected"},
		broken: brokenFamily{checkAndPut: func(f driver.Committer, ctx context.Context, row []byte, expect driver.Cell, puts []driver.Cell) (bool, error) {
			if cells, err := f.Get(ctx, row, driver.Slice{Only: [][]byte{expect.Qualifier}}); err == nil && len(cells) == 1 &&
				expect.Value != nil && bytes.HasPrefix(cells[0].Value, expect.Value) {
				expect.Value = cells[0].Value
			}
			return f.CheckAndPut(ctx, row, expect, puts...)
		}}},
	{name: "CheckAndPut puts the first cell only",
		noted: []string{"CheckAndPut puts if, and only if, the cell is as expected", "CheckAndPut lets exactly one of many win"},
		broken: brokenFamily{checkAndPut: func(f driver.Committer, ctx context.Context, row []byte, expect driver.Cell, puts []driver.Cell) (bool, error) {
			return f.CheckAndPut(ctx, row, expect, puts[:min(1, len(puts))]...)
		}}},
	{name: "CheckAndPut always says yes",
		noted: []string{"CheckAndPut puts if, and only if, the cell is as expected", "CheckAndPut lets exactly one of many win"},
		broken: brokenFamily{checkAndPut: func(f driver.Committer, ctx context.Context, row []byte, expect driver.Cell, puts []driver.Cell) (bool, error) {
			_, err := f.CheckAndPut(ctx, row, expect, puts...)
			return err == nil, err
		}}},
	{name: "what follows is skipped as well",
		noted: []string{"Get leaves out nothing but what may be skipped"},
		broken: brokenFamily{get: func(f driver.Committer, ctx context.Context, row []byte, s driver.Slice) ([]driver.Cell, error) {
			cells, err := f.Get(ctx, row, s)
			i := slices.IndexFunc(cells, func(c driver.Cell) bool { return s.Skip != nil && bytes.Equal(c.Value, s.Skip) })
			if i >= 0 {
				cells = slices.Delete(cells, i, min(i+3, len(cells)))
			}
			return cells, err
		}}},
	{name: "PutGuarded heeds the first free cell only",
		noted: []string{"PutGuarded puts if its guard holds"},
		broken: brokenFamily{guarded: func(f driver.Guarder, ctx context.Context, row []byte, guard driver.Guard, puts []driver.Cell) (bool, error) {
			guard.Free = guard.Free[:min(1, len(guard.Free))]
			return f.PutGuarded(ctx, row, guard, puts...)
		}}},
	{name: "PutGuarded heeds no prefix",
		noted: []string{"PutGuarded puts if its guard holds"},
		broken: brokenFamily{guarded: func(f driver.Guarder, ctx context.Context, row []byte, guard driver.Guard, puts []driver.Cell) (bool, error) {
			if len(guard.Prefix) > 1 {
				guard.Prefix = guard.Prefix[:1]
			}
			return f.PutGuarded(ctx, row, guard, puts...)
		}}},
	{name: "PutGuarded is not atomic",
		noted: []string{"PutGuarded gives a free place to one of many"},
		broken: brokenFamily{guarded: func(f driver.Guarder, ctx context.Context, row []byte, guard driver.Guard, puts []driver.Cell) (bool, error) {
			ok, err := f.PutGuarded(ctx, row, guard, driver.Cell{Qualifier: []byte("\xff"), Value: []byte("try")})
			if !ok || err != nil {
				return ok, err
			}
			time.Sleep(100 * time.Microsecond)
			guard.Free = nil
			return f.PutGuarded(ctx, row, guard, puts...)
		}}},
	{name: "PutGuarded takes what is gone for what is there",
		noted: []string{"PutGuarded puts if its guard holds"},
		broken: brokenFamily{guarded: func(f driver.Guarder, ctx context.Context, row []byte, guard driver.Guard, puts []driver.Cell) (bool, error) {
			guard.Gone = append(guard.Gone, 0)
			return f.PutGuarded(ctx, row, guard, puts...)
		}}},
	{name: "Commit checks the first expectation only",
		noted: []string{"Commit needs all expectations", "a random history agrees with a model"},
		broken: brokenFamily{commit: func(f driver.Committer, ctx context.Context, row []byte, expect, puts []driver.Cell, deletes [][]byte) (bool, error) {
			return f.Commit(ctx, row, expect[:min(1, len(expect))], puts, deletes)
		}}},
	{name: "Commit forgets its deletes",
		noted: []string{"Commit needs all expectations", "Commit swaps cells at once", "a random history agrees with a model"},
		broken: brokenFamily{commit: func(f driver.Committer, ctx context.Context, row []byte, expect, puts []driver.Cell, deletes [][]byte) (bool, error) {
			return f.Commit(ctx, row, expect, puts, nil)
		}}},
	{name: "Commit deletes in a second step",
		noted: []string{"Commit swaps cells at once"},
		broken: brokenFamily{commit: func(f driver.Committer, ctx context.Context, row []byte, expect, puts []driver.Cell, deletes [][]byte) (bool, error) {
			ok, err := f.Commit(ctx, row, expect, puts, nil)
			if !ok || err != nil || len(deletes) == 0 {
				return ok, err
			}
			time.Sleep(time.Millisecond)
			return f.Commit(ctx, row, nil, nil, deletes)
		}}},
	{name: "the context is ignored",
		noted:  []string{"a context that is done ends every method"},
		broken: brokenFamily{contextOf: func(context.Context) context.Context { return context.Background() }}},
	{name: "a deadline is kept late",
		noted: []string{"a deadline ends a method that is under way"},
		broken: brokenFamily{apply: func(f driver.Committer, ctx context.Context, ms []driver.Mutation) error {
			if _, limited := ctx.Deadline(); limited {
				time.Sleep(5200 * time.Millisecond)
			}
			return f.Apply(ctx, ms...)
		}}},
	{name: "limits are a byte too low",
		noted: []string{"the limits are accepted and what exceeds them refused"},
		broken: brokenFamily{apply: func(f driver.Committer, ctx context.Context, ms []driver.Mutation) error {
			for _, m := range ms {
				for _, c := range m.Puts {
					if len(c.Value) >= driver.MaxValue {
						return fmt.Errorf("%w", driver.ErrTooLarge)
					}
				}
			}
			return f.Apply(ctx, ms...)
		}}},
	{name: "an error contains the value",
		noted: []string{"the limits are accepted and what exceeds them refused"},
		broken: brokenFamily{apply: func(f driver.Committer, ctx context.Context, ms []driver.Mutation) error {
			err := f.Apply(ctx, ms...)
			if err != nil && len(ms) > 1 {
				return fmt.Errorf("%w: %v", err, ms[1].Puts)
			}
			return err
		}}},
	{name: "what is returned is kept",
		noted: []string{"what is returned belongs to the caller"},
		family: func(f driver.Committer) driver.Committer {
			kept := make(map[string][]driver.Cell)
			var mu sync.Mutex
			return &brokenFamily{Committer: f, get: func(f driver.Committer, ctx context.Context, row []byte, s driver.Slice) ([]driver.Cell, error) {
				mu.Lock()
				defer mu.Unlock()
				if cells, ok := kept[string(row)]; ok {
					return cells, nil
				}
				cells, err := f.Get(ctx, row, s)
				kept[string(row)] = cells
				return cells, err
			}}
		}},
	{name: "what is returned has room",
		noted: []string{"what is returned belongs to the caller"},
		broken: brokenFamily{cellsOf: func(cells []driver.Cell) []driver.Cell {
			var arena []byte
			for _, c := range cells {
				arena = append(append(arena, c.Qualifier...), c.Value...)
			}
			at := 0
			for i, c := range cells {
				n := len(c.Qualifier)
				cells[i].Qualifier, cells[i].Value = arena[at:at+n], arena[at+n:at+n+len(c.Value)]
				at += n + len(c.Value)
			}
			return cells
		}}},
	{name: "what is passed in is changed",
		noted: []string{"what is passed in is neither kept nor changed"},
		broken: brokenFamily{sliceOf: func(s driver.Slice) driver.Slice {
			slices.SortFunc(s.Only, bytes.Compare)
			return s
		}}},
	{name: "something is written beyond what is passed in",
		noted: []string{"what is passed in is neither kept nor changed"},
		broken: brokenFamily{apply: func(f driver.Committer, ctx context.Context, ms []driver.Mutation) error {
			for _, m := range ms {
				_ = append(m.Row, 1)
			}
			return f.Apply(ctx, ms...)
		}}},
	{name: "a mutation without cells makes a row",
		noted: []string{"a row exists while it has a cell"},
		broken: brokenFamily{mutationOf: func(m driver.Mutation) driver.Mutation {
			if !m.DeleteRow && len(m.Puts)+len(m.Deletes) == 0 {
				m.Puts = []driver.Cell{{Qualifier: []byte("marker")}}
			}
			return m
		}}},
	{name: "any range is served",
		noted: []string{"scans in order keep within a prefix", "rows of a wide family are scanned in any order", "an invalid range is refused"},
		broken: brokenFamily{rangeOf: func(r driver.Range) driver.Range {
			return driver.Range{Start: r.Start, End: r.End, Limit: max(r.Limit, 0), AnyOrder: true,
				Cells: driver.Slice{Only: r.Cells.Only, Start: r.Cells.Start, End: r.Cells.End}}
		}}},

	{name: "the row that a scan goes on after comes again",
		noted: []string{"scans in any order go on after a row"},
		broken: brokenFamily{rangeOf: func(r driver.Range) driver.Range {
			if r.After != nil && r.AnyOrder && r.Parts < 2 && bytes.Compare(r.After, r.Start) > 0 {
				r.Start, r.After = r.After, nil
			}
			return r
		}}},

	{name: "invalid slices are served",
		noted: []string{"an invalid slice is refused"},
		broken: brokenFamily{sliceOf: func(s driver.Slice) driver.Slice {
			if !valid(s) {
				return driver.Slice{}
			}
			return s
		}}},
	{name: "an absent row is an error",
		noted: []string{"Get of an absent row has no cells"},
		broken: brokenFamily{get: func(f driver.Committer, ctx context.Context, row []byte, s driver.Slice) ([]driver.Cell, error) {
			cells, err := f.Get(ctx, row, s)
			if err == nil && len(cells) == 0 {
				err = fmt.Errorf("not found")
			}
			return cells, err
		}}},
	{name: "what is gone cannot be deleted",
		noted: []string{"applying again is harmless"},
		family: func(f driver.Committer) driver.Committer {
			deleted := make(map[string]bool)
			return &brokenFamily{Committer: f, apply: func(f driver.Committer, ctx context.Context, ms []driver.Mutation) error {
				for _, m := range ms {
					if m.DeleteRow && deleted[string(m.Row)] {
						return fmt.Errorf("not found")
					}
					deleted[string(m.Row)] = m.DeleteRow
				}
				return f.Apply(ctx, ms...)
			}}
		}},
	{name: "concurrent writers lose",
		noted: []string{"concurrent mutations leave the value of one"},
		family: func(f driver.Committer) driver.Committer {
			var busy sync.Mutex
			return &brokenFamily{Committer: f, apply: func(f driver.Committer, ctx context.Context, ms []driver.Mutation) error {
				if !busy.TryLock() {
					return nil
				}
				defer busy.Unlock()
				time.Sleep(100 * time.Microsecond)
				return f.Apply(ctx, ms...)
			}}
		}},
	{name: "an empty value can be expected",
		noted: []string{"CheckAndPut refuses what not every database can"},
		broken: brokenFamily{checkAndPut: func(f driver.Committer, ctx context.Context, row []byte, expect driver.Cell, puts []driver.Cell) (bool, error) {
			if len(expect.Value) == 0 {
				expect.Value = nil
			}
			return f.CheckAndPut(ctx, row, expect, puts...)
		}}},
	{name: "pages are counted, not continued from a key",
		noted: []string{"scans see every row that stays", "a scan of several ranges sees every row that stays"},
		broken: brokenFamily{scan: func(f driver.Committer, ctx context.Context, r driver.Range) iter.Seq2[driver.Row, error] {
			return func(yield func(driver.Row, error) bool) {
				const page = 100
				for from := 0; ; from += page {
					r.Limit = from + page
					n := 0
					for row, err := range f.Scan(ctx, r) {
						if n++; n <= from && err == nil {
							continue
						}
						if !yield(row, err) || err != nil {
							return
						}
					}
					if n < r.Limit {
						return
					}
					time.Sleep(100 * time.Microsecond)
				}
			}
		}}},
	{name: "several ranges have one limit",
		noted: []string{"a scan of several ranges yields what a scan of each does", "very many ranges are scanned at once", "ranges with many rows are scanned at once"},
		broken: brokenFamily{scan: func(f driver.Committer, ctx context.Context, r driver.Range) iter.Seq2[driver.Row, error] {
			return func(yield func(driver.Row, error) bool) {
				n := 0
				for row, err := range f.Scan(ctx, r) {
					if n++; !yield(row, err) || err != nil || n == r.Limit {
						return
					}
				}
			}
		}}},
	{name: "several ranges are taken for one",
		noted: []string{"a scan of several ranges yields what a scan of each does", "very many ranges are scanned at once", "ranges with many rows are scanned at once"},
		broken: brokenFamily{rangeOf: func(r driver.Range) driver.Range {
			if len(r.Each) > 1 && bytes.Equal(r.Each[0].Start[:1], r.Each[len(r.Each)-1].Start[:1]) {
				r.Each = []driver.Bounds{{Start: r.Each[0].Start, End: r.Each[len(r.Each)-1].End}}
			}
			return r
		}}},
	{name: "several ranges are scanned upwards only",
		noted: []string{"a scan of several ranges yields what a scan of each does", "very many ranges are scanned at once", "a scan of several ranges sees every row that stays"},
		broken: brokenFamily{rangeOf: func(r driver.Range) driver.Range {
			r.Reverse = r.Reverse && r.Each == nil
			return r
		}}},
	{name: "only so many ranges are scanned at once",
		noted: []string{"very many ranges are scanned at once"},
		broken: brokenFamily{rangeOf: func(r driver.Range) driver.Range {
			r.Each = r.Each[:min(len(r.Each), driver.MaxBatch-1)]
			return r
		}}},
	{name: "any ranges will do",
		noted: []string{"invalid ranges of one scan are refused"},
		broken: brokenFamily{scan: func(f driver.Committer, ctx context.Context, r driver.Range) iter.Seq2[driver.Row, error] {
			return r.InTurn(func(r driver.Range) iter.Seq2[driver.Row, error] { return f.Scan(ctx, r) })
		}}},
	{name: "partitions are visited in the wrong order",
		noted: []string{"spread bits keep the order"},
		broken: brokenFamily{rowsOf: func(rows []driver.Row) {
			slices.SortStableFunc(rows, func(x, y driver.Row) int { return int(x.Key[0]&1) - int(y.Key[0]&1) })
		}}},
	{name: "a late write of a withdrawn call",
		noted: []string{"a context that is done ends every method"},
		broken: brokenFamily{apply: func(f driver.Committer, ctx context.Context, ms []driver.Mutation) error {
			if ctx.Err() != nil {
				_ = f.Apply(context.Background(), ms...)
			}
			return f.Apply(ctx, ms...)
		}}},

	{name: "any specification will do",
		noted: []string{"an invalid specification is refused"},
		db: func(db driver.DB) driver.DB {
			return &brokenDB{DB: db, spec: func(s driver.FamilySpec) driver.FamilySpec {
				if s.Check() != nil {
					return driver.FamilySpec{Name: "valid", Layout: driver.LayoutWide}
				}
				return s
			}}
		}},
	{name: "a family that is to exist is created",
		noted: []string{"a family that is to exist is not created"},
		db: func(db driver.DB) driver.DB {
			return &brokenDB{DB: db, spec: func(s driver.FamilySpec) driver.FamilySpec { s.Existing = false; return s }}
		}},
	{name: "the layout is not recorded",
		noted: []string{"another layout is refused"},
		db: func(db driver.DB) driver.DB {
			specs := make(map[string]driver.FamilySpec)
			return &brokenDB{DB: db, spec: func(s driver.FamilySpec) driver.FamilySpec {
				if first, ok := specs[s.Name]; ok && s.Check() == nil {
					return first
				}
				specs[s.Name] = s
				return s
			}}
		}},
	{name: "families share their rows",
		noted: []string{"a family is created once and found again", "another layout is refused"},
		db: func(db driver.DB) driver.DB {
			return &brokenDB{DB: db, spec: func(s driver.FamilySpec) driver.FamilySpec {
				if s.Check() != nil {
					return s
				}
				return driver.FamilySpec{Name: "all", Layout: driver.LayoutOrdered}
			}}
		}},
	{name: "Families are in no order",
		noted: []string{"Families are in ascending order"},
		db: func(db driver.DB) driver.DB {
			return &brokenDB{DB: db, names: func(names []string) []string { slices.Reverse(names); return names }}
		}},
	{name: "Drop keeps the rows",
		noted: []string{"Drop removes a family with all that it holds"},
		db:    func(db driver.DB) driver.DB { return &brokenDB{DB: db, keep: true} }},
	{name: "errors hide those of the client",
		noted: []string{"Drop removes a family with all that it holds"},
		own:   func(error) bool { return false }},
	{name: "a snapshot moves on",
		noted: []string{"a snapshot is of one instant"},
		db:    func(db driver.DB) driver.DB { return &movingDB{db} }},
}

// TestSuiteNotices proves of every check that it can fail, and that it fails where it should.
func TestSuiteNotices(t *testing.T) {
	byName := make(map[string]check)
	for _, c := range checks {
		byName[c.name] = c
	}
	noticed := make(map[string]bool)
	t.Run("broken", func(t *testing.T) {
		for _, br := range breakages {
			require.NotEmpty(t, br.noted, br.name)
			for _, name := range br.noted {
				c, ok := byName[name]
				require.True(t, ok, "no check %q", name)
				noticed[name] = true
				t.Run(br.name+"/"+name, func(t *testing.T) {
					t.Parallel()
					// A random history need not come upon what is broken; several do.
					for range 20 {
						db := NewMemory()
						if br.db != nil {
							db = br.db(db)
						}
						family := br.family
						if family == nil {
							family = func(f driver.Committer) driver.Committer {
								broken := br.broken
								broken.Committer = f
								return &broken
							}
						}
						if br.db == nil || br.family != nil {
							db = &brokenDB{DB: db, family: family}
						}
						if verdict(t, c, db, br.own) != "" {
							return
						}
					}
					t.Fatal("the check did not notice")
				})
			}
		}
	})
	// The same harness lets the sound driver pass.
	t.Run("sound", func(t *testing.T) {
		for _, c := range checks {
			require.True(t, noticed[c.name], "no broken driver shows that %q can fail", c.name)
			if c.name == "cells end after their time to live" {
				continue // it waits for seconds, and TestMemory has it
			}
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) { // which has the time for cells to end
					require.Empty(t, verdict(t, c, NewMemory(), func(err error) bool { return errors.Is(err, driver.ErrNoFamily) }))
				})
			})
		}
	})
}

// verdict runs one check and returns why it failed, or "".
func verdict(t *testing.T, c check, db driver.DB, own func(error) bool) string {
	w := &witness{TB: t}
	s := newSuite(db, Options{Own: own})
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if r := recover(); r != nil {
				w.Errorf("panic: %v", r)
			}
		}()
		c.test(w, s)
	}()
	<-done
	for _, f := range slices.Backward(w.cleanups) {
		func() {
			defer func() { _ = recover() }()
			f()
		}()
	}
	time.Sleep(2 * time.Millisecond) // writers of broken drivers end
	_ = db.Close()
	return w.failure
}

// A witness keeps failures to itself.
type witness struct {
	testing.TB
	mu       sync.Mutex
	failure  string
	cleanups []func()
}

func (w *witness) Errorf(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failure += fmt.Sprintf(format, args...)
}
func (w *witness) FailNow()            { runtime.Goexit() }
func (w *witness) Helper()             {}
func (w *witness) Logf(string, ...any) {}
func (w *witness) Skip(args ...any)    { w.Errorf("skipped: %v", args); runtime.Goexit() }
func (w *witness) Cleanup(f func())    { w.cleanups = append(w.cleanups, func() { f() }) }

// brokenDB and brokenFamily pass everything through but what is set.

type brokenDB struct {
	driver.DB
	family func(driver.Committer) driver.Committer
	spec   func(driver.FamilySpec) driver.FamilySpec
	names  func([]string) []string
	keep   bool
}

func (d *brokenDB) Family(ctx context.Context, spec driver.FamilySpec) (driver.Family, error) {
	if d.spec != nil {
		spec = d.spec(spec)
	}
	f, err := d.DB.Family(ctx, spec)
	if err != nil || d.family == nil {
		return f, err
	}
	return d.family(f.(driver.Committer)), nil
}

func (d *brokenDB) Families(ctx context.Context) ([]string, error) {
	names, err := d.DB.Families(ctx)
	if d.names != nil {
		names = d.names(names)
	}
	return names, err
}

func (d *brokenDB) Drop(ctx context.Context, name string) error {
	if d.keep {
		return nil
	}
	return d.DB.Drop(ctx, name)
}

// movingDB has snapshots that show the present.
type movingDB struct{ driver.DB }

func (d *movingDB) Snapshot() (driver.Snapshot, error) { return movingSnapshot{d.DB}, nil }

type movingSnapshot struct{ driver.DB }

func (movingSnapshot) Close() error { return nil }

type brokenFamily struct {
	driver.Committer
	rangeOf     func(driver.Range) driver.Range
	rowsOf      func([]driver.Row)
	rowsAfter   func([]driver.Row) []driver.Row
	sliceOf     func(driver.Slice) driver.Slice
	cellsOf     func([]driver.Cell) []driver.Cell
	mutationOf  func(driver.Mutation) driver.Mutation
	contextOf   func(context.Context) context.Context
	get         func(driver.Committer, context.Context, []byte, driver.Slice) ([]driver.Cell, error)
	getBatch    func(driver.Committer, context.Context, [][]byte, driver.Slice) ([][]driver.Cell, error)
	apply       func(driver.Committer, context.Context, []driver.Mutation) error
	checkAndPut func(driver.Committer, context.Context, []byte, driver.Cell, []driver.Cell) (bool, error)
	replace     func(driver.Committer, context.Context, []driver.Replacement) ([]int, error)
	commit      func(driver.Committer, context.Context, []byte, []driver.Cell, []driver.Cell, [][]byte) (bool, error)
	guarded     func(driver.Guarder, context.Context, []byte, driver.Guard, []driver.Cell) (bool, error)

	scan func(driver.Committer, context.Context, driver.Range) iter.Seq2[driver.Row, error]

	deaf, reuse, emptyRows, blind, lenient bool
}

func (f *brokenFamily) context(ctx context.Context) context.Context {
	if f.contextOf != nil {
		return f.contextOf(ctx)
	}
	return ctx
}

func (f *brokenFamily) Get(ctx context.Context, row []byte, s driver.Slice) ([]driver.Cell, error) {
	ctx = f.context(ctx)
	if f.get != nil {
		return f.get(f.Committer, ctx, row, s)
	}
	if f.sliceOf != nil {
		s = f.sliceOf(s)
	}
	cells, err := f.Committer.Get(ctx, row, s)
	if f.cellsOf != nil && err == nil {
		cells = f.cellsOf(cells)
	}
	return cells, err
}

func (f *brokenFamily) GetBatch(ctx context.Context, rows [][]byte, s driver.Slice) ([][]driver.Cell, error) {
	if f.getBatch != nil {
		return f.getBatch(f.Committer, ctx, rows, s)
	}
	return f.Committer.GetBatch(f.context(ctx), rows, s)
}

func (f *brokenFamily) Scan(ctx context.Context, r driver.Range) iter.Seq2[driver.Row, error] {
	ctx = f.context(ctx)
	if f.scan != nil {
		return f.scan(f.Committer, ctx, r)
	}
	if f.rangeOf != nil {
		r = f.rangeOf(r)
	}
	if f.sliceOf != nil {
		r.Cells = f.sliceOf(r.Cells)
	}
	return func(yield func(driver.Row, error) bool) {
		slice := r.Cells
		if f.emptyRows {
			r.Cells = driver.Slice{}
		}
		var rows []driver.Row
		for row, err := range f.Committer.Scan(ctx, r) {
			if err != nil {
				yield(driver.Row{}, err)
				return
			}
			if f.emptyRows {
				row.Cells = slices.DeleteFunc(row.Cells, func(c driver.Cell) bool { return !slice.Contains(c.Qualifier) })
			}
			if f.cellsOf != nil {
				row.Cells = f.cellsOf(row.Cells)
			}
			rows = append(rows, row)
		}
		if f.rowsOf != nil {
			f.rowsOf(rows)
		}
		if f.rowsAfter != nil {
			rows = f.rowsAfter(rows)
		}
		var key []byte
		for _, row := range rows {
			if f.reuse {
				key = append(key[:0], row.Key...)
				row.Key = key
			}
			if !yield(row, nil) && !f.deaf {
				return
			}
		}
	}
}

func (f *brokenFamily) Apply(ctx context.Context, ms ...driver.Mutation) error {
	ctx = f.context(ctx)
	if f.mutationOf != nil {
		ms = slices.Clone(ms)
		for i := range ms {
			ms[i] = f.mutationOf(ms[i])
		}
	}
	if f.apply != nil {
		return f.apply(f.Committer, ctx, ms)
	}
	if f.lenient || f.blind {
		for _, m := range ms {
			puts, deletes := m.Puts, m.Deletes
			if f.blind {
				puts, deletes = disjoint(puts, deletes)
				if m.DeleteRow {
					puts, deletes = nil, nil
				}
			}
			if err := f.Committer.Apply(ctx, driver.Mutation{Row: m.Row, Puts: puts, Deletes: deletes, DeleteRow: m.DeleteRow}); err != nil {
				return err
			}
		}
		return nil
	}
	return f.Committer.Apply(ctx, ms...)
}

func (f *brokenFamily) Replace(ctx context.Context, rs ...driver.Replacement) ([]int, error) {
	ctx = f.context(ctx)
	if f.replace != nil {
		return f.replace(f.Committer, ctx, rs)
	}
	return f.Committer.Replace(ctx, rs...)
}

// disjoint lets the last put of a cell win, and puts win over deletes.
func disjoint(puts []driver.Cell, deletes [][]byte) ([]driver.Cell, [][]byte) {
	seen := make(map[string]bool)
	var p []driver.Cell
	for _, c := range slices.Backward(puts) {
		if !seen[string(c.Qualifier)] {
			seen[string(c.Qualifier)] = true
			p = append(p, c)
		}
	}
	var d [][]byte
	for _, q := range deletes {
		if !seen[string(q)] {
			seen[string(q)] = true
			d = append(d, q)
		}
	}
	return p, d
}

func (f *brokenFamily) CheckAndPut(ctx context.Context, row []byte, expect driver.Cell, puts ...driver.Cell) (bool, error) {
	ctx = f.context(ctx)
	if f.checkAndPut != nil {
		return f.checkAndPut(f.Committer, ctx, row, expect, puts)
	}
	if f.mutationOf != nil {
		puts = f.mutationOf(driver.Mutation{Row: row, Puts: puts}).Puts
	}
	return f.Committer.CheckAndPut(ctx, row, expect, puts...)
}

func (f *brokenFamily) PutGuarded(ctx context.Context, row []byte, guard driver.Guard, puts ...driver.Cell) (bool, error) {
	g := f.Committer.(driver.Guarder)
	if f.guarded != nil {
		return f.guarded(g, ctx, row, guard, puts)
	}
	return g.PutGuarded(f.context(ctx), row, guard, puts...)
}

func (f *brokenFamily) Commit(ctx context.Context, row []byte, expect, puts []driver.Cell, deletes [][]byte) (bool, error) {
	ctx = f.context(ctx)
	if f.commit != nil {
		return f.commit(f.Committer, ctx, row, expect, puts, deletes)
	}
	if f.blind {
		puts, deletes = disjoint(puts, deletes)
	}
	if f.mutationOf != nil {
		puts = f.mutationOf(driver.Mutation{Row: row, Puts: puts}).Puts
	}
	return f.Committer.Commit(ctx, row, expect, puts, deletes)
}

func TestSeedIsTaken(t *testing.T) {
	t.Setenv("DRIVERTEST_SEED", "42")
	require.Equal(t, random(t).Uint64(), random(t).Uint64())
	t.Setenv("DRIVERTEST_SEED", "")
	require.NotEqual(t, random(t).Uint64(), random(t).Uint64())
	require.True(t, strings.HasPrefix(newSuite(nil, Options{}).name, "dt"))
}
