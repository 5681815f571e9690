// Package pause waits, and never longer than a context lives. It also lets who began a call know what is repeated in it.
package pause

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"sync/atomic"
	"time"
)

// For waits for d. If the context ends first, it returns at once with [Ended].
func For(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return Ended(ctx)
	}
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return Ended(ctx)
	}
}

// Within returns what do returns, or the error of a context that ends before. That ends the waiting, not what do does.
func Within[T any](ctx context.Context, do func() (T, error)) (result T, inTime bool, err error) {
	type answer struct {
		result T
		err    error
	}
	answered := make(chan answer, 1)
	go func() {
		result, err := do()
		answered <- answer{result, err}
	}()
	select {
	case a := <-answered:
		return a.result, true, a.err
	case <-ctx.Done():
		return result, false, ctx.Err()
	}
}

// Ended returns nil while the context lives, and then its error. It wraps the cause as well, where one was given.
func Ended(ctx context.Context) error {
	err := ctx.Err()
	if cause := context.Cause(ctx); err != nil && cause != err {
		return fmt.Errorf("%w: %w", err, cause)
	}
	return err
}

// Outlasting returns a context that ends some time after another one, so that what is begun is brought to its end.
func Outlasting(ctx context.Context, by time.Duration) (context.Context, context.CancelFunc) {
	until, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(by, cancel) })
	return until, func() { stop(); cancel() }
}

type counter struct{}

// Counting returns a context of which count learns each repetition: why something is done once more.
func Counting(ctx context.Context, count func(ctx context.Context, why string)) context.Context {
	return context.WithValue(ctx, counter{}, count)
}

// Noting returns a context and what says whether something was repeated under it, of which who counts learns as before.
func Noting(ctx context.Context) (noting context.Context, repeated func() bool) {
	var noted atomic.Bool
	count, counts := ctx.Value(counter{}).(func(context.Context, string))
	return Counting(ctx, func(ctx context.Context, why string) {
		if noted.Store(true); counts {
			count(ctx, why)
		}
	}), noted.Load
}

// Repeats says that something is done once more, and why. The reason is a constant: it becomes an attribute of a metric.
func Repeats(ctx context.Context, why string) {
	if count, ok := ctx.Value(counter{}).(func(context.Context, string)); ok {
		count(ctx, why)
	}
}

// Again waits before attempt n+1, as long as [Grown] says, and says why there is one.
func Again(ctx context.Context, why string, first, most time.Duration, n int) error {
	if err := For(ctx, Grown(first, most, n)); err != nil {
		return err
	}
	Repeats(ctx, why)
	return nil
}

// Grown returns how long to wait before attempt n+1, where n counts from 0. The wait doubles from first up to most.
// Its second half is random, so that clients in each other's way part.
func Grown(first, most time.Duration, n int) time.Duration {
	d := first
	for ; n > 0 && d < most; n-- {
		d *= 2
	}
	d = min(d, most)
	var random [8]byte
	rand.Read(random[:]) // never fails; a test can repeat what crypto/rand returns, but not what math/rand does
	return d - time.Duration(binary.BigEndian.Uint64(random[:])%uint64(d/2+1))
}
