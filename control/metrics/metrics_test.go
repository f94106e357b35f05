package metrics

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/control/mirror"
	"github.com/warproute/warproute/control/status"
	"github.com/warproute/warproute/dataplane"
	"github.com/warproute/warproute/internal/hist"
	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/ipsec/gateway"
)

// sample returns a snapshot of two ports on the CPU.
func sample() *status.Snapshot {
	var packets, times hist.Histogram
	packets.Record(4, 2)
	packets.Record(1000, 1)
	times.Record(1_500, 2)
	times.Record(2_000_000_000, 1)
	s := &status.Snapshot{
		Ports: []status.PortState{
			{Name: "lan0", Up: true, XDP: status.XDP{Refused: 5, ToLinux: map[string]uint64{"vlan": 3}}, Rings: status.Rings{RxRingFull: 8},
				Link: &status.Link{RxDropped: 12, RxErrors: 13, TxDropped: 14, TxErrors: 15}},
			{Name: "wan0"},
		},
		Engine:     status.EngineState{Name: "cpu", Reason: "no_gpu"},
		Stats:      &dataplane.Stats{Loads: []dataplane.LoadStats{{Elapsed: 4 * time.Second, Busy: 1500 * time.Millisecond}}, Ports: []dataplane.PortStats{{RxPackets: 10, RxBytes: 600}, {TxPackets: 9, TxBytes: 540}}, Chunks: 3},
		RoutesIPv4: 5, RoutesIPv6: 6,
		VRFs:    []mirror.VRFInfo{{Name: "red", RoutesIPv4: 7, RoutesIPv6: 8, Ports: 2}},
		Updates: new(hist.Snapshot),
	}
	s.Stats.Ports[0].Drops[batch.NoRoute] = 1
	packets.AddTo(&s.Stats.Packets)
	times.AddTo(&s.Stats.Stages[dataplane.StageTotal])
	times.AddTo(s.Updates)
	s.Stats.Lanes = []dataplane.LaneStats{{Name: "express", Packets: 7, Chunks: 3, Missed: 2, Queued: 1}}
	times.AddTo(&s.Stats.Lanes[0].Total)
	return s
}

func scrape(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(Handler(Build{Version: "v1", Revision: "abc", GoVersion: "go1"}, sample))
	defer s.Close()
	resp, err := http.Get(s.URL + "/metrics")
	require.NoError(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("scrape: %s, %v\n%s", resp.Status, err, body)
	}
	return string(body)
}

// TestMetricNamesAreStable checks names that dashboards depend on.
func TestMetricNamesAreStable(t *testing.T) {
	body := scrape(t)
	for _, line := range []string{
		`warproute_build_info{goversion="go1",revision="abc",version="v1"} 1`,
		`warproute_port_rx_packets_total{port="lan0"} 10`,
		`warproute_port_rx_bytes_total{port="lan0"} 600`,
		`warproute_port_tx_packets_total{port="wan0"} 9`,
		`warproute_port_tx_bytes_total{port="wan0"} 540`,
		`warproute_dropped_packets_total{port="lan0",reason="no_route"} 1`,
		`warproute_dropped_packets_total{port="wan0",reason="ttl_expired"} 0`,
		`warproute_batch_packets_bucket{le="2"} 0`,
		`warproute_batch_packets_bucket{le="4"} 2`,
		`warproute_batch_packets_bucket{le="+Inf"} 3`,
		`warproute_batch_packets_sum 1008`,
		`warproute_batch_stage_seconds_bucket{stage="total",le="1e-06"} 0`,
		`warproute_batch_stage_seconds_bucket{stage="total",le="2e-06"} 2`,
		`warproute_batch_stage_seconds_bucket{stage="total",le="1"} 2`,
		`warproute_batch_stage_seconds_count{stage="total"} 3`,
		`warproute_batch_stage_seconds_count{stage="wait"} 0`,
		`warproute_lane_packets_total{lane="express"} 7`,
		`warproute_lane_missed_packets_total{lane="express"} 2`,
		`warproute_lane_queued_packets{lane="express"} 1`,
		`warproute_lane_seconds_bucket{lane="express",le="2e-06"} 2`,
		`warproute_lane_seconds_count{lane="express"} 3`,
		`warproute_engine_chunks_total{engine="cpu",reason="no_gpu"} 3`,
		`warproute_gpu_failovers_total{cause="timeout"} 0`,
		`warproute_fib_routes{family="ipv4"} 5`,
		`warproute_fib_routes{family="ipv6"} 6`,
		`warproute_vrf_routes{family="ipv4",vrf="red"} 7`,
		`warproute_vrf_routes{family="ipv6",vrf="red"} 8`,
		`warproute_vrf_ports{vrf="red"} 2`,
		`warproute_fib_update_seconds_count 3`,
		`warproute_xdp_to_linux_packets_total{cause="vlan",port="lan0"} 3`,
		`warproute_xdp_no_socket_packets_total{port="lan0"} 0`,
		`warproute_xdp_redirect_refused_packets_total{port="lan0"} 5`,
		`warproute_xdp_redirect_refused_packets_total{port="wan0"} 0`,
		`warproute_xsk_rx_dropped_total{port="lan0"} 0`,
		`warproute_xsk_rx_ring_full_total{port="lan0"} 8`,
		`warproute_xsk_fill_ring_empty_total{port="wan0"} 0`,
		`warproute_link_dropped_frames_total{direction="rx",port="lan0"} 12`,
		`warproute_link_errors_total{direction="rx",port="lan0"} 13`,
		`warproute_link_dropped_frames_total{direction="tx",port="lan0"} 14`,
		`warproute_link_errors_total{direction="tx",port="lan0"} 15`,
	} {
		if !strings.Contains(body, line+"\n") {
			t.Errorf("no line %s", line)
		}
	}
	if t.Failed() {
		t.Log(body)
	}
}

// TestChunksAreCountedByEngine uses GPUs during an outage, when the CPU is the current engine.
func TestChunksAreCountedByEngine(t *testing.T) {
	s := sample()
	s.Engine = status.EngineState{Name: "cpu", Reason: "gpu_failed", Chosen: "configured", Devices: []status.Device{
		{Chunks: 10, ChunksByCPU: 1, ChunksSooner: 7, ExploredCPU: 6, ExploredGPU: 1, ChunksNoSlot: 5, ChunksParked: 8, ChunksLate: 9, Timeouts: 4, ShadowSame: 3, ShadowSkipped: 2}, {Chunks: 20, ChunksByCPU: 2, Timeouts: 1, Faults: 1},
		{Faults: 1, Cause: "mismatch", ShadowSame: 4, ShadowDifferent: 1}, {Faults: 1, Cause: "table_full"},
	}}
	w := httptest.NewRecorder()
	Handler(Build{}, func() *status.Snapshot { return s }).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	var got []string
	for line := range strings.Lines(w.Body.String()) {
		if strings.HasPrefix(line, "warproute_engine_") || strings.HasPrefix(line, "warproute_gpu_") {
			got = append(got, strings.TrimSpace(line))
		}
	}
	if want := []string{
		`warproute_engine_chunks_total{engine="cpu",reason="explored"} 6`,
		`warproute_engine_chunks_total{engine="cpu",reason="gpu_failed"} 3`,
		`warproute_engine_chunks_total{engine="cpu",reason="gpu_full"} 5`,
		`warproute_engine_chunks_total{engine="cpu",reason="gpu_late"} 9`,
		`warproute_engine_chunks_total{engine="cpu",reason="gpu_parked"} 8`,
		`warproute_engine_chunks_total{engine="cpu",reason="sooner"} 7`,
		`warproute_engine_chunks_total{engine="gpu",reason="configured"} 29`,
		`warproute_engine_chunks_total{engine="gpu",reason="explored"} 1`,
		`warproute_gpu_failovers_total{cause="bad_result"} 0`,
		`warproute_gpu_failovers_total{cause="fault"} 1`,
		`warproute_gpu_failovers_total{cause="mismatch"} 1`,
		`warproute_gpu_failovers_total{cause="table_full"} 1`,
		`warproute_gpu_failovers_total{cause="timeout"} 5`,
		`warproute_gpu_shadow_chunks_total{result="different"} 1`,
		`warproute_gpu_shadow_chunks_total{result="same"} 7`,
		`warproute_gpu_shadow_chunks_total{result="skipped"} 2`,
	}; !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

// TestSAsAreCountedByName checks that a rekey adds no time series.
func TestSAsAreCountedByName(t *testing.T) {
	s := sample()
	s.SAs = []status.SA{{Name: "a", SPI: 0x100, Direction: "in", Packets: 3}, {Name: "a", SPI: 0x101, Direction: "in", Packets: 4}}
	s.Traffic = []gateway.Traffic{
		{Tunnel: "a", Direction: ipsec.In, Stats: ipsec.Stats{Packets: 9, Bytes: 900, Replays: 8, ICVFailures: 7}},
		{Tunnel: "a", Direction: ipsec.Out, Stats: ipsec.Stats{Packets: 5}},
	}
	w := httptest.NewRecorder()
	Handler(Build{}, func() *status.Snapshot { return s }).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	var got []string
	for line := range strings.Lines(w.Body.String()) {
		if strings.HasPrefix(line, "warproute_ipsec_sa_") {
			got = append(got, strings.TrimSpace(line))
		}
	}
	if want := []string{
		`warproute_ipsec_sa_bytes_total{direction="in",sa="a"} 900`, `warproute_ipsec_sa_bytes_total{direction="out",sa="a"} 0`,
		`warproute_ipsec_sa_icv_failures_total{sa="a"} 7`,
		`warproute_ipsec_sa_packets_total{direction="in",sa="a"} 9`, `warproute_ipsec_sa_packets_total{direction="out",sa="a"} 5`,
		`warproute_ipsec_sa_replays_total{sa="a"} 8`,
	}; !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

func TestScrapePassesPromlint(t *testing.T) {
	body := scrape(t)
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(body))
	require.NoError(t, err)
	for name, f := range families {
		if f.GetHelp() == "" || f.GetType() == dto.MetricType_UNTYPED {
			t.Errorf("%s has no help or no type", name)
		}
	}
	problems, err := promlint.New(strings.NewReader(body)).Lint()
	require.NoError(t, err)
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

func TestOtherPathsDoNotMatch(t *testing.T) {
	s := httptest.NewServer(Handler(Build{}, sample))
	defer s.Close()
	resp, err := http.Get(s.URL + "/")
	require.NoError(t, err)
	resp.Body.Close()
	if resp.StatusCode != http.StatusNotFound {
		t.Errorf("/ answers %s", resp.Status)
	}
}

// A VLAN has few series: there may be thousands.
func TestVLANsHaveFewSeries(t *testing.T) {
	count := func(parent string) int {
		ch := make(chan prometheus.Metric, 1000)
		sender(ch).port(&status.PortState{Name: "v", Parent: parent}, &dataplane.PortStats{RxPackets: 1, Drops: [batch.NumReasons]uint64{batch.NoRoute: 3}})
		return len(ch)
	}
	if vlan, physical := count("lan0"), count(""); vlan != 8 || physical < 70 {
		t.Errorf("%d series of a VLAN, %d of a physical port", vlan, physical)
	}
}

// A bond has a series for each member, and none of sockets, which the members have.
func TestBondMembersHaveSeries(t *testing.T) {
	ch := make(chan prometheus.Metric, 1000)
	sender(ch).port(&status.PortState{Name: "bond0", Members: []status.Member{{Name: "wan0", State: status.MemberActive}, {Name: "wan1", State: status.MemberInactive}}}, &dataplane.PortStats{})
	close(ch)
	active := map[string]float64{}
	for m := range ch {
		var d dto.Metric
		require.NoError(t, m.Write(&d))
		switch {
		case m.Desc() == bondMember:
			active[d.Label[0].GetValue()] = d.Gauge.GetValue() // sorted by name: member, port
		case m.Desc() == xdpNoSocket:
			t.Error("the bond has counters of sockets")
		}
	}
	if len(active) != 2 || active["wan0"] != 1 || active["wan1"] != 0 {
		t.Errorf("active members: %v", active)
	}
}
