// Package handover is the protocol by which a running router hands its ports and SAs over to the process that
// replaces it, over a pair of Unix sockets.
//
//	old                                  new
//	Offer: ports, interfaces      ──►    load, mirror, register memory
//	                              ◄──    Ready
//	(stops its workers)
//	State: SAs, BPF links         ──►    bind, start workers, attach
//	                              ◄──    Forwarding
//	(closes the rest)
//	Released                      ──►    serve the control socket and metrics
//
// The new process sends Failed instead of Ready or Forwarding if it cannot continue. An end of the connection
// means the same. Messages are JSON objects, so that versions may add fields.
package handover

import (
	"github.com/warproute/warproute/ipsec"
)

// Protocol is the version of this protocol. It changes when an older process would misunderstand a newer one.
const Protocol = 1

// Kinds of messages.
const (
	KindOffer      = "offer"
	KindReady      = "ready"
	KindState      = "state"
	KindForwarding = "forwarding"
	KindReleased   = "released"
	KindFailed     = "failed"
)

// Message is a message of either process. Kind says which field is set.
type Message struct {
	Kind  string `json:"kind"`
	Offer *Offer `json:"offer,omitempty"`
	Ready *Ready `json:"ready,omitempty"`
	State *State `json:"state,omitempty"`
	Error string `json:"error,omitempty"` // of Failed
}

// Offer describes what the new process prepares for. The files of the message are the queues of Tunnel, then
// those of Exit.
type Offer struct {
	Protocol int       `json:"protocol"`
	Version  string    `json:"version"` // of the old process
	Ports    []Port    `json:"ports"`
	Gateway  string    `json:"gateway,omitempty"` // source of SAs, "" without IPsec
	StateDir string    `json:"state_dir,omitempty"`
	Tunnel   Interface `json:"tunnel"`
	Exit     Interface `json:"exit"`
}

// Port is an open port.
type Port struct {
	Interface string `json:"interface"`
	Mode      string `json:"mode"`
	Reason    string `json:"reason,omitempty"` // of the mode
	Added     int    `json:"added,omitempty"`  // queues that the driver has added for XDP
}

// Interface is a TUN interface; Name is "" for none.
type Interface struct {
	Name   string `json:"name,omitempty"`
	Queues int    `json:"queues,omitempty"`
}

// Ready is the answer of a new process that waits for the ports.
type Ready struct {
	Version string `json:"version"`
}

// State is the state that the new process continues. The files of the message are the BPF links of Links.
type State struct {
	Links []Link `json:"links"`
	// Exact is set if SAs has the numbers of all SAs. Otherwise the new process skips numbers as after a crash.
	Exact      bool                   `json:"exact"`
	NonceBase  uint64                 `json:"nonce_base,omitempty"` // reserved for the new process
	NonceBases []uint64               `json:"bases,omitempty"`      // nonce bases to keep away from
	SAs        map[string]ipsec.State `json:"sas,omitempty"`
}

// Link is the BPF link of a port.
type Link struct {
	Interface string `json:"interface"`
	Index     int    `json:"index"`
}
