// Package status defines the views of a running router: their JSON, which the control socket
// serves, and their text tables.
//
// Each view (Ports, EngineOf, Latencies, Drops) is a function of a Snapshot. The metrics are
// computed from the same Snapshot, so all views agree.
package status

import (
	"github.com/warproute/warproute/control/guard"
	"github.com/warproute/warproute/control/mirror"
	"github.com/warproute/warproute/dataplane"
	"github.com/warproute/warproute/internal/hist"
	"github.com/warproute/warproute/ipsec/gateway"
)

// Snapshot is the state of a router at one moment. Counters are since its start.
type Snapshot struct {
	Ports  []PortState // in the order of Stats.Ports
	Engine EngineState
	Stats  *dataplane.Stats
	Config ConfigState

	SAs     []SA
	Traffic []gateway.Traffic // by SA name, across rekeys

	Guard *guard.State // nil if the router is not a gateway

	RoutesIPv4, RoutesIPv6 int // routes in the forwarding table
	VRFs                   []mirror.VRFInfo
	// Updates are the times from netlink event to updated forwarding table, in nanoseconds;
	// nil if not measured.
	Updates *hist.Snapshot
}

// PortState is the state of a port's interface and AF_XDP sockets.
type PortState struct {
	Name       string `json:"name"`                // configured name
	Interface  string `json:"interface,omitempty"` // current name of a renamed interface
	Index      int    `json:"index"`               // interface index
	Parent     string `json:"parent,omitempty"`    // of a VLAN: the port that it is on, whose packets and bytes include its own
	VLAN       string `json:"vlan,omitempty"`      // of a VLAN: its tag, as "802.1Q 7"
	Bond       string `json:"bond,omitempty"`      // of a member of a bond: the bond, which has the router's packets of it
	Mode       string `json:"mode"`                // XDP mode: zero-copy, native, generic, memory
	ModeReason string `json:"mode_reason"`         // reason for not using a faster mode; "" for the fastest
	LostTags   string `json:"lost_tags,omitempty"` // VLAN tags may be stripped before XDP and are not read: the reason and the effect; set once a port has had a VLAN
	Queues     int    `json:"queues"`              // number of receive queues
	MAC        string `json:"mac"`                 // MAC address
	MTU        int    `json:"mtu"`                 // MTU of the interface, bytes
	Up         bool   `json:"up"`                  // true if the link is up
	Removed    int    `json:"removed,omitempty"`   // the element is the sum of this number of removed ports
	XDP        XDP    `json:"xdp"`                 // frames by action of the XDP program
	Rings      Rings  `json:"rings"`               // statistics of the AF_XDP rings
	Link       *Link  `json:"link,omitempty"`      // frames that the interface lost; absent for VLANs, bonds and removed ports

	Members []Member `json:"members,omitempty"` // of a bond
}

// Logical reports whether the port is a VLAN or a bond, whose frames are those of other ports, too.
func (p *PortState) Logical() bool { return p.Parent != "" || len(p.Members) > 0 }

// XDP counts frames by the action of a port's XDP program.
type XDP struct {
	ToSocket uint64            `json:"to_socket"`         // frames redirected to AF_XDP sockets
	NoSocket uint64            `json:"no_socket"`         // frames dropped because the queue has no AF_XDP socket
	Refused  uint64            `json:"refused"`           // frames dropped because the kernel refused the redirect to the socket
	Transit  map[string]uint64 `json:"transit,omitempty"` // frames dropped by a gateway because Linux could forward them, by cause
	ToLinux  map[string]uint64 `json:"to_linux"`          // frames passed to Linux, by cause
}

// Link counts the frames that an interface lost, since it was created, by the counters of its driver and of Linux (`ip -s link`).
// Some drivers count what the XDP program dropped, too.
type Link struct {
	RxDropped uint64 `json:"rx_dropped"` // received frames dropped before the XDP program, for want of a buffer or by the driver, or behind it by Linux
	RxErrors  uint64 `json:"rx_errors"`  // received frames with errors
	TxDropped uint64 `json:"tx_dropped"` // frames to transmit that were dropped
	TxErrors  uint64 `json:"tx_errors"`  // frames to transmit that failed
}

// Rings are the statistics of a port's AF_XDP sockets. All except the empty rings are losses.
type Rings struct {
	RxDropped     uint64 `json:"rx_dropped"`      // frames dropped because no receive buffer was available or the frame was too long
	RxRingFull    uint64 `json:"rx_ring_full"`    // frames dropped because the receive ring was full (worker too slow)
	FillRingEmpty uint64 `json:"fill_ring_empty"` // times that the kernel found the fill ring empty
	TxRingEmpty   uint64 `json:"tx_ring_empty"`   // times that the kernel found the transmit ring empty
	RxInvalid     uint64 `json:"rx_invalid"`      // receive descriptors rejected by the kernel
	TxInvalid     uint64 `json:"tx_invalid"`      // transmit descriptors rejected by the kernel
}
