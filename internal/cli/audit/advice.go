package audit

import (
	"fmt"
	"strings"

	"github.com/rangecrypt/rangecrypt/internal/cli/show"
)

// A Level is an advice in a word.
type Level string

// The levels, from bad to good. What decides is the worst of all trials; see [Result.Worst].
const (
	Avoid      Level = "do-not-use"
	Rounding   Level = "as-rounding"
	Partly     Level = "partly-read"
	Acceptable Level = "acceptable"
)

// The shares of the rows that the levels begin above. docs/security.md has them too.
const (
	// tooMuch is read exactly of a column that is not protected: who is one of ten has no reason to
	// expect to be one of the others.
	tooMuch = 0.10
	// mostly is read to within Nearness of a column whose encryption is to be taken for rounding.
	mostly = 0.50
	// littleExact and littleNear are read, exactly and to within Nearness, of a column of which more than
	// little is read.
	littleExact = 0.01
	littleNear  = 0.10
)

// An Advice says in plain words what follows from a report.
type Advice struct {
	Level Level
	Text  []string // paragraphs, the first of them the advice itself
}

// Advise returns the advice for the column of a report.
func Advise(r *Report) Advice {
	best, worst := r.Results[0], Finding{}
	for i, res := range r.Results {
		f, _ := res.Worst()
		if i == 0 || f.Exact < worst.Exact || f.Exact == worst.Exact && f.Near < worst.Near {
			best, worst = res, f
		}
	}
	_, who := best.Worst()
	by := map[Adversary]string{
		KnowsDomain: "knows no more than its type", KnowsDistribution: "knows its distribution",
		KnowsRows: fmt.Sprintf("knows %d of its rows", r.Known), Server: "knows its distribution and has watched queries",
	}[who]
	var a Advice
	say := func(format string, args ...any) { a.Text = append(a.Text, fmt.Sprintf(format, args...)) }
	under := "Even under " + best.Scheme
	if len(r.Results) == 1 {
		under = "Under " + best.Scheme
	}
	trials := fmt.Sprintf(" (the worst of %d trials)", r.Trials)
	switch {
	case worst.Exact > tooMuch:
		a.Level = Avoid
		say("Do not use OPE for this column. %s, somebody who %s reads %s of its values exactly, with no key; %s are known to within %s of the column's spread%s. %s",
			under, by, Percent(worst.Exact), Percent(worst.Near), Percent(Nearness), trials, why(r, who))
		say("Seal it instead, and search it by equality only or not at all: a randomised column shows nothing, a deterministic one how often each value occurs. If ranges are needed, order by something coarser that you would publish, such as a decade, and seal the value.")
	case worst.Near > mostly:
		a.Level = Rounding
		say("Use OPE for this column only if anyone may know its values roughly. %s, %s of them are known to within %s of the column's spread; %s are read exactly%s. That is rounding, not encryption.",
			under, Percent(worst.Near), Percent(Nearness), Percent(worst.Exact), trials)
	case worst.Exact > littleExact || worst.Near > littleNear:
		a.Level = Partly
		say("Use OPE for this column only if a part of its values may be known. %s, %s of them are read exactly, and %s are known to within %s of the column's spread%s. Its order is public all the same.",
			under, Percent(worst.Exact), Percent(worst.Near), Percent(Nearness), trials)
	default:
		a.Level = Acceptable
		say("These attacks read little of this column under %s: %s of its values exactly, %s to within %s of its spread%s. Its order is public all the same.",
			best.Scheme, Percent(worst.Exact), Percent(worst.Near), Percent(Nearness), trials)
	}
	if a.Level != Avoid {
		var others []string
		for _, res := range r.Results {
			if f, _ := res.Worst(); f.Exact > tooMuch {
				others = append(others, res.Scheme)
			}
		}
		if len(others) > 0 {
			say("Do not use %s for it: more than %s of the values are read exactly.", strings.Join(others, " or "), Percent(tooMuch))
		}
	}
	say("Not measured: other ordered columns of the same rows, the answers of queries, and adversaries who know more than was assumed or can insert values. Each adds to these figures; nothing takes away from them.")
	return a
}

// why says what makes the column easy to read for the adversary who reads the most of it.
func why(r *Report, who Adversary) string {
	switch {
	case r.Density >= 0.5:
		return fmt.Sprintf("It holds %s of the values of its domain: sorted, it is nearly a list of them.", Percent(r.Density))
	case float64(r.Distinct) < 0.5*float64(r.Rows):
		return fmt.Sprintf("Its rows have only %d different %s: their order and frequencies are those of other such columns.", r.Distinct, show.Plural(r.Distinct, "value"))
	case who == KnowsRows:
		return "Between known rows, ciphertexts are nearly proportional to values."
	}
	return "Its values are written more coarsely than the scheme hides them."
}

// Percent writes a share in per cent.
func Percent(share float64) string {
	switch {
	case share > 0 && share < 0.0005:
		return "<0.1 %"
	case share < 1 && share >= 0.9995:
		return ">99.9 %"
	case share == 1 || share == 0:
		return fmt.Sprintf("%.0f %%", 100*share)
	}
	return strings.Replace(fmt.Sprintf("%.1f %%", 100*share), ".0 %", " %", 1)
}
