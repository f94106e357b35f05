package report

import (
	"bytes"
	"fmt"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/warproute/warproute/bench/load"
	"github.com/warproute/warproute/bench/testbed"
)

// drawLoad returns two plots side by side per result: latency versus offered load, and the distribution
// of latencies at each load.
func drawLoad(title string, results []byte) ([]byte, error) {
	list, err := parse[testbed.LoadResult](results)
	if err != nil {
		return nil, err
	}
	var rows [][]*plot.Plot
	for _, r := range list {
		name := fmt.Sprintf("%s: %s", title, describe(&r))
		versus, err := latencyVersusLoad(name, &r)
		if err != nil {
			return nil, err
		}
		var curves []curve
		for _, s := range r.Loads {
			if s.Delivered > 0 && s.Percentiles[0] > 0 {
				curves = append(curves, curve{fmt.Sprintf("%.3g Mpps", s.Mpps), s.Percentiles})
			}
		}
		distribution, err := newCurves("", "latency in µs", "% of packets", curves)
		if err != nil {
			return nil, err
		}
		rows = append(rows, []*plot.Plot{versus, distribution})
	}
	return svgTiles(rows)
}

// describe returns the subject of a result.
func describe(r *testbed.LoadResult) string {
	size := "IMIX"
	if len(r.Sizes) == 1 {
		size = strconv.Itoa(r.Sizes[0]) + " B"
	}
	text := fmt.Sprintf("%s %s, %s, %s", r.Engine, r.Family, size, workers(r.Workers))
	if r.Suite != "" {
		text += ", " + r.Direction + " " + r.Suite
	}
	return text
}

// latencyVersusLoad plots quantiles over the offered load, with NDR and PDR as vertical lines.
func latencyVersusLoad(title string, r *testbed.LoadResult) (*plot.Plot, error) {
	p := newPlot(title)
	p.X.Label.Text, p.Y.Label.Text = "offered load in Mpps", "latency in µs"
	p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, plot.TickerFunc(ticks125)
	p.Legend.Top, p.Legend.Left = true, true
	least, most := 0.0, 0.0
	for i, q := range []struct {
		name string
		of   func(*load.Step) float64
	}{
		{"p50", func(s *load.Step) float64 { return s.P50 }},
		{"p99", func(s *load.Step) float64 { return s.P99 }},
		{"p99.9", func(s *load.Step) float64 { return s.P999 }},
	} {
		var points plotter.XYs
		for k := range r.Loads {
			s := &r.Loads[k]
			if y := q.of(s); y > 0 {
				points = append(points, plotter.XY{X: s.Mpps, Y: y})
				most = max(most, y)
				if least == 0 || y < least {
					least = y
				}
			}
		}
		if len(points) == 0 {
			continue
		}
		line, dots, err := plotter.NewLinePoints(points)
		if err != nil {
			return nil, fmt.Errorf("draw %s: %w", q.name, err)
		}
		line.Color, line.Width, dots.Color, dots.Shape = palette[i], 1.5, palette[i], draw.CircleGlyph{}
		p.Add(line, dots)
		p.Legend.Add(q.name, line, dots)
	}
	for i, f := range []struct {
		name string
		*load.Found
	}{{"NDR", r.NDR}, {"PDR", r.PDR}} {
		if f.Found == nil || f.Mpps == 0 || least == 0 {
			continue
		}
		line, err := plotter.NewLine(plotter.XYs{{X: f.Mpps, Y: least}, {X: f.Mpps, Y: most}})
		if err != nil {
			return nil, fmt.Errorf("draw %s: %w", f.name, err)
		}
		line.Color, line.Width, line.Dashes = palette[3+i], 1.5, []vg.Length{4, 3}
		p.Add(line)
		p.Legend.Add(fmt.Sprintf("%s %.3g Mpps", f.name, f.Mpps), line)
	}
	p.X.Min = 0
	if p.Y.Min, p.Y.Max = least/1.5, most*1.5; least == 0 {
		p.Y.Min, p.Y.Max = 1, 10
	}
	if len(r.Loads) == 0 || most == 0 {
		p.X.Max = 1
	}
	return p, nil
}

// svgTiles returns plots in rows and columns.
func svgTiles(rows [][]*plot.Plot) ([]byte, error) {
	columns := len(rows[0])
	c := vgsvg.New(vg.Length(columns)*plotWidth, vg.Length(len(rows))*height)
	tiles := draw.Tiles{Rows: len(rows), Cols: columns, PadX: 16, PadY: 16, PadTop: 4, PadBottom: 4, PadLeft: 4, PadRight: 12}
	for i, canvases := range plot.Align(rows, tiles, draw.New(c)) {
		for k, canvas := range canvases {
			rows[i][k].Draw(canvas)
		}
	}
	var b bytes.Buffer
	if _, err := c.WriteTo(&b); err != nil {
		return nil, fmt.Errorf("write SVG: %w", err)
	}
	return withFallbacks(b.Bytes()), nil
}
