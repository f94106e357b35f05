package gpu

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/warproute/warproute/cuda"
	"github.com/warproute/warproute/fib"
	"github.com/warproute/warproute/lookup/trie"
)

// followTimeout limits the time in which a device's copy differs from the FIB.
const followTimeout = patchTimeout

// route is the result of a lookup in the FIB or in a device's copy.
type route struct {
	bits int           // of its prefix; 0 without a route
	id   fib.NextHopID // 0: none
	hop  fib.NextHop   // next hop of id
}

func (r route) String() string {
	if r.id == 0 {
		return "no route"
	}
	return fmt.Sprintf("a /%d with next hop %d (%v, word %#x)", r.bits, r.id, r.hop.Kind(), uint64(r.hop))
}

// Compare looks an address up in a VRF, or 0 for none, in each device's copy of the tables, word by word in device memory. A route
// that differs from the FIB's is an error. Any goroutine may call it, before Close.
func (s *Devices) Compare(ctx context.Context, vrf uint16, addr netip.Addr) error {
	for _, d := range s.All {
		if err := d.compare(ctx, vrf, addr); err != nil {
			return fmt.Errorf("GPU %d: %w", d.number, err)
		}
	}
	return nil
}

// compare repeats the lookup while the routes differ, as patches may be queued.
func (d *Device) compare(ctx context.Context, vrf uint16, addr netip.Addr) error {
	for start := time.Now(); ; time.Sleep(time.Millisecond) {
		if err := errors.Join(d.state.err(), ctx.Err()); err != nil {
			return err
		}
		var onDevice route
		err := d.ctx.Do(func() (err error) {
			onDevice, err = d.lookUp(vrf, addr)
			return err
		})
		if err != nil && !errors.Is(err, errChanged) {
			return err
		}
		onHost := lookUpFIB(d.fib, vrf, addr)
		if err == nil && onHost == onDevice {
			return nil
		}
		if time.Since(start) < followTimeout {
			continue
		}
		if err == nil {
			err = fmt.Errorf("route for %v: GPU %v, host %v", addr, onDevice, onHost)
		}
		return err
	}
}

func lookUpFIB(f *fib.FIB, vrf uint16, addr netip.Addr) (r route) {
	if addr.Is4() {
		b := addr.As4()
		r.bits, r.id = f.IPv4.WalkIn(int(vrf), trie.Key{b[0], b[1], b[2], b[3]})
	} else {
		r.bits, r.id = f.IPv6.WalkIn(int(vrf), addr.As16())
	}
	r.hop = f.NextHop(r.id)
	return r
}

// errReleased reports a copy whose memory is freed.
var errReleased = errors.New("its tables are released while its kernel is parked (gpu.memory: release)")

// errChanged reports a copy that changed during the lookup.
var errChanged = errors.New("tables changed during the lookup")

// lookUp walks the device's copy. The context must be current.
func (d *Device) lookUp(vrf uint16, addr netip.Addr) (r route, err error) {
	before, err := d.word(d.tables.generation.at, 4)
	if err != nil {
		return r, err
	}
	image := &d.tables.images[1]
	if addr.Is4() {
		image = &d.tables.images[0]
	}
	image.mu.Lock()
	defer image.mu.Unlock()
	if image.released {
		return r, errReleased
	}
	at, err := d.word(image.pointerAt, 8)
	if err != nil {
		return r, err
	}
	r.bits, r.id, err = trie.WalkCopy(int(vrf), addr, func(index uint32) (uint32, error) {
		if int(index) >= image.buffers[0].words {
			return 0, fmt.Errorf("%s table refers to word %d of %d", image.family, index, image.buffers[0].words)
		}
		word, err := d.word(cuda.DevicePtr(at).Add(4*int(index)), 4)
		return uint32(word), err
	})
	if err == nil {
		hops := d.tables.arrays[fib.NextHops]
		var word uint64
		word, err = d.word(hops.at.Add(int(r.id)*int(hops.bytes)), int(hops.bytes))
		r.hop = fib.NextHop(word)
	}
	after, generationErr := d.word(d.tables.generation.at, 4)
	switch {
	case generationErr != nil:
		return r, generationErr
	case after != before:
		return r, errChanged
	}
	return r, err
}

// word reads 4 or 8 bytes of device memory.
func (d *Device) word(at cuda.DevicePtr, bytes int) (uint64, error) {
	var b [8]byte
	err := d.ctx.ReadAt(at, b[:bytes])
	return binary.NativeEndian.Uint64(b[:]), err
}
