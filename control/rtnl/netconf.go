package rtnl

import "golang.org/x/sys/unix"

// Attributes of RTM_NEWNETCONF (linux/netconf.h).
const (
	netconfIfindex         = 1
	netconfForwarding      = 2
	netconfIgnoresLinkdown = 6
)

// NetconfAll is the Index of the settings for all interfaces.
const NetconfAll = -1

// Netconf contains IPv4 or IPv6 settings of an interface (RTM_NEWNETCONF).
type Netconf struct {
	Family        uint8 // unix.AF_INET or AF_INET6
	Index         int   // interface index, or NetconfAll
	Forwarding    bool
	HasForwarding bool // false: the message is about another setting
}

// Netconfs queries the settings of a family: of each interface, and for all interfaces.
func Netconfs(family uint8) Query {
	return Query{kind: unix.RTM_GETNETCONF, body: familyFirst(family, 4)}
}

// Parse parses the data of a settings message.
func (n *Netconf) Parse(data []byte) error {
	*n = Netconf{}
	h, a := Header(data, 1)
	if h != nil {
		n.Family = h[0]
	}
	for a.Next() {
		switch a.Kind {
		case netconfIfindex:
			n.Index = int(int32(a.Uint32()))
		case netconfForwarding:
			n.Forwarding, n.HasForwarding = a.Uint32() != 0, true
		}
	}
	return wrap("settings message", a.Err)
}
