package status

import (
	"fmt"
	"io"
	"net/netip"
	"time"

	"github.com/warproute/warproute/control/mirror"
)

// Trace explains the processing of one packet: an element of `warproute trace`.
type Trace struct {
	Time         time.Time `json:"time"`          // receive time of the first packet of the chunk
	Port         string    `json:"port"`          // ingress port
	Queue        int       `json:"queue"`         // receive queue
	Worker       int       `json:"worker"`        // worker number
	ChunkPackets int       `json:"chunk_packets"` // packets in the chunk
	Engine       string    `json:"engine"`        // current engine: cpu, gpu
	Packet       string    `json:"packet"`        // summary of the packet headers
	Bytes        int       `json:"bytes"`         // length of the received frame, bytes

	IPsec       *TraceIPsec       `json:"ipsec,omitempty"`      // policies and SAs of the packet
	Destination netip.Addr        `json:"destination,omitzero"` // looked-up address; absent if the packet was dropped before the lookup
	Route       *mirror.RouteInfo `json:"route,omitempty"`      // route of the destination
	RouteText   string            `json:"route_text,omitempty"` // route in the format of `ip route`
	NextHop     *TraceNextHop     `json:"next_hop,omitempty"`   // next hop of the route

	Verdict     string `json:"verdict"`               // forward, to linux, drop, queue, fragment, reassemble
	Egress      string `json:"egress,omitempty"`      // egress port
	SentSize    int    `json:"sent_bytes,omitempty"`  // length of the sent frame, bytes
	Reason      string `json:"reason,omitempty"`      // drop reason
	Description string `json:"description,omitempty"` // description of the drop reason or verdict
	Hint        string `json:"hint,omitempty"`        // suggested fix
	Changed     string `json:"changed,omitempty"`     // current decision, if the forwarding table has changed since

	Times TraceTimes `json:"times"` // latency of the chunk by stage
}

// TraceIPsec names the policies and SAs that processed the packet.
type TraceIPsec struct {
	DecryptedBy  string `json:"decrypted_by,omitempty"`    // name of the decrypting SA
	DecryptedSPI uint32 `json:"decrypted_spi,omitempty"`   // SPI of the decrypting SA
	EncryptedBy  string `json:"encrypted_by,omitempty"`    // name of the encrypting SA
	EncryptedSPI uint32 `json:"encrypted_spi,omitempty"`   // SPI of the encrypting SA
	Inbound      string `json:"inbound_policy,omitempty"`  // matching inbound policy
	Outbound     string `json:"outbound_policy,omitempty"` // matching outbound policy
}

// TraceNextHop is the next hop of the route.
type TraceNextHop struct {
	ID        uint32               `json:"id"`                  // index in the forwarding table
	Kind      string               `json:"kind"`                // kind: forward, local, blackhole, ...
	Members   int                  `json:"members,omitempty"`   // size of the ECMP group
	Bucket    uint32               `json:"bucket,omitempty"`    // bucket of the flow in the ECMP group
	Adjacency uint32               `json:"adjacency,omitempty"` // index of the adjacency
	Neighbor  *mirror.NeighborInfo `json:"neighbor,omitempty"`  // neighbor of the adjacency
}

// TraceTimes is the time of the packet's chunk in each stage, in nanoseconds.
type TraceTimes struct {
	Wait   int64 `json:"wait_ns"`   // first packet received until chunk submitted, ns
	Engine int64 `json:"engine_ns"` // chunk submitted until results polled, ns
	Order  int64 `json:"order_ns"`  // results polled until all earlier chunks transmitted, ns
	Tx     int64 `json:"tx_ns"`     // earlier chunks transmitted until the kernel is notified, ns
	Total  int64 `json:"total_ns"`  // first packet received until the kernel is notified, ns
}

// WriteTrace writes one paragraph.
func WriteTrace(w io.Writer, t Trace) error {
	if _, err := fmt.Fprintf(w, "%s  %s queue %d, worker %d, chunk of %d, engine %s\n",
		t.Time.Format("15:04:05.000000000"), t.Port, t.Queue, t.Worker, t.ChunkPackets, t.Engine); err != nil {
		return err
	}
	lines := newTable(w)
	lines.row("  packet", fmt.Sprintf("%s, %d bytes", t.Packet, t.Bytes))
	if t.IPsec != nil {
		t.IPsec.rows(lines)
	}
	if t.Destination.IsValid() {
		lines.row("  destination", t.Destination)
		route := t.RouteText
		if route == "" {
			route = "none"
		}
		lines.row("  route", route)
	}
	if t.NextHop != nil {
		t.NextHop.rows(lines)
	}
	lines.row("  verdict", t.verdict())
	if t.Hint != "" {
		lines.row("", t.Hint)
	}
	if t.Changed != "" {
		lines.row("  changed", t.Changed)
	}
	ns := func(n int64) string { return Nanoseconds(uint64(max(n, 0))) }
	lines.row("  times", fmt.Sprintf("wait %s, engine %s, order %s, tx %s; total %s",
		ns(t.Times.Wait), ns(t.Times.Engine), ns(t.Times.Order), ns(t.Times.Tx), ns(t.Times.Total)))
	return lines.flush()
}

func (t *Trace) verdict() string {
	switch t.Verdict {
	case "forward":
		return fmt.Sprintf("forwarded by %s, %d bytes", t.Egress, t.SentSize)
	case "drop":
		return fmt.Sprintf("dropped, %s: %s", t.Reason, t.Description)
	}
	return t.Description
}

func (i *TraceIPsec) rows(t *table) {
	if i.DecryptedBy != "" {
		t.row("  decrypted", fmt.Sprintf("by %s, SPI %#x", i.DecryptedBy, i.DecryptedSPI))
	}
	for _, p := range []struct{ name, text string }{{"  inbound policy", i.Inbound}, {"  outbound policy", i.Outbound}} {
		if p.text != "" {
			t.row(p.name, p.text)
		}
	}
	if i.EncryptedBy != "" {
		t.row("  encrypted", fmt.Sprintf("by %s, SPI %#x", i.EncryptedBy, i.EncryptedSPI))
	}
}

func (n *TraceNextHop) rows(t *table) {
	text := fmt.Sprintf("%d, %s", n.ID, n.Kind)
	if n.Members > 0 {
		text = fmt.Sprintf("%d, ECMP group of %d, bucket %d", n.ID, n.Members, n.Bucket)
	}
	t.row("  next hop", text)
	if n.Neighbor == nil {
		return
	}
	mac := n.Neighbor.MAC
	if mac == "" {
		mac = "unresolved"
	}
	t.row("  neighbor", fmt.Sprintf("%v on %s, %s, %s (adjacency %d)", n.Neighbor.Address, n.Neighbor.Dev, mac, n.Neighbor.State, n.Adjacency))
}
