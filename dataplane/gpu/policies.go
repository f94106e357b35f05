package gpu

import (
	"slices"
	"time"

	"github.com/warproute/warproute/cuda"
)

// policies are a device's copy of a gateway's policies, in two buffers: one is filled while lookups use the
// other. A buffer has the word index of the outbound table, 15 unused words, the inbound table and the
// outbound one, as policies.h says.
type policies struct {
	d       *Device
	pointer *cuda.Memory // where the device finds the address of the active buffer; 0: no policies
	buffers [2]*cuda.Memory
	next    int            // the buffer to fill
	engines engineList     // of the device
	users   []chunkCounter // of the engines when the last buffer became active, which ended the use of the other
}

const (
	// maxPolicyWords bounds both tables together: 32 MiB, about 200,000 policies. Of larger ones the device has no
	// copy, and the host checks the packets.
	maxPolicyWords = 8 << 20
	policyHeader   = 16 // words
	// policyWait limits the wait for chunks on the device that may use a buffer.
	policyWait = time.Second
)

// newPolicies returns a copy without policies. The context must be current.
func (d *Device) newPolicies() (p *policies, err error) {
	p = &policies{d: d}
	if p.pointer, err = d.alloc(256); err != nil {
		return nil, err
	}
	for i := range p.buffers {
		if p.buffers[i], err = d.alloc(4 * maxPolicyWords); err != nil {
			return nil, err
		}
	}
	return p, p.pointer.Write(0, make([]byte, 256))
}

// SetPolicies implements gateway.Device. If the tables are too large, or a chunk on the device may still use
// the buffer, the device has no policies until the next call.
func (p *policies) SetPolicies(in, out []uint32) {
	if !p.d.state.ok() {
		return
	}
	address := cuda.DevicePtr(0)
	if words := packPolicies(in, out); len(words) <= maxPolicyWords && p.unused() {
		to := p.buffers[p.next]
		if err := p.d.ctx.Do(func() error { return to.Write(0, bytesOf(words)) }); err != nil {
			p.d.state.fail(err)
			return
		}
		address, p.next = to.Ptr(), 1-p.next
	}
	patches := p.d.tables.patcher
	patches.add(patch{At: p.pointer.Ptr(), Word: uint64(address), Count: 1, Bytes: 8})
	patches.drain()
	p.users = p.engines.counters()
}

// packPolicies returns the words of a buffer.
func packPolicies(in, out []uint32) []uint32 {
	header := make([]uint32, policyHeader)
	header[0] = uint32(policyHeader + len(in))
	return slices.Concat(header, in, out)
}

// unused waits until no chunk on the device can use the buffer to fill, and reports whether that is so.
func (p *policies) unused() bool {
	for by := time.Now().Add(policyWait); ; time.Sleep(100 * time.Microsecond) {
		if is := p.engines.after(p.users); is || time.Now().After(by) {
			return is
		}
	}
}
