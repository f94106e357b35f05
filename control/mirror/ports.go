package mirror

import (
	"errors"
	"fmt"

	"github.com/warproute/warproute/control/rtnl"
	"github.com/warproute/warproute/fib"
)

// Physical ports can be added and removed while the mirror runs. Start gets a Port for each number; one without
// a name is a free number. All calls run on the mirror's goroutine, the only writer of the FIB.

// ErrNoLink is returned for a link that does not exist, or whose event the mirror has not read yet.
var ErrNoLink = errors.New("link does not exist")

// AddPort makes a link the port with a free number: routes over the link lead to the port. The hook PortChanged runs
// before it returns. The error is ErrNoLink, or that of a link that is a port already.
func (m *Mirror) AddPort(number int, p Port) (err error) {
	if !m.do(func() { err = m.addPort(number, p) }) {
		return fmt.Errorf("add port %s: the mirror is closed", p.Name)
	}
	return err
}

// RemovePort makes a number free: packets to the port are dropped as port_down, and routes over its link as those
// over any other link that is no port. VLANs of the port are deleted before.
func (m *Mirror) RemovePort(number int) {
	m.do(func() {
		m.state.removePort(number)
		m.writeChanges()
	})
}

func (m *Mirror) addPort(number int, p Port) error {
	l := m.links[p.Ifindex]
	switch {
	case m.ports[number].Name != "":
		return fmt.Errorf("add port %s: number %d is port %s", p.Name, number, m.ports[number].Name)
	case l == nil:
		return fmt.Errorf("add port %s, index %d: %w", p.Name, p.Ifindex, ErrNoLink)
	case l.port >= 0:
		return fmt.Errorf("add port %s: the link belongs to port %s", p.Name, m.portName(l.port))
	}
	if p.Bond != "" && m.bondNamed(p.Bond) == nil {
		return fmt.Errorf("add port %s: no port is bond %s", p.Name, p.Bond)
	}
	m.openPort(number, p, l)
	for _, f := range families { // neighbors of the link were ignored
		err := m.conn.Dump(rtnl.Neighbors(f), func(msg rtnl.Message) error {
			return rtnl.Parse(msg, func(n *rtnl.Neighbor) {
				if n.Index == p.Ifindex {
					m.setNeighbor(n, false)
				}
			})
		})
		if err != nil {
			m.suspects.addAll()
		}
	}
	m.writeChanges()
	return nil
}

// openPort makes a link the port with a free number.
func (s *state) openPort(number int, p Port, l *link) {
	s.ports[number] = port{Port: p}
	s.addMember(number)
	s.relink(l)
}

// relink updates a link whose port was added or removed.
func (s *state) relink(l *link) {
	was := l.port
	s.updatePort(l)
	if l.port != was || l.port < 0 {
		s.reprogramOver(l.Index)
	}
	s.updateChildren(l.Index)
}

func (s *state) removePort(number int) {
	p := s.ports[number]
	index := p.ifindex
	s.removeMember(number)
	s.fib.SetPort(uint16(number), toMAC(p.mac), 0)
	s.fib.SetRPF(uint16(number), fib.RPF{})
	s.closePort(number)
	s.ports[number] = port{}
	s.changed = true
	l := s.links[index]
	if l == nil || l.port != number {
		return
	}
	l.port, l.ignored = -1, true // with pause, the port would be reported
	s.forgetNeighborsOn(index)
	s.relink(l)
}
