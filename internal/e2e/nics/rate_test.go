package nics

import (
	"testing"
	"time"

	"github.com/warproute/warproute/internal/lab"
)

// transferBytes are the bytes of a TCP transfer; the emulation forwards some 100 Mbit/s.
const transferBytes = 16 << 20

// transferRate returns the rate of TCP from one host to the other, in Mbit/s. The data is compared.
func (p *pair) transferRate(t *testing.T) float64 {
	t.Helper()
	r, err := lab.Transfer(p.hosts[0], p.hosts[1], p.addr(0, 1, 2), transferBytes, time.Minute)
	if err != nil {
		t.Errorf("%s, Linux %s: %v", p.model, p.kernel, err)
		return 0
	}
	return r.BitsPerSecond() / 1e6
}
