package nics

import (
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/warproute/warproute/internal/lab/guest"
	"github.com/warproute/warproute/internal/require"
)

// flapsPerRouter is the number of flaps before a router is stopped for its account.
const flapsPerRouter = 6

// Ports of every driver flap under load for WARPROUTE_NICS_FLAP. The router forwards again after each flap, and
// its account has every frame.
func TestFlapping(t *testing.T) {
	if !full() {
		t.Skip("make test-nics runs it")
	}
	limit, err := time.ParseDuration(os.Getenv("WARPROUTE_NICS_FLAP"))
	require.NoError(t, err)
	m := boot(t, newest, all...)
	flaps, routers := 0, 0
	for start := time.Now(); time.Since(start) < limit || routers < len(m.pairs); routers++ {
		p := m.pairs[routers%len(m.pairs)]
		r, log, ok := p.start(t, "")
		if !ok {
			t.Fatalf("%s: the router does not start:\n%s", p.model, log)
		}
		r.answers(t, 30*time.Second)
		stop := r.load(t)
		for i := range flapsPerRouter {
			side := i % 2
			r.flap(t, side, i%3 == 0)
			r.answers(t, 30*time.Second)
			flaps++
		}
		sent, received := stop()
		a := r.stop()
		t.Logf("%s: %d sent, %d arrived; %+v", p.model, sent, received, a)
		if received == 0 || uint64(received) > a.Transmitted {
			t.Errorf("%s: %d frames arrived, and the router transmitted %d", p.model, received, a.Transmitted)
		}
		if t.Failed() {
			return
		}
	}
	t.Logf("%d flaps, %d routers", flaps, routers)
}

// flap takes a port down and up, by its cable or by Linux.
func (r *router) flap(t *testing.T, side int, cable bool) {
	t.Helper()
	if cable && r.model != guest.E1000E || r.model == guest.VMXNET3 { // which forgets the program when set down
		nic := 2*(r.number-1) + side
		require.NoError(t, r.SetCarrier(nic, false))
		time.Sleep(100 * time.Millisecond)
		require.NoError(t, r.SetCarrier(nic, true))
		return
	}
	r.sh(t, fmt.Sprintf("ip link set %s down; sleep 0.1", r.port(side)))
	r.configure(t)
}

// load sends frames in both directions until stop, which returns the numbers of sent and received frames.
func (r *router) load(t *testing.T) (stop func() (sent, received int)) {
	t.Helper()
	flows := [2]*flow{r.flow(t, 0, 0, 64, 1400), r.flow(t, 1, 1<<20, 64, 1400)}
	var ended atomic.Bool
	var all sync.WaitGroup
	for _, f := range flows {
		all.Go(func() {
			for !ended.Load() {
				f.send(burst)
			}
		})
	}
	return func() (sent, received int) {
		ended.Store(true)
		all.Wait()
		for _, f := range flows {
			s, n, repeated := f.end(t)
			sent, received = sent+s, received+n
			if repeated > 0 {
				t.Errorf("%s: %d frames arrived twice", r.model, repeated)
			}
		}
		return sent, received
	}
}
