package tun

import (
	"bytes"
	"encoding/binary"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/internal/offload"
	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/internal/testutil"
	"github.com/warproute/warproute/packet"
)

// Two interfaces in a namespace: Linux forwards what a queue of the first one sends to the second. Merged packets
// leave as the packets that were merged, with a TTL less by one, in both ways of arriving: as large packets, which
// Queue.Receive splits, and split by Linux.
func TestLinuxForwardsMergedPackets(t *testing.T) {
	runtime.LockOSThread() // never unlocked: the namespace ends with the thread
	require.NoError(t, unix.Unshare(unix.CLONE_NEWNET))
	exit, err := Open("exit%d", Options{Queues: 2, MTU: 1500, Burst: 256, Forward: true})
	require.NoError(t, err)
	defer exit.Close()
	if exit.Name() != "exit0" {
		t.Errorf("the interface is %s", exit.Name())
	}
	require.NoError(t, os.WriteFile("/proc/sys/net/ipv6/conf/all/forwarding", []byte("1"), 0))
	for _, c := range [][2]string{{"0", "0"}, {"2", "2"}, {"1", "2"}} { // rp_filter of "all", and of the interface
		require.NoError(t, os.WriteFile("/proc/sys/net/ipv4/conf/all/rp_filter", []byte(c[0]), 0))
		require.NoError(t, exit.Configure())
		if got, err := os.ReadFile("/proc/sys/net/ipv4/conf/exit0/rp_filter"); err != nil || strings.TrimSpace(string(got)) != c[1] {
			t.Errorf("with rp_filter %s of all it is %q, want %s: %v", c[0], got, c[1], err)
		}
	}
	far, err := Open("far0", Options{Queues: 1, MTU: 1500, Burst: 1})
	require.NoError(t, err)
	defer far.Close()
	route(t, "far0")
	for _, large := range []bool{true, false} {
		if !large {
			require.NoError(t, unix.IoctlSetInt(far.Queues()[0].FD(), unix.TUNSETOFFLOAD, 0))
		}
		var packets [][]byte
		for i := range 40 {
			for flow := range byte(3) {
				p := testutil.UDP4("10.1.0.1", "10.2.0.1", 7, uint16(flow), bytes.Repeat([]byte{byte(i)}, 1000)...)[packet.EthernetLen:]
				if flow == 1 {
					p = testutil.UDP6("fd01::1", "fd02::1", 7, uint16(flow), bytes.Repeat([]byte{byte(i)}, 900)...)[packet.EthernetLen:]
				} else {
					binary.BigEndian.PutUint16(p[4:], uint16(i))
					p[6] = 0x40 * flow
					p[10], p[11] = 0, 0
					binary.BigEndian.PutUint16(p[10:], packet.Checksum(p[:20]))
				}
				packets = append(packets, p)
			}
		}
		want := map[byte][][]byte{}
		for i, p := range packets {
			p = bytes.Clone(p)
			if p[0]>>4 == 4 {
				(*packet.IPv4)(p).DecrementTTL()
			} else {
				(*packet.IPv6)(p).DecrementHopLimit()
			}
			want[byte(i%3)] = append(want[byte(i%3)], p)
		}
		results := make([]offload.Result, len(packets))
		exit.Queues()[1].Send(packets, results, time.Second)
		got, reads := map[byte][][]byte{}, 0
		buffers, sizes := [][]byte{make([]byte, 1500)}, make([]int, 1)
		for end := time.Now().Add(2 * time.Second); time.Now().Before(end) && len(got[0])+len(got[1])+len(got[2]) < 120; {
			if far.Queues()[0].split.Len() == 0 {
				reads++
			}
			n, _ := far.Queues()[0].Receive(buffers, sizes)
			if n == 0 {
				time.Sleep(time.Millisecond)
				continue
			}
			p := bytes.Clone(buffers[0][:sizes[0]])
			l4 := 20
			if p[0]>>4 == 6 {
				l4 = 40
			}
			if p[9] == 17 && l4 == 20 || p[6] == 17 && l4 == 40 {
				got[p[l4+3]] = append(got[p[l4+3]], p)
			}
		}
		for flow := range byte(3) {
			if len(got[flow]) != 40 {
				t.Fatalf("large %v, flow %d: %d packets, want 40; %v", large, flow, len(got[flow]), results[:6])
			}
			for i := range got[flow] {
				if !bytes.Equal(got[flow][i], want[flow][i]) {
					t.Fatalf("large %v, flow %d, packet %d:\n% x, want\n% x", large, flow, i, got[flow][i][:60], want[flow][i][:60])
				}
			}
		}
		if large && reads > 60 {
			t.Errorf("%d packets were read: they were not merged", reads)
		}
	}
}

// route adds routes to 10.2.0.0/16, 10.1.0.0/16, fd01::/16 and fd02::/16 by an interface.
func route(t *testing.T, dev string) {
	t.Helper()
	for _, dst := range []string{"10.1.0.0/16", "10.2.0.0/16", "fd01::/16", "fd02::/16"} {
		if out, err := exec.Command("ip", "route", "add", dst, "dev", dev).CombinedOutput(); err != nil {
			t.Fatalf("ip route add %s: %v: %s", dst, err, out)
		}
	}
}
