package mirror

import "github.com/warproute/warproute/fib"

// SetRPF sets the reverse path filtering of a port in the FIB, whose only writer is the mirror. It
// does nothing after Close.
func (m *Mirror) SetRPF(port int, r fib.RPF) {
	m.do(func() {
		m.setRPF(port, r)
	})
}

func (m *Mirror) setRPF(port int, r fib.RPF) {
	m.fib.SetRPF(uint16(port), r)
	m.updateVRFs() // rules by ingress interface need another mode than strict
	m.fib.Commit()
}

// SetLogicalRPF is SetRPF for a logical port, unless it is that of another link by now.
func (m *Mirror) SetLogicalRPF(port, ifindex int, r fib.RPF) {
	m.do(func() {
		if p := m.logical[port]; p != nil && p.Ifindex == ifindex {
			m.setRPF(port, r)
		}
	})
}
