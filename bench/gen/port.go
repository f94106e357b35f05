package gen

import (
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/warproute/warproute/afxdp"
	"github.com/warproute/warproute/dataplane"
	"github.com/warproute/warproute/internal/ethtool"
	"github.com/warproute/warproute/umem"
)

// Port is where packets are sent or received. OpenPort makes one of a Linux
// interface; tests and benchmarks make theirs of memory.
type Port struct {
	Name    string
	MAC     net.HardwareAddr
	MTU     int    // in bytes; 0: not known
	Mode    string // how frames reach the interface
	Workers []Worker

	set      *afxdp.Set // nil where it is no interface
	memories []*umem.Memory
}

// Worker is a thread's share of a port.
type Worker struct {
	Queues []dataplane.Queue // all are received from, the first is sent on
	Memory *umem.Memory
	Pool   *umem.Pool
}

// ringSize is twice a router's: what waits while a busy machine runs something
// else than the receiver should not look lost.
const ringSize = 2 * afxdp.DefaultRingSize

// OpenPort opens an interface of the calling thread's network namespace, to be
// used by so many cores, each of which needs a queue. Until it is given to Run to
// receive on, Linux goes on receiving as before.
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
	queues, _, err := ethtool.Queues(p.Name)
	if err != nil {
		return fmt.Errorf("open port %s: %w", p.Name, err)
	}
	if queues < cores {
		return fmt.Errorf("open port %s for %d cores: each needs a queue, and there are %d (more by `ethtool -L %s`)", p.Name, cores, queues, p.Name)
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

// carrierTime is how long a link that has just been set up may take to say so:
// Linux reports it once a second.
const carrierTime = 2 * time.Second

// findLink looks a link up and waits until it can send.
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

// Close gives the interface back to Linux. Run must have returned. To close twice
// is no error.
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

// admit has packets come here instead of to Linux.
func (p *Port) admit() error {
	if p.set == nil {
		return nil
	}
	return p.set.Admit()
}

// missed is how many packets reached a port but not its receivers, which were too
// slow.
func missed(p *Port) (uint64, error) {
	if p == nil || p.set == nil {
		return 0, nil
	}
	st, err := p.set.Ports[0].Stats()
	return st.RxDropped + st.RxRingFull, err
}
