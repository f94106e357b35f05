package gen

import (
	"cmp"
	"slices"
	"time"

	"github.com/warproute/warproute/internal/hist"
)

// WireOverhead is the bytes of a frame on an Ethernet link that are not in memory: FCS 4, preamble and
// start delimiter 8, interframe gap 12.
const WireOverhead = 24

// Report is the result of a run. Rates "on the wire" include WireOverhead.
type Report struct {
	Traffic *TrafficReport `json:"traffic,omitempty"` // nil without sending
	Send    *SendReport    `json:"send,omitempty"`
	Receive *ReceiveReport `json:"receive,omitempty"` // nil without receiving
}

// TrafficReport is the requested traffic.
type TrafficReport struct {
	Family string `json:"family"`
	Src    string `json:"src"`
	Dst    string `json:"dst"`
	Size   int    `json:"frame_bytes,omitempty"` // with FCS; 0: IMIX
	IMIX   bool   `json:"imix,omitempty"`
	Flows  int    `json:"flows"`
}

// Volume is the packets and rates of a port.
type Volume struct {
	Port             string  `json:"port"`
	Mode             string  `json:"mode,omitempty"` // of the port
	Packets          uint64  `json:"packets"`        // without duplicates
	Seconds          float64 `json:"seconds"`
	PacketsPerSecond float64 `json:"packets_per_second"`
	BitsPerSecond    float64 `json:"bits_per_second"` // on the wire
}

// SendReport is the transmitted traffic.
type SendReport struct {
	Volume
	Requested     float64 `json:"requested_packets_per_second,omitempty"` // 0: the maximum
	TransmitShare float64 `json:"transmit_share"`                         // of the port's transmit in the busy time of senders
	Limit         string  `json:"limit"`                                  // cause of the rate's limit

	Arrival string        `json:"arrival,omitempty"`    // constant, poisson or burst:N; absent at the maximum rate
	MaxLag  time.Duration `json:"max_lag_ns,omitempty"` // longest delay of a packet by the senders, which counts as latency
}

// ReceiveReport is the received traffic. Packets plus Lost were sent.
type ReceiveReport struct {
	Volume
	Lost        uint64   `json:"lost"`
	LossPercent float64  `json:"loss_percent"`
	Missed      uint64   `json:"missed"`     // frames of any kind that the receivers were too slow for
	Duplicates  uint64   `json:"duplicates"` // repeated packets
	Reordered   uint64   `json:"reordered"`  // received after a later one of their flow (RFC 4737)
	Corrupted   uint64   `json:"corrupted"`  // with wrong lengths or checksums; also lost
	Unknown     uint64   `json:"unknown"`    // frames of other runs or programs
	Latency     *Latency `json:"latency,omitempty"`

	FaultyFlows int          `json:"faulty_flows"` // with any loss, duplicates or reordering
	WorstFlows  []FlowReport `json:"worst_flows,omitempty"`
}

// Latency is the time to the receiver: with a rate from the time at which the packet was due, so that a
// late sender hides nothing, otherwise from its transmit. At the maximum rate it is mostly queueing delay:
// measure it at lower rates. It is nil if the sender is on another host, whose clock differs.
type Latency struct {
	Min  time.Duration `json:"min_ns"`
	Mean time.Duration `json:"mean_ns"`
	P50  time.Duration `json:"p50_ns"`
	P90  time.Duration `json:"p90_ns"`
	P99  time.Duration `json:"p99_ns"`
	P999 time.Duration `json:"p999_ns"`
	Max  time.Duration `json:"max_ns"`
}

// FlowReport is the result of one flow.
type FlowReport struct {
	Flow       int    `json:"flow"`
	Sent       uint64 `json:"sent"`
	Received   uint64 `json:"received"`
	Lost       uint64 `json:"lost"`
	Duplicates uint64 `json:"duplicates"`
	Reordered  uint64 `json:"reordered"`
}

// worstFlows is the number of flows with a report.
const worstFlows = 16

// report sums the counters of all threads, which have ended.
func (r *running) report(tx, rx *Port, t *Traffic, o Options, missed uint64) *Report {
	rep := &Report{}
	if tx != nil {
		rep.Traffic = &TrafficReport{Family: "IPv4", Src: t.Src.String(), Dst: t.Dst.String(), Size: t.Size, IMIX: t.IMIX, Flows: t.Flows}
		if t.ipv6() {
			rep.Traffic.Family = "IPv6"
		}
		rep.Send = r.sendReport(tx, o)
	}
	if rx != nil {
		rep.Receive = r.receiveReport(rx)
		rep.Receive.Missed = missed
	}
	return rep
}

func newVolume(p *Port, packets, bytes uint64, d time.Duration) Volume {
	v := Volume{Port: p.Name, Mode: p.Mode, Packets: packets, Seconds: d.Seconds()}
	if d > 0 {
		v.PacketsPerSecond = float64(packets) / d.Seconds()
		v.BitsPerSecond = float64(bytes+packets*WireOverhead) * 8 / d.Seconds()
	}
	return v
}

func (r *running) sendReport(tx *Port, o Options) *SendReport {
	var packets, bytes uint64
	var building, transmitting, lag time.Duration
	began, ended := r.senders[0].began, r.senders[0].ended
	for _, s := range r.senders {
		packets, bytes = packets+s.sent, bytes+s.bytes
		building, transmitting = building+s.building, transmitting+s.transmitting
		began, ended = min(began, s.began), max(ended, s.ended)
		lag = max(lag, s.lag)
	}
	rep := &SendReport{Volume: newVolume(tx, packets, bytes, ended-began), Requested: o.Rate, MaxLag: lag}
	if o.Rate > 0 {
		rep.Arrival = o.Arrival.String()
	}
	if busy := building + transmitting; busy > 0 {
		rep.TransmitShare = float64(transmitting) / float64(busy)
	}
	switch {
	case o.Rate > 0 && rep.PacketsPerSecond >= 0.99*o.Rate:
		rep.Limit = "the requested rate"
	case rep.TransmitShare >= 0.5:
		rep.Limit = "port: transmit"
	default:
		rep.Limit = "generator: build"
	}
	return rep
}

func (r *running) receiveReport(rx *Port) *ReceiveReport {
	rep := &ReceiveReport{}
	var latency hist.Snapshot
	var packets, bytes, longest uint64
	shortest := r.receivers[0].shortest
	var first, last time.Duration
	for _, c := range r.receivers {
		packets, bytes = packets+c.received.Load(), bytes+c.bytes
		rep.Corrupted, rep.Unknown = rep.Corrupted+c.corrupted, rep.Unknown+c.unknown
		if c.first != 0 {
			if first == 0 {
				first = c.first
			}
			first, last = min(first, c.first), max(last, c.last)
		}
		c.latency.AddTo(&latency)
		longest, shortest = max(longest, c.longest), min(shortest, c.shortest)
	}
	rep.Volume = newVolume(rx, packets, bytes, last-first)
	r.addFlows(rep)
	if total := packets + rep.Lost; total > 0 {
		rep.LossPercent = 100 * float64(rep.Lost) / float64(total)
	}
	if latency.Count > 0 {
		quantile := func(q float64) time.Duration { return time.Duration(min(latency.Quantile(q), longest)) }
		rep.Latency = &Latency{
			Min: time.Duration(shortest), Mean: time.Duration(latency.Mean()), Max: time.Duration(longest),
			P50: quantile(0.5), P90: quantile(0.9), P99: quantile(0.99), P999: quantile(0.999),
		}
	}
	return rep
}

// addFlows sums the counters of all flows.
func (r *running) addFlows(rep *ReceiveReport) {
	n := 0
	for _, c := range r.receivers {
		n = max(n, len(c.flows.of))
	}
	for i := range n {
		f := r.flow(i)
		rep.Lost += f.Lost
		rep.Duplicates += f.Duplicates
		rep.Reordered += f.Reordered
		if f.Lost+f.Duplicates+f.Reordered == 0 {
			continue
		}
		rep.FaultyFlows++
		rep.WorstFlows = append(rep.WorstFlows, f)
		if len(rep.WorstFlows) >= 64*worstFlows {
			rep.WorstFlows = worst(rep.WorstFlows)
		}
	}
	rep.WorstFlows = worst(rep.WorstFlows)
}

// worst returns the flows with most losses.
func worst(fs []FlowReport) []FlowReport {
	slices.SortFunc(fs, func(a, b FlowReport) int {
		return cmp.Or(cmp.Compare(b.Lost, a.Lost), cmp.Compare(b.Reordered, a.Reordered), cmp.Compare(b.Duplicates, a.Duplicates), cmp.Compare(a.Flow, b.Flow))
	})
	return fs[:min(len(fs), worstFlows)]
}

// flow returns the result of a flow.
func (r *running) flow(i int) FlowReport {
	rep := FlowReport{Flow: i}
	for _, c := range r.receivers {
		if i >= len(c.flows.of) {
			continue
		}
		f := &c.flows.of[i]
		rep.Received += f.received
		rep.Duplicates += f.duplicates
		rep.Reordered += f.reordered
		if c.listening {
			rep.Sent += f.expected()
		}
	}
	if n := len(r.senders); n > 0 {
		rep.Sent = uint64(r.senders[i%n].seqs[i/n])
	}
	rep.Lost = rep.Sent - min(rep.Sent, rep.Received)
	return rep
}
