package afxdp

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/internal/netdev"
	"github.com/warproute/warproute/umem"
)

// Port is an open interface.
type Port struct {
	Name    string
	Ifindex int     // changed by Reopen
	MAC     [6]byte // of the interface, changed by SetMAC
	// Mode is the active mode: ZeroCopy, Native or Generic.
	Mode Mode
	// ModeReason explains why a better mode is not active, "" with ZeroCopy.
	ModeReason string

	member   bool        // of a bond
	mtu      int         // at Open
	added    int         // queues that the driver has added for the program
	mu       *sync.Mutex // of the Set
	program  *program    // nil after Close
	rejected redirectErrors
	admitted bool     // the program redirects frames to MAC
	paused   bool     // all frames go to Linux until Resume
	queues   []*Queue // by number
	byWorker [][]*Queue

	// See handover.go.
	inherited bool // until Set.Attach
	withheld  bool // no frame is redirected to the sockets any more

	unattached bool      // the last Reattach failed
	closed     PortStats // counters of closed sockets
	received   uint64    // frames that they received
}

// newPort looks an interface up and checks that it can be a port.
func newPort(cfg PortConfig, workers int, large bool) (*Port, int, error) {
	name := cfg.Interface
	iface, err := netdev.InterfaceByName(name)
	if err != nil {
		return nil, 0, fmt.Errorf("%w (`ip link` lists them)", err)
	}
	if len(iface.HardwareAddr) != 6 {
		return nil, 0, fmt.Errorf("not an Ethernet interface: it has no MAC address")
	}
	if refused, ok := errors.AsType[*netdev.Refusal](netdev.CheckSockets(name, cfg.Member)); ok {
		return nil, 0, refused
	}
	most := umem.MaxMTU
	if large {
		most = umem.MaxLargeMTU
	}
	if iface.MTU > most {
		return nil, 0, fmt.Errorf("MTU of %d: a frame in memory holds %d at most (`ip link set %s mtu %d`)", iface.MTU, most, name, most)
	}
	rx, tx, err := netdev.Queues(name)
	if err != nil {
		return nil, 0, err
	}
	if tx < rx {
		return nil, 0, fmt.Errorf("fewer transmit queues (%d) than receive queues (%d): each queue must do both (`ethtool -L %s rx %d tx %d`)", tx, rx, name, tx, tx)
	}
	if rx < workers {
		return nil, 0, fmt.Errorf("fewer queues (%d) than workers (%d): each worker needs one of every port (more by `ethtool -L %s`, or fewer workers)", rx, workers, name)
	}
	p := &Port{Name: iface.Name, Ifindex: iface.Index, MAC: [6]byte(iface.HardwareAddr), member: cfg.Member, mtu: iface.MTU}
	return p, rx, nil
}

// Queues returns a worker's queues of the port.
func (p *Port) Queues(worker int) []*Queue { return p.byWorker[worker] }

// SetMAC sets the MAC address of the port. The XDP program passes frames to other addresses to Linux.
func (p *Port) SetMAC(mac [6]byte) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.program == nil {
		return fmt.Errorf("set the MAC address of port %s: %w", p.Name, errClosed)
	}
	if p.admitted {
		if err := p.program.setMAC(mac); err != nil {
			return fmt.Errorf("port %s: %w", p.Name, err)
		}
	}
	p.MAC = mac
	return nil
}

// SetNumber has the program treat frames as those of another port number: VLANs and further MAC addresses are
// those of this number. Members of a bond have the bond's.
func (p *Port) SetNumber(number uint16) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.program == nil {
		return fmt.Errorf("set the number of port %s: %w", p.Name, errClosed)
	}
	if err := p.program.PortNumber.Set(uint32(number)); err != nil {
		return fmt.Errorf("set the number of port %s in the XDP program: %w", p.Name, err)
	}
	return nil
}

// Paused reports whether all received frames go to Linux.
func (p *Port) Paused() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.paused
}

// Pause passes all received frames to Linux until Resume. The port still transmits.
func (p *Port) Pause() error { return p.setPaused(true) }

// Resume redirects frames to the sockets again.
func (p *Port) Resume() error { return p.setPaused(false) }

func (p *Port) setPaused(paused bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.program == nil {
		return fmt.Errorf("pause or resume port %s: %w", p.Name, errClosed)
	}
	set := func() error { return p.program.setMAC(p.MAC) }
	if paused {
		set = p.program.passAll
	}
	if err := set(); err != nil {
		return fmt.Errorf("port %s: %w", p.Name, err)
	}
	p.admitted, p.paused = !paused, paused
	return nil
}

// PortStats are the counters of a port since Open, all queues together.
//
// When the port is detached and its queues are empty, Frames[ToSocket] is the number of frames that
// Receive returned, plus RxDropped, RxRingFull and Refused.
type PortStats struct {
	// Frames are the frames by decision of the XDP program.
	Frames [NumDecisions]uint64

	// Counted by the kernel at the sockets, and by multi-buffer reception.
	RxDropped   uint64 // lost: too long, or the fill ring was empty
	RxRingFull  uint64 // lost: the RX ring was full
	RxFillEmpty uint64 // times the fill ring was empty when a frame was needed
	Refused     uint64 // lost: redirect errors; counted up to 2 s late
	RxInvalid   uint64 // addresses outside the UMEM in the fill ring
	TxInvalid   uint64 // descriptors outside the UMEM, or across two frames, in the TX ring
	TxEmpty     uint64 // times the TX ring was empty when the driver polled it

	// Descriptors in the rings now.
	FillLevel, RxLevel, TxLevel, CompletionLevel uint64
}

// Stats reads the counters of the port, while workers run.
func (p *Port) Stats() (st PortStats, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stats()
}

// stats is Stats for a caller that holds the lock.
func (p *Port) stats() (st PortStats, err error) {
	if p.program == nil {
		return st, fmt.Errorf("read the counters of port %s: %w", p.Name, errClosed)
	}
	now, received := time.Now(), p.received
	st = p.closed
	if st.Frames, err = p.program.counts(); err != nil {
		return st, fmt.Errorf("port %s: %w", p.Name, err)
	}
	for i, q := range p.queues {
		now, err := option[unix.XDPStatistics](q.fd, unix.XDP_STATISTICS)
		if err != nil {
			return st, fmt.Errorf("read the counters of port %s, queue %d: %w", p.Name, i, err)
		}
		s := counts(now).plus(q.past)
		st.RxDropped += s.Rx_dropped + q.multi.dropped.Load()
		st.RxRingFull += s.Rx_ring_full
		st.RxFillEmpty += s.Rx_fill_ring_empty_descs
		st.RxInvalid += s.Rx_invalid_descs
		st.TxInvalid += s.Tx_invalid_descs
		st.TxEmpty += s.Tx_ring_empty_descs
		st.FillLevel += uint64(q.fill.level())
		st.RxLevel += uint64(q.rx.level())
		received += q.received.Load() // after the level: a frame received in between counts twice, not never
		st.TxLevel += uint64(q.tx.level())
		st.CompletionLevel += uint64(q.completion.level())
	}
	st.Refused = p.rejected.update(st.Frames[ToSocket], received+st.RxLevel+st.RxDropped+st.RxRingFull, len(p.queues), now, p.program.link == nil || p.withheld)
	return st, nil
}

// counts are the counters of a socket.
type counts unix.XDPStatistics

func (c counts) plus(o counts) counts {
	c.Rx_dropped += o.Rx_dropped
	c.Rx_invalid_descs += o.Rx_invalid_descs
	c.Tx_invalid_descs += o.Tx_invalid_descs
	c.Rx_ring_full += o.Rx_ring_full
	c.Rx_fill_ring_empty_descs += o.Rx_fill_ring_empty_descs
	c.Tx_ring_empty_descs += o.Tx_ring_empty_descs
	return c
}

var errClosed = errors.New("the port is closed")
