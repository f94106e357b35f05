package afxdp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/internal/netdev"
)

//go:generate go tool bpf2go -cc clang-19 -strip llvm-strip-19 -target bpfel -no-global-types -type decision -output-stem steer steer steer.bpf.c -- -Wall -Werror -idirafter /usr/include/x86_64-linux-gnu -idirafter /usr/include/aarch64-linux-gnu

// program is a port's XDP program (steer.bpf.c) with its maps.
type program struct {
	steerObjects
	link link.Link // nil when the program is on no interface
}

// loadProgram loads the program of a port with the given number of queues. It
// leaves every frame to Linux until setMAC. The maps of local addresses and
// of fragments are those of other, if that is not nil. With large set, it takes frames of
// which only the beginning lies in a row, as far as the headers that it reads go.
func loadProgram(queues int, other *program, large bool) (*program, error) {
	spec, err := loadSteer()
	if err != nil {
		return nil, fmt.Errorf("load the XDP program: %w", err)
	}
	spec.Maps[steerMapSockets].MaxEntries = uint32(queues)
	if large {
		spec.Programs[steerProgSteer].Flags |= unix.BPF_F_XDP_HAS_FRAGS
	}
	var opts ebpf.CollectionOptions
	if other != nil {
		opts.MapReplacements = map[string]*ebpf.Map{steerMapLocal4: other.Local4, steerMapLocal6: other.Local6, steerMapInUdp: other.InUdp}
	}
	p := &program{}
	if err := spec.LoadAndAssign(&p.steerObjects, &opts); err != nil {
		return nil, fmt.Errorf("load the XDP program: %w", mended(err, mends{unix.EPERM: needRoot, unix.EACCES: needRoot}))
	}
	return p, nil
}

// IsRouterProgram reports whether the XDP program with a number of the kernel's is
// that of a router's port, this process's or another's.
func IsRouterProgram(id uint32) bool {
	p, err := ebpf.NewProgramFromID(ebpf.ProgramID(id))
	if err != nil {
		return false
	}
	defer p.Close()
	info, err := p.Info()
	return err == nil && info.Name == "steer"
}

// attach puts the program on an interface in mode Native or Generic, for as
// long as the process lives.
func (p *program) attach(ifindex int, mode Mode, deadline time.Time) error {
	flags := link.XDPDriverMode
	if mode == Generic {
		flags = link.XDPGenericMode
	}
	err := retryBusy(deadline, func() (err error) {
		p.link, err = link.AttachXDP(link.XDPOptions{Program: p.Steer, Interface: ifindex, Flags: flags})
		return err
	})
	if err != nil {
		if reason := netdev.WhyNotAttached(ifindex, p.Steer.FD(), uint32(flags)); reason != "" {
			err = fmt.Errorf("%w: %s", err, reason)
		}
		return fmt.Errorf("attach the XDP program in %v mode: %w", mode, err)
	}
	return nil
}

var attachMends = mends{
	unix.EPERM:      needRoot,
	unix.EOPNOTSUPP: "the driver has no XDP of its own: take mode generic",
	unix.ENOSPC:     "on veth, it needs as many receive queues as its peer has transmit queues: `ethtool -L`, or take mode generic",
	unix.ERANGE:     "the MTU of the interface or its peer is too large: lower it, or take mode generic",
}

// refusedForGood says whether an attach error is one that generic mode would meet too.
func refusedForGood(err error) bool {
	return errors.Is(err, unix.EPERM) || errors.Is(err, unix.EBUSY) || errors.Is(err, unix.EEXIST)
}

// setMAC sets the address to which frames must be sent to be the port's. The
// program reads it by one load; the store, should it ever be torn, makes frames
// of that instant go to Linux.
func (p *program) setMAC(mac [6]byte) error {
	var b [8]byte
	copy(b[:], mac[:])
	if err := p.PortMac.Set(binary.NativeEndian.Uint64(b[:])); err != nil {
		return fmt.Errorf("set the XDP program's MAC address: %w", err)
	}
	return nil
}

// matchNone has every frame go to Linux, as before the first setMAC.
func (p *program) matchNone() error {
	if err := p.PortMac.Set(^uint64(0)); err != nil {
		return fmt.Errorf("set the XDP program's MAC address: %w", err)
	}
	return nil
}

// setGateway makes the program that of an IPsec gateway.
func (p *program) setGateway() error {
	if err := p.Gateway.Set(uint32(1)); err != nil {
		return fmt.Errorf("make the XDP program that of a gateway: %w", err)
	}
	return nil
}

// counts returns the frames by decision, all processors together.
func (p *program) counts() (n [NumDecisions]uint64, err error) {
	var perCPU []uint64
	for d := range n {
		if err := p.Frames.Lookup(uint32(d), &perCPU); err != nil {
			return n, fmt.Errorf("read the XDP program's counters: %w", err)
		}
		for _, c := range perCPU {
			n[d] += c
		}
	}
	return n, nil
}

// detach takes the program off its interface. No frame is on its way through
// the program when it returns, save in generic mode on another processor.
func (p *program) detach() error {
	if p.link == nil {
		return nil
	}
	l := p.link
	p.link = nil
	return errors.Join(l.Detach(), l.Close())
}

func (p *program) close() error {
	return errors.Join(p.detach(), p.steerObjects.Close())
}
