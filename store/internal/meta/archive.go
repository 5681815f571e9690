package meta

import (
	"slices"
	"strings"
)

// A list of more keys than mostKeys keeps the last of them, and the others move to the archive of the table. So an entry stays as
// small, however often keys were rotated.
const mostKeys, keptKeys = 16, 4

// An Archive says which cells of the catalogue have earlier keys of a table: those from one number on and below another.
type Archive struct {
	From uint32 `json:"from,omitempty"`
	To   uint32 `json:"to,omitempty"`
}

// Empty reports whether there are none.
func (a Archive) Empty() bool { return a.From == a.To }

// ArchivedKeys are keys that were moved to an archive at a time, the oldest first.
type ArchivedKeys struct {
	Rows  []WrappedKey              `json:"row_keys,omitempty"`
	Cells map[ColumnID][]WrappedKey `json:"cell_keys,omitempty"`
}

// Archive moves earlier keys to the next cell of the table's archive if a list has too many, and returns them, or nil.
func (m *Table) Archive() *ArchivedKeys {
	fields := m.All()
	if len(m.RowKeys) <= mostKeys && !slices.ContainsFunc(fields, func(f *Field) bool { return len(f.CellKeys) > mostKeys }) {
		return nil
	}
	move := func(keys *[]WrappedKey) (earlier []WrappedKey) {
		n := max(0, len(*keys)-keptKeys)
		earlier, *keys = (*keys)[:n:n], (*keys)[n:]
		return earlier
	}
	moved := &ArchivedKeys{Rows: move(&m.RowKeys), Cells: make(map[ColumnID][]WrappedKey)}
	for _, f := range fields {
		if earlier := move(&f.CellKeys); len(earlier) > 0 {
			moved.Cells[f.ID] = earlier
		}
	}
	m.Archived.To++
	if !strings.Contains(m.Layout, archived) {
		m.Layout += archived
	}
	return moved
}

// Whole returns the table with all its keys, of which some are archived.
func (m *Table) Whole(all []ArchivedKeys) *Table {
	whole := m.Clone()
	join := func(of func(ArchivedKeys) []WrappedKey, last []WrappedKey) (keys []WrappedKey) {
		for _, earlier := range all {
			keys = append(keys, of(earlier)...)
		}
		return append(keys, last...)
	}
	whole.RowKeys = join(func(a ArchivedKeys) []WrappedKey { return a.Rows }, m.RowKeys)
	for _, f := range whole.All() {
		f.CellKeys = join(func(a ArchivedKeys) []WrappedKey { return a.Cells[f.ID] }, f.CellKeys)
	}
	return whole
}
