// Package live sends and counts frames inside the kernel.
//
// From one core an AF_XDP socket sends some two million frames a second over a
// veth pair, no more than a router forwards, so it cannot tell how fast a router
// is. XDP's test run with live frames makes five times as many: it runs a program
// on frames of its own, and the program redirects them into the link.
package live

import (
	"errors"
	"fmt"
	"net"
	"sync/atomic"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

//go:generate go tool bpf2go -cc clang-19 -strip llvm-strip-19 -target bpfel -no-global-types -output-stem live live live.bpf.c -- -Wall -Werror -idirafter /usr/include/x86_64-linux-gnu -idirafter /usr/include/aarch64-linux-gnu

// HeaderLen is the length of the header that a Sender writes: Ethernet, IPv4
// without options, UDP.
const HeaderLen = 42

// One system call sends burst frames. The kernel's page pool has room for batch
// frames at hand: with fewer at a time it is slower, with more it falls back to
// the page allocator.
const (
	burst = 1 << 17
	batch = 256
)

// Sender sends frames from the network namespace that it is made and run in.
// While it is there, what that namespace sends to itself is lost.
type Sender struct {
	objects liveObjects
	known   link.Link
	frame   []byte
	stop    atomic.Bool
}

// NewSender prepares frames that begin with header, HeaderLen bytes with a UDP
// checksum of zero, and have the given length without FCS, to be sent on a link.
// Each flow has a UDP source port of its own, from 1024 on, and a destination,
// from that of the header on; the low 16 bits of that must not overflow.
func NewSender(ifindex int, header []byte, length, flows int) (*Sender, error) {
	if len(header) != HeaderLen || length < HeaderLen || flows < 1 {
		return nil, fmt.Errorf("prepare live frames: a header of %d bytes, frames of %d, %d flows", len(header), length, flows)
	}
	spec, err := loadLive()
	if err != nil {
		return nil, fmt.Errorf("load the sending XDP program: %w", err)
	}
	for name, value := range map[string]any{"header": [HeaderLen]byte(header), "ifindex": uint32(ifindex), "flows": uint32(flows)} {
		if err := spec.Variables[name].Set(value); err != nil {
			return nil, fmt.Errorf("set %s of the sending XDP program: %w", name, err)
		}
	}
	s := &Sender{frame: make([]byte, length)}
	copy(s.frame, header)
	if err := spec.LoadAndAssign(&s.objects, nil); err != nil {
		return nil, fmt.Errorf("load the sending XDP program: %w", err)
	}
	// The kernel waits for all processors, twice a system call, when it meets a
	// program that is on no interface. So it is put where nothing passes.
	lo, err := net.InterfaceByName("lo")
	if err == nil {
		s.known, err = link.AttachXDP(link.XDPOptions{Program: s.objects.Send, Interface: lo.Index, Flags: link.XDPGenericMode})
	}
	if err != nil {
		s.objects.Close()
		return nil, fmt.Errorf("attach the sending XDP program to the loopback interface: %w", err)
	}
	return s, nil
}

// Run sends as fast as the calling thread can, until Stop.
func (s *Sender) Run() error {
	for !s.stop.Load() {
		_, err := s.objects.Send.Run(&ebpf.RunOptions{Data: s.frame, Repeat: burst, Flags: unix.BPF_F_TEST_XDP_LIVE_FRAMES, BatchSize: batch})
		if err != nil && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("send live frames: %w", err)
		}
	}
	return nil
}

// Stop ends Run after its present burst, some ten milliseconds. Any goroutine may
// call it.
func (s *Sender) Stop() { s.stop.Store(true) }

// Close frees the program. Run must have returned.
func (s *Sender) Close() error { return errors.Join(s.known.Close(), s.objects.Close()) }

// Program is an XDP program on a link.
type Program struct {
	objects liveObjects
	link    link.Link
}

// AttachCount makes a link drop and count every frame.
func AttachCount(ifindex int) (*Program, error) {
	return attach(ifindex, func(o *liveObjects) *ebpf.Program { return o.Count })
}

// AttachPass makes a veth link receive by NAPI, so that live frames can be sent
// to it and its NAPI be threaded, and changes nothing else.
func AttachPass(ifindex int) (*Program, error) {
	return attach(ifindex, func(o *liveObjects) *ebpf.Program { return o.Pass })
}

func attach(ifindex int, which func(*liveObjects) *ebpf.Program) (*Program, error) {
	p := &Program{}
	if err := loadLiveObjects(&p.objects, nil); err != nil {
		return nil, fmt.Errorf("load an XDP program: %w", err)
	}
	var err error
	p.link, err = link.AttachXDP(link.XDPOptions{Program: which(&p.objects), Interface: ifindex, Flags: link.XDPDriverMode})
	if err != nil {
		p.objects.Close()
		return nil, fmt.Errorf("attach an XDP program: %w", err)
	}
	return p, nil
}

// Frames is how many frames AttachCount has counted.
func (p *Program) Frames() (n uint64, err error) {
	var perCPU []uint64
	if err := p.objects.Frames.Lookup(uint32(0), &perCPU); err != nil {
		return 0, fmt.Errorf("read the frame counter: %w", err)
	}
	for _, c := range perCPU {
		n += c
	}
	return n, nil
}

// Close takes the program off the link.
func (p *Program) Close() error { return errors.Join(p.link.Close(), p.objects.Close()) }
