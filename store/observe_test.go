package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

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
	"github.com/rangecrypt/rangecrypt/store/internal/observe"
	"github.com/rangecrypt/rangecrypt/store/kms"
	"github.com/rangecrypt/rangecrypt/store/pebble"
)

// Rows of a call that failed are not counted as written, and a line in the log says that it failed.
func TestFailuresAreObserved(t *testing.T) {
	ctx, down := context.Background(), false
	db := drivertest.NewFaulty(drivertest.NewMemory(), func(drivertest.Op) drivertest.Fault {
		if down {
			return drivertest.FailBefore
		}
		return drivertest.NoFault
	})
	watch := newTelemetry()
	log := &watch.log
	st, err := Open(ctx, db, kms.NewLocal(testMaster), watch.options())
	require.NoError(t, err)
	tbl, err := st.Create(ctx, Schema{
		Name: "t", Key: []KeyPart{HashedPart("id", Int64)}, Columns: []Column{OrderedColumn("c", Int64, MOPE)},
	})
	require.NoError(t, err)
	rows := []Row{{"id": 1, "c": 7654321}, {"id": 2, "c": 7654321}}
	require.NoError(t, tbl.Put(ctx, rows...))
	require.Contains(t, watch.metricsText(t), "rangecrypt.rows{rangecrypt.operation=put} 2\n")
	require.Empty(t, log.String())

	down = true
	require.Error(t, tbl.Put(ctx, rows...))
	require.Contains(t, watch.metricsText(t), "rangecrypt.rows{rangecrypt.operation=put} 2\n", "failed calls are not counted")
	require.Contains(t, watch.metricsText(t), "rangecrypt.operation.duration{error.type=driver.ErrUnavailable,rangecrypt.operation=put} 1\n")
	require.Contains(t, log.String(), "an operation failed")
	require.Contains(t, log.String(), "level=WARN")
	require.Contains(t, log.String(), "operation=put")
	require.Contains(t, log.String(), "retryable=true")
	_, err = tbl.Get(ctx, Row{"id": 1})
	require.Error(t, err)
	require.Contains(t, watch.metricsText(t), "rangecrypt.operation.duration{error.type=driver.ErrUnavailable,rangecrypt.operation=get} 1\n")
	require.NotContains(t, watch.metricsText(t), "rangecrypt.rows{rangecrypt.operation=get}")
	require.Error(t, tbl.Delete(ctx, rows...))
	require.Contains(t, watch.metricsText(t), "rangecrypt.operation.duration{error.type=driver.ErrUnavailable,rangecrypt.operation=delete} 1\n")
	require.NotContains(t, watch.metricsText(t), "rangecrypt.rows{rangecrypt.operation=delete}")

	down = false
	log.Reset()
	for _, mistake := range []Row{{"id": 3, "c": "7654321"}, {"id": 3, "c": uint64(math.MaxUint64)}, {"id": 3, "d": 7654321}} {
		require.Error(t, tbl.Put(ctx, rows[0], mistake))
	}
	_, err = tbl.Get(ctx, Row{"id": "7654321"})
	require.ErrorIs(t, err, ErrColumn)
	for _, err := range tbl.Query(ctx, Query{Where: Field[string]("c").Equal("7654321")}) {
		require.ErrorIs(t, err, ErrColumn)
	}
	_, err = st.Create(ctx, Schema{Name: "t"})
	require.ErrorIs(t, err, ErrSchema)
	require.Equal(t, 6, strings.Count(log.String(), "an operation failed"), log.String())
	require.Contains(t, log.String(), "row 1")
	require.NotContains(t, log.String(), "7654321")
	require.NotContains(t, log.String(), "level=WARN", "its caller is told; nothing is wrong with the database")
	ended, end := context.WithCancelCause(ctx)
	end(errors.New("7654321 has hung up"))
	require.ErrorContains(t, tbl.Put(ended, rows...), "7654321 has hung up")
	require.Contains(t, log.String(), `context canceled: \"...\"`)
	require.NotContains(t, log.String(), "7654321", "a cause is the caller's text")
	none, err := tbl.Get(ctx, Row{"id": 9})
	require.NoError(t, err)
	require.Nil(t, none)
	require.Contains(t, watch.metricsText(t), "rangecrypt.rows{rangecrypt.operation=get} 0\n")
	require.Equal(t, 3, written(10, &BatchError{Failed: []int{3, 4, 5, 6, 7, 8, 9}}))
}

// section returns what docs/operations.md says of metrics, spans and logs.
func section(t *testing.T) string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("..", "docs", "operations.md"))
	require.NoError(t, err)
	_, text, found := strings.Cut(string(page), "## Metrics, spans and logs")
	require.True(t, found)
	text, _, found = strings.Cut(text, "\n## ")
	require.True(t, found)
	return text
}

// matches returns the first group of each match.
func matches(pattern, text string) (found []string) {
	for _, match := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
		found = append(found, match[1])
	}
	return found
}

// documented returns the rows of the table whose first heading is given, by their first cells.
func documented(t *testing.T, heading string) map[string][]string {
	t.Helper()
	_, table, found := strings.Cut(section(t), "\n| "+heading+" |")
	require.True(t, found, heading)
	table, _, _ = strings.Cut(table, "\n\n")
	rows := make(map[string][]string)
	for _, line := range strings.Split(table, "\n")[2:] {
		cells := strings.Split(strings.Trim(line, "| "), " | ")
		require.Len(t, matches("^`([^`]+)`$", cells[0]), 1, line)
		rows[strings.Trim(cells[0], "`")] = cells[1:]
	}
	return rows
}

// sourcesOf returns the sources of Go, without tests, of some folders and of those below.
func sourcesOf(t *testing.T, folders ...string) string {
	t.Helper()
	var all strings.Builder
	for _, folder := range folders {
		require.NoError(t, filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			source, err := os.ReadFile(path)
			all.Write(source)
			return err
		}))
	}
	return all.String()
}

// Operations and reasons of repetitions are named where the page on operations lists them, and no other ones.
func TestOperationsAreDocumented(t *testing.T) {
	source := sourcesOf(t, ".", filepath.Join("..", "ope"))
	unique := func(names []string) []string {
		require.NotEmpty(t, names)
		slices.Sort(names)
		return slices.Compact(names)
	}
	_, list, found := strings.Cut(section(t), "The operations are")
	require.True(t, found)
	operations, rest, found := strings.Cut(list, "Reasons of repetitions are")
	require.True(t, found)
	reasons, _, found := strings.Cut(rest, "*Contention*")
	require.True(t, found)
	require.ElementsMatch(t, unique(matches(`(?:Operation|tbl\.call|tbl\.pass|st\.call)\(ctx, "([^"]+)"`, source)), matches("`([a-z ]+)`", operations))
	said := matches(`(?:Repeats|Again|BackOff|backOff|waitForTurn)\([a-zA-Z.]+, "([^"]+)"`, source)
	said = append(said, matches(`why := "([a-z_]+)"`, source)...)
	said = append(said, matches(`lost, why = err, "([^"]+)"`, source)...)
	require.ElementsMatch(t, unique(said), matches("`([a-z_]+)`", reasons))
	require.NotRegexp(t, `(Repeats|WaitAgain|pause\.Again)\([a-zA-Z.]+, [^",)]*[^w",)y],`, source, "a reason is a constant")
}

// described is a database that says what it is.
type described struct{ driver.DB }

func (d described) Snapshot() (driver.Snapshot, error) { return d.DB.(driver.Snapshotter).Snapshot() }

func (described) Describe() driver.Description {
	return driver.Description{System: "cassandra", Namespace: "app"}
}

// What a run emits is what the page on operations lists: names, units, attributes, kinds of spans and names of requests.
func TestTelemetryIsDocumented(t *testing.T) {
	watch := newTelemetry()
	everythingWatched(t, watch)

	attributesOf := func(cell string) []string {
		names := matches("`([^`]+)`", cell)
		slices.Sort(names)
		return names
	}
	used := make(map[string]bool)
	sorted := func(set map[string]bool) []string {
		for name := range set {
			used[name] = true
		}
		return slices.Sorted(maps.Keys(set))
	}

	metrics := documented(t, "metric")
	emitted := watch.metrics(t)
	require.ElementsMatch(t, slices.Collect(maps.Keys(metrics)), slices.Collect(maps.Keys(emitted)))
	for name, m := range emitted {
		is, sets := "counter", []attribute.Set{}
		switch data := m.Data.(type) {
		case metricdata.Sum[int64]:
			require.True(t, data.IsMonotonic, name)
			for _, p := range data.DataPoints {
				sets = append(sets, p.Attributes)
			}
		case metricdata.Histogram[int64]:
			is = "histogram"
			for _, p := range data.DataPoints {
				require.Equal(t, []float64{1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000}, p.Bounds)
				sets = append(sets, p.Attributes)
			}
		case metricdata.Histogram[float64]:
			is = "histogram"
			for _, p := range data.DataPoints {
				require.Equal(t, []float64{0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10}, p.Bounds)
				sets = append(sets, p.Attributes)
			}
		}
		keys := make(map[string]bool)
		for _, set := range sets {
			for _, kv := range set.ToSlice() {
				keys[string(kv.Key)] = true
			}
		}
		require.Equal(t, fmt.Sprintf("%s, `%s`", is, m.Unit), metrics[name][0], name)
		require.Equal(t, attributesOf(metrics[name][1]), sorted(keys), name)
	}

	spans := documented(t, "span")
	keys := map[string]map[string]bool{"rangecrypt.OPERATION": {}, "REQUEST FAMILY": {}}
	require.ElementsMatch(t, slices.Collect(maps.Keys(keys)), slices.Collect(maps.Keys(spans)))
	operations, requests := make(map[string]bool), make(map[string]bool)
	parents := make(map[trace.SpanID]bool)
	for _, s := range watch.spans.GetSpans() {
		if s.SpanKind == trace.SpanKindInternal {
			parents[s.SpanContext.SpanID()] = true
		}
	}
	for _, s := range watch.spans.GetSpans() {
		has := make(map[string]string)
		for _, kv := range s.Attributes {
			has[string(kv.Key)] = kv.Value.String()
		}
		kind := "rangecrypt.OPERATION"
		if operation, ok := strings.CutPrefix(s.Name, "rangecrypt."); ok {
			require.Equal(t, operation, has["rangecrypt.operation"])
			operations[operation] = true
		} else {
			kind = "REQUEST FAMILY"
			require.True(t, parents[s.Parent.SpanID()], "%s is below no call", s.Name)
			requests[has["db.operation.name"]] = true
			require.Equal(t, has["db.operation.name"]+" "+has["db.collection.name"], s.Name)
		}
		require.Equal(t, spans[kind][0], s.SpanKind.String(), s.Name)
		require.Equal(t, has["error.type"] != "", s.Status.Code == codes.Error)
		for key := range has {
			keys[kind][key] = true
		}
	}
	for kind, has := range keys {
		require.Equal(t, attributesOf(spans[kind][1]), sorted(has), kind)
	}
	require.EqualValues(t, watch.begun.Load(), len(watch.spans.GetSpans()), "spans that did not end, or twice")
	listed := documented(t, "attribute")
	require.Equal(t, slices.Sorted(maps.Keys(listed)), slices.Sorted(maps.Keys(used)))
	require.ElementsMatch(t, matches("`([^`]+)`", listed["db.operation.name"][0]), slices.Collect(maps.Keys(requests)))
	_, list, _ := strings.Cut(section(t), "The operations are")
	list, _, _ = strings.Cut(list, "Reasons of repetitions are")
	require.ElementsMatch(t, matches("`([a-z ]+)`", list), slices.Collect(maps.Keys(operations)))
}

// everythingWatched calls each operation, lets requests fail, and lets one client forestall another.
func everythingWatched(t *testing.T, watch *telemetry) {
	t.Helper()
	ctx, memory := context.Background(), drivertest.NewMemory()
	intervene := func(drivertest.Op) drivertest.Fault { return drivertest.NoFault }
	db := drivertest.NewFaulty(memory, func(op drivertest.Op) drivertest.Fault { return intervene(op) })
	st, err := Open(ctx, described{db}, kms.NewLocal(testMaster), watch.options())
	require.NoError(t, err)
	tbl := useEverything(t, st)
	_, err = st.Describe(ctx)
	require.NoError(t, err)
	_, err = st.Tenants(ctx)
	require.NoError(t, err)
	_, _, err = st.Policy(ctx, canaryTenant, canaryTenants)
	require.NoError(t, err)
	for _, lease := range []time.Duration{100 * time.Millisecond, 0} {
		require.NoError(t, st.SetLease(ctx, lease))
	}
	_, err = st.Lease(ctx)
	require.NoError(t, err)
	_, err = tbl.Status(ctx)
	require.NoError(t, err)
	_, err = tbl.Explain(ctx, Query{})
	require.NoError(t, err)
	_, err = tbl.Analyze(ctx, Query{})
	require.NoError(t, err)
	_, err = tbl.Count(ctx, IsNull("CanaryNote"))
	require.NoError(t, err)
	_, err = tbl.Exists(ctx, Predicate{})
	require.NoError(t, err)
	for _, extreme := range []func(context.Context, string, Predicate, ...By) (any, error){tbl.Min, tbl.Max} {
		_, err = extreme(ctx, "CanaryOrderedNumber", Predicate{})
		require.NoError(t, err)
	}
	require.NoError(t, tbl.RebuildIndex(ctx, "CanaryStatefulTime", nil))
	for _, err := range Join(ctx, tbl, "CanaryToken", tbl, "CanaryShared", nil) {
		require.NoError(t, err)
	}
	tenants, err := st.Table(ctx, canaryTenants)
	require.NoError(t, err)
	_, err = tenants.Parts(ctx, 0)
	require.NoError(t, err)
	_, err = tenants.DeleteOrphans(ctx, nil)
	require.NoError(t, err)

	// Two clients write one row, the second while the first is about to.
	schema := Schema{Name: "rivals", Conditional: true, Key: []KeyPart{HashedPart("id", Int64)}, Columns: []Column{RandomisedColumn("c", Int64)}}
	contended, err := st.Create(ctx, schema)
	require.NoError(t, err)
	require.NoError(t, contended.Put(ctx, Row{"id": 1, "c": 1}))
	other, err := Open(ctx, memory, kms.NewLocal(testMaster), nil)
	require.NoError(t, err)
	rival, err := other.Table(ctx, "rivals")
	require.NoError(t, err)
	intervene = func(op drivertest.Op) drivertest.Fault {
		if op.Method == "Commit" {
			intervene = func(drivertest.Op) drivertest.Fault { return drivertest.NoFault }
			require.NoError(t, rival.Update(ctx, Row{"id": 1, "c": 2}))
		}
		return drivertest.NoFault
	}
	require.NoError(t, contended.Update(ctx, Row{"id": 1, "c": 3}))
	family := contended.now().Family()
	require.Contains(t, watch.metricsText(t), "rangecrypt.retries{rangecrypt.operation=update,rangecrypt.retry.reason=row_changed} 1\n")
	require.Contains(t, watch.metricsText(t), "rangecrypt.changes.lost{db.collection.name="+family+",db.namespace=app,db.operation.name=Commit,db.system.name=cassandra} 1\n")
	require.Contains(t, watch.spansText(), "rangecrypt.retries=1")
	require.NoError(t, st.Drop(ctx, "rivals"))

	// A database that has guards in place of commits.
	st, err = Open(ctx, described{guards{drivertest.NewMemory()}}, kms.NewLocal(testMaster), watch.options())
	require.NoError(t, err)
	guarded, err := st.Create(ctx, Schema{Name: "guarded", Key: []KeyPart{HashedPart("id", Int64)}, Columns: []Column{OrderedColumn("c", Int64, Kerschbaum)}})
	require.NoError(t, err)
	for i := range int64(3) {
		require.NoError(t, guarded.Put(ctx, Row{"id": i, "c": i}))
	}

	intervene = func(drivertest.Op) drivertest.Fault { return drivertest.FailBefore }
	_, err = tbl.Get(ctx, canaryRow(1))
	require.ErrorIs(t, err, driver.ErrUnavailable)
}

// guards is a database whose families have guards, and no commits.
type guards struct{ driver.DB }

type guardsFamily struct {
	driver.Family
	guarder driver.Guarder
}

func (d guards) Family(ctx context.Context, spec driver.FamilySpec) (driver.Family, error) {
	f, err := d.DB.Family(ctx, spec)
	if err != nil {
		return nil, err
	}
	return guardsFamily{f, f.(driver.Guarder)}, nil
}

func (f guardsFamily) PutGuarded(ctx context.Context, row []byte, guard driver.Guard, puts ...driver.Cell) (bool, error) {
	return f.guarder.PutGuarded(ctx, row, guard, puts...)
}

// Each error that callers can tell apart has a name for error.type, which is its own in Go.
func TestErrorsHaveNames(t *testing.T) {
	names := make(map[string]bool)
	for _, e := range observe.ErrorNames {
		require.Equal(t, e.Name, observe.ErrorName(fmt.Errorf("wrapped: %w", e.Err)))
		names[e.Name] = true
	}
	found := 0
	for name, folder := range map[string]string{"store": ".", "driver": "driver", "kms": "kms", "ope": filepath.Join("..", "ope")} {
		files, err := filepath.Glob(filepath.Join(folder, "*.go"))
		require.NoError(t, err)
		for _, file := range files {
			source, err := os.ReadFile(file)
			require.NoError(t, err)
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			for _, sentinel := range matches(`(?m)^(?:\t|var )(Err[A-Z]\w* += \S+)`, string(source)) {
				sentinel, is, _ := strings.Cut(sentinel, " ")
				if name == "kms" && strings.HasPrefix(strings.TrimLeft(is, "= "), "fault.") {
					continue // package store has it, too
				}
				require.True(t, names[name+"."+sentinel], "%s.%s has no name", name, sentinel)
				found++
			}
		}
	}
	require.Equal(t, len(observe.ErrorNames)-2, found, "of which two are of package context")
	require.Equal(t, "_OTHER", observe.ErrorName(io.EOF))
	require.Equal(t, "context.Canceled", observe.ErrorName(fmt.Errorf("%w: %w", driver.ErrUnavailable, context.Canceled)))
	require.Equal(t, "driver.ErrUnavailable", observe.ErrorName(fmt.Errorf("%w: %w", context.DeadlineExceeded, driver.ErrUnavailable)))
}

// A span of a call lasts until it is over, and that of its scan with it, also if its caller panics.
func TestQueriesEndTheirSpans(t *testing.T) {
	ctx := context.Background()
	watch := newTelemetry()
	dir := t.TempDir()
	db, err := pebble.Open(dir, nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	st, err := Open(ctx, db, kms.NewLocal(testMaster), watch.options())
	require.NoError(t, err)
	tbl, err := st.Create(ctx, Schema{Name: "t", Key: []KeyPart{OrderedPart("id", Int64, MOPE)}, Columns: []Column{OrderedColumn("c", Int64, MOPE)}})
	require.NoError(t, err)
	var rows []Row
	for i := range 2000 {
		rows = append(rows, Row{"id": i, "c": i % 7})
	}
	require.NoError(t, tbl.Put(ctx, rows...))
	before := goleak.IgnoreCurrent()
	for _, where := range []Predicate{{}, Field[int64]("c").Equal(3), Field[int64]("c").AtLeast(2)} {
		for name, body := range map[string]func(n int, cancel func()) bool{
			"end":    func(int, func()) bool { return true },
			"break":  func(n int, _ func()) bool { return n < 40 },
			"panic":  func(n int, _ func()) bool { return n < 40 || panicking() },
			"cancel": func(_ int, cancel func()) bool { cancel(); return true },
		} {
			watch.spans.Reset()
			watch.begun.Store(0)
			func() {
				ctx, cancel := context.WithCancel(ctx)
				defer cancel()
				defer func() { require.Equal(t, name == "panic", recover() != nil) }()
				n := 0
				for _, err := range tbl.Query(ctx, Query{Where: where}) {
					if err != nil {
						require.ErrorIs(t, err, context.Canceled)
						return
					}
					if n++; !body(n, cancel) {
						break
					}
				}
			}()
			require.NoError(t, goleak.Find(before))
			spans := watch.spans.GetSpans()
			require.EqualValues(t, watch.begun.Load(), len(spans), name)
			require.Greater(t, len(spans), 1)
			calls := 0
			for _, s := range spans {
				if s.Name == "rangecrypt.query" {
					calls++
				} else {
					require.Equal(t, trace.SpanKindClient, s.SpanKind)
				}
			}
			require.Equal(t, 1, calls)
		}
	}
}

func panicking() bool { panic("of the caller") }

// A telemetry keeps all that a store emits.
type telemetry struct {
	begun atomic.Int64 // spans
	spans *tracetest.InMemoryExporter
	read  *sdkmetric.ManualReader
	log   lockedBuffer
}

func newTelemetry() *telemetry {
	return &telemetry{spans: tracetest.NewInMemoryExporter(), read: sdkmetric.NewManualReader()}
}

func (w *telemetry) OnStart(context.Context, sdktrace.ReadWriteSpan) { w.begun.Add(1) }
func (w *telemetry) OnEnd(sdktrace.ReadOnlySpan)                     {}
func (w *telemetry) Shutdown(context.Context) error                  { return nil }
func (w *telemetry) ForceFlush(context.Context) error                { return nil }

func (w *telemetry) options() *Options {
	return &Options{
		Logger:         slog.New(slog.NewTextHandler(&w.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		TracerProvider: sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(w), sdktrace.WithSyncer(w.spans)),
		MeterProvider:  sdkmetric.NewMeterProvider(sdkmetric.WithReader(w.read)),
	}
}

// metrics returns all metrics by name.
func (w *telemetry) metrics(t *testing.T) map[string]metricdata.Metrics {
	t.Helper()
	var all metricdata.ResourceMetrics
	require.NoError(t, w.read.Collect(context.Background(), &all))
	by := make(map[string]metricdata.Metrics)
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			by[m.Name] = m
		}
	}
	return by
}

// metricsText returns a line for each data point: the sum of a counter, or how many values a histogram has.
func (w *telemetry) metricsText(t *testing.T) string {
	t.Helper()
	var out strings.Builder
	for _, m := range w.metrics(t) {
		point := func(set attribute.Set, value any) {
			fmt.Fprintf(&out, "%s{%s} %v\n", m.Name, set.Encoded(attribute.DefaultEncoder()), value)
		}
		switch data := m.Data.(type) {
		case metricdata.Sum[int64]:
			for _, p := range data.DataPoints {
				point(p.Attributes, p.Value)
			}
		case metricdata.Histogram[int64]:
			for _, p := range data.DataPoints {
				point(p.Attributes, p.Count)
			}
		case metricdata.Histogram[float64]:
			for _, p := range data.DataPoints {
				point(p.Attributes, p.Count)
			}
		default:
			t.Fatalf("%s is a %T", m.Name, data)
		}
	}
	return out.String()
}

// spansText returns a line for each span, with everything in it.
func (w *telemetry) spansText() string {
	var out strings.Builder
	for _, s := range w.spans.GetSpans() {
		fmt.Fprintln(&out, s.Name, s.SpanKind, s.Status.Code, s.Status.Description, attributesText(s.Attributes), s.Events, s.Links, s.SpanContext.TraceState(), s.Resource)
	}
	return out.String()
}

func attributesText(kv []attribute.KeyValue) string {
	var out string
	for _, a := range kv {
		out += fmt.Sprintf("%s=%s ", a.Key, a.Value.String())
	}
	return out
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func (l *lockedBuffer) Reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.b.Reset()
}

// A call that is refused before it reads or writes is observed as any other that fails: one of a struct that does not fit
// any more, which somebody's change of the schema does to all calls of a program, or of a table whose tenant is not named.
func TestRefusedCallsAreObserved(t *testing.T) {
	type thing struct {
		ID int64 `rangecrypt:"id,key=1,hashed"`
		C  int64 `rangecrypt:"c"`
	}
	ctx, watch := context.Background(), newTelemetry()
	st, err := Open(ctx, drivertest.NewMemory(), kms.NewLocal(testMaster), watch.options())
	require.NoError(t, err)
	schema := Must(SchemaOf[thing]("t"))
	schema.Conditional = true
	Must(st.Create(ctx, schema))
	of := Must(For[thing](ctx, st, "t"))
	calls := func(of *TableOf[thing], x *thing) map[string][]func() error {
		first := func(q Query) error {
			for _, err := range of.Query(ctx, q) {
				return err
			}
			return nil
		}
		return map[string][]func() error{
			"put":    {func() error { return of.Put(ctx, x) }},
			"insert": {func() error { return of.Insert(ctx, x) }},
			"get": {
				func() error { _, err := of.Get(ctx, x); return err },
				func() error { _, err := of.GetBatch(ctx, x); return err },
			},
			"delete":    {func() error { return of.Delete(ctx, x) }},
			"update":    {func() error { return of.Update(ctx, x) }},
			"upsert":    {func() error { return of.Upsert(ctx, x) }},
			"update if": {func() error { return of.UpdateIf(ctx, x, x) }},
			"increment": {func() error { return of.Increment(ctx, x, "c", 1) }},
			"query":     {func() error { return first(Query{}) }},
			"page":      {func() error { _, _, err := of.Page(ctx, Query{Limit: 1}); return err }},
		}
	}
	observed := func(level string, kind error, calls map[string][]func() error, names ...string) {
		t.Helper()
		for name, all := range calls {
			if len(names) > 0 && !slices.Contains(names, name) {
				continue
			}
			for _, call := range all {
				watch.log.Reset()
				require.ErrorIs(t, call(), kind, name)
				lines := strings.Split(strings.TrimSpace(watch.log.String()), "\n")
				require.Len(t, lines, 1, "%s: %s", name, lines)
				if strings.Contains(name, " ") {
					name = strconv.Quote(name)
				}
				require.Contains(t, lines[0], "level="+level+" msg=\"an operation failed\" operation="+name+" ", name)
			}
		}
	}
	noTenant := schema
	noTenant.Name, noTenant.Tenants = "of tenants", true
	observed("DEBUG", ErrTenant, calls(&TableOf[thing]{Must(st.Create(ctx, noTenant)), of.fit.Other()}, &thing{}))
	observed("DEBUG", ErrColumn, calls(of, nil), "put", "insert", "get", "delete", "update", "upsert", "update if", "increment")
	require.NoError(t, of.Table().Upsert(ctx, Row{"id": 0}))
	observed("DEBUG", ErrNull, calls(of, &thing{}), "get", "query", "page")
	require.NoError(t, st.Alter(ctx, "t", RenameColumn("c", "d")))
	observed("WARN", ErrSchemaChanged, calls(of, &thing{}))
	require.Contains(t, watch.metricsText(t), "rangecrypt.operation.duration{error.type=store.ErrColumn,rangecrypt.operation=query} 1\n")
}
