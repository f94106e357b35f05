package tun

import (
	"bytes"
	"net"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/internal/offload"
	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/internal/testutil"
	"github.com/warproute/warproute/packet"
)

// An interface passes to another process by its queues, of which that needs more or fewer. It exists, with its index,
// until the last owner closes it, and packets in the queues wait.
func TestInheritedInterfaceKeepsItsPackets(t *testing.T) {
	runtime.LockOSThread() // never unlocked: the namespace ends with the thread
	require.NoError(t, unix.Unshare(unix.CLONE_NEWNET))
	d, err := Open("far0", Options{Queues: 2, MTU: 1500, Burst: 8})
	require.NoError(t, err)
	exit, err := Open("exit0", Options{Queues: 1, MTU: 1500, Burst: 8, Forward: true})
	require.NoError(t, err)
	defer exit.Close()
	route(t, "far0")
	before, err := net.InterfaceByName("far0")
	require.NoError(t, err)
	for _, queues := range []int{3, 1, 2} {
		p := testutil.UDP4("10.1.0.1", "10.2.0.1", 7, 7, bytes.Repeat([]byte{1}, 100)...)[packet.EthernetLen:]
		exit.Queues()[0].Send([][]byte{p}, make([]offload.Result, 1), time.Second)
		var fds []int
		for _, q := range d.Queues() {
			fd, err := unix.Dup(q.FD())
			require.NoError(t, err)
			fds = append(fds, fd)
		}
		next, err := Inherit("far0", fds, Options{Queues: queues, MTU: 1500, Burst: 8})
		require.NoError(t, err)
		if len(next.Queues()) != queues {
			t.Errorf("%d queues, want %d", len(next.Queues()), queues)
		}
		require.NoError(t, d.Close())
		if now, err := net.InterfaceByName("far0"); err != nil || now.Index != before.Index {
			t.Fatalf("the interface was created again, or is gone (%v)", err)
		}
		if queues >= len(fds) && !received(next) {
			t.Errorf("%d queues: the packet is lost", queues)
		}
		d = next
	}
	require.NoError(t, d.Close())
	if _, err := net.InterfaceByName("far0"); err == nil {
		t.Error("the interface is left")
	}
}

// received reports whether a queue has a packet.
func received(d *Device) bool {
	buffers, sizes := [][]byte{make([]byte, 1500)}, make([]int, 1)
	for end := time.Now().Add(time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		for _, q := range d.Queues() {
			for {
				n, _ := q.Receive(buffers, sizes)
				if n == 0 {
					break
				}
				if sizes[0] > 20 && buffers[0][0]>>4 == 4 {
					return true
				}
			}
		}
	}
	return false
}
