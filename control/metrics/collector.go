package metrics

import (
	"math"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/control/status"
	"github.com/warproute/warproute/dataplane"
	"github.com/warproute/warproute/internal/hist"
	"github.com/warproute/warproute/ipsec"
)

// desc returns the description of a metric with the prefix warproute_.
func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("warproute_"+name, help, labels, nil)
}

var (
	buildInfo = desc("build_info", "Always 1; the labels are the version of the running router.", "version", "revision", "goversion")

	rxPackets   = desc("port_rx_packets_total", "Packets received by workers from a port.", "port")
	rxBytes     = desc("port_rx_bytes_total", "Bytes received by workers from a port, including Ethernet headers, excluding FCS.", "port")
	txPackets   = desc("port_tx_packets_total", "Packets passed by workers to a port for transmission.", "port")
	exitPackets = desc("exit_packets_total", "Packets that a port received and Linux got to forward them by interfaces that are not ports.", "port")
	exitBytes   = desc("exit_bytes_total", "Bytes of these packets, including Ethernet headers.", "port")
	txBytes     = desc("port_tx_bytes_total", "Bytes passed by workers to a port for transmission, including Ethernet headers, excluding FCS.", "port")
	portUp      = desc("port_up", "Whether the link of the port is up (1) or down (0).", "port")
	bondMember  = desc("bond_member_active", "Whether the router transmits flows of a bond on a member (1) or not (0).", "port", "member")
	drops       = desc("dropped_packets_total", "Packets received from a port and dropped by the router, by reason.", "reason", "port")

	batchPackets  = desc("batch_packets", "Packets per chunk that an engine processed.")
	lanePackets   = desc("lane_packets_total", "Packets processed in a lane.", "lane")
	laneMissed    = desc("lane_missed_packets_total", "Packets of a lane that were sent after its deadline, in whole chunks.", "lane")
	laneQueued    = desc("lane_queued_packets", "Received packets of a lane that no chunk has yet.", "lane")
	laneSeconds   = desc("lane_seconds", "Time of the chunks of a lane, from the first packet received to the kernel notified.", "lane")
	batchStage    = desc("batch_stage_seconds", "Time of chunks in each stage (wait, engine, order, tx) and in total, from the first packet received to the kernel notified.", "stage")
	neighborQueue = desc("neighbor_queue_packets", "Packets queued for neighbors whose MAC address is not resolved, and for SAs.")

	saPackets   = desc("ipsec_sa_packets_total", "Packets that a security association encrypted or decrypted, including previous associations of the same name.", "sa", "direction")
	saBytes     = desc("ipsec_sa_bytes_total", "Bytes that a security association encrypted or decrypted, as Linux counts them, including previous associations of the same name.", "sa", "direction")
	saReplays   = desc("ipsec_sa_replays_total", "Packets that the replay window of a security association dropped, including previous associations of the same name.", "sa")
	saICV       = desc("ipsec_sa_icv_failures_total", "Packets of a security association dropped because the ICV does not match, including previous associations of the same name.", "sa")
	ipsecErrors = desc("ipsec_errors_total", "Packets dropped by IPsec, by the error name of Linux XFRM statistics.", "error")

	fibRoutes = desc("fib_routes", "Routes in the forwarding table, including host routes of neighbors.", "family")
	vrfRoutes = desc("vrf_routes", "Routes in the table of a VRF, including host routes of neighbors.", "vrf", "family")
	vrfPorts  = desc("vrf_ports", "Ports in a VRF.", "vrf")
	fibUpdate = desc("fib_update_seconds", "Time from receiving route and neighbor changes by netlink to updating the forwarding table.")

	xdpToLinux     = desc("xdp_to_linux_packets_total", "Frames that the XDP program passed to Linux, by cause.", "port", "cause")
	xdpNoSocket    = desc("xdp_no_socket_packets_total", "Frames dropped because they arrived on a queue without an AF_XDP socket.", "port")
	xdpRefused     = desc("xdp_redirect_refused_packets_total", "Frames dropped because the kernel refused to redirect them to the AF_XDP socket; updated with up to 2 s delay.", "port")
	xdpTransit     = desc("xdp_transit_packets_total", "Frames that the XDP program of a gateway dropped because Linux could have forwarded them past the IPsec policies, by cause.", "port", "cause")
	xskRxDropped   = desc("xsk_rx_dropped_total", "Frames dropped by the kernel because no receive buffer was available or the frame was too long.", "port")
	xskRxFull      = desc("xsk_rx_ring_full_total", "Frames dropped by the kernel because an AF_XDP receive ring was full.", "port")
	xskFillEmpty   = desc("xsk_fill_ring_empty_total", "Times that the kernel found an AF_XDP fill ring empty.", "port")
	xskTxEmpty     = desc("xsk_tx_ring_empty_total", "Times that the kernel found an AF_XDP transmit ring empty.", "port")
	linkDropped    = desc("link_dropped_frames_total", "Frames that the interface dropped since it was created, by the counters of its driver and of Linux: outside the router, but some drivers count frames that the XDP program dropped.", "port", "direction")
	linkErrors     = desc("link_errors_total", "Frames that the interface received or transmitted with errors since it was created, by the counters of its driver.", "port", "direction")
	xskDescInvalid = desc("xsk_invalid_descriptors_total", "AF_XDP descriptors rejected by the kernel.", "port", "direction")
)

// Histogram bucket bounds: 1, 2 and 5 per decade from 1 µs to 1 s, and powers of two of packets.
var (
	timeBounds   = []float64{1e-6, 2e-6, 5e-6, 1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 2e-2, 5e-2, 0.1, 0.2, 0.5, 1}
	packetBounds = []float64{1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096}
)

const nanosecond = 1e-9 // in seconds

// collector converts a snapshot to metrics at each scrape.
type collector struct {
	build    Build
	snapshot func() *status.Snapshot
}

func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		buildInfo, rxPackets, rxBytes, txPackets, txBytes, exitPackets, exitBytes, portUp, bondMember, drops,
		batchPackets, batchStage, lanePackets, laneMissed, laneQueued, laneSeconds, engineChunks, gpuFailovers, neighborQueue, workerBusy, framesTotal, framesFree, framesWithheld, saPackets, saBytes, saReplays, saICV, ipsecErrors, fibRoutes, vrfRoutes, vrfPorts, fibUpdate,
		configReloads, configLoaded, configTried,
		linuxForwarding, guardActive, xdpToLinux, xdpNoSocket, xdpRefused, xdpTransit, xskRxDropped, xskRxFull, xskFillEmpty, xskTxEmpty, xskDescInvalid, linkDropped, linkErrors,
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
	for i := range s.Stats.Lanes {
		send.lane(&s.Stats.Lanes[i])
	}
	send.engine(s)
	send.workers(s.Stats)
	send.config(s)
	send.guard(s.Guard)
	send.gauge(neighborQueue, float64(s.Stats.Waiting))
	send.ipsec(s)
	send.gauge(fibRoutes, float64(s.RoutesIPv4), "ipv4")
	send.gauge(fibRoutes, float64(s.RoutesIPv6), "ipv6")
	for _, v := range s.VRFs {
		send.gauge(vrfRoutes, float64(v.RoutesIPv4), v.Name, "ipv4")
		send.gauge(vrfRoutes, float64(v.RoutesIPv6), v.Name, "ipv6")
		send.gauge(vrfPorts, float64(v.Ports), v.Name)
	}
	if s.Updates != nil {
		send.histogram(fibUpdate, s.Updates, nanosecond, timeBounds)
	}
}

// sender sends the metrics of one scrape.
type sender chan<- prometheus.Metric

// lane sends the metrics of a lane.
func (ch sender) lane(l *dataplane.LaneStats) {
	ch.counter(lanePackets, l.Packets, l.Name)
	ch.counter(laneMissed, l.Missed, l.Name)
	ch.gauge(laneQueued, float64(l.Queued), l.Name)
	ch.histogram(laneSeconds, &l.Total, nanosecond, timeBounds, l.Name)
}

// port sends the metrics of a port.
func (ch sender) port(p *status.PortState, c *dataplane.PortStats) {
	up := 0.0
	if p.Up {
		up = 1
	}
	if p.Removed == 0 {
		ch.gauge(portUp, up, p.Name)
	}
	for _, m := range p.Members {
		active := 0.0
		if m.State == status.MemberActive {
			active = 1
		}
		ch.gauge(bondMember, active, p.Name, m.Name)
	}
	ch.counter(rxPackets, c.RxPackets, p.Name)
	ch.counter(rxBytes, c.RxBytes, p.Name)
	ch.counter(txPackets, c.TxPackets, p.Name)
	ch.counter(txBytes, c.TxBytes, p.Name)
	ch.counter(exitPackets, c.ExitPackets, p.Name)
	ch.counter(exitBytes, c.ExitBytes, p.Name)
	for reason, n := range c.Drops { // with zeros, so that rates have a start; not for each of thousands of VLANs
		if n > 0 || p.Parent == "" {
			ch.counter(drops, n, batch.Reason(reason).String(), p.Name)
		}
	}
	if p.Logical() {
		return // XDP and rings are those of the physical ports
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
	if l := p.Link; l != nil {
		ch.counter(linkDropped, l.RxDropped, p.Name, "rx")
		ch.counter(linkDropped, l.TxDropped, p.Name, "tx")
		ch.counter(linkErrors, l.RxErrors, p.Name, "rx")
		ch.counter(linkErrors, l.TxErrors, p.Name, "tx")
	}
}

// ipsec sends packets, replays and ICV failures by SA name, and drops by XFRM error name.
func (ch sender) ipsec(s *status.Snapshot) {
	for _, t := range s.Traffic { // by name: SPIs change at each rekey
		ch.counter(saPackets, t.Packets, t.Tunnel, t.Direction.String())
		ch.counter(saBytes, t.Bytes, t.Tunnel, t.Direction.String())
		if t.Direction == ipsec.In {
			ch.counter(saReplays, t.Replays, t.Tunnel)
			ch.counter(saICV, t.ICVFailures, t.Tunnel)
		}
	}
	for e := ipsec.OK + 1; e < ipsec.Errors; e++ {
		reason, sum := batch.XfrmInHdrError+batch.Reason(e-ipsec.InHdrError), uint64(0)
		switch e {
		case ipsec.PolicyRefused:
			reason = batch.XfrmPolicyRefused
		case ipsec.OutNoPols:
			reason = batch.XfrmOutNoPols
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

// seconds sends a counter of time.
func (ch sender) seconds(d *prometheus.Desc, t time.Duration, labels ...string) {
	ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, t.Seconds(), labels...)
}

func (ch sender) gauge(d *prometheus.Desc, v float64, labels ...string) {
	ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
}

// histogram sends a histogram of values in multiples of unit.
func (ch sender) histogram(d *prometheus.Desc, h *hist.Snapshot, unit float64, bounds []float64, labels ...string) {
	buckets := make(map[float64]uint64, len(bounds))
	for _, b := range bounds {
		buckets[b] = h.CountBelow(uint64(math.Round(b / unit)))
	}
	ch <- prometheus.MustNewConstHistogram(d, h.Count, float64(h.Sum)*unit, buckets, labels...)
}
