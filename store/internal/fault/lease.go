package fault

import (
	"errors"
	"fmt"
	"time"
)

// An Unwaited is the error of who has not waited until all leases of writers were over.
type Unwaited struct {
	Left time.Duration
	Err  error // why not

	made bool
}

func (e *Unwaited) Error() string {
	return fmt.Sprintf("the catalogue says so, but clients with a lease may write as before for another %v: %v", e.Left.Round(time.Millisecond), e.Err)
}
func (e *Unwaited) Unwrap() error { return e.Err }

// LeaseLeft returns how long leases last, and whether a change was made that was to be waited for. Commands ask for it.
func (e *Unwaited) LeaseLeft() (left time.Duration, made bool) { return e.Left, e.made }

// Made returns the error of waiting after a change that is made.
func Made(err error) error { return said(err, true) }

// Part returns the error of a change that is a part of a longer work, which is not done.
func Part(err error) error { return said(err, false) }

func said(err error, made bool) error {
	if unwaited := (*Unwaited)(nil); errors.As(err, &unwaited) {
		return &Unwaited{unwaited.Left, unwaited.Err, made}
	}
	return err
}
