// Package capture writes packets of the running router as pcapng, for tshark and
// Wireshark: ports are interfaces, directions are flags, and why a packet was dropped is
// its comment.
package capture

import (
	"fmt"
	"io"
	"math"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/dataplane"
)

// Writer writes records of a tap.
type Writer struct {
	ng    *pcapgo.NgWriter
	ports []string
	epoch time.Time // when batch.Clock was zero
	start time.Time
}

// NewWriter begins a file with an interface for each port, in the order of their numbers.
// filter is what the file says of how its packets were chosen.
func NewWriter(w io.Writer, ports []string, snap int, filter string) (*Writer, error) {
	now := time.Now()
	c := &Writer{ports: ports, start: now, epoch: now.Add(-batch.Clock())}
	options := pcapgo.DefaultNgWriterOptions
	options.SectionInfo.Application = "warproute capture"
	for i, name := range ports {
		port := pcapgo.NgInterface{Name: name, Filter: filter, LinkType: layers.LinkTypeEthernet, SnapLength: uint32(snap), TimestampResolution: 9}
		var err error
		if i == 0 {
			c.ng, err = pcapgo.NewNgWriterInterface(w, port, options)
		} else {
			_, err = c.ng.AddInterface(port)
		}
		if err != nil {
			return nil, err
		}
	}
	return c, c.ng.Flush()
}

// Write writes a packet.
func (c *Writer) Write(r *dataplane.Record) error {
	options := pcapgo.NgPacketOptions{Flags: &pcapgo.NgEpbFlags{Direction: pcapgo.NgEpbFlagDirectionInbound}}
	if r.Point == dataplane.Sent {
		options.Flags.Direction = pcapgo.NgEpbFlagDirectionOutbound
	}
	if text := c.comment(r); text != "" {
		options.Comments = []string{text}
	}
	return c.ng.WritePacketWithOptions(gopacket.CaptureInfo{
		Timestamp: c.epoch.Add(r.Time), CaptureLength: len(r.Data), Length: r.Len, InterfaceIndex: int(r.Port),
	}, r.Data, options)
}

// comment is what there is to say of a packet beyond that it passed.
func (c *Writer) comment(r *dataplane.Record) string {
	switch {
	case r.Point == dataplane.Dropped && r.Inside:
		return fmt.Sprintf("%v: %s (the packet as IPsec left it, which had no link addresses)", r.Reason, r.Reason.Sentence())
	case r.Point == dataplane.Dropped:
		return fmt.Sprintf("%v: %s", r.Reason, r.Reason.Sentence())
	case r.Point == dataplane.Sent && r.Marks&batch.Own != 0:
		return "made by this router, about a packet received on " + c.ports[r.Ingress]
	}
	return ""
}

// Flush hands on what was written.
func (c *Writer) Flush() error { return c.ng.Flush() }

// End writes how many packets of each port were chosen, and how many of them were missed
// because whoever reads was too slow.
func (c *Writer) End(counts func(port int) (taken, missed uint64)) error {
	for i := range c.ports {
		taken, missed := counts(i)
		stats := pcapgo.NgInterfaceStatistics{
			LastUpdate: time.Now(), StartTime: c.start, EndTime: time.Now(), PacketsReceived: taken + missed, PacketsDropped: missed,
		}
		if err := c.ng.WriteInterfaceStats(i, stats); err != nil {
			return err
		}
	}
	return c.ng.Flush()
}

// MaxSnap stands for whole frames.
const MaxSnap = math.MaxUint16
