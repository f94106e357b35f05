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

// Program returns the object file of the XDP program.
func Program() []byte { return _SteerBytes }

// program is a port's XDP program (steer.bpf.c) with its maps.
type program struct {
	objects
	flags    uint32        // of both programs
	stripped *ebpf.Program // for one device: see stripped.go. nil: Steer is the program of the port
	unread   string        // the reason if stripped is nil
	link     link.Link     // nil when the program is on no interface
	borrowed bool          // another process has the link, too: see Set.Own
}

// objects are the program that runs on any port, and the maps and variables.
type objects struct {
	steerMaps
	steerVariables
	Steer *ebpf.Program `ebpf:"steer"`
	Data  *ebpf.Map     `ebpf:".data"`
	BSS   *ebpf.Map     `ebpf:".bss"`
}

// current returns the program that is attached to the port.
func (p *program) current() *ebpf.Program {
	if p.stripped != nil {
		return p.stripped
	}
	return p.Steer
}

// loadProgram loads the program of a port with a number and a number of queues. It passes all frames to Linux until
// setMAC. It shares the maps of local addresses, fragments, VLANs and MACs with other, unless that is nil. With
// large set, it accepts multi-buffer frames: the headers that it reads are in the first buffer.
func loadProgram(number, queues int, other *program, large bool) (*program, error) {
	spec, err := loadSpec(uint32(queues))
	if err != nil {
		return nil, fmt.Errorf("load the XDP program: %w", err)
	}
	p := &program{unread: "not attached"}
	if large {
		p.flags = unix.BPF_F_XDP_HAS_FRAGS
	}
	spec.Programs[steerProgSteer].Flags |= p.flags
	var opts ebpf.CollectionOptions
	if other != nil {
		opts.MapReplacements = map[string]*ebpf.Map{steerMapLocal4: other.Local4, steerMapLocal6: other.Local6, steerMapInUdp: other.InUdp, steerMapVlans: other.Vlans, steerMapMacs: other.Macs}
	}
	if err := spec.Variables[steerVarPortNumber].Set(uint32(number)); err != nil {
		return nil, fmt.Errorf("set the number of the port in the XDP program: %w", err)
	}
	if err := spec.LoadAndAssign(&p.objects, &opts); err != nil {
		return nil, fmt.Errorf("load the XDP program: %w", withHint(err, hints{unix.EPERM: needRoot, unix.EACCES: needRoot}))
	}
	return p, nil
}

// MaxLocal is the maximum number of local addresses of each family: with 4,096 VLANs, an address and the broadcast
// address of each, or the link-local and the anycast address.
const MaxLocal = 1 << 14

// loadSpec reads the program, with maps for a number of queues.
func loadSpec(queues uint32) (*ebpf.CollectionSpec, error) {
	spec, err := loadSteer()
	if err != nil {
		return nil, err
	}
	spec.Maps[steerMapSockets].MaxEntries = queues
	// The kernel takes no types for this map. Refusing them takes it some 20 ms, as it frees the map.
	spec.Maps[steerMapSockets].Key, spec.Maps[steerMapSockets].Value = nil, nil
	// larger than in the source, and without memory for entries that are not used
	for _, name := range []string{steerMapLocal4, steerMapLocal6} {
		spec.Maps[name].MaxEntries = MaxLocal
		spec.Maps[name].Flags |= unix.BPF_F_NO_PREALLOC
	}
	return spec, nil
}

// RouterProgram reports whether the XDP program with an ID is that of a router port, of this or another process, and
// whether it reads stripped VLAN tags.
func RouterProgram(id uint32) (is, readsTags bool) {
	p, err := ebpf.NewProgramFromID(ebpf.ProgramID(id))
	if err != nil {
		return false, false
	}
	defer p.Close()
	info, err := p.Info()
	if err != nil {
		return false, false
	}
	readsTags = info.Name == steerProgSteerStripped
	return readsTags || info.Name == steerProgSteer, readsTags
}

// attach attaches the program to an interface in mode Native or Generic, until detach or the end of
// the process.
func (p *program) attach(ifindex int, mode Mode, deadline time.Time) error {
	flags := link.XDPDriverMode
	if mode == Generic {
		flags = link.XDPGenericMode
	}
	attach := func() error {
		return retryBusy(deadline, func() (err error) {
			p.link, err = link.AttachXDP(link.XDPOptions{Program: p.current(), Interface: ifindex, Flags: flags})
			return err
		})
	}
	p.readTags(ifindex, mode)
	err := attach()
	if err != nil && p.stripped != nil {
		p.ignoreTags(fmt.Sprintf("attach the XDP program that reads them: %v", err))
		err = attach()
	}
	if err != nil {
		if reason := netdev.WhyNotAttached(ifindex, p.Steer.FD(), uint32(flags)); reason != "" {
			err = fmt.Errorf("%w: %s", err, reason)
		}
		return fmt.Errorf("attach the XDP program in %v mode: %w", mode, err)
	}
	return nil
}

var attachHints = hints{
	unix.EPERM:      needRoot,
	unix.EOPNOTSUPP: "the driver does not support native XDP: use mode generic",
	unix.ENOSPC:     "veth needs as many receive queues as its peer has transmit queues: `ethtool -L`, or use mode generic",
	unix.ERANGE:     "the MTU of the interface or its peer is too large: lower it, or use mode generic",
}

// permanent reports whether an attach error would also occur in generic mode.
func permanent(err error) bool {
	return errors.Is(err, unix.EPERM) || errors.Is(err, unix.EBUSY) || errors.Is(err, unix.EEXIST)
}

// setMAC sets the MAC address of the port. The program reads it with one load; a torn store would
// pass frames of that instant to Linux.
func (p *program) setMAC(mac [6]byte) error {
	var b [8]byte
	copy(b[:], mac[:])
	if err := p.PortMac.Set(binary.NativeEndian.Uint64(b[:])); err != nil {
		return fmt.Errorf("set the XDP program's MAC address: %w", err)
	}
	return nil
}

// passAll passes all frames to Linux, as before the first setMAC.
func (p *program) passAll() error {
	if err := p.PortMac.Set(^uint64(0)); err != nil {
		return fmt.Errorf("set the XDP program's MAC address: %w", err)
	}
	return nil
}

// setGateway puts the program in IPsec gateway mode.
func (p *program) setGateway() error {
	if err := p.Gateway.Set(uint32(1)); err != nil {
		return fmt.Errorf("put the XDP program in gateway mode: %w", err)
	}
	return nil
}

// counts returns the frames by decision, summed over CPUs.
func (p *program) counts() (n [NumDecisions]uint64, err error) {
	var perCPU []uint64
	for d := range n {
		if err := p.Decisions.Lookup(uint32(d), &perCPU); err != nil {
			return n, fmt.Errorf("read the XDP program's counters: %w", err)
		}
		for _, c := range perCPU {
			n[d] += c
		}
	}
	return n, nil
}

// detach detaches the program. When it returns, no frame is in the program, except in generic mode on
// another CPU.
func (p *program) detach() error {
	if p.link == nil {
		return nil
	}
	l := p.link
	p.link = nil
	if p.borrowed {
		return l.Close()
	}
	return errors.Join(l.Detach(), l.Close())
}

func (p *program) close() error {
	err := p.detach()
	p.ignoreTags("closed")
	return errors.Join(err, p.steerMaps.Close(), p.Steer.Close(), p.Data.Close(), p.BSS.Close())
}
