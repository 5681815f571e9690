package e2e

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"hash/maphash"
	"maps"
	"math"
	"os"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/rangecrypt/rangecrypt/store/driver"
)

// A call is one use of a row of a table or of a unit of an index, by one client. It is told when it
// begins, before anything is sent, and once more when it has ended.
//
// Clients are on one machine, so that all take the time from one clock.
type call struct {
	Client int
	ID     int64 // among the calls of the client
	Kind   kind
	Begin  int64 // nanoseconds since 1970
	End    int64 // 0 until the call has returned; for ever so where its outcome is unknown

	// Of rows. A row's whole content follows from its note, which no two writes have in common; a
	// note of zero is no row.
	ID64   int64     `json:",omitempty"` // of the row that is put or got
	Note   int64     `json:",omitempty"` // what was put, or what get has found
	Column string    `json:",omitempty"` // of a query from Lo to Hi
	Lo, Hi int64     `json:",omitempty"`
	Found  []rowNote `json:",omitempty"`

	// Of units.
	Unit    string        `json:",omitempty"` // family and row
	Slice   *driver.Slice `json:",omitempty"`
	Cells   []cell        `json:",omitempty"` // what read has found
	Expect  []cell        `json:",omitempty"` // with an empty sum: absent
	Guard   *driver.Guard `json:",omitempty"` // in place of Expect; what it refuses says nothing
	Puts    []cell        `json:",omitempty"`
	Deletes []string      `json:",omitempty"`
	Applied bool          `json:",omitempty"`
}

type kind string

const (
	putRow     kind = "put"
	getRow     kind = "get"
	queryRows  kind = "query"
	missRow    kind = "miss" // a query that has not found the row, as the journal makes it of queries
	readUnit   kind = "read"
	commitUnit kind = "commit"
	notMade    kind = "not made" // by the error, which is not one of unknown outcome
)

type rowNote struct{ ID, Note int64 }

// A cell is one of a unit, with a sum of its value, and all of that if it has no qualifier. Qualifiers are in hexadecimal,
// in whose order they stay.
type cell struct {
	Q, Sum string
	Head   string `json:",omitempty"`
}

// A journal is what clients have told of their calls.
type journal struct {
	mu    sync.Mutex
	calls map[[2]int64]call
}

func newJournal() *journal { return &journal{calls: make(map[[2]int64]call)} }

func (j *journal) tell(c call) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.calls[[2]int64{int64(c.Client), c.ID}] = c
}

// count returns how many calls of the kind began at or after a moment and returned.
func (j *journal) count(k kind, since time.Time) (n int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, c := range j.calls {
		if c.Kind == k && c.End != 0 && c.Begin >= since.UnixNano() {
			n++
		}
	}
	return n
}

// rows returns the ids of all rows that somebody has put.
func (j *journal) rows() []int64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	ids := make(map[int64]bool)
	for _, c := range j.calls {
		if c.Kind == putRow {
			ids[c.ID64] = true
		}
	}
	return slices.Sorted(maps.Keys(ids))
}

// A verdict is what the calls prove.
type verdict struct {
	wrong         []string
	rows, units   int // histories
	ofRows        int // calls in histories of rows
	ofUnits       int
	pending, seen int // writes of unknown outcome, and those of them that somebody has seen
}

func (v verdict) String() string {
	return fmt.Sprintf("%d calls of %d rows, %d calls of %d units; %d writes of unknown outcome, of which %d were seen",
		v.ofRows, v.rows, v.ofUnits, v.units, v.pending, v.seen)
}

// judge looks for an order of the calls on each row, and on each unit. In that order every call must
// return what a single client would see. No call may stand before another that had returned when
// it began. A write of unknown outcome may stand anywhere after its beginning, or nowhere.
func (j *journal) judge() (v verdict) {
	j.mu.Lock()
	calls := slices.Collect(maps.Values(j.calls))
	j.mu.Unlock()
	slices.SortFunc(calls, func(a, b call) int {
		return cmp.Or(cmp.Compare(a.Begin, b.Begin), cmp.Compare(a.Client, b.Client), cmp.Compare(a.ID, b.ID))
	})
	rows, units := make(map[int64][]call), make(map[string][]call)
	for _, c := range calls {
		switch {
		case c.Kind == putRow || c.Kind == getRow && c.End != 0:
			rows[c.ID64] = append(rows[c.ID64], c)
		case c.Kind == commitUnit || c.Kind == readUnit && c.End != 0:
			units[c.Unit] = append(units[c.Unit], c)
		}
	}
	for _, c := range calls {
		if c.Kind != queryRows || c.End == 0 {
			continue
		}
		found := make(map[int64]int64, len(c.Found))
		for _, r := range c.Found {
			if _, put := rows[r.ID]; !put {
				v.wrong = append(v.wrong, fmt.Sprintf("client %d has found row %d, which nobody put", c.Client, r.ID))
			}
			found[r.ID] = r.Note
		}
		for id := range rows {
			one := c
			one.ID64, one.Note, one.Kind, one.Found = id, found[id], getRow, nil
			if one.Note == 0 {
				one.Kind = missRow
			}
			rows[id] = append(rows[id], one)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(rows)) {
		v.rows++
		v.decide(fmt.Sprintf("row %d", id), rows[id], rowModel, sawNote)
	}
	for _, name := range slices.Sorted(maps.Keys(units)) {
		v.units++
		v.decide("unit "+name, units[name], unitModel, sawCells(units[name]))
	}
	return v
}

// An evidence is what a read says about whether a write was applied.
type evidence int

const (
	nothing  evidence = iota
	possible          // it was, or another one that did the same
	proof
)

// decide judges the calls on one object.
func (v *verdict) decide(what string, calls []call, object porcupine.Model, saw func(read, write call) evidence) {
	var ops, doubtful, unseen []porcupine.Operation
	for _, c := range calls {
		if !c.writes() {
			continue
		}
		op := operation(c)
		if c.End != 0 {
			ops = append(ops, op)
			continue
		}
		v.pending++
		// The first who has seen it proves that it was applied by then.
		op.Return = math.MaxInt64
		most := nothing
		for _, r := range calls {
			if r.End == 0 || r.End < c.Begin {
				continue
			}
			e := saw(r, c)
			most = max(most, e)
			if e == proof {
				op.Return = min(op.Return, r.End)
			}
		}
		switch most {
		case proof:
			v.seen++
			ops = append(ops, op)
		case possible:
			doubtful = append(doubtful, op)
		default:
			unseen = append(unseen, op)
		}
	}
	if calls[0].Unit == "" {
		v.ofRows += len(calls)
	} else {
		v.ofUnits += len(calls)
	}
	// Most writes of unknown outcome that nobody has seen were not applied, and if everything else
	// makes sense without them all is well. That is quick to see; all places where they may stand are
	// many.
	result := porcupine.CheckOperationsTimeout(object, searched(ops, calls), judgement)
	for _, more := range [][]porcupine.Operation{doubtful, unseen} {
		if ops = append(ops, more...); result != porcupine.Ok && len(more) > 0 {
			result = porcupine.CheckOperationsTimeout(object, searched(ops, calls), judgement)
		}
	}
	if result != porcupine.Ok {
		v.wrong = append(v.wrong, fmt.Sprintf("%s: its %d calls are %s; all of them: %s\n%s", what, len(calls), result, keep(calls), shown(calls, stuck(object, ops, calls))))
	}
}

// stuck returns the position of the first call that begins after one for which the longest order that is found has no place.
func stuck(object porcupine.Model, ops []porcupine.Operation, calls []call) int {
	history := searched(ops, calls)
	_, info := porcupine.CheckOperationsVerbose(object, history, judgement)
	var longest []int
	for _, order := range info.PartialLinearizations()[0] {
		if len(order) > len(longest) {
			longest = order
		}
	}
	placed := make([]bool, len(history))
	for _, i := range longest {
		placed[i] = true
	}
	var at int64 = math.MaxInt64
	for i, op := range history {
		if !placed[i] {
			at = min(at, op.Return)
		}
	}
	after := slices.IndexFunc(calls, func(c call) bool { return c.Begin > at })
	if after < 0 {
		return len(calls)
	}
	return after
}

// judgement is how long the search for one order may take. It takes a second or two on a busy machine.
const judgement = time.Minute

// searched returns what is searched for an order of: writes; and for each read two moments, its
// beginning and its end, between which it must have been right. The order of reads among each other
// does not matter, and that of dozens of them at the same time would take for ever to search.
//
// A query that has not found a row counts as a read of it, unless the row may have been written
// while the query ran: then the query may miss it.
func searched(ops []porcupine.Operation, calls []call) (out []porcupine.Operation) {
	var writes []porcupine.Operation
	for _, op := range ops {
		if op.Input.(call).writes() {
			writes = append(writes, op)
		}
	}
	out = slices.Clone(writes)
	var last int64
	for i := range calls {
		c := &calls[i]
		last = max(last, c.Begin, c.End)
		if c.writes() || c.End == 0 || c.Kind == missRow && meets(operation(*c), writes) {
			continue
		}
		out = append(out,
			porcupine.Operation{ClientId: c.Client, Input: moment{c, true}, Call: c.Begin, Return: c.Begin},
			porcupine.Operation{ClientId: c.Client, Input: moment{c, false}, Call: c.End, Return: c.End})
	}
	return append(out, porcupine.Operation{Input: over{}, Call: last + 1, Return: last + 1})
}

// A moment is the beginning or the end of a read.
type moment struct {
	read  *call
	begin bool
}

// A searchState is the state of an object, and the reads that are under way. It is not changed once
// it is made.
type searchState struct {
	object any
	open   []openRead
	over   bool
}

// An over is when all calls have ended. A write of unknown outcome stands before it only where it changes something: where it changes
// nothing, it may as well be one that was never applied. All of these stand after it, so that there is one place for them in place of many.
type over struct{}

type openRead struct {
	read  *call
	right bool // at some moment since it began
}

// model makes a model of an object's writes, and of what reads see of a state.
func model(init any, write func(state any, c call, known bool) (bool, any), right func(state any, c *call) bool, equal func(a, b any) bool, hash func(any) uint64) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return searchState{object: init} },
		Step: func(state, input, known any) (bool, any) {
			s := state.(searchState)
			switch m := input.(type) {
			case over:
				s.over = true
				return true, s
			case call:
				if s.over {
					return true, s
				}
				ok, object := write(s.object, m, known.(bool))
				if !ok || object == s.object { // what reads see is as before
					return ok && known.(bool), s
				}
				s.object, s.open = object, slices.Clone(s.open)
				for i, o := range s.open {
					s.open[i].right = o.right || right(object, o.read)
				}
				return true, s
			}
			m := input.(moment)
			if m.begin {
				s.open = append(slices.Clip(s.open), openRead{m.read, right(s.object, m.read)})
				return true, s
			}
			at := slices.Index(s.open, openRead{m.read, true})
			if at < 0 {
				return false, s
			}
			s.open = slices.Delete(slices.Clone(s.open), at, at+1)
			return true, s
		},
		Equal: func(a, b any) bool {
			x, y := a.(searchState), b.(searchState)
			return x.over == y.over && slices.Equal(x.open, y.open) && equal(x.object, y.object)
		},
		// Without it, all states after the same calls are compared with each other.
		Hash: func(state any) uint64 {
			s := state.(searchState)
			h := hash(s.object)
			for i, o := range s.open {
				if o.right {
					h = (h ^ uint64(i+1)) * 0x9e3779b97f4a7c15
				}
			}
			return h
		},
	}
}

func operation(c call) porcupine.Operation {
	return porcupine.Operation{ClientId: c.Client, Input: c, Call: c.Begin, Output: c.End != 0, Return: c.End}
}

// meets reports whether a call was under way at the same time as one of some others.
func meets(op porcupine.Operation, others []porcupine.Operation) bool {
	return slices.ContainsFunc(others, func(o porcupine.Operation) bool { return o.Call <= op.Return && op.Call <= o.Return })
}

func (c call) writes() bool { return c.Kind == putRow || c.Kind == commitUnit }

func sawNote(read, write call) evidence {
	switch {
	case read.Kind == putRow || read.Note != write.Note:
		return nothing
	case write.Note == 0:
		return possible
	}
	return proof
}

// sawCells returns a function that knows a commit by what it has put.
func sawCells(calls []call) func(read, write call) evidence {
	puts := make(map[cell]int)
	for _, c := range calls {
		if c.End == 0 || c.Applied {
			for _, p := range c.Puts {
				puts[p]++
			}
		}
	}
	return func(read, write call) (e evidence) {
		if read.Kind != readUnit {
			return nothing
		}
		for _, p := range write.Puts {
			if at, found := find(read.Cells, p.Q); !found || read.Cells[at].Sum != p.Sum {
				continue
			}
			e = max(e, possible)
			if puts[p] == 1 {
				return proof
			}
		}
		for _, q := range write.Deletes {
			if _, found := find(read.Cells, q); !found && e == nothing && read.Begin > write.Begin {
				e = possible
			}
		}
		return e
	}
}

// rowModel is a register that holds the note of a row.
var rowModel = model(int64(0),
	func(_ any, c call, _ bool) (bool, any) { return true, c.Note },
	func(state any, c *call) bool {
		note := state.(int64)
		if c.Kind != missRow {
			return note == c.Note
		}
		x := value(c.Column, c.ID64, note)
		return note == 0 || x < c.Lo || x > c.Hi
	},
	func(a, b any) bool { return a == b },
	func(state any) uint64 { return uint64(state.(int64)) * 0x9e3779b97f4a7c15 })

// unitModel is a row of a wide family, as package driver describes it.
var unitModel = model(&unitState{},
	func(state any, c call, known bool) (bool, any) {
		s := state.(*unitState)
		holds := s.holds(c.Expect)
		if c.Guard != nil {
			holds = s.allows(c.Guard) && (!known || c.Applied)
		}
		switch {
		case known && holds != c.Applied:
			return false, s
		case !holds:
			return true, s
		}
		return true, s.change(c.Puts, c.Deletes)
	},
	func(state any, c *call) bool { return slices.Equal(state.(*unitState).slice(c.Slice), c.Cells) },
	func(a, b any) bool {
		x, y := a.(*unitState), b.(*unitState)
		return x == y || x.hash == y.hash && slices.Equal(x.cells, y.cells)
	},
	func(state any) uint64 { return state.(*unitState).hash })

// A unitState is not changed once it is made. Its cells are in the order of their qualifiers.
type unitState struct {
	cells []cell
	hash  uint64 // of all cells, in whatever order they came
}

var hashSeed = maphash.MakeSeed()

func find(cells []cell, q string) (int, bool) {
	return sort.Find(len(cells), func(i int) int { return cmp.Compare(q, cells[i].Q) })
}

func (s *unitState) holds(expect []cell) bool {
	for _, e := range expect {
		at, found := find(s.cells, e.Q)
		if found != (e.Sum != "") || found && s.cells[at].Sum != e.Sum {
			return false
		}
	}
	return true
}

// allows reports whether a guard holds.
func (s *unitState) allows(guard *driver.Guard) bool {
	if len(s.cells) == 0 || s.cells[0].Q != "" || !strings.HasPrefix(s.cells[0].Head, hex.EncodeToString(guard.Prefix)) {
		return false
	}
	for _, q := range guard.Free {
		if at, found := find(s.cells, hex.EncodeToString(q)); found && s.cells[at].Sum != sum(guard.Gone) {
			return false
		}
	}
	return true
}

func (s *unitState) change(puts []cell, deletes []string) *unitState {
	changed := append(slices.Clone(deletes), make([]string, 0, len(puts))...)
	for _, p := range puts {
		changed = append(changed, p.Q)
	}
	slices.Sort(changed)
	next := &unitState{make([]cell, 0, len(s.cells)+len(puts)), s.hash}
	for _, c := range s.cells {
		if _, gone := slices.BinarySearch(changed, c.Q); !gone {
			next.cells = append(next.cells, c)
		} else {
			next.hash ^= maphash.Comparable(hashSeed, c)
		}
	}
	for _, p := range puts {
		next.cells = append(next.cells, p)
		next.hash ^= maphash.Comparable(hashSeed, p)
	}
	slices.SortFunc(next.cells, func(a, b cell) int { return cmp.Compare(a.Q, b.Q) })
	return next
}

func (s *unitState) slice(by *driver.Slice) []cell {
	var out []cell
	var inside []cell
	if len(by.Only) > 0 {
		only := make([]string, len(by.Only))
		for i, q := range by.Only {
			only[i] = hex.EncodeToString(q)
		}
		slices.Sort(only)
		for _, q := range slices.Compact(only) {
			if at, found := find(s.cells, q); found {
				inside = append(inside, s.cells[at])
			}
		}
	} else {
		from, _ := find(s.cells, hex.EncodeToString(by.Start))
		to := len(s.cells)
		if by.End != nil {
			to, _ = find(s.cells, hex.EncodeToString(by.End))
		}
		inside = slices.Clone(s.cells[from:max(from, to)])
	}
	if by.Head {
		isHead := func(c cell) bool { return c.Q == "" || c.Q == "00" }
		inside = slices.DeleteFunc(inside, isHead)
		for _, c := range s.cells[:min(2, len(s.cells))] {
			if isHead(c) {
				out = append(out, c)
			}
		}
	}
	if by.Skip != nil { // a database that has such cells leaves them out
		inside = slices.DeleteFunc(inside, func(c cell) bool { return c.Sum == sum(by.Skip) })
	}
	if by.Limit > 0 {
		inside = inside[:min(by.Limit, len(inside))]
	}
	return append(out, inside...)
}

// keepFlag is where the calls of an object go for which there is no order.
var keepFlag = flag.String("e2e.keep", "", "folder for histories that make no sense")

// keep writes calls to a file, line by line, and returns its name.
func keep(calls []call) string {
	if *keepFlag == "" {
		return "-e2e.keep keeps them"
	}
	f, err := os.CreateTemp(*keepFlag, "history*.jsonl")
	if err != nil {
		return err.Error()
	}
	lines := json.NewEncoder(f)
	for _, c := range calls {
		err = errors.Join(err, lines.Encode(c))
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err.Error()
	}
	return f.Name()
}

// shown has the calls of an object before a position, and some after it.
func shown(calls []call, at int) string {
	var out bytes.Buffer
	for _, c := range calls[max(0, at-40):min(len(calls), at+10)] {
		end := "unknown"
		if c.End != 0 {
			end = fmt.Sprint((c.End - calls[0].Begin) / 1000)
		}
		fmt.Fprintf(&out, "  %d..%s µs, client %d: %s note %d", (c.Begin-calls[0].Begin)/1000, end, c.Client, c.Kind, c.Note)
		switch c.Kind {
		case missRow:
			fmt.Fprintf(&out, " by %s from %d to %d", c.Column, c.Lo, c.Hi)
		case readUnit:
			fmt.Fprintf(&out, " %d cells, slice %q to %q, only %q", len(c.Cells), c.Slice.Start, c.Slice.End, c.Slice.Only)
		case commitUnit:
			fmt.Fprintf(&out, " if %v put %d delete %d: %v", c.Expect[:min(2, len(c.Expect))], len(c.Puts), len(c.Deletes), c.Applied)
		}
		out.WriteByte('\n')
	}
	return out.String()
}
