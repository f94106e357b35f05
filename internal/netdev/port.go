package netdev

import (
	"fmt"
	"slices"
)

// Refusal is the error about an interface that cannot be a port, with a hint.
type Refusal struct {
	Reason, Hint string
	Later        bool // it may become one while the host boots
}

func (r *Refusal) Error() string { return fmt.Sprintf("%s (%s)", r.Reason, r.Hint) }

// CheckPort returns a *Refusal if an interface cannot be a port, and another error if the check
// fails.
func CheckPort(name string) error {
	var k kernel
	d, err := k.find(name)
	if err != nil {
		return err
	}
	if r := refuse(d, &k); r != nil {
		return r
	}
	return k.err
}

// CheckSockets returns a *Refusal if AF_XDP sockets of an interface receive nothing that a port should,
// and another error if the check fails. A bond is such an interface: Linux runs its XDP program on the
// members, and delivers to a socket only frames of the socket's own device (xsk_rcv_check). So the sockets
// of a bond are those of its members; member is set for them.
func CheckSockets(name string, member bool) error {
	var k kernel
	d, err := k.find(name)
	if err != nil {
		return err
	}
	switch r := refuse(d, &k); {
	case member && d.MemberOf == "bond":
		return nil
	case r != nil:
		return r
	case d.Kind == "bond":
		return &Refusal{Reason: d.Name + " is a bond: Linux does not deliver the frames of its members to AF_XDP sockets of the bond", Hint: "open the members"}
	}
	return k.err
}

// bondModes are the modes of bonds that can be ports. In the others, Linux sends packets of a flow by several
// members, each packet by all, or with the MAC addresses of members.
var bondModes = []string{"active-backup", "balance-xor", "802.3ad"}

// refuse rejects teams, bonds that the router cannot serve, and members of both: a member that is a port would
// receive in place of its master, and routes lead over the master.
func refuse(d *Device, in namespace) *Refusal {
	master := func() string {
		if m := in.device(d.Master); m != nil {
			return m.Name
		}
		return "(deleted)"
	}
	switch {
	case d.Kind == "team":
		return &Refusal{
			Reason: fmt.Sprintf("%s is a team: the router follows the members of bonds only, and Linux delivers no frames of members to AF_XDP sockets of the team", d.Name),
			Hint:   "use a bond instead, or a VLAN interface on " + d.Name,
		}
	case d.Kind == "bond" && !slices.Contains(bondModes, d.Mode):
		return &Refusal{
			Reason: fmt.Sprintf("%s is a bond in mode %s: the router supports active-backup, balance-xor and 802.3ad, in which each flow has one member", d.Name, d.Mode),
			Hint:   fmt.Sprintf("remove the members and set another mode (ip link set %s type bond mode 802.3ad)", d.Name),
			Later:  len(in.members(d)) == 0, // Linux sets the mode of a bond without members only
		}
	case d.Kind == "bond" && d.MemberOf != "" && d.MemberOf != "vrf": // doctor and the mirror report a VRF
		return &Refusal{
			Reason: fmt.Sprintf("%s is a bond in %s %s, which receives its packets", d.Name, d.MemberOf, master()),
			Hint:   fmt.Sprintf("ip link set %s nomaster", d.Name),
		}
	case d.Kind == "bond" && len(in.members(d)) == 0:
		return &Refusal{
			Reason: d.Name + " is a bond without members: the router needs one at the start",
			Hint:   fmt.Sprintf("add members (ip link set NAME master %s)", d.Name),
			Later:  true,
		}
	case d.MemberOf == "bond":
		bond := master()
		return &Refusal{
			Reason: fmt.Sprintf("%s is a member of bond %s: the bond is the port, since routes lead over it", d.Name, bond),
			Hint:   fmt.Sprintf("use %s as the port instead of its members, or ip link set %s nomaster", bond, d.Name),
		}
	case d.MemberOf == "team":
		return &Refusal{
			Reason: fmt.Sprintf("%s is a member of team %s: the router would receive in place of the team, and routes lead over the team", d.Name, master()),
			Hint:   fmt.Sprintf("ip link set %s nomaster", d.Name),
		}
	}
	return nil
}

// Members returns the names of the members of a bond, by interface index; none for another interface.
func Members(name string) (names []string, err error) {
	var k kernel
	d, err := k.find(name)
	if err != nil || d.Kind != "bond" {
		return nil, err
	}
	for _, m := range k.members(d) {
		names = append(names, m.Name)
	}
	return names, k.err
}
