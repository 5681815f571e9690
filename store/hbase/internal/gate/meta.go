package gate

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rangecrypt/rangecrypt/store/driver"
)

// Unserved says why nobody serves a table, or a region of it, by their rows of hbase:meta; "" where these do not tell.
func Unserved(table string, rows []driver.Row) string {
	for _, row := range rows {
		// A message of one field: enabled is 0, disabled 1, disabling 2.
		if v := of(row.Cells, "table:state"); len(v) == 2 && v[0] == 8 && (v[1] == 1 || v[1] == 2) {
			return fmt.Sprintf("its table %s is disabled: enable it in the shell of HBase", table)
		}
		// One that was split or merged has others in its place.
		if state := string(of(row.Cells, "info:state")); !slices.Contains([]string{"", "OPEN", "SPLIT", "MERGED"}, state) {
			name := strings.Split(string(row.Key), ".") // its key may have points, too
			return fmt.Sprintf("a region of its table %s is in the state %s: if it stays so, assign it in the shell of HBase: assign '%s'", table, state, name[max(0, len(name)-2)])
		}
	}
	return ""
}

// of returns the value of a cell, or nil.
func of(row []driver.Cell, name string) []byte {
	for _, c := range row {
		if string(c.Qualifier) == name {
			return c.Value
		}
	}
	return nil
}
