package condition_test

import (
	"encoding/hex"
	"math"
	"math/big"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	width "github.com/jedib0t/go-pretty/v6/text"
	"github.com/rangecrypt/rangecrypt/cmd/internal/admin/condition"
	"github.com/rangecrypt/rangecrypt/cmd/internal/admin/where"
	"github.com/rangecrypt/rangecrypt/store"
	"github.com/stretchr/testify/require"
)

var (
	plainNumber = regexp.MustCompile(`^[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]{1,3})?$`)
	wholeNumber = regexp.MustCompile(`^[-+]?[0-9]+$`)
)

// read returns what a constant means to a column, and false where this test does not know.
func (c *column) read(v where.Value) (constant, bool) {
	switch c.name {
	case "i", "within", "u", "d":
		r, ok := new(big.Rat).SetString(strings.TrimPrefix(v.Text, "+"))
		return constant{is: r}, ok && v.Form != where.Hex && plainNumber.MatchString(v.Text)
	case "f", "g":
		bits := map[string]int{"f": 64, "g": 32}[c.name]
		x, err := strconv.ParseFloat(v.Text, bits)
		switch {
		case math.IsInf(x, 0) && err == nil:
			return constant{above: int(math.Copysign(1, x))}, true
		case !plainNumber.MatchString(v.Text) || v.Form == where.Hex:
			return constant{}, false
		case err != nil || wholeNumber.MatchString(v.Text): // too large for the type, or not rounded
			return constant{is: ratio(strings.TrimPrefix(v.Text, "+"))}, true
		}
		return constant{is: new(big.Rat).SetFloat64(x)}, true
	case "s":
		return constant{is: v.Text}, v.Form == where.Quoted
	case "b":
		b, err := hex.DecodeString(v.Text)
		return constant{is: string(b)}, v.Form == where.Hex && err == nil
	}
	return constant{}, false
}

// verdict evaluates a condition for a row.
func (tab *table) verdict(n *where.Node, row store.Row) (v verdict, known bool) {
	switch n.Op {
	case where.And, where.Or, where.Not:
		v, known = tab.verdict(n.Of[0], row)
		for _, of := range n.Of[1:] {
			next, ok := tab.verdict(of, row)
			known = known && ok
			if n.Op == where.And {
				v = min(v, next)
			} else {
				v = max(v, next)
			}
		}
		if n.Op == where.Not {
			v = yes - v
		}
		return v, known
	}
	i := slices.IndexFunc(tab.columns, func(c *column) bool { return c.name == n.Column })
	if i < 0 {
		return no, false // it is the key
	}
	c, value := tab.columns[i], row[n.Column]
	switch {
	case n.Op == where.IsNull:
		return of(value == nil), true
	case value == nil:
		return unknown, true
	case n.Op == where.IsNaN:
		return of(isNaN(value)), true
	case isNaN(value):
		return unknown, true
	case n.Op == where.Prefix:
		return of(strings.HasPrefix(value.(string), n.Values[0].Text)), true
	}
	var order []int
	for _, written := range n.Values {
		k, ok := c.read(written)
		if !ok {
			return no, false
		}
		order = append(order, c.comparison(value, k))
	}
	d := order[0]
	return of(map[where.Op]bool{
		where.Equal: d == 0, where.In: slices.Contains(order, 0), where.Less: d < 0, where.AtMost: d <= 0, where.Greater: d > 0, where.AtLeast: d >= 0,
		where.Between: d >= 0 && order[len(order)-1] <= 0,
	}[n.Op]), true
}

// placed checks that what was read stands where it says.
func placed(t *testing.T, all string, n *where.Node) {
	for _, inner := range n.Of {
		placed(t, all, inner)
	}
	if n.Column == "" {
		return
	}
	require.Regexp(t, "^(`|"+regexp.QuoteMeta(n.Column)+")", all[n.At:])
	for _, v := range n.Values {
		begins := map[where.Form]string{where.Quoted: `['"]`, where.Hex: "[xX]'"}[v.Form]
		if begins == "" {
			begins = "(?i)" + regexp.QuoteMeta(v.Text)
		}
		require.Regexp(t, "^"+begins, all[v.At:])
	}
}

// Whatever text is given: an error marks a place in it, and what is understood selects the rows that it says.
func FuzzConditions(f *testing.F) {
	r := rand.New(rand.NewPCG(1, 1))
	tab := newTable(f, r)
	for range 40 {
		condition, _ := tab.random(r, 3)
		f.Add(condition)
	}
	for _, condition := range []string{
		"", "i = ", "i = 'x", "i in (1, 2, 300, 1.5)", "`f` is not nan or not g < 16777217", "s like 'a\\%%' and not b <= x'00ff'", "f > 1e308 and f < '+inf'",
		"d between -1.55 and 1.6 or u = 18446744073709551615", "not (not i is null)", "größe = 1", "n > 3 and t >= 2024-02-29", "i <> -0 and within != +2",
	} {
		f.Add(condition)
	}
	f.Fuzz(func(t *testing.T, all string) {
		p, err := condition.Parse(tab.Schema(), all, tab.format)
		if err != nil {
			lines := strings.Split(err.Error(), "\n")
			require.GreaterOrEqual(t, len(lines), 3)
			shown, mark := lines[len(lines)-2], lines[len(lines)-1]
			require.Regexp(t, `^ *\^$`, mark)
			require.LessOrEqual(t, len(mark)-1, width.StringWidth(shown), "the mark is behind the end")
			return
		}
		n, err := where.Parse(all, false)
		require.NoError(t, err)
		placed(t, all, n)
		got := make(map[int64]bool)
		for row, err := range tab.Query(t.Context(), store.Query{Where: p, Columns: []string{}}) {
			require.NoError(t, err)
			got[row["n"].(int64)] = true
		}
		for key, row := range tab.rows {
			if v, known := tab.verdict(n, row); known {
				require.Equal(t, v == yes, got[key], "%s, of %v", all, row)
			}
		}
	})
}
