package gen

// mix gives frames their sizes, in an order that is repeated. Where the number of
// flows shares a factor with the length of the order, each flow would get some of
// the sizes only: so the order is begun one place further whenever flows and
// sizes have come round together, which leaves the shares of sizes exact.
type mix struct {
	order  []int
	at     int
	period int // packets until flows and sizes come round together
	left   int
}

func newMix(order []int, flows int) mix {
	period := len(order) / gcd(len(order), flows) * flows
	return mix{order: order, period: period, left: period}
}

// next is the next size, an index of the lengths.
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
