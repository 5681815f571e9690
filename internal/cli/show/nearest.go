package show

import (
	"strings"
	"unicode/utf8"
)

// DidYouMean returns a question about the name that is nearest to another one, for the end of an error; "" where none is
// near.
func DidYouMean(names []string, name string) string {
	length := utf8.RuneCountInString(name)
	nearest, best := "", max(1, length/3)+1
	if length <= 2 { // nearly every short name would be near
		best = 1
	}
	for _, n := range names {
		if d := distance(strings.ToLower(n), strings.ToLower(name)); d < best {
			nearest, best = Visible(n), d
		}
	}
	if nearest == "" {
		return ""
	}
	return "; did you mean " + nearest + "?"
}

// distance returns how many characters are to be changed, put in or left out to make one text the other.
func distance(a, b string) int {
	from, to := []rune(a), []rune(b)
	row := make([]int, len(to)+1)
	for j := range row {
		row[j] = j
	}
	for i, r := range from {
		left, corner := i+1, i
		for j, s := range to {
			d := corner + 1
			if r == s {
				d = corner
			}
			d = min(d, left+1, row[j+1]+1)
			row[j], corner, left = left, row[j+1], d
		}
		row[len(to)] = left
	}
	return row[len(to)]
}
