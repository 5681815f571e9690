package catalogue

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/store/driver"
)

// The tree is a function of the entries: whichever way they came, its nodes and its digest are the same.
func TestTreeIsOfItsEntries(t *testing.T) {
	seed := rand.Uint64()
	t.Log("seed", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	c := New(nil, ope.GenerateKey())
	cells, grown := make(map[string]driver.Cell), make(Tree)
	var top Digest
	for range 300 {
		var changed []driver.Cell
		for range 1 + r.IntN(5) {
			cell := driver.Cell{Qualifier: c.TenantQualifier(fmt.Sprint(r.IntN(200))), Value: fmt.Append(nil, r.Int())}
			if !slices.ContainsFunc(changed, func(o driver.Cell) bool { return string(o.Qualifier) == string(cell.Qualifier) }) {
				changed = append(changed, cell)
			}
		}
		var nodes []driver.Cell
		nodes, top = grown.Put(c, changed)
		for _, cell := range slices.Concat(changed, nodes) {
			cells[string(cell.Qualifier)] = cell
		}
		whole, err := c.ProveAll(Root{Digest: top}, cells)
		require.NoError(t, err)
		require.Equal(t, grown, whole)
	}
	for q := range maps.Keys(cells) {
		if q[0] == RootQualifier[0] {
			continue
		}
		_, err := c.ProveSome(Root{Digest: top}, cells, [][]byte{[]byte(q), c.Qualifier("nobody")})
		require.NoError(t, err)
	}
}

// What is put back, removed or added below the root does not fit it.
func TestTreeProves(t *testing.T) {
	c := New(nil, ope.GenerateKey())
	entry := func(i int, value string) driver.Cell {
		return driver.Cell{Qualifier: c.TenantQualifier(fmt.Sprint(i)), Value: []byte(value)}
	}
	var entries []driver.Cell
	for i := range 100 {
		entries = append(entries, entry(i, "now"))
	}
	nodes, top := make(Tree).Put(c, entries)
	whole := make(map[string]driver.Cell)
	for _, cell := range slices.Concat(entries, nodes) {
		whole[string(cell.Qualifier)] = cell
	}
	victim := string(entries[7].Qualifier)
	path := Path([]byte(victim))
	prove := func(cells map[string]driver.Cell) [2]error {
		_, all := c.ProveAll(Root{Digest: top}, cells)
		_, some := c.ProveSome(Root{Digest: top}, cells, [][]byte{[]byte(victim)})
		return [2]error{all, some}
	}
	require.Equal(t, [2]error{}, prove(whole))
	for name, damage := range map[string]func(map[string]driver.Cell){
		"entry put back": func(cells map[string]driver.Cell) { cells[victim] = entry(7, "before") },
		"entry removed":  func(cells map[string]driver.Cell) { delete(cells, victim) },
		"leaf removed":   func(cells map[string]driver.Cell) { delete(cells, string(path[1])) },
		"top removed":    func(cells map[string]driver.Cell) { delete(cells, string(path[TreeLevels])) },
	} {
		cells := maps.Clone(whole)
		damage(cells)
		for _, err := range prove(cells) {
			require.ErrorIs(t, err, errUnproven, name)
		}
	}
	cells := maps.Clone(whole)
	cells[string(entry(100, "now").Qualifier)] = entry(100, "now")
	_, err := c.ProveAll(Root{Digest: top}, cells)
	require.ErrorIs(t, err, errUnproven, "entry added")
}
