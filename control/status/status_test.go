package status

import (
	"encoding/json"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/dataplane"
	"github.com/warproute/warproute/internal/hist"
)

// sample is a router with two ports that forwarded 3000 packets in 3 chunks.
func sample() *Snapshot {
	s := &Snapshot{
		Ports: []PortState{
			{Name: "lan0", Index: 2, Mode: "native", ModeReason: "the driver veth refuses zero-copy", Queues: 2,
				MAC: "02:00:00:00:00:01", MTU: 1500, Up: true,
				XDP: XDP{ToSocket: 3000, NoSocket: 1, ToLinux: map[string]uint64{"ether_type": 4, "local": 2, "vlan": 0}}},
			{Name: "wan0", Index: 3, Mode: "zero-copy", Queues: 1, MAC: "02:00:00:00:00:02", MTU: 9000,
				Rings: Rings{RxRingFull: 7, FillRingEmpty: 9}},
		},
		Engine: EngineState{Name: "cpu", Reason: "no_gpu", Why: "no GPU was found", Cores: []int{0, 1},
			MaxPackets: 1024, MaxDelay: 50 * time.Microsecond},
		Stats: &dataplane.Stats{
			Ports: []dataplane.PortStats{
				{RxPackets: 3000, RxBytes: 180000, TxPackets: 12, TxBytes: 720},
				{RxPackets: 12, RxBytes: 720, TxPackets: 2990, TxBytes: 179400},
			},
			Engine: "cpu", Workers: 2, Chunks: 3, InFlight: 2, Held: 1, Pending: 2,
		},
		Config: ConfigState{Loaded: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)},
	}
	s.Stats.Ports[0].Drops[batch.NoRoute] = 6
	s.Stats.Ports[0].Drops[batch.TTLExpired] = 4
	s.Stats.Ports[1].Drops[batch.NoRoute] = 2
	var packets hist.Histogram
	packets.Record(1000, 3)
	packets.AddTo(&s.Stats.Packets)
	for i := range s.Stats.Stages {
		var h hist.Histogram
		h.Record(100, 1)
		h.Record(20_000, 1)
		h.Record(3_000_000, 1)
		h.AddTo(&s.Stats.Stages[i])
	}
	return s
}

// withGPUs is the sample with two GPUs, of which the second is late.
func withGPUs() *Snapshot {
	s := sample()
	s.Engine.Name, s.Engine.Reason, s.Engine.Why = "gpu", "gpu_found", "there is one"
	s.Engine.Devices = []Device{
		{Number: 0, Name: "H200", PCI: "0000:1a:00.0", Mode: "resident", Blocks: 16, Room: 263, Workers: 2, InFlight: 3, Chunks: 100},
		{Number: 1, Name: "H200", PCI: "0000:1b:00.0", Mode: "resident", Blocks: 8, Room: 263, Workers: 1, WorkersOut: 1, Unfinished: 2,
			Chunks: 90, ChunksByCPU: 7, ChunksSmall: 4, ChunksUnplaced: 6, Shadow: 16, ShadowSame: 5, ShadowSkipped: 1, Timeouts: 3, Returns: 2,
			Outage: &Outage{time.Date(2026, 11, 21, 12, 0, 3, 0, time.UTC), "the GPU did not finish 7 packets within 20ms"}},
	}
	return s
}

func TestTables(t *testing.T) {
	s := sample()
	tests := []struct {
		name  string
		write func(io.Writer) error
		want  string
	}{
		{"ports", func(w io.Writer) error { return WritePorts(w, Ports(s)) }, `
PORT  STATE  MODE       QUEUES  MAC                MTU   RX PACKETS  RX BYTES  TX PACKETS  TX BYTES  DROPPED  TO LINUX
lan0  up     native     2       02:00:00:00:00:01  1500  3000        180000    12          720       10       6
wan0  down   zero-copy  1       02:00:00:00:00:02  9000  12          720       2990        179400    2        0
lan0: native mode, because the driver veth refuses zero-copy
lan0: to Linux: ether_type 4, local 2
lan0: dropped, arrived on a queue without a socket: 1
wan0: dropped, receive ring full because the worker is too slow: 7
`},
		{"engine", func(w io.Writer) error { return WriteEngine(w, EngineOf(s)) }, `
engine        cpu (no GPU was found)
workers       2 on cores 0 1
frame memory  normal pages
batch         up to 1024 packets or 50µs
chunks        3, of 1000.0 packets in the mean; 2 in flight
packets       3000
waiting       1 for neighbours, 2 in transmit rings
config        loaded at 2026-01-02T03:04:05Z
`},
		{"engine with GPUs", func(w io.Writer) error { return WriteEngine(w, EngineOf(withGPUs())) }, `
engine        gpu (there is one)
GPU 0         H200 at 0000:1a:00.0, resident kernel, 16 of 263 blocks
              2 workers, 3 chunks in flight; 100 decided on; by the CPU 0 while it was out, 0 as they were small, 0 as its blocks had others
GPU 1         H200 at 0000:1b:00.0, resident kernel, 8 of 263 blocks
              1 workers, 0 chunks in flight; 90 decided on; by the CPU 7 while it was out, 4 as they were small, 6 as its blocks had others
              the CPU repeats 1 in 16 chunks: 5 results were the same, 0 differed, 1 chunks skipped as tables changed
              taken out 3 times, back 2 times
              1 workers without it, the first since 2026-11-21 12:00:03, 2 chunks unfinished: the GPU did not finish 7 packets within 20ms
workers       2 on cores 0 1
frame memory  normal pages
batch         up to 1024 packets or 50µs
chunks        3, of 1000.0 packets in the mean; 2 in flight
packets       3000
waiting       1 for neighbours, 2 in transmit rings
config        loaded at 2026-01-02T03:04:05Z
`},
		{"latency", func(w io.Writer) error { return WriteLatencies(w, Latencies(s)) }, `
STAGE   CHUNKS  MEAN    P50     P90     P99     P99.9   WHAT
wait    3       1.01ms  20.1µs  3.00ms  3.00ms  3.00ms  first packet received to chunk submitted
engine  3       1.01ms  20.1µs  3.00ms  3.00ms  3.00ms  submitted to results seen
order   3       1.01ms  20.1µs  3.00ms  3.00ms  3.00ms  results seen to every earlier chunk transmitted
tx      3       1.01ms  20.1µs  3.00ms  3.00ms  3.00ms  that to packets in the transmit rings and the kernel told
total   3       1.01ms  20.1µs  3.00ms  3.00ms  3.00ms  first packet received to the kernel told
`},
		{"drops", func(w io.Writer) error { return WriteDrops(w, Drops(s)) }, `
REASON       PACKETS  BY PORT THAT RECEIVED THEM
ttl_expired  4        lan0 4
no_route     8        lan0 6, wan0 2
total        12

ttl_expired: the TTL or hop limit ran out here
  expected of traceroute; many to one destination are in a routing loop: @traceroute@ shows it

no_route: no route covers the destination
  compare @ip route get ADDRESS@ with @warproute route lookup ADDRESS@; add a route, or see whether a routing daemon lost one
`},
		{"no drops", func(w io.Writer) error { return WriteDrops(w, nil) }, `
no packets dropped
`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var b strings.Builder
			if err := tt.write(&b); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(strings.TrimPrefix(strings.ReplaceAll(tt.want, "@", "`"), "\n"), b.String()); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// Programs read these keys: a changed or missing one breaks them.
func TestJSONKeys(t *testing.T) {
	s := sample()
	tests := []struct {
		name string
		view any
		want string
	}{
		{"port", Ports(s)[0], `{"name":"lan0","index":2,"mode":"native","mode_reason":"the driver veth refuses zero-copy","queues":2,` +
			`"mac":"02:00:00:00:00:01","mtu":1500,"up":true,"xdp":{"to_socket":3000,"no_socket":1,"refused":0,"to_linux":{"ether_type":4,"local":2,"vlan":0}},` +
			`"rings":{"rx_dropped":0,"rx_ring_full":0,"fill_ring_empty":0,"tx_ring_empty":0,"rx_invalid":0,"tx_invalid":0},` +
			`"rx_packets":3000,"rx_bytes":180000,"tx_packets":12,"tx_bytes":720,"dropped":10}`},
		{"engine", EngineOf(s), `{"name":"cpu","reason":"no_gpu","why":"no GPU was found","workers":2,"cores":[0,1],"huge_pages":false,` +
			`"max_packets":1024,"max_delay_ns":50000,"chunks":3,"packets":3000,"packets_per_chunk":1000,"in_flight":2,"held":1,"pending":2,"config_loaded":"2026-01-02T03:04:05Z"}`},
		{"device", withGPUs().Engine.Devices[1], `{"number":1,"name":"H200","pci":"0000:1b:00.0","mode":"resident","blocks":8,"room":263,` +
			`"workers":1,"workers_out":1,"in_flight":0,"unfinished":2,"chunks":90,"chunks_by_cpu":7,"chunks_small":4,"chunks_unplaced":6,"shadow":16,"shadow_same":5,"shadow_different":0,"shadow_skipped":1,"timeouts":3,"returns":2,"faults":0,` +
			`"outage":{"since":"2026-11-21T12:00:03Z","why":"the GPU did not finish 7 packets within 20ms"}}`},
		{"drop", Drops(s)[0], `{"reason":"ttl_expired","sentence":"the TTL or hop limit ran out here",` +
			`"mend":"expected of traceroute; many to one destination are in a routing loop: @traceroute@ shows it","port":"lan0","packets":4}`},
		{"no drops", Drops(&Snapshot{Stats: &dataplane.Stats{}}), `[]`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := json.Marshal(tt.view)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(strings.ReplaceAll(tt.want, "@", "`"), string(got)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestEveryStageHasAMeaning(t *testing.T) {
	for i := range dataplane.NumStages {
		if stage := dataplane.Stage(i).String(); stageMeanings[stage] == "" {
			t.Errorf("stage %s has none", stage)
		}
	}
}

func TestNanosecondsHaveThreeDigits(t *testing.T) {
	for ns, want := range map[uint64]string{
		0: "0ns", 7: "7ns", 999: "999ns", 1000: "1.00µs", 4071: "4.07µs", 9_996: "10.0µs", 99_960: "100µs",
		999_499: "999µs", 999_600: "1.00ms", 1_200_000: "1.20ms", 2_500_000_000: "2.50s", 100_000_000_000: "100s",
	} {
		if got := Nanoseconds(ns); got != want {
			t.Errorf("%d is written %s, want %s", ns, got, want)
		}
	}
}
