// Package observe shows the outside what the store does: names of operations and families, counts and durations. It is
// never given a value, a key or a ciphertext. Names are those of OpenTelemetry's conventions for databases, and begin with
// "rangecrypt." where these have none.
package observe

import (
	"context"
	"errors"
	"log/slog"
	"regexp"
	"strings"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/semconv/v1.43.0/dbconv"
	"go.opentelemetry.io/otel/trace"

	"github.com/rangecrypt/rangecrypt/internal/pause"
)

const instrumentation = "github.com/rangecrypt/rangecrypt/store"

// Attributes that the conventions have no name for.
const (
	operationKey = attribute.Key("rangecrypt.operation")
	rowsKey      = attribute.Key("rangecrypt.rows")
	retriesKey   = attribute.Key("rangecrypt.retries")
	retryableKey = attribute.Key("rangecrypt.retryable")
	reasonKey    = attribute.Key("rangecrypt.retry.reason")
)

// Boundaries of histograms, as the conventions recommend them.
var (
	secondsBounds = []float64{0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10}
	rowsBounds    = []float64{1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000}
)

// An Observer records the operations of one store, and the requests that they make.
type Observer struct {
	logger *slog.Logger
	tracer trace.Tracer

	operations metric.Float64Histogram // seconds
	rows       metric.Int64Counter
	retries    metric.Int64Counter
	lost       metric.Int64Counter
	requests   metric.Float64Histogram // seconds
	returned   metric.Int64Histogram   // rows
}

// New returns an observer. A logger that is nil is none; providers that are nil are those of the process.
func New(logger *slog.Logger, tracers trace.TracerProvider, meters metric.MeterProvider) *Observer {
	o := &Observer{logger: logger}
	if o.logger == nil {
		o.logger = slog.New(slog.DiscardHandler)
	}
	if tracers == nil {
		tracers = otel.GetTracerProvider()
	}
	if meters == nil {
		meters = otel.GetMeterProvider()
	}
	o.tracer = tracers.Tracer(instrumentation, trace.WithSchemaURL(semconv.SchemaURL))
	meter := meters.Meter(instrumentation, metric.WithSchemaURL(semconv.SchemaURL))
	handle := func(err error) {
		if err != nil {
			otel.Handle(err)
		}
	}
	counter := func(name, unit, description string) metric.Int64Counter {
		c, err := meter.Int64Counter(name, metric.WithUnit(unit), metric.WithDescription(description))
		handle(err)
		return c
	}
	o.rows = counter("rangecrypt.rows", "{row}", "Rows that calls wrote or returned which did not fail.")
	o.retries = counter("rangecrypt.retries", "{retry}", "Repetitions within calls.")
	o.lost = counter("rangecrypt.changes.lost", "{change}", "Changes that were refused because somebody else made one first.")
	var err error
	o.operations, err = meter.Float64Histogram("rangecrypt.operation.duration", metric.WithUnit("s"),
		metric.WithDescription("Duration of calls of the library."), metric.WithExplicitBucketBoundaries(secondsBounds...))
	handle(err)
	requests, err := dbconv.NewClientOperationDuration(meter, metric.WithExplicitBucketBoundaries(secondsBounds...))
	handle(err)
	returned, err := dbconv.NewClientResponseReturnedRows(meter, metric.WithExplicitBucketBoundaries(rowsBounds...))
	handle(err)
	o.requests, o.returned = requests.Inst(), returned.Inst()
	return o
}

// metered reports whether somebody listens to a metric.
func (o *Observer) metered(ctx context.Context) bool {
	return o.operations.Enabled(ctx) || o.rows.Enabled(ctx) || o.retries.Enabled(ctx) || o.lost.Enabled(ctx) ||
		o.requests.Enabled(ctx) || o.returned.Enabled(ctx)
}

// A call is an operation that somebody listens to. Its context carries it to the requests that it makes.
type call struct {
	*Observer
	name    attribute.KeyValue
	traced  bool
	retries atomic.Int64
}

type callKey struct{}

// callOf returns the call that a context is of, or nil if nobody listens.
func callOf(ctx context.Context) *call {
	c, _ := ctx.Value(callKey{}).(*call)
	return c
}

func (c *call) repeats(ctx context.Context, why string) {
	c.retries.Add(1)
	c.Observer.retries.Add(ctx, 1, metric.WithAttributes(c.name, reasonKey.String(why)))
}

// Operation begins the span of an operation. The caller ends it with the error, and the number of
// rows that are known to have been written or returned.
func (o *Observer) Operation(ctx context.Context, name, family string) (context.Context, func(rows int, err error)) {
	begin := time.Now()
	outside := trace.SpanContextFromContext(ctx).SpanID()
	operation := operationKey.String(name)
	attributes := []attribute.KeyValue{operation, semconv.DBCollectionName(family)}
	if family == "" {
		attributes = attributes[:1]
	}
	inside, span := o.tracer.Start(ctx, "rangecrypt."+name, trace.WithAttributes(attributes...))
	// A tracer that nobody listens to makes no ids. One that samples makes them for what it drops, too.
	traced := span.IsRecording() || span.SpanContext().SpanID() != outside
	var c *call
	if traced {
		ctx = inside
	}
	if traced || o.metered(ctx) {
		c = &call{Observer: o, name: operation, traced: traced}
		ctx = pause.Counting(context.WithValue(ctx, callKey{}, c), c.repeats)
	}
	return ctx, func(rows int, err error) {
		if c != nil {
			c.end(ctx, span, time.Since(begin), rows, err)
		}
		if err != nil {
			level := slog.LevelWarn
			if errors.Is(err, context.Canceled) || isMistake(err) {
				level = slog.LevelDebug // its caller wanted it, or is told what to mend: nothing is wrong with the database
			}
			o.logger.Log(ctx, level, "an operation failed", "operation", name, "family", family, "rows", rows,
				"retryable", Retryable(err), "error", withoutNames{err, context.Cause(ctx)})
		}
	}
}

func (c *call) end(ctx context.Context, span trace.Span, took time.Duration, rows int, err error) {
	set := []attribute.KeyValue{c.name}
	if err != nil {
		set = append(set, c.failed(span, err))
		span.SetAttributes(retryableKey.Bool(Retryable(err)))
	} else {
		c.rows.Add(ctx, int64(rows), metric.WithAttributes(c.name))
	}
	span.SetAttributes(rowsKey.Int(rows), retriesKey.Int64(c.retries.Load()))
	span.End()
	c.operations.Record(ctx, took.Seconds(), metric.WithAttributes(set...))
}

// failed gives a span the status of an error, and returns its type. Errors hold no values. The text is still left out: the
// database's client wrote a part of it.
func (o *Observer) failed(span trace.Span, err error) attribute.KeyValue {
	kind := semconv.ErrorTypeKey.String(ErrorName(err))
	span.SetStatus(codes.Error, "")
	span.SetAttributes(kind)
	return kind
}

// Warn logs an event that the operation survives.
func (o *Observer) Warn(ctx context.Context, message, family string, err error) {
	o.logger.WarnContext(ctx, message, "family", family, "error", withoutNames{err, context.Cause(ctx)})
}

// quoted is a string as the verb %q prints it.
var quoted = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)

// withoutNames is an error of which a log has the text without the names of tables, columns and tenants, which are quoted,
// and without what a caller gave as the cause by which its context ended: that may have anything.
type withoutNames struct{ err, cause error }

func (w withoutNames) LogValue() slog.Value {
	text := w.err.Error()
	if w.cause != nil && w.cause != context.Canceled && w.cause != context.DeadlineExceeded && w.cause.Error() != "" {
		text = strings.ReplaceAll(text, w.cause.Error(), `"..."`)
	}
	return slog.StringValue(quoted.ReplaceAllLiteralString(text, `"..."`))
}
