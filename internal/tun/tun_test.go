package tun

import (
	"runtime"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/internal/offload"
	"github.com/warproute/warproute/internal/require"
)

// Packets for a deleted interface are refused, so that they count as dropped.
func TestDeliverFailsAfterDeletion(t *testing.T) {
	runtime.LockOSThread() // never unlocked: the namespace ends with the thread
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		t.Fatalf("make a network namespace: %v (root is needed)", err)
	}
	d, err := Open("tun0", Options{Queues: 1, MTU: MinMTU, Burst: 8})
	require.NoError(t, err)
	defer d.Close()
	p := make([]byte, 40)
	p[0] = 0x45
	send := func() bool {
		var results [1]offload.Result
		d.Queues()[0].Send([][]byte{p}, results[:], time.Second)
		return results[0] == offload.Sent
	}
	if !send() {
		t.Fatal("nothing is delivered")
	}
	link, err := netlink.LinkByName("tun0")
	if err == nil {
		err = netlink.LinkDel(link)
	}
	require.NoError(t, err)
	for end := time.Now().Add(5 * time.Second); send(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("packets are still delivered")
		}
	}
}
