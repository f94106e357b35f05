package esp_test

import (
	"testing"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/dataplane/esp"
	"github.com/warproute/warproute/ipsec"
)

// TestOnlyTheInnerPacketIsAdmitted: a device's result for other bytes of the frame is not believed.
func TestOnlyTheInnerPacketIsAdmitted(t *testing.T) {
	_, _, sa := secured(t, config(ipsec.In, false)) // IV 8, ICV 16
	f := batch.Frame{Addr: 4098, Len: 14 + 20 + 8 + 8 + 100 + 16}
	job := esp.Job{Kind: esp.Open, SA: sa, ESP: 14 + 20, Bytes: 8 + 8 + 100 + 16}
	const inner = 4098 + 20 + 8 + 8 // its Ethernet header
	for _, c := range []struct {
		addr uint32
		len  uint16
		want bool
	}{
		{inner, 14 + 98, true}, {inner, 14 + 20, true}, {inner, 14 + 19, false}, {inner, 14 + 116, true}, {inner, 14 + 117, false}, {inner, 65535, false}, {inner, 0, false},
		{inner - 2, 14 + 98, false}, {inner + 2, 14 + 98, false}, {4098, 14 + 98, false}, {0, 14 + 98, false}, {1<<32 - 2, 14 + 98, false},
	} {
		job.Admit(f, batch.ForwardTo(1, c.addr, c.len))
		if job.Admitted != c.want {
			t.Errorf("%d bytes at %d: admitted %v", c.len, c.addr, job.Admitted)
		}
	}
}
