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

// Top is what a router did in an interval: the view of `warproute top`. Rates are per
// second, of frames without FCS; latencies are of the interval's chunks.
type Top struct {
	Time     time.Time `json:"time"`
	Interval int64     `json:"interval_ns"`
	Engine   string    `json:"engine"`
	Why      string    `json:"why"`
	Workers  int       `json:"workers"`

	Chunks          float64 `json:"chunks"`
	PacketsPerChunk float64 `json:"packets_per_chunk"`
	InFlight        int64   `json:"in_flight"` // chunks with the engine now
	Held            int64   `json:"held"`      // packets that wait for neighbours now

	Ports   []TopPort    `json:"ports"`
	Latency []TopLatency `json:"latency"`
	Drops   []TopDrop    `json:"drops"` // the most frequent reasons
	SAs     []TopSA      `json:"sas"`   // the busiest that had traffic
}

// TopPort is a port's traffic.
type TopPort struct {
	Name      string  `json:"name"`
	Up        bool    `json:"up"`
	RxPackets float64 `json:"rx_packets"`
	RxBits    float64 `json:"rx_bits"`
	TxPackets float64 `json:"tx_packets"`
	TxBits    float64 `json:"tx_bits"`
	Drops     float64 `json:"drops"` // of what it received, by the router
	Lost      float64 `json:"lost"`  // in front of the router: its rings were full, or nobody had the queue
}

// TopLatency is that of a stage, in nanoseconds.
type TopLatency struct {
	Stage string `json:"stage"`
	P50   uint64 `json:"p50_ns"`
	P99   uint64 `json:"p99_ns"`
}

// TopDrop is a reason for drops.
type TopDrop struct {
	Reason   string  `json:"reason"`
	Sentence string  `json:"sentence"`
	Packets  float64 `json:"packets"`
}

// TopSA is the traffic of a security association.
type TopSA struct {
	Name      string  `json:"name"`
	Direction string  `json:"direction"`
	SPI       uint32  `json:"spi"`
	Packets   float64 `json:"packets"`
	Bits      float64 `json:"bits"`
}

// How many lines a list has at most.
const (
	topDrops = 6
	topSAs   = 10
)

// TopOf compares two snapshots of a router, an interval apart.
func TopOf(before, now *Snapshot, interval time.Duration) Top {
	perSecond := func(a, b uint64) float64 { return float64(b-min(a, b)) / interval.Seconds() }
	chunks, packets := now.Stats.Packets, before.Stats.Packets
	chunks.Sub(&packets)
	t := Top{
		Time: time.Now(), Interval: interval.Nanoseconds(), Engine: now.Engine.Name, Why: now.Engine.Why, Workers: now.Stats.Workers,
		Chunks: float64(chunks.Count) / interval.Seconds(), PacketsPerChunk: chunks.Mean(), InFlight: now.Stats.InFlight, Held: now.Stats.Held,
		Ports: []TopPort{}, Drops: []TopDrop{}, SAs: []TopSA{},
	}
	var drops [batch.NumReasons]float64
	for i := range now.Ports {
		a, b := &before.Stats.Ports[i], &now.Stats.Ports[i]
		t.Ports = append(t.Ports, TopPort{
			Name: now.Ports[i].Name, Up: now.Ports[i].Up,
			RxPackets: perSecond(a.RxPackets, b.RxPackets), RxBits: 8 * perSecond(a.RxBytes, b.RxBytes),
			TxPackets: perSecond(a.TxPackets, b.TxPackets), TxBits: 8 * perSecond(a.TxBytes, b.TxBytes),
			Drops: perSecond(a.Dropped(), b.Dropped()), Lost: perSecond(before.Ports[i].lost(), now.Ports[i].lost()),
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
			t.Drops = append(t.Drops, TopDrop{batch.Reason(r).String(), batch.Reason(r).Sentence(), n})
		}
	}
	slices.SortStableFunc(t.Drops, func(a, b TopDrop) int { return cmp.Compare(b.Packets, a.Packets) })
	t.Drops = t.Drops[:min(len(t.Drops), topDrops)]
	t.SAs = busiest(before.SAs, now.SAs, perSecond)
	return t
}

// lost counts frames that arrived and did not reach a worker.
func (p *PortState) lost() uint64 {
	return p.XDP.NoSocket + p.XDP.Refused + p.Rings.RxDropped + p.Rings.RxRingFull
}

// busiest lists the associations that had traffic.
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

// WriteTop writes a screen.
func WriteTop(w io.Writer, t Top) error {
	plural := "s"
	if t.Workers == 1 {
		plural = ""
	}
	_, err := fmt.Fprintf(w, "%s  engine %s (%s), %d worker%s; %s chunks/s of %.1f packets; %d with the engine, %d packets held\n\n",
		t.Time.Format(time.TimeOnly), t.Engine, t.Why, t.Workers, plural, rate(t.Chunks), t.PacketsPerChunk, t.InFlight, t.Held)
	if err != nil {
		return err
	}
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
		drops := newTable(w, "DROPS/S", "REASON", "WHY")
		for _, d := range t.Drops {
			drops.row(rate(d.Packets), d.Reason, d.Sentence)
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

// rate writes a rate with three digits and a decimal prefix: 812, 4.07k, 1.20M.
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
