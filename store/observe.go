package store

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

// observer shows the outside what the store does: names of operations and families, counts and
// durations. It is never given a value, a key or a ciphertext.
type observer struct {
	logger   *slog.Logger
	tracer   trace.Tracer
	duration metric.Float64Histogram
	rows     metric.Int64Counter
}

func newObserver(opts *Options) *observer {
	o := &observer{logger: opts.Logger}
	if o.logger == nil {
		o.logger = slog.New(slog.DiscardHandler)
	}
	tracers, meters := opts.TracerProvider, opts.MeterProvider
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

// operation begins the span of an operation. The caller ends it with the error, and the number of
// rows that were written or returned all the same.
func (o *observer) operation(ctx context.Context, name, family string) (context.Context, func(rows int, err error)) {
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
		span.SetAttributes(attribute.Int("rangecrypt.rows", rows), attribute.Bool("rangecrypt.retryable", Retryable(err)))
		span.End()
		set := metric.WithAttributes(append(attributes, attribute.Bool("error", err != nil))...)
		o.duration.Record(ctx, time.Since(begin).Seconds(), set)
		o.rows.Add(ctx, int64(rows), set)
		if err != nil {
			level := slog.LevelWarn
			if errors.Is(err, context.Canceled) || isCallersMistake(err) {
				level = slog.LevelDebug // its caller wanted it, or is told what to mend: nothing is wrong with the database
			}
			o.logger.Log(ctx, level, "an operation failed", "operation", name, "family", family, "rows", rows,
				"retryable", Retryable(err), "error", err)
		}
	}
}

// written returns how many of n rows a call wrote for certain, as its error says.
func written(n int, err error) int {
	if failed := (*BatchError)(nil); errors.As(err, &failed) {
		return n - len(failed.Failed)
	}
	if err != nil {
		return 0
	}
	return n
}

// warn logs an event that the operation survives.
func (o *observer) warn(ctx context.Context, message, family string, err error) {
	o.logger.WarnContext(ctx, message, "family", family, "error", err)
}
