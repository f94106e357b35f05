// Package ipsec implements ESP (RFC 4303): security associations (SAs) that encrypt and decrypt
// IP packets in place, in the memory of a frame.
//
// The package has no packet loop: an engine finds the SA, by policy or by SAD.Lookup, and calls
// Encapsulate or Decapsulate. Workers share SAs without locks; sequence numbers are taken by
// compare-and-swap.
package ipsec

import (
	"errors"
	"fmt"
	"net/netip"
	"time"
)

// Direction of an SA. ESP needs one SA per direction.
type Direction uint8

const (
	Out Direction = iota
	In
)

func (d Direction) String() string { return name(uint8(d), "out", "in") }

// Mode is tunnel mode (a whole packet inside a new one) or transport mode (a packet's payload).
type Mode uint8

const (
	Tunnel Mode = iota
	Transport
)

func (m Mode) String() string { return name(uint8(m), "tunnel", "transport") }

// DFPolicy selects the DF bit of an outer IPv4 header (RFC 4301 section 8.1). An inner IPv6
// packet counts as one with DF set.
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

// Encap is UDP encapsulation (RFC 3948), with the ports of transmitted packets. A receiver accepts
// any source port, since a NAT may change it.
type Encap struct{ SrcPort, DstPort uint16 }

// Limits bound the use of an SA's keys. Zero is no limit. Bytes are those of IP packets before
// encapsulation and after decapsulation.
type Limits struct {
	Packets, Bytes uint64
	Age            time.Duration // by the Clock
}

// Lifetime of an SA: the soft limits request a replacement, the hard limits refuse packets.
type Lifetime struct{ Soft, Hard Limits }

// Config describes an SA.
type Config struct {
	Name      string // for people; may be empty
	SPI       uint32
	Direction Direction
	Mode      Mode
	// Src and Dst are the outer addresses of a tunnel. In transport mode packets keep their own
	// addresses, and Dst finds the SA of a received packet.
	Src, Dst netip.Addr
	Suite    string // by suite.ByName
	Key      []byte // of the cipher, with the salt behind it; not kept
	AuthKey  []byte // not kept
	ESN      bool   // extended sequence numbers
	// ReplayWindow is the number of sequence numbers, the highest included, that an inbound SA
	// checks for duplicates: up to MaxReplayWindow. 0 accepts duplicates, as in Linux, for peers
	// with static keys that restart their numbers. ESN needs a window, because the upper half of
	// a number is inferred from it.
	ReplayWindow int
	Encap        *Encap // nil: ESP directly in IP
	Tunnel       uint32 // number of the tunnel that policies name; assigned by the caller
	IfID         uint32 // of the XFRM interface that packets of the SA pass, 0 for none
	DF           DFPolicy
	Lifetime     Lifetime
	Clock        *Clock // required by limits of age
	// Nonces are the nonces of an outbound SA; nil selects those of the process.
	Nonces *Nonces
}

// MaxReplayWindow is the same as in Linux.
const MaxReplayWindow = 4096

// validate returns every mistake of c, except in suite and keys.
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
	if c.IfID != 0 && c.Mode != Tunnel {
		wrong("transport mode with if_id %d: packets of an XFRM interface need tunnel mode", c.IfID)
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
