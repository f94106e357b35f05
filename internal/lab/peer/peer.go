// Package peer is an independent ESP peer: Linux's ESP in user-mode Linux, at the end of a veth pair, with
// static keys.
//
// A test starts a peer once, in about two seconds. Configure replaces all SAs and policies in about
// 50 ms, with hundreds of pairs in little more: give each case its own addresses and configure all
// cases together. The addresses behind the peer answer pings and have a TCP echo (package echo).
//
// The package handles these pitfalls of Linux as a peer:
//
//   - Without the module drbg, ciphers that generate IVs are refused with "Unable to initialize
//     cryptographic operations". Start loads it.
//   - A tunnel's SA accepts only packets of the outer family without the flag af-unspec. Configure
//     sets it.
//   - ESP in UDP needs a bound socket of the outer family with the option UDP_ENCAP. The peer has both.
//     Over IPv6 the UDP checksum must be correct.
//   - Policies apply to ESP in UDP before decapsulation, and to neighbor discovery. Between addresses
//     with transport mode both would be dropped. Configure adds bypass policies.
//   - A policy of priority 0, the default of ip-xfrm, precedes all others.
//   - Plaintext TCP of the peer has an unfinished checksum that ethtool cannot turn off. Encrypted
//     packets and pings have complete checksums.
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

// NATPort is the peer's port for ESP in UDP.
const NATPort = 4500

// NIC is a peer's network interface.
const NIC = "vec0"

// Config is the location of a peer.
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
	Via    netip.Addr // may be invalid if all packets to Dst are encapsulated
	Source netip.Addr // of the peer's packets; may be invalid
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
	// Not the link's own address, or the host's stack would accept packets to the peer.
	mac := net.HardwareAddr{2, 0, 0, 0, 0, 0}
	rand.Read(mac[1:])
	if p.Guest, err = guest.StartUML(c.Namespace, guest.NIC{Link: c.Link, MAC: mac}); err != nil {
		return err
	}
	if _, err := p.Run("modprobe", append([]string{"-a"}, modules...)...); err != nil {
		return err
	}
	// All modules are loaded. Searching for faster implementations of suites would take seconds.
	if _, err := p.Run("sh", "-c", "cd /proc/sys; echo >kernel/modprobe; echo 1 >net/ipv6/ip_nonlocal_bind"); err != nil {
		return err
	}
	// Plaintext TCP segments fit a packet.
	if _, err := p.Run("ethtool", "-K", NIC, "tso", "off", "gso", "off", "gro", "off"); err != nil {
		return err
	}
	if err := p.addresses(c); err != nil {
		return err
	}
	return p.serve()
}

// serve starts the echo service and waits until it answers.
func (p *Peer) serve() error {
	_, err := p.Run("sh", "-c", fmt.Sprintf(`%s & until ss -Hltn sport = :%d | grep -q .; do kill -0 $! || exit; sleep 0.01; done`, p.service, echo.Port))
	return err
}

// The kernel would load most of these modules on demand, in a second or two, but not drbg.
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

// ip runs commands of ip(8), one per line.
func (p *Peer) ip(commands string) error {
	_, err := p.Feed(commands, "ip", "-batch", "-")
	return err
}

// Configure replaces all SAs and policies by those of the pairs.
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

// bypass is the bypass policies between addresses with transport mode: neighbor discovery, and ESP
// in UDP, to which policies apply before decapsulation.
const bypass = `
xfrm policy add src ::/0 dst ::/0 proto ipv6-icmp type 135 dir in priority 1
xfrm policy add src ::/0 dst ::/0 proto ipv6-icmp type 135 dir out priority 1
xfrm policy add src ::/0 dst ::/0 proto ipv6-icmp type 136 dir in priority 1
xfrm policy add src ::/0 dst ::/0 proto ipv6-icmp type 136 dir out priority 1
xfrm policy add src 0.0.0.0/0 dst 0.0.0.0/0 proto udp dport 4500 dir in priority 1
xfrm policy add src ::/0 dst ::/0 proto udp dport 4500 dir in priority 1
`

// Close ends the peer. It may be called on nil and repeatedly.
func (p *Peer) Close() error {
	if p == nil {
		return nil
	}
	if p.Guest != nil {
		p.Guest.Close()
	}
	return os.RemoveAll(p.dir)
}
