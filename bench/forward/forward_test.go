package forward

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/warproute/warproute/bench/bed"
	"github.com/warproute/warproute/internal/affinity"
	"github.com/warproute/warproute/internal/testutil"
)

func TestEveryPacketComesOutRight(t *testing.T) {
	for _, tt := range []struct {
		ipv6  bool
		cards int
	}{{false, 0}, {true, 0}, {false, 1}} {
		t.Run(fmt.Sprintf("ipv6=%t/cards=%d", tt.ipv6, tt.cards), func(t *testing.T) {
			cpus, err := affinity.CPUs()
			if err != nil {
				t.Fatal(err)
			}
			if len(cpus) < 1+tt.cards {
				t.Skipf("a worker and %d cards take more than %d cores", tt.cards, len(cpus))
			}
			r, err := Run(Options{
				IPv6: tt.ipv6, Engine: "cpu", Table: "random", Routes: 500, Chunks: 1, Size: 64, Workers: 1, Cards: tt.cards, MaxPackets: 256,
				Duration: 50 * time.Millisecond, Rounds: 1, Seed: 7,
			})
			if err != nil {
				t.Fatal(err)
			}
			if r.Verified != 16384 || r.Mpps <= 0 || r.Cards != tt.cards || r.CPU <= 0 || r.CPU > r.NsPacket {
				t.Errorf("%+v", r)
			}
			t.Logf("%+v", r)
		})
	}
}

// What cannot be measured is told before anything is made for it.
func TestTooFewCoresAreToldFirst(t *testing.T) {
	cpus, err := affinity.CPUs()
	if err != nil {
		t.Fatal(err)
	}
	_, err = Run(Options{Table: "none of that name", Workers: len(cpus), Cards: 1})
	if err == nil || !strings.Contains(err.Error(), "take fewer workers or cards") {
		t.Errorf("%d workers and a card on as many cores: %v", len(cpus), err)
	}
}

func TestTooFewGPUsAreToldFirst(t *testing.T) {
	lib := testutil.FakeGPU(t, "../../cuda/testdata/fakecuda.c", "")
	for gpus, want := range map[int]string{2: "none of that name", 3: "3 are asked for, and the CUDA driver has 2"} {
		_, err := Run(Options{Engine: "gpu", Table: "none of that name", Workers: 3, GPUs: gpus, Driver: lib})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%d GPUs of 2: %v, want %q", gpus, err, want)
		}
	}
}

// What workers of every GPU send is compared, and counted.
func TestAWorkerOfEachGPUIsVerified(t *testing.T) {
	o := Options{Engine: "cpu", Table: "random", Routes: 500, Chunks: 1, Size: 64, Workers: 3, GPUs: 2, MaxPackets: 256, Seed: 7}
	rnd := rand.New(rand.NewPCG(o.Seed, 0))
	routes, err := bed.Routes(rnd, o.Table, false, o.Routes, o.Seed)
	if err != nil {
		t.Fatal(err)
	}
	base, err := bed.NewFIB(routes, 1500)
	if err != nil {
		t.Fatal(err)
	}
	play := frames(rnd, routes, 1000, o.Size)
	if n, err := verify(o, base, routes, play); err != nil || n != 2000 {
		t.Errorf("verified %d packets of 2 workers: %v", n, err)
	}
}
