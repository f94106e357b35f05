//go:build !race

// The memory of the race detector takes as long again to look through, for nothing.

package service

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/warproute/warproute/control/config"
	"github.com/warproute/warproute/ipsec/suite"
)

// Nowhere in the memory of the process is a key that a reload has taken away, neither as it was
// nor xor HMAC's pads. Nothing is sealed: what the library leaves in registers then would be on
// the stack of the next signal.
func TestKeysThatAreTakenAwayAreNowhereInMemory(t *testing.T) {
	p := protect(t, t.TempDir())
	var wanted needles
	done := make(chan error)
	go func() { // on a stack of its own
		clearStack()
		done <- func() error {
			var sas []config.SA
			for i, s := range suite.All {
				for _, sa := range []config.SA{outbound(fmt.Sprint("out", i), uint32(0x1000+i), 0), inbound(fmt.Sprint("in", i), uint32(0x1000+i), 0)} {
					sa.Suite, sa.Key, sa.AuthKey = s.Name, wanted.key(t, s.KeyLen+s.SaltLen), wanted.key(t, s.AuthKeyLen)
					sas = append(sas, sa)
				}
			}
			if err := p.reload(sas...); err != nil {
				return err
			}
			clearStack()
			return nil
		}()
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if wanted.found(t) == 0 {
		t.Fatal("keys that are in use are not found: the test does not test")
	}
	go func() {
		err := p.reload()
		p.settle()
		clearStack()
		done <- err
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if n := wanted.found(t); n > 0 {
		t.Errorf("keys are found at %d places", n)
	}
}

// clearStack overwrites what calls before have left on the stack.
//
//go:noinline
func clearStack() {
	var room [1 << 15]uint16
	for i := range room {
		room[i] = uint16(i)
	}
	runtime.KeepAlive(&room)
}

// needles are beginnings of what is looked for, each masked, so that it is not found here.
type needles map[uint64]bool

const mask = 0x9e3779b97f4a7c15

// key returns a random key, and has it looked for.
func (n *needles) key(t *testing.T, size int) config.Key {
	if size == 0 {
		return config.Key{}
	}
	b := make([]byte, size)
	_, _ = rand.Read(b)
	if *n == nil {
		*n = needles{}
	}
	for _, pad := range []uint64{0, 0x3636363636363636, 0x5c5c5c5c5c5c5c5c} {
		(*n)[binary.NativeEndian.Uint64(b)^pad^mask] = true
	}
	return config.NewKey(b)
}

// found says at how many places of the memory that can be written there is any.
func (n needles) found(t *testing.T) (places int) {
	t.Helper()
	var filter [1 << 16]bool
	for x := range n {
		filter[uint16(x)] = true
	}
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	memory, err := os.Open("/proc/self/mem")
	if err != nil {
		t.Fatal(err)
	}
	defer memory.Close()
	page := make([]byte, 1<<16)
	defer clear(page)
	for line := range strings.Lines(string(maps)) {
		var from, to int64
		var access string
		if _, err := fmt.Sscanf(line, "%x-%x %s", &from, &to, &access); err != nil || !strings.HasPrefix(access, "rw") {
			continue
		}
		for ; from < to; from += int64(len(page)) {
			k, err := memory.ReadAt(page[:min(int64(len(page)), to-from)], from)
			if err != nil && err != io.EOF {
				break // it is gone
			}
			for at := 0; at+8 <= k; at += 4 {
				x := binary.NativeEndian.Uint64(page[at:]) ^ mask
				if filter[uint16(x)] && n[x] {
					places++
				}
			}
		}
	}
	return places
}
