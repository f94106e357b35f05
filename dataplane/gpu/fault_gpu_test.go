//go:build gpu

package gpu

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/dataplane/cpu"
	"github.com/warproute/warproute/internal/testutil"
	"github.com/warproute/warproute/umem"
)

// stall makes a block wait for a tile that is not posted. unstall posts it, and the next one
// again.
func stall(m *mailbox, block int) { m.blocks[block].last++ }

func unstall(m *mailbox, block int, c *batch.Chunk) {
	m.blocks[block].last -= 2
	for range 2 {
		s := &m.slots[m.nextSlot(uint16(block*m.depth))]
		s.post(c.In[:min(c.N, len(s.results))], batchFrames, 0, nil, 0)
		for start := time.Now(); !s.finished() && time.Since(start) < time.Second; {
			time.Sleep(time.Millisecond)
		}
	}
}

// alone runs the calling subtest in a process of its own, where it returns true: a fault is sticky. In
// the first process it returns false and reports the result.
func alone(t *testing.T) bool {
	t.Helper()
	const marker = "WARPROUTE_TEST_PROCESS"
	if os.Getenv(marker) == t.Name() {
		return true
	}
	parent, child, _ := strings.Cut(t.Name(), "/")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run", "^"+parent+"$/^"+child+"$", "-test.v")
	cmd.Env = append(os.Environ(), marker+"="+t.Name())
	out, err := cmd.CombinedOutput()
	t.Logf("process of its own: %s", out)
	if err != nil || !bytes.Contains(out, []byte("--- PASS: "+t.Name()+" ")) {
		t.Errorf("%v: %v", cmd, err)
	}
	return false
}

// TestGPUFaults: a slow, a hung and a faulting GPU are taken out of use within the timeout, and the CPU
// continues. The slow GPU recovers.
func TestGPUFaults(t *testing.T) {
	for _, fault := range []struct {
		name   string
		reason string
		inject func(*Device, *Engine)
		back   bool
	}{
		{"slow", "100 packets not finished", func(_ *Device, e *Engine) { stall(e.mailbox, e.pool.kept) }, true},
		{"hung", "100 packets not finished", func(_ *Device, e *Engine) { stall(e.mailbox, e.pool.kept) }, false},
		{"faulted", "ILLEGAL_ADDRESS", func(d *Device, _ *Engine) { // an illegal table address
			d.tables.patcher.add(patch{At: d.pointers.IPv4, Word: 0xdead << 48, Count: 1, Bytes: 8})
			d.tables.patcher.drain()
		}, false},
	} {
		t.Run(fault.name, func(t *testing.T) {
			if !alone(t) {
				return
			}
			net := testutil.NewNetwork()
			d := got(openFirst(net.FIB, Options{Limit: 20 * time.Millisecond, PartialChecksums: net.PartialChecksums}))(t)
			mem := got(umem.New(1024))(t)
			chunks := batch.NewChunks(2, 256)
			e := got(d.NewEngine(mem.Bytes(), 1, 256, cpu.New(net.FIB, mem.Bytes(), net.PartialChecksums)))(t)
			good, bad := chunks[0], chunks[1]
			frame := testutil.UDP4("192.0.2.1", "10.1.0.9", 1000, 53, make([]byte, 40)...)
			submit := func(c *batch.Chunk) {
				c.N, c.Submitted = 100, batch.Clock()
				e.Submit(c)
			}
			write := func(c *batch.Chunk) {
				for i := range 100 {
					addr := uint32(i)*umem.FrameSize + umem.DataOffset
					copy(mem.Bytes()[addr:], frame)
					c.In[i] = batch.Frame{Addr: addr, Len: uint16(len(frame))}
				}
			}
			write(good)
			submit(good)
			await(e, good)
			if v := good.Out[99].Verdict; v != batch.Forward(1) || e.Name() != "gpu" {
				t.Fatalf("before the fault: %v by the %s", v, e.Name())
			}
			write(bad)
			fault.inject(d, e)
			start := time.Now()
			submit(bad)
			await(e, bad)
			if took := time.Since(start); took > 100*time.Millisecond {
				t.Errorf("it took %v to give the GPU up", took)
			}
			if v := bad.Out[50].Verdict; v != batch.Lost {
				t.Errorf("what the GPU had: %v, want lost", v)
			}
			write(good)
			submit(good)
			await(e, good)
			if v := good.Out[99].Verdict; v != batch.Forward(1) || e.Name() != "cpu" {
				t.Errorf("after the fault: %v by the %s", v, e.Name())
			}
			for start := time.Now(); ; time.Sleep(10 * time.Millisecond) {
				err := d.Err()
				if err != nil && strings.Contains(err.Error(), fault.reason) {
					break
				}
				if time.Since(start) > 5*time.Second {
					t.Errorf("the reason is %v, want %q", err, fault.reason)
					break
				}
			}
			if fault.name == "faulted" {
				select {
				case <-d.destroyed:
				case <-time.After(5 * time.Second):
					t.Error("destroying the context takes longer than 5 s")
				}
				if !d.state.destroyed.Load() || !e.Quiesced() {
					t.Errorf("context destroyed: %v, frames returned: %v", d.state.destroyed.Load(), e.Quiesced())
				}
			}
			if fault.back {
				unstall(e.mailbox, e.pool.kept, bad)
				for start := time.Now(); e.Name() != "gpu" && time.Since(start) < 5*time.Second; time.Sleep(10 * time.Millisecond) {
					write(good)
					submit(good)
					await(e, good)
				}
				if v := good.Out[99].Verdict; v != batch.Forward(1) || e.Name() != "gpu" || d.Err() != nil {
					t.Errorf("5 s later: %v by the %s, %v", v, e.Name(), d.Err())
				}
			}
			if err := d.Close(); (err == nil) != fault.back {
				t.Errorf("close: %v", err)
			}
		})
	}
}
