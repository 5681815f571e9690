package tokens

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/rangecrypt/rangecrypt/internal/relay"
	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
	"github.com/rangecrypt/rangecrypt/store/internal/fault"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A world is postings of the codes 0 to n-1, of which the lookups are noted.
type world struct {
	driver.Family
	rows []int // postings of each code

	mu     sync.Mutex
	scans  []driver.Range
	read   int // rows
	change func(driver.Row) driver.Row

	running atomic.Int32 // scans
}

// token scatters codes; it has an inverse, so that no two are equal.
func token(code int64) []byte {
	return binary.BigEndian.AppendUint32(nil, uint32(code)*0x9E3779B1)
}

func newWorld(tb interface {
	require.TestingT
	Helper()
}, rows ...int) *world {
	tb.Helper()
	db := drivertest.NewMemory()
	f, err := db.Family(context.Background(), driver.FamilySpec{Name: "postings", Layout: driver.LayoutOrdered})
	require.NoError(tb, err)
	var ms []driver.Mutation
	for code, n := range rows {
		for i := range n {
			key := binary.BigEndian.AppendUint16(token(int64(code)), uint16(i))
			ms = append(ms, driver.Mutation{Row: key, Puts: []driver.Cell{{Value: []byte("v")}}})
		}
	}
	require.NoError(tb, f.Apply(context.Background(), ms...))
	return &world{Family: f, rows: rows}
}

func (w *world) Scan(ctx context.Context, r driver.Range) iter.Seq2[driver.Row, error] {
	return func(yield func(driver.Row, error) bool) {
		w.running.Add(1)
		defer w.running.Add(-1)
		w.mu.Lock()
		w.scans = append(w.scans, r)
		w.mu.Unlock()
		for row, err := range w.Family.Scan(ctx, r) {
			w.mu.Lock()
			w.read++
			if w.change != nil && err == nil {
				row = w.change(row)
			}
			w.mu.Unlock()
			if !yield(row, err) {
				return
			}
		}
	}
}

// lookup returns a lookup of all codes, and counts those that it takes.
func (w *world) lookup(taken *int) *Lookup {
	l := &Lookup{Postings: w}
	l.Codes = func(ctx context.Context) iter.Seq2[int64, error] {
		return func(yield func(int64, error) bool) {
			for i := range w.rows {
				if l.Reverse {
					i = len(w.rows) - 1 - i
				}
				w.mu.Lock()
				*taken++
				w.mu.Unlock()
				if !yield(int64(i), nil) {
					return
				}
			}
		}
	}
	l.Range = func(code int64) driver.Bounds {
		start := token(code)
		end := binary.BigEndian.AppendUint32(nil, binary.BigEndian.Uint32(start)+1)
		if bytes.Equal(end, make([]byte, 4)) {
			end = nil
		}
		return driver.Bounds{Start: start, End: end}
	}
	return l
}

// want returns the keys of all postings in the order of their codes.
func (w *world) want(reverse bool) (keys []string) {
	for code, n := range w.rows {
		for i := range n {
			keys = append(keys, string(binary.BigEndian.AppendUint16(token(int64(code)), uint16(i))))
		}
	}
	if reverse {
		slices.Reverse(keys)
	}
	return keys
}

// The postings are those of all codes, in the order of the codes, however many a code has and wherever the caller stops.
func TestRows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		few := rapid.SampledFrom([]int{0, 0, 1, 1, 1, 2, 3, leastPage - 1, leastPage, leastPage + 1, 100})
		w := newWorld(t, rapid.SliceOfN(few, 0, rapid.SampledFrom([]int{1, 5, 80, 400}).Draw(t, "codes")).Draw(t, "rows")...)
		taken := 0
		l := w.lookup(&taken)
		l.Reverse = rapid.Bool().Draw(t, "reverse")
		l.Few = rapid.SampledFrom([]int{0, 0, 1, 10, 1000}).Draw(t, "few")
		want := w.want(l.Reverse)
		stop := rapid.IntRange(1, 2*len(want)+1).Draw(t, "stop")
		var got []string
		for row, err := range l.Rows(context.Background()) {
			require.NoError(t, err)
			if got = append(got, string(row.Key)); len(got) == stop {
				break
			}
		}
		require.True(t, slices.Equal(want[:min(stop, len(want))], got))
		require.EqualValues(t, len(w.scans), l.Scans.Load())
		if stop > len(want) {
			require.EqualValues(t, len(w.rows), l.Looked.Load())
		}
	})
}

// Many codes take few scans, and few codes with many postings one.
func TestScans(t *testing.T) {
	for _, c := range []struct {
		name         string
		codes, rows  int
		scans, reads int
	}{
		{"nothing", 0, 0, 0, 0},
		{"a range of few codes", first, 1, 1, first},
		{"many codes", first + 4*first + 16*first + 10, 1, 4, first + 4*first + 16*first + 10},
		{"more codes than a scan may have", first + 4*first + 2*driver.MaxBatch + 10, 1, 5, first + 4*first + 2*driver.MaxBatch + 10},
		{"few codes with many postings", 10, 400, 1, 4000},
		{"codes with more postings than are read with others", 10, 450, 11, 4500},
	} {
		t.Run(c.name, func(t *testing.T) {
			w, taken := newWorld(t, slices.Repeat([]int{c.rows}, c.codes)...), 0
			n := 0
			for _, err := range w.lookup(&taken).Rows(context.Background()) {
				require.NoError(t, err)
				n++
			}
			require.Equal(t, c.codes*c.rows, n)
			require.Len(t, w.scans, c.scans)
			require.Equal(t, c.reads, w.read)
		})
	}
}

// Who asks for few postings, or stops early, has little read.
func TestLittleIsReadAhead(t *testing.T) {
	w := newWorld(t, slices.Repeat([]int{3}, 5000)...)
	for _, c := range []struct{ few, takes, codes, rows int }{
		{1, 1, 1, 1}, {10, 10, 10, 30}, {10, 30, 10, 30}, {10, 31, 10 + grows*first, 30 + 3*grows*first}, {100, 100, 100, 300},
		{0, 1, first * (1 + grows + grows*grows), 3 * first * (1 + grows)},
	} {
		taken := 0
		l := w.lookup(&taken)
		l.Few = c.few
		w.scans, w.read = nil, 0
		n := 0
		for _, err := range l.Rows(context.Background()) {
			require.NoError(t, err)
			if n++; n == c.takes {
				time.Sleep(20 * time.Millisecond) // whoever reads ahead has the time to
				break
			}
		}
		require.LessOrEqual(t, taken, c.codes+1, "codes: %+v", c)
		require.LessOrEqual(t, w.read, c.rows, "postings: %+v", c)
	}
}

// Large postings make smaller batches.
func TestLargePostings(t *testing.T) {
	w, taken := newWorld(t, slices.Repeat([]int{1}, 1000)...), 0
	large := make([]byte, batchBytes/40)
	w.change = func(row driver.Row) driver.Row {
		row.Cells = []driver.Cell{{Value: large}}
		return row
	}
	for _, err := range w.lookup(&taken).Rows(context.Background()) {
		require.NoError(t, err)
	}
	for i, r := range w.scans {
		require.LessOrEqual(t, len(r.Each), first*grows)
		if i > 2 { // batches of codes may be made before the first postings have come
			require.LessOrEqual(t, len(r.Each), 40)
		}
	}
}

// What fails, or ends, ends the iteration, and is the last thing.
func TestEnds(t *testing.T) {
	w := newWorld(t, slices.Repeat([]int{2}, 1000)...)
	ends := func(l *Lookup, ctx context.Context, at func(int)) (n int, failed error) {
		for _, err := range l.Rows(ctx) {
			require.NoError(t, failed, "after the error")
			if failed = err; err == nil {
				n++
				at(n)
			}
		}
		return n, failed
	}
	nothing := func(int) {}
	broken := errors.New("broken")
	taken := 0
	for _, after := range []int{0, 1, first, 500} {
		l := w.lookup(&taken)
		codes := l.Codes
		l.Codes = func(ctx context.Context) iter.Seq2[int64, error] {
			return func(yield func(int64, error) bool) {
				n := 0
				for code, err := range codes(ctx) {
					if n == after {
						err = broken
					}
					if n++; !yield(code, err) || err != nil {
						return
					}
				}
			}
		}
		n, err := ends(l, context.Background(), nothing)
		require.ErrorIs(t, err, broken)
		require.Equal(t, 2*after, n, "what came before it is yielded")
	}

	cancelled, cancel := context.WithCancel(context.Background())
	_, err := ends(w.lookup(&taken), cancelled, func(n int) {
		if n == 100 {
			cancel()
		}
	})
	require.ErrorIs(t, err, context.Canceled)
	for range 30 { // no scan may have begun, so that nothing else fails
		_, err = ends(w.lookup(&taken), cancelled, nothing)
		require.ErrorIs(t, err, context.Canceled)
	}

	for what, change := range map[string]func(driver.Row) driver.Row{
		"another row":    func(r driver.Row) driver.Row { r.Key = append(r.Key, "of none"...)[6:]; return r },
		"one row always": func(r driver.Row) driver.Row { r.Key = token(0); return r },
	} {
		w.change = change
		_, err := ends(w.lookup(&taken), context.Background(), nothing)
		require.ErrorIs(t, err, fault.ErrTampered, what)
	}
	w = newWorld(t, slices.Repeat([]int{450}, 10)...) // of which the last ones are scanned code by code
	w.change = func(r driver.Row) driver.Row {
		if w.read > 10*(rows/10)+20 {
			r.Key = token(0)
		}
		return r
	}
	_, err = ends(w.lookup(&taken), context.Background(), nothing)
	require.ErrorIs(t, err, fault.ErrTampered)
}

// What reads ahead has ended when the iteration has: whoever asked for the rows may close the database.
func TestNothingGoesOn(t *testing.T) {
	w, taken := newWorld(t, slices.Repeat([]int{1}, 1000)...), 0
	w.change = func(row driver.Row) driver.Row { time.Sleep(time.Millisecond); return row }
	for _, err := range w.lookup(&taken).Rows(context.Background()) {
		require.NoError(t, err)
		time.Sleep(5 * time.Millisecond) // the next scan begins
		break
	}
	require.Zero(t, w.running.Load())
}

// Iterations of one lookup do not disturb each other, and may wait for anything on the way.
func TestConcurrent(t *testing.T) {
	w, taken := newWorld(t, slices.Repeat([]int{1, 40, 0}, 300)...), 0
	l := w.lookup(&taken)
	var all sync.WaitGroup
	errs := make(chan error, 4)
	for range 4 {
		all.Go(func() {
			var got []string
			for row, err := range l.Rows(context.Background()) {
				if err != nil {
					errs <- err
					return
				}
				got = append(got, string(row.Key))
			}
			if !slices.Equal(w.want(false), got) {
				errs <- fmt.Errorf("%d postings", len(got))
			}
		})
	}
	all.Wait()
	close(errs)
	require.NoError(t, <-errs)
}

// What a driver does in a goroutine of ours comes to who asked for the rows: no row is missing without a word.
func TestDriversThatDoNotReturn(t *testing.T) {
	for name, do := range map[string]func(){"panic": func() { panic("the driver's") }, "the goroutine ends": runtime.Goexit} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, slices.Repeat([]int{1}, 500)...)
			w.change = func(row driver.Row) driver.Row {
				if w.read > 100 {
					w.mu.Unlock()
					do()
				}
				return row
			}
			l := &Lookup{
				Postings: w,
				Codes: func(context.Context) iter.Seq2[int64, error] {
					return func(yield func(int64, error) bool) {
						for code := range int64(500) {
							if !yield(code, nil) {
								return
							}
						}
					}
				},
				Range: func(code int64) driver.Bounds {
					return driver.Bounds{Start: token(code), End: ope.PrefixEnd(token(code))}
				},
			}
			returned := false
			done := make(chan any)
			go func() {
				defer close(done)
				defer func() {
					if v := recover(); v != nil {
						done <- v
					}
				}()
				for _, err := range l.Rows(t.Context()) {
					require.NoError(t, err)
				}
				returned = true
			}()
			v := <-done
			if p, ok := v.(*relay.Panicked); name == "panic" {
				require.True(t, ok, "%v", v)
				require.Equal(t, "the driver's", p.Value)
				<-done
			}
			require.False(t, returned)
		})
	}
}
