package config

import "net/netip"

// IPsec configures the IPsec gateway.
type IPsec struct {
	Source   Source
	State    string // directory of sequence numbers, which persist across restarts
	MSSClamp bool   // clamp the MSS option of TCP SYNs to the tunnel MTU
	Fragment Fragment
	ICMP     ICMPErrors
	PathMTU  PathMTU
	// Interface is the name of the interface for tunnel traffic of the host; "" for none.
	Interface       string
	LinuxForwarding LinuxForwarding
	SAs             []SA
	Policies        []Policy // the first match applies
}

// Zero overwrites the keys with zeros. SA.Equal still works.
func (i *IPsec) Zero() {
	for _, a := range i.SAs {
		a.Key.Zero()
		a.AuthKey.Zero()
	}
}

// Source is the source of SAs and policies.
type Source string

const (
	SourceConfig Source = "config" // this configuration
	SourceXFRM   Source = "xfrm"   // the kernel, where a key daemon installs them
)

// Fragment selects the packet to fragment if it exceeds the tunnel MTU.
type Fragment string

const (
	FragmentBefore Fragment = "before" // the inner packet; its destination reassembles
	FragmentAfter  Fragment = "after"  // the outer packet; the peer reassembles
)

// ICMPErrors selects the policy check of ICMP errors (RFC 4301 section 6.2).
type ICMPErrors string

const (
	ICMPQuoted ICMPErrors = "quoted" // by the quoted packet if no policy matches their addresses
	ICMPStrict ICMPErrors = "strict" // from tunnels also by the quoted packet; into tunnels only from this router
)

// PathMTU enables path MTU discovery for tunnels by ICMP errors (RFC 4301 section 8.2).
type PathMTU string

const (
	PathMTULearn PathMTU = "learn"
	PathMTUOff   PathMTU = "off" // only the MTUs of ports and routes apply
)

// LinuxForwarding controls forwarding by Linux from and to the ports of a gateway. Linux does not
// apply the policies.
type LinuxForwarding string

const (
	LinuxForwardingDrop  LinuxForwarding = "drop"  // drop the packets, also after the router exits
	LinuxForwardingAllow LinuxForwarding = "allow" // as set by sysctl, which must be off if the configuration has policies
)

// SA is a security association (RFC 4301 section 4.1).
type SA struct {
	Name      string
	SPI       uint32
	Direction Direction
	Mode      SAMode
	Src, Dst  netip.Addr // outer addresses in tunnel mode, else those of the packets
	Suite     string     // strongSwan name
	// Key is the cipher key, followed by the salt. Load reads it from KeyFile, and AuthKey from
	// AuthKeyFile.
	Key, AuthKey         Key
	KeyFile, AuthKeyFile string // relative to the configuration file
	ESN                  bool   // extended sequence numbers
	ReplayWindow         int    // packets; 0 accepts duplicates
	Encap                Encap
	DF                   DF
	Lifetime             Lifetime
}

// Equal reports whether two SAs are equal, apart from the paths of their key files. It works after
// Zero.
func (a *SA) Equal(b *SA) bool {
	return a.Key.Equal(b.Key) && a.AuthKey.Equal(b.AuthKey) && a.withoutKeys() == b.withoutKeys()
}

func (a *SA) withoutKeys() SA {
	c := *a
	c.Key, c.AuthKey, c.KeyFile, c.AuthKeyFile = Key{}, Key{}, "", ""
	return c
}

// Direction is the direction of an SA or a policy, from the view of the router.
type Direction string

const (
	DirectionOut Direction = "out"
	DirectionIn  Direction = "in"
)

// SAMode is the mode of an SA.
type SAMode string

const (
	SATunnel    SAMode = "tunnel"    // protects IP packets inside new ones
	SATransport SAMode = "transport" // protects the payload of IP packets
)

// DF selects the DF bit of outer IPv4 headers.
type DF string

const (
	DFCopy  DF = "copy" // from the inner packet
	DFSet   DF = "set"
	DFClear DF = "clear"
)

// Encap is UDP encapsulation of ESP (RFC 3948). The zero value disables it.
type Encap struct{ SrcPort, DstPort uint16 }

// Lifetime limits the use of an SA: at Soft it is due for rekeying, at Hard it drops packets.
type Lifetime struct{ Soft, Hard Limits }

// Limits are the limits of a lifetime; 0 is no limit.
type Limits struct {
	Packets uint64
	Bytes   uint64 // of IP packets, before ESP adds to them
	Seconds uint64 // from the start of the SA
}

// Policy applies an action to matching packets. In tunnel mode it matches the inner packets.
// Policies are comparable with ==.
type Policy struct {
	Direction          Direction
	Src, Dst           netip.Prefix
	Protocol           uint8 // IP protocol; 0 is any
	SrcPorts, DstPorts PortRange
	Action             Action
	SA                 string // name of the SA for ActionProtect
}

// Action is the action of a policy.
type Action string

const (
	ActionProtect Action = "protect" // with an SA; inbound packets of no SA or another SA are dropped
	ActionBypass  Action = "bypass"  // forward in cleartext
	ActionDiscard Action = "discard"
)

// PortRange is an inclusive range of ports.
type PortRange struct{ First, Last uint16 }

// AnyPort matches all packets, also those without ports.
var AnyPort = PortRange{0, 1<<16 - 1}
