package gpu

import (
	"strings"
	"testing"
	"time"

	"github.com/warproute/warproute/dataplane/cpu"
	"github.com/warproute/warproute/internal/testutil"
	"github.com/warproute/warproute/ipsec/gateway"
)

// gatewayOnFakes opens a gateway on the fake driver's two GPUs, with a worker on each.
func gatewayOnFakes(t *testing.T, f *fake, library string) *Devices {
	t.Helper()
	net, g := testutil.NewNetwork(), &gateway.Gateway{}
	s := openFakes(t, f, net.FIB, Options{Library: library, Gateway: g, Workers: 2, PartialChecksums: net.PartialChecksums})
	for n := range 2 {
		mem := mapMemory(t, 1<<16)
		fallback := cpu.New(net.FIB, mem, net.PartialChecksums)
		fallback.Secure(g, n)
		got(s.NewEngine(mem, 1, 100, fallback))(t)
	}
	return s
}

// TestDevicesShareNumbers: those of the first device, of which one lender lends them.
func TestDevicesShareNumbers(t *testing.T) {
	f, library := newFake(t)
	f.peers = 1
	s := gatewayOnFakes(t, f, library)
	home, other := s.All[0].ipsecTables, s.All[1].ipsecTables
	if a, b := home.params(), other.params(); a.Seqs == 0 || a.Seqs != b.Seqs || a.Tunnels == 0 || a.Tunnels != b.Tunnels || a.NowServing == b.NowServing || a.Keys == b.Keys {
		t.Errorf("tables %+v and %+v", a, b)
	}
	if l := home.lender; l == nil || other.lender != l || s.All[1].kernel.lender != nil || len(l.users.all) != 2 || s.HostNumbers != nil {
		t.Errorf("lenders %p and %p, the host assigns numbers: %v", l, other.lender, s.HostNumbers)
	}
	if f.enabled != 1 {
		t.Errorf("%d devices have access to the memory of another one, want 1", f.enabled)
	}
}

// TestHostNumbersWithoutPeerAccess: GPUs that cannot share numbers leave them to the host. A single one does not.
func TestHostNumbersWithoutPeerAccess(t *testing.T) {
	f, library := newFake(t)
	s := gatewayOnFakes(t, f, library)
	if s.HostNumbers == nil || s.All[0].ipsecTables.lender != nil || s.All[1].ipsecTables.lender != nil || f.enabled != 0 {
		t.Errorf("the host assigns numbers: %v", s.HostNumbers)
	}
	for _, o := range []Options{{GPUs: 1, Workers: 2}, {Workers: 1}} {
		f, library := newFake(t)
		o.Library, o.Gateway = library, &gateway.Gateway{}
		one := openFakes(t, f, testutil.NewNetwork().FIB, o)
		if len(one.All) != 1 || one.HostNumbers != nil || one.All[0].ipsecTables.lender == nil {
			t.Errorf("%d GPUs, the host assigns numbers: %v", len(one.All), one.HostNumbers)
		}
	}
}

// TestPeerAccessIsRefused: the other GPU serves the workers alone, and the error says why, and what helps.
func TestPeerAccessIsRefused(t *testing.T) {
	f, library := newFake(t)
	f.peers = 1
	f.failNext("cuCtxEnablePeerAccess")
	s := openFakes(t, f, testutil.NewNetwork().FIB, Options{Library: library, Gateway: &gateway.Gateway{}, Workers: 2})
	if len(s.All) != 1 || len(s.Unusable) != 1 || s.All[0].ipsecTables.lender == nil {
		t.Fatalf("%d GPUs, unusable: %v", len(s.All), s.Unusable)
	}
	for _, part := range []string{"use GPU 1: share the sequence numbers of ESP with GPU 0: access memory of GPU 0 from GPU 1: cuCtxEnablePeerAccess(", "set CUDA_VISIBLE_DEVICES to one GPU"} {
		if !strings.Contains(s.Unusable[0].Error(), part) {
			t.Errorf("%v, want %q in it", s.Unusable[0], part)
		}
	}
}

// TestHomeRunsWhileOthersDo: its kernel is launched when that of a device is that takes its numbers, and does not park before that one has.
func TestHomeRunsWhileOthersDo(t *testing.T) {
	const after = 50 * time.Millisecond
	r := newKernelRig(t, 1, Options{Park: after, Timeout: time.Minute})
	other := &kernel{d: &Device{}}
	other.takesFrom(r.kernel)
	r.kernel.state.requestWake()
	for start := time.Now(); r.State().Parked; time.Sleep(time.Millisecond) {
		if time.Since(start) > 10*time.Second {
			t.Fatal("it is not launched")
		}
	}
	if time.Sleep(4 * after); r.State().Parked {
		t.Error("it has parked while another runs")
	}
	other.state.parked.Store(true)
	for start := time.Now(); !r.State().Parked; time.Sleep(time.Millisecond) {
		if time.Since(start) > 10*time.Second {
			t.Fatal("it has not parked after the other")
		}
	}

	taker := newKernelRig(t, 1, Options{Park: after, Timeout: time.Minute})
	taker.kernel.takesFrom(r.kernel)
	taker.kernel.state.requestWake()
	for start := time.Now(); r.State().Parked; time.Sleep(100 * time.Microsecond) {
		if time.Since(start) > 10*time.Second {
			t.Fatal("it is not launched with the other")
		}
	}
}

// TestHomeIsLaunchedAgain: while another kernel runs, also if the first attempt has failed, or if the home has parked.
func TestHomeIsLaunchedAgain(t *testing.T) {
	r := newKernelRig(t, 1, Options{Timeout: time.Minute})
	home := &kernel{state: kernelState{wanted: make(chan struct{}, 1)}}
	home.state.parked.Store(true)
	r.kernel.takesFrom(home)
	r.kernel.state.requestWake() // the controller ticks from now on
	for range 3 {
		select {
		case <-home.state.wanted:
		case <-time.After(10 * time.Second):
			t.Fatal("nobody asks for the home's kernel")
		}
	}
}
