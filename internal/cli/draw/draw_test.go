package draw

import (
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
