// Package peer is an ESP peer that owes nothing to this project: Linux's own, in
// user-mode Linux, at the end of a veth pair, with keys given by hand.
//
// A test starts a peer once, in about two seconds, and configures it for one case
// after the other, in about a twentieth of a second each. Behind the peer's tunnels
// are addresses of its own, which answer pings and have a TCP echo.
package peer

import (
	"crypto/rand"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/warproute/warproute/internal/lab"
	"github.com/warproute/warproute/internal/lab/guest"
)

// Ports of a peer.
const (
	EchoPort = 7    // TCP: sends back what arrives
	NATPort  = 4500 // UDP: ESP
)

// NIC is a peer's network interface.
const NIC = "vec0"

// Config says where a peer is.
type Config struct {
	Namespace *lab.Namespace // in which Link is; both are left to the peer alone
	Link      string         // an end of a veth pair, without addresses
	Addresses []netip.Prefix // of the peer on that link
	Inner     []netip.Addr   // of the peer, behind its tunnels
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
	dir     string
	service string // the program
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
	if err := p.addresses(c); err != nil {
		return err
	}
	_, err = p.Run("sh", "-c", p.service+" &")
	return err
}

// The kernel would load most of these when it first needs them. But it has no
// seeded generator of random numbers without drbg, and refuses, without saying so,
// every cipher that makes its own IV.
var modules = []string{"drbg", "sha512_generic", "seqiv", "echainiv", "esp4", "esp6", "xfrm_user"}

func (p *Peer) addresses(c Config) error {
	var b strings.Builder
	for _, a := range c.Addresses {
		fmt.Fprintf(&b, "addr add %v dev %s nodad\n", a, NIC)
	}
	for _, a := range c.Inner {
		fmt.Fprintf(&b, "addr add %v dev lo nodad\n", host(a))
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
	b.WriteString("xfrm state flush\nxfrm policy flush\n")
	// Neighbours are found in clear, although in transport mode their addresses
	// are those of protected packets.
	for _, kind := range []int{135, 136} {
		for _, dir := range []string{"in", "out"} {
			fmt.Fprintf(&b, "xfrm policy add src ::/0 dst ::/0 proto ipv6-icmp type %d dir %s priority 1\n", kind, dir)
		}
	}
	for i, pair := range pairs {
		pair.commands(&b, i+1)
	}
	if err := p.ip(b.String()); err != nil {
		return fmt.Errorf("configure the ESP peer: %w", err)
	}
	return nil
}

// Stats returns the counters of /proc/net/xfrm_stat that are not zero, such as
// XfrmInStateProtoError.
func (p *Peer) Stats() (map[string]int, error) {
	text, err := p.Run("cat", "/proc/net/xfrm_stat")
	if err != nil {
		return nil, err
	}
	stats := map[string]int{}
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) != 2 {
			return nil, fmt.Errorf("read a peer's statistics: the line %q is not a name and a number", line)
		}
		n, err := strconv.Atoi(f[1])
		if err != nil {
			return nil, fmt.Errorf("read a peer's statistics: %w", err)
		}
		if n != 0 {
			stats[f[0]] = n
		}
	}
	return stats, nil
}

// Exchange has the peer exchange n bytes with another's TCP echo.
func (p *Peer) Exchange(with netip.AddrPort, n int) error {
	_, err := p.Run(p.service, with.String(), strconv.Itoa(n))
	return err
}

// Close ends the peer.
func (p *Peer) Close() error {
	if p.Guest != nil {
		p.Guest.Close()
	}
	return os.RemoveAll(p.dir)
}
