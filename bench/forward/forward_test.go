package forward

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/warproute/warproute/bench/testbed"
	"github.com/warproute/warproute/internal/affinity"
	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/internal/testutil"
)

func TestRunVerifiesEveryPacket(t *testing.T) {
	for _, tt := range []struct {
		ipv6 bool
		nics int
	}{{false, 0}, {true, 0}, {false, 1}} {
		t.Run(fmt.Sprintf("ipv6=%t/nics=%d", tt.ipv6, tt.nics), func(t *testing.T) {
			cpus, err := affinity.CPUs()
			require.NoError(t, err)
			if len(cpus) < 1+tt.nics {
				t.Skipf("a worker and %d NICs need more than %d cores", tt.nics, len(cpus))
			}
			r, err := Run(Options{
				IPv6: tt.ipv6, Engine: "cpu", Table: "random", Routes: 500, Sizes: []int{64}, Testbed: testbed.Config{Workers: 1, NICs: tt.nics, MaxPackets: 256, Chunks: 1},
				Duration: 50 * time.Millisecond, Rounds: 1, Seed: 7,
			})
			require.NoError(t, err)
			if r.Verified != 16384 || r.Mpps <= 0 || r.NICs != tt.nics || r.CPU <= 0 || r.CPU > r.NsPacket+1e-6 {
				t.Errorf("%+v", r)
			}
			t.Logf("%+v", r)
		})
	}
}

func TestRunRejectsTooFewCores(t *testing.T) {
	cpus, err := affinity.CPUs()
	require.NoError(t, err)
	_, err = Run(Options{Table: "unknown", Testbed: testbed.Config{Workers: len(cpus), NICs: 1}})
	if err == nil || !strings.Contains(err.Error(), "use fewer workers or NICs") {
		t.Errorf("%d workers and a NIC on as many cores: %v", len(cpus), err)
	}
}

func TestRunRejectsTooFewGPUs(t *testing.T) {
	lib := testutil.FakeGPU(t, "../../cuda/testdata/fakecuda.c", "")
	for gpus, want := range map[int]string{2: "unknown", 3: "3 requested, the CUDA driver has 2"} {
		_, err := Run(Options{Engine: "gpu", Table: "unknown", Testbed: testbed.Config{Workers: 3, GPUs: gpus, Driver: lib}})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%d GPUs of 2: %v, want %q", gpus, err, want)
		}
	}
}

func TestVerifyUsesOneWorkerPerGPU(t *testing.T) {
	o := Options{Engine: "cpu", Table: "random", Routes: 500, Sizes: []int{64}, Testbed: testbed.Config{Workers: 3, Busy: 1, GPUs: 2, MaxPackets: 256, Chunks: 1}, Seed: 7}
	_, routes, base, play, err := o.prepare(1000)
	require.NoError(t, err)
	if n, err := verify(o, base, routes, play, nil); err != nil || n != 2000 {
		t.Errorf("verified %d packets of 2 workers: %v", n, err)
	}
}

// TestBusyWorkers: of two workers, one gets packets. Times per packet are its.
func TestBusyWorkers(t *testing.T) {
	r, err := Run(Options{
		Engine: "cpu", Table: "random", Routes: 500, Sizes: []int{64}, Testbed: testbed.Config{Workers: 2, Busy: 1, MaxPackets: 256, Chunks: 1},
		Duration: 50 * time.Millisecond, Rounds: 1, Seed: 7,
	})
	require.NoError(t, err)
	if r.Verified != 16384 || r.Busy != 1 || r.Mpps <= 0 || math.Abs(r.NsPacket*r.Mpps-1e3) > 1e-6 || r.CPU <= 0 || r.CPU > r.NsPacket {
		t.Errorf("%+v", r)
	}
}

func TestLogicalPortsAreVerified(t *testing.T) {
	for _, kind := range []string{VLAN, VRF, Bond} {
		for _, ipv6 := range []bool{false, true} {
			r, err := Run(Options{
				IPv6: ipv6, Engine: "cpu", Table: "random", Routes: 500, Sizes: []int{64}, Testbed: testbed.Config{Workers: 1, MaxPackets: 256, Chunks: 1},
				Duration: 200 * time.Millisecond, Rounds: 1, Seed: 7, Logical: kind, VLANs: 3,
			})
			require.NoError(t, err)
			if r.Mpps <= 0 || r.Physical <= 0 || r.Logical != kind {
				t.Errorf("%s, IPv6 %t: %+v", kind, ipv6, r)
			}
		}
	}
}
