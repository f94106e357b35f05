package status

import (
	"fmt"
	"io"
	"net/netip"
	"time"

	"github.com/warproute/warproute/control/mirror"
)

// Trace is the way of one packet through the router, as `warproute trace` tells it.
type Trace struct {
	Time         time.Time `json:"time"` // its chunk was begun
	Port         string    `json:"port"` // that received it
	Queue        int       `json:"queue"`
	Worker       int       `json:"worker"`
	ChunkPackets int       `json:"chunk_packets"`
	Engine       string    `json:"engine"`
	Packet       string    `json:"packet"` // in words
	Bytes        int       `json:"bytes"`  // of the frame, as it was received

	IPsec       *TraceIPsec       `json:"ipsec,omitempty"`
	Destination netip.Addr        `json:"destination,omitzero"` // that was looked up; none if the packet did not come that far
	Route       *mirror.RouteInfo `json:"route,omitempty"`
	RouteText   string            `json:"route_text,omitempty"` // as `ip route` prints it
	NextHop     *TraceNextHop     `json:"next_hop,omitempty"`

	Verdict  string `json:"verdict"` // forward, drop, hold, cut, collect
	Egress   string `json:"egress,omitempty"`
	SentSize int    `json:"sent_bytes,omitempty"`
	Reason   string `json:"reason,omitempty"` // of a drop
	Sentence string `json:"sentence,omitempty"`
	Mend     string `json:"mend,omitempty"`
	Changed  string `json:"changed,omitempty"` // what the forwarding base says of it now, if that is something else

	Times TraceTimes `json:"times"`
}

// TraceIPsec is what policies and associations did with the packet.
type TraceIPsec struct {
	Opened    string `json:"opened,omitempty"` // by this association
	OpenedSPI uint32 `json:"opened_spi,omitempty"`
	Sealed    string `json:"sealed,omitempty"`
	SealedSPI uint32 `json:"sealed_spi,omitempty"`
	Inbound   string `json:"inbound,omitempty"` // the policy that decided
	Outbound  string `json:"outbound,omitempty"`
}

// TraceNextHop is what the route leads to.
type TraceNextHop struct {
	ID        uint32               `json:"id"` // in the forwarding base
	Kind      string               `json:"kind"`
	Members   int                  `json:"members,omitempty"`   // of a group,
	Bucket    uint32               `json:"bucket,omitempty"`    // and where in it the flow is
	Adjacency uint32               `json:"adjacency,omitempty"` // its number
	Neighbor  *mirror.NeighborInfo `json:"neighbor,omitempty"`
}

// TraceTimes are how long the packet's chunk took, in nanoseconds.
type TraceTimes struct {
	Wait   int64 `json:"wait_ns"`
	Engine int64 `json:"engine_ns"`
	Order  int64 `json:"order_ns"`
	Tx     int64 `json:"tx_ns"`
	Total  int64 `json:"total_ns"`
}

// WriteTrace writes a paragraph.
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
	if t.Mend != "" {
		lines.row("", t.Mend)
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
		return fmt.Sprintf("dropped as %s: %s", t.Reason, t.Sentence)
	}
	return t.Sentence
}

func (i *TraceIPsec) rows(t *table) {
	if i.Opened != "" {
		t.row("  opened", fmt.Sprintf("by %s, SPI %#x", i.Opened, i.OpenedSPI))
	}
	for _, p := range []struct{ name, text string }{{"  policy in", i.Inbound}, {"  policy out", i.Outbound}} {
		if p.text != "" {
			t.row(p.name, p.text)
		}
	}
	if i.Sealed != "" {
		t.row("  sealed", fmt.Sprintf("by %s, SPI %#x", i.Sealed, i.SealedSPI))
	}
}

func (n *TraceNextHop) rows(t *table) {
	text := fmt.Sprintf("%d, %s", n.ID, n.Kind)
	if n.Members > 0 {
		text = fmt.Sprintf("%d, a group of %d, bucket %d", n.ID, n.Members, n.Bucket)
	}
	t.row("  next hop", text)
	if n.Neighbor == nil {
		return
	}
	mac := n.Neighbor.MAC
	if mac == "" {
		mac = "not resolved"
	}
	t.row("  neighbour", fmt.Sprintf("%v on %s, %s, %s (adjacency %d)", n.Neighbor.Address, n.Neighbor.Dev, mac, n.Neighbor.State, n.Adjacency))
}
