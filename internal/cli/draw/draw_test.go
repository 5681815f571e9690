package draw

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Long titles and paths are divided into lines that fit.
func TestTitlesFit(t *testing.T) {
	style := New("", "").Title.TextStyle
	const width = 200
	for _, s := range []string{"short", strings.Repeat("word ", 50), "of " + strings.Repeat("path/", 60) + "file.csv, column x"} {
		lines := strings.Split(wrapped(s, style, width), "\n")
		for _, line := range lines {
			require.LessOrEqual(t, float64(style.Width(line)), float64(width), line)
		}
		require.Equal(t, strings.ReplaceAll(s, " ", ""), strings.ReplaceAll(strings.Join(lines, ""), " ", ""))
	}
}

// A drawing names fonts of the same widths, for readers who have not got the first.
func TestDrawingsNameFonts(t *testing.T) {
	svg, err := Picture("x.svg", "title", 300, New("plot", "y"))
	require.NoError(t, err)
	require.Regexp(t, `font-family:Liberation Sans,Arial,Helvetica,sans-serif;[^"]*">title<`, string(svg))
	require.NotContains(t, string(svg), fontWritten+";")
}

// All colours can be told from the page, light or dark.
func TestColoursHaveContrast(t *testing.T) {
	luminance := func(hex string) float64 {
		var c [3]int
		_, err := fmt.Sscanf(strings.ToLower(hex), "#%02x%02x%02x", &c[0], &c[1], &c[2])
		require.NoError(t, err)
		sum := 0.0
		for i, share := range []float64{0.2126, 0.7152, 0.0722} {
			x := float64(c[i]) / 255
			if x = x / 12.92; c[i] > 10 {
				x = math.Pow((float64(c[i])/255+0.055)/1.055, 2.4)
			}
			sum += share * x
		}
		return sum
	}
	contrast := func(a, b string) float64 {
		x, y := luminance(a), luminance(b)
		return (max(x, y) + 0.05) / (min(x, y) + 0.05)
	}
	all := Colours()
	require.Equal(t, "--paper", all[0].Name)
	for _, c := range all[1:] {
		if c.Name != "--grid" {
			require.GreaterOrEqual(t, contrast(c.Light, all[0].Light), 2.9, c.Name)
			require.GreaterOrEqual(t, contrast(c.Dark, all[0].Dark), 3.0, c.Name)
		}
	}
}
