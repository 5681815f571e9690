package waage

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rangecrypt/rangecrypt/cmd/internal/lab/repro/experiment"
)

// What Waage, Homann and Wiese (SECRYPT 2016) say in section 4 of Cassandra beside HBase. Both are measured in
// the same rounds, so that they meet the same weather.

// databases returns the one that figures are measured in, and the one beside it if there is one.
func databases(c experiment.Config) []experiment.Database {
	if c.Beside == nil {
		return []experiment.Database{c.Database}
	}
	return []experiment.Database{c.Database, *c.Beside}
}

const (
	cassandra = "Cassandra"
	hbase     = "HBase"
)

// isProduct reports whether it is a database of a product.
func isProduct(d experiment.Database, product string) bool {
	return strings.HasPrefix(d.Name, strings.ToLower(product)+":")
}

// labels returns what two databases are called.
func labels(dbs []experiment.Database) (names []string) {
	for _, d := range dbs {
		name := d.Name
		for _, product := range []string{cassandra, hbase} {
			if isProduct(d, product) {
				name = product
			}
		}
		names = append(names, name)
	}
	if names[0] == names[1] {
		return []string{dbs[0].Name, dbs[1].Name}
	}
	return names
}

// prefixes returns what the names of curves begin with: the database, if there are two.
func prefixes(dbs []experiment.Database) []string {
	if len(dbs) == 1 {
		return []string{""}
	}
	names := labels(dbs)
	return []string{names[0] + ": ", names[1] + ": "}
}

// drawnBeside are the curves of the paper, which are drawn of two databases: all of both would hide each other.
var drawnBeside = []string{bare, mope, wozniakIndexed, publishedBest, publishedMean, publishedWorst}

// compareDatabases adds what is to be said of the second database beside the first.
func compareDatabases(r *experiment.Result, all timings, dbs []experiment.Database) {
	names := labels(dbs)
	first, second := all.in(0), all.in(1)
	r.More = &experiment.Table{
		Names: 1, Columns: []string{"", names[0] + " s", names[1] + " s", names[1] + " / " + names[0]}, Words: []bool{true, false, false, false},
	}
	for i, t := range first {
		r.More.Rows = append(r.More.Rows, []experiment.Cell{
			experiment.Words("%s", t.name), experiment.Numeral(t.at(insertSteps-1, 0).Y, 3), experiment.Numeral(second[i].at(insertSteps-1, 0).Y, 3), experiment.MedianOf(second[i].over(t)).Cell(),
		})
	}
	r.Notes = append(r.Notes, fmt.Sprintf("%s / %s: how many times longer all values take in the second database than in the first in the same round, with its 95 %% interval. What is said of schemes is of %s.", names[1], names[0], names[0]))

	// One colour is a scheme, and one kind of line a database.
	var drawn []experiment.Curve
	for _, name := range drawnBeside {
		for _, c := range r.Curves {
			if slices.Contains([]string{first.named(name).fullName(), second.named(name).fullName()}, c.Name) {
				c.Kin = name
				drawn = append(drawn, c)
			}
		}
	}
	r.Curves = drawn

	switch {
	case isProduct(dbs[0], cassandra) && isProduct(dbs[1], hbase):
		r.Findings = append(r.Findings, databaseFindings(first, second)...)
	case isProduct(dbs[0], hbase) && isProduct(dbs[1], cassandra):
		r.Findings = append(r.Findings, databaseFindings(second, first)...)
	default:
		r.Notes = append(r.Notes, "The paper compares Cassandra with HBase.")
	}
}

// Half of what the paper says, from which on a statement holds: its 40 %, and the 12 of its 12 to 15 %.
const (
	muchFaster     = 1.2
	somewhatFaster = 1.06
)

// databaseFindings compares with what section 4 of the paper says of the two databases.
func databaseFindings(inCassandra, inHBase timings) []experiment.Finding {
	over := func(name string) experiment.Ratio {
		return experiment.MedianOf(inHBase.named(name).over(inCassandra.named(name)))
	}
	under := func(name string) experiment.Ratio {
		return experiment.MedianOf(inCassandra.named(name).over(inHBase.named(name)))
	}
	var general []experiment.Verdict
	for _, name := range drawnBeside {
		if name != publishedWorst {
			general = append(general, over(name).Above(muchFaster))
		}
	}
	// How many times longer the other combinations take, of the same order.
	best := inCassandra.named(publishedMean)
	var others []experiment.Verdict
	var told []string
	for _, t := range []*timing{inCassandra.named(mope), inCassandra.named(wozniakIndexed), inHBase.named(mope), inHBase.named(wozniakIndexed), inHBase.named(publishedMean)} {
		r := experiment.MedianOf(t.over(best))
		others, told = append(others, r.Above(1)), append(told, r.String())
	}
	return []experiment.Finding{
		experiment.Every(general...).Finding(
			"The paper: Cassandra is generally some 40 %% faster than HBase. Here HBase takes %v times as long as Cassandra without encryption, %v under mOPE, %v under Wozniak indexed, and %v and %v under Kerschbaum as published in best and average order.",
			over(bare), over(mope), over(wozniakIndexed), over(publishedBest), over(publishedMean)),
		under(publishedWorst).Above(somewhatFaster).Finding(
			"The paper: in the worst case of Kerschbaum's scheme HBase is always 12-15 %% faster than Cassandra. Here Cassandra takes %v times as long as HBase for sorted values as published, and %v with local relabelling.",
			under(publishedWorst), under(relabelledWorst)),
		experiment.Every(others...).Finding(
			"The paper: the best combination is Kerschbaum's scheme in its best and average case with Cassandra. Here, beside it in random order, mOPE and Wozniak indexed take %s and %s times as long in Cassandra, and %s and %s in HBase, where Kerschbaum's scheme takes %s.",
			told[0], told[1], told[2], told[3], told[4]),
	}
}
