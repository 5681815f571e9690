// Package draw has what plots share: their format, title, colours and fonts.
package draw

import (
	"bytes"
	"errors"
	"fmt"
	"html"
	"image/color"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	vgdraw "gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"
)

// CheckName returns an error unless the name of a file ends as one of the formats of plots.
func CheckName(name string) error {
	switch ext := strings.ToLower(filepath.Ext(name)); ext {
	case ".svg", ".png":
		return nil
	case "":
		return fmt.Errorf("the name of the plot's file has no ending: there is .svg and .png")
	default:
		return fmt.Errorf("the name of the plot's file ends with %q: there is .svg and .png", ext)
	}
}

// Palette holds colours that differ in print and for the colour-blind (after Okabe and Ito; the last one of Tol), and have a contrast
// of 3 to 1 to white, which three of theirs have not.
var Palette = []color.Color{
	color.RGBA{R: 0x56, G: 0x56, B: 0x56, A: 0xff},
	color.RGBA{R: 0x00, G: 0x72, B: 0xb2, A: 0xff},
	color.RGBA{R: 0xd5, G: 0x5e, B: 0x00, A: 0xff},
	color.RGBA{R: 0x00, G: 0x9e, B: 0x73, A: 0xff},
	color.RGBA{R: 0xcc, G: 0x79, B: 0xa7, A: 0xff},
	color.RGBA{R: 0xc0, G: 0x7d, B: 0x00, A: 0xff},
	color.RGBA{R: 0x2a, G: 0x93, B: 0xd1, A: 0xff},
	color.RGBA{R: 0x9a, G: 0x8b, B: 0x00, A: 0xff},
	color.RGBA{A: 0xff},
	color.RGBA{R: 0x33, G: 0x22, B: 0x88, A: 0xff},
}

// dark holds what stands for the colours of the palette on a dark page.
var dark = []string{"#a8a8a8", "#4fb0f0", "#ff8a3d", "#2fc99b", "#e6a3c8", "#f2b632", "#9ad4f7", "#f0e442", "#ececec", "#a79bff"}

// The other colours of plots.
var paper, ink, grid = color.Gray{Y: 0xff}, color.Gray{}, color.Gray{Y: 0xdd}

// A Colour is one that a page chooses for pictures of [Inline].
type Colour struct {
	Name        string // of the property of CSS
	Light, Dark string
}

// Colours returns all colours of pictures of [Inline].
func Colours() []Colour {
	all := []Colour{{"--paper", hex(paper), "#16181c"}, {"--ink", hex(ink), "#ececec"}, {"--grid", hex(grid), "#3a3d44"}}
	for i, c := range Palette {
		if hex(c) != hex(ink) { // black of the palette is the ink
			all = append(all, Colour{fmt.Sprintf("--series-%d", i), hex(c), dark[i]})
		}
	}
	return all
}

// Property returns how a page names a colour of [Palette].
func Property(c color.Color) string {
	for _, known := range Colours() {
		if known.Light == hex(c) {
			return "var(" + known.Name + ")"
		}
	}
	return hex(c)
}

func hex(c color.Color) string {
	r, g, b, _ := c.RGBA()
	return fmt.Sprintf("#%02X%02X%02X", r>>8, g>>8, b>>8)
}

// Inline draws a plot as an element of a page, which gives the colours and scales it. The label says what it shows to
// who does not see it.
func Inline(p *plot.Plot, label string, width, height vg.Length) (string, error) {
	c := vgsvg.New(width, height)
	dc := vgdraw.New(c)
	p.Draw(vgdraw.Crop(dc, vg.Points(4), -vg.Points(8), vg.Points(2), -vg.Points(6)))
	var out strings.Builder
	if _, err := c.WriteTo(&out); err != nil {
		return "", err
	}
	_, svg, found := strings.Cut(out.String(), "<g ")
	if !found {
		return "", errors.New("the drawing has no beginning")
	}
	for _, c := range Colours() {
		svg = strings.ReplaceAll(svg, c.Light, "var("+c.Name+")")
	}
	svg = fonts.ReplaceAllString(svg, "")
	return fmt.Sprintf(`<svg role="img" aria-label="%s" viewBox="0 0 %g %g" xmlns="http://www.w3.org/2000/svg"><g `, html.EscapeString(label), width.Points(), height.Points()) + svg, nil
}

// fonts matches what a text of a drawing says of its font, but not how large it is: a page has a font of its own.
var fonts = regexp.MustCompile(`font-family:[^;"]*;font-variant:[^;"]*;font-weight:[^;"]*;font-style:[^;"]*;`)

// wrapped divides a text into lines of at most a width: between words, and where one is wider, such as a
// path, within it.
func wrapped(s string, style text.Style, width vg.Length) string {
	var lines []string
	for word := range strings.FieldsSeq(s) {
		last := len(lines) - 1
		if last >= 0 && style.Width(lines[last]+" "+word) <= width {
			lines[last] += " " + word
			continue
		}
		lines = append(lines, "")
		for _, r := range word {
			last = len(lines) - 1
			if style.Width(lines[last]+string(r)) > width {
				lines = append(lines, string(r))
			} else {
				lines[last] += string(r)
			}
		}
	}
	return strings.Join(lines, "\n")
}

// Picture draws plots beside each other under a title, in the format that the name says.
func Picture(name, headline string, width vg.Length, plots ...*plot.Plot) ([]byte, error) {
	title := plot.New()
	title.HideAxes()
	title.Title.TextStyle.Font.Size = vg.Points(11)
	title.Title.TextStyle.Font.Variant = "Sans"
	title.Title.Text = wrapped(headline, title.Title.TextStyle, width-vg.Points(24))
	head := vg.Points(30 + 14*float64(strings.Count(title.Title.Text, "\n")))
	cols := Columns(len(plots))
	var rows [][]*plot.Plot
	for row := range slices.Chunk(plots, cols) {
		rows = append(rows, append(slices.Clone(row), make([]*plot.Plot, cols-len(row))...))
	}
	height := vg.Length(len(rows))*(11*vg.Centimeter-vg.Points(30)) + head
	paint := func(c vg.CanvasSizer) {
		dc := vgdraw.New(c)
		dc.FillPolygon(paper, []vg.Point{{}, {X: width}, {X: width, Y: height}, {Y: height}})
		body := vgdraw.Crop(dc, 0, 0, 0, -head)
		title.Draw(vgdraw.Crop(dc, 0, 0, height-head, -vg.Points(6)))
		tiles := vgdraw.Tiles{Rows: len(rows), Cols: cols, PadX: vg.Points(24), PadY: vg.Points(14), PadLeft: vg.Points(10), PadRight: vg.Points(14), PadBottom: vg.Points(8)}
		for i, canvases := range plot.Align(rows, tiles, body) {
			for j, c := range canvases {
				if rows[i][j] != nil {
					rows[i][j].Draw(c)
				}
			}
		}
	}
	var out bytes.Buffer
	var err error
	switch strings.ToLower(filepath.Ext(name)) {
	case ".svg":
		c := vgsvg.New(width, height)
		paint(c)
		_, err = c.WriteTo(&out)
		return bytes.ReplaceAll(out.Bytes(), []byte(fontWritten), []byte(fontWritten+",Arial,Helvetica,sans-serif")), err
	default:
		c := vgimg.PngCanvas{Canvas: vgimg.NewWith(vgimg.UseWH(width, height), vgimg.UseDPI(144))}
		paint(c)
		_, err = c.WriteTo(&out)
	}
	return out.Bytes(), err
}

// fontWritten is how a drawing names its font. Where a reader has not got it, those of the same widths take its place.
const fontWritten = "font-family:Liberation Sans"

// most is how many plots stand side by side.
const most = 4

// Columns returns how many of so many plots stand side by side in a picture.
func Columns(plots int) int {
	rows := (plots + most - 1) / most
	return (plots + rows - 1) / rows
}

// New returns a plot with the fonts and the grid of all.
func New(title, y string) *plot.Plot {
	p := plot.New()
	for _, style := range []*text.Style{
		&p.Title.TextStyle, &p.X.Label.TextStyle, &p.Y.Label.TextStyle, &p.X.Tick.Label, &p.Y.Tick.Label, &p.Legend.TextStyle,
	} {
		style.Font.Variant = "Sans"
	}
	p.Title.Text = title
	p.Title.TextStyle.Font.Size = vg.Points(12)
	p.Title.Padding = vg.Points(6)
	p.Y.Label.Text = y
	p.Y.Label.TextStyle.Font.Size = vg.Points(10)
	p.X.Label.TextStyle.Font.Size = vg.Points(10)
	p.X.Tick.Label.Font.Size = vg.Points(10)
	p.Y.Tick.Label.Font.Size = vg.Points(9)
	p.Legend.TextStyle.Font.Size = vg.Points(10)
	lines := plotter.NewGrid()
	lines.Vertical.Width = 0
	lines.Horizontal.Color = grid
	p.Add(lines)
	return p
}
