package command

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"encoding/xml"
	"image/png"
	"io"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rangecrypt/rangecrypt/internal/cli/show"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/plot/vg"

	"github.com/rangecrypt/rangecrypt/internal/cli/audit"
	"github.com/rangecrypt/rangecrypt/internal/cli/draw"
	"github.com/rangecrypt/rangecrypt/internal/cli/values"
)

// audited is a real audit.
func audited(t *testing.T, schemes ...string) auditReport {
	t.Helper()
	source, err := values.Generate("normal", 200, 1, "int16", "")
	require.NoError(t, err)
	cfg := audit.Config{Kind: source.Kind(), Domain: source.Kind().Domain, Schemes: schemes, Trials: 2, Known: 3, Seed: 1}
	for x, err := range source.Values() {
		require.NoError(t, err)
		cfg.Values = append(cfg.Values, x)
	}
	r, err := audit.Run(context.Background(), cfg)
	require.NoError(t, err)
	return auditReport{
		Env:    show.Environment{Version: "v0.0.0", Go: "go1.26", OS: "linux", Arch: "amd64", Cores: 2, Time: time.Unix(1_700_000_000, 0).UTC()},
		Values: source.Describe(), Knows: "the other half of the rows", Seed: 1, Skipped: 1234, Advice: audit.Advise(r), Report: r,
	}
}

func TestAuditTable(t *testing.T) {
	a := audited(t, audit.Schemes()...)
	for _, width := range []int{0, 60, 96, 200} {
		var b bytes.Buffer
		require.NoError(t, auditTable(&b, a, show.Style{Width: width}))
		text := b.String()
		for _, scheme := range audit.Schemes() {
			if width == 60 {
				require.Regexp(t, `(?m)^`+scheme+`\n  domain: [0-9<>].* exact\n    .* near, `, text)
			} else {
				require.Regexp(t, `(?m)^`+scheme+` +domain +[0-9<>]`, text)
			}
			require.Contains(t, strings.Join(strings.Fields(text), " "), "* "+scheme+": a snapshot shows ")
		}
		require.Regexp(t, `(?m)^\(none\)\s+distribution\b(.|\n)*\bno ciphertext$`, text)
		require.Regexp(t, `(?m)^ +3 rows\b`, text)
		require.Contains(t, strings.Join(strings.Fields(text), " "), "1,234 bad")
		flat := strings.Join(strings.Fields(text), " ")
		for _, p := range a.Advice.Text {
			require.Contains(t, flat, p)
		}
		for line := range strings.Lines(text) {
			require.Equal(t, strings.TrimRight(line, " \n")+"\n", line)
			require.LessOrEqual(t, len([]rune(line)), cmp.Or(width, 96)+1)
		}
	}
	require.Error(t, auditTable(failing{}, a, show.Style{}))
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, io.ErrShortWrite }

func TestAuditJSON(t *testing.T) {
	a := audited(t, audit.Schemes()...)
	limit := 0.0
	a.Limit, a.Failed = &limit, []string{"mope"}
	var b bytes.Buffer
	require.NoError(t, auditJSON(&b, a))
	records := map[string]int{}
	for line := range strings.Lines(b.String()) {
		var r map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &r), line)
		record := r["record"].(string)
		records[record]++
		switch record {
		case "audit":
			require.EqualValues(t, 200, r["rows"])
			require.Equal(t, true, r["halved"])
			require.EqualValues(t, -32768, r["domain_min"])
			require.EqualValues(t, a.Without.Near, r["without_ciphertexts"].(map[string]any)["near_share"])
		case "finding":
			require.Contains(t, r["scheme_id"], "/1 ")
			for _, res := range a.Results {
				if res.Scheme == r["scheme"] {
					require.EqualValues(t, res.View(audit.Adversary(r["adversary"].(string))).Exact, r["exact_share"])
				}
			}
		case "attack":
			require.NotEmpty(t, r["attack"])
		case "advice":
			require.EqualValues(t, []any{"mope"}, r["failed"])
			require.EqualValues(t, 0, r["limit"])
			require.EqualValues(t, a.Advice.Level, r["level"])
		}
	}
	n := len(audit.Schemes())
	require.Equal(t, 1, records["environment"])
	require.Equal(t, 1, records["audit"])
	require.Equal(t, 1, records["advice"])
	require.Equal(t, n, records["learned"])
	require.Equal(t, n*len(audit.Adversaries()), records["finding"])
	require.Greater(t, records["attack"], records["finding"])
	require.Error(t, auditJSON(failing{}, a))
}

// The names of all schemes stand beside each other below the bars.
func TestNamesBelowBars(t *testing.T) {
	b, err := auditPlot("a.svg", audited(t, audit.Schemes()...))
	require.NoError(t, err)
	ends := make(map[string]float64) // of texts, by their line
	seen := 0
	for _, m := range regexp.MustCompile(`<text x="([^"]+)" y="([^"]+)"[^>]*font-size:([0-9]+)px">((?:mope|boldyreva|wozniak|kerschbaum)[^<]*)`).FindAllSubmatch(b, -1) {
		at, err := strconv.ParseFloat(string(m[1]), 64)
		require.NoError(t, err)
		size, err := strconv.ParseFloat(string(m[3]), 64)
		require.NoError(t, err)
		style, line := draw.New("", "").X.Tick.Label, string(m[2])
		style.Font.Size = vg.Points(size)
		require.Greater(t, at, ends[line], "%s", m[4])
		ends[line] = at + style.Width(string(m[4])).Points()
		seen++
	}
	require.Equal(t, 3*len(audit.Schemes()), seen, "two plots of bars, and a legend")
}

func TestAuditPlot(t *testing.T) {
	for _, schemes := range [][]string{audit.Schemes(), audit.Schemes()[:1]} {
		a := audited(t, schemes...)
		b, err := auditPlot("a.svg", a)
		require.NoError(t, err)
		d := xml.NewDecoder(bytes.NewReader(b))
		var text strings.Builder
		for {
			token, err := d.Token()
			if err == io.EOF {
				break
			}
			require.NoError(t, err)
			if c, ok := token.(xml.CharData); ok {
				text.Write(c)
			}
		}
		for _, want := range append([]string{"Read exactly", "Read to within 1 % of the spread", "200 rows of normal int16", "no ciphertext", "Error of who knows the distribution, in all trials"}, schemes...) {
			require.Contains(t, text.String(), want)
		}
		b, err = auditPlot("a.PNG", a)
		require.NoError(t, err)
		picture, err := png.Decode(bytes.NewReader(b))
		require.NoError(t, err)
		colours := map[any]bool{}
		for y := range picture.Bounds().Dy() {
			for x := range picture.Bounds().Dx() {
				colours[picture.At(x, y)] = true
			}
		}
		require.Greater(t, len(colours), 20, "the picture is nearly empty")
		_, err = auditPlot("a.pdf", a)
		require.Error(t, err)
	}
}
