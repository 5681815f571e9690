package report

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/cmd/internal/lab/repro/experiment"
	"github.com/rangecrypt/rangecrypt/internal/cli/draw"
	"github.com/rangecrypt/rangecrypt/internal/cli/show"
)

// page has a figure of each sort: curves, panels, boxes, a table alone, one that ended early and one that was not measured.
func page() Page {
	p := Page{Env: figure().Env, Command: "opebench repro all --quick", Store: "embedded store", Seed: 7, Quick: true, Took: 61 * time.Second}
	add := func(name string, f Figure) *PageFigure {
		f.Figure.Name, f.Figure.About = name, "what "+name+" shows"
		p.Figures = append(p.Figures, PageFigure{Figure: f, Command: "opebench repro " + name, Took: time.Second})
		return &p.Figures[len(p.Figures)-1]
	}
	add("curves", figure())
	add("table", tableFigure())
	panels := figure()
	panels.Curves = []experiment.Curve{
		{Name: "read, ours", Kin: "ours", Panel: "read", Points: []experiment.Point{{X: 1, Y: 2}, {X: 2, Y: 3}}},
		{Name: "write, ours", Kin: "ours", Panel: "write", Points: []experiment.Point{{X: 1, Y: 2}, {X: 2, Y: 3}}},
	}
	add("panels", panels)
	boxes := figure()
	boxes.Curves, boxes.Y, boxes.Boxes = nil, "ms", []experiment.Box{{Group: "SELECT", Name: "plain", Values: []float64{1, 2, 3}}}
	add("boxes", boxes)
	bars := figure()
	bars.Curves, bars.Bars = nil, []experiment.Bar{{Group: "Payment", Name: "UPDATE", Y: 1, Low: 0.5, High: 2}}
	bars.More = tableFigure().Table
	add("bars", bars)
	words := tableFigure()
	words.Curves = nil
	words.Title = `<script>alert("x")</script> & co`
	add("words", words).Failed = "interrupted"
	lost := figure()
	lost.Result = nil
	add("lost", lost).Failed = "the store is <away>"
	return p
}

func html(t *testing.T, p Page) string {
	t.Helper()
	var b strings.Builder
	require.NoError(t, HTML(&b, p))
	return b.String()
}

// The page needs no other file, says what was measured by what, and nothing of it is taken for markup.
func TestPage(t *testing.T) {
	text := html(t, page())
	for _, want := range []string{
		"opebench repro all --quick", "opebench repro curves", "seed 7", "in 1m1s", "go1.26", "2 cores", "v0.0.0", "2023-11-14 22:13 UTC",
		`href="#curves"`, `<section id="curves">`, "what table shows", "After Waage et al. 2016, figure 9.",
		"4 hold, 4 differ, 2 are unclear", "1.25 (1.20-1.30)", "these are quick runs", "Things of 10,000 values",
		"&lt;script&gt;alert(&#34;x&#34;)&lt;/script&gt; &amp; co", "It ended early: interrupted", "It was not measured: the store is &lt;away&gt;",
		"<figcaption>read</figcaption>", "<figcaption>write</figcaption>", "prefers-color-scheme: dark",
	} {
		require.True(t, strings.Contains(strings.ToLower(text), strings.ToLower(want)), want)
	}
	for _, bad := range []string{"<script", "src=", "url(", "@import", "<link", "ZgotmplZ", "<away>"} {
		require.False(t, strings.Contains(text, bad), bad)
	}
	for _, address := range regexp.MustCompile(`https?://[^"<) ]*`).FindAllString(text, -1) {
		require.Contains(t, []string{"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}, address, "something else is loaded")
	}
	require.Equal(t, 7, strings.Count(text, "<section"))
	require.False(t, strings.Contains(html(t, Page{}), "quick runs"))
}

// Every drawing is well formed, scales with the page, and takes all its colours from it.
func TestDrawingsOfPages(t *testing.T) {
	drawings := regexp.MustCompile(`(?s)<svg role.*?</svg>`).FindAllString(html(t, page()), -1)
	require.Len(t, drawings, 6) // a picture of panels has one for each
	for _, svg := range drawings {
		require.NoError(t, xml.Unmarshal([]byte(svg), new(struct{})))
		require.Contains(t, svg, "viewBox")
		require.Regexp(t, `aria-label="[^"]+"`, svg)
		require.NotRegexp(t, `#[0-9A-Fa-f]{6}`, svg)
		require.NotContains(t, svg, "font-family")
		require.NotRegexp(t, `^<svg[^>]* (width|height)=`, svg)
	}
}

// All colours that curves have are given for light and for dark pages, and no two are the same.
func TestColoursOfPages(t *testing.T) {
	light, dark := make(map[string]bool), make(map[string]bool)
	for _, c := range draw.Colours() {
		require.False(t, light[c.Light], c.Light)
		light[c.Light] = true
		require.Regexp(t, `^#[0-9a-f]{6}$`, c.Dark)
		dark[c.Dark] = true
	}
	require.Len(t, dark, len(light))
	for _, c := range draw.Palette {
		require.Regexp(t, `^var\(--(series-[0-9]|ink)\)$`, draw.Property(c))
	}
	legend := legendOf([]experiment.Curve{{Name: "none", Kin: "none"}, {Name: "best", Kin: "k"}, {Name: "worst", Kin: "k"}, {Name: "paper", Paper: true}})
	require.Equal(t, legend[1].Colour, legend[2].Colour)
	require.NotEqual(t, legend[1].Dashes, legend[2].Dashes)
	require.NotEqual(t, legend[0].Colour, legend[1].Colour)
	require.True(t, legend[3].Point)
}

// Who reads a run that was short, or ended early, is told.
func TestShortRuns(t *testing.T) {
	p := page()
	p.Of = len(p.Figures)
	var whole, ended bytes.Buffer
	require.NoError(t, HTML(&whole, p))
	require.NotContains(t, whole.String(), "The run ended after")
	p.Of += 21
	require.NoError(t, HTML(&ended, p))
	require.Contains(t, ended.String(), fmt.Sprintf("The run ended after %d of %d figures.", len(p.Figures), p.Of))

	for _, quick := range []bool{false, true} {
		for _, unclear := range []bool{false, true} {
			f := figure()
			f.Quick, f.Findings = quick, []experiment.Finding{{Unclear: unclear, Text: "x"}}
			var text bytes.Buffer
			require.NoError(t, FigureTable(&text, f, show.Style{Width: 80}))
			require.Equal(t, quick && unclear, strings.Contains(text.String(), "A quick run has few repetitions"))
		}
	}
}
