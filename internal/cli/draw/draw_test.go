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
