package netdev

import (
	"encoding/binary"
	"fmt"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Carrier is the link state of an interface.
type Carrier struct {
	Up      bool
	Changes uint32 // IFLA_CARRIER_CHANGES: transitions up and down
}

// CarrierOf returns the carrier of an interface.
func CarrierOf(name string) (c Carrier, err error) {
	iface, err := InterfaceByName(name)
	if err != nil {
		return c, err
	}
	r := nl.NewNetlinkRequest(unix.RTM_GETLINK, 0)
	link := nl.NewIfInfomsg(unix.AF_UNSPEC)
	link.Index = int32(iface.Index)
	r.AddData(link)
	replies, err := r.Execute(unix.NETLINK_ROUTE, unix.RTM_NEWLINK)
	if err == nil && (len(replies) != 1 || len(replies[0]) < unix.SizeofIfInfomsg) {
		err = fmt.Errorf("%d replies", len(replies))
	}
	if err != nil {
		return c, fmt.Errorf("read the carrier of %s: %w", name, err)
	}
	attrs, err := nl.ParseRouteAttr(replies[0][unix.SizeofIfInfomsg:])
	if err != nil {
		return c, fmt.Errorf("read the carrier of %s: %w", name, err)
	}
	c.Up = binary.NativeEndian.Uint32(replies[0][8:])&unix.IFF_LOWER_UP != 0
	for _, a := range attrs {
		if a.Attr.Type == unix.IFLA_CARRIER_CHANGES && len(a.Value) == 4 {
			c.Changes = binary.NativeEndian.Uint32(a.Value)
		}
	}
	return c, nil
}

// Reset reports whether a link that was up went down since, even if it is up again.
func (c Carrier) Reset(now Carrier) bool { return c.Up && now.Changes != c.Changes }
