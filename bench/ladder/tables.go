package ladder

import (
	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/cuda"
	"github.com/warproute/warproute/fib"
	"github.com/warproute/warproute/lookup/device"
)

// tables are the device addresses of forwarding tables: struct tables of dataplane/gpu/kernel/tables.h.
// IPv4 and IPv6 point to the addresses of the images.
type tables struct {
	IPv4, IPv6, NextHops, Groups, Adjacencies, Ports, Ingress, Generation, PartialChecksums cuda.DevicePtr
	Seed                                                                                    uint32
	Hot                                                                                     cuda.DevicePtr // none
}

// upload copies the tables of a FIB with IPv4 routes, which must not change afterwards, to a device. The
// context is current.
func upload(g *device.GPU, base *fib.FIB) (t tables, err error) {
	w := base.Words()
	put := func(to *cuda.DevicePtr, b []byte) {
		if err != nil {
			return
		}
		var m *cuda.Memory
		if m, err = g.Alloc(len(b)); err == nil {
			*to, err = m.Ptr(), m.Write(0, b)
		}
	}
	put(&t.NextHops, bytesOf(w.NextHops))
	put(&t.Groups, bytesOf(w.Groups))
	put(&t.Adjacencies, bytesOf(w.Adjacencies))
	put(&t.Ports, bytesOf(w.Ports))
	put(&t.Ingress, bytesOf(w.Ingress))
	put(&t.PartialChecksums, make([]byte, batch.MaxPorts/8))
	put(&t.Generation, make([]byte, 256))
	if err != nil {
		return t, err
	}
	roots := make([]uint64, 2)
	if err := base.IPv4.View(func(words []uint32) error {
		image, err := g.Copy(words)
		if err == nil {
			roots[0] = uint64(image.Ptr())
		}
		return err
	}); err != nil {
		return t, err
	}
	put(&t.IPv4, bytesOf(roots))
	t.IPv6, t.Seed = t.IPv4.Add(8), base.Seed
	return t, err
}
