package status

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// Port is a port with its counters: an element of `show ports`.
type Port struct {
	PortState
	RxPackets uint64 `json:"rx_packets"`      // packets received by workers
	RxBytes   uint64 `json:"rx_bytes"`        // bytes received by workers, without FCS
	TxPackets uint64 `json:"tx_packets"`      // packets passed to the port for transmission
	TxBytes   uint64 `json:"tx_bytes"`        // bytes passed to the port for transmission, without FCS
	Dropped   uint64 `json:"dropped_packets"` // received packets that the router dropped; `show drops` lists the reasons
}

// Ports lists the ports of a snapshot.
func Ports(s *Snapshot) []Port {
	ports := make([]Port, len(s.Ports))
	for i, state := range s.Ports {
		c := &s.Stats.Ports[i]
		ports[i] = Port{
			PortState: state,
			RxPackets: c.RxPackets, RxBytes: c.RxBytes,
			TxPackets: c.TxPackets, TxBytes: c.TxBytes,
			Dropped: c.Dropped(),
		}
	}
	return ports
}

// WritePorts writes a table of ports, then notes on losses and modes.
func WritePorts(w io.Writer, ports []Port) error {
	t := newTable(w, "PORT", "STATE", "MODE", "QUEUES", "MAC", "MTU", "RX PACKETS", "RX BYTES", "TX PACKETS", "TX BYTES", "DROPPED", "TO LINUX")
	for _, p := range ports {
		var toLinux uint64
		for _, n := range p.XDP.ToLinux {
			toLinux += n
		}
		state := upDown(p.Up)
		if p.Removed > 0 {
			state = "removed"
		}
		t.row(p.Name, state, p.Mode, p.Queues, p.MAC, p.MTU, p.RxPackets, p.RxBytes, p.TxPackets, p.TxBytes, p.Dropped, toLinux)
	}
	if err := t.flush(); err != nil {
		return err
	}
	for _, p := range ports {
		for _, note := range p.notes() {
			if _, err := fmt.Fprintf(w, "%s: %s\n", p.Name, note); err != nil {
				return err
			}
		}
	}
	return nil
}

// notes returns renames, the reason for the XDP mode, and losses.
func (p *Port) notes() (notes []string) {
	if p.Interface != "" {
		notes = append(notes, fmt.Sprintf("the interface was renamed to %s; the port keeps its configured name", p.Interface))
	}
	if len(p.Members) > 0 {
		notes = append(notes, "bond of "+membersText(p.Members))
	}
	if p.Bond != "" {
		notes = append(notes, "member of "+p.Bond)
	}
	if p.ModeReason != "" {
		notes = append(notes, fmt.Sprintf("%s mode: %s", p.Mode, p.ModeReason))
	}
	if p.LostTags != "" {
		notes = append(notes, p.LostTags)
	}
	var causes []string
	for _, cause := range slices.Sorted(maps.Keys(p.XDP.ToLinux)) {
		if n := p.XDP.ToLinux[cause]; n > 0 {
			causes = append(causes, fmt.Sprintf("%s %d", cause, n))
		}
	}
	if len(causes) > 0 {
		notes = append(notes, "to Linux: "+strings.Join(causes, ", "))
	}
	var transit uint64
	for _, n := range p.XDP.Transit {
		transit += n
	}
	for _, loss := range []struct {
		n    uint64
		what string
	}{
		{p.XDP.NoSocket, "dropped, queue without an AF_XDP socket"},
		{p.XDP.Refused, "dropped, redirect to the AF_XDP socket refused"},
		{transit, "dropped, Linux could have forwarded them past the IPsec policies (warproute show drops)"},
		{p.Rings.RxDropped, "dropped, no receive buffer or frame too long"},
		{p.Rings.RxRingFull, "dropped, receive ring full (worker too slow)"},
		{p.Rings.RxInvalid, "receive descriptors rejected by the kernel"},
		{p.Rings.TxInvalid, "transmit descriptors rejected by the kernel"},
	} {
		if loss.n > 0 {
			notes = append(notes, fmt.Sprintf("%s: %d", loss.what, loss.n))
		}
	}
	if l := p.Link; l != nil && *l != (Link{}) {
		notes = append(notes, fmt.Sprintf("dropped by the driver or Linux since the interface exists (ip -s link): rx %d, rx errors %d, tx %d, tx errors %d",
			l.RxDropped, l.RxErrors, l.TxDropped, l.TxErrors))
	}
	return notes
}

func upDown(up bool) string {
	if up {
		return "up"
	}
	return "down"
}
