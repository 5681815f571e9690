// Package pause waits, and never longer than a context lives.
package pause

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"time"
)

// For waits for d. If the context ends first, it returns at once with [Ended].
func For(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return Ended(ctx)
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return Ended(ctx)
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
