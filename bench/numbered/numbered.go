// Package numbered sends numbered packets of some flows at a steady rate, and
// notes which of them arrive where.
//
// A source outside the machine would not wait until a routing daemon gives a core
// back, nor would what is behind a router. Processes must, and those in the
// kernel, as a daemon is while it changes a thousand routes by one call, are
// preempted by no priority. So both ends work in softirqs, by timers, on a core of
// choice. They share that core with processes, and not their turns:
//
//	        ball0 ◄──── thrown back ────┐
//	          │                         │
//	timer ► ball1 ► emit: what is due ──┴──► link ──► router ──► link ◄ timer
//	                                                              │
//	                                                             note: what came
//
// The ball is a frame in a veth pair. NAPI's timer receives it every tick; the
// program that meets it there sends clones of it as packets. A tick that comes late
// tells that the machine itself stood still, which is no router's fault: virtual
// machines do, for milliseconds.
package numbered

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/internal/lab"
	"github.com/warproute/warproute/internal/napi"
	"github.com/warproute/warproute/packet"
)

//go:generate go tool bpf2go -cc clang-19 -strip llvm-strip-19 -target bpfel -no-global-types -output-stem numbered numbered numbered.bpf.c -- -Wall -Werror -idirafter /usr/include/x86_64-linux-gnu -idirafter /usr/include/aarch64-linux-gnu

// As in numbered.bpf.c.
const (
	// MaxFlows is how many flows a source may have.
	MaxFlows = 16
	// FrameLen is the length of every frame, in bytes without FCS.
	FrameLen = 82

	room      = 88
	maxRuns   = 8192
	maxStalls = 4096
	port      = 7777
	ballType  = 0x88b5
)

// How long receivers sleep between two looks at what has arrived. At a million packets
// a second 50 come in the former; a veth has room for 256.
const (
	sendTick  = 50 * time.Microsecond
	sinkTick  = 50 * time.Microsecond
	watchTick = 100 * time.Microsecond
)

// settle has what arrives at a link that receives by NAPI be received in softirqs
// of one core, every tick, as long as the link lives. peer is the link's other end; ran
// says on which core frames that are sent there were received last.
func settle(at, peer lab.End, core int, tick time.Duration, ran func() (int, error)) error {
	for setting, value := range map[string]string{
		// While nothing arrives the timer goes on, as good as for ever.
		"napi_defer_hard_irqs": "2000000000", "gro_flush_timeout": fmt.Sprint(tick.Nanoseconds()),
	} {
		if err := at.Namespace.Sysfs("class/net/"+at.Name+"/"+setting, value); err != nil {
			return err
		}
	}
	l, err := at.Namespace.Link(at.Name)
	if err != nil {
		return err
	}
	// The timer stays on the core that it was started on. A thread on that core
	// starts it, when a frame comes, and is not needed any more.
	return at.Namespace.Do(func() error {
		restore, err := napi.Thread(at.Name, l.Attrs().Index, func(int) int { return core }, 1)
		if err != nil {
			return err
		}
		return errors.Join(await(peer, core, ran), restore())
	})
}

// await sends a frame and waits until it was received on a core, or another was.
func await(peer lab.End, core int, ran func() (int, error)) error {
	fd, err := peer.Namespace.PacketSocket(peer.Name)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	frame := make([]byte, FrameLen)
	(*packet.Ethernet)(frame).SetType(ballType)
	if err := unix.Send(fd, frame, 0); err != nil {
		return fmt.Errorf("send a frame at %s: %w", peer.Name, err)
	}
	for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(time.Millisecond) {
		switch on, err := ran(); {
		case err != nil:
			return err
		case on == core:
			return nil
		case time.Now().After(deadline):
			return fmt.Errorf("a frame sent at %s was not received on core %d in 5 s", peer.Name, core)
		}
	}
}
