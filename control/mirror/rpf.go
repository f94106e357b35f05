package mirror

import "github.com/warproute/warproute/fib"

// SetRPF sets the reverse path filtering of a port in the FIB, whose only writer is the mirror. It
// does nothing after Close.
func (m *Mirror) SetRPF(port int, r fib.RPF) {
	m.do(func() {
		m.fib.SetRPF(uint16(port), r)
		m.fib.Commit()
	})
}
