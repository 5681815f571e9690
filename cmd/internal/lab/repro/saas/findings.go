package saas

import (
	"fmt"
	"math"
	"strings"

	"github.com/rangecrypt/rangecrypt/cmd/internal/lab/repro/experiment"
	"github.com/rangecrypt/rangecrypt/internal/cli/show"
	"gonum.org/v1/gonum/stat"
)

// What figures 7 to 9 of Rafique et al. (IEEE BigData 2017) say, beside what is measured. The paper
// compares Prototype A with Prototype B. Findings about the table with tenants are this module's.

// A beside returns how many times as long one way takes as another, by operation.
type beside func(operation int) experiment.Ratio

// besideOf compares two ways to keep entries with a number of encrypted attributes.
func besideOf(all []*logTiming, kind, other string, sensitive int) beside {
	return func(operation int) experiment.Ratio {
		return logRatio(logAt(all, kind, sensitive), logAt(all, other, sensitive), operation)
	}
}

// growthOf compares a way with itself, with the most encrypted attributes and with the fewest.
func growthOf(all []*logTiming, kind string, numbers []int) beside {
	return func(operation int) experiment.Ratio {
		return logRatio(logAt(all, kind, numbers[len(numbers)-1]), logAt(all, kind, numbers[0]), operation)
	}
}

// lateOf compares the last entries of each round with the first.
func lateOf(t *logTiming) beside {
	return func(operation int) experiment.Ratio {
		var first, last []float64
		for _, steps := range t.seconds[operation] {
			first = append(first, steps[0])
			last = append(last, steps[len(steps)-1]-steps[len(steps)-2])
		}
		return experiment.RatioOf(last, first)
	}
}

// above says whether reads, updates and deletions all take more than x times as long.
func (b beside) above(x float64) experiment.Verdict {
	return experiment.Every(b(1).Above(x), b(2).Above(x), b(3).Above(x))
}

// level says whether reads, updates and deletions all take about as long, or less.
func (b beside) level() experiment.Verdict {
	return experiment.Every(b(1).About(1.1, 1.25), b(2).About(1.1, 1.25), b(3).About(1.1, 1.25))
}

// text is about reads, updates and deletions.
func (b beside) text() string {
	return fmt.Sprintf("read %v, update %v and delete %v times as long", b(1), b(2), b(3))
}

// whole is about all operations.
func (b beside) whole() string { return fmt.Sprintf("insert %v, %s", b(0), b.text()) }

// saasFindings are those of figure 7, of one node, or figure 8, of several.
func saasFindings(all []*logTiming, nodes int) []experiment.Finding {
	a, b := logAt(all, prototypeA, entrySensitive), logAt(all, prototypeB, entrySensitive)
	ab := besideOf(all, prototypeA, prototypeB, entrySensitive)
	insert := experiment.Both(ab(0).About(1.1, 1.25), ab(0).Above(0.8)).Finding(
		"The paper: Prototypes A and B take almost the same time to insert. Here Prototype A takes %v times as long as Prototype B, with %d requests beside %d.",
		ab(0), a.asked[0].Requests, b.asked[0].Requests)
	if nodes > 1 {
		insert = ab(0).Below(1).Finding(
			"The paper: on three nodes Prototype A is a little faster to insert than Prototype B, which has to find the node that keeps all attributes. Here Prototype A takes %v times as long as Prototype B, with %d requests beside %d.",
			ab(0), a.asked[0].Requests, b.asked[0].Requests)
	}
	lateA, lateB := lateOf(a), lateOf(b)
	return append([]experiment.Finding{
		insert,
		ab.above(1).Finding(
			"The paper: to read, update and delete, Prototype A takes longer than Prototype B, since it has to find a row for each encrypted attribute. Here: %s, with %d requests beside %d.",
			ab.text(), a.asked[1].Requests, b.asked[1].Requests),
		experiment.Both(lateA(1).Above(1.2), lateA(2).Above(1.2)).Finding(
			"The paper: the time of Prototype A increases drastically with the number of entries. The last tenth of them beside the first: %s. Reads and updates decide, as deletions make the table smaller.", lateA.text()),
		lateB.level().Finding(
			"The paper: the number of entries has no impact on Prototype B. The last tenth of them beside the first: %s.", lateB.text()),
	}, tenantFindings(all)...)
}

// tenantFindings compare the table with tenants with the prototypes, and with rows in the clear.
func tenantFindings(all []*logTiming) []experiment.Finding {
	ours := logAt(all, tenantTable, entrySensitive)
	a := besideOf(all, prototypeA, tenantTable, entrySensitive)
	parallel := besideOf(all, prototypeAParallel, tenantTable, entrySensitive)
	plain := besideOf(all, tenantTable, plainEntries, entrySensitive)
	return []experiment.Finding{
		a.above(1).Finding("Prototype A beside the table with tenants, which keeps a whole entry in one partition, takes longer to read, update and delete: %s.", a.whole()),
		parallel.above(1).Finding("The same where Prototype A asks for all rows at a time, of which the paper does not speak: %s as the table with tenants.", parallel.whole()),
		costFinding(all, entrySensitive),
		experiment.Both(plain(0).About(1.1, 1.25), plain.level()).Finding(
			"What encryption and tenants cost, which the paper does not say: the table with tenants beside rows in the clear, %s, with %d requests to write and %d to read.",
			plain.whole(), ours.asked[0].Requests, ours.asked[1].Requests),
	}
}

// costFinding says what the table with tenants costs beside the paper's own mapping.
func costFinding(all []*logTiming, sensitive int) experiment.Finding {
	ours, b := logAt(all, tenantTable, sensitive), logAt(all, prototypeB, sensitive)
	cost := besideOf(all, tenantTable, prototypeB, sensitive)
	return experiment.Both(cost(0).About(1.1, 1.25), cost.level()).Finding(
		"The table with tenants takes no longer than Prototype B, the paper's own, with %d encrypted %s: %s. Requests: %d beside %d to write, of which the table with tenants has one to read the version of the catalogue; %d beside %d to read; %d beside %d to delete. Bytes of an entry: %.0f, with the encrypted attributes in one cell, beside %.0f, with a cell for each.",
		sensitive, show.Plural(sensitive, "attribute"), cost.whole(), ours.asked[0].Requests, b.asked[0].Requests,
		ours.asked[1].Requests, b.asked[1].Requests, ours.asked[3].Requests, b.asked[3].Requests, ours.bytes, b.bytes)
}

// Ferretti, Colajanni and Marchetti (TPDS 2014), section 5: data of TPC-C, in MB.
const publishedPlain, publishedEncrypted = 1046.0, 2615.0

// storageFinding compares the bytes of an entry.
func storageFinding(all []*logTiming, sensitive int) experiment.Finding {
	plain, ours := logAt(all, plainEntries, 0), logAt(all, tenantTable, sensitive)
	sizes := func(of func(*logTiming) float64) string {
		text := fmt.Sprintf("%s %.0f", plainEntries, of(plain))
		for _, kind := range []string{prototypeA, prototypeB, tenantTable} {
			bytes := of(logAt(all, kind, sensitive))
			text += fmt.Sprintf(", %s %.0f (%.2f times)", kind, bytes, bytes/of(plain))
		}
		return text
	}
	text := fmt.Sprintf("Ferretti et al. (TPDS 2014): encrypted data takes %.1f times the space of plaintext, and so much the table with tenants may take here. An entry with %d encrypted %s has, in bytes of row keys, qualifiers and values as they are put: %s.",
		publishedEncrypted/publishedPlain, sensitive, show.Plural(sensitive, "attribute"), sizes(func(t *logTiming) float64 { return t.bytes }))
	most := ours.bytes / plain.bytes
	if plain.disk > 0 {
		text += fmt.Sprintf(" On the disk: %s.", sizes(func(t *logTiming) float64 { return t.disk }))
		most = max(most, ours.disk/plain.disk)
	}
	return experiment.Finding{Holds: most <= publishedEncrypted/publishedPlain, Text: text}
}

// attributeFindings compare the fewest encrypted attributes with the most, and say what each further
// one adds: of figure 9 a and b, on one node, or c and d, on several.
func attributeFindings(all []*logTiming, numbers []int, entries, nodes int) []experiment.Finding {
	from, to := numbers[0], numbers[len(numbers)-1]
	a, b, ours := growthOf(all, prototypeA, numbers), growthOf(all, prototypeB, numbers), growthOf(all, tenantTable, numbers)
	parallel := growthOf(all, prototypeAParallel, numbers)
	ab, beside := besideOf(all, prototypeA, prototypeB, to), besideOf(all, prototypeA, tenantTable, to)
	paper := []string{
		"The paper (9 a): Prototype A inserts in the same time whatever the number of encrypted attributes.",
		"The paper (9 a): to read, update and delete, Prototype A takes rapidly longer.",
		"The paper (9 b): with Prototype B the times to read, update and delete remain more or less the same.",
	}
	rising := a.above(2)
	if nodes > 1 {
		paper = []string{
			"The paper (9 c): the degradation of Prototype A on the cluster, which it names to read, update and delete, is none to insert.",
			"The paper (9 c): on the cluster the degradation of Prototype A is visible to read, update and delete.",
			"The paper (9 d): that does not affect Prototype B, whose times remain the same.",
		}
		rising = a.above(1)
	}
	span := fmt.Sprintf("From %d to %d encrypted attributes", from, to)
	return []experiment.Finding{
		experiment.Both(a(0).Below(1.25), a(0).Above(0.8)).Finding(
			"%s %s: %v times as long, and %v times where it writes all rows at a time.", paper[0], span, a(0), parallel(0)),
		rising.Finding("%s %s: %s, of %.1f times as many rows; where it asks for all rows at a time %s.",
			paper[1], span, a.text(), float64(to+1)/float64(from+1), parallel.text()),
		b.level().Finding("%s %s: %s.", paper[2], span, b.whole()),
		ab.above(1).Finding("With %d encrypted attributes Prototype A takes longer than Prototype B: %s.", to, ab.whole()),
		addedFinding(all, numbers, entries),
		ours.level().Finding("The times of the table with tenants remain the same, too. %s: %s.", span, ours.whole()),
		beside.above(1).Finding("With %d encrypted attributes Prototype A takes longer than the table with tenants: %s.", to, beside.whole()),
		costFinding(all, from), costFinding(all, to),
	}
}

// addedFinding says what each further encrypted attribute adds to the time of an entry.
func addedFinding(all []*logTiming, numbers []int, entries int) experiment.Finding {
	var added []string
	rising, level := experiment.IsSo, experiment.IsSo
	for operation, what := range logOperations {
		of := func(kind string) experiment.Ratio { return addedBy(all, kind, numbers, operation, entries) }
		first := experiment.MedianOf(logAt(all, prototypeA, numbers[0]).total(operation)).Mid / float64(entries)
		added = append(added, fmt.Sprintf("to %s %s, %s and %s", what, micros(of(prototypeA)), micros(of(prototypeB)), micros(of(tenantTable))))
		rising = experiment.Both(rising, of(prototypeA).Above(0))
		// A row is half of what Prototype A takes for one encrypted attribute: the plain one is the other.
		for _, kind := range []string{prototypeB, tenantTable} {
			level = experiment.Both(level, of(kind).Below(0.05*1e6*first/2))
		}
	}
	return experiment.Both(rising, level).Finding(
		"Linear beside flat: what each further encrypted attribute adds to the time of an entry, with Prototype A, with Prototype B and in the table with tenants (slopes of the least squares of each round): %s. Flat is less than 5 %% of what a row costs Prototype A.", strings.Join(added, "; "))
}

// addedBy returns what each further encrypted attribute adds to the time of an entry, in us: the median
// of the slopes of the straight lines through each round.
func addedBy(all []*logTiming, kind string, numbers []int, operation, entries int) experiment.Ratio {
	var xs []float64
	for _, n := range numbers {
		xs = append(xs, float64(n))
	}
	var slopes []float64
	for round := range logAt(all, kind, numbers[0]).seconds[operation] {
		var ys []float64
		for _, n := range numbers {
			ys = append(ys, 1e6*logAt(all, kind, n).total(operation)[round]/float64(entries))
		}
		_, slope := stat.LinearRegression(xs, ys, nil, false)
		slopes = append(slopes, slope)
	}
	return experiment.MedianOf(slopes)
}

// micros writes a number of us.
func micros(r experiment.Ratio) string {
	if math.IsNaN(r.Low) {
		return fmt.Sprintf("%.0f us", r.Mid)
	}
	return fmt.Sprintf("%.0f us (%.0f to %.0f)", r.Mid, r.Low, r.High)
}
