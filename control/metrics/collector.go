package metrics

import (
	"math"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/control/status"
	"github.com/warproute/warproute/dataplane"
	"github.com/warproute/warproute/internal/hist"
	"github.com/warproute/warproute/ipsec"
)

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("warproute_"+name, help, labels, nil)
}

var (
	buildInfo = desc("build_info", "Always 1; the labels say what is running.", "version", "revision", "goversion")

	rxPackets = desc("port_rx_packets_total", "Packets that workers received from a port.", "port")
	rxBytes   = desc("port_rx_bytes_total", "Bytes of those packets, Ethernet header included, FCS not.", "port")
	txPackets = desc("port_tx_packets_total", "Packets that workers gave to a port to send.", "port")
	txBytes   = desc("port_tx_bytes_total", "Bytes of those packets, Ethernet header included, FCS not.", "port")
	portUp    = desc("port_up", "Whether the port's link is up (1) or down (0).", "port")
	drops     = desc("drops_total", "Packets received from a port that were not forwarded, by the reason.", "reason", "port")

	batchPackets = desc("batch_packets", "Packets per chunk that went through an engine.")
	batchStage   = desc("batch_stage_seconds", "Time that chunks spent in each stage: wait, engine, order, tx, and total from first packet received to kernel told.", "stage")
	heldPackets  = desc("held_packets", "Packets that wait for a neighbour's link address.")

	saPackets   = desc("ipsec_sa_packets_total", "Packets that a security association protected or that were received by it, those before it of the same name included.", "sa", "direction")
	ipsecErrors = desc("ipsec_errors_total", "Packets that IPsec refused, by Linux's name for the error.", "error")

	fibRoutes = desc("fib_routes", "Routes in the forwarding base.", "family")
	fibUpdate = desc("fib_update_seconds", "Time that changes of routes and neighbours took from netlink to the forwarding base.")

	xdpToLinux     = desc("xdp_to_linux_packets_total", "Frames that the XDP program left to Linux, by the cause.", "port", "cause")
	xdpNoSocket    = desc("xdp_no_socket_packets_total", "Frames dropped because they arrived on a queue without a socket.", "port")
	xdpRefused     = desc("xdp_redirect_refused_packets_total", "Frames dropped because the kernel did not hand them to the socket that the XDP program chose; counted up to 2 s late.", "port")
	xdpTransit     = desc("xdp_transit_packets_total", "Frames that the XDP program of a gateway dropped, because Linux might have forwarded them past the policies, by the cause.", "port", "cause")
	xskRxDropped   = desc("xsk_rx_dropped_total", "Frames that the kernel dropped for lack of memory to receive into, or for their length.", "port")
	xskRxFull      = desc("xsk_rx_ring_full_total", "Frames that the kernel dropped because a receive ring was full.", "port")
	xskFillEmpty   = desc("xsk_fill_ring_empty_total", "Times that the kernel found no frame in a fill ring.", "port")
	xskTxEmpty     = desc("xsk_tx_ring_empty_total", "Times that the kernel found nothing in a transmit ring.", "port")
	xskDescInvalid = desc("xsk_invalid_descriptors_total", "Descriptors that the kernel refused.", "port", "direction")
)

// Bounds of the histograms' buckets: 1, 2 and 5 of each decade of time from 1 µs
// to 1 s, and powers of two of packets.
var (
	timeBounds   = []float64{1e-6, 2e-6, 5e-6, 1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 2e-2, 5e-2, 0.1, 0.2, 0.5, 1}
	packetBounds = []float64{1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096}
)

const nanosecond = 1e-9 // in seconds

type collector struct {
	build    Build
	snapshot func() *status.Snapshot
}

// NewCollector returns a collector that takes a snapshot at each scrape.
func NewCollector(build Build, snapshot func() *status.Snapshot) prometheus.Collector {
	return &collector{build, snapshot}
}

func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		buildInfo, rxPackets, rxBytes, txPackets, txBytes, portUp, drops,
		batchPackets, batchStage, engineChunks, gpuFailovers, heldPackets, framesTotal, framesFree, framesWithheld, saPackets, ipsecErrors, fibRoutes, fibUpdate,
		configReloads, configLoaded, configTried,
		linuxForwarding, guardHeld, xdpToLinux, xdpNoSocket, xdpRefused, xdpTransit, xskRxDropped, xskRxFull, xskFillEmpty, xskTxEmpty, xskDescInvalid,
	} {
		ch <- d
	}
}

func (c *collector) Collect(ch chan<- prometheus.Metric) {
	s := c.snapshot()
	send := sender(ch)
	send.gauge(buildInfo, 1, c.build.Version, c.build.Revision, c.build.GoVersion)
	for i := range s.Ports {
		send.port(&s.Ports[i], &s.Stats.Ports[i])
	}
	send.histogram(batchPackets, &s.Stats.Packets, 1, packetBounds)
	for i := range s.Stats.Stages {
		send.histogram(batchStage, &s.Stats.Stages[i], nanosecond, timeBounds, dataplane.Stage(i).String())
	}
	send.engine(s)
	send.frames(s.Stats.Frames)
	send.config(s)
	send.guard(s.Guard)
	send.gauge(heldPackets, float64(s.Stats.Held))
	send.ipsec(s)
	send.gauge(fibRoutes, float64(s.RoutesIPv4), "ipv4")
	send.gauge(fibRoutes, float64(s.RoutesIPv6), "ipv6")
	if s.Updates != nil {
		send.histogram(fibUpdate, s.Updates, nanosecond, timeBounds)
	}
}

// sender is where a scrape's metrics go.
type sender chan<- prometheus.Metric

func (ch sender) port(p *status.PortState, c *dataplane.PortStats) {
	up := 0.0
	if p.Up {
		up = 1
	}
	ch.gauge(portUp, up, p.Name)
	ch.counter(rxPackets, c.RxPackets, p.Name)
	ch.counter(rxBytes, c.RxBytes, p.Name)
	ch.counter(txPackets, c.TxPackets, p.Name)
	ch.counter(txBytes, c.TxBytes, p.Name)
	for reason, n := range c.Drops { // those of 0 too, so that rates have a start
		ch.counter(drops, n, batch.Reason(reason).String(), p.Name)
	}
	for cause, n := range p.XDP.ToLinux {
		ch.counter(xdpToLinux, n, p.Name, cause)
	}
	for cause, n := range p.XDP.Transit {
		ch.counter(xdpTransit, n, p.Name, cause)
	}
	ch.counter(xdpNoSocket, p.XDP.NoSocket, p.Name)
	ch.counter(xdpRefused, p.XDP.Refused, p.Name)
	ch.counter(xskRxDropped, p.Rings.RxDropped, p.Name)
	ch.counter(xskRxFull, p.Rings.RxRingFull, p.Name)
	ch.counter(xskFillEmpty, p.Rings.FillRingEmpty, p.Name)
	ch.counter(xskTxEmpty, p.Rings.TxRingEmpty, p.Name)
	ch.counter(xskDescInvalid, p.Rings.RxInvalid, p.Name, "rx")
	ch.counter(xskDescInvalid, p.Rings.TxInvalid, p.Name, "tx")
}

func (ch sender) ipsec(s *status.Snapshot) {
	for _, t := range s.Traffic { // not by SPI, which every rekeying changes: `show sas` has those
		ch.counter(saPackets, t.Packets, t.Bundle, t.Direction.String())
	}
	for e := ipsec.OK + 1; e < ipsec.Errors; e++ {
		reason, sum := batch.XfrmInHdrError+batch.Reason(e-ipsec.InHdrError), uint64(0)
		if e == ipsec.PolicyRefused {
			reason = batch.XfrmPolicyRefused
		}
		for i := range s.Stats.Ports {
			sum += s.Stats.Ports[i].Drops[reason]
		}
		ch.counter(ipsecErrors, sum, e.String())
	}
}

func (ch sender) counter(d *prometheus.Desc, n uint64, labels ...string) {
	ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels...)
}

func (ch sender) gauge(d *prometheus.Desc, v float64, labels ...string) {
	ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
}

// histogram sends a histogram of values that are multiples of unit.
func (ch sender) histogram(d *prometheus.Desc, h *hist.Snapshot, unit float64, bounds []float64, labels ...string) {
	buckets := make(map[float64]uint64, len(bounds))
	for _, b := range bounds {
		buckets[b] = h.CountBelow(uint64(math.Round(b / unit)))
	}
	ch <- prometheus.MustNewConstHistogram(d, h.Count, float64(h.Sum)*unit, buckets, labels...)
}
