package cpu

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/warproute/warproute/batch"
	esp "github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/packet"
	"github.com/warproute/warproute/umem"
)

// A device that says it has opened what is no packet has it dropped, and does no more harm.
func TestWhatADeviceOpensIsAPacket(t *testing.T) {
	a, _, _ := secured(t, config(esp.Out, false))
	b, _, _ := secured(t, config(esp.In, false))
	rnd := rand.New(rand.NewPCG(9, 9))
	refused, tasks, c := 0, make([]Task, 1), b.chunk
	for range 3000 {
		wire := bytes.Clone(a.bytes(a.submit(0, to4("10.1.0.9"))[0]))
		c.In[0] = batch.Frame{Addr: umem.DataOffset, Len: uint16(len(wire)), Port: 2}
		copy(b.mem.Bytes()[c.In[0].Addr:], wire)
		if b.engine.Begin(c.In[:1], c.Out[:1], tasks, esp.NoNumber) != 1 || tasks[0].Kind != Open {
			t.Fatalf("%v, %+v", c.Out[0].Verdict, tasks[0])
		}
		body := b.mem.Bytes()[c.In[0].Addr+packet.EthernetLen:][:len(wire)-packet.EthernetLen][packet.IPv4Len+8+8:]
		for i := range body {
			body[i] = byte(rnd.Uint32())
		}
		version := rnd.IntN(16)
		body[0] = byte(version)<<4 | 5
		body[2], body[4], body[3], body[5] = 0, 0, byte(rnd.IntN(len(body)+8)), byte(rnd.IntN(len(body)+8)) // lengths of both families
		c.Out[0] = batch.Result{Addr: c.In[0].Addr, Len: c.In[0].Len, Verdict: batch.Forward(1)}
		b.engine.Finish(c.In[:1], c.Out[:1], tasks)
		if c.Out[0].Verdict == batch.Drop(batch.XfrmInStateProtoError) {
			refused++
		} else if version != 4 && version != 6 {
			t.Fatalf("version %d: %v", version, c.Out[0].Verdict)
		}
	}
	if refused > 2900 {
		t.Errorf("%d of 3000 are refused: lengths fit too seldom to tell", refused)
	}
}
