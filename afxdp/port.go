package afxdp

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/internal/ethtool"
	"github.com/warproute/warproute/internal/netdev"
	"github.com/warproute/warproute/umem"
)

// Port is an interface whose frames the router has.
type Port struct {
	Name    string
	Ifindex int     // Reopen changes it
	MAC     [6]byte // the interface's, until SetMAC
	// Mode is the mode in force: ZeroCopy, Native or Generic.
	Mode Mode
	// ModeReason says why a better mode is not in force, "" with ZeroCopy.
	ModeReason string

	mtu      int         // when it was opened
	mu       *sync.Mutex // of the Set
	program  *program    // nil after Close
	refusals refusals
	admitted bool     // the program lets frames to MAC in
	lent     bool     // to Linux, until Recall
	queues   []*Queue // by number
	byWorker [][]*Queue
}

// newPort looks the interface up and refuses what cannot be a port.
func newPort(name string, workers int, large bool) (*Port, int, error) {
	iface, err := net.InterfaceByName(name)
	if err != nil {
		return nil, 0, fmt.Errorf("look up the interface: %w (`ip link` lists those of this network namespace)", err)
	}
	if len(iface.HardwareAddr) != 6 {
		return nil, 0, fmt.Errorf("not an Ethernet interface: it has no MAC address")
	}
	if refused, ok := errors.AsType[*netdev.Refusal](netdev.CheckPort(name)); ok {
		return nil, 0, refused
	}
	most := umem.MaxMTU
	if large {
		most = umem.MaxLargeMTU
	}
	if iface.MTU > most {
		return nil, 0, fmt.Errorf("MTU of %d: a frame in memory holds %d at most (`ip link set %s mtu %d`)", iface.MTU, most, name, most)
	}
	rx, tx, err := ethtool.Queues(name)
	if err != nil {
		return nil, 0, err
	}
	if tx < rx {
		return nil, 0, fmt.Errorf("fewer transmit queues (%d) than receive queues (%d): each queue must do both (`ethtool -L %s rx %d tx %d`)", tx, rx, name, tx, tx)
	}
	if rx < workers {
		return nil, 0, fmt.Errorf("fewer queues (%d) than workers (%d): each worker needs one of every port (more by `ethtool -L %s`, or fewer workers)", rx, workers, name)
	}
	p := &Port{Name: iface.Name, Ifindex: iface.Index, MAC: [6]byte(iface.HardwareAddr), mtu: iface.MTU}
	return p, rx, nil
}

// Queues returns the queues of the port that belong to a worker.
func (p *Port) Queues(worker int) []*Queue { return p.byWorker[worker] }

// SetMAC tells the XDP program that the interface has another MAC address.
// Frames to any other address go to Linux.
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

// Lend leaves every frame that the interface receives to Linux until Recall. What is sent
// by the port still is.
func (p *Port) Lend() error { return p.lend(true) }

// Recall takes the frames that are not Linux's own from it again.
func (p *Port) Recall() error { return p.lend(false) }

func (p *Port) lend(lent bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.program == nil {
		return fmt.Errorf("leave the frames of port %s to Linux, or take them back: %w", p.Name, errClosed)
	}
	set := func() error { return p.program.setMAC(p.MAC) }
	if lent {
		set = p.program.matchNone
	}
	if err := set(); err != nil {
		return fmt.Errorf("port %s: %w", p.Name, err)
	}
	p.admitted, p.lent = !lent, lent
	return nil
}

// PortStats are a port's counts since Open, all its queues together.
//
// Once the port is detached and its queues have been received from until they
// are empty, Frames[ToSocket] is the number of frames that Receive returned
// plus RxDropped plus RxRingFull plus Refused.
type PortStats struct {
	// Frames counts what the XDP program decided.
	Frames [NumDecisions]uint64

	// Counted by the kernel at the sockets, and where frames are put together.
	RxDropped   uint64 // lost: longer than a frame of memory, or no frame was in the fill ring
	RxRingFull  uint64 // lost: the RX ring was full
	RxFillEmpty uint64 // how often the fill ring was empty when a frame was wanted
	Refused     uint64 // lost: not handed to the socket by the kernel; counts up to 2 s late
	RxInvalid   uint64 // addresses outside the memory in the fill ring
	TxInvalid   uint64 // frames outside the memory, or across two of its frames, in the TX ring
	TxEmpty     uint64 // how often the TX ring was empty when the driver looked

	// Entries in the rings now.
	FillLevel, RxLevel, TxLevel, CompletionLevel uint64
}

// Stats reads the port's counts. It may be called beside the workers.
func (p *Port) Stats() (st PortStats, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.program == nil {
		return st, fmt.Errorf("read the counters of port %s: %w", p.Name, errClosed)
	}
	now := time.Now()
	if st.Frames, err = p.program.counts(); err != nil {
		return st, fmt.Errorf("port %s: %w", p.Name, err)
	}
	var received uint64
	for i, q := range p.queues {
		now, err := option[unix.XDPStatistics](q.fd, unix.XDP_STATISTICS)
		if err != nil {
			return st, fmt.Errorf("read the counters of port %s, queue %d: %w", p.Name, i, err)
		}
		s := counts(now).plus(q.past)
		st.RxDropped += s.Rx_dropped + q.pieces.dropped.Load()
		st.RxRingFull += s.Rx_ring_full
		st.RxFillEmpty += s.Rx_fill_ring_empty_descs
		st.RxInvalid += s.Rx_invalid_descs
		st.TxInvalid += s.Tx_invalid_descs
		st.TxEmpty += s.Tx_ring_empty_descs
		st.FillLevel += uint64(q.fill.level())
		st.RxLevel += uint64(q.rx.level())
		received += q.received.Load() // after the level: what is received meanwhile counts twice
		st.TxLevel += uint64(q.tx.level())
		st.CompletionLevel += uint64(q.completion.level())
	}
	st.Refused = p.refusals.update(st.Frames[ToSocket], received+st.RxLevel+st.RxDropped+st.RxRingFull, len(p.queues), now, p.program.link == nil)
	return st, nil
}

// counts are what the kernel counts at a socket.
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
