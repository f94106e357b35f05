// Package xdpgen sends and counts frames inside the kernel, with XDP.
//
// On a veth pair, an AF_XDP socket sends some 2 Mpps from one core, no more than a router forwards. XDP's
// test run with live frames sends five times as many: it runs a program on its own frames, which the
// program redirects to the link.
package xdpgen

import (
	"errors"
	"fmt"
	"net"
	"sync/atomic"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

//go:generate go tool bpf2go -cc clang-19 -strip llvm-strip-19 -target bpfel -no-global-types -output-stem xdpgen xdpgen xdpgen.bpf.c -- -Wall -Werror -idirafter /usr/include/x86_64-linux-gnu -idirafter /usr/include/aarch64-linux-gnu

// HeaderLen is the length of the headers of a frame: Ethernet, IPv4 without options, UDP.
const HeaderLen = 42

// A system call sends burst frames. The kernel's page pool caches batch frames: smaller batches are
// slower, larger ones use the page allocator.
const (
	burst = 1 << 17
	batch = 256
)

// Sender sends frames from the network namespace in which it is created and run. While it exists,
// loopback traffic of that namespace is lost.
type Sender struct {
	objects xdpgenObjects
	known   link.Link
	frame   []byte
	stop    atomic.Bool
}

// NewSender returns a sender of frames of a length without FCS, on a link. They begin with header, which
// has a UDP checksum of zero. Flow i has UDP source port 1024+i and the header's destination + i, whose
// low 16 bits must not overflow.
func NewSender(ifindex int, header []byte, length, flows int) (*Sender, error) {
	if len(header) != HeaderLen || length < HeaderLen || flows < 1 {
		return nil, fmt.Errorf("send live frames: invalid header of %d bytes, frames of %d bytes or %d flows", len(header), length, flows)
	}
	spec, err := loadXdpgen()
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
	// The kernel synchronizes all cores twice per system call if the program is on no interface. So
	// it is attached to the loopback interface.
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

// Run sends at the maximum rate of the calling thread until Stop.
func (s *Sender) Run() error {
	for !s.stop.Load() {
		_, err := s.objects.Send.Run(&ebpf.RunOptions{Data: s.frame, Repeat: burst, Flags: unix.BPF_F_TEST_XDP_LIVE_FRAMES, BatchSize: batch})
		if err != nil && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("send live frames: %w", err)
		}
	}
	return nil
}

// Stop ends Run after its current burst, some 10 ms. Any goroutine can call it.
func (s *Sender) Stop() { s.stop.Store(true) }

// Close frees the program. Run must have returned.
func (s *Sender) Close() error { return errors.Join(s.known.Close(), s.objects.Close()) }

// Program is an XDP program on a link.
type Program struct {
	objects xdpgenObjects
	link    link.Link
}

// AttachCount makes a link drop and count every frame.
func AttachCount(ifindex int) (*Program, error) {
	return attach(ifindex, func(o *xdpgenObjects) *ebpf.Program { return o.Count })
}

// AttachPass makes a veth link receive by NAPI, which live frames and threaded NAPI require.
func AttachPass(ifindex int) (*Program, error) {
	return attach(ifindex, func(o *xdpgenObjects) *ebpf.Program { return o.Pass })
}

func attach(ifindex int, which func(*xdpgenObjects) *ebpf.Program) (*Program, error) {
	p := &Program{}
	if err := loadXdpgenObjects(&p.objects, nil); err != nil {
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

// Frames returns the number of frames that AttachCount counted.
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

// Close detaches the program.
func (p *Program) Close() error { return errors.Join(p.link.Close(), p.objects.Close()) }
