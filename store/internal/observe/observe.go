// Package observe shows the outside what the store does: names of operations and families, counts and durations. It is
// never given a value, a key or a ciphertext.
package observe

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
)

const instrumentation = "github.com/rangecrypt/rangecrypt/store"

// An Observer records the operations of one store.
type Observer struct {
	kinds    Kinds
	logger   *slog.Logger
	tracer   trace.Tracer
	duration metric.Float64Histogram
	rows     metric.Int64Counter
}

// Kinds say which kind of error one is.
type Kinds struct {
	Retryable func(error) bool
	Mistake   func(error) bool // of the caller
}

// New returns an observer. A logger that is nil is none; providers that are nil are those of the process.
func New(kinds Kinds, logger *slog.Logger, tracers trace.TracerProvider, meters metric.MeterProvider) *Observer {
	o := &Observer{kinds: kinds, logger: logger}
	if o.logger == nil {
		o.logger = slog.New(slog.DiscardHandler)
	}
	if tracers == nil {
		tracers = otel.GetTracerProvider()
	}
	if meters == nil {
		meters = otel.GetMeterProvider()
	}
	o.tracer = tracers.Tracer(instrumentation)
	meter := meters.Meter(instrumentation)
	var err error
	o.duration, err = meter.Float64Histogram("rangecrypt.operation.duration", metric.WithUnit("s"),
		metric.WithDescription("Duration of operations on tables."))
	if err != nil {
		otel.Handle(err)
	}
	o.rows, err = meter.Int64Counter("rangecrypt.rows", metric.WithUnit("{row}"),
		metric.WithDescription("Rows that operations on tables wrote or returned."))
	if err != nil {
		otel.Handle(err)
	}
	return o
}

// Operation begins the span of an operation. The caller ends it with the error, and the number of
// rows that were written or returned all the same.
func (o *Observer) Operation(ctx context.Context, name, family string) (context.Context, func(rows int, err error)) {
	begin := time.Now()
	attributes := []attribute.KeyValue{attribute.String("rangecrypt.operation", name)}
	ctx, span := o.tracer.Start(ctx, "rangecrypt."+name, trace.WithSpanKind(trace.SpanKindClient),
		trace.WithAttributes(attribute.String("rangecrypt.family", family)))
	return ctx, func(rows int, err error) {
		if err != nil {
			// Errors hold no values. The text is still left out: the database's client wrote a
			// part of it.
			span.SetStatus(codes.Error, "")
		}
		span.SetAttributes(attribute.Int("rangecrypt.rows", rows), attribute.Bool("rangecrypt.retryable", o.kinds.Retryable(err)))
		span.End()
		set := metric.WithAttributes(append(attributes, attribute.Bool("error", err != nil))...)
		o.duration.Record(ctx, time.Since(begin).Seconds(), set)
		o.rows.Add(ctx, int64(rows), set)
		if err != nil {
			level := slog.LevelWarn
			if errors.Is(err, context.Canceled) || o.kinds.Mistake(err) {
				level = slog.LevelDebug // its caller wanted it, or is told what to mend: nothing is wrong with the database
			}
			o.logger.Log(ctx, level, "an operation failed", "operation", name, "family", family, "rows", rows,
				"retryable", o.kinds.Retryable(err), "error", err)
		}
	}
}

// Warn logs an event that the operation survives.
func (o *Observer) Warn(ctx context.Context, message, family string, err error) {
	o.logger.WarnContext(ctx, message, "family", family, "error", err)
}
