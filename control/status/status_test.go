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
	"github.com/warproute/warproute/internal/require"
)

// sample returns a snapshot of a router with two ports that forwarded 3000 packets in 3 chunks.
func sample() *Snapshot {
	s := &Snapshot{
		Ports: []PortState{
			{Name: "lan0", Index: 2, Mode: "native", ModeReason: "the driver veth refuses zero-copy", Queues: 2,
				MAC: "02:00:00:00:00:01", MTU: 1500, Up: true,
				XDP: XDP{ToSocket: 3000, NoSocket: 1, ToLinux: map[string]uint64{"ether_type": 4, "local": 2, "vlan": 0}}},
			{Name: "wan0", Index: 3, Mode: "zero-copy", Queues: 1, MAC: "02:00:00:00:00:02", MTU: 9000,
				Rings: Rings{RxRingFull: 7, FillRingEmpty: 9}, Link: &Link{RxDropped: 21}},
		},
		Engine: EngineState{Name: "cpu", Reason: "no_gpu", Why: "no GPU was found", Cores: []int{0, 1},
			MaxPackets: 1024, MaxDelay: 50 * time.Microsecond},
		Stats: &dataplane.Stats{
			Ports: []dataplane.PortStats{
				{RxPackets: 3000, RxBytes: 180000, TxPackets: 12, TxBytes: 720},
				{RxPackets: 12, RxBytes: 720, TxPackets: 2990, TxBytes: 179400},
			},
			Engine: "cpu", Workers: 2, Chunks: 3, InFlight: 2, Waiting: 1, Transmitting: 2,
		},
		Config: ConfigState{Loaded: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)},
	}
	s.Stats.Ports[0].Drops[batch.NoRoute] = 6
	s.Stats.Ports[0].Drops[batch.TTLExpired] = 4
	s.Stats.Ports[1].Drops[batch.NoRoute] = 2
	var packets hist.Histogram
	packets.Record(1000, 3)
	packets.AddTo(&s.Stats.Packets)
	s.Stats.Lanes = []dataplane.LaneStats{
		{Name: "express", Deadline: 100 * time.Microsecond, Share: 20, Packets: 2000, Chunks: 2, Missed: 1000},
		{Name: "bulk", Packets: 1000, Chunks: 1, Queued: 7},
	}
	for i := range s.Stats.Stages {
		var h hist.Histogram
		h.Record(100, 1)
		h.Record(20_000, 1)
		h.Record(3_000_000, 1)
		h.AddTo(&s.Stats.Stages[i])
		if Stage := dataplane.Stage(i); Stage == dataplane.StageTotal {
			h.AddTo(&s.Stats.Lanes[0].Total)
		}
	}
	return s
}

// withGPUs returns the sample with two GPUs, the second in an outage.
func withGPUs() *Snapshot {
	s := sample()
	s.Engine.Name, s.Engine.Reason, s.Engine.Why = "gpu", "gpu_found", "there is one"
	s.Engine.Devices = []Device{
		{Number: 0, Name: "H200", PCI: "0000:1a:00.0", Sharing: "time_slicing", SharingLatency: "packets wait", Multiprocessors: 132,
			Shape: Shape{8, 232336, 15600, 1, false}, Blocks: 256, Awake: 16, Wakes: 1, Workers: 2, InFlight: 3, Chunks: 100},
		{Number: 1, Name: "H200", PCI: "0000:1b:00.0", Blocks: 256, Parked: true, WakeError: "out of memory", Workers: 1, WorkersOut: 1, Unfinished: 2,
			Chunks: 90, ChunksByCPU: 7, ChunksSooner: 4, ExploredCPU: 2, ExploredGPU: 1, Load: 0.21, TimesCPU: ChunkTimes{2040, 2000, 0.05}, TimesGPU: ChunkTimes{5500, 6000, 0.1}, ChunksNoSlot: 6, ChunksLate: 9, Shadow: 16, ShadowSame: 5, ShadowSkipped: 1, Timeouts: 3, Recoveries: 2,
			Outage: &Outage{time.Date(2026, 11, 21, 12, 0, 3, 0, time.UTC), "the GPU did not finish 7 packets within 20ms"}},
	}
	return s
}

// TestEngineSaysThatGPUDoesNotDecryptCBC: only of a GPU whose kernel does not.
func TestEngineSaysThatGPUDoesNotDecryptCBC(t *testing.T) {
	s := withGPUs()
	const row = "\n               does not decrypt AES-CBC: the CPU engine does\n"
	for _, is := range []bool{false, true} {
		s.Engine.Devices[0].Shape.CBCByCPU = is
		var text strings.Builder
		require.NoError(t, WriteEngine(&text, EngineOf(s)))
		if strings.Contains(text.String(), "8 warps, 232336 bytes of shared memory"+row) != is {
			t.Errorf("AES-CBC is decrypted by the CPU engine: %v:\n%s", is, &text)
		}
	}
}

func TestViewsAreWrittenAsTables(t *testing.T) {
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
lan0: native mode: the driver veth refuses zero-copy
lan0: to Linux: ether_type 4, local 2
lan0: dropped, queue without an AF_XDP socket: 1
wan0: dropped, receive ring full (worker too slow): 7
wan0: dropped by the driver or Linux since the interface exists (ip -s link): rx 21, rx errors 0, tx 0, tx errors 0
`},
		{"engine", func(w io.Writer) error { return WriteEngine(w, EngineOf(s)) }, `
engine         cpu (no GPU was found)
workers        2 on cores 0 1
frame memory   normal pages
batch          up to 1024 packets or 50µs per chunk
chunks         3, 1000.0 packets on average; 2 in flight
packets        3000
queued         1 packet for unresolved neighbors or SAs, 2 in transmit rings
configuration  loaded 2026-01-02T03:04:05Z
`},
		{"engine with GPUs", func(w io.Writer) error { return WriteEngine(w, EngineOf(withGPUs())) }, `
engine         gpu (there is one)
GPU 0          H200 at 0000:1a:00.0, kernel of 256 blocks, 16 awake
               132 multiprocessors, up to 1 block each: 8 warps, 232336 bytes of shared memory
               sharing: time slicing: packets wait
               2 workers, 3 chunks in flight; 100 processed by the GPU (0 explored); by the CPU: 0 sooner, 0 explored, 0 without a free slot, 0 while the kernel was parked, 0 behind a late chunk, 0 during outages
GPU 1          H200 at 0000:1b:00.0, kernel parked; IT CANNOT RETURN: out of memory
               1 worker, 0 chunks in flight; 90 processed by the GPU (1 explored); by the CPU: 4 sooner, 2 explored, 6 without a free slot, 0 while the kernel was parked, 9 behind a late chunk, 7 during outages
               chunks on the GPU: predicted 5.5 µs, measured 6.0 µs, mean error 10%
               chunks on the CPU: predicted 2.0 µs, measured 2.0 µs, mean error 5%
               load of the CPU alone: 21% of a core in the busiest worker
               shadow: 1 in 16 chunks repeated by the CPU: 5 same, 0 different, 1 skipped because tables changed
               3 failovers, 2 recoveries
               outage: 1 worker on the CPU since 2026-11-21 12:00:03, 2 chunks unfinished: the GPU did not finish 7 packets within 20ms
workers        2 on cores 0 1
frame memory   normal pages
batch          up to 1024 packets or 50µs per chunk
chunks         3, 1000.0 packets on average; 2 in flight
packets        3000
queued         1 packet for unresolved neighbors or SAs, 2 in transmit rings
configuration  loaded 2026-01-02T03:04:05Z
`},
		{"lanes", func(w io.Writer) error { return WriteLanes(w, Lanes(s)) }, `
LANE     PACKETS  CHUNKS  QUEUED  DEADLINE  MISSED  P50     P99     P99.9
express  2000     2       0       100µs     1000    20.1µs  3.00ms  3.00ms
bulk     1000     1       7       none      0       0ns     0ns     0ns
`},
		{"latency", func(w io.Writer) error { return WriteLatencies(w, Latencies(s)) }, `
STAGE   CHUNKS  MEAN    P50     P90     P99     P99.9   DESCRIPTION
wait    3       1.01ms  20.1µs  3.00ms  3.00ms  3.00ms  first packet received until chunk submitted
engine  3       1.01ms  20.1µs  3.00ms  3.00ms  3.00ms  submitted until results polled
order   3       1.01ms  20.1µs  3.00ms  3.00ms  3.00ms  results polled until all earlier chunks transmitted
tx      3       1.01ms  20.1µs  3.00ms  3.00ms  3.00ms  earlier chunks transmitted until the kernel is notified of the transmit rings
total   3       1.01ms  20.1µs  3.00ms  3.00ms  3.00ms  first packet received until the kernel is notified
`},
		{"drops", func(w io.Writer) error { return WriteDrops(w, Drops(s)) }, `
REASON        PACKETS  BY INGRESS PORT
ttl_expired   4        lan0 4
no_route      8        lan0 6, wan0 2
no_socket     1        lan0 1
rx_ring_full  7        wan0 7
total         20

ttl_expired: the TTL or hop limit expired at this router
  expected with traceroute; many for one destination are a routing loop, which @traceroute@ shows

no_route: no route covers the destination
  compare @ip route get ADDRESS@ with @warproute route lookup ADDRESS@; add a route, or check the routing daemon

no_socket: the frame arrived on a queue without an AF_XDP socket
  expected for some milliseconds of an upgrade; otherwise the interface has more queues than when the router started: restart it, or set the number back by @ethtool -L@

rx_ring_full: the receive ring of the AF_XDP socket was full
  a worker is too slow, or other programs use its core: compare the workers in @warproute top@; use more queues and cores
`},
		{"no drops", func(w io.Writer) error { return WriteDrops(w, nil) }, `
no packets dropped
`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var b strings.Builder
			require.NoError(t, tt.write(&b))
			if diff := cmp.Diff(strings.TrimPrefix(strings.ReplaceAll(tt.want, "@", "`"), "\n"), b.String()); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestJSONKeysAreStable(t *testing.T) {
	s := sample()
	tests := []struct {
		name string
		view any
		want string
	}{
		{"port", Ports(s)[0], `{"name":"lan0","index":2,"mode":"native","mode_reason":"the driver veth refuses zero-copy","queues":2,` +
			`"mac":"02:00:00:00:00:01","mtu":1500,"up":true,"xdp":{"to_socket":3000,"no_socket":1,"refused":0,"to_linux":{"ether_type":4,"local":2,"vlan":0}},` +
			`"rings":{"rx_dropped":0,"rx_ring_full":0,"fill_ring_empty":0,"tx_ring_empty":0,"rx_invalid":0,"tx_invalid":0},` +
			`"rx_packets":3000,"rx_bytes":180000,"tx_packets":12,"tx_bytes":720,"dropped_packets":10}`},
		{"engine", EngineOf(s), `{"name":"cpu","reason":"no_gpu","description":"no GPU was found","workers":2,"cores":[0,1],"huge_pages":false,` +
			`"max_packets":1024,"max_delay_ns":50000,"chunks":3,"packets":3000,"packets_per_chunk":1000,"in_flight":2,"neighbor_queue_packets":1,"tx_pending_packets":2,"config_loaded":"2026-01-02T03:04:05Z"}`},
		{"device", withGPUs().Engine.Devices[1], `{"number":1,"name":"H200","pci":"0000:1b:00.0","sharing":"","sharing_latency":"","multiprocessors":0,"shape":{"warps":0,"shared_bytes":0,"staging_bytes":0,"blocks_per_multiprocessor":0,"cbc_by_cpu":false},` +
			`"blocks":256,"awake":0,"parked":true,"wakes":0,"wake_error":"out of memory",` +
			`"workers":1,"workers_out":1,"in_flight":0,"unfinished":2,"chunks":90,"chunks_by_cpu":7,"chunks_sooner":4,"explored_cpu":2,"explored_gpu":1,"chunks_no_slot":6,"chunks_parked":0,"chunks_late":9,` +
			`"times_cpu":{"predicted_ns":2040,"measured_ns":2000,"error":0.05},"times_gpu":{"predicted_ns":5500,"measured_ns":6000,"error":0.1},"load":0.21,"shadow":16,"shadow_same":5,"shadow_different":0,"shadow_skipped":1,"timeouts":3,"recoveries":2,"faults":0,` +
			`"outage":{"since":"2026-11-21T12:00:03Z","reason":"the GPU did not finish 7 packets within 20ms"}}`},
		{"drop", Drops(s)[0], `{"reason":"ttl_expired","description":"the TTL or hop limit expired at this router",` +
			`"hint":"expected with traceroute; many for one destination are a routing loop, which @traceroute@ shows","port":"lan0","packets":4}`},
		{"no drops", Drops(&Snapshot{Stats: &dataplane.Stats{}}), `[]`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := json.Marshal(tt.view)
			require.NoError(t, err)
			if diff := cmp.Diff(strings.ReplaceAll(tt.want, "@", "`"), string(got)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestEveryStageHasADescription(t *testing.T) {
	for i := range dataplane.NumStages {
		if stage := dataplane.Stage(i).String(); stageDescriptions[stage] == "" {
			t.Errorf("stage %s has no description", stage)
		}
	}
}

func TestNanosecondsHaveThreeDigits(t *testing.T) {
	for ns, want := range map[uint64]string{
		0: "0ns", 7: "7ns", 999: "999ns", 1000: "1.00µs", 4071: "4.07µs", 9_996: "10.0µs", 99_960: "100µs",
		999_499: "999µs", 999_600: "1.00ms", 1_200_000: "1.20ms", 2_500_000_000: "2.50s", 100_000_000_000: "100s",
	} {
		if got := Nanoseconds(ns); got != want {
			t.Errorf("Nanoseconds(%d) = %s, want %s", ns, got, want)
		}
	}
}
