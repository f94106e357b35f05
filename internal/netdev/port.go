package netdev

import "fmt"

// Refusal is the error about an interface that cannot be a port, with a hint.
type Refusal struct{ Reason, Hint string }

func (r *Refusal) Error() string { return fmt.Sprintf("%s (%s)", r.Reason, r.Hint) }

// CheckPort returns a *Refusal if an interface cannot be a port, and another error if the check
// fails.
func CheckPort(name string) error {
	d, all, err := find(name)
	if err != nil {
		return err
	}
	if r := refuse(d, all[d.Master]); r != nil {
		return r
	}
	return nil
}

// refuse rejects aggregates and their members. Linux runs the XDP program of a bond on the members,
// and delivers to an AF_XDP socket only frames of the socket's own device (xsk_rcv_check): all
// frames are dropped with EINVAL. A member that is a port receives instead of its bond, and routes
// use the bond.
func refuse(d, master *Device) *Refusal {
	switch {
	case d.Kind == "bond" || d.Kind == "team":
		return &Refusal{
			fmt.Sprintf("%s is a %s: Linux does not deliver the frames of its members to AF_XDP sockets, so all would be lost", d.Name, d.Kind),
			fmt.Sprintf("use a VLAN interface on %s, or the only member without the %s", d.Name, d.Kind),
		}
	case d.MemberOf == "bond" || d.MemberOf == "team":
		return &Refusal{
			fmt.Sprintf("%s is a member of %s %s: the router would receive in place of the %s, and routes lead over the %s", d.Name, d.MemberOf, master.Name, d.MemberOf, d.MemberOf),
			fmt.Sprintf("ip link set %s nomaster", d.Name),
		}
	}
	return nil
}
