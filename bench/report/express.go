package report

import (
	"fmt"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"

	"github.com/warproute/warproute/bench/ipsec"
	"github.com/warproute/warproute/bench/testbed"
)

// drawExpress returns two plots side by side per result: late express packets and their latency versus the
// load of tunnels, with a line per kind of lanes.
func drawExpress(title string, results []byte) ([]byte, error) {
	list, err := parse[ipsec.ExpressResult](results)
	if err != nil {
		return nil, err
	}
	var rows [][]*plot.Plot
	for _, r := range list {
		late, latency := newPlot(fmt.Sprintf("%s: %s, %s %s", title, r.Engine, r.Direction, r.Suite)), newPlot("")
		late.Y.Label.Text = fmt.Sprintf("%% of express packets lost or after %.0f µs", r.Deadline)
		latency.Y.Label.Text = "latency of express packets in µs (dashed: p99)"
		latency.Y.Scale, latency.Y.Tick.Marker = plot.LogScale{}, plot.TickerFunc(ticks125)
		for _, p := range []*plot.Plot{late, latency} {
			p.X.Label.Text = "offered bulk in % of full load"
			p.Legend.Top, p.Legend.Left = true, true
		}
		if err := drawLanes(late, latency, r.Points); err != nil {
			return nil, err
		}
		late.Y.Min = 0
		rows = append(rows, []*plot.Plot{late, latency})
	}
	return svgTiles(rows)
}

// drawLanes adds a line per kind of lanes to the plots.
func drawLanes(late, latency *plot.Plot, points []ipsec.ExpressPoint) error {
	var all []testbed.Lanes
	for _, p := range points {
		if !slices.Contains(all, p.Lanes) {
			all = append(all, p.Lanes)
		}
	}
	for i, lanes := range all {
		var missed, p50, p99 plotter.XYs
		for _, p := range points {
			if p.Lanes != lanes {
				continue
			}
			missed = append(missed, plotter.XY{X: 100 * p.Load, Y: 100 * p.Late})
			if p.Express.P50 > 0 {
				p50, p99 = append(p50, plotter.XY{X: 100 * p.Load, Y: p.Express.P50}), append(p99, plotter.XY{X: 100 * p.Load, Y: p.Express.P99})
			}
		}
		name := "lanes " + string(lanes)
		for _, l := range []struct {
			plot   *plot.Plot
			points plotter.XYs
			dashed bool
		}{{late, missed, false}, {latency, p50, false}, {latency, p99, true}} {
			if err := addLine(l.plot, name, l.points, i, l.dashed); err != nil {
				return fmt.Errorf("draw %s: %w", name, err)
			}
		}
	}
	return nil
}
