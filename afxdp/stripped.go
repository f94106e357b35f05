package afxdp

import (
	"fmt"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/internal/netdev"
)

// NICs strip VLAN tags of received frames (`ethtool -K IFACE rxvlan on`), and so do senders on a veth. Some drivers
// report stripped tags as XDP metadata: mlx5_core, ice and veth, since Linux 6.8. On their ports, the program
// steer_stripped adds the tags to the frames again, so that workers see the frames as on the wire.
//
// Linux loads such a program for one device, invalidates it with the device, and has no metadata in generic mode. So a
// port has steer as well. Both programs use the same maps and variables.

// UnreadGeneric is why stripped VLAN tags are not read in generic mode.
const UnreadGeneric = "generic XDP has no metadata"

// WhyTagsUnread returns why stripped VLAN tags of an interface cannot be read in native mode, "" if they can be.
func WhyTagsUnread(ifindex int) string {
	if netdev.ReportsVLANTags(ifindex) {
		return ""
	}
	return "the driver does not report them as XDP metadata (mlx5_core, ice and veth do, since Linux 6.8)"
}

// LostTags returns the loss if VLAN tags of an interface may be stripped and are not read, with a hint. unread is why
// they are not read, "" if they are.
func LostTags(name string, d netdev.Driver, unread string) (loss, hint string) {
	const consequence = "; tagged packets are routed as untagged"
	switch {
	case unread == "":
		return "", ""
	case d.Name == "veth":
		return "the peer can strip VLAN tags before XDP, and they are not read: " + unread + consequence,
			"on the peer of " + name + ", if VLANs are used: sudo ethtool -K PEER txvlan off tx-vlan-stag-hw-insert off"
	case d.Flags&netdev.FlagRxVLAN != 0:
		return "the NIC strips VLAN tags before XDP, and they are not read: " + unread + consequence,
			"sudo ethtool -K " + name + " rxvlan off"
	}
	return "", ""
}

// TagsUnread returns why stripped VLAN tags of the port are not read, "" if they are.
func (p *Port) TagsUnread() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.program == nil {
		return errClosed.Error()
	}
	return p.program.unread
}

// LostTags is the function of that name for an open port.
func (p *Port) LostTags() (loss, hint string) {
	return LostTags(p.Name, netdev.DriverOf(p.Name), p.TagsUnread())
}

// readTags loads the program that reads stripped tags of a device, if its driver reports them in the mode. A kernel that
// refuses it leaves the port with the other program.
func (p *program) readTags(ifindex int, mode Mode) {
	p.ignoreTags(UnreadGeneric)
	if mode == Generic { // a link replaces its program by one with metadata, which would read beyond those of generic mode
		return
	}
	if p.unread = WhyTagsUnread(ifindex); p.unread != "" {
		return
	}
	if err := p.loadStripped(ifindex); err != nil {
		p.unread = err.Error()
	}
}

// ignoreTags closes the program that reads stripped tags.
func (p *program) ignoreTags(reason string) {
	if p.stripped != nil {
		_ = p.stripped.Close() // memory, which the end of the process frees
	}
	p.stripped, p.unread = nil, reason
}

// loadStripped loads the program that reads stripped tags of a device.
func (p *program) loadStripped(ifindex int) error {
	spec, err := loadSpec(p.Sockets.MaxEntries())
	if err != nil {
		return fmt.Errorf("load the XDP program that reads them: %w", err)
	}
	program := spec.Programs[steerProgSteerStripped]
	program.Ifindex = uint32(ifindex)
	program.Flags |= unix.BPF_F_XDP_DEV_BOUND_ONLY | p.flags
	opts := ebpf.CollectionOptions{MapReplacements: map[string]*ebpf.Map{
		steerMapSockets: p.Sockets, steerMapDecisions: p.Decisions, steerMapLocal4: p.Local4, steerMapLocal6: p.Local6,
		steerMapInUdp: p.InUdp, steerMapVlans: p.Vlans, steerMapMacs: p.Macs, sectionData: p.Data, sectionBSS: p.BSS,
	}}
	var loaded struct {
		Stripped *ebpf.Program `ebpf:"steer_stripped"`
	}
	if err := spec.LoadAndAssign(&loaded, &opts); err != nil {
		return fmt.Errorf("load the XDP program that reads them: %w", err)
	}
	p.stripped = loaded.Stripped
	return nil
}

// Maps with the variables.
const (
	sectionData = ".data"
	sectionBSS  = ".bss"
)
