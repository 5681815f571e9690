package main

import (
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/rangecrypt/rangecrypt/cmd/opebench/internal/bench"
)

// newProgress returns a bar on a terminal, and nil elsewhere.
func newProgress(e *env) bench.Progress {
	if !e.progress {
		return nil
	}
	return &bar{env: e}
}

type bar struct {
	env *env
	pb  *progressbar.ProgressBar
}

func (b *bar) Start(phase string, total int) {
	b.pb = progressbar.NewOptions(total,
		progressbar.OptionSetWriter(b.env.stderr),
		progressbar.OptionSetDescription(phase),
		progressbar.OptionShowCount(),
		progressbar.OptionShowIts(),
		progressbar.OptionSetWidth(20),
		progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionSetPredictTime(total > 0),
		progressbar.OptionClearOnFinish(),
		progressbar.OptionSetTheme(progressbar.ThemeASCII),
	)
}

// A bar that cannot be drawn must not stop a measurement.

func (b *bar) Add(n int) { _ = b.pb.Add(n) }
func (b *bar) Done()     { _ = b.pb.Clear() }
