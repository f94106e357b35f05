package ipsec

import (
	"encoding/binary"
	"errors"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/bench/testbed"
	"github.com/warproute/warproute/dataplane"
	"github.com/warproute/warproute/dataplane/esp"
	"github.com/warproute/warproute/dataplane/gpu"
	"github.com/warproute/warproute/fib"
	"github.com/warproute/warproute/ipsec/gateway"
	"github.com/warproute/warproute/packet"
)

// host is the GPU engine with a null device: packets to encrypt leave as the host prepares them, and
// packets to decrypt are cleartext from the start (see hostRings). It is an upper bound for a GPU
// gateway, because packets are still in the CPU's caches.
const host = "host"

func hostEngines(c testbed.Config, base *fib.FIB, g *gateway.Gateway) testbed.Engines {
	return func() (func(int, []byte) (dataplane.Engine, error), func() error, error) {
		var all []*gpu.NullDevice
		return func(worker int, mem []byte) (dataplane.Engine, error) {
				h, err := gpu.NewNullDevice(newCPU(base, g, worker, mem), mem, c.Chunks, c.MaxPackets, func(in []batch.Frame, jobs []esp.Job, results []batch.Result) {
					pass(mem, in, jobs, results)
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

// pass is the null device: it forwards all packets, and all policies admit them.
func pass(mem []byte, in []batch.Frame, jobs []esp.Job, results []batch.Result) {
	for i, f := range in {
		r := batch.ForwardTo(testbed.EgressPort, f.Addr, f.Len)
		if job := &jobs[i]; job.Kind == esp.Open {
			at := f.Addr + uint32(job.ESP) + headerLen + uint32(job.SA.IVLen()) - packet.EthernetLen
			r = gpu.Admitted(batch.ForwardTo(testbed.EgressPort, at, packet.EthernetLen+lengthOf(mem[at+packet.EthernetLen:])))
		}
		results[i] = r
	}
}

// lengthOf returns the length of an IP packet.
func lengthOf(p []byte) uint16 {
	if p[0]>>4 == 4 {
		return binary.BigEndian.Uint16(p[2:])
	}
	return packet.IPv6Len + binary.BigEndian.Uint16(p[4:])
}

// by returns the same traffic with another engine.
func (t *traffic) by(engine string) *traffic {
	other, o := *t, *t.Options
	o.Engine = engine
	other.Options = &o
	return &other
}

// withLanes returns the same traffic with other lanes.
func (t *traffic) withLanes(l testbed.Lanes) *traffic {
	other := t.by(t.Engine)
	other.Testbed.Lanes = l
	return other
}

// hostRings returns the rings for a null device: the packets to decrypt are cleartext.
func (t *traffic) hostRings(rings []ring) ([]ring, error) {
	if t.Direction == in {
		return t.rings(t.enclose)
	}
	return rings, nil
}
