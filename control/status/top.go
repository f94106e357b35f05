package status

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/dataplane"
)

// Top is the view of `warproute top`: rates and latencies of one interval. Rates are per
// second, of frames without FCS.
type Top struct {
	Time        time.Time `json:"time"`        // end of the interval
	Interval    int64     `json:"interval_ns"` // length of the interval, ns
	Engine      string    `json:"engine"`      // current engine: cpu, gpu
	Description string    `json:"description"` // reason for the engine, as a sentence
	Workers     int       `json:"workers"`     // number of workers
	Load        []float64 `json:"load"`        // share of the interval in which each worker had packets, 0 to 1

	Chunks          float64 `json:"chunks"`                 // chunks per second
	PacketsPerChunk float64 `json:"packets_per_chunk"`      // average packets per chunk
	InFlight        int64   `json:"in_flight"`              // chunks in process by the engines
	NeighborQueue   int64   `json:"neighbor_queue_packets"` // packets queued for unresolved neighbors or missing SAs

	Ports   []TopPort    `json:"ports"`   // rates by port
	Latency []TopLatency `json:"latency"` // latencies by stage
	Drops   []TopDrop    `json:"drops"`   // drop rates of the most frequent reasons
	SAs     []TopSA      `json:"sas"`     // rates of the SAs with the most packets
}

// TopPort holds the rates of a port.
type TopPort struct {
	Name      string  `json:"name"`            // configured name
	Up        bool    `json:"up"`              // true if the link is up
	RxPackets float64 `json:"rx_packets"`      // received packets per second
	RxBits    float64 `json:"rx_bits"`         // received bits per second
	TxPackets float64 `json:"tx_packets"`      // transmitted packets per second
	TxBits    float64 `json:"tx_bits"`         // transmitted bits per second
	Drops     float64 `json:"dropped_packets"` // received packets dropped by the router, per second
	Lost      float64 `json:"lost_packets"`    // frames lost before the router, per second: ring full, no socket on the queue, redirect refused
}

// TopLatency is the latency of a stage, in nanoseconds.
type TopLatency struct {
	Stage string `json:"stage"`  // stage: wait, engine, order, tx, total
	P50   uint64 `json:"p50_ns"` // median latency, ns
	P99   uint64 `json:"p99_ns"` // 99th percentile, ns
}

// TopDrop is the drop rate of a reason.
type TopDrop struct {
	Reason      string  `json:"reason"`      // drop reason, as in metrics
	Description string  `json:"description"` // description of the reason
	Packets     float64 `json:"packets"`     // dropped packets per second
}

// TopSA holds the rates of an SA.
type TopSA struct {
	Name      string  `json:"name"`      // SA name
	Direction string  `json:"direction"` // in or out
	SPI       uint32  `json:"spi"`       // security parameters index
	Packets   float64 `json:"packets"`   // packets per second
	Bits      float64 `json:"bits"`      // bits per second
}

// Maximum lengths of the lists.
const (
	topDrops = 6
	topSAs   = 10
)

// TopOf computes the rates between two snapshots.
func TopOf(before, now *Snapshot, interval time.Duration) Top {
	perSecond := func(a, b uint64) float64 { return float64(b-min(a, b)) / interval.Seconds() }
	chunks, packets := now.Stats.Packets, before.Stats.Packets
	chunks.Sub(&packets)
	t := Top{
		Time: time.Now(), Interval: interval.Nanoseconds(), Engine: now.Engine.Name, Description: now.Engine.Why, Workers: now.Stats.Workers,
		Chunks: float64(chunks.Count) / interval.Seconds(), PacketsPerChunk: chunks.Mean(), InFlight: now.Stats.InFlight, NeighborQueue: now.Stats.Waiting,
		Load: []float64{}, Ports: []TopPort{}, Drops: []TopDrop{}, SAs: []TopSA{},
	}
	for i, l := range now.Stats.Loads {
		was := dataplane.LoadStats{}
		if i < len(before.Stats.Loads) {
			was = before.Stats.Loads[i]
		}
		t.Load = append(t.Load, min(1, float64(max(0, l.Busy-was.Busy))/float64(max(1, l.Elapsed-was.Elapsed))))
	}
	var drops [batch.NumReasons]float64
	earlier := map[portKey]int{} // VLANs come and go
	for i := range before.Ports {
		earlier[keyOf(&before.Ports[i])] = i
	}
	for i := range now.Ports {
		if now.Ports[i].Removed > 0 {
			continue // the packets in flight of removed ports
		}
		a, b, lost := &dataplane.PortStats{}, &now.Stats.Ports[i], uint64(0)
		if j, ok := earlier[keyOf(&now.Ports[i])]; ok {
			a, lost = &before.Stats.Ports[j], before.Ports[j].lost()
		}
		t.Ports = append(t.Ports, TopPort{
			Name: now.Ports[i].Name, Up: now.Ports[i].Up,
			RxPackets: perSecond(a.RxPackets, b.RxPackets), RxBits: 8 * perSecond(a.RxBytes, b.RxBytes),
			TxPackets: perSecond(a.TxPackets, b.TxPackets), TxBits: 8 * perSecond(a.TxBytes, b.TxBytes),
			Drops: perSecond(a.Dropped(), b.Dropped()), Lost: perSecond(lost, now.Ports[i].lost()),
		})
		for r := range drops {
			drops[r] += perSecond(a.Drops[r], b.Drops[r])
		}
	}
	for i := range now.Stats.Stages {
		h := now.Stats.Stages[i]
		h.Sub(&before.Stats.Stages[i])
		t.Latency = append(t.Latency, TopLatency{dataplane.Stage(i).String(), h.Quantile(0.5), h.Quantile(0.99)})
	}
	for r, n := range drops {
		if n > 0 {
			t.Drops = append(t.Drops, TopDrop{batch.Reason(r).String(), batch.Reason(r).Description(), n})
		}
	}
	slices.SortStableFunc(t.Drops, func(a, b TopDrop) int { return cmp.Compare(b.Packets, a.Packets) })
	t.Drops = t.Drops[:min(len(t.Drops), topDrops)]
	t.SAs = busiest(before.SAs, now.SAs, perSecond)
	return t
}

// portKey identifies a port: a physical one by its name, a VLAN or bond by its interface.
type portKey struct {
	name  string
	index int
}

func keyOf(p *PortState) portKey {
	if !p.Logical() {
		return portKey{name: p.Name}
	}
	return portKey{index: p.Index}
}

// lost returns the number of frames that arrived and were lost before a worker.
func (p *PortState) lost() uint64 {
	return p.XDP.NoSocket + p.XDP.Refused + p.Rings.RxDropped + p.Rings.RxRingFull
}

// busiest lists the SAs with traffic, by packet rate.
func busiest(before, now []SA, perSecond func(a, b uint64) float64) []TopSA {
	type key struct {
		name, direction string
		spi             uint32
	}
	was := map[key]*SA{}
	for i := range before {
		s := &before[i]
		was[key{s.Name, s.Direction, s.SPI}] = s
	}
	all := []TopSA{}
	for _, s := range now {
		old := was[key{s.Name, s.Direction, s.SPI}]
		if old == nil {
			old = new(SA)
		}
		if rate := perSecond(old.Packets, s.Packets); rate > 0 {
			all = append(all, TopSA{s.Name, s.Direction, s.SPI, rate, 8 * perSecond(old.Bytes, s.Bytes)})
		}
	}
	slices.SortStableFunc(all, func(a, b TopSA) int { return cmp.Compare(b.Packets, a.Packets) })
	return all[:min(len(all), topSAs)]
}

// topWidth is the width of a screen in characters. Text beyond it is cut.
const topWidth = 80

// WriteTop writes one screen.
func WriteTop(w io.Writer, t Top) error {
	lines := []string{
		fmt.Sprintf("%s  engine %s: %s", t.Time.Format(time.TimeOnly), t.Engine, t.Description),
		fmt.Sprintf("%s chunks/s of %.1f packets, %d in flight; %s queued for neighbors", rate(t.Chunks), t.PacketsPerChunk, t.InFlight, count(t.NeighborQueue, "packet")),
		t.loads(),
	}
	for _, line := range lines {
		if _, err := fmt.Fprintln(w, cut(line, topWidth)); err != nil {
			return err
		}
	}
	fmt.Fprintln(w)
	ports := newTable(w, "PORT", "STATE", "RX PPS", "RX BIT/S", "TX PPS", "TX BIT/S", "DROPS/S", "LOST/S")
	for _, p := range t.Ports {
		ports.row(p.Name, upDown(p.Up), rate(p.RxPackets), rate(p.RxBits), rate(p.TxPackets), rate(p.TxBits), rate(p.Drops), rate(p.Lost))
	}
	if err := ports.flush(); err != nil {
		return err
	}
	var names, p50, p99 []any
	for _, l := range t.Latency {
		names, p50, p99 = append(names, strings.ToUpper(l.Stage)), append(p50, Nanoseconds(l.P50)), append(p99, Nanoseconds(l.P99))
	}
	fmt.Fprintln(w)
	latency := newTable(w, append([]any{"LATENCY"}, names...)...)
	latency.row(append([]any{"p50"}, p50...)...)
	latency.row(append([]any{"p99"}, p99...)...)
	if err := latency.flush(); err != nil {
		return err
	}
	if len(t.Drops) > 0 {
		fmt.Fprintln(w)
		drops := newTable(w, "DROPS/S", "REASON", "DESCRIPTION")
		for _, d := range t.Drops {
			drops.row(rate(d.Packets), d.Reason, cut(d.Description, topWidth-len("DROPS/S  xfrm_out_state_proto_error  ")))
		}
		if err := drops.flush(); err != nil {
			return err
		}
	}
	if len(t.SAs) == 0 {
		return nil
	}
	fmt.Fprintln(w)
	sas := newTable(w, "SA", "DIRECTION", "SPI", "PPS", "BIT/S")
	for _, s := range t.SAs {
		sas.row(s.Name, s.Direction, fmt.Sprintf("%#x", s.SPI), rate(s.Packets), rate(s.Bits))
	}
	return sas.flush()
}

// loads returns the loads of workers in percent; of many workers, the mean and the highest.
func (t *Top) loads() string {
	var all []string
	sum, highest := 0.0, 0
	for i, l := range t.Load {
		all = append(all, fmt.Sprintf("%.0f%%", 100*l))
		if sum += l; l > t.Load[highest] {
			highest = i
		}
	}
	text := fmt.Sprintf("%s, load %s", count(t.Workers, "worker"), strings.Join(all, " "))
	if len(text) <= topWidth {
		return text
	}
	return fmt.Sprintf("%s, mean load %.0f%%, highest %s (worker %d)", count(t.Workers, "worker"), 100*sum/float64(len(all)), all[highest], highest)
}

// cut shortens text to n characters.
func cut(text string, n int) string {
	if r := []rune(text); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return text
}

// rate formats a rate with three digits and a decimal prefix: 812, 4.07k, 1.20M.
func rate(v float64) string {
	if v < 999.5 {
		return fmt.Sprintf("%.0f", v)
	}
	for _, unit := range []string{"k", "M"} {
		if v /= 1000; v < 999.5 {
			return threeDigits(v) + unit
		}
	}
	return threeDigits(v/1000) + "G"
}
