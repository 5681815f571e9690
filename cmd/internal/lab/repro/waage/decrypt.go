package waage

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/rangecrypt/rangecrypt/cmd/internal/lab/bench"
	"github.com/rangecrypt/rangecrypt/cmd/internal/lab/repro/experiment"
	"github.com/rangecrypt/rangecrypt/internal/cli/exit"
	"github.com/rangecrypt/rangecrypt/ope"
	"github.com/rangecrypt/rangecrypt/ope/boldyreva"
	"github.com/rangecrypt/rangecrypt/ope/kerschbaum"
	"github.com/rangecrypt/rangecrypt/ope/wozniak"
	storeindex "github.com/rangecrypt/rangecrypt/store/index"
)

// The decryption times that Waage, Homann and Wiese (SECRYPT 2016) give in the last paragraph of
// section 4.

var decryptFigures = []experiment.Figure{{
	Name:   "waage-decrypt",
	About:  "time to decrypt a value",
	Source: "Waage, Homann and Wiese, SECRYPT 2016, end of section 4",
	Stored: true,
	Run:    decryptTimes,
}}

const (
	decryptValues      = 20_000
	decryptQuickValues = 1000
	decryptRounds      = 200 // new clients
	decryptQuickRounds = 10
	decryptWarm        = 20 // values that each round decrypts besides
)

// A variant is a scheme as these experiments make it. A client of a stateful one works on the
// index; the others do not look at it.
type variant struct {
	name  string
	paper string  // the scheme's name in the paper
	bound string  // with most: what a decryption took in the paper
	most  float64 // in ms
	// open returns a client, and what counts its round trips to the index, or nil.
	open func(key ope.Key, d ope.Domain, x ope.Index, unit string) (ope.Scheme, func() int, error)
}

// made is what comes of making a stateless scheme.
func made[S ope.Scheme](s S, err error) (ope.Scheme, func() int, error) {
	if err != nil {
		return nil, nil, err
	}
	return s, nil, nil
}

func openKerschbaum(lambda int) func(ope.Key, ope.Domain, ope.Index, string) (ope.Scheme, func() int, error) {
	return func(key ope.Key, d ope.Domain, x ope.Index, unit string) (ope.Scheme, func() int, error) {
		s, err := kerschbaum.New(key, d, x, &kerschbaum.Options{Name: unit, Lambda: lambda})
		if err != nil {
			return nil, nil, err
		}
		return s, func() int { return s.Stats().RoundTrips }, nil
	}
}

// The names of the variants that are no curves.
const (
	kerschbaumPublished = "Kerschbaum published"
	kerschbaumLocal     = "Kerschbaum local"
)

// The lambda of Waage et al., section 3.2.2: "already sufficient for most datasets".
const publishedLambda = 2

var variants = []variant{
	{mope, "Boldyreva 2011", "up to", 5, func(key ope.Key, d ope.Domain, _ ope.Index, _ string) (ope.Scheme, func() int, error) {
		return made(boldyreva.NewModular(key, d, nil))
	}},
	{wozniakKeyed, "Wozniak 2013", "<", 1, func(key ope.Key, d ope.Domain, _ ope.Index, _ string) (ope.Scheme, func() int, error) {
		return made(wozniak.New(key, d, nil))
	}},
	{wozniakIndexed, "Wozniak 2013", "<", 1, func(key ope.Key, d ope.Domain, x ope.Index, unit string) (ope.Scheme, func() int, error) {
		s, err := wozniak.NewIndexed(key, d, x, ope.Unit(unit), &wozniak.IndexedOptions{TargetsOnly: true})
		if err != nil {
			return nil, nil, err
		}
		return s, func() int { return s.Stats().Trips }, nil
	}},
	{kerschbaumPublished, "Kerschbaum 2014", "<", 1, openKerschbaum(publishedLambda)},
	{kerschbaumLocal, "Kerschbaum 2014", "<", 1, openKerschbaum(0)},
}

// A decryption is what was measured of a scheme.
type decryption struct {
	variant
	key         ope.Key
	unit        string
	ciphertexts []ope.Ciphertext
	client      ope.Scheme // that knows the values
	warm, cold  []time.Duration
	trips       int // of the cold ones, to the index
}

func decryptTimes(ctx context.Context, cfg experiment.Config) (_ *experiment.Result, err error) {
	n, rounds := cfg.Size(decryptValues, decryptQuickValues), cfg.RoundsOr(decryptRounds, decryptQuickRounds)
	_, values, err := uniform(n, cfg.Seed, "int32", "random")
	if err != nil {
		return nil, err
	}
	index, drop, err := temporaryIndex(ctx, cfg)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, drop()) }()

	var all []*decryption
	cfg.Bar().Start("encrypt", n*len(variants))
	for i, v := range variants {
		d := &decryption{variant: v, key: ope.GenerateKey(), unit: fmt.Sprint("u", i)}
		if err := d.encrypt(ctx, index, values); err != nil {
			cfg.Bar().Done()
			return nil, fmt.Errorf("%s: %w", v.name, err)
		}
		all = append(all, d)
		cfg.Bar().Add(n)
	}
	cfg.Bar().Done()

	cfg.Bar().Start("decrypt", rounds*len(all))
	defer cfg.Bar().Done()
	for round := range rounds {
		for i := range all {
			d := all[(i+round)%len(all)]
			if err := d.round(ctx, index, values, round); err != nil {
				return nil, fmt.Errorf("%s: %w", d.name, err)
			}
			cfg.Bar().Add(1)
		}
	}

	r := &experiment.Result{
		Title: fmt.Sprintf("Time to decrypt one of %s uniform int32 values, index in %s", experiment.Commas(float64(n)), cfg.Database.Name),
		Runs:  rounds,
		Table: &experiment.Table{
			Names:   1,
			Columns: []string{"", "known us", "known p99", "new client us", "new p99", "round trips", "paper us"},
			Words:   []bool{true, false, false, false, false, false, false},
		},
		Notes: []string{fmt.Sprintf(
			"known: by a client that has met the value before; medians of %s decryptions. "+
				"new client: the first decryption by a client that was just made, its making included; medians of %s. "+
				"round trips: to the index, of a new client.", experiment.Commas(float64(rounds*decryptWarm)), experiment.Commas(float64(rounds)))},
	}
	for _, d := range all {
		warm, cold := bench.LatencyOf(d.warm...), bench.LatencyOf(d.cold...)
		us := func(l bench.Latency, q float64) experiment.Cell {
			return experiment.Numeral(float64(l.Quantile(q))/1e3, 1)
		}
		most := d.most * 1000
		paper := experiment.Cell{Text: d.bound + " " + experiment.Commas(most), Number: &most}
		r.Table.Rows = append(r.Table.Rows, []experiment.Cell{
			experiment.Words("%s", d.name), us(warm, 0.5), us(warm, 0.99), us(cold, 0.5), us(cold, 0.99),
			experiment.Numeral(float64(d.trips)/float64(rounds), 1), paper,
		})
	}
	r.Findings = decryptFindings(all)
	if cfg.Quick {
		r.Below(experiment.Commas(decryptValues) + " values")
	}
	return r, nil
}

// encrypt puts the values under a key and keeps their ciphertexts.
func (d *decryption) encrypt(ctx context.Context, index ope.Index, values []int64) (err error) {
	if d.client, _, err = d.open(d.key, ope.Int32, index, d.unit); err != nil {
		return err
	}
	d.ciphertexts, err = d.client.(ope.BatchEncrypter).EncryptBatch(ctx, values)
	if err != nil {
		return err
	}
	if m, ok := d.client.(ope.Mutable); ok {
		// What was handed out first may have moved since.
		now := make(map[int64]ope.Ciphertext)
		for entry, err := range m.Range(ctx, ope.Int32.Min, ope.Int32.Max) {
			if err != nil {
				return err
			}
			now[entry.Plaintext] = entry.Ciphertext
		}
		for i, x := range values {
			d.ciphertexts[i] = now[x]
		}
	}
	return nil
}

// round decrypts a value with a client that was just made, and others with one that knows them.
func (d *decryption) round(ctx context.Context, index ope.Index, values []int64, round int) error {
	timed := func(s ope.Scheme, i int) error {
		x, err := s.Decrypt(ctx, d.ciphertexts[i%len(values)])
		if err == nil && x != values[i%len(values)] {
			err = fmt.Errorf("%w: a ciphertext was decrypted to another value", exit.ErrWrongAnswer)
		}
		return err
	}
	const stride = 7919 // prime, so that the values are from all over
	start := time.Now()
	fresh, trips, err := d.open(d.key, ope.Int32, index, d.unit)
	if err == nil {
		err = timed(fresh, round*stride)
	}
	d.cold = append(d.cold, time.Since(start))
	if err != nil {
		return err
	}
	if trips != nil {
		d.trips += trips()
	}
	for i := range decryptWarm {
		start := time.Now()
		if err := timed(d.client, (round*decryptWarm+i)*stride); err != nil {
			return err
		}
		d.warm = append(d.warm, time.Since(start))
	}
	return nil
}

func middle(all []time.Duration) time.Duration {
	return bench.LatencyOf(all...).Quantile(0.5)
}

func decryptFindings(all []*decryption) []experiment.Finding {
	m := all[0]
	var slowest time.Duration // lookup of a known value
	var stateless, stateful []string
	newUnder := true
	for _, d := range all {
		if d.trips == 0 {
			stateless = append(stateless, fmt.Sprintf("%s %.1f us", d.name, float64(middle(d.warm))/1e3))
			continue
		}
		slowest = max(slowest, middle(d.warm))
		newUnder = newUnder && middle(d.cold) < time.Millisecond
		stateful = append(stateful, fmt.Sprintf("%s %.2f ms", d.name, float64(middle(d.cold))/1e6))
	}
	return []experiment.Finding{
		{Holds: slowest < time.Millisecond, Text: fmt.Sprintf(
			"The paper: in Wozniak's and Kerschbaum's schemes decryption is a lookup in the index, which takes less than 1 ms. Of a value that the client remembers it takes %.1f us here at most, without a request.",
			float64(slowest)/1e3)},
		{Holds: newUnder, Text: fmt.Sprintf(
			"The same by a client that remembers nothing, which has to ask the database: %s.", strings.Join(stateful, ", "))},
		{Holds: middle(m.warm) < 5*time.Millisecond, Text: fmt.Sprintf(
			"The paper: mOPE takes up to 5 ms. Here the schemes without an index take: %s.", strings.Join(stateless, ", "))},
		{Holds: middle(m.warm) > slowest, Text: fmt.Sprintf(
			"The paper: mOPE is more expensive, since it has no index to use. Here it takes %.1f times as long as a lookup of what the client remembers, and %.2g times as long as one in the database.",
			float64(middle(m.warm))/float64(slowest), float64(middle(m.cold))/float64(coldest(all)))},
	}
}

// coldest returns the shortest time that a new client takes with an index.
func coldest(all []*decryption) time.Duration {
	least := time.Duration(math.MaxInt64)
	for _, d := range all {
		if d.trips > 0 {
			least = min(least, middle(d.cold))
		}
	}
	return least
}

// temporaryIndex opens an index of its own in the database; drop removes it.
func temporaryIndex(ctx context.Context, cfg experiment.Config) (index ope.Index, drop func() error, err error) {
	var id [8]byte
	rand.Read(id[:])
	name := "repro" + hex.EncodeToString(id[:])
	if index, err = storeindex.Open(ctx, cfg.Database.DB, name); err != nil {
		return nil, nil, err
	}
	return index, func() error {
		ctx := context.WithoutCancel(ctx)
		families, err := cfg.Database.DB.Families(ctx)
		for _, f := range families {
			if strings.HasSuffix(f, name) {
				err = errors.Join(err, cfg.Database.DB.Drop(ctx, f))
			}
		}
		return err
	}, nil
}
