// Package seqload sends packets with sequence numbers at a steady rate, and records which of them
// arrive where, for tests of losses beside busy daemons.
//
// Processes cannot do this: they wait for other processes on their core, and a daemon that changes
// a thousand routes by one system call is not preempted. So sender and receiver run in softirqs of
// one core, driven by NAPI timers, and are not delayed by processes on that core:
//
//	        tick0 ◄──── redirect ────────┐
//	          │                          │
//	timer ► tick1 ► emit: packets due ───┴──► link ──► router ──► link ◄ timer
//	                                                               │
//	                                                          record: arrivals
//
// A tick is a frame that circulates in a veth pair. NAPI's timer receives it periodically, and the
// program that runs then sends clones of it as packets. A late tick means that the machine stalled,
// as virtual machines do for milliseconds; losses in that time are not the router's.
package seqload

import (
	"errors"
	"fmt"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/internal/lab"
	"github.com/warproute/warproute/internal/netdev"
	"github.com/warproute/warproute/packet"
)

//go:generate go tool bpf2go -cc clang-19 -strip llvm-strip-19 -target bpfel -no-global-types -output-stem seqload seqload seqload.bpf.c -- -Wall -Werror -idirafter /usr/include/x86_64-linux-gnu -idirafter /usr/include/aarch64-linux-gnu

// Constants of seqload.bpf.c.
const (
	MaxFlows = 16 // flows of a Sender
	FrameLen = 82 // bytes of every frame, without FCS

	frameRoom = 88
	maxRuns   = 8192
	maxStalls = 4096
	udpPort   = 7777
	tickType  = 0x88b5
)

// Periods of NAPI timers. At 1 Mpps, 50 packets arrive in one of 50 µs; a veth queues 256.
const (
	sendPeriod    = 50 * time.Microsecond
	receivePeriod = 50 * time.Microsecond
	monitorPeriod = 100 * time.Microsecond
)

// pinSoftirq makes the kernel receive at a link in softirqs of one core, once per period, while the
// link exists. peer is the other end of the link; ranOn returns the core of the last reception.
func pinSoftirq(at, peer lab.End, core int, period time.Duration, ranOn func() (int, error)) error {
	for setting, value := range map[string]string{
		// The timer continues while nothing arrives, practically for ever.
		"napi_defer_hard_irqs": "2000000000", "gro_flush_timeout": fmt.Sprint(period.Nanoseconds()),
	} {
		if err := at.Namespace.Sysfs("class/net/"+at.Name+"/"+setting, value); err != nil {
			return err
		}
	}
	l, err := at.Namespace.Link(at.Name)
	if err != nil {
		return err
	}
	// The timer stays on the core that starts it. A NAPI thread starts it when a frame arrives, and
	// is not needed after that.
	return at.Namespace.Do(func() error {
		restore, err := netdev.ThreadNAPI(at.Name, l.Attrs().Index, func(int) int { return core }, 1)
		if err != nil {
			return err
		}
		return errors.Join(sendUntilReceivedOn(peer, core, ranOn), restore())
	})
}

// sendUntilReceivedOn sends a tick and waits until a frame was received on the core.
func sendUntilReceivedOn(peer lab.End, core int, ranOn func() (int, error)) error {
	fd, err := peer.Namespace.PacketSocket(peer.Name)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	frame := make([]byte, FrameLen)
	(*packet.Ethernet)(frame).SetType(tickType)
	if err := unix.Send(fd, frame, 0); err != nil {
		return fmt.Errorf("send a frame at %s: %w", peer.Name, err)
	}
	for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(time.Millisecond) {
		switch on, err := ranOn(); {
		case err != nil:
			return err
		case on == core:
			return nil
		case time.Now().After(deadline):
			return fmt.Errorf("frame sent at %s: not received on core %d in 5 s", peer.Name, core)
		}
	}
}

// lastCore returns the core on which a program ran last, -1 if it never ran.
func lastCore(v *ebpf.Variable) (int, error) {
	var core uint32
	err := v.Get(&core)
	return int(int32(core)), err
}
