package ipsec

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/bench/testbed"
	"github.com/warproute/warproute/dataplane"
	"github.com/warproute/warproute/fib"
	"github.com/warproute/warproute/internal/affinity"
	"github.com/warproute/warproute/internal/race"
	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/internal/testutil"
	esp "github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/ipsec/gateway"
	"github.com/warproute/warproute/ipsec/suite"
)

func options(name string, d esp.Direction) Options {
	return Options{
		Direction: d, Suite: name, SAs: 100, Sizes: []int{64, 200}, Window: 64, Ring: 32, Table: "random", Routes: 500, Engine: "cpu",
		Testbed: testbed.Config{Workers: 1, MaxPackets: 64, Chunks: 1, Lanes: testbed.OneLane}, Duration: 20 * time.Millisecond, Rounds: 1, Seed: 7,
	}
}

func TestRunVerifiesEverySuite(t *testing.T) {
	for i := range suite.All {
		if race.Enabled && i%9 != 0 { // combined and separate, IPv4 and IPv6
			continue
		}
		for d, name := range names {
			o := options(suite.All[i].Name, esp.Direction(d))
			o.IPv6 = i%2 == 1
			r, err := Run(o)
			if err != nil {
				t.Fatalf("%s, %s: %v", o.Suite, name, err)
			}
			if r.Verified != variety || r.Mpps <= 0 || r.Limit <= 0 || r.Library <= 0 || r.Hot <= 0 || r.Share <= 0 || r.P99 < r.P50 {
				t.Errorf("%s: %+v", o.Suite, r)
			}
		}
	}
}

// Workers share outbound SAs. Each has its own inbound SAs; with too few of them there is no window.
func TestSeveralWorkers(t *testing.T) {
	for _, c := range []struct {
		direction        esp.Direction
		sas, window, all int
	}{
		{esp.Out, 1, 0, 2 * variety},
		{esp.In, 2, 64, variety},
		{esp.In, 1, 0, variety},
	} {
		o := options("aes128gcm16", c.direction)
		o.Testbed.Workers, o.SAs = 2, c.sas
		r, err := Run(o)
		if err != nil {
			t.Fatalf("%s, %d SAs: %v", names[c.direction], c.sas, err)
		}
		if r.Verified != c.all || r.Window != c.window {
			t.Errorf("%s, %d SAs: verified %d packets, window %d", names[c.direction], c.sas, r.Verified, r.Window)
		}
	}
}

// The router has other keys than the tunnels.
func TestVerificationFindsWrongBytes(t *testing.T) {
	for d := range names {
		o := options("aes128-sha256", esp.Direction(d))
		tr, err := newTraffic(&o)
		require.NoError(t, err)
		tr.tunnels[42].keys.cipher[3]++ // the library has a copy
		if _, err := tr.verify(); err == nil {
			t.Errorf("%s: not found", names[d])
		}
	}
}

func TestEmulatedNICOnAnotherCore(t *testing.T) {
	if cpus, err := affinity.CPUs(); err != nil || len(cpus) < 2 {
		t.Skipf("a worker and a NIC need two cores: %d, %v", len(cpus), err)
	}
	for d, name := range names {
		o := options("aes128gcm16", esp.Direction(d))
		o.Testbed.NICs = 1
		if r, err := Run(o); err != nil || r.Verified != variety || r.NICs != 1 || r.Mpps <= 0 {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
}

// Prepared packets are played once, in both directions, by the engine and by what it is compared with.
func TestPreparedPacketsArePlayedOnce(t *testing.T) {
	needTwoCores(t)
	for d, name := range names {
		o := options("aes128gcm16", esp.Direction(d))
		o.Ring, o.Testbed.NICs, o.Testbed.Prepared = 48, 1, 200_000 // a null engine has many in a millisecond
		r, err := Run(o)
		if err != nil || r.Verified != variety || r.Prepared != 200_000 || r.Mpps <= 0 || r.Limit <= 0 || r.Library <= 0 {
			t.Errorf("%s: %+v, %v", name, r, err)
		} else if n := 1e6 * r.Mpps * r.Seconds; n > 200_000 || n < leastPlayed*200_000 && r.Seconds < o.Duration.Seconds() {
			t.Errorf("%s: %.0f packets in %v s, of 200,000", name, n, r.Seconds)
		}
	}
	o := options("aes128gcm16", esp.In)
	o.Ring, o.Only, o.Testbed.NICs, o.Testbed.Prepared = 2, true, 1, 1<<20
	r, err := Run(o)
	if most := o.Ring << 20 / 100; err != nil || r.Prepared < most/4 || r.Prepared > most { // packets of 134 and 270 bytes
		t.Errorf("%d prepared packets of at most %d in the ring, %v", r.Prepared, most, err)
	}
}

func TestRunRejectsTooFewGPUs(t *testing.T) {
	lib := testutil.FakeGPU(t, "../../cuda/testdata/fakecuda.c", "")
	for gpus, want := range map[int]string{2: "unknown", 3: "3 requested, the CUDA driver has 2"} {
		o := options("unknown", esp.In)
		o.Engine, o.Testbed.Workers, o.Testbed.GPUs, o.Testbed.Driver = "gpu", 3, gpus, lib
		if _, err := Run(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%d GPUs of 2: %v, want %q", gpus, err, want)
		}
	}
}

// With fewer tunnels than GPUs, several workers decrypt the packets of a tunnel.
func TestVerifyUsesEveryGPU(t *testing.T) {
	var given [3]atomic.Int64 // packets by worker
	original := engines["cpu"]
	defer func() { engines["cpu"] = original }()
	engines["cpu"] = func(c testbed.Config, base *fib.FIB, g *gateway.Gateway) testbed.Engines {
		return func() (func(int, []byte) (dataplane.Engine, error), func() error, error) {
			newEngine, closeAll, err := original(c, base, g)()
			return func(worker int, mem []byte) (dataplane.Engine, error) {
				e, err := newEngine(worker, mem)
				return &counted{e, &given[worker]}, err
			}, closeAll, err
		}
	}
	for _, c := range []struct {
		direction esp.Direction
		sas, all  int
	}{{esp.Out, 1, 3 * variety}, {esp.In, 1, 3 * variety}, {esp.In, 2, 2 * variety}, {esp.In, 3, variety}, {esp.In, 100, variety}} {
		o := options("aes128gcm16", c.direction)
		o.SAs, o.Testbed.Workers, o.Testbed.GPUs = c.sas, 3, 3
		tr, err := newTraffic(&o)
		require.NoError(t, err)
		if n, err := tr.verify(); err != nil || n != c.all {
			t.Errorf("%s, %d SAs: verified %d packets, want %d; %v", names[c.direction], c.sas, n, c.all, err)
		}
		for w := range given {
			if given[w].Swap(0) == 0 {
				t.Errorf("%s, %d SAs: worker %d got no packets", names[c.direction], c.sas, w)
			}
		}
	}
}

// counted counts the packets of an engine.
type counted struct {
	dataplane.Engine
	packets *atomic.Int64
}

func (e *counted) Submit(c *batch.Chunk) {
	e.packets.Add(int64(c.N))
	e.Engine.Submit(c)
}
