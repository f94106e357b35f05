package gen

import (
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/warproute/warproute/afxdp"
	"github.com/warproute/warproute/dataplane"
	"github.com/warproute/warproute/internal/netdev"
	"github.com/warproute/warproute/umem"
)

// Port sends or receives packets. OpenPort opens a Linux interface; tests use memory.
type Port struct {
	Name    string
	MAC     net.HardwareAddr
	MTU     int    // in bytes; 0: unknown
	Mode    string // how frames reach the interface
	Workers []Worker

	set      *afxdp.Set // nil without an interface
	memories []*umem.Memory
}

// Worker is the queues and memory of one thread.
type Worker struct {
	Queues []dataplane.Queue // all receive, the first sends
	Memory *umem.Memory
	Pool   *umem.Pool
}

// ringSize is twice that of a router, so that a delayed receiver loses nothing.
const ringSize = 2 * afxdp.DefaultRingSize

// OpenPort opens an interface of the current network namespace for a number of cores, each of which
// needs a queue. Linux receives its packets until Run receives on the port.
func OpenPort(name string, cores int) (*Port, error) {
	p := &Port{Name: name}
	if err := p.open(max(cores, 1)); err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

func (p *Port) open(cores int) error {
	link, err := findLink(p.Name)
	if err != nil {
		return fmt.Errorf("open port %s: %w", p.Name, err)
	}
	queues, _, err := netdev.Queues(p.Name)
	if err != nil {
		return fmt.Errorf("open port %s: %w", p.Name, err)
	}
	if queues < cores {
		return fmt.Errorf("open port %s for %d cores: each needs a queue, and it has %d (set with `ethtool -L %s`)", p.Name, cores, queues, p.Name)
	}
	cfg := afxdp.Config{Ports: []afxdp.PortConfig{{Interface: p.Name}}, RingSize: ringSize}
	frames := (queues + cores - 1) / cores * afxdp.FramesPerQueue(ringSize)
	for range cores {
		m, err := umem.New(frames)
		if err != nil {
			return fmt.Errorf("open port %s: %w", p.Name, err)
		}
		p.memories = append(p.memories, m)
		cfg.Workers = append(cfg.Workers, afxdp.WorkerMemory{Memory: m, Pool: umem.NewPool(m)})
	}
	if p.set, err = afxdp.Open(cfg); err != nil {
		return err
	}
	port := p.set.Ports[0]
	p.MAC, p.MTU, p.Mode = net.HardwareAddr(port.MAC[:]), link.MTU, "AF_XDP, "+port.Mode.String()
	for i, m := range cfg.Workers {
		w := Worker{Memory: m.Memory, Pool: m.Pool}
		for _, q := range port.Queues(i) {
			w.Queues = append(w.Queues, q)
		}
		p.Workers = append(p.Workers, w)
	}
	return nil
}

// carrierTime limits the wait for the carrier of a new link, which Linux reports once a second.
const carrierTime = 2 * time.Second

// findLink returns a link after it has a carrier.
func findLink(name string) (link *net.Interface, err error) {
	for end := time.Now().Add(carrierTime); ; time.Sleep(10 * time.Millisecond) {
		link, err = net.InterfaceByName(name)
		switch {
		case err != nil:
			return nil, fmt.Errorf("look up the interface: %w (`ip link` lists those of this network namespace)", err)
		case link.Flags&net.FlagUp == 0:
			return nil, fmt.Errorf("the interface is down (`ip link set %s up`)", name)
		case link.Flags&net.FlagRunning != 0:
			return link, nil
		case time.Now().After(end):
			return nil, errors.New("the interface has no carrier: its other end is down")
		}
	}
}

// Close returns the interface to Linux. Run must have returned. A second Close does nothing.
func (p *Port) Close() error {
	var errs []error
	if p.set != nil {
		errs = append(errs, p.set.Close())
		p.set = nil
	}
	for _, m := range p.memories {
		errs = append(errs, m.Close())
	}
	p.memories, p.Workers = nil, nil
	return errors.Join(errs...)
}

// admit directs packets to the port instead of Linux.
func (p *Port) admit() error {
	if p.set == nil {
		return nil
	}
	return p.set.Admit()
}

// missed returns the number of packets that the receivers of a port were too slow for.
func missed(p *Port) (uint64, error) {
	if p == nil || p.set == nil {
		return 0, nil
	}
	st, err := p.set.Ports[0].Stats()
	return st.RxDropped + st.RxRingFull, err
}
