package ipsec

import (
	"encoding/binary"
	"errors"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/bench/bed"
	"github.com/warproute/warproute/dataplane"
	"github.com/warproute/warproute/dataplane/cpu"
	"github.com/warproute/warproute/dataplane/gpu"
	"github.com/warproute/warproute/fib"
	"github.com/warproute/warproute/ipsec/gateway"
	"github.com/warproute/warproute/packet"
)

// host is the engine of a GPU's host alone, whose device does nothing: what was to be sealed
// leaves as the host has prepared it, and what was to be opened is in clear already where its
// ciphertext would be (see hostRings). A GPU has packets come from memory that it has written,
// and here they are still in caches: a gateway is not faster than this, and may be slower.
const host = "host"

func hostEngines(c bed.Config, base *fib.FIB, g *gateway.Gateway) bed.Maker {
	return func() (func(int, []byte) (dataplane.Engine, error), func() error, error) {
		var all []*gpu.Half
		return func(worker int, mem []byte) (dataplane.Engine, error) {
				h, err := gpu.NewHalf(newCPU(base, g, worker, mem), mem, c.Chunks, c.MaxPackets, func(in []batch.Frame, tasks []cpu.Task, results []batch.Result) {
					pass(mem, in, tasks, results)
				})
				if err == nil {
					all = append(all, h)
				}
				return h, err
			}, func() (err error) {
				for _, h := range all {
					err = errors.Join(err, h.Close())
				}
				return err
			}, nil
	}
}

// pass has all packets leave.
func pass(mem []byte, in []batch.Frame, tasks []cpu.Task, results []batch.Result) {
	for i, f := range in {
		r := batch.Result{Addr: f.Addr, Len: f.Len, Verdict: batch.Forward(bed.EgressPort)}
		if t := &tasks[i]; t.Kind == cpu.Open {
			r.Addr += uint32(t.ESP) + headerLen + uint32(t.SA.IVLen()) - packet.EthernetLen
			r.Len = packet.EthernetLen + lengthOf(mem[r.Addr+packet.EthernetLen:])
		}
		results[i] = r
	}
}

// lengthOf returns that of an IP packet.
func lengthOf(p []byte) uint16 {
	if p[0]>>4 == 4 {
		return binary.BigEndian.Uint16(p[2:])
	}
	return packet.IPv6Len + binary.BigEndian.Uint16(p[4:])
}

// by is the same traffic through another engine.
func (t *traffic) by(engine string) *traffic {
	other, o := *t, *t.Options
	o.Engine = engine
	other.Options = &o
	return &other
}

// hostRings returns what workers play to such engines: as rings are, but nothing is encrypted.
func (t *traffic) hostRings(rings []ring) ([]ring, error) {
	if t.Direction == in {
		return t.rings(t.enclose)
	}
	return rings, nil
}
