package report

import (
	"bytes"
	"fmt"
	"image/color"
	"math"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

const (
	barWidth  = 36 // points
	barStep   = 84 // between bars
	plotWidth = 480
	height    = 300
)

// palette has colors that color-blind readers can tell apart (Okabe and Ito).
var palette = []color.Color{
	color.RGBA{0x00, 0x72, 0xb2, 0xff}, color.RGBA{0xe6, 0x9f, 0x00, 0xff}, color.RGBA{0x00, 0x9e, 0x73, 0xff},
	color.RGBA{0xd5, 0x5e, 0x00, 0xff}, color.RGBA{0xcc, 0x79, 0xa7, 0xff}, color.RGBA{0x56, 0xb4, 0xe9, 0xff},
}

func newPlot(title string) *plot.Plot {
	p := plot.New()
	for _, style := range []*font.Font{&p.Title.TextStyle.Font, &p.X.Label.TextStyle.Font, &p.Y.Label.TextStyle.Font, &p.X.Tick.Label.Font, &p.Y.Tick.Label.Font, &p.Legend.TextStyle.Font} {
		style.Variant = "Sans"
	}
	p.Title.Text = title
	p.Title.Padding = 8
	return p
}

func svg(p *plot.Plot, width vg.Length) ([]byte, error) {
	c := vgsvg.New(width, height)
	p.Draw(draw.Crop(draw.New(c), 4, -12, 4, -4))
	var b bytes.Buffer
	if _, err := c.WriteTo(&b); err != nil {
		return nil, fmt.Errorf("write SVG: %w", err)
	}
	return withFallbacks(b.Bytes()), nil
}

// withFallbacks adds fonts for readers without that of the plot.
func withFallbacks(svg []byte) []byte {
	return bytes.ReplaceAll(svg, []byte("family:Liberation Sans;"), []byte("family:Liberation Sans,Arial,sans-serif;"))
}

// barChart is bars with limits.
type barChart struct {
	title, unit    string
	labels         []string
	values, limits plotter.Values
}

// add adds a bar. A limit of 0 means none.
func (b *barChart) add(label string, value, limit float64) {
	b.labels, b.values, b.limits = append(b.labels, label), append(b.values, value), append(b.limits, limit)
}

// draw returns the chart, or the error of its data.
func (b *barChart) draw(err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	p := newPlot(b.title)
	p.Y.Label.Text, p.Y.Min = b.unit, 0
	bars, err := plotter.NewBarChart(b.values, barWidth)
	if err != nil {
		return nil, fmt.Errorf("draw bars: %w", err)
	}
	bars.Color, bars.LineStyle.Width = palette[0], 0
	p.Add(bars)
	named := false
	for i, limit := range b.limits {
		if limit == 0 {
			continue
		}
		line, err := plotter.NewLine(plotter.XYs{{X: float64(i) - 0.3, Y: limit}, {X: float64(i) + 0.3, Y: limit}})
		if err != nil {
			return nil, fmt.Errorf("draw limits: %w", err)
		}
		line.Color, line.Width = palette[3], 2
		p.Add(line)
		if !named {
			p.Legend.Add("limit", line)
			p.Legend.Top, named = true, true
		}
	}
	p.NominalX(b.labels...)
	p.X.Min, p.X.Max = -0.6, float64(len(b.values))-0.4
	return svg(p, max(plotWidth, vg.Length(len(b.values)*barStep)))
}

// curve is the percentiles of a series, from 1 % on.
type curve struct {
	name        string
	percentiles []float64
}

// ticks125 returns ticks at 1, 2 and 5 times powers of ten. Over more than three decades only the powers
// have labels.
func ticks125(least, most float64) (ticks []plot.Tick) {
	for power := math.Pow10(int(math.Floor(math.Log10(least)))); power <= most; power *= 10 {
		for _, v := range []float64{power, 2 * power, 5 * power} {
			if v >= least && v <= most {
				label := strconv.FormatFloat(v, 'g', 3, 64)
				if v != power && most > 1e3*least {
					label = ""
				}
				ticks = append(ticks, plot.Tick{Value: v, Label: label})
			}
		}
	}
	return ticks
}

// drawCurves returns cumulative distributions.
func drawCurves(title, unit string, curves []curve) ([]byte, error) {
	p, err := newCurves(title, unit, "% of chunks", curves)
	if err != nil {
		return nil, err
	}
	return svg(p, plotWidth)
}

// newCurves returns a plot of cumulative distributions.
func newCurves(title, unit, share string, curves []curve) (*plot.Plot, error) {
	p := newPlot(title)
	p.X.Label.Text, p.Y.Label.Text = unit, share
	p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, plot.TickerFunc(ticks125)
	p.Y.Min, p.Y.Max = 0, 100
	p.Legend.Left = false
	for i, c := range curves {
		var points plotter.XYs
		for k, v := range c.percentiles {
			points = append(points, plotter.XY{X: v, Y: float64(k + 1)})
		}
		line, err := plotter.NewLine(points)
		if err != nil {
			return nil, fmt.Errorf("draw %s: %w", c.name, err)
		}
		line.Color, line.Width = palette[i%len(palette)], 1.5
		if i >= len(palette) {
			line.Dashes = []vg.Length{4, 3}
		}
		p.Add(line)
		p.Legend.Add(c.name, line)
	}
	switch { // a logarithmic axis needs two positive ends
	case len(curves) == 0:
		p.X.Min, p.X.Max = 1, 10
	case p.X.Min == p.X.Max:
		p.X.Min, p.X.Max = p.X.Min/2, p.X.Max*2
	}
	return p, nil
}
