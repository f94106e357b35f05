// Package status is what a router tells of itself: the types that the control
// socket serves as JSON, and their tables for people.
//
// Whoever runs the router takes a Snapshot. Each view (Ports, Engine, Latency,
// Drops) is a plain function of it, and so are the metrics, so that all of them
// agree.
package status

import (
	"github.com/warproute/warproute/control/guard"
	"github.com/warproute/warproute/dataplane"
	"github.com/warproute/warproute/internal/hist"
	"github.com/warproute/warproute/ipsec/gateway"
)

// Snapshot is a router at one moment; counts are since its start.
type Snapshot struct {
	Ports  []PortState // in the order of Stats.Ports
	Engine EngineState
	Stats  *dataplane.Stats
	Config ConfigState

	SAs     []SA
	Traffic []gateway.Traffic // of what the SAs are generations of

	Guard *guard.State // nil: the router is no gateway

	RoutesIPv4, RoutesIPv6 int
	// Updates are the times that changes of routes and neighbours took from
	// netlink to the forwarding base, in nanoseconds; nil where nobody measures.
	Updates *hist.Snapshot
}

// PortState is what an interface and its sockets say of themselves.
type PortState struct {
	Name       string `json:"name"`
	Interface  string `json:"interface,omitempty"` // what the interface is called now, if it was renamed
	Index      int    `json:"index"`               // the kernel's number of the interface
	Mode       string `json:"mode"`                // zero-copy, native, generic, memory
	ModeReason string `json:"mode_reason"`         // why not a faster one; empty for the fastest
	Queues     int    `json:"queues"`
	MAC        string `json:"mac"`
	MTU        int    `json:"mtu"`
	Up         bool   `json:"up"`
	XDP        XDP    `json:"xdp"`
	Rings      Rings  `json:"rings"`
}

// XDP counts what a port's XDP program did with frames.
type XDP struct {
	ToSocket uint64            `json:"to_socket"`
	NoSocket uint64            `json:"no_socket"`         // dropped: their queue has no socket
	Refused  uint64            `json:"refused"`           // dropped: the kernel did not hand them to the socket
	Transit  map[string]uint64 `json:"transit,omitempty"` // dropped by a gateway, because Linux might forward them; by cause
	ToLinux  map[string]uint64 `json:"to_linux"`          // by cause
}

// Rings counts what the kernel did with the frames and descriptors of a port's
// sockets; all but the empty rings are losses.
type Rings struct {
	RxDropped     uint64 `json:"rx_dropped"`      // no frame to receive into, or too long for one
	RxRingFull    uint64 `json:"rx_ring_full"`    // the worker was too slow
	FillRingEmpty uint64 `json:"fill_ring_empty"` // the worker had not given frames in time
	TxRingEmpty   uint64 `json:"tx_ring_empty"`   // the kernel had nothing to send
	RxInvalid     uint64 `json:"rx_invalid"`      // descriptors that the kernel refused
	TxInvalid     uint64 `json:"tx_invalid"`
}
