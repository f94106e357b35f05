package status

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/dataplane"
	"github.com/warproute/warproute/internal/hist"
	"github.com/warproute/warproute/internal/require"
)

func TestTopShowsTheInterval(t *testing.T) {
	before, now := sample(), sample()
	before.SAs = []SA{{Name: "a", Direction: "out", SPI: 1, Packets: 100, Bytes: 1000}, {Name: "idle", Direction: "in", SPI: 2, Packets: 7}}
	now.SAs = []SA{{Name: "a", Direction: "out", SPI: 1, Packets: 300, Bytes: 21000}, {Name: "idle", Direction: "in", SPI: 2, Packets: 7},
		{Name: "new", Direction: "in", SPI: 3, Packets: 4000, Bytes: 500}}
	p := &now.Stats.Ports[0]
	p.RxPackets += 2_469_136
	p.RxBytes += 2_469_136 * 64
	p.Drops[batch.TTLExpired] += 10
	p.Drops[batch.NoRoute] += 30
	now.Ports[1].Rings.RxRingFull += 2
	before.Stats.Loads = []dataplane.LoadStats{{Elapsed: 10 * time.Second, Busy: time.Second}, {Elapsed: 10 * time.Second}}
	now.Stats.Loads = []dataplane.LoadStats{{Elapsed: 12 * time.Second, Busy: 2 * time.Second}, {Elapsed: 12 * time.Second, Busy: 3 * time.Second}}
	var packets hist.Histogram
	packets.Record(20, 8)
	packets.AddTo(&now.Stats.Packets)
	for i := range now.Stats.Stages {
		var h hist.Histogram
		h.Record(1000, 99)
		h.Record(5000, 2)
		h.AddTo(&now.Stats.Stages[i])
	}
	top := TopOf(before, now, 2*time.Second)
	top.Time = time.Date(2026, 11, 21, 12, 0, 3, 0, time.UTC)
	var b strings.Builder
	require.NoError(t, WriteTop(&b, top))
	want := `12:00:03  engine cpu: no GPU was found
4 chunks/s of 20.0 packets, 2 in flight; 1 packet queued for neighbors
2 workers, load 50% 100%

PORT  STATE  RX PPS  RX BIT/S  TX PPS  TX BIT/S  DROPS/S  LOST/S
lan0  up     1.23M   632M      0       0         20       0
wan0  down   0       0         0       0         0        1

LATENCY  WAIT    ENGINE  ORDER   TX      TOTAL
p50      1.00µs  1.00µs  1.00µs  1.00µs  1.00µs
p99      5.02µs  5.02µs  5.02µs  5.02µs  5.02µs

DROPS/S  REASON       DESCRIPTION
15       no_route     no route covers the destination
5        ttl_expired  the TTL or hop limit expired at this router

SA   DIRECTION  SPI  PPS    BIT/S
new  in         0x3  2.00k  2.00k
a    out        0x1  100    80.0k
`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if len(top.Latency) != dataplane.NumStages {
		t.Errorf("%d stages in Latency", len(top.Latency))
	}
	quiet := TopOf(now, now, time.Second)
	if len(quiet.Drops)+len(quiet.SAs) != 0 || quiet.Chunks != 0 || quiet.Latency[0].P99 != 0 || quiet.Ports[0].RxPackets != 0 {
		t.Errorf("idle router: %+v", quiet)
	}
}

// A screen of a busy router fits a terminal of 80 columns.
func TestTopFits80Columns(t *testing.T) {
	top := Top{
		Engine: "gpu", Description: strings.Repeat("a long reason ", 10), Workers: 28, Chunks: 123_456_789, PacketsPerChunk: 1999.9, InFlight: 256, NeighborQueue: 16_384,
		Ports: []TopPort{{Name: "enp129s0f0np0.1", Up: false, RxPackets: 123e6, RxBits: 123e9, TxPackets: 123e6, TxBits: 123e9, Drops: 123e6, Lost: 123e6}},
		SAs:   []TopSA{{Name: "site-to-site-frankfurt-amsterdam", Direction: "out", SPI: 1<<32 - 1, Packets: 123e6, Bits: 123e9}},
	}
	for range top.Workers {
		top.Load = append(top.Load, 1)
	}
	for range dataplane.NumStages {
		top.Latency = append(top.Latency, TopLatency{"engine", 123_456_789, 123_456_789})
	}
	for r := range batch.Reason(batch.NumReasons) {
		top.Drops = append(top.Drops, TopDrop{r.String(), r.Description(), 123e6})
	}
	var b strings.Builder
	require.NoError(t, WriteTop(&b, top))
	for line := range strings.Lines(b.String()) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 80 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	if !strings.Contains(b.String(), "28 workers, mean load 100%, highest 100% (worker 0)\n") {
		t.Error(b.String())
	}
}

func TestRatesHaveThreeDigits(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 7.4: "7", 999.4: "999", 999.6: "1.00k", 4071: "4.07k", 1.2e6: "1.20M", 999_600: "1.00M", 2.5e10: "25.0G"} {
		if got := rate(v); got != want {
			t.Errorf("rate(%v) = %s, want %s", v, got, want)
		}
	}
}

// VLANs that appear, disappear or get another place between two snapshots have their own rates.
func TestTopFollowsVLANs(t *testing.T) {
	vlan := func(s *Snapshot, index int, packets uint64) {
		s.Ports = append(s.Ports, PortState{Name: "v", Index: index, Parent: "lan0"})
		s.Stats.Ports = append(s.Stats.Ports, dataplane.PortStats{RxPackets: packets})
	}
	before, now := sample(), sample()
	physical := len(now.Ports)
	vlan(before, 10, 1000)
	vlan(before, 11, 500)
	vlan(now, 11, 700)
	vlan(now, 12, 30)
	vlan(now, 13, 0)
	top := TopOf(before, now, time.Second)
	for i, want := range []float64{200, 30, 0} {
		if got := top.Ports[physical+i].RxPackets; got != want {
			t.Errorf("VLAN %d: %v packets per second, want %v", i, got, want)
		}
	}
	for i := range physical {
		if top.Ports[i].RxPackets != 0 {
			t.Errorf("port %d: %v packets per second", i, top.Ports[i].RxPackets)
		}
	}
	TopOf(now, sample(), time.Second)
}
