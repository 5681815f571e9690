package report

import (
	"bytes"
	"encoding/json"
	"image/png"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/rangecrypt/rangecrypt/internal/cli/draw"
	"github.com/rangecrypt/rangecrypt/internal/cli/show"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/cmd/internal/lab/repro/experiment"
)

func figure() Figure {
	return Figure{
		Env:    show.Environment{Version: "v0.0.0", Go: "go1.26", OS: "linux", Arch: "amd64", Cores: 2, Time: time.Unix(1_700_000_000, 0).UTC()},
		Figure: experiment.Figure{Name: "waage-fig9", Source: "Waage et al. 2016, figure 9"},
		Seed:   7,
		Result: &experiment.Result{
			Title: "Things of 10,000 values", X: "number of values", Y: "things", Runs: 3, Marks: []float64{1, 10_000},
			Curves: []experiment.Curve{
				{Name: "ours", Points: []experiment.Point{{X: 1, Y: 42.51}, {X: 5000, Y: 25}, {X: 10_000, Y: 22}}},
				{Name: "theirs", Points: []experiment.Point{{X: 10_000, Y: 186_287}}, Paper: true},
			},
			Findings: []experiment.Finding{
				{Holds: true, Text: "The paper: it falls. Here it falls, too."},
				{Text: "The paper: 186,287 things. Here they are 22, for reasons that take more than one line of a terminal to tell."},
			},
		},
	}
}

// tableFigure has a table beside its curves, of two kins.
func tableFigure() Figure {
	f := figure()
	ratio := 1.25
	f.Result = &experiment.Result{
		Title: "Times", X: "number of values", Y: "time in s", LogY: true, Runs: 20,
		Table: &experiment.Table{
			Names: 2, Columns: []string{"", "scheme", "x plain", "what"}, Words: []bool{true, true, false, true},
			Rows: [][]experiment.Cell{
				{{Text: "I"}, {Text: "ours"}, {Text: "1.25 (1.20-1.30)", Number: &ratio, Low: 1.2, High: 1.3}, {Text: "a word"}},
				{{Text: "II"}, {Text: "theirs"}, {Text: "-"}, {Text: "another"}},
			},
		},
		Notes:    []string{"x plain: beside plain."},
		Findings: []experiment.Finding{{Unclear: true, Text: "The paper: so. Here nobody knows."}},
	}
	for i, name := range []string{"plain", "best", "mean", "worst", "other", "last"} {
		c := experiment.Curve{Name: name, Kin: "kin"}
		if i == 0 {
			c.Kin = "none"
		}
		for x := 1.0; x <= 10; x++ {
			y := x * float64(i+1) / 100
			c.Points = append(c.Points, experiment.Point{X: 2000 * x, Y: y, Low: y / 2, High: 2 * y})
		}
		f.Curves = append(f.Curves, c)
	}
	return f
}

func figureTable(t *testing.T, f Figure, style show.Style) string {
	t.Helper()
	var b strings.Builder
	require.NoError(t, FigureTable(&b, f, style))
	require.True(t, style.Width == 0 || show.Longest(b.String()) <= style.Width)
	return b.String()
}

func TestFigureWithTable(t *testing.T) {
	golden(t, "figure-table.txt", figureTable(t, tableFigure(), show.Style{}))
	require.Contains(t, figureTable(t, tableFigure(), show.Style{Width: 30}), "I ours\n  x plain: 1.25 (1.20-1.30)\n  what: a word\n")

	f := tableFigure()
	f.More = &experiment.Table{Names: 1, Columns: []string{"left out", "why"}, Words: []bool{true, true}, Rows: [][]experiment.Cell{{{Text: "a scheme"}, {Text: "for a reason"}}}}
	require.Contains(t, figureTable(t, f, show.Style{}), "\n\nLEFT OUT  WHY\na scheme  for a reason\nx plain: beside plain.\n")

	var b strings.Builder
	require.NoError(t, FigureJSON(&b, f))
	require.Contains(t, b.String(), `{"record":"cell","name":"waage-fig9","row":"a scheme","column":"why","text":"for a reason"}`)
	require.Contains(t, b.String(), `{"record":"cell","name":"waage-fig9","row":"I ours","column":"x plain","text":"1.25 (1.20-1.30)","value":1.25,"low":1.2,"high":1.3}`)
	require.Contains(t, b.String(), `{"record":"cell","name":"waage-fig9","row":"II theirs","column":"what","text":"another"}`)
	require.Contains(t, b.String(), `{"record":"finding","name":"waage-fig9","holds":null,`)
	require.Contains(t, b.String(), `"curve":"plain","x":2000,"y":0.01,"low":0.005,"high":0.02}`)
}

func TestLogarithmicFigure(t *testing.T) {
	b, err := FigurePlot("x.svg", tableFigure())
	require.NoError(t, err)
	for _, text := range []string{"time in s", "worst", "0.01", "0.5", "20,000"} {
		require.Contains(t, string(b), ">"+text+"<")
	}
	require.NotContains(t, string(b), ">25,000<", "the names stand where there are no values")
	require.NotContains(t, string(b), ">0.0<", "a logarithmic axis has no zero")
	_, err = FigurePlot("x.png", tableFigure())
	require.NoError(t, err)

	looks := looksOf(tableFigure().Curves)
	require.Equal(t, draw.Palette[0], looks[0].Color)
	require.Equal(t, looks[1].Color, looks[2].Color)
	require.NotEqual(t, looks[1].Dashes, looks[2].Dashes)
	looks = looksOf([]experiment.Curve{{}, {}})
	require.NotEqual(t, looks[0].Color, looks[1].Color)
}

// Panels stand beside each other, each under its name, and the curves are named once.
func TestFigurePanels(t *testing.T) {
	f := figure()
	f.Curves = nil
	for _, panel := range []string{"insert", "read"} {
		for _, kin := range []string{"paper's", "ours"} {
			f.Curves = append(f.Curves, experiment.Curve{Name: panel + ", " + kin, Kin: kin, Panel: panel, Points: []experiment.Point{{X: 1, Y: 2, Low: 1, High: 3}, {X: 2, Y: 3}}})
		}
	}
	for _, logarithmic := range []bool{false, true} {
		f.LogY = logarithmic
		b, err := FigurePlot("x.svg", f)
		require.NoError(t, err)
		for text, n := range map[string]int{"insert": 1, "read": 1, "ours": 1, "things": 2, "number of values": 2, "insert, ours": 0} {
			require.Equal(t, n, strings.Count(string(b), ">"+text+"<"), text)
		}
	}
}

func TestDecadeTicks(t *testing.T) {
	var labels []string
	for _, tick := range (decadeTicks{}).Ticks(0.04, 30) {
		labels = append(labels, tick.Label)
	}
	require.Equal(t, []string{"0.05", "0.1", "0.2", "0.5", "1", "2", "5", "10", "20"}, labels)
	require.Empty(t, decadeTicks{}.Ticks(0, 1))
}

func TestFigureTable(t *testing.T) {
	golden(t, "figure.txt", figureTable(t, figure(), show.Style{}))
	figureTable(t, figure(), show.Style{Width: 60}) // it fits
	require.ErrorIs(t, FigureTable(&broken{0}, figure(), show.Style{}), errBroken)
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
	wellFormed(t, b)
	// The greatest value, 186,287, stands below the names.
	for _, text := range []string{"Things of 10,000 values", "number of values", "things", "ours", "theirs", "10,000", "200,000"} {
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

func TestBoxesAreDrawn(t *testing.T) {
	f := Figure{Result: &experiment.Result{Title: "boxes", Y: "ms"}}
	for _, name := range []string{"plain", "encrypted, slow"} {
		f.Boxes = append(f.Boxes, experiment.Box{Group: "SELECT", Name: name, Values: []float64{1, 2, 3, 4, 1000}})
	}
	b, err := FigurePlot("boxes.svg", f)
	require.NoError(t, err)
	for _, text := range []string{"SELECT", "plain", "encrypted,", "slow"} {
		require.Contains(t, string(b), ">"+text+"<")
	}
	require.NotContains(t, string(b), "1000", "what lies far away does not make boxes flat")
	var lines strings.Builder
	require.NoError(t, FigureJSON(&lines, f))
	require.Contains(t, lines.String(), `{"record":"box","name":"","group":"SELECT","box":"plain","values":[1,2,3,4,1000]}`)
	f.Boxes[1].Values = nil
	_, err = FigurePlot("boxes.svg", f)
	require.Error(t, err)
}

func TestBarsAreDrawn(t *testing.T) {
	f := Figure{Result: &experiment.Result{Title: "bars", Y: "ms"}}
	for i, name := range []string{"SELECT", "INSERT", "UPDATE"} {
		f.Bars = append(f.Bars, experiment.Bar{Group: []string{"Delivery", "Delivery", "Payment"}[i], Name: name, Kin: []string{"ours", "theirs", "ours"}[i], Y: 0.002 * float64(i), Low: 0.001 * float64(i), High: 0.004 * float64(i)})
	}
	f.Bars[0].Y, f.Bars[0].Low, f.Bars[0].High = -1, -2, -0.5 // no bar, nor on a logarithmic axis
	for _, logarithmic := range []bool{false, true} {
		f.LogY = logarithmic
		b, err := FigurePlot("bars.svg", f)
		require.NoError(t, err)
		wellFormed(t, b)
		for text, n := range map[string]int{"Delivery": 1, "Payment": 1, "SELECT": 1, "INSERT": 1, "UPDATE": 1, "ours": 1, "theirs": 1, "0.002": 1} {
			require.Equal(t, n, strings.Count(string(b), ">"+text+"<"), text)
		}
	}
	var lines strings.Builder
	require.NoError(t, FigureJSON(&lines, f))
	require.Contains(t, lines.String(), `{"record":"bar","name":"","group":"Payment","bar":"UPDATE","kin":"ours","y":0.004,"low":0.002,"high":0.008}`)
	f.Bars[1].Y = math.NaN()
	_, err := FigurePlot("bars.svg", f)
	require.Error(t, err)
}
