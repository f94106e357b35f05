package esp_test

import (
	"testing"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/internal/testutil"
)

// Packets out of a tunnel to the host may have any TTL, as BGP's do; those to others expire.
func TestHostReceivesPacketsWithTTL1(t *testing.T) {
	x := newRoutedWorld(t, 7)
	x.routeBased(t)
	for _, c := range []struct {
		dst  string
		ttl  byte
		want batch.Reason
	}{
		{"10.6.0.1", 64, batch.LocalDelivery}, {"10.6.0.1", 1, batch.LocalDelivery}, {"10.6.0.1", 0, batch.LocalDelivery},
		{"10.1.0.1", 1, batch.TTLExpired},
	} {
		f := x.sealed(testutil.Edit(testutil.UDP4("10.30.0.1", c.dst, 1, 2, make([]byte, 40)...), 8, c.ttl), 1)
		if r := x.Submit(wan, f)[0]; r.Verdict != batch.Drop(c.want) {
			t.Errorf("to %s with a TTL of %d: %v, want %v", c.dst, c.ttl, r.Verdict, c.want)
		} else if o := x.Chunk.In[0].Origin; c.want == batch.LocalDelivery && !o.Has(batch.InboundChecked) {
			t.Errorf("to %s with a TTL of %d: the policies have not admitted it", c.dst, c.ttl)
		}
	}
	clear := testutil.Edit(testutil.UDP4("10.30.0.1", "10.6.0.1", 1, 2), 8, 1)
	if r := x.Submit(wan, clear)[0]; r.Verdict != batch.Drop(batch.TTLExpired) {
		t.Errorf("in cleartext: %v", r.Verdict)
	}
}
