package afxdp

import (
	"errors"
	"fmt"
	"math/bits"
	"time"

	"github.com/warproute/warproute/umem"
)

// PortConfig configures a port.
type PortConfig struct {
	Interface string
	// Mode is Auto or the required mode.
	Mode Mode
	// Member permits a member of a bond.
	Member bool
	// Inherited is set if another process has the port and hands it over, for all ports or for none. Then
	// Open neither attaches a program nor binds a socket: Set.Bind and Set.Attach do.
	Inherited *Inherited
}

// WorkerMemory is the UMEM of a worker and the pool of its frames. The memory must stay mapped until
// Set.Close. After Open, only the worker uses the pool. If the MTU of a port exceeds umem.MaxMTU, all
// workers need large frames.
type WorkerMemory struct {
	Memory *umem.Memory
	Pool   *umem.Pool
}

// Config configures Open.
type Config struct {
	// Ports are the ports of the router; frames received on Ports[i] have Port i.
	Ports []PortConfig
	// Workers share the queues: queue q of every port belongs to worker q % len(Workers).
	Workers []WorkerMemory
	// AddedQueues is the number of queues of each worker that ports of Set.Add can have, besides those of
	// removed ports. The memory of a worker has FramesPerAddedQueue for each.
	AddedQueues int
	// RingSize is the number of descriptors of each RX and TX ring, a power of two; fill and
	// completion rings have twice as many. 0 means DefaultRingSize.
	RingSize uint32
	// BusyPoll is the time that a system call may poll the driver, which replaces interrupts, in
	// whole microseconds; 0 disables it.
	BusyPoll time.Duration
}

// DefaultRingSize holds a millisecond of frames at 2 million a second.
const DefaultRingSize = 2048

const maxRingSize = 1 << 15

// LargePerQueue returns the number of large frames that a queue can use: a TX ring full of jumbo
// frames, and half as many in the worker.
func LargePerQueue(ringSize uint32) int { return int(ringSize) / 4 }

// FramesPerQueue returns the number of frames that a queue can use: to receive into, in the worker,
// and being transmitted. With fewer, it loses more packets in a burst.
func FramesPerQueue(ringSize uint32) int { return 4 * int(ringSize) }

// FramesPerAddedQueue returns the number of frames that a queue of an added port can use.
func FramesPerAddedQueue(ringSize uint32) int { return int(ringSize) }

// check validates the configuration.
func (c *Config) check() error {
	if len(c.Ports) == 0 && c.AddedQueues == 0 || len(c.Workers) == 0 {
		return errors.New("at least one port and one worker are needed")
	}
	for i, p := range c.Ports {
		if int(p.Mode) >= len(modes) {
			return fmt.Errorf("port %s: unknown XDP mode %d", p.Interface, p.Mode)
		}
		for _, q := range c.Ports[:i] {
			if p.Interface == q.Interface {
				return fmt.Errorf("port %s is given twice", p.Interface)
			}
			// Sockets that share a UMEM have the same mode.
			a, b := p, q
			if b.Mode == ZeroCopy {
				a, b = q, p
			}
			if a.Mode == ZeroCopy && b.Mode != ZeroCopy && b.Mode != Auto {
				return fmt.Errorf("port %s is configured as zero-copy and port %s as %v: ports share the UMEM, so they need the same mode", a.Interface, b.Interface, b.Mode)
			}
		}
	}
	for _, p := range c.Ports {
		if (p.Inherited == nil) != (c.Ports[0].Inherited == nil) {
			return fmt.Errorf("port %s: all ports are inherited or none", p.Interface)
		}
	}
	for i, w := range c.Workers {
		if w.Memory == nil || w.Pool == nil {
			return fmt.Errorf("worker %d has no memory or no pool", i)
		}
	}
	if bits.OnesCount32(c.RingSize) != 1 || c.RingSize > maxRingSize {
		return fmt.Errorf("ring size %d: use a power of two up to %d", c.RingSize, maxRingSize)
	}
	if c.BusyPoll < 0 || c.BusyPoll > 0 && c.BusyPoll < time.Microsecond {
		return fmt.Errorf("busy polling for %v: use a microsecond or more, or 0 to disable it", c.BusyPoll)
	}
	return nil
}
