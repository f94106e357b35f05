package rtnl_test

import (
	"encoding/binary"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/control/rtnl"
)

// A message of the kernel announces the route "198.51.100.0/24 via 192.0.2.1" by interface 3.
func Example() {
	body := make([]byte, unix.SizeofRtMsg)
	body[0], body[1], body[4], body[7] = unix.AF_INET, 24, unix.RT_TABLE_MAIN, unix.RTN_UNICAST
	body = rtnl.AppendAttr(body, unix.RTA_DST, []byte{198, 51, 100, 0})
	body = rtnl.AppendAttr(body, unix.RTA_GATEWAY, []byte{192, 0, 2, 1})
	body = rtnl.AppendAttr(body, unix.RTA_OIF, binary.NativeEndian.AppendUint32(nil, 3))
	header := binary.NativeEndian.AppendUint32(nil, uint32(unix.SizeofNlMsghdr+len(body)))
	header = binary.NativeEndian.AppendUint16(header, unix.RTM_NEWROUTE)
	received := append(append(header, make([]byte, unix.SizeofNlMsghdr-len(header))...), body...)

	for len(received) > 0 {
		message, rest, err := rtnl.Next(received)
		if err != nil {
			panic(err)
		}
		received = rest
		var route rtnl.Route
		if err := route.Parse(message.Data); err != nil {
			panic(err)
		}
		fmt.Println(route.Dst, "table", route.Table, "via", route.Paths[0].Gateway, "interface", route.Paths[0].Index)
	}
	// Output: 198.51.100.0/24 table 254 via 192.0.2.1 interface 3
}
