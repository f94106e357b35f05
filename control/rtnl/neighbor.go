package rtnl

import (
	"encoding/binary"
	"net/netip"

	"golang.org/x/sys/unix"
)

// Neighbor is an entry of the ARP or ND table (RTM_NEWNEIGH, RTM_DELNEIGH).
type Neighbor struct {
	Family  uint8  // unix.AF_INET, AF_INET6; AF_BRIDGE: bridge forwarding entry
	Index   int    // interface index
	State   uint16 // unix.NUD_...
	Flags   uint8  // unix.NTF_...
	Addr    netip.Addr
	Address [6]byte // MAC address; zero if unresolved or not Ethernet
}

// Parse parses the data of a neighbor message.
func (n *Neighbor) Parse(data []byte) error {
	*n = Neighbor{}
	h, a := Header(data, unix.SizeofNdMsg)
	if h != nil {
		n.Family = h[0]
		n.Index = int(int32(binary.NativeEndian.Uint32(h[4:])))
		n.State = binary.NativeEndian.Uint16(h[8:])
		n.Flags = h[10]
	}
	for a.Next() {
		switch a.Kind {
		case unix.NDA_DST:
			if n.Family != unix.AF_BRIDGE { // NDA_DST of a bridge entry has any length
				n.Addr = a.addr()
			}
		case unix.NDA_LLADDR:
			if len(a.Value) == len(n.Address) {
				copy(n.Address[:], a.Value)
			}
		}
	}
	return wrap("neighbor message", a.Err)
}
