package cmd

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/cli/exit"
	"github.com/rangecrypt/rangecrypt/store/driver"
)

// What verify says to do about a row that somebody has changed can be done: it is put again where that replaces it, and otherwise restored.
func TestAdviceOnDamagedRows(t *testing.T) {
	const again, restore = "and put these rows again or restore them", "and restore these rows from a backup; in this table they are neither replaced nor deleted"
	for name, test := range map[string]struct{ table, tie, column, says string }{
		"replaced":             {"", "", "", again},
		"conditional":          {"conditional: true\n", "", "", again},
		"conditional, covered": {"conditional: true\n", "", ", covering: true", restore},
		"appended":             {"append-only: true\n", ", {name: tie, encryption: tie}", "", restore},
	} {
		t.Run(name, func(t *testing.T) {
			db, run, stdout, stderr := onMemory(t)
			dir := t.TempDir()
			schema, rows := filepath.Join(dir, "t.yaml"), filepath.Join(dir, "t.csv")
			require.NoError(t, os.WriteFile(schema, []byte("table: t\n"+test.table+"key: [{name: id, type: int64, encryption: hashed}"+test.tie+
				"]\ncolumns: [{name: v, type: int64, encryption: ordered, scheme: mope"+test.column+"}]\n"), 0o600))
			require.NoError(t, os.WriteFile(rows, []byte("id,v\n1,2\n"), 0o600))
			run(exit.OK, "table", "create", schema)
			run(exit.OK, "table", "insert", "t", "--input", rows)
			run(exit.OK, "table", "describe", "t", "--json")
			id := regexp.MustCompile(`"id":"([0-9a-f]{32})"`).FindStringSubmatch(stdout.String())[1]
			f, err := db.Family(t.Context(), driver.FamilySpec{Name: "t" + id, Existing: true, Layout: driver.LayoutOrdered, PrefixBytes: 16})
			require.NoError(t, err)
			change := func() {
				for r, err := range f.Scan(t.Context(), driver.Range{AnyOrder: true}) {
					require.NoError(t, err)
					for i := range r.Cells {
						r.Cells[i].Value[len(r.Cells[i].Value)-1] ^= 1
					}
					require.NoError(t, f.Apply(t.Context(), driver.Mutation{Row: r.Key, Puts: r.Cells}))
				}
			}
			change()
			run(exit.Wrong, "verify")
			require.Contains(t, stdout.String(), test.says)
			switch {
			case test.says == again:
				run(exit.OK, "table", "insert", "t", "--input", rows)
			case test.tie == "":
				run(exit.Wrong, "table", "insert", "t", "--input", rows)
				require.Contains(t, stderr.String(), "it is neither replaced nor deleted: 'rangecrypt verify --repair' may mend a mixture of two writes, and a backup anything else")
				fallthrough
			default:
				change() // back
			}
			run(exit.OK, "verify")
			run(exit.OK, "table", "query", "t", "--count")
			require.Equal(t, "1\n", stdout.String())
		})
	}
}

// A changed catalogue is told with what mends it. A verification, which cannot open it either, is not what to do.
func TestAdviceOnAChangedCatalogue(t *testing.T) {
	db, run, _, stderr := onMemory(t)
	run(exit.OK, "table", "create", "internal/admin/schemafile/testdata/readings.yaml")
	f, err := db.Family(t.Context(), driver.FamilySpec{Name: "catalogue", Existing: true, Layout: driver.LayoutWide})
	require.NoError(t, err)
	for r, err := range f.Scan(t.Context(), driver.Range{AnyOrder: true}) {
		require.NoError(t, err)
		last := r.Cells[len(r.Cells)-1]
		last.Value[len(last.Value)-1] ^= 1
		require.NoError(t, f.Apply(t.Context(), driver.Mutation{Row: r.Key, Puts: []driver.Cell{last}}))
	}
	for _, args := range [][]string{{"table", "list"}, {"verify"}} {
		run(exit.Wrong, args...)
		require.Regexp(t, `catalogue: data is not as it was written; end all clients, and restore the newest copy of the catalogue\n$`, stderr.String())
	}
}
