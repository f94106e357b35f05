package status

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// Port is a port with its counts: an element of `show ports`.
type Port struct {
	PortState
	RxPackets uint64 `json:"rx_packets"`
	RxBytes   uint64 `json:"rx_bytes"`
	TxPackets uint64 `json:"tx_packets"`
	TxBytes   uint64 `json:"tx_bytes"`
	Dropped   uint64 `json:"dropped"` // of what it received; `show drops` has the reasons
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

// WritePorts writes a table of ports, and below it what deserves a look.
func WritePorts(w io.Writer, ports []Port) error {
	t := newTable(w, "PORT", "STATE", "MODE", "QUEUES", "MAC", "MTU", "RX PACKETS", "RX BYTES", "TX PACKETS", "TX BYTES", "DROPPED", "TO LINUX")
	for _, p := range ports {
		var toLinux uint64
		for _, n := range p.XDP.ToLinux {
			toLinux += n
		}
		t.row(p.Name, upDown(p.Up), p.Mode, p.Queues, p.MAC, p.MTU, p.RxPackets, p.RxBytes, p.TxPackets, p.TxBytes, p.Dropped, toLinux)
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

// notes are the things about a port that a table has no room for.
func (p *Port) notes() (notes []string) {
	if p.Interface != "" {
		notes = append(notes, fmt.Sprintf("its interface is called %s now; the port keeps the name of the configuration", p.Interface))
	}
	if p.ModeReason != "" {
		notes = append(notes, fmt.Sprintf("%s mode, because %s", p.Mode, p.ModeReason))
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
		{p.XDP.NoSocket, "dropped, arrived on a queue without a socket"},
		{p.XDP.Refused, "dropped, the kernel did not hand them to the socket"},
		{transit, "dropped, because Linux might have forwarded them past the policies (warproute show drops)"},
		{p.Rings.RxDropped, "dropped, no memory to receive into, or too long"},
		{p.Rings.RxRingFull, "dropped, receive ring full because the worker is too slow"},
		{p.Rings.RxInvalid, "receive descriptors that the kernel refused"},
		{p.Rings.TxInvalid, "transmit descriptors that the kernel refused"},
	} {
		if loss.n > 0 {
			notes = append(notes, fmt.Sprintf("%s: %d", loss.what, loss.n))
		}
	}
	return notes
}

func upDown(up bool) string {
	if up {
		return "up"
	}
	return "down"
}
