package lab

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/cmd/internal/lab/repro/experiment"
	"github.com/rangecrypt/rangecrypt/internal/cli"
	"github.com/rangecrypt/rangecrypt/internal/cli/exit"
)

// threeFigures are one that is measured, one that fails, and one that is interrupted after half of it where stop is not nil.
func threeFigures(stop func()) []experiment.Figure {
	result := func(what string) *experiment.Result {
		return &experiment.Result{
			Title: what, Runs: 1, X: "n", Y: "s",
			Curves:   []experiment.Curve{{Name: "ours", Points: []experiment.Point{{X: 1, Y: 1}, {X: 2, Y: 2}}}},
			Findings: []experiment.Finding{{Holds: true, Text: "It " + what + "."}},
		}
	}
	figure := func(name string, run func(context.Context) (*experiment.Result, error)) experiment.Figure {
		return experiment.Figure{Name: name, About: "about " + name, Source: "a paper", Drawn: true, Run: func(ctx context.Context, _ experiment.Config) (*experiment.Result, error) { return run(ctx) }}
	}
	return []experiment.Figure{
		figure("one", func(context.Context) (*experiment.Result, error) { return result("goes up"), nil }),
		figure("two", func(context.Context) (*experiment.Result, error) { return nil, errors.New("no room") }),
		figure("three", func(ctx context.Context) (*experiment.Result, error) {
			if stop != nil {
				stop()
			}
			return result("goes down"), ctx.Err()
		}),
		figure("four", func(context.Context) (*experiment.Result, error) { return result("stays"), nil }),
	}
}

// together runs all figures of a list, and returns what was printed, the page, and the error.
func together(t *testing.T, ctx context.Context, figures []experiment.Figure, jsonLines bool) (out, page string, err error) {
	t.Helper()
	var printed strings.Builder
	name := filepath.Join(t.TempDir(), "page.html")
	e := &cli.Env{Stdout: &printed, Stderr: &strings.Builder{}}
	cmd := newRepro(e)
	require.NoError(t, cmd.ParseFlags([]string{"--quick", "--html", name}))
	r := &reproduction{reproOptions: &reproOptions{figure: allFigures, quick: true, seed: 1, json: jsonLines, html: name, flags: cmd.Flags()}, env: e}
	require.NoError(t, r.files())
	defer r.discard()
	err = r.measureAll(ctx, figures)
	text, readErr := os.ReadFile(name)
	require.NoError(t, readErr)
	return printed.String(), string(text), err
}

// A figure that fails is no end of the others, and is an error in the end.
func TestAllFigures(t *testing.T) {
	out, page, err := together(t, context.Background(), threeFigures(nil), false)
	require.EqualError(t, err, "two: no room")
	require.Contains(t, out, "one (1 of 4): about one\ngoes up (seed 1)\n")
	require.Contains(t, out, "four (4 of 4): about four\n")
	require.Contains(t, out, "4 figures; statements: 3 HOLDS, 0 DIFFERS, 0 UNCLEAR; ")
	for _, want := range []string{"goes up", "goes down", "stays", "It was not measured: two: no room", "opebench repro one --quick<"} {
		require.Contains(t, page, want)
	}
	out, _, err = together(t, context.Background(), threeFigures(nil), true)
	require.Error(t, err)
	for line := range strings.Lines(out) {
		require.True(t, strings.HasPrefix(line, "{"), line)
	}
	require.Equal(t, 3, strings.Count(out, `{"record":"figure"`))
}

// Whoever interrupts it has a page of what there was.
func TestInterruptedFigures(t *testing.T) {
	ctx, stop := context.WithCancel(context.Background())
	out, page, err := together(t, ctx, threeFigures(stop), false)
	require.ErrorIs(t, err, exit.ErrInterrupted)
	require.Contains(t, out, "3 of 4 figures; statements: 2 HOLDS")
	require.Contains(t, page, "It ended early: interrupted")
	require.NotContains(t, page, "about four")
	require.NotContains(t, page, "Database", "nothing was measured in one")

	// Also between two figures.
	ctx, stop = context.WithCancel(context.Background())
	figures := threeFigures(nil)
	last := figures[0].Run
	figures[0].Run = func(ctx context.Context, cfg experiment.Config) (*experiment.Result, error) {
		stop()
		return last(ctx, cfg)
	}
	_, page, err = together(t, ctx, figures, false)
	require.ErrorIs(t, err, exit.ErrInterrupted)
	require.Contains(t, page, "goes up")
	require.NotContains(t, page, "about two")
}

// Where nothing was measured, a page of an earlier run is not replaced.
func TestNoFigureNoPage(t *testing.T) {
	name := filepath.Join(t.TempDir(), "page.html")
	require.NoError(t, os.WriteFile(name, []byte("earlier"), 0o600))
	r := &reproduction{reproOptions: &reproOptions{figure: "two", html: name, flags: newRepro(&cli.Env{}).Flags()}, env: &cli.Env{Stdout: io.Discard, Stderr: io.Discard}}
	require.NoError(t, r.files())
	defer r.discard()
	require.EqualError(t, r.measureAll(context.Background(), threeFigures(nil)[1:2]), "two: no room")
	page, err := os.ReadFile(name)
	require.NoError(t, err)
	require.Equal(t, "earlier", string(page))
}

// A page is written also when nobody reads on.
func TestPageWithoutReaders(t *testing.T) {
	name := filepath.Join(t.TempDir(), "page.html")
	e := &cli.Env{Stdout: closed{}, Stderr: &strings.Builder{}}
	cmd := newRepro(e)
	require.NoError(t, cmd.ParseFlags([]string{"--html", name}))
	r := &reproduction{reproOptions: &reproOptions{figure: "one", html: name, flags: cmd.Flags()}, env: e}
	require.NoError(t, r.files())
	defer r.discard()
	require.ErrorIs(t, r.measureAll(context.Background(), threeFigures(nil)), io.ErrClosedPipe)
	page, err := os.ReadFile(name)
	require.NoError(t, err)
	require.Contains(t, string(page), "goes up")
}

// closed is what nobody reads.
type closed struct{}

func (closed) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }
