package afxdp

import (
	"errors"
	"fmt"
	"math/bits"
	"time"

	"github.com/warproute/warproute/umem"
)

// PortConfig asks for a port.
type PortConfig struct {
	Interface string
	// Mode is Auto, or the only mode that will do.
	Mode Mode
}

// WorkerMemory is where a worker keeps its frames. The memory must stay mapped
// until the Set is closed; the pool is the worker's, and Open's before that. Where a
// port's MTU is above umem.MaxMTU, all workers need large frames.
type WorkerMemory struct {
	Memory *umem.Memory
	Pool   *umem.Pool
}

// Config says what to open.
type Config struct {
	// Ports are the router's; frames received on Ports[i] carry Port i.
	Ports []PortConfig
	// Workers share the queues: queue q of every port belongs to worker
	// q % len(Workers).
	Workers []WorkerMemory
	// RingSize is the entries of each RX and TX ring, a power of two; the fill
	// and completion rings have twice as many. 0 means DefaultRingSize.
	RingSize uint32
	// BusyPoll is for how long a system call may do the driver's work instead
	// of its interrupts, in whole microseconds; 0 turns it off.
	BusyPoll time.Duration
}

// DefaultRingSize holds a millisecond of frames at 2 million a second.
const DefaultRingSize = 2048

const maxRingSize = 1 << 15

// LargePerQueue is how many large frames a queue can keep busy, where there are any: a TX
// ring full of jumbo frames, and half as many on their way through the worker.
func LargePerQueue(ringSize uint32) int { return int(ringSize) / 4 }

// FramesPerQueue is how many frames of memory a queue can keep busy: those to
// receive into, received ones on their way through the worker, and those that
// are being sent. With less memory it works, with more losses in a burst.
func FramesPerQueue(ringSize uint32) int { return 4 * int(ringSize) }

// check refuses what cannot be opened whatever the machine.
func (c *Config) check() error {
	if len(c.Ports) == 0 || len(c.Workers) == 0 {
		return errors.New("at least one port and one worker are needed")
	}
	for i, p := range c.Ports {
		if int(p.Mode) >= len(modes) {
			return fmt.Errorf("port %s: XDP mode %d does not exist", p.Interface, p.Mode)
		}
		for _, q := range c.Ports[:i] {
			if p.Interface == q.Interface {
				return fmt.Errorf("port %s is given twice", p.Interface)
			}
			// Sockets of one memory are zero-copy together or not at all.
			a, b := p, q
			if b.Mode == ZeroCopy {
				a, b = q, p
			}
			if a.Mode == ZeroCopy && b.Mode != ZeroCopy && b.Mode != Auto {
				return fmt.Errorf("port %s is to be zero-copy and port %s %v: give both the same mode, because ports that exchange frames share memory", a.Interface, b.Interface, b.Mode)
			}
		}
	}
	for i, w := range c.Workers {
		if w.Memory == nil || w.Pool == nil {
			return fmt.Errorf("worker %d has no memory or no pool", i)
		}
	}
	if bits.OnesCount32(c.RingSize) != 1 || c.RingSize > maxRingSize {
		return fmt.Errorf("ring size %d: take a power of two up to %d", c.RingSize, maxRingSize)
	}
	if c.BusyPoll < 0 || c.BusyPoll > 0 && c.BusyPoll < time.Microsecond {
		return fmt.Errorf("busy polling for %v: take a microsecond or more, or 0 to turn it off", c.BusyPoll)
	}
	return nil
}
