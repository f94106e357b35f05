package report

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"io"
	"strings"
	"testing"

	"github.com/warproute/warproute/bench/forward"
	"github.com/warproute/warproute/bench/gpulookup"
	"github.com/warproute/warproute/bench/ipsec"
	"github.com/warproute/warproute/bench/ladder"
	"github.com/warproute/warproute/bench/load"
	"github.com/warproute/warproute/bench/lookup"
	"github.com/warproute/warproute/bench/testbed"
	"github.com/warproute/warproute/bench/veth"
	"github.com/warproute/warproute/internal/require"
)

// texts returns the text of a plot, and the number of its filled shapes.
func texts(t *testing.T, svg []byte) (text string, shapes int) {
	t.Helper()
	for d := xml.NewDecoder(bytes.NewReader(svg)); ; {
		token, err := d.Token()
		if err == io.EOF {
			return text, shapes
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, svg)
		}
		switch token := token.(type) {
		case xml.CharData:
			text += string(token)
		case xml.StartElement:
			for _, a := range token.Attr {
				if a.Name.Local == "style" && strings.Contains(a.Value, "fill:#0072B2") {
					shapes++
				}
			}
		}
	}
}

// loadResult returns a result with two loads that delivered packets and one that did not.
func loadResult(percentiles []float64) *testbed.LoadResult {
	r := &testbed.LoadResult{Sizes: []int{64}, Suite: "aes128gcm16", Direction: "encrypt", Result: load.Result{
		NDR: &load.Found{Mpps: 10}, PDR: &load.Found{Mpps: 11}, Loads: []load.Step{{Mpps: 20, Percentiles: make([]float64, 99)}},
	}}
	for _, mpps := range []float64{1, 10} {
		r.Loads = append(r.Loads, load.Step{
			Mpps: mpps, Loss: load.Loss{Offered: 9, Delivered: 9}, Latency: load.Latency{P50: 5 * mpps, P99: 50, P999: 500, Max: 5000}, Percentiles: percentiles,
		})
	}
	return r
}

func TestDrawEveryKind(t *testing.T) {
	percentiles := make([]float64, 99)
	for i := range percentiles {
		percentiles[i] = 5 + float64(i)/10
	}
	for _, tt := range []struct {
		name    string
		results any
		want    []string
		bars    int
	}{
		{"forward", []*forward.Result{
			{Summary: testbed.Summary{Engine: "cpu", Family: "IPv4", Workers: 1}, Mpps: 25, Limit: 80},
			{Summary: testbed.Summary{Engine: "gpu", Family: "IPv4", Workers: 8}, Mpps: 233, Limit: 400, PCIeLimit: 300},
		}, []string{"Mpps", "cpu IPv4", "8 workers", "limit"}, 2},
		{"ipsec", []*ipsec.Result{{Summary: testbed.Summary{Engine: "cpu", Workers: 2}, Suite: "aes128gcm16", Direction: "encrypt", Sizes: ipsec.IMIX, Gbps: 30, Mpps: 10, Limit: 50}},
			[]string{"Gbit/s", "IMIX encrypt", "aes128gcm16"}, 1},
		{"veth", []*veth.Result{{Name: "Linux", Rounds: []float64{1, 1.1, 1.2}}, {Name: "absent", Error: "not installed"}}, []string{"Linux"}, 1},
		{"lookup", []*lookup.Report{{Family: "IPv6", Rates: []*lookup.Rate{{Contender: "warproute", Destinations: "zipf", Batch: 64, Rounds: []float64{150}}}}},
			[]string{"warproute IPv6", "zipf 64"}, 1},
		{"GPU lookup", []*gpulookup.Report{{Family: "IPv4", Rates: []*gpulookup.Rate{{Destinations: "zipf", Rounds: []float64{20}, Limit: 30}}}},
			[]string{"IPv4", "limit"}, 1},
		{"latency", []forward.Latency{{Engine: "gpu", Packets: 60, Percentiles: percentiles}, {Engine: "cpu", Packets: 60, Percentiles: percentiles}},
			[]string{"latency of a chunk in µs", "gpu, 60 packets"}, 0},
		{"ladder", []*ladder.Result{{InFlight: 8, Points: []ladder.Point{
			{Rung: "graph", Packets: 60, Mpps: 3, P50: 20, P99: 40}, {Rung: "graph", Packets: 4096, Mpps: 80, P50: 70, P99: 90},
			{Rung: "fused", Packets: 60, Mpps: 6, P50: 14, P99: 20}, {Rung: "fused", Packets: 4096, Mpps: 200, P50: 30, P99: 40},
		}}}, []string{"packets per chunk", "Mpps, 8 chunks in flight", "latency of a chunk in µs (dashed: p99)", "graph", "fused", "60", "4096"}, 2 * (2 + 1)}, // dots and the legend
		{"express", []*ipsec.ExpressResult{{Deadline: 100, Points: []ipsec.ExpressPoint{
			{Lanes: "none", Load: 0.1, Late: 0, Express: load.Latency{P50: 5, P99: 90}}, {Lanes: "none", Load: 1.3, Late: 0.9, Express: load.Latency{P50: 500, P99: 900}},
			{Lanes: "default", Load: 0.1, Late: 0, Express: load.Latency{P50: 5, P99: 9}}, {Lanes: "default", Load: 1.3, Late: 1},
		}}}, []string{"offered bulk in % of full load", "after 100 µs", "lanes none", "lanes default", "dashed: p99"}, 2 * (2 + 1)}, // dots and the legend
		{"load", []*testbed.LoadResult{loadResult(percentiles), {Result: load.Result{Loads: []load.Step{{Mpps: 1, Latency: load.Latency{P50: 1, P99: 2, P999: 3}}}}}},
			[]string{"offered load in Mpps", "p99.9", "NDR 10 Mpps", "PDR 11 Mpps", "% of packets", "1 Mpps", "encrypt aes128gcm16"}, 3 + 2}, // dots of p50, and in the legends
	} {
		t.Run(tt.name, func(t *testing.T) {
			data, err := json.Marshal(tt.results)
			require.NoError(t, err)
			svg, err := Draw("the title", data)
			require.NoError(t, err)
			if again, err := Draw("the title", data); err != nil || !bytes.Equal(svg, again) {
				t.Errorf("a second plot of the same results differs: %v", err)
			}
			text, bars := texts(t, svg)
			for _, want := range append(tt.want, "the title") {
				if !strings.Contains(text, want) {
					t.Errorf("no %q in %q", want, text)
				}
			}
			if bars != tt.bars {
				t.Errorf("%d bars, want %d", bars, tt.bars)
			}
		})
	}
}

func TestDrawRejectsOtherJSON(t *testing.T) {
	for _, results := range []string{"", "{}", "[]", `[{"ports": 1}]`} {
		if svg, err := Draw("", []byte(results)); err == nil {
			t.Errorf("%q gives %s", results, svg)
		}
	}
}
