package waage

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"github.com/rangecrypt/rangecrypt/cmd/internal/lab/repro/experiment"
	"github.com/rangecrypt/rangecrypt/internal/cli/exit"
	"github.com/rangecrypt/rangecrypt/internal/cli/show"
	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/encode"
	"github.com/rangecrypt/rangecrypt/ope/leakage"
	"github.com/rangecrypt/rangecrypt/ope/memindex"
)

// Table 1 of Waage, Homann and Wiese (SECRYPT 2016): the schemes by the criteria I to V of section
// 3.1. The paper grades with signs; here stands what the types of the schemes say and what was
// observed of them, and beside it what the paper says in words.

var criteriaFigures = []experiment.Figure{{
	Name:   "waage-table1",
	About:  "the schemes by the criteria I to V",
	Source: "Waage, Homann and Wiese, SECRYPT 2016, section 3.1 and table 1",
	Run:    criteriaTable,
}}

const (
	criteriaValues = 2000
	criteriaBits   = 20 // of the domain that is attacked, of which a fifth of a per cent is in use

	criteriaKeys      = 20
	criteriaQuickKeys = 3
)

// The criteria, and what the paper says in words of its three schemes: in sections 3.1, 3.2.1 to
// 3.2.3, 4 and 5, and for V in table 1.
var criteria = []struct {
	name  string
	paper map[string]string
	here  func(p properties) experiment.Cell
}{
	{"I", map[string]string{
		"Boldyreva 2011": "immutable", "Wozniak 2013": "immutable", "Kerschbaum 2014": "mutable",
	}, properties.mutability},
	{"II", map[string]string{
		"Boldyreva 2011": "stateless", "Wozniak 2013": "index", "Kerschbaum 2014": "index",
	}, properties.structures},
	{"III", map[string]string{
		"Boldyreva 2011": "client only", "Wozniak 2013": "client only", "Kerschbaum 2014": "client only",
	}, properties.components},
	{"IV", map[string]string{
		"Boldyreva 2011": "positive integers", "Wozniak 2013": "integers", "Kerschbaum 2014": "integers",
	}, properties.input},
	{"V", map[string]string{
		"Boldyreva 2011": "ROPF", "Wozniak 2013": "> IND-OCPA", "Kerschbaum 2014": "IND-OCPA",
	}, properties.security},
}

// properties is what a scheme's type says, and what was observed.
type properties struct {
	variant
	immutable, linear, mutable, appends bool

	moved     int     // values of ascending input that had another ciphertext in the end
	commits   float64 // to the index, for a value
	intervals int     // of a range, at most
	trips     float64 // to the index for a range, by a new client

	refused []string // domains that it does not take
	floats  bool     // it keeps the order of floating-point numbers, and gives them back exactly

	scaled, ranked float64 // shares of the values read to within a per cent of the domain
	known          float64 // scaled, when the shift is known
	traced         float64 // share of the pairs whose order of insertion is shown
}

func (p properties) mutability() experiment.Cell {
	if p.immutable == p.mutable {
		return experiment.Words("contradictory")
	}
	if p.immutable {
		return experiment.Words("immutable; sorted input moved %s", experiment.Commas(float64(p.moved)))
	}
	return experiment.Words("mutable; sorted input moved %s", experiment.Commas(float64(p.moved)))
}

func (p properties) structures() experiment.Cell {
	switch {
	case p.commits > 0:
		return experiment.Words("index; %.1f commits a value", p.commits)
	case p.appends:
		return experiment.Words("stateless")
	}
	return experiment.Words("none")
}

func (p properties) components() experiment.Cell {
	text := fmt.Sprintf("client only; %d %s", p.intervals, show.Plural(p.intervals, "comparison"))
	if p.trips > 0 {
		text += fmt.Sprintf(", %.1f trips", p.trips)
	}
	return experiment.Words("%s", text)
}

func (p properties) input() experiment.Cell {
	text := "integers"
	if p.floats {
		text += " and floats"
	}
	if len(p.refused) > 0 {
		text += ", no " + strings.Join(p.refused, ", ")
	}
	return experiment.Words("%s", text)
}

func (p properties) security() experiment.Cell {
	text := fmt.Sprintf("scaling %.0f %%", 100*p.scaled)
	if p.immutable && !p.linear {
		text += fmt.Sprintf(" (%.0f %%)", 100*p.known)
	}
	text += fmt.Sprintf(", rank %.0f %%", 100*p.ranked)
	if p.mutable {
		text += fmt.Sprintf(", trace %.1f %%", 100*p.traced)
	}
	return experiment.Words("%s", text)
}

// notBuilt are the other schemes of the paper's table 1: what the table says of V, by which criterion
// they are impractical, and why, all by sections 3.1 and 3.2. A "?" has an informal analysis or none.
var notBuilt = []struct{ scheme, security, criteria, why string }{
	{"Kadhem 2010", "?", "II", "keeps metadata of parts of the domain"},
	{"Liu & Wang 2012", "?", "IV", "must know the least distance of values"},
	{"Popa 2013", "IND-OCPA", "III", "runs a component beside the database"},
	{"Liu 2014", "?", "II, IV", "the same metadata; encrypts all beforehand"},
	{"Chenette 2015", "> ROPF", "", "no decryption; code in the database compares"},
}

// notBuiltTable tells them.
func notBuiltTable() *experiment.Table {
	t := &experiment.Table{Names: 1, Columns: []string{"scheme", "V", "criterion", "not built, because"}, Words: []bool{true, true, true, true}}
	for _, s := range notBuilt {
		t.Rows = append(t.Rows, []experiment.Cell{experiment.Words("%s", s.scheme), experiment.Words("%s", s.security), experiment.Words("%s", cmp.Or(s.criteria, "-")), experiment.Words("%s", s.why)})
	}
	return t
}

func criteriaTable(ctx context.Context, cfg experiment.Config) (*experiment.Result, error) {
	keys := cfg.Size(criteriaKeys, criteriaQuickKeys)
	cfg.Bar().Start("observe", len(variants)*keys)
	defer cfg.Bar().Done()
	var all []properties
	for _, v := range variants {
		p, err := observe(ctx, cfg, v, keys)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", v.name, err)
		}
		all = append(all, p)
	}
	r := &experiment.Result{
		Title: fmt.Sprintf("The criteria I to V: %s values, %d keys", experiment.Commas(criteriaValues), keys),
		Runs:  keys,
		Table: &experiment.Table{Names: 2, Columns: []string{"", "scheme", "here", "the paper"}, Words: []bool{true, true, true, true}},
		More:  notBuiltTable(),
		Notes: []string{
			"I, whether ciphertexts change, II, data structures, and III, components: what the Go types promise, and what was counted when ascending 32-bit values were encrypted one by one. III: comparisons in the database for a range, and round trips to the index by a new client; nothing runs beside the database.",
			"IV: all integer types of 8 to 64 bits, negative values included, that come back, and float32, whose ranges are right.",
			fmt.Sprintf("V: the share of %s uniform values, of a domain of %d bits, that are read to within 1 %% of the domain: scaling, by who knows the domain (in brackets, the shift too); rank, by who knows the distribution. trace: the pairs of values of which the labels show which came first.",
				experiment.Commas(criteriaValues), criteriaBits),
			"The paper: in the words of its text, and for V of its table 1.",
			"Not built: schemes that the paper's table 1 has too, and the paper calls impractical. V: of its table, where ? has an informal analysis or none. The reasons are its own, of sections 3.1 and 3.2.",
		},
		Findings: criteriaFindings(all),
	}
	for _, c := range criteria {
		for _, p := range all {
			r.Table.Rows = append(r.Table.Rows, []experiment.Cell{experiment.Words("%s", c.name), experiment.Words("%s", p.name), c.here(p), experiment.Words("%s", c.paper[p.variant.paper])})
		}
	}
	return r, nil
}

// criteriaKey returns the n-th key of a seed, so that a seed gives the same table. These keys protect
// nothing.
func criteriaKey(seed uint64, n int) (ope.Key, error) {
	in := binary.BigEndian.AppendUint64([]byte("opebench repro waage-table1"), seed)
	secret := sha256.Sum256(binary.BigEndian.AppendUint64(in, uint64(n)))
	return ope.NewKey(secret[:])
}

const criteriaUnit = "u"

func observe(ctx context.Context, cfg experiment.Config, v variant, keys int) (properties, error) {
	p := properties{variant: v}
	r := rand.New(rand.NewPCG(cfg.Seed, 1))
	key, err := criteriaKey(cfg.Seed, 0)
	if err != nil {
		return p, err
	}

	if err := p.encryptAscending(ctx, key, r); err != nil {
		return p, err
	}

	// IV: what it takes.
	if p.refused, err = refused(ctx, v, key); err != nil {
		return p, err
	}
	if p.floats, err = keepsFloats(ctx, v, key, r); err != nil {
		return p, err
	}

	// V: attacks.
	domain := ope.Domain{Min: 0, Max: 1<<criteriaBits - 1}
	near := leakage.Near(0.01 * (float64(domain.Span()) + 1))
	for n := range keys {
		key, err := criteriaKey(cfg.Seed, n)
		if err != nil {
			return p, err
		}
		if err := p.attack(ctx, key, domain, near, rand.New(rand.NewPCG(cfg.Seed, uint64(n))), float64(keys)); err != nil {
			return p, err
		}
		cfg.Bar().Add(1)
	}
	return p, nil
}

// encryptAscending looks at the criteria I to III: it encrypts ascending values, one by one.
func (p *properties) encryptAscending(ctx context.Context, key ope.Key, r *rand.Rand) error {
	index := memindex.New()
	s, _, err := p.open(key, ope.Int32, index, criteriaUnit)
	if err != nil {
		return err
	}
	_, p.immutable = s.(ope.Immutable)
	_, p.linear = s.(ope.Linear)
	_, p.mutable = s.(ope.Mutable)
	_, p.appends = s.(ope.Appender)
	values := make([]int64, criteriaValues)
	for i := range values {
		values[i] = int64(int32(r.Uint32()))
	}
	slices.Sort(values)
	values = slices.Compact(values)
	first := make([]ope.Ciphertext, len(values))
	for i, x := range values {
		if first[i], err = s.Encrypt(ctx, x); err != nil {
			return err
		}
	}
	for i, x := range values {
		// The value again: an immutable scheme returns the same, a mutable one what it is now.
		now, err := s.Encrypt(ctx, x)
		if err != nil {
			return err
		}
		if !slices.Equal(now, first[i]) {
			p.moved++
		}
	}
	n := float64(len(values))
	p.commits = float64(index.Commits()) / n
	const ranges = 50
	for range ranges {
		client, trips, err := p.open(key, ope.Int32, index, criteriaUnit)
		if err != nil {
			return err
		}
		a, b := values[r.IntN(len(values))], values[r.IntN(len(values))]
		intervals, err := client.Intervals(ctx, min(a, b), max(a, b))
		if err != nil {
			return err
		}
		if trips != nil {
			p.trips += float64(trips()) / ranges
		}
		p.intervals = max(p.intervals, len(intervals))
	}
	return nil
}

// attack adds what is read of a column under a key, as a part of the mean of so many.
func (p *properties) attack(ctx context.Context, key ope.Key, domain ope.Domain, near func(truth, guess int64) bool, r *rand.Rand, keys float64) error {
	index := memindex.New()
	s, _, err := p.open(key, domain, index, criteriaUnit)
	if err != nil {
		return err
	}
	seen := make(map[int64]bool)
	var values []int64
	for len(values) < criteriaValues {
		if x := domain.At(r.Uint64N(domain.Span() + 1)); !seen[x] {
			seen[x] = true
			values = append(values, x)
		}
	}
	column := make([]ope.Ciphertext, len(values))
	for i, x := range values {
		if column[i], err = s.Encrypt(ctx, x); err != nil {
			return err
		}
	}
	bits, err := rangeBits(s.ID())
	if err != nil {
		return err
	}
	turned := column
	switch m := s.(type) {
	case ope.Mutable:
		at := make(map[int64]ope.Ciphertext)
		for entry, err := range m.Range(ctx, domain.Min, domain.Max) {
			if err != nil {
				return err
			}
			at[entry.Plaintext] = entry.Ciphertext[:labelSize]
		}
		for i, x := range values {
			column[i] = at[x]
		}
		p.traced += leakage.Traced(trace(column, bits)) / keys
	case ope.Linear:
	default:
		// The least plaintext's ciphertext gives the shift.
		start, err := s.Encrypt(ctx, domain.Min)
		if err != nil {
			return err
		}
		turned = turnBack(column, start, bits)
	}
	p.scaled += leakage.Share(values, leakage.Scale(column, bits, domain), near) / keys
	p.known += leakage.Share(values, leakage.Scale(turned, bits, domain), near) / keys
	p.ranked += leakage.Share(values, leakage.Rank(turned, leakage.Uniform(domain)), near) / keys
	return nil
}

// labelSize is the length of a label at the beginning of a ciphertext of a mutable scheme.
const labelSize = 16

// rangeBits returns the bits of the range that an ID names; 0 stands for all of the ciphertext.
func rangeBits(id string) (int, error) {
	for field := range strings.FieldsSeq(id) {
		if text, ok := strings.CutPrefix(field, "range="); ok {
			return strconv.Atoi(text)
		}
		if text, ok := strings.CutPrefix(field, "lambda="); ok {
			lambda, err := strconv.Atoi(text)
			return lambda*criteriaBits + 1, err
		}
	}
	return 0, nil
}

// trace reads the order of insertion from labels under the rule of the scheme.
func trace(labels []ope.Ciphertext, bits int) []int {
	top := func(bits int) *big.Int { return new(big.Int).Lsh(big.NewInt(1), uint(bits)) }
	if bits == 0 {
		high := top(8 * labelSize)
		return leakage.Trace(labels, new(big.Int), high.Sub(high, big.NewInt(1)), leakage.Turns{}, leakage.Adaptive)
	}
	return leakage.Trace(labels, new(big.Int), top(bits), struct{}{}, leakage.Midpoint)
}

// turnBack returns the column turned until the ciphertext start is the least.
func turnBack(column []ope.Ciphertext, start ope.Ciphertext, bits int) []ope.Ciphertext {
	size := new(big.Int).Lsh(big.NewInt(1), uint(bits))
	zero := new(big.Int).SetBytes(start)
	turned := make([]ope.Ciphertext, len(column))
	for i, c := range column {
		x := new(big.Int).SetBytes(c)
		turned[i] = x.Mod(x.Sub(x, zero), size).FillBytes(make([]byte, len(c)))
	}
	return turned
}

// refused returns the integer types that the scheme does not take.
func refused(ctx context.Context, v variant, key ope.Key) (names []string, err error) {
	for _, c := range []struct {
		name   string
		domain ope.Domain
	}{{"int8", ope.Int8}, {"int16", ope.Int16}, {"int32", ope.Int32}, {"int64", ope.Int64}} {
		s, _, err := v.open(key, c.domain, memindex.New(), criteriaUnit)
		if errors.Is(err, ope.ErrParams) {
			names = append(names, c.name)
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, x := range []int64{0, c.domain.Max, -1, c.domain.Min, 1} {
			encrypted, err := s.Encrypt(ctx, x)
			if err != nil {
				return nil, err
			}
			if back, err := s.Decrypt(ctx, encrypted); err != nil || back != x {
				return nil, fmt.Errorf("%w: a ciphertext of %s was decrypted to another value", exit.ErrWrongAnswer, c.name)
			}
		}
	}
	return names, nil
}

// keepsFloats reports whether floating-point numbers come back exactly from their ciphertexts, and
// queries for ranges of them find exactly those in the range.
func keepsFloats(ctx context.Context, v variant, key ope.Key, r *rand.Rand) (bool, error) {
	codec := encode.Float[float32]()
	s, _, err := v.open(key, codec.Domain(), memindex.New(), criteriaUnit)
	if err != nil {
		return false, err
	}
	column, err := encode.NewColumn(s, codec)
	if err != nil {
		return false, err
	}
	numbers := []float32{0, 1, -1, math.SmallestNonzeroFloat32, -math.SmallestNonzeroFloat32, math.MaxFloat32, -math.MaxFloat32}
	for len(numbers) < 200 {
		if x := math.Float32frombits(r.Uint32()); x == x && !slices.Contains(numbers, x) {
			numbers = append(numbers, x)
		}
	}
	for _, x := range numbers {
		if _, err := column.Encrypt(ctx, x); err != nil {
			return false, err
		}
	}
	for range 20 {
		a, b := numbers[r.IntN(len(numbers))], numbers[r.IntN(len(numbers))]
		intervals, err := column.Between(ctx, min(a, b), max(a, b))
		if err != nil {
			return false, err
		}
		for _, x := range numbers {
			c, err := column.Encrypt(ctx, x) // as it is now
			if err != nil {
				return false, err
			}
			back, err := column.Decrypt(ctx, c)
			if err != nil {
				return false, err
			}
			found := slices.ContainsFunc(intervals, func(iv ope.Interval) bool {
				return slices.Compare(iv.Start, c) <= 0 && slices.Compare(c, iv.End) < 0
			})
			if back != x || found != (min(a, b) <= x && x <= max(a, b)) {
				return false, nil
			}
		}
	}
	return true, nil
}

func criteriaFindings(all []properties) []experiment.Finding {
	at := func(name string) properties {
		return all[slices.IndexFunc(all, func(p properties) bool { return p.name == name })]
	}
	m, keyed, indexed := at(mope), at(wozniakKeyed), at(wozniakIndexed)
	published, relabelled := at(kerschbaumPublished), at(kerschbaumLocal)
	floats := true
	ranked := 1.0 // under the best of them
	for _, p := range all {
		floats = floats && p.floats
		ranked = min(ranked, p.ranked)
	}
	return []experiment.Finding{
		{Holds: m.immutable && indexed.immutable && keyed.immutable && published.mutable && m.moved+indexed.moved+keyed.moved == 0 && published.moved > 0, Text: fmt.Sprintf(
			"The paper, I: Kerschbaum's ciphertexts are mutable, the others' are not. Of %s ascending values %s moved as published, and %s with local relabelling. The types say it too: a mutable scheme as a row key does not compile.",
			experiment.Commas(criteriaValues), experiment.Commas(float64(published.moved)), experiment.Commas(float64(relabelled.moved)))},
		{Holds: keyed.commits > 0, Text: fmt.Sprintf(
			"The paper, II: Wozniak's scheme needs an index. Its on-demand form does (%.1f commits a value); with the coins of each step derived from a key it needs none.", indexed.commits)},
		{Holds: !floats, Text: "The paper, IV: no technique is known that converts floating-point numbers to integers in an order-preserving way without loss of precision. The bits of an IEEE 754 number, with those of negative ones inverted, are one: under every scheme here ranges of float32 are found exactly, and the numbers come back unchanged."},
		{Unclear: m.scaled < m.known/2, Holds: true, Text: fmt.Sprintf(
			"The paper, V: modular shifting is only a small enhancement. While the shift is secret, scaling reads %.0f %% of mOPE's values to within 1 %% of the domain, and with the shift %.0f %%. The first open-ended or wrapping query shows the shift: whether such queries come is not for a measurement to say.",
			100*m.scaled, 100*m.known)},
		{Holds: ranked < 0.1, Text: fmt.Sprintf(
			"The paper, V: with uniform values and a domain much larger than the column, OPE still provides a good level of security. Here 0.2 %% of the domain are in use, and who knows the distribution reads %.0f %% of the values or more to within 1 %% of the domain from the order alone, under every scheme.",
			100*ranked)},
		{Holds: indexed.ranked < relabelled.ranked-0.05 && indexed.scaled < relabelled.scaled-0.05, Text: fmt.Sprintf(
			"The paper, V: Wozniak's scheme is proved by its authors to be better than IND-OCPA. No order-preserving scheme hides the order, which IND-OCPA allows to be seen: rank reads %.0f %% under Wozniak's scheme and %.0f %% under Kerschbaum's, which is IND-OCPA. What can differ is scaling, with %.0f and %.0f %%.",
			100*indexed.ranked, 100*relabelled.ranked, 100*indexed.scaled, 100*relabelled.scaled)},
	}
}
