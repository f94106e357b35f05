package peer

import (
	"fmt"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
)

// Stats returns the nonzero counters of /proc/net/xfrm_stat, such as XfrmInStateProtoError.
func (p *Peer) Stats() (map[string]int, error) {
	text, err := p.Run("cat", "/proc/net/xfrm_stat")
	if err != nil {
		return nil, err
	}
	stats := map[string]int{}
	for line := range strings.Lines(text) {
		var name string
		var n int
		if _, err := fmt.Sscan(line, &name, &n); err != nil {
			return nil, fmt.Errorf("read the ESP peer's statistics: %q: %w", line, err)
		}
		if n != 0 {
			stats[name] = n
		}
	}
	return stats, nil
}

// state matches the SPI and the packet count of an SA in the output of `ip -s xfrm state`.
var state = regexp.MustCompile(`(?s)proto esp spi 0x([0-9a-f]{8})\(.*?lifetime current:\s+\d+\(bytes\), (\d+)\(packets\)`)

// Packets returns the packet counts of all SAs by SPI.
func (p *Peer) Packets() (map[uint32]int, error) {
	text, err := p.Run("ip", "-s", "xfrm", "state")
	if err != nil {
		return nil, err
	}
	packets := map[uint32]int{}
	for _, m := range state.FindAllStringSubmatch(text, -1) {
		spi, _ := strconv.ParseUint(m[1], 16, 32) // as the expression has it
		n, err := strconv.Atoi(m[2])
		if err != nil {
			return nil, fmt.Errorf("read the packets of the ESP peer's state %#x: %w", spi, err)
		}
		packets[uint32(spi)] = n
	}
	return packets, nil
}

// Flow is a pair of addresses.
type Flow struct{ From, To netip.Addr }

func (f Flow) String() string { return fmt.Sprintf("%v,%v", f.From, f.To) }

// Exchange exchanges n bytes with TCP echo services from the peer, on one flow after another. The error
// names every failed flow.
func (p *Peer) Exchange(n int, flows ...Flow) error {
	input := strconv.Itoa(n)
	for _, f := range flows {
		input += " " + f.String()
	}
	_, err := p.Feed(input, "xargs", p.service)
	return err
}
