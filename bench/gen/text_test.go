package gen

import (
	"strings"
	"testing"
	"time"
)

func TestWriteText(t *testing.T) {
	r := &Report{
		Traffic: &TrafficReport{Family: "IPv4", Src: "10.7.0.2/32", Dst: "10.8.0.0/16", Size: 64, Flows: 16},
		Send: &SendReport{
			Volume:        Volume{Port: "eth1", Mode: "AF_XDP, native", Packets: 2_000_000, Seconds: 2, PacketsPerSecond: 1e6, BitsPerSecond: 672e6},
			TransmitShare: 0.934, Limit: "port: transmit", Arrival: "poisson", MaxLag: 1_234_567,
		},
		Receive: &ReceiveReport{
			Volume: Volume{Port: "eth2", Packets: 1_999_980, Seconds: 2, PacketsPerSecond: 999_990, BitsPerSecond: 671_993_280},
			Lost:   20, LossPercent: 0.001, Missed: 7, Reordered: 3, Unknown: 5, FaultyFlows: 2,
			Latency: &Latency{P50: 12_345, P90: 15_678, P99: 20_001, P999: 1_234_567, Max: 2_000_000_000},
		},
	}
	want := `traffic   64-byte IPv4 frames, 16 flows, 10.7.0.2/32 to 10.8.0.0/16
sent      2000000 packets in 2.000 s on eth1 (AF_XDP, native): 1 M packets/s, 672 M bit/s on the wire
limit     port: transmit (93 % of the busy time is the port's transmit)
arrival   poisson, sent up to 1.23ms late, which counts as latency
received  1999980 packets in 2.000 s on eth2: 1000 k packets/s, 672 M bit/s on the wire
lost      20 (0.001 %); the receiver was too slow for 7 frames
faults    0 duplicates, 3 reordered, 0 corrupted, in 2 flows
unknown   5 frames of other runs or programs
latency   p50 12.3µs, p90 15.7µs, p99 20µs, p99.9 1.23ms, max 2s
`
	var b strings.Builder
	if err := r.WriteText(&b); err != nil || b.String() != want {
		t.Errorf("%v\n got:\n%s\nwant:\n%s", err, b.String(), want)
	}
	b.Reset()
	r = &Report{Receive: &ReceiveReport{Volume: Volume{Port: "eth2"}}}
	if err := r.WriteText(&b); err != nil || !strings.Contains(b.String(), "received  no packet on eth2\n") || strings.Contains(b.String(), "latency") {
		t.Errorf("%v, where nothing came:\n%s", err, b.String())
	}
	if got := scaled(time.Second.Seconds()); got != "1 " {
		t.Errorf("got %q", got)
	}
}
