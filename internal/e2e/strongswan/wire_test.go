package strongswan

import (
	"encoding/binary"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// watch counts frames on the wire between the gateways.
type watch struct {
	t    *testing.T
	mu   sync.Mutex
	seen map[string]int
}

const protected = "ESP" // kind of the tunnel's packets

// aside are the other permitted kinds.
var aside = []string{"ARP", "IKE", "ICMPv6 of the link"}

func (n *network) watch() *watch {
	n.t.Helper()
	w := &watch{t: n.t, seen: map[string]int{}}
	stop, err := n.wire.Listen("far", func(frame []byte, _ bool) { w.note(kind(frame)) })
	n.must(err)
	n.t.Cleanup(stop)
	return w
}

func (w *watch) note(kind string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen[kind]++
}

// kind returns the kind of a frame.
func kind(frame []byte) string {
	const ethernet, ipv4, ipv6 = 14, 20, 40
	at := func(offset int) uint16 { return binary.BigEndian.Uint16(frame[offset:]) }
	switch size := len(frame) - ethernet; {
	case size < ipv4:
	case at(12) == unix.ETH_P_ARP:
		return "ARP"
	case at(12) == unix.ETH_P_IP:
		p := frame[ethernet:]
		switch p[9] {
		case unix.IPPROTO_ESP:
			return protected
		case unix.IPPROTO_UDP:
			const dport, payload = ethernet + ipv4 + 2, ethernet + ipv4 + 8
			const isakmp, natt, marker = 500, 4500, 0 // the non-ESP marker in place of an SPI
			if size >= ipv4+12 && (at(dport) == isakmp || at(dport) == natt && at(payload)|at(payload+2) == marker) {
				return "IKE"
			}
		}
		return fmt.Sprintf("IPv4 of protocol %d from %v to %v", p[9], netip.AddrFrom4([4]byte(p[12:])), netip.AddrFrom4([4]byte(p[16:])))
	case at(12) == unix.ETH_P_IPV6 && size > ipv6:
		p := frame[ethernet:]
		src, dst := netip.AddrFrom16([16]byte(p[8:])), netip.AddrFrom16([16]byte(p[24:]))
		next := p[6]
		if next == unix.IPPROTO_HOPOPTS { // as MLD has
			next = p[ipv6]
		}
		const ofLink = 255 // hop limit of neighbor discovery
		if next == unix.IPPROTO_ICMPV6 && (p[7] == ofLink || dst.IsLinkLocalMulticast()) {
			return "ICMPv6 of the link"
		}
		return fmt.Sprintf("IPv6 of protocol %d from %v to %v", next, src, dst)
	}
	return fmt.Sprintf("% x", frame)
}

// check checks the frames since the last call: none in plaintext, and ESP if there is a tunnel.
func (w *watch) check(tunnel bool) {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	var text []string
	for _, kind := range slices.Sorted(maps.Keys(w.seen)) {
		text = append(text, fmt.Sprintf("%d %s", w.seen[kind], kind))
		if kind != protected && !slices.Contains(aside, kind) {
			w.t.Errorf("on the wire: %d %s", w.seen[kind], kind)
		}
	}
	if esp := w.seen[protected] > 0; esp != tunnel {
		w.t.Errorf("ESP on the wire: %v, want %v", esp, tunnel)
	}
	w.t.Logf("on the wire: %s", strings.Join(text, ", "))
	clear(w.seen)
}
