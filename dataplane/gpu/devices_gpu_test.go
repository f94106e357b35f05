//go:build gpu

package gpu

import (
	"testing"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/dataplane/cpu"
	"github.com/warproute/warproute/fib"
	"github.com/warproute/warproute/internal/testutil"
	"github.com/warproute/warproute/umem"
)

func TestGPUsServeWorkersRoundRobin(t *testing.T) {
	const workers, packets, rounds = 4, 200, 3
	net := testutil.NewNetwork()
	devices := got(OpenAll(net.FIB, Options{Workers: workers, PartialChecksums: net.PartialChecksums}))(t)
	defer func() {
		if err := devices.Close(); err != nil {
			t.Error(err)
		}
	}()
	if len(devices.Unusable) > 0 {
		t.Errorf("not used: %v", devices.Unusable)
	}
	chunks := batch.NewChunks(workers, packets)
	var memory [workers]*umem.Memory
	var engines [workers]*Engine
	for i := range workers {
		memory[i] = got(umem.New(256))(t)
		mem := memory[i].Bytes()
		engines[i] = got(devices.NewEngine(mem, 2, packets, cpu.New(net.FIB, mem, net.PartialChecksums)))(t)
	}
	frame := testutil.UDP4("192.0.2.1", "10.4.0.9", 1000, 53, make([]byte, 40)...)
	macs := [rounds]fib.MAC{0x0200000000c1, 0x0200000000c2, 0}
	for _, mac := range macs {
		net.SetAdjacency(net.Glean, 1, mac)
		net.Commit()
		for _, d := range devices.All {
			d.tables.patcher.drain()
		}
		want := batch.Forward(1)
		if mac == 0 {
			want = batch.Hold
		}
		for i, e := range engines {
			c, mem := chunks[i], memory[i].Bytes()
			for k := range packets {
				addr := uint32(k)*umem.FrameSize + umem.DataOffset
				copy(mem[addr:], frame)
				c.In[k] = batch.Frame{Addr: addr, Len: uint16(len(frame)), Origin: 1}
			}
			c.N, c.Submitted = packets, batch.Clock()
			process(e, c)
			for k, r := range c.Out[:packets] {
				if r.Verdict != want || mac != 0 && mem[r.Addr()+5] != byte(mac) {
					t.Fatalf("worker %d, packet %d: %v to % x, want %v to %v", i, k, r.Verdict, mem[r.Addr():][:6], want, mac)
				}
			}
			if e.Name() != "gpu" {
				t.Errorf("worker %d is served by the %s", i, e.Name())
			}
		}
	}
	if err := devices.Err(); err != nil {
		t.Error(err)
	}
	served := 0
	for _, s := range devices.States() {
		if s.Workers < workers/len(devices.All) {
			t.Errorf("GPU %d serves %d workers of %d", s.Number, s.Workers, workers)
		}
		if s.ByGPU != uint64(rounds*s.Workers) || s.ByCPU+s.CPUSooner+s.Timeouts != 0 {
			t.Errorf("GPU %d: %d chunks of %d workers, the CPU %d, %d timeouts", s.Number, s.ByGPU, s.Workers, s.ByCPU+s.CPUSooner, s.Timeouts)
		}
		t.Logf("GPU %d, %s: %d workers, %d chunks", s.Number, s.Info.Name, s.Workers, s.ByGPU)
		served += s.Workers
	}
	if served != workers {
		t.Errorf("%d workers are served, want %d", served, workers)
	}
}
