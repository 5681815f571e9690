package observe

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/rangecrypt/rangecrypt/store/driver"
)

// Requests returns db with a span for each request that an operation makes of it, and with measurements. Where nobody
// listens to the operation, a request costs a look into its context. The result has the optional interfaces that db has, and is a [driver.Indexer] of what db has.
// No operation asks for the names of families.
func Requests(db driver.DB) driver.DB {
	d := &database{DB: db, of: driver.Describe(db)}
	if s, ok := db.(driver.Snapshotter); ok {
		return &snapshotter{d, s}
	}
	return d
}

// A request is one method of a family, or of the database, as the conventions describe it.
type request struct {
	span       string
	attributes []attribute.KeyValue
	measured   metric.MeasurementOption // the same attributes, for metrics
}

func newRequest(of driver.Description, method, family string) *request {
	r := &request{span: method + " " + family, attributes: []attribute.KeyValue{
		semconv.DBSystemNameKey.String(cmp.Or(of.System, "other")), semconv.DBOperationName(method), semconv.DBCollectionName(family),
	}}
	if of.Namespace != "" {
		r.attributes = append(r.attributes, semconv.DBNamespace(of.Namespace))
	}
	r.measured = metric.WithAttributeSet(attribute.NewSet(slices.Clone(r.attributes)...)) // which sorts them
	return r
}

// errUnfinished is the error of a request until it has another one, or none. A panic leaves it.
var errUnfinished = errors.New("the request did not come to an end")

// A running request is ended once.
type running struct {
	*call
	of    *request
	ctx   context.Context
	span  trace.Span
	since time.Time
}

// begin begins a request, of so many changes or rows where these are several.
func (c *call) begin(ctx context.Context, r *request, batch int) *running {
	run := &running{call: c, of: r, ctx: ctx, span: noop.Span{}, since: time.Now()}
	if c.traced {
		run.ctx, run.span = c.tracer.Start(ctx, r.span, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(r.attributes...))
		if batch > 1 {
			run.span.SetAttributes(semconv.DBOperationBatchSize(batch))
		}
	}
	return run
}

// end ends a request. Of one that does not read, rows is negative.
func (r *running) end(rows int, err error) {
	measured := r.of.measured
	if err != nil {
		measured = metric.WithAttributes(append(slices.Clip(r.of.attributes), r.failed(r.span, err))...)
	}
	if rows >= 0 {
		r.span.SetAttributes(semconv.DBResponseReturnedRows(rows))
		if err == nil {
			r.returned.Record(r.ctx, int64(rows), r.of.measured)
		}
	}
	r.span.End()
	r.requests.Record(r.ctx, time.Since(r.since).Seconds(), measured)
}

// do makes a request that does not read.
func do[T any](c *call, ctx context.Context, r *request, changes int, make func(context.Context) (T, error)) (result T, err error) {
	run := c.begin(ctx, r, changes)
	err = errUnfinished
	defer func() { run.end(-1, err) }()
	return make(run.ctx)
}

type database struct {
	driver.DB
	of driver.Description

	families sync.Map // from a name to its *requests
}

func (d *database) Describe() driver.Description { return d.of }

func (d *database) Family(ctx context.Context, spec driver.FamilySpec) (driver.Family, error) {
	return d.family(ctx, spec, d.DB.Family)
}

// family opens a family of the database, or of a snapshot.
func (d *database) family(ctx context.Context, spec driver.FamilySpec, open func(context.Context, driver.FamilySpec) (driver.Family, error)) (driver.Family, error) {
	opened := func(ctx context.Context) (driver.Family, error) {
		f, err := open(ctx, spec)
		if err != nil {
			return nil, err
		}
		return d.observed(f, spec.Name), nil
	}
	if c := callOf(ctx); c != nil {
		return do(c, ctx, newRequest(d.of, "Family", spec.Name), 1, opened)
	}
	return opened(ctx)
}

func (d *database) Drop(ctx context.Context, name string) error {
	defer d.families.Delete(name) // which no later table has
	if c := callOf(ctx); c != nil {
		_, err := do(c, ctx, newRequest(d.of, "Drop", name), 1, func(ctx context.Context) (struct{}, error) {
			return struct{}{}, d.DB.Drop(ctx, name)
		})
		return err
	}
	return d.DB.Drop(ctx, name)
}

// AddIndex fails if the database is no [driver.Indexer].
func (d *database) AddIndex(ctx context.Context, spec driver.FamilySpec, name string) error {
	return d.index(ctx, "AddIndex", spec, name, driver.AddIndex)
}

func (d *database) DropIndex(ctx context.Context, spec driver.FamilySpec, name string) error {
	return d.index(ctx, "DropIndex", spec, name, driver.DropIndex)
}

func (d *database) index(ctx context.Context, method string, spec driver.FamilySpec, name string, change func(context.Context, driver.DB, driver.FamilySpec, string) error) error {
	if c := callOf(ctx); c != nil {
		_, err := do(c, ctx, newRequest(d.of, method, spec.Name), 1, func(ctx context.Context) (struct{}, error) {
			return struct{}{}, change(ctx, d.DB, spec, name)
		})
		return err
	}
	return change(ctx, d.DB, spec, name)
}

type snapshotter struct {
	*database
	db driver.Snapshotter
}

// Snapshot has no context, so it is no request of a call. The requests of the snapshot are.
func (s *snapshotter) Snapshot() (driver.Snapshot, error) {
	taken, err := s.db.Snapshot()
	if err != nil {
		return nil, err
	}
	return &snapshot{taken, s.database}, nil
}

type snapshot struct {
	driver.Snapshot
	db *database
}

// A snapshot and its families are of one call. If nobody listens to that, they are what the database returns.
func (s *snapshot) Family(ctx context.Context, spec driver.FamilySpec) (driver.Family, error) {
	if callOf(ctx) == nil {
		return s.Snapshot.Family(ctx, spec)
	}
	return s.db.family(ctx, spec, s.Snapshot.Family)
}

// requests are those of a family of one name. They are made ready once, when somebody listens.
type requests struct {
	get, getBatch, scan, apply, replace, checkAndPut, commit, putGuarded *request
}

func (d *database) requests(name string) *requests {
	if r, ok := d.families.Load(name); ok {
		return r.(*requests)
	}
	of := func(method string) *request { return newRequest(d.of, method, name) }
	r := &requests{of("Get"), of("GetBatch"), of("Scan"), of("Apply"), of("Replace"), of("CheckAndPut"), of("Commit"), of("PutGuarded")}
	d.families.Store(name, r)
	return r
}

func (d *database) observed(f driver.Family, name string) driver.Family {
	w := &family{f, d, name}
	if c, ok := f.(driver.Committer); ok {
		return &committer{w, c}
	}
	if g, ok := f.(driver.Guarder); ok {
		return &guarder{w, g}
	}
	return w
}

type family struct {
	driver.Family
	db   *database
	name string
}

func (f *family) requests() *requests { return f.db.requests(f.name) }

func (f *family) Get(ctx context.Context, row []byte, s driver.Slice) ([]driver.Cell, error) {
	if c := callOf(ctx); c != nil {
		return f.observedGet(ctx, c, row, s)
	}
	return f.Family.Get(ctx, row, s)
}

func (f *family) observedGet(ctx context.Context, c *call, row []byte, s driver.Slice) (cells []driver.Cell, err error) {
	run := c.begin(ctx, f.requests().get, 1)
	err = errUnfinished
	defer func() { run.end(min(1, len(cells)), err) }()
	return f.Family.Get(run.ctx, row, s)
}

func (f *family) GetBatch(ctx context.Context, rows [][]byte, s driver.Slice) ([][]driver.Cell, error) {
	if c := callOf(ctx); c != nil {
		return f.observedGetBatch(ctx, c, rows, s)
	}
	return f.Family.GetBatch(ctx, rows, s)
}

func (f *family) observedGetBatch(ctx context.Context, c *call, rows [][]byte, s driver.Slice) (found [][]driver.Cell, err error) {
	run := c.begin(ctx, f.requests().getBatch, len(rows))
	err = errUnfinished
	defer func() {
		n := 0
		for _, cells := range found {
			n += min(1, len(cells))
		}
		run.end(n, err)
	}()
	return f.Family.GetBatch(run.ctx, rows, s)
}

func (f *family) Scan(ctx context.Context, r driver.Range) iter.Seq2[driver.Row, error] {
	if c := callOf(ctx); c != nil {
		return f.observedScan(ctx, c, r)
	}
	return f.Family.Scan(ctx, r)
}

// observedScan lasts from the first row that is asked for to the last, or until the caller stops.
func (f *family) observedScan(ctx context.Context, c *call, r driver.Range) iter.Seq2[driver.Row, error] {
	return func(yield func(driver.Row, error) bool) {
		run := c.begin(ctx, f.requests().scan, 1)
		rows, err := 0, errUnfinished
		defer func() { run.end(rows, err) }()
		for row, failed := range f.Family.Scan(run.ctx, r) {
			if err = failed; err == nil {
				rows++
			}
			// Whatever the caller does with the row, the scan has not failed.
			if !yield(row, err) || err != nil {
				return
			}
			err = errUnfinished
		}
		err = nil
	}
}

func (f *family) Apply(ctx context.Context, mutations ...driver.Mutation) error {
	c := callOf(ctx)
	if c == nil {
		return f.Family.Apply(ctx, mutations...)
	}
	_, err := do(c, ctx, f.requests().apply, len(mutations), func(ctx context.Context) (struct{}, error) {
		return struct{}{}, f.Family.Apply(ctx, mutations...)
	})
	return err
}

func (f *family) Replace(ctx context.Context, replacements ...driver.Replacement) ([]int, error) {
	c := callOf(ctx)
	if c == nil {
		return f.Family.Replace(ctx, replacements...)
	}
	request := f.requests().replace
	late, err := do(c, ctx, request, len(replacements), func(ctx context.Context) ([]int, error) {
		return f.Family.Replace(ctx, replacements...)
	})
	if len(late) > 0 {
		c.lost.Add(ctx, int64(len(late)), request.measured)
	}
	return late, err
}

func (f *family) CheckAndPut(ctx context.Context, row []byte, expect driver.Cell, puts ...driver.Cell) (bool, error) {
	c := callOf(ctx)
	if c == nil {
		return f.Family.CheckAndPut(ctx, row, expect, puts...)
	}
	return c.conditional(ctx, f.requests().checkAndPut, func(ctx context.Context) (bool, error) {
		return f.Family.CheckAndPut(ctx, row, expect, puts...)
	})
}

type committer struct {
	*family
	conditions driver.Committer
}

func (f *committer) Commit(ctx context.Context, row []byte, expect, puts []driver.Cell, deletes [][]byte) (bool, error) {
	c := callOf(ctx)
	if c == nil {
		return f.conditions.Commit(ctx, row, expect, puts, deletes)
	}
	return c.conditional(ctx, f.requests().commit, func(ctx context.Context) (bool, error) {
		return f.conditions.Commit(ctx, row, expect, puts, deletes)
	})
}

type guarder struct {
	*family
	guards driver.Guarder
}

func (f *guarder) PutGuarded(ctx context.Context, row []byte, guard driver.Guard, puts ...driver.Cell) (bool, error) {
	c := callOf(ctx)
	if c == nil {
		return f.guards.PutGuarded(ctx, row, guard, puts...)
	}
	return c.conditional(ctx, f.requests().putGuarded, func(ctx context.Context) (bool, error) {
		return f.guards.PutGuarded(ctx, row, guard, puts...)
	})
}

// conditional makes a change that is made only if nobody else was faster.
func (c *call) conditional(ctx context.Context, r *request, make func(context.Context) (bool, error)) (bool, error) {
	made, err := do(c, ctx, r, 1, make)
	if !made && err == nil {
		c.lost.Add(ctx, 1, r.measured)
	}
	return made, err
}
