package wozniak

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"math/bits"
	"slices"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/internal/reads"
	"github.com/rangecrypt/rangecrypt/ope/internal/record"
)

// A gap is where a value is, or would be: the pairs next to it. Both are that of the value itself if it has one.
type gap struct{ low, high pair }

// A page is a read of the records from one ciphertext to another, both included.
type page struct {
	unit     *unit
	from, to u192
	limit    int    // most records
	first    *pair  // the pair that must be the first of it, if known
	x        [2]int // from and to which of the values it is for
	view     ope.View
}

// gaps reads until it knows the gaps of all xs, each as it was at one instant after the call. Where nobody has copied the
// pairs of a part yet, the divided unit has all of them.
func (s *Indexed) gaps(ctx context.Context, xs []uint64) (map[uint64]gap, error) {
	before := make(map[*unit]*unit)
	for {
		found, err := s.search(ctx, xs, func(x uint64) *unit {
			u := s.root.leaf(x)
			return u.unlessOpen(before[u])
		}, nil)
		var e *elsewhere
		if !errors.As(err, &e) {
			return found, err
		}
		if before[e.u], err = s.instead(ctx, e); err != nil {
			return nil, err
		}
	}
}

// search reads until it knows the gaps of all xs in their units. If it follows one, which all are in, the view of that becomes
// that of the last answer, with all that is known of it.
//
// A page from the left neighbour that is known is enough where most pairs are remembered. Otherwise, and when it
// was not, further pages start at places between the neighbours. Half of them are evenly spread, for what is known
// least. Half come ever closer to the neighbours, since the range halves with every draw: it is crowded at some
// places and empty at others.
func (s *Indexed) search(ctx context.Context, xs []uint64, in func(x uint64) *unit, follow *unit) (map[uint64]gap, error) {
	found := make(map[uint64]gap, len(xs))
	xs = slices.Sorted(slices.Values(xs))
	gaps, units := make([]gap, len(xs)), make([]*unit, len(xs))
	// No record of a gap is known to be above these. Values that ascend crowd at the lower end of a gap that is empty else.
	tops := make([]u192, len(xs))
	probing := false
	s.mu.RLock()
	for i, x := range xs {
		low, high := s.known.around(x)
		gaps[i], units[i], tops[i] = gap{*low, *high}, in(x), high.c
		probing = probing || s.sparse(units[i])
		if low.x == x { // another goroutine has found it
			found[x] = gaps[i]
		}
	}
	counted := follow == nil || follow.counted
	s.mu.RUnlock()
	for ; ; probing = true {
		var pages []*page
		groups := 0
		for i := 0; i < len(xs); {
			// Values between the same neighbours are looked for together. One that is known has no others beside it.
			g, from := gaps[i], i
			wanted := false
			for ; i < len(xs) && gaps[i].low.x == g.low.x && gaps[i].high.x == g.high.x; i++ {
				_, ok := found[xs[i]]
				wanted = wanted || !ok
			}
			if wanted {
				groups++
				pages = append(pages, &page{unit: units[from], from: g.low.c, to: g.high.c, limit: s.page, first: &g.low, x: [2]int{from, i}})
			}
		}
		if groups == 0 && counted {
			return found, nil
		}
		if probing {
			for _, pg := range pages[:groups:groups] {
				for _, c := range probes(pg.from, tops[pg.x[0]], max(3, s.parallel/groups-2)) { // one is left for the header
					pages = append(pages, &page{unit: pg.unit, from: c, to: pg.to, limit: s.page, x: pg.x})
				}
			}
		}
		head := follow
		if counted {
			head = nil
		}
		if err := s.read(ctx, pages, head); err != nil {
			return nil, err
		}
		counted = true
		for _, pg := range pages {
			ps, err := s.learn(pg, follow != nil)
			if err != nil {
				return nil, err
			}
			for i := pg.x[0]; i < pg.x[1]; i++ {
				x := xs[i]
				k, hit := slices.BinarySearchFunc(ps, x, func(p pair, x uint64) int { return cmp.Compare(p.x, x) })
				switch {
				case hit:
					found[x] = gap{ps[k], ps[k]}
				case k > 0 && k < len(ps):
					found[x] = gap{ps[k-1], ps[k]}
				case k > 0 && ps[k-1].x > gaps[i].low.x:
					if gaps[i].low = ps[k-1]; !gaps[i].low.c.less(tops[i]) {
						tops[i] = gaps[i].high.c // something has come since that was seen
					}
				case k == 0 && len(ps) > 0 && gaps[i].low.c.less(pg.from) && pg.from.less(tops[i]):
					if tops[i] = pg.from; ps[0].x < gaps[i].high.x {
						gaps[i].high = ps[0]
					}
				}
			}
		}
	}
}

// sparse reports whether so little of a unit is known that the neighbours of a value are not near those that are.
func (s *Indexed) sparse(u *unit) bool {
	return u.count/(s.known.between(u.low.x, u.high.x)+1) >= s.page/2
}

// lookUp is how many pages' worth of reading ahead it takes to find the place of a value where the unit is sparse. With
// 160,000 pairs that was ten reads of a page, each of which took as long as two pages' worth.
const lookUp = 16

// readAhead reads all of the unit that is not known, if there is memory for it, once small reads come to half of that: those
// that were made, and those that n more values would take. It reports whether it has read anything. Who loads values into
// an index that it does not know would else read most of it in small parts, some of them more than once.
func (s *Indexed) readAhead(ctx context.Context, u *unit, n int) (done bool, err error) {
	s.mu.Lock()
	asked := u.asked
	if s.sparse(u) {
		asked += n * lookUp * s.page
	}
	wanted := asked >= u.count/2 && s.count() <= s.cache
	if wanted {
		u.asked = 0
	}
	var head *unit
	if !u.counted {
		head = u
	}
	to := u.high.c
	s.mu.Unlock()
	if !wanted {
		return false, nil
	}
	pages := reads.NewAhead(ctx, func(ctx context.Context, from, _ []byte) (ope.View, error) {
		if len(from) != s.size() {
			return ope.View{}, u.noCiphertext(from)
		}
		pg := &page{unit: u, from: fromBytes(from), to: to, limit: s.ahead, first: &pair{c: fromBytes(from)}}
		err := s.read(ctx, []*page{pg}, head)
		head = nil // the next page is read later
		return pg.view, err
	})
	defer pages.Stop()
	for x := u.low.x; x < u.high.x; {
		s.mu.RLock()
		low, _ := s.known.around(x)
		_, high := s.known.around(x + 1)
		from, next, known := *low, high.x, low.bare == u.view
		s.mu.RUnlock()
		if known {
			x = next
			continue
		}
		view, err := pages.Read(s.bytes(from.c), s.bytes(to))
		if err != nil {
			return false, err
		}
		ps, err := s.learn(&page{unit: u, from: from.c, to: to, first: &from, view: view}, true)
		if err != nil {
			return false, err
		}
		x, done = ps[len(ps)-1].x, true
	}
	return done, nil
}

// count returns how many pairs the index has, as far as is known. It is called with the lock held.
func (s *Indexed) count() (n int) {
	for u := range s.root.leaves {
		n += u.count
	}
	return n
}

// probes returns at most n ciphertexts between two others, ascending and distinct.
func probes(low, high u192, n int) []u192 {
	width := high.sub(low)
	var at []u192
	even := (n + 1) / 2
	for i := 1; i <= even; i++ {
		part, _ := bits.Div64(uint64(i), 0, uint64(even+1)) // of 2^64
		top, rest := width.timesAndAdd(part, u192{})
		at = append(at, u192{top, rest.hi, rest.mid})
	}
	// 1/8, 1/32, 1/128, ... of the width from either side.
	for i, part := 0, uint64(1)<<61; i < n-even; i++ {
		top, rest := width.timesAndAdd(part, u192{})
		d := u192{top, rest.hi, rest.mid}
		if i%2 == 1 {
			d, part = width.sub(d), part>>2
		}
		at = append(at, d)
	}
	slices.SortFunc(at, u192.compare)
	at = slices.Compact(at)
	at = slices.DeleteFunc(at, func(d u192) bool { return d.isZero() || d == width })
	for i, d := range at {
		at[i] = low.add(d)
	}
	return at
}

// read reads all pages, and the header of a unit if one is given, together.
func (s *Indexed) read(ctx context.Context, pages []*page, head *unit) error {
	jobs := make([]func(context.Context) error, 0, len(pages)+1)
	for _, pg := range pages {
		jobs = append(jobs, func(ctx context.Context) error {
			err := s.readPage(ctx, pg)
			if err == nil && s.contradicts(pg) && pg.unit.decides(ctx, &err) {
				err = s.readPage(ctx, pg)
			}
			return err
		})
	}
	if head != nil {
		jobs = append(jobs, func(ctx context.Context) error {
			h, err := head.present(ctx)
			if err != nil {
				return err
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			head.adopt(h.meta.Nonce)
			head.open, head.counted, head.count = true, true, h.count
			return nil
		})
	}
	s.mu.Lock()
	s.stats.Trips += (len(jobs) + s.parallel - 1) / s.parallel
	s.stats.Reads += len(jobs)
	s.mu.Unlock()
	return reads.All(ctx, s.parallel, jobs)
}

func (s *Indexed) readPage(ctx context.Context, pg *page) (err error) {
	limit := pg.limit
	if pg.from.isZero() {
		limit += 8 * mostListings // they come with the lowest ciphertext of all
	}
	if pg.view, err = s.index.Read(ctx, pg.unit.name, s.bytes(pg.from), append(s.bytes(pg.to), 0), limit); err != nil {
		err = pg.unit.fail("read", err)
	}
	return err
}

// contradicts reports whether a page lacks an end that is known, or its unit is not what it was.
func (s *Indexed) contradicts(pg *page) bool {
	v, e := pg.view, (*elsewhere)(nil)
	if err := pg.unit.check(v.Meta); err != nil {
		return !errors.As(err, &e)
	}
	n := len(v.Records)
	return pg.first != nil && (n == 0 || !bytes.Equal(v.Records[0].Key, s.bytes(pg.from))) ||
		!v.More && (n == 0 || !bytes.Equal(v.Records[n-1].Key, s.bytes(pg.to)))
}

// decides has decided what was read of a unit, where a later read may miss it. Else, or if that fails, it reports false.
func (u *unit) decides(ctx context.Context, err *error) bool {
	d, is := u.s.index.(ope.Decider)
	if is {
		*err = d.Decide(ctx, u.name)
	}
	return is && *err == nil
}

// learn returns the pairs of a page, after it has remembered them.
func (s *Indexed) learn(pg *page, follow bool) ([]pair, error) {
	ps, err := s.open(pg)
	if err != nil {
		return nil, err
	}
	u := pg.unit
	s.mu.Lock()
	defer s.mu.Unlock()
	u.open = u.open || !u.frozen
	if !follow {
		return ps, s.remember(ps)
	}
	u.asked += len(ps)
	u.adopt(pg.view.Meta.Nonce)
	if odd := s.known.merge(ps, u.view); odd != nil {
		return nil, u.corrupt(s.bytes(odd.c), "contradicts its neighbours")
	}
	return ps, nil
}

// open returns the pairs of a page. If the page begins at a pair that is known, it must be there: records are never removed.
func (s *Indexed) open(pg *page) ([]pair, error) {
	u := pg.unit
	if err := u.check(pg.view.Meta); err != nil {
		return nil, err
	}
	records := s.withoutDirectory(pg.view.Records)
	ps, err := u.unsealAll(records)
	if err != nil {
		return nil, err
	}
	for i := 1; i < len(ps); i++ {
		if ps[i-1].x >= ps[i].x {
			return nil, u.corrupt(records[i].Key, "contradicts its neighbours")
		}
	}
	if pg.first != nil && (len(ps) == 0 || ps[0].c != pg.first.c) {
		return nil, u.corrupt(s.bytes(pg.from), "is missing")
	}
	if !pg.view.More && (len(ps) == 0 || ps[len(ps)-1].c != pg.to) {
		return nil, u.corrupt(s.bytes(pg.to), "is missing")
	}
	return ps, nil
}

// unsealAll opens the records of pairs.
func (u *unit) unsealAll(records []ope.Record) ([]pair, error) {
	ps := make([]pair, len(records))
	return ps, u.sealer.OpenAll(len(records), func(o *record.Opener, i int) (err error) {
		ps[i], err = u.unsealBy(o, records[i])
		return err
	})
}

// withoutDirectory returns those of some records that are pairs.
func (s *Indexed) withoutDirectory(records []ope.Record) []ope.Record {
	return slices.DeleteFunc(slices.Clone(records), func(r ope.Record) bool { return bytes.HasPrefix(r.Key, s.directoryKey()) })
}
