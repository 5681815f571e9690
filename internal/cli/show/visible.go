package show

import (
	"strconv"
	"strings"
)

// Visible returns a name as it can be printed on a terminal.
func Visible(name string) string {
	if quoted := strconv.Quote(name); quoted != `"`+name+`"` || name != strings.TrimSpace(name) {
		return quoted
	}
	return name
}
