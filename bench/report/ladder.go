package report

import (
	"fmt"
	"image/color"
	"slices"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/warproute/warproute/bench/ladder"
)

// drawLadder returns two plots side by side per result: throughput and latency versus chunk size, with a
// line per rung.
func drawLadder(title string, results []byte) ([]byte, error) {
	list, err := parse[ladder.Result](results)
	if err != nil {
		return nil, err
	}
	var rows [][]*plot.Plot
	for _, r := range list {
		throughput := newPlot(title)
		throughput.Y.Label.Text = fmt.Sprintf("Mpps, %d chunks in flight", r.InFlight)
		latency := newPlot("")
		latency.Y.Label.Text = "latency of a chunk in µs (dashed: p99)"
		latency.Y.Scale, latency.Y.Tick.Marker = plot.LogScale{}, plot.TickerFunc(ticks125)
		if err := drawRungs(throughput, latency, r.Points); err != nil {
			return nil, err
		}
		rows = append(rows, []*plot.Plot{throughput, latency})
	}
	return svgTiles(rows)
}

// drawRungs adds a line per rung to the plots, and for its p99 a dashed one.
func drawRungs(throughput, latency *plot.Plot, points []ladder.Point) error {
	var names []string
	var sizes []plot.Tick
	for _, p := range points {
		if !slices.Contains(names, p.Rung) {
			names = append(names, p.Rung)
		}
		if size := (plot.Tick{Value: float64(p.Packets), Label: strconv.Itoa(p.Packets)}); !slices.Contains(sizes, size) {
			sizes = append(sizes, size)
		}
	}
	for _, p := range []*plot.Plot{throughput, latency} {
		p.X.Label.Text = "packets per chunk"
		p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, plot.ConstantTicks(sizes)
		p.Legend.Top, p.Legend.Left = true, true
	}
	for i, name := range names {
		for _, s := range []struct {
			plot *plot.Plot
			p99  bool
			of   func(*ladder.Point) float64
		}{
			{throughput, false, func(p *ladder.Point) float64 { return p.Mpps }},
			{latency, false, func(p *ladder.Point) float64 { return p.P50 }},
			{latency, true, func(p *ladder.Point) float64 { return p.P99 }},
		} {
			var line plotter.XYs
			for k := range points {
				if p := &points[k]; p.Rung == name && s.of(p) > 0 {
					line = append(line, plotter.XY{X: float64(p.Packets), Y: s.of(p)})
				}
			}
			if err := addLine(s.plot, name, line, i, s.p99); err != nil {
				return fmt.Errorf("draw %s: %w", name, err)
			}
		}
	}
	throughput.Y.Min = 0
	return nil
}

// addLine adds a line with the i-th color: with dots and a legend, or dashed.
func addLine(p *plot.Plot, name string, points plotter.XYs, i int, dashed bool) error {
	if len(points) == 0 {
		return nil
	}
	line, dots, err := plotter.NewLinePoints(points)
	if err != nil {
		return err
	}
	var c color.Color = color.Black
	if i < len(palette) {
		c = palette[i]
	}
	line.Color, line.Width, dots.Color, dots.Shape = c, 1.5, c, draw.CircleGlyph{}
	if dashed {
		line.Width, line.Dashes = 1, []vg.Length{4, 3}
		p.Add(line)
		return nil
	}
	p.Add(line, dots)
	p.Legend.Add(name, line, dots)
	return nil
}
