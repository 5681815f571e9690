package store_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/internal/testdb"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/rangecrypt/rangecrypt/store/driver"
)

// randomShown returns a random schema, and a model of what of its rows a query shows that takes no proof.
func randomShown(r *rand.Rand, name string) (m, shown *tableModel) {
	m, shown = newModel(name), newModel(name)
	m.schema.CellPerColumn = r.IntN(2) == 0
	m.schema.Conditional = r.IntN(4) == 0
	// The first two vary in length, and ciphertexts of the first four do not say all of a value.
	all := []kind{strs, blobs, ip6, f64, uuids, i8, i64, u8, u64, narrow, dates, ip4, ms, cents, bools}
	const varying, lossy = 2, 4
	for i := range 1 + r.IntN(3) {
		n := r.IntN(len(all))
		part, k := fmt.Sprint("part", i), all[n]
		switch {
		case r.IntN(3) == 0:
			m.hashed(part, k)
		case r.IntN(2) == 0 && k.ordered:
			m.ordered(part, k, pick(r, []store.KeyScheme{store.Boldyreva, store.MOPE}))
		case r.IntN(2) == 0 && k.ordered && n >= lossy:
			m.ordered(part, k, store.Plaintext)
			shown.ordered(part, k, store.Plaintext)
		default:
			if i == 0 && n < varying {
				k = all[varying+n]
			}
			m.plain(part, k)
			shown.plain(part, k)
		}
	}
	for i := range 1 + r.IntN(4) {
		column, k := fmt.Sprint("plain", i), pick(r, all)
		m.column(k, store.PlainColumn(column, k.typ))
		shown.column(k, store.PlainColumn(column, k.typ))
	}
	for i := range r.IntN(3) {
		column, k := fmt.Sprint("sealed", i), pick(r, all)
		m.column(k, pick(r, []store.Column{store.RandomisedColumn(column, k.typ), store.DeterministicColumn(column, k.typ)}))
	}
	return m, shown
}

// What a query shows that takes no proof is what the other one shows of the same parts and columns.
func TestUnauthenticatedModel(t *testing.T) {
	seed := seeded(t).Uint64()
	testdb.Each(t, func(t *testing.T, kind testdb.Database) {
		schemas := max(10, *opsFlag/2)
		if kind.Server {
			schemas = 5
		}
		compareUnauthenticated(t, kind.Open(t, nil), rand.New(rand.NewPCG(seed, 1)), schemas)
	})
	t.Run("weak", func(t *testing.T) {
		compareUnauthenticated(t, newWeak(seed), rand.New(rand.NewPCG(seed, 2)), max(10, *opsFlag/2))
	})
}

func compareUnauthenticated(t *testing.T, db driver.DB, r *rand.Rand, schemas int) {
	st := open(t, db)
	answers, rows := 0, 0
	for i := range schemas {
		m, shown := randomShown(r, fmt.Sprint("table", i))
		tbl := create(t, st, m.schema)
		for range 40 {
			row := m.randomRow(r)
			require.NoError(t, tbl.Put(background, row))
			if r.IntN(5) == 0 {
				require.NoError(t, tbl.Delete(background, m.randomKey(r)))
			}
		}
		visible := slices.Clone(shown.cols)
		for _, p := range shown.parts {
			visible = append(visible, p.name)
		}
		for range 20 {
			f := shown.randomFilter(r)
			q := store.Query{Where: f.where, Columns: shown.cols}
			if r.IntN(4) == 0 {
				q.Where = store.Or(q.Where, store.Not(shown.randomFilter(r).where), shown.randomFilter(r).where)
			}
			if m.parts[0].how == 'h' && r.IntN(3) == 0 {
				k, name := m.kinds[m.parts[0].name], m.parts[0].name
				q.Where = store.And(q.Where, k.term(name, in, pick(r, k.bounds), nil, []any{pick(r, k.values), pick(r, k.values)}))
			}
			if column := pick(r, visible); m.kinds[column].ordered && r.IntN(3) == 0 {
				q.OrderBy, q.Reverse = column, r.IntN(2) == 0
			}
			show := func(rows []store.Row, without bool) (texts []string) {
				for _, row := range rows {
					for name := range row {
						if without && !slices.Contains(visible, name) {
							delete(row, name)
						}
					}
					texts = append(texts, showRow(row))
				}
				return texts
			}
			want := collect(t, tbl, q)
			if q.Unauthenticated = true; r.IntN(2) == 0 {
				q.Columns = nil
			}
			got := collect(t, tbl, q)
			if c := m.kinds[q.OrderBy]; q.OrderBy != "" {
				for j := range want {
					a, b := want[j][q.OrderBy], got[j][q.OrderBy]
					require.True(t, a == nil && b == nil || c.compare(a, b) == 0, "%s: order by %s", f.text, q.OrderBy)
				}
			}
			texts := show(want, true)
			require.ElementsMatch(t, texts, show(got, false), "%s %s: %v", m.schema.Name, f.text, q)
			answers, rows = answers+1, rows+len(got)

			var paged []store.Row
			for q.Limit = 1 + r.IntN(9); ; {
				page, next, err := tbl.Page(background, q)
				require.NoError(t, err)
				paged = append(paged, page...)
				if q.PageToken = next; next == "" {
					break
				}
			}
			require.ElementsMatch(t, texts, show(paged, false), "pages: %s", f.text)
		}
	}
	t.Logf("%d answers with %d rows", answers, rows)
	require.Greater(t, rows, answers)
}
