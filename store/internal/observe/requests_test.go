package observe

import (
	"context"
	"errors"
	"iter"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/goleak"

	"github.com/rangecrypt/rangecrypt/store/driver"
	"github.com/rangecrypt/rangecrypt/store/drivertest"
	"github.com/rangecrypt/rangecrypt/store/pebble"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A watch is an observer of which all spans and metrics are kept, and a count of the spans that were begun.
type watch struct {
	*Observer
	begun atomic.Int64
	spans *tracetest.InMemoryExporter
	read  *sdkmetric.ManualReader
}

func (w *watch) OnStart(context.Context, sdktrace.ReadWriteSpan) { w.begun.Add(1) }
func (w *watch) OnEnd(sdktrace.ReadOnlySpan)                     {}
func (w *watch) Shutdown(context.Context) error                  { return nil }
func (w *watch) ForceFlush(context.Context) error                { return nil }

func newWatch() *watch {
	w := &watch{spans: tracetest.NewInMemoryExporter(), read: sdkmetric.NewManualReader()}
	tracers := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(w), sdktrace.WithSyncer(w.spans))
	w.Observer = New(nil, tracers, sdkmetric.NewMeterProvider(sdkmetric.WithReader(w.read)))
	return w
}

// named returns the spans with a name that have ended, and requires that all that were begun have.
func (w *watch) named(t *testing.T, name string) (spans tracetest.SpanStubs) {
	t.Helper()
	require.EqualValues(t, w.begun.Load(), len(w.spans.GetSpans()), "a span was not ended, or twice")
	for _, s := range w.spans.GetSpans() {
		if s.Name == name {
			spans = append(spans, s)
		}
	}
	return spans
}

// calling makes each request of a database within a call of its own, as package store does. It has all optional interfaces.
type calling struct {
	driver.DB
	o *Observer
}

func within[T any](o *Observer, ctx context.Context, do func(context.Context) (T, error)) (result T, err error) {
	ctx, end := o.Operation(ctx, "test", "")
	defer func() { end(0, err) }()
	return do(ctx)
}

func (c calling) family(ctx context.Context, open func(context.Context) (driver.Family, error)) (driver.Family, error) {
	f, err := within(c.o, ctx, open)
	if err != nil {
		return nil, err
	}
	return callingFamily{f.(driver.Committer), c.o}, nil
}

func (c calling) Family(ctx context.Context, spec driver.FamilySpec) (driver.Family, error) {
	return c.family(ctx, func(ctx context.Context) (driver.Family, error) { return c.DB.Family(ctx, spec) })
}

func (c calling) Families(ctx context.Context) ([]string, error) {
	return within(c.o, ctx, c.DB.Families)
}

func (c calling) Drop(ctx context.Context, name string) error {
	_, err := within(c.o, ctx, func(ctx context.Context) (int, error) { return 0, c.DB.Drop(ctx, name) })
	return err
}

func (c calling) Snapshot() (driver.Snapshot, error) {
	s, err := c.DB.(driver.Snapshotter).Snapshot()
	return callingSnapshot{s, c}, err
}

type callingSnapshot struct {
	driver.Snapshot
	c calling
}

func (s callingSnapshot) Family(ctx context.Context, spec driver.FamilySpec) (driver.Family, error) {
	return s.c.family(ctx, func(ctx context.Context) (driver.Family, error) { return s.Snapshot.Family(ctx, spec) })
}

type callingFamily struct {
	driver.Committer
	o *Observer
}

func (f callingFamily) Get(ctx context.Context, row []byte, s driver.Slice) ([]driver.Cell, error) {
	return within(f.o, ctx, func(ctx context.Context) ([]driver.Cell, error) { return f.Committer.Get(ctx, row, s) })
}

func (f callingFamily) GetBatch(ctx context.Context, rows [][]byte, s driver.Slice) ([][]driver.Cell, error) {
	return within(f.o, ctx, func(ctx context.Context) ([][]driver.Cell, error) { return f.Committer.GetBatch(ctx, rows, s) })
}

func (f callingFamily) Scan(ctx context.Context, r driver.Range) iter.Seq2[driver.Row, error] {
	return func(yield func(driver.Row, error) bool) {
		ctx, end := f.o.Operation(ctx, "test", "")
		defer end(0, nil)
		f.Committer.Scan(ctx, r)(yield)
	}
}

func (f callingFamily) Apply(ctx context.Context, mutations ...driver.Mutation) error {
	_, err := within(f.o, ctx, func(ctx context.Context) (int, error) { return 0, f.Committer.Apply(ctx, mutations...) })
	return err
}

func (f callingFamily) Replace(ctx context.Context, rs ...driver.Replacement) ([]int, error) {
	return within(f.o, ctx, func(ctx context.Context) ([]int, error) { return f.Committer.Replace(ctx, rs...) })
}

func (f callingFamily) CheckAndPut(ctx context.Context, row []byte, expect driver.Cell, puts ...driver.Cell) (bool, error) {
	return within(f.o, ctx, func(ctx context.Context) (bool, error) { return f.Committer.CheckAndPut(ctx, row, expect, puts...) })
}

func (f callingFamily) Commit(ctx context.Context, row []byte, expect, puts []driver.Cell, deletes [][]byte) (bool, error) {
	return within(f.o, ctx, func(ctx context.Context) (bool, error) { return f.Committer.Commit(ctx, row, expect, puts, deletes) })
}

// A database that is observed keeps the promises of drivers, whether somebody listens or not.
func TestRequestsKeepTheContract(t *testing.T) {
	t.Run("nobody listens", func(t *testing.T) {
		drivertest.TestDriver(t, func(testing.TB) driver.DB { return Requests(drivertest.NewMemory()) }, nil)
	})
	t.Run("somebody listens", func(t *testing.T) {
		w := newWatch()
		drivertest.TestDriver(t, func(testing.TB) driver.DB {
			return calling{Requests(drivertest.NewMemory()), w.Observer}
		}, nil)
		require.Greater(t, len(w.named(t, "rangecrypt.test")), 1000)
		for _, s := range w.spans.GetSpans() {
			if s.SpanKind == trace.SpanKindClient {
				require.True(t, s.Parent.IsValid(), s.Name)
			} else {
				require.Equal(t, "rangecrypt.test", s.Name)
			}
		}
	})
}

type plainDB struct{ driver.DB }

type plainFamily struct{ driver.Family }

func (db plainDB) Family(ctx context.Context, spec driver.FamilySpec) (driver.Family, error) {
	f, err := db.DB.Family(ctx, spec)
	return plainFamily{f}, err
}

var spec = driver.FamilySpec{Name: "f", Layout: driver.LayoutOrdered}

func TestRequestsKeepInterfaces(t *testing.T) {
	engine, err := pebble.Open(t.TempDir(), nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, engine.Close()) }()
	for _, c := range []struct {
		db     driver.DB
		has    bool
		system string
	}{{engine, true, "pebble"}, {drivertest.NewMemory(), true, ""}, {plainDB{drivertest.NewMemory()}, false, ""}} {
		db := Requests(c.db)
		_, is := db.(driver.Snapshotter)
		require.Equal(t, c.has, is)
		f, err := db.Family(t.Context(), spec)
		require.NoError(t, err)
		_, is = f.(driver.Committer)
		require.Equal(t, c.has, is)
		require.Equal(t, c.system, driver.Describe(db).System)
	}
}

// rowsDB is a database with one family, of rows that an iterator yields.
type rowsDB struct {
	driver.DB
	rows iter.Seq2[driver.Row, error]
}

type rowsFamily struct {
	driver.Family
	rows iter.Seq2[driver.Row, error]
}

func (db rowsDB) Family(context.Context, driver.FamilySpec) (driver.Family, error) {
	return rowsFamily{nil, db.rows}, nil
}

func (rowsDB) Describe() driver.Description {
	return driver.Description{System: "cassandra", Namespace: "app"}
}

func (f rowsFamily) Scan(ctx context.Context, _ driver.Range) iter.Seq2[driver.Row, error] {
	return func(yield func(driver.Row, error) bool) {
		for row, err := range f.rows {
			if err == nil {
				err = ctx.Err()
			}
			if !yield(row, err) || err != nil {
				return
			}
		}
	}
}

// The span of a scan lasts until it is over, however that comes, and it ends once.
func TestScansEndOnce(t *testing.T) {
	row := driver.Row{Key: []byte("secret")}
	three := func(yield func(driver.Row, error) bool) {
		_ = yield(row, nil) && yield(driver.Row{Key: []byte("next")}, nil) && yield(driver.Row{Key: []byte("last")}, nil)
	}
	down := errors.Join(driver.ErrUnavailable, errors.New("secret"))
	fails := func(yield func(driver.Row, error) bool) { _ = yield(row, nil) && yield(driver.Row{}, down) }
	breaks := func(yield func(driver.Row, error) bool) { yield(row, nil); panic("secret") }
	for _, c := range []struct {
		name   string
		rows   iter.Seq2[driver.Row, error]
		body   func(n int, cancel func()) bool // whether to go on after n rows
		panics bool
		kind   string
		want   int
	}{
		{"to its end", three, func(int, func()) bool { return true }, false, "", 3},
		{"the caller breaks", three, func(n int, _ func()) bool { return n < 2 }, false, "", 2},
		{"the caller panics", three, func(n int, _ func()) bool { panic("secret") }, true, "", 1},
		{"the caller's goroutine ends", three, func(n int, _ func()) bool { runtime.Goexit(); return true }, false, "", 1},
		{"the context ends", three, func(n int, cancel func()) bool { cancel(); return true }, false, "context.Canceled", 1},
		{"it fails", fails, func(int, func()) bool { return true }, false, "driver.ErrUnavailable", 1},
		{"the driver panics", breaks, func(int, func()) bool { return true }, true, "_OTHER", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWatch()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			ctx, end := w.Operation(ctx, "query", "")
			f, err := Requests(rowsDB{rows: c.rows}).Family(ctx, spec)
			require.NoError(t, err)
			scan := f.Scan(ctx, driver.Range{})
			require.Empty(t, w.sofar("Scan f"), "nothing was asked for")
			var done sync.WaitGroup
			done.Add(1)
			go func() {
				defer done.Done()
				defer func() { require.Equal(t, c.panics, recover() != nil) }()
				n := 0
				for _, err := range scan {
					if err != nil {
						continue
					}
					if n++; !c.body(n, cancel) {
						break
					}
				}
			}()
			done.Wait()
			end(0, nil)
			spans := w.named(t, "Scan f")
			require.Len(t, spans, 1)
			s := spans[0]
			require.Equal(t, trace.SpanKindClient, s.SpanKind)
			require.Equal(t, w.named(t, "rangecrypt.query")[0].SpanContext.SpanID(), s.Parent.SpanID())
			require.Empty(t, s.Status.Description)
			require.Empty(t, s.Events)
			want := []attribute.KeyValue{
				attribute.String("db.system.name", "cassandra"), attribute.String("db.operation.name", "Scan"),
				attribute.String("db.namespace", "app"), attribute.String("db.collection.name", "f"),
			}
			if c.kind != "" {
				want = append(want, attribute.String("error.type", c.kind))
				require.Equal(t, codes.Error, s.Status.Code)
			} else {
				require.Equal(t, codes.Unset, s.Status.Code)
			}
			require.ElementsMatch(t, append(want, attribute.Int("db.response.returned_rows", c.want)), s.Attributes)

			if c.kind == "" {
				require.EqualValues(t, c.want, w.returnedRows(t))
			} else {
				require.Zero(t, w.returnedRows(t), "failed calls are not counted")
			}
		})
	}
}

// sofar is named while spans are still open.
func (w *watch) sofar(name string) (spans tracetest.SpanStubs) {
	for _, s := range w.spans.GetSpans() {
		if s.Name == name {
			spans = append(spans, s)
		}
	}
	return spans
}

// returnedRows returns the sum of db.client.response.returned_rows.
func (w *watch) returnedRows(t *testing.T) (sum int64) {
	var all metricdata.ResourceMetrics
	require.NoError(t, w.read.Collect(t.Context(), &all))
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			if h, ok := m.Data.(metricdata.Histogram[int64]); ok && m.Name == "db.client.response.returned_rows" {
				for _, p := range h.DataPoints {
					sum += p.Sum
				}
			}
		}
	}
	return sum
}

type stillFamily struct{ driver.Committer }

func (stillFamily) Get(context.Context, []byte, driver.Slice) ([]driver.Cell, error) { return nil, nil }
func (stillFamily) GetBatch(context.Context, [][]byte, driver.Slice) ([][]driver.Cell, error) {
	return nil, nil
}
func (stillFamily) Apply(context.Context, ...driver.Mutation) error { return nil }
func (stillFamily) CheckAndPut(context.Context, []byte, driver.Cell, ...driver.Cell) (bool, error) {
	return true, nil
}
func (stillFamily) Replace(context.Context, ...driver.Replacement) ([]int, error) { return nil, nil }
func (stillFamily) Scan(context.Context, driver.Range) iter.Seq2[driver.Row, error] {
	return noRows
}
func (stillFamily) Commit(context.Context, []byte, []driver.Cell, []driver.Cell, [][]byte) (bool, error) {
	return true, nil
}

func noRows(func(driver.Row, error) bool) {}

// Where nobody listens, the context of a call is that of its caller, and its requests allocate nothing.
func TestNothingIsAllocatedWhereNobodyListens(t *testing.T) {
	o := New(nil, nil, nil)
	outer := t.Context()
	ctx, end := o.Operation(outer, "put", "f")
	require.Equal(t, outer, ctx)
	f := (new(database)).observed(stillFamily{}, "f").(driver.Committer)
	row, batch, mutations, replacements, cells := []byte("r"), make([][]byte, 2), make([]driver.Mutation, 2), make([]driver.Replacement, 2), make([]driver.Cell, 2)
	require.NotNil(t, f.Scan(ctx, driver.Range{}))
	require.Zero(t, testing.AllocsPerRun(100, func() {
		_, _ = f.Get(ctx, row, driver.Slice{})
		_, _ = f.GetBatch(ctx, batch, driver.Slice{})
		_ = f.Apply(ctx, mutations...)
		_, _ = f.Replace(ctx, replacements...)
		_, _ = f.CheckAndPut(ctx, row, driver.Cell{}, cells...)
		_, _ = f.Commit(ctx, row, cells, cells, nil)
		_ = f.Scan(ctx, driver.Range{})
		end(1, nil)
	}))
}

// A read of many rows is one request, which says how many it asks for and how many there are.
func TestReadsOfManyRows(t *testing.T) {
	w := newWatch()
	ctx, end := w.Operation(t.Context(), "query", "")
	f, err := Requests(drivertest.NewMemory()).Family(ctx, spec)
	require.NoError(t, err)
	require.NoError(t, f.Apply(ctx, driver.Mutation{Row: []byte("a"), Puts: []driver.Cell{{Value: []byte("secret")}}}))
	found, err := f.GetBatch(ctx, [][]byte{[]byte("a"), []byte("b"), []byte("a")}, driver.Slice{})
	require.NoError(t, err)
	require.Len(t, found, 3)
	_, err = f.GetBatch(ctx, [][]byte{[]byte("a"), []byte("b")}, driver.Slice{Limit: 1})
	require.ErrorIs(t, err, driver.ErrRange)
	end(0, nil)
	spans := w.named(t, "GetBatch f")
	require.Len(t, spans, 2)
	want := []attribute.KeyValue{
		attribute.String("db.system.name", "other"), attribute.String("db.operation.name", "GetBatch"), attribute.String("db.collection.name", "f"),
	}
	require.ElementsMatch(t, append(slices.Clip(want), attribute.Int("db.operation.batch.size", 3), attribute.Int("db.response.returned_rows", 2)), spans[0].Attributes)
	require.ElementsMatch(t, append(slices.Clip(want), attribute.Int("db.operation.batch.size", 2), attribute.Int("db.response.returned_rows", 0),
		attribute.String("error.type", "driver.ErrRange")), spans[1].Attributes)
	require.EqualValues(t, 2, w.returnedRows(t), "failed calls are not counted")
}

// What is made ready for the requests of a family goes with it: programs may make and drop tables all the time.
func TestDroppedFamiliesAreForgotten(t *testing.T) {
	w := newWatch()
	db := Requests(drivertest.NewMemory()).(*snapshotter)
	ctx, end := w.Operation(t.Context(), "test", "")
	defer end(0, nil)
	kept := func() (n int) {
		db.families.Range(func(any, any) bool { n++; return true })
		return n
	}
	for _, name := range []string{"a", "b"} {
		f, err := db.Family(ctx, driver.FamilySpec{Name: name, Layout: driver.LayoutWide})
		require.NoError(t, err)
		_, err = f.Get(ctx, []byte("r"), driver.Slice{})
		require.NoError(t, err)
		require.Equal(t, 1, kept())
		require.NoError(t, db.Drop(ctx, name))
		require.Zero(t, kept())
	}
}
