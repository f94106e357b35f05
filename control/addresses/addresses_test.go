package addresses

import (
	"net"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/internal/require"
)

func TestFirstUsableAddressesAreReported(t *testing.T) {
	runtime.LockOSThread() // never unlocked: the namespace ends with the thread
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		t.Fatalf("make a network namespace: %v (root is needed)", err)
	}
	require.NoError(t, netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "a"}, PeerName: "b"}))
	link, err := netlink.LinkByName("a")
	require.NoError(t, err)
	require.NoError(t, netlink.LinkSetUp(link))
	change := func(do func(netlink.Link, *netlink.Addr) error, text string) {
		t.Helper()
		a, err := netlink.ParseAddr(text)
		require.NoError(t, err)
		a.Flags = unix.IFA_F_NODAD
		require.NoError(t, do(link, a))
	}
	change(netlink.AddrAdd, "192.0.2.1/24")
	type pair struct{ ipv4, ipv6 netip.Addr }
	reports := make(chan pair, 100)
	w, err := Watch([]int{12345, link.Attrs().Index}, func(i int, ipv4, ipv6 netip.Addr) {
		if i != 1 {
			t.Errorf("reported interface %d", i)
		}
		reports <- pair{ipv4, ipv6}
	})
	require.NoError(t, err)
	expect := func(ipv4, ipv6 string) {
		t.Helper()
		var want, got pair
		if ipv4 != "" {
			want.ipv4 = netip.MustParseAddr(ipv4)
		}
		if ipv6 != "" {
			want.ipv6 = netip.MustParseAddr(ipv6)
		}
		for timeout := time.After(5 * time.Second); got != want; {
			select {
			case got = <-reports:
			case <-timeout:
				t.Fatalf("reported %v, want %v", got, want)
			}
		}
	}
	expect("192.0.2.1", "")
	change(netlink.AddrAdd, "2001:db8::1/64")
	expect("192.0.2.1", "2001:db8::1")
	change(netlink.AddrAdd, "192.0.2.9/24") // secondary
	change(netlink.AddrAdd, "198.51.100.1/24")
	change(netlink.AddrDel, "192.0.2.1/24")
	expect("198.51.100.1", "2001:db8::1")
	change(netlink.AddrDel, "2001:db8::1/64")
	expect("198.51.100.1", "")
	w.Close()
}

// TestOverrunRemovesStaleAddresses simulates an overrun that loses the removal of an address.
func TestOverrunRemovesStaleAddresses(t *testing.T) {
	const gone = 7654321 // index of no interface
	reports := make(chan netip.Addr, 100)
	w := &Watcher{
		changed:    func(_ int, ipv4, _ netip.Addr) { reports <- ipv4 },
		interfaces: map[int]int{0: gone}, numbers: map[int][]int{gone: {0}}, have: map[int][]address{}, done: make(chan struct{}), ended: make(chan struct{}),
	}
	lost := make(chan netlink.AddrUpdate, 1)
	lost <- netlink.AddrUpdate{LinkIndex: gone, NewAddr: true, LinkAddress: net.IPNet{IP: net.IPv4(192, 0, 2, 1)}}
	close(lost)
	go w.follow(lost)
	defer w.Close()
	for _, want := range []netip.Addr{netip.MustParseAddr("192.0.2.1"), {}} {
		select {
		case got := <-reports:
			if got != want {
				t.Errorf("reported %v, want %v", got, want)
			}
		case <-time.After(5 * time.Second):
			t.Fatalf("no report of %v", want)
		}
	}
}
