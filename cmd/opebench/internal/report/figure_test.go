package report

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"image/png"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/cmd/opebench/internal/repro"
)

func figure() Figure {
	return Figure{
		Env:    Environment{Version: "v0.0.0", Go: "go1.26", OS: "linux", Arch: "amd64", Cores: 2, Time: time.Unix(1_700_000_000, 0).UTC()},
		Figure: repro.Figure{Name: "waage-fig9", Source: "Waage et al. 2016, figure 9"},
		Seed:   7,
		Result: &repro.Result{
			Title: "Things of 10,000 values", X: "number of values", Y: "things", Runs: 3, Marks: []float64{1, 10_000},
			Curves: []repro.Curve{
				{Name: "ours", Points: []repro.Point{{X: 1, Y: 42.51}, {X: 5000, Y: 25}, {X: 10_000, Y: 22}}},
				{Name: "theirs", Points: []repro.Point{{X: 10_000, Y: 186_287}}, Paper: true},
			},
			Findings: []repro.Finding{
				{Holds: true, Text: "The paper: it falls. Here it falls, too."},
				{Text: "The paper: 186,287 things. Here they are 22, for reasons that take more than one line of a terminal to tell."},
			},
		},
	}
}

func TestFigureTable(t *testing.T) {
	var b strings.Builder
	require.NoError(t, FigureTable(&b, figure(), Style{}))
	golden(t, "figure.txt", b.String())
	b.Reset()
	require.NoError(t, FigureTable(&b, figure(), Style{Width: 60}))
	require.LessOrEqual(t, longest(b.String()), 60)
	require.ErrorIs(t, FigureTable(&broken{0}, figure(), Style{}), errBroken)
}

func TestFigureJSON(t *testing.T) {
	var b bytes.Buffer
	require.NoError(t, FigureJSON(&b, figure()))
	records := map[string]int{}
	for line := range strings.Lines(b.String()) {
		var m map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &m))
		records[m["record"].(string)]++
	}
	require.Equal(t, map[string]int{"environment": 1, "figure": 1, "point": 4, "finding": 2}, records)
	require.Contains(t, b.String(), `{"record":"point","name":"waage-fig9","curve":"theirs","paper":true,"x":10000,"y":186287}`)
	require.ErrorIs(t, FigureJSON(&broken{300}, figure()), errBroken)
}

func TestFigurePlot(t *testing.T) {
	b, err := FigurePlot("x.png", figure())
	require.NoError(t, err)
	_, err = png.Decode(bytes.NewReader(b))
	require.NoError(t, err)
	b, err = FigurePlot("x.svg", figure())
	require.NoError(t, err)
	d := xml.NewDecoder(bytes.NewReader(b))
	for {
		if _, err := d.Token(); err == io.EOF {
			break
		} else {
			require.NoError(t, err)
		}
	}
	for _, text := range []string{"Things of 10,000 values", "number of values", "things", "ours", "theirs", "10,000", "180,000"} {
		require.Contains(t, string(b), text)
	}
	_, err = FigurePlot("x.pdf", figure())
	require.Error(t, err)
}

func TestRoundTicks(t *testing.T) {
	for _, c := range []struct {
		low, high float64
		first     string
		second    string
		last      string
		n         int
	}{
		{0, 10_200, "0", "2,000", "10,000", 6},
		{0, 285_000, "0", "50,000", "250,000", 6},
		{0, 45.3, "0", "10", "40", 5},
		{0, 1, "0.0", "0.2", "1.0", 6},
		{0, 0.037, "0.000", "0.005", "0.035", 8},
	} {
		all := roundTicks{}.Ticks(c.low, c.high)
		require.Len(t, all, c.n, "%v", c)
		require.Equal(t, []string{c.first, c.second, c.last}, []string{all[0].Label, all[1].Label, all[len(all)-1].Label})
	}
	require.Empty(t, roundTicks{}.Ticks(1, 1))
}
