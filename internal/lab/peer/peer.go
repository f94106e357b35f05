// Package peer is an ESP peer that owes nothing to this project: Linux's own, in
// user-mode Linux, at the end of a veth pair, with keys given by hand.
//
// A test starts a peer once, in about two seconds. Configure then replaces all that
// it protects in about 50 ms, and takes hundreds of pairs at once in little more: let
// each case have addresses of its own, and configure them together. The addresses
// behind the peer answer pings and have a TCP echo (package echo).
//
// What is easily got wrong with Linux as a peer, and what is done here about it:
//
//   - Without the module drbg every cipher that makes its own IV is refused with
//     "Unable to initialize cryptographic operations". Start loads it.
//   - A tunnel's associations are for packets of the family outside, unless they have
//     the flag af-unspec. Configure sets it.
//   - ESP in UDP is taken only from a bound socket with the option UDP_ENCAP, of the
//     family outside. The peer has both. Over IPv6 the UDP checksum must be right.
//   - ESP in UDP is checked against the policies before it is unpacked, and so are the
//     messages by which IPv6 finds neighbours: between addresses that have transport
//     mode both would be refused. Configure lets them pass in clear.
//   - A policy of priority 0, which is ip-xfrm's default, goes before all others.
//   - What the peer sends in clear over TCP has its checksum left to hardware that is
//     not there, which ethtool cannot turn off: a router on a veth pair sees a partial
//     checksum. What ESP protects is whole, and so are pings.
package peer

import (
	"crypto/rand"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"

	"github.com/warproute/warproute/internal/lab"
	"github.com/warproute/warproute/internal/lab/echo"
	"github.com/warproute/warproute/internal/lab/guest"
)

// NATPort is where a peer takes and whence it sends ESP in UDP.
const NATPort = 4500

// NIC is a peer's network interface.
const NIC = "vec0"

// Config says where a peer is.
type Config struct {
	Namespace *lab.Namespace // in which Link is; both are left to the peer alone
	Link      string         // an end of a veth pair, without addresses
	Addresses []netip.Prefix // of the peer on that link
	Inner     []netip.Prefix // behind the peer's tunnels: all their addresses are the peer's
	Routes    []Route
}

// Route is one of a peer's routes.
type Route struct {
	Dst    netip.Prefix
	Via    netip.Addr // may be invalid where all that is sent there is encapsulated
	Source netip.Addr // that the peer's packets have; may be invalid
}

// Peer is a running peer.
type Peer struct {
	*guest.Guest
	dir     string // of the program
	service string
}

// Start boots a peer.
func Start(c Config) (*Peer, error) {
	p := &Peer{}
	if err := p.start(c); err != nil {
		p.Close()
		return nil, fmt.Errorf("start an ESP peer on %s: %w", c.Link, err)
	}
	return p, nil
}

func (p *Peer) start(c Config) (err error) {
	if p.dir, err = os.MkdirTemp("", "peer-"); err != nil {
		return err
	}
	p.service = filepath.Join(p.dir, "service")
	if err := guest.Build(p.service, "github.com/warproute/warproute/internal/lab/peer/service"); err != nil {
		return err
	}
	// Not the link's own, or the host's stack would take packets to the peer for its.
	mac := net.HardwareAddr{2, 0, 0, 0, 0, 0}
	rand.Read(mac[1:])
	if p.Guest, err = guest.StartUML(c.Namespace, guest.NIC{Link: c.Link, MAC: mac}); err != nil {
		return err
	}
	if _, err := p.Run("modprobe", append([]string{"-a"}, modules...)...); err != nil {
		return err
	}
	// All being loaded, looking for more would take seconds: for every name that a
	// suite might have a faster implementation by.
	if _, err := p.Run("sh", "-c", "cd /proc/sys; echo >kernel/modprobe; echo 1 >net/ipv6/ip_nonlocal_bind"); err != nil {
		return err
	}
	// What it sends in clear is no longer than a packet.
	if _, err := p.Run("ethtool", "-K", NIC, "tso", "off", "gso", "off", "gro", "off"); err != nil {
		return err
	}
	if err := p.addresses(c); err != nil {
		return err
	}
	return p.serve()
}

// serve starts the service and waits until it can be reached.
func (p *Peer) serve() error {
	_, err := p.Run("sh", "-c", fmt.Sprintf(`%s & until ss -Hltn sport = :%d | grep -q .; do kill -0 $! || exit; sleep 0.01; done`, p.service, echo.Port))
	return err
}

// The kernel would load most of these when it first needs them, in a second or two.
// But it has no seeded generator of random numbers without drbg, and refuses every
// cipher that makes its own IV: "unable to initialize cryptographic operations".
var modules = []string{
	"drbg", "sha512_generic", "seqiv", "echainiv", "hmac", "authenc", "authencesn", "cbc", "ctr", "ecb", "gcm", "ghash-generic",
	"chacha20poly1305", "chacha_generic", "poly1305_generic", "esp4", "esp6", "xfrm_user",
}

func (p *Peer) addresses(c Config) error {
	var b strings.Builder
	for _, a := range c.Addresses {
		fmt.Fprintf(&b, "addr add %v dev %s nodad\n", a, NIC)
	}
	for _, a := range c.Inner {
		fmt.Fprintf(&b, "addr add %v dev lo nodad\nroute replace local %v dev lo\n", a, a.Masked())
	}
	fmt.Fprintf(&b, "link set %s up\n", NIC)
	for _, r := range c.Routes {
		fmt.Fprintf(&b, "route add %v dev %s", r.Dst, NIC)
		if r.Via.IsValid() {
			fmt.Fprintf(&b, " via %v", r.Via)
		}
		if r.Source.IsValid() {
			fmt.Fprintf(&b, " src %v", r.Source)
		}
		b.WriteByte('\n')
	}
	return p.ip(b.String())
}

// ip has ip(8) run commands, a line each.
func (p *Peer) ip(commands string) error {
	_, err := p.Feed(commands, "ip", "-batch", "-")
	return err
}

// Configure replaces all associations and policies by those of the pairs.
func (p *Peer) Configure(pairs ...Pair) error {
	var b strings.Builder
	b.WriteString("xfrm state flush\nxfrm policy flush")
	b.WriteString(bypass)
	for i, pair := range pairs {
		pair.commands(&b, i+1)
	}
	if err := p.ip(b.String()); err != nil {
		return fmt.Errorf("configure the ESP peer: %w", err)
	}
	return nil
}

// bypass is what passes in clear between addresses that have an association in
// transport mode: the search for neighbours, and UDP that has ESP in it, which is
// checked before it is unpacked.
const bypass = `
xfrm policy add src ::/0 dst ::/0 proto ipv6-icmp type 135 dir in priority 1
xfrm policy add src ::/0 dst ::/0 proto ipv6-icmp type 135 dir out priority 1
xfrm policy add src ::/0 dst ::/0 proto ipv6-icmp type 136 dir in priority 1
xfrm policy add src ::/0 dst ::/0 proto ipv6-icmp type 136 dir out priority 1
xfrm policy add src 0.0.0.0/0 dst 0.0.0.0/0 proto udp dport 4500 dir in priority 1
xfrm policy add src ::/0 dst ::/0 proto udp dport 4500 dir in priority 1
`

// Close ends the peer. It may be called on nil, and again.
func (p *Peer) Close() error {
	if p == nil {
		return nil
	}
	if p.Guest != nil {
		p.Guest.Close()
	}
	return os.RemoveAll(p.dir)
}
