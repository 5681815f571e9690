package ferretti

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"gonum.org/v1/gonum/stat"

	"github.com/rangecrypt/rangecrypt/cmd/internal/lab/bench"
	"github.com/rangecrypt/rangecrypt/cmd/internal/lab/repro/experiment"
	"github.com/rangecrypt/rangecrypt/cmd/internal/lab/repro/workload"
	"github.com/rangecrypt/rangecrypt/internal/cli/show"
	"github.com/rangecrypt/rangecrypt/internal/pause"
)

// Table 1 and figures 6 and 7 of Ferretti, Colajanni and Marchetti (IEEE TPDS 2014), section 5: how long one client waits for
// an answer, in plaintext and encrypted, by command and network latency.

var orderTimeFigures = []experiment.Figure{
	{
		Name: "securedbaas-table1", About: "response times by command and network latency",
		Source: "Ferretti, Colajanni and Marchetti, IEEE TPDS 2014, table 1",
		Stored: true,
		Run:    overheadTable,
	},
	{
		Name: "securedbaas-fig6", About: "response times of SELECT and DELETE",
		Source: "Ferretti, Colajanni and Marchetti, IEEE TPDS 2014, figure 6",
		Stored: true, Drawn: true,
		Run: func(ctx context.Context, cfg experiment.Config) (*experiment.Result, error) {
			return boxes(ctx, cfg, "SELECT and DELETE", []timedOrder{{workload.Get, 1}, {workload.Delete, 1}})
		},
	},
	{
		Name: "securedbaas-fig7", About: "response times of UPDATE and INSERT",
		Source: "Ferretti, Colajanni and Marchetti, IEEE TPDS 2014, figure 7",
		Stored: true, Drawn: true,
		Run: func(ctx context.Context, cfg experiment.Config) (*experiment.Result, error) {
			return boxes(ctx, cfg, "UPDATE and INSERT", []timedOrder{{workload.Update, 1}, {workload.Insert, 2}})
		},
	},
}

const (
	timeRounds      = 40
	timeQuickRounds = 3

	// nearTimes is how many of each command are timed in a round without latency.
	nearTimes = 10

	// settled is for how long nothing is asked once all that goes on after an answer has ended.
	settled = 2 * time.Millisecond
)

// A timedOrder is a command that is timed, and by how many times the paper has it take longer encrypted, beyond plaintext.
type timedOrder struct {
	kind workload.Kind
	more float64
}

// orderCommands are those of the paper, in its order, and commandNames what it calls them.
var (
	orderCommands = []workload.Kind{workload.Get, workload.Delete, workload.Update, workload.Insert}
	commandNames  = map[workload.Kind]string{workload.Get: "SELECT", workload.Delete: "DELETE", workload.Update: "UPDATE", workload.Insert: "INSERT"}
)

// timedSeries are those of which response times are taken: without encryption nobody asks more often than has to be.
var timedSeries = []string{workload.Bare, workload.Encrypted, workload.Searched}

// An orderTime is how long a command took at a latency, by series of timedSeries, in seconds.
type orderTime struct {
	latency time.Duration
	kind    workload.Kind
	seconds [][]float64
}

// overhead returns by which share a series takes longer than plaintext.
func (t *orderTime) overhead(series int) experiment.Ratio {
	r := experiment.RatioOf(t.seconds[series], t.seconds[0])
	return experiment.Ratio{Low: r.Low - 1, Mid: r.Mid - 1, High: r.High - 1}
}

// measureTimes times each command in turns, in each of them the series in turns. It returns the rounds that are whole also with an
// error.
func measureTimes(ctx context.Context, cfg experiment.Config, p *party, latencies []time.Duration, rounds int) (all []*orderTime, whole int, err error) {
	for _, l := range latencies {
		for _, c := range orderCommands {
			all = append(all, &orderTime{l, c, make([][]float64, len(timedSeries))})
		}
	}
	c, err := p.join(ctx, cfg, timedClient, true)
	if err != nil {
		return all, 0, err
	}
	cfg.Bar().Start("measure", (rounds+1)*len(all))
	defer cfg.Bar().Done()
	for round := -1; round < rounds; round++ { // the first is not counted
		took := make([][][]float64, len(all))
		// INSERT comes before DELETE, so that there always is something to delete.
		for i := range slices.Backward(all) {
			t := all[i]
			p.net.Latency(t.latency)
			n := 1
			if t.latency == 0 {
				n = nearTimes
			}
			if took[i], err = timeCommand(ctx, c, t.kind, n, max(round, 0)); err != nil {
				return all, max(round, 0), err
			}
			cfg.Bar().Add(1)
		}
		for i, t := range all {
			for s := range timedSeries {
				if round >= 0 {
					t.seconds[s] = append(t.seconds[s], took[i][s]...)
				}
			}
		}
	}
	return all, rounds, nil
}

// timedClient is the number of the client that is timed, which no other one has.
const timedClient = 2

// timeCommand times n commands in each series. None begins while the one before still does something after its
// answer, as a write that leaves index entries to be removed does: that would count as the next series' time.
func timeCommand(ctx context.Context, c countedClient, kind workload.Kind, n, turn int) ([][]float64, error) {
	took := make([][]float64, len(timedSeries))
	for range n {
		for i := range timedSeries {
			s := (i + turn) % len(timedSeries)
			start := time.Now()
			if err := c.Do(ctx, slices.Index(workload.Series, timedSeries[s]), kind); err != nil {
				return nil, fmt.Errorf("%s: %w", timedSeries[s], err)
			}
			took[s] = append(took[s], time.Since(start).Seconds())
			if err := c.counter.Quiet(ctx, settled); err != nil {
				return nil, err
			}
		}
	}
	return took, nil
}

// paperOverheads are those of table 1 in per cent, by latency in ms and in the order of the commands.
var paperOverheads = map[int64][4]float64{0: {57, 112, 140, 179}, 20: {1.31, 1.50, 2.18, 3.65}, 40: {0.64, 0.66, 1.13, 1.81}, 80: {0.26, 0.42, 0.55, 0.95}}

func overheadTable(ctx context.Context, cfg experiment.Config) (r *experiment.Result, err error) {
	planned := cfg.RoundsOr(timeRounds, timeQuickRounds)
	latencies := []time.Duration{0, 20 * time.Millisecond, 40 * time.Millisecond, 80 * time.Millisecond}
	p, err := newParty(ctx, cfg, 1)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.close(ctx)) }()
	all, rounds, err := measureTimes(ctx, cfg, p, latencies, planned)
	if rounds == 0 {
		return nil, err
	}
	r = &experiment.Result{
		Title: fmt.Sprintf("Response times of one client: %s, median of %d %s", cfg.Database.Name, rounds, show.Plural(rounds, "round")),
		Runs:  rounds,
		Table: &experiment.Table{
			Names:   2,
			Columns: []string{"latency in ms", "command", "plaintext ms", "encrypted ms", "overhead %", "with an ordered column ms", "overhead %", "the paper %"},
			Words:   []bool{false, true, false, false, false, false, false, false},
		},
		Notes: timeNotes(cfg, p),
	}
	for _, t := range all {
		ms := func(s int) experiment.Cell { return experiment.Numeral(1e3*experiment.MedianOf(t.seconds[s]).Mid, 3) }
		r.Table.Rows = append(r.Table.Rows, []experiment.Cell{
			experiment.Numeral(float64(t.latency)/1e6, 0), experiment.Words("%s", commandNames[t.kind]), ms(0), ms(1), percentCell(t.overhead(1)), ms(2), percentCell(t.overhead(2)),
			experiment.Numeral(paperOverheads[t.latency.Milliseconds()][slices.Index(orderCommands, t.kind)], 2),
		})
	}
	r.Early(planned)
	r.Findings = timeFindings(all, p)
	r.Below(tpccPaperSize)
	if err == nil {
		err = addOpenLoop(ctx, cfg, p, r)
	}
	return r, err
}

func timeNotes(cfg experiment.Config, p *party) []string {
	var counts []string
	for _, series := range timedSeries {
		counts = append(counts, workload.PerOperation(series, p.trips[slices.Index(workload.Series, series)]))
	}
	where := "The latency is of the way there and back, made by a proxy between the client and the servers."
	if cfg.Database.Far == nil {
		where = "The store is embedded: the latency is a pause before each call."
	}
	return []string{
		"plaintext: rows in the clear, without this module, in the fewest round trips, one for each command. overhead: by how much longer the same command took in the same round, with its 95 % interval. An UPDATE replaces a row as a whole. What goes on after an answer ends before the next command begins. with an ordered column: one column more can be searched by ranges.",
		"Round trips of an operation, counted. " + strings.Join(counts, "; ") + ".", where,
	}
}

// timeFindings compares the overheads with what the paper says.
func timeFindings(all []*orderTime, p *party) []experiment.Finding {
	of := func(kind workload.Kind, l time.Duration) experiment.Ratio {
		i := slices.IndexFunc(all, func(t *orderTime) bool { return t.kind == kind && t.latency == l })
		return all[i].overhead(1)
	}
	last := all[len(all)-1].latency
	reads, writes := of(workload.Get, last), experiment.IsSo
	var text string
	for _, c := range orderCommands[1:] {
		o := of(c, last)
		writes = experiment.Both(writes, o.About(0.02, 0.05))
		text += fmt.Sprintf(", %s %s", commandNames[c], percentCell(o).Text)
	}
	why := "A write takes one round trip, as in plaintext: the store gives its writers a lease."
	if trips := p.trips[slices.Index(workload.Series, workload.Encrypted)]; trips[workload.Insert] > 1 {
		why = fmt.Sprintf("A write takes %d round trips where plaintext takes one: the second one reads whether another client has changed the schema. A lease saves it.", trips[workload.Insert])
	}
	return []experiment.Finding{
		experiment.Both(reads.About(0.02, 0.05), reads.Below(of(workload.Get, 0).Mid)).Finding(
			"The paper: the overhead of SELECT falls from 57 %% without latency to 0.26 %% at 80 ms, since latencies dominate. Here it falls from %s to %s %% at %d ms.",
			percentCell(of(workload.Get, 0)).Text, percentCell(reads).Text, last.Milliseconds()),
		writes.Finding(
			"The paper: so do those of DELETE, UPDATE and INSERT, to 1 %% and less. Here they are at %d ms, in per cent: %s. %s",
			last.Milliseconds(), text[2:], why),
	}
}

// boxes makes a result with quartiles of the times of commands without latency.
func boxes(ctx context.Context, cfg experiment.Config, title string, commands []timedOrder) (r *experiment.Result, err error) {
	planned := cfg.RoundsOr(timeRounds, timeQuickRounds)
	p, err := newParty(ctx, cfg, 1)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, p.close(ctx)) }()
	all, rounds, err := measureTimes(ctx, cfg, p, []time.Duration{0}, planned)
	if rounds == 0 {
		return nil, err
	}
	r = &experiment.Result{
		Title: fmt.Sprintf("Response times of %s: %s, %d of each", title, cfg.Database.Name, nearTimes*rounds),
		Y:     "ms", Runs: nearTimes * rounds,
		Table: &experiment.Table{
			Names:   2,
			Columns: []string{"command", "", "least ms", "quarter ms", "median ms", "three quarters ms", "95 % ms", "x plaintext"},
			Words:   []bool{true, true, false, false, false, false, false, false},
		},
		Notes: append(timeNotes(cfg, p), "In the drawing a box has the middle half of the times, around the median."),
	}
	for _, c := range commands {
		t := all[slices.IndexFunc(all, func(t *orderTime) bool { return t.kind == c.kind })]
		for s, series := range timedSeries {
			sorted := slices.Sorted(slices.Values(t.seconds[s]))
			ms := func(q float64) float64 { return 1e3 * stat.Quantile(q, stat.Empirical, sorted, nil) }
			beside := experiment.Words("1")
			if s > 0 {
				beside = experiment.RatioOf(t.seconds[s], t.seconds[0]).Cell()
			}
			r.Table.Rows = append(r.Table.Rows, []experiment.Cell{
				experiment.Words("%s", commandNames[c.kind]), experiment.Words("%s", series), experiment.Numeral(ms(0), 3), experiment.Numeral(ms(0.25), 3), experiment.Numeral(ms(0.5), 3), experiment.Numeral(ms(0.75), 3), experiment.Numeral(ms(0.95), 3), beside,
			})
			box := experiment.Box{Group: commandNames[c.kind], Name: series}
			for _, took := range t.seconds[s] {
				box.Values = append(box.Values, 1e3*took)
			}
			r.Boxes = append(r.Boxes, box)
		}
		longer := experiment.RatioOf(t.seconds[1], t.seconds[0])
		r.Findings = append(r.Findings, longer.Near(1+c.more).Finding(
			"The paper: encrypted, %s takes about %.0f times as long without latency; from three quarters to one and a half times of that count as so. Here it takes %v times as long, and %v times with an ordered column.",
			commandNames[c.kind], 1+c.more, longer, experiment.RatioOf(t.seconds[2], t.seconds[0])))
	}
	r.Early(planned)
	r.Below(tpccPaperSize)
	return r, err
}

const (
	openLatency = 40 * time.Millisecond
	openRate    = 50 // commands a second
	openSeconds = 20
)

// addOpenLoop adds what a client waits for that does not wait: commands come at random times, whether the last one has
// ended or not, and each is timed from when it came.
func addOpenLoop(ctx context.Context, cfg experiment.Config, p *party, r *experiment.Result) error {
	n := cfg.Size(openRate*openSeconds, openRate)
	p.net.Latency(openLatency)
	cfg.Bar().Start("open loop", len(timedSeries))
	defer cfg.Bar().Done()
	text := fmt.Sprintf("Open loop at %d ms: %d commands come at random times, %d a second, half SELECT and a quarter each UPDATE and INSERT. Each is timed from when it came, so that a delay counts for all that wait. Median and 99 %% in ms:",
		openLatency.Milliseconds(), n, openRate)
	for i, series := range timedSeries {
		took, err := openLoop(ctx, cfg.Seed, p.clients[0], slices.Index(workload.Series, series), n)
		if err != nil {
			return fmt.Errorf("%s: %w", series, err)
		}
		if i > 0 {
			text += ";"
		}
		l := bench.LatencyOf(took...)
		text += fmt.Sprintf(" %s %.1f, %.1f", series, l.Quantile(0.5).Seconds()*1e3, l.Quantile(0.99).Seconds()*1e3)
		cfg.Bar().Add(1)
	}
	r.Notes = append(r.Notes, text+".")
	return nil
}

// openLoop returns how long each command took from when it was to begin.
func openLoop(ctx context.Context, seed uint64, c *workload.Client, series, n int) ([]time.Duration, error) {
	r := rand.New(rand.NewPCG(seed, 1))
	took := make([]time.Duration, n)
	group, ctx := errgroup.WithContext(ctx)
	begin := time.Now()
	for i := range n {
		begin = begin.Add(time.Duration(r.ExpFloat64() * float64(time.Second) / openRate))
		if err := pause.For(ctx, time.Until(begin)); err != nil {
			return nil, errors.Join(group.Wait(), err)
		}
		command, at := c.Command(series, r), begin
		group.Go(func() error {
			err := command(ctx)
			took[i] = time.Since(at)
			return err
		})
	}
	return took, group.Wait()
}
