package afxdp

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/internal/drivers"
	"github.com/warproute/warproute/internal/netdev"
	"github.com/warproute/warproute/umem"
)

// busyTimeout limits the wait for queues and interfaces whose previous owner has closed them and that
// the kernel has not freed.
const busyTimeout = 3 * time.Second

// Open opens ports: it attaches the XDP programs, which pass all frames to Linux until Set.Admit,
// binds a socket to each queue and fills the fill rings. Interfaces are looked up in the network
// namespace of the calling thread. After an error nothing stays open.
func Open(cfg Config) (_ *Set, err error) {
	if cfg.RingSize == 0 {
		cfg.RingSize = DefaultRingSize
	}
	if err := cfg.check(); err != nil {
		return nil, fmt.Errorf("open ports: %w", err)
	}
	o := opening{Config: cfg, set: &Set{cfg: cfg, addresses: map[netip.Addr]bool{}, folded: map[uint32]int{}}, deadline: time.Now().Add(busyTimeout)}
	defer func() {
		if err != nil {
			o.set.Close()
		}
	}()
	if o.set.shared, err = loadProgram(0, 1, nil, o.large()); err != nil {
		return nil, fmt.Errorf("open ports: %w", err)
	}
	for i := range cfg.Ports {
		if err := o.addPort(i); err != nil {
			return nil, fmt.Errorf("open port %s: %w", cfg.Ports[i].Interface, err)
		}
	}
	if err := o.openQueues(); err != nil {
		return nil, err
	}
	for _, p := range o.set.Ports {
		if err := p.fill(); err != nil {
			return nil, fmt.Errorf("open port %s: %w", p.Name, err)
		}
	}
	o.set.frames.init(o.AddedQueues, len(o.Workers))
	return o.set, nil
}

// opening is the state of Open.
type opening struct {
	Config
	set      *Set
	queues   []int // number of queues by port
	deadline time.Time
}

// large reports whether frames can have several descriptors: the workers have large frames.
func (c *Config) large() bool { return c.Workers[0].Memory.Large() > 0 }

// addPort loads and attaches the program of port i.
func (o *opening) addPort(i int) error {
	p, queues, err := o.set.attach(i, o.Ports[i], o.deadline)
	if p != nil {
		o.set.Ports = append(o.set.Ports, p)
	}
	if err == nil {
		o.queues = append(o.queues, queues)
	}
	return err
}

// attach loads the program of a port with a number and attaches it. It returns the number of queues. With an error, the
// port is not nil if it must be closed.
func (s *Set) attach(number int, cfg PortConfig, deadline time.Time) (_ *Port, queues int, err error) {
	large := s.cfg.large()
	p, queues, err := newPort(cfg, len(s.cfg.Workers), large)
	if err != nil {
		return nil, 0, err
	}
	p.mu, p.inherited = &s.mu, cfg.Inherited != nil
	most, err := netdev.MaxQueues(p.Name)
	if err != nil {
		return nil, 0, err
	}
	if p.program, err = loadProgram(number, max(queues, most), s.shared, large); err != nil {
		return nil, 0, err
	}
	if in := cfg.Inherited; in != nil {
		p.Mode, p.ModeReason, p.added = in.Mode, in.ModeReason, in.Added
		p.program.readTags(p.Ifindex, p.Mode)
		return p, min(queues, most), nil
	}
	p.Mode, p.ModeReason = Native, "configured"
	name, _ := hardware(p.Name)
	switch d, _ := drivers.Find(name); {
	case cfg.Mode == Generic:
		p.Mode = Generic
	case d.NoRedirect && cfg.Mode == Auto:
		p.Mode, p.ModeReason = Generic, fmt.Sprintf("native XDP of driver %s does not redirect frames to sockets", name)
	case d.NoRedirect:
		return p, 0, fmt.Errorf("native XDP of driver %s does not redirect frames to sockets (use mode auto or generic)", name)
	}
	err = p.program.attach(p.Ifindex, p.Mode, deadline)
	if err != nil && cfg.Mode == Auto && p.Mode == Native && !permanent(err) {
		p.Mode, p.ModeReason = Generic, attachError(err, p.Name, p.Ifindex).Error()
		err = p.program.attach(p.Ifindex, Generic, deadline)
	}
	if err != nil {
		return p, 0, attachError(err, p.Name, p.Ifindex)
	}
	// The driver may enable more queues with a program: see netdev.QueuesWithXDP.
	after, _, err := netdev.Queues(p.Name)
	if err != nil {
		return p, 0, err
	}
	p.added = max(0, after-queues)
	return p, min(after, most), nil
}

// openQueues opens all sockets with zero-copy if all ports allow it, and otherwise, unless a port
// requires zero-copy, in copy mode.
func (o *opening) openQueues() error {
	if o.inherits() {
		return withHint(o.tryQueues(o.inheritsZeroCopy()), bindHints)
	}
	zeroCopy, insist := true, false
	var reason error
	for i, p := range o.set.Ports {
		asked, err := o.Ports[i].Mode, CheckZeroCopy(p.Name, p.mtu, p.added)
		insist = insist || asked == ZeroCopy
		switch {
		case err != nil && !zeroCopy: // one reason is enough
		case err != nil:
			zeroCopy, reason = false, fmt.Errorf("port %s: %w; all ports share the UMEM", p.Name, err)
		case asked == ZeroCopy:
		case asked != Auto:
			zeroCopy, reason = false, fmt.Errorf("port %s is configured as %v, and all ports share the UMEM", p.Name, asked)
		case p.Mode == Generic:
			zeroCopy, reason = false, fmt.Errorf("port %s supports only generic XDP, and all ports share the UMEM", p.Name)
		}
	}
	if insist && !zeroCopy {
		return fmt.Errorf("open ports with zero-copy: %w (use mode auto or native)", reason)
	}
	if zeroCopy {
		err := o.tryQueues(true)
		if err == nil {
			for _, p := range o.set.Ports {
				p.Mode, p.ModeReason = ZeroCopy, ""
			}
			return nil
		}
		if insist || errors.Is(err, unix.EPERM) || errors.Is(err, unix.EBUSY) {
			return withHint(err, bindHints)
		}
		reason = err
		if len(o.set.Ports) > 1 { // its failure disables zero-copy of the others
			reason = fmt.Errorf("%w, and all ports share the UMEM", err)
		}
	}
	for i, p := range o.set.Ports {
		if o.Ports[i].Mode == Auto && p.Mode == Native {
			p.ModeReason = reason.Error()
		}
	}
	return withHint(o.tryQueues(false), bindHints)
}

var bindHints = hints{
	unix.EPERM:        needRoot,
	unix.EBUSY:        "another process has an AF_XDP socket on the queue: stop it",
	unix.EOPNOTSUPP:   "the driver does not support this mode: use auto, native or generic",
	unix.EINVAL:       "the driver rejects this queue or ring size: use fewer queues (`ethtool -L`), or mode native or generic",
	unix.ENOBUFS:      "the frame memory exceeds the limit of locked memory: `ulimit -l unlimited`, or run with CAP_IPC_LOCK",
	unix.EAFNOSUPPORT: "use a kernel with CONFIG_XDP_SOCKETS",
	unix.ENOPROTOOPT:  "disable busy polling, or use Linux 5.11 or later",
}

// tryQueues opens a socket for every queue of every port, or none.
func (o *opening) tryQueues(zeroCopy bool) error {
	// By worker: the first socket, which registers the UMEM, and the number of queues, which share
	// half of the UMEM to receive into.
	first := make([]*socket, len(o.Workers))
	perWorker := make([]int, len(o.Workers))
	for _, n := range o.queues {
		for q := range n {
			perWorker[q%len(o.Workers)]++
		}
	}
	for i, p := range o.set.Ports {
		p.byWorker = make([][]*Queue, len(o.Workers))
		for n := range o.queues[i] {
			w := n % len(o.Workers)
			mem := o.Workers[w]
			q := o.set.newQueue(i, n, zeroCopy)
			q.share = max(1, (mem.Memory.Frames()-o.AddedQueues*FramesPerAddedQueue(o.RingSize))/2/perWorker[w])
			q.first = first[w]
			var err error
			if p.inherited {
				err = q.open(mem.Memory, first[w] == nil, o.RingSize)
			} else {
				err = o.openSocket(&q.socket, mem.Memory, first[w], p.Ifindex, n, zeroCopy)
			}
			if err != nil {
				for _, p := range o.set.Ports {
					p.closeQueues()
				}
				return fmt.Errorf("open queue %d of port %s: %w", n, p.Name, err)
			}
			if first[w] == nil {
				first[w] = &q.socket
			}
			p.queues = append(p.queues, q)
			p.byWorker[w] = append(p.byWorker[w], q)
		}
	}
	return nil
}

// newQueue returns queue n of a port, without a socket and a share of the frames.
func (s *Set) newQueue(port, n int, zeroCopy bool) *Queue {
	mem := s.cfg.Workers[n%len(s.cfg.Workers)]
	q := &Queue{
		pool: mem.Pool, port: uint16(port), number: n, zeroCopy: zeroCopy, busy: zeroCopy && s.cfg.BusyPoll > 0,
		mu: &s.mu, options: socketOptions{mem.Memory, s.cfg.RingSize, zeroCopy, s.cfg.BusyPoll},
	}
	if s.cfg.large() {
		q.multi.mem, q.multi.sending = mem.Memory.Bytes(), make([]uint8, mem.Memory.Large())
	}
	return q
}

// openSocket opens s and binds it to a queue. It shares the UMEM of first, unless that is nil.
func (o *opening) openSocket(s *socket, m *umem.Memory, first *socket, ifindex, queue int, zeroCopy bool) error {
	if err := s.open(m, first == nil, o.RingSize); err != nil {
		return err
	}
	if first == nil {
		first = s
	}
	mode := "copy"
	if zeroCopy {
		mode = "zero-copy"
	}
	if err := s.bind(ifindex, queue, zeroCopy, o.large(), first, o.deadline); err != nil {
		s.close()
		if o.large() {
			return fmt.Errorf("bind %s with multi-buffer frames, which an MTU above %d needs, and Linux 6.6: %w", mode, umem.MaxMTU, err)
		}
		return fmt.Errorf("bind %s: %w", mode, err)
	}
	if o.BusyPoll > 0 {
		if err := s.busyPoll(o.BusyPoll); err != nil {
			s.close()
			return err
		}
	}
	return nil
}

// fill fills the fill rings and adds the sockets to the map of the program.
func (p *Port) fill() error {
	for _, q := range p.queues {
		q.Refill()
	}
	return p.listSockets()
}

// listSockets adds the sockets to the map of the program.
func (p *Port) listSockets() error {
	for i, q := range p.queues {
		if err := p.program.Sockets.Put(uint32(i), uint32(q.fd)); err != nil {
			return fmt.Errorf("add the socket of queue %d to the XDP program: %w", i, err)
		}
	}
	return nil
}
