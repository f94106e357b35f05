// Package ipsec protects IP packets by ESP (RFC 4303): security associations, and
// the packets that they turn into others, in place in the memory of a frame.
//
// It has no packet flow of its own: an engine finds the association, by policy or by
// SAD.Lookup, and calls Encapsulate or Decapsulate. Workers share associations
// without locks; numbers that may never repeat are taken by compare-and-swap.
package ipsec

import (
	"errors"
	"fmt"
	"net/netip"
	"time"
)

// Direction of an association: ESP has one for each.
type Direction uint8

const (
	Out Direction = iota
	In
)

func (d Direction) String() string { return name(uint8(d), "out", "in") }

// Mode says what is protected: a whole packet in a new one, or a packet's payload.
type Mode uint8

const (
	Tunnel Mode = iota
	Transport
)

func (m Mode) String() string { return name(uint8(m), "tunnel", "transport") }

// DFPolicy says how the don't-fragment bit of an outer IPv4 header is made (RFC 4301
// section 8.1). An inner IPv6 packet counts as one that has it set.
type DFPolicy uint8

const (
	CopyDF DFPolicy = iota
	SetDF
	ClearDF
)

func (p DFPolicy) String() string { return name(uint8(p), "copy", "set", "clear") }

func name(i uint8, names ...string) string {
	if int(i) < len(names) {
		return names[i]
	}
	return fmt.Sprintf("unknown (%d)", i)
}

// Encap is UDP encapsulation (RFC 3948), with the ports of packets sent. A receiver
// takes any source port: a NAT may choose a new one.
type Encap struct{ SrcPort, DstPort uint16 }

// Limits bound the use of an association's keys. Zero is no limit. Bytes are those
// of IP packets, before encapsulation and after decapsulation.
type Limits struct {
	Packets, Bytes uint64
	Age            time.Duration // by the Clock
}

// Lifetime of an association: when to have it replaced, and when to refuse packets.
type Lifetime struct{ Soft, Hard Limits }

// Config describes an association.
type Config struct {
	Name      string // for people; may be empty
	SPI       uint32
	Direction Direction
	Mode      Mode
	// Src and Dst are the outer addresses of a tunnel. In transport mode packets keep
	// theirs; Dst then serves to find the association of a received packet.
	Src, Dst netip.Addr
	Suite    string // by suite.ByName
	Key      []byte // of the cipher, with the salt behind it; not kept
	AuthKey  []byte // not kept
	ESN      bool   // extended sequence numbers
	// ReplayWindow is how many sequence numbers, the highest included, an inbound
	// association tells new from old: up to MaxReplayWindow. With 0 it accepts every
	// number, also again, which Linux permits and which only a peer that cannot
	// count (with a static key) should need; not with ESN, whose upper half is
	// inferred from the window.
	ReplayWindow int
	Encap        *Encap // nil: ESP directly in IP
	Bundle       uint32 // by which policies name the association, and those that replace it; the caller's
	DF           DFPolicy
	Lifetime     Lifetime
	Clock        *Clock // is needed by limits of age
	// Nonces says which nonces an outbound association uses; nil: those of the process.
	Nonces *Nonces
}

// MaxReplayWindow is that of Linux.
const MaxReplayWindow = 4096

// validate returns every fault of c but those of suite and keys.
func (c *Config) validate() error {
	var faults []error
	wrong := func(format string, a ...any) { faults = append(faults, fmt.Errorf(format, a...)) }
	if c.SPI < 256 {
		wrong("SPI %#x: those below 0x100 are reserved (RFC 4303 section 2.1)", c.SPI)
	}
	if c.Direction > In {
		wrong("direction is %v: want out or in", c.Direction)
	}
	if c.Mode > Transport {
		wrong("mode is %v: want tunnel or transport", c.Mode)
	}
	if c.DF > ClearDF {
		wrong("don't-fragment policy is %v: want copy, set or clear", c.DF)
	}
	for _, a := range []struct {
		what string
		addr netip.Addr
	}{{"source", c.Src}, {"destination", c.Dst}} {
		if !a.addr.IsValid() || a.addr.Is4In6() || a.addr.Zone() != "" || a.addr.IsMulticast() {
			wrong("%s address %q: want a plain IPv4 or IPv6 unicast address", a.what, a.addr)
		}
	}
	if c.Src.Is4() != c.Dst.Is4() {
		wrong("source %v and destination %v are of two families", c.Src, c.Dst)
	}
	if c.Dst.IsValid() && c.Dst.IsUnspecified() {
		wrong("destination %v: want one address, by which packets are sent and found", c.Dst)
	}
	if c.ReplayWindow < 0 || c.ReplayWindow > MaxReplayWindow {
		wrong("replay window %d: want 0 to %d packets", c.ReplayWindow, MaxReplayWindow)
	}
	if c.ESN && c.Direction == In && c.ReplayWindow == 0 {
		wrong("extended sequence numbers need a replay window: set one, of 64 at least")
	}
	if c.Encap != nil && (c.Encap.SrcPort == 0 || c.Encap.DstPort == 0) {
		wrong("UDP encapsulation from port %d to port %d: want two ports, usually %d", c.Encap.SrcPort, c.Encap.DstPort, PortNATT)
	}
	if c.Encap != nil && c.Direction == In && c.Encap.DstPort != PortNATT {
		wrong("UDP encapsulation to port %d: ESP in UDP is received at port %d alone", c.Encap.DstPort, PortNATT)
	}
	for _, l := range []struct {
		what       string
		soft, hard uint64
	}{
		{"packets", c.Lifetime.Soft.Packets, c.Lifetime.Hard.Packets},
		{"bytes", c.Lifetime.Soft.Bytes, c.Lifetime.Hard.Bytes},
		{"age", uint64(c.Lifetime.Soft.Age), uint64(c.Lifetime.Hard.Age)},
	} {
		if l.hard != 0 && l.soft > l.hard {
			wrong("soft lifetime in %s, %d, is beyond the hard one, %d", l.what, l.soft, l.hard)
		}
	}
	if c.Lifetime.Soft.Age < 0 || c.Lifetime.Hard.Age < 0 {
		wrong("an age is negative")
	}
	if c.Clock == nil && (c.Lifetime.Soft.Age != 0 || c.Lifetime.Hard.Age != 0) {
		wrong("a lifetime in age needs a Clock")
	}
	return errors.Join(faults...)
}
