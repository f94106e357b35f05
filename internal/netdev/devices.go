package netdev

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"iter"
	"slices"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Devices returns all devices of the namespace, sorted by index, without their drivers.
func Devices() ([]Device, error) {
	messages, err := retry(func() ([][]byte, error) {
		const skipStats = 8 // RTEXT_FILTER_SKIP_STATS
		r := nl.NewNetlinkRequest(unix.RTM_GETLINK, unix.NLM_F_DUMP)
		r.AddData(nl.NewIfInfomsg(unix.AF_UNSPEC))
		r.AddData(nl.NewRtAttr(unix.IFLA_EXT_MASK, nl.Uint32Attr(skipStats)))
		return r.Execute(unix.NETLINK_ROUTE, unix.RTM_NEWLINK)
	})
	devices, kinds := make([]Device, len(messages)), make(map[int]string, len(messages))
	for i := 0; err == nil && i < len(messages); i++ {
		devices[i], err = parseDevice(messages[i])
		kinds[devices[i].Index] = devices[i].Kind
	}
	if err != nil {
		return nil, fmt.Errorf("list the network devices: %w", err)
	}
	for i := range devices {
		devices[i].MemberOf = kinds[devices[i].Master]
	}
	slices.SortFunc(devices, func(a, b Device) int { return cmp.Compare(a.Index, b.Index) })
	return devices, nil
}

// simpleKinds are kinds of devices that parseDevice parses without package netlink, which takes several times as long.
var simpleKinds = map[string]bool{"": true, "vlan": true, "vrf": true, "veth": true, "macvlan": true}

// parseDevice describes the device of a link message as deviceOf does.
func parseDevice(message []byte) (d Device, err error) {
	if len(message) < unix.SizeofIfInfomsg {
		return d, fmt.Errorf("link message of %d bytes", len(message))
	}
	kind, other := "", false
	for a, value := range attributes(message[unix.SizeofIfInfomsg:]) {
		switch {
		case a == unix.IFLA_IFNAME:
			d.Name = text(value)
		case a == unix.IFLA_LINK && len(value) == 4:
			d.Lower = int(int32(binary.NativeEndian.Uint32(value)))
		case a == unix.IFLA_MASTER && len(value) == 4:
			d.Master = int(int32(binary.NativeEndian.Uint32(value)))
		case a == unix.IFLA_LINK_NETNSID:
			other = true
		case a == unix.IFLA_LINKINFO:
			for a, value := range attributes(value) {
				if a == nl.IFLA_INFO_KIND {
					kind = text(value)
				}
			}
		}
	}
	if !simpleKinds[kind] {
		l, err := netlink.LinkDeserialize(nil, message)
		if err != nil {
			return d, err
		}
		return deviceOf(l), nil
	}
	flags := binary.NativeEndian.Uint32(message[8:])
	d.Index, d.Kind = int(int32(binary.NativeEndian.Uint32(message[4:]))), cmp.Or(kind, "device")
	d.Foreign = other && d.Lower != 0
	d.Up, d.Loopback = flags&unix.IFF_UP != 0, flags&unix.IFF_LOOPBACK != 0
	d.Ethernet = binary.NativeEndian.Uint16(message[2:]) == unix.ARPHRD_ETHER
	return d, nil
}

// attributes are the netlink attributes of b, by type.
func attributes(b []byte) iter.Seq2[uint16, []byte] {
	return func(yield func(uint16, []byte) bool) {
		for len(b) >= unix.SizeofRtAttr {
			n := int(binary.NativeEndian.Uint16(b))
			if n < unix.SizeofRtAttr || n > len(b) || !yield(binary.NativeEndian.Uint16(b[2:])&^unix.NLA_F_NESTED, b[unix.SizeofRtAttr:n]) {
				return
			}
			b = b[min((n+3)&^3, len(b)):]
		}
	}
}

// text is a string of a netlink attribute, which ends with a zero.
func text(b []byte) string {
	s, _, _ := bytes.Cut(b, []byte{0})
	return string(s)
}
