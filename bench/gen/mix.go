package gen

// mix assigns sizes to frames in a repeated order. When flows and sizes complete a common period, the
// order is shifted by one, so that every flow gets all sizes.
type mix struct {
	order  []int
	at     int
	period int // packets in which flows and sizes repeat
	left   int
}

func newMix(order []int, flows int) mix {
	period := len(order) / gcd(len(order), flows) * flows
	return mix{order: order, period: period, left: period}
}

// next returns the next size, as an index of the lengths.
func (m *mix) next() int {
	size := m.order[m.at]
	m.advance()
	if m.left--; m.left == 0 {
		m.left = m.period
		m.advance()
	}
	return size
}

func (m *mix) advance() {
	if m.at++; m.at == len(m.order) {
		m.at = 0
	}
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
