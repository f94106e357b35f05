package netdev

import (
	"encoding/binary"
	"fmt"
	"net"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Carrier is the state of an interface's link.
type Carrier struct {
	Up      bool
	Changes uint32 // how often it went up or down
}

// CarrierOf returns the carrier of an interface.
func CarrierOf(name string) (c Carrier, err error) {
	iface, err := net.InterfaceByName(name)
	if err != nil {
		return c, fmt.Errorf("look up interface %s: %w", name, err)
	}
	r := nl.NewNetlinkRequest(unix.RTM_GETLINK, 0)
	link := nl.NewIfInfomsg(unix.AF_UNSPEC)
	link.Index = int32(iface.Index)
	r.AddData(link)
	answers, err := r.Execute(unix.NETLINK_ROUTE, unix.RTM_NEWLINK)
	if err == nil && (len(answers) != 1 || len(answers[0]) < unix.SizeofIfInfomsg) {
		err = fmt.Errorf("%d answers", len(answers))
	}
	if err != nil {
		return c, fmt.Errorf("read the carrier of %s: %w", name, err)
	}
	attrs, err := nl.ParseRouteAttr(answers[0][unix.SizeofIfInfomsg:])
	if err != nil {
		return c, fmt.Errorf("read the carrier of %s: %w", name, err)
	}
	c.Up = binary.NativeEndian.Uint32(answers[0][8:])&unix.IFF_LOWER_UP != 0
	for _, a := range attrs {
		if a.Attr.Type == unix.IFLA_CARRIER_CHANGES && len(a.Value) == 4 {
			c.Changes = binary.NativeEndian.Uint32(a.Value)
		}
	}
	return c, nil
}

// Reset reports whether a link that was up has gone down since, also if it is up again.
func (c Carrier) Reset(now Carrier) bool { return c.Up && now.Changes != c.Changes }
