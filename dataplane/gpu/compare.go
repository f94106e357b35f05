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

// followTime is how long a device's copy may take to follow the base, before it counts as
// another one.
const followTime = patchTimeout

// route is what the tables and the base have for an address.
type route struct {
	bits int         // of its prefix; 0 also where there is none
	id   fib.ID      // 0: none
	hop  fib.NextHop // what id names
}

func (r route) String() string {
	if r.id == 0 {
		return "no route"
	}
	return fmt.Sprintf("a /%d with next hop %d (%v, word %#x)", r.bits, r.id, r.hop.Kind(), uint64(r.hop))
}

// Compare looks an address up in each device's copy of the tables, which is read word by
// word where the device reads it, and is an error where one has another route than the base, or
// cannot be asked. Any goroutine may call it, before Close.
func (s *Devices) Compare(ctx context.Context, addr netip.Addr) error {
	for _, d := range s.All {
		if err := d.compare(ctx, addr); err != nil {
			return fmt.Errorf("GPU %d: %w", d.number, err)
		}
	}
	return nil
}

// compare looks again while the two differ, as changes may be on their way.
func (d *Device) compare(ctx context.Context, addr netip.Addr) error {
	for start := time.Now(); ; time.Sleep(time.Millisecond) {
		if err := errors.Join(d.health.err(), ctx.Err()); err != nil {
			return err
		}
		var there route
		err := d.ctx.Do(func() (err error) {
			there, err = d.lookUp(addr)
			return err
		})
		if err != nil && !errors.Is(err, errMoved) {
			return err
		}
		here := lookUpBase(d.base, addr)
		if err == nil && here == there {
			return nil
		}
		if time.Since(start) < followTime {
			continue
		}
		if err == nil {
			err = fmt.Errorf("its tables have %v for %v, the router's have %v", there, addr, here)
		}
		return err
	}
}

func lookUpBase(base *fib.FIB, addr netip.Addr) (r route) {
	if addr.Is4() {
		b := addr.As4()
		r.bits, r.id = base.IPv4.Walk(trie.Key{b[0], b[1], b[2], b[3]})
	} else {
		r.bits, r.id = base.IPv6.Walk(addr.As16())
	}
	r.hop = base.NextHop(r.id)
	return r
}

// errMoved is of a copy that changed while it was read.
var errMoved = errors.New("its tables change faster than they can be read")

// lookUp walks the device's copy. It runs where the context is current.
func (d *Device) lookUp(addr netip.Addr) (r route, err error) {
	before, err := d.word(d.tables.turns.at, 4)
	if err != nil {
		return r, err
	}
	image := &d.tables.images[1]
	if addr.Is4() {
		image = &d.tables.images[0]
	}
	at, err := d.word(image.root, 8)
	if err != nil {
		return r, err
	}
	r.bits, r.id, err = trie.WalkCopy(addr, func(index uint32) (uint32, error) {
		if int(index) >= image.places[0].words {
			return 0, fmt.Errorf("its %s table leads to word %d of %d", image.family, index, image.places[0].words)
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
	after, turnErr := d.word(d.tables.turns.at, 4)
	switch {
	case turnErr != nil:
		return r, turnErr
	case after != before:
		return r, errMoved
	}
	return r, err
}

// word reads 4 or 8 bytes of the device's memory.
func (d *Device) word(at cuda.DevicePtr, bytes int) (uint64, error) {
	var b [8]byte
	err := d.ctx.ReadAt(at, b[:bytes])
	return binary.NativeEndian.Uint64(b[:]), err
}
