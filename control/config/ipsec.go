package config

import "net/netip"

// IPsec says what is to be protected, and how.
type IPsec struct {
	Source   Source
	State    string // directory of sequence numbers that are kept over restarts
	MSSClamp bool   // lower the MSS that TCP connections announce to what fits through a tunnel
	Fragment Fragment
	ICMP     ICMPErrors
	PathMTU  PathMTU
	// Interface is the name of one that Linux itself reaches tunnels by; "" for none.
	Interface string
	// LinuxForwarding says what becomes of packets that Linux would forward from or to the ports.
	LinuxForwarding LinuxForwarding
	SAs             []SA
	Policies        []Policy // the first that matches a packet decides
}

// Zero overwrites the keys. They still compare as before.
func (i *IPsec) Zero() {
	for _, a := range i.SAs {
		a.Key.Zero()
		a.AuthKey.Zero()
	}
}

// Source is where security associations and policies come from.
type Source string

const (
	SourceConfig Source = "config" // the configuration
	SourceXFRM   Source = "xfrm"   // Linux, where a key daemon puts them
)

// Fragment says where a packet that is too large for its tunnel is split.
type Fragment string

const (
	FragmentBefore Fragment = "before" // the inner packet: the peer does not reassemble
	FragmentAfter  Fragment = "after"  // the outer one: the inner destination does not notice
)

// ICMPErrors says how ICMP errors about protected packets are judged (RFC 4301 section 6.2).
type ICMPErrors string

const (
	ICMPQuoted ICMPErrors = "quoted" // by the packet that they quote where no policy selects their addresses
	ICMPStrict ICMPErrors = "strict" // those out of tunnels also by what they quote; into tunnels only the router's own
)

// PathMTU says whether the MTU of a tunnel's path is learned from ICMP errors (RFC 4301 section 8.2).
type PathMTU string

const (
	PathMTULearn PathMTU = "learn"
	PathMTUOff   PathMTU = "off" // the ports' and routes' MTUs count alone
)

// LinuxForwarding says what becomes of packets that Linux would forward from or to the
// ports of a gateway: past the policies, which it does not know.
type LinuxForwarding string

const (
	LinuxForwardingDrop  LinuxForwarding = "drop"  // dropped, also after the router has ended
	LinuxForwardingAllow LinuxForwarding = "allow" // Linux's settings decide; with policies of the configuration they must be off
)

// SA describes a security association.
type SA struct {
	Name      string
	SPI       uint32
	Direction Direction
	Mode      SAMode
	Src, Dst  netip.Addr // outer addresses of a tunnel, else the packets'
	Suite     string     // by its strongSwan name
	// Key is of the cipher, with the salt behind it. Load fills it in from KeyFile,
	// and AuthKey from AuthKeyFile.
	Key, AuthKey         Key
	KeyFile, AuthKeyFile string // relative to the configuration file
	ESN                  bool   // extended sequence numbers
	ReplayWindow         int    // of packets received; 0 accepts repeated ones
	Encap                Encap
	DF                   DF
	Lifetime             Lifetime
}

// Equal reports whether b describes the same association as a, wherever its keys
// were read from. It holds after Zero.
func (a *SA) Equal(b *SA) bool {
	return a.Key.Equal(b.Key) && a.AuthKey.Equal(b.AuthKey) && a.withoutKeys() == b.withoutKeys()
}

func (a *SA) withoutKeys() SA {
	c := *a
	c.Key, c.AuthKey, c.KeyFile, c.AuthKeyFile = Key{}, Key{}, "", ""
	return c
}

// Direction of an association or a policy, as the router sees it.
type Direction string

const (
	DirectionOut Direction = "out"
	DirectionIn  Direction = "in"
)

// SAMode is what an association protects.
type SAMode string

const (
	SATunnel    SAMode = "tunnel"    // a whole packet, in a new one
	SATransport SAMode = "transport" // what a packet carries
)

// DF says how the don't-fragment bit of a tunnel's IPv4 header is made.
type DF string

const (
	DFCopy  DF = "copy" // as in the inner packet
	DFSet   DF = "set"
	DFClear DF = "clear"
)

// Encap has the ports of UDP encapsulation. The zero Encap is none.
type Encap struct{ SrcPort, DstPort uint16 }

// Lifetime says when an association is to be replaced, and when it refuses packets.
type Lifetime struct{ Soft, Hard Limits }

// Limits bound the use of an association. 0 is no limit.
type Limits struct {
	Packets uint64
	Bytes   uint64 // of IP packets, without what the association adds
	Seconds uint64 // from its start
}

// Policy says what becomes of the packets that it describes: those inside, where
// there is a tunnel. Policies compare by ==.
type Policy struct {
	Direction          Direction
	Src, Dst           netip.Prefix
	Protocol           uint8 // IP protocol; 0 is any
	SrcPorts, DstPorts PortRange
	Action             Action
	SA                 string // the name of an association, for ActionProtect
}

// Action is what becomes of a packet.
type Action string

const (
	ActionProtect Action = "protect" // by an association; a packet received in another way is dropped
	ActionBypass  Action = "bypass"  // in clear
	ActionDiscard Action = "discard"
)

// PortRange has both ends in it.
type PortRange struct{ First, Last uint16 }

// AnyPort also has packets without ports in it.
var AnyPort = PortRange{0, 1<<16 - 1}
