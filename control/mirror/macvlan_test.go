package mirror

import "testing"

// A macvlan that is up is a MAC address of its port, and routes over it are routes over the port.
func TestMacvlanIsMACOfItsPort(t *testing.T) {
	w := newWorld(t)
	w.ip("link set lan address 02:00:00:00:00:aa")
	w.start()
	w.note(func() { w.events = nil })
	const vrrp = "00:00:5e:00:01:09"
	w.ip("link add link lan name vrrp9 address " + vrrp + " type macvlan mode private")
	w.expectEvents()
	w.ip("link set vrrp9 up", "addr add 10.9.0.1/24 dev vrrp9", "neigh add 10.9.0.2 lladdr 02:00:00:00:00:92 nud permanent dev vrrp9", "route add 20.0.0.0/8 via 10.9.0.2")
	w.expectEvents("lan has " + vrrp)
	w.want("20.0.0.1", "lan 02:00:00:00:00:92", "10.9.0.7", "lan ?", "10.9.0.1", "local")
	w.sameAsFresh()
	w.ip("link set vrrp9 address 00:00:5e:00:01:0a")
	w.expectEvents("lan lost "+vrrp, "lan has 00:00:5e:00:01:0a")
	w.ip("link set vrrp9 down")
	w.expectEvents("lan lost 00:00:5e:00:01:0a")
	w.ip("link set vrrp9 up", "link add other type bridge", "link set vrrp9 master other")
	w.expectEvents("lan has 00:00:5e:00:01:0a", "lan lost 00:00:5e:00:01:0a")
	w.ip("link set vrrp9 nomaster")
	w.expectEvents("lan has 00:00:5e:00:01:0a")
	w.ip("link set lan mtu 1400")
	w.expectEvents("lan 02:00:00:00:00:aa mtu 1400 up true") // the port is as before
	w.ip("link del vrrp9")
	w.expectEvents("lan lost 00:00:5e:00:01:0a")
	w.want("20.0.0.1", "none", "10.1.0.9", "lan ?")
	w.ip("link add link lan name other9 address "+vrrp+" type macvlan mode source", "link set other9 up")
	w.expectEvents()
	w.sameAsFresh()
}
