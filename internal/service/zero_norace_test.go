//go:build !race

// The race detector doubles the memory to search without finding anything else.

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
	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/ipsec/suite"
)

// The memory of the process holds no key that a reload has removed, neither plain nor xor HMAC's
// pads. The test encrypts nothing: the next signal would put registers that the library leaves
// on the stack.
func TestRemovedKeysAreErasedFromMemory(t *testing.T) {
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
	require.NoError(t, <-done)
	if wanted.found(t) == 0 {
		t.Fatal("active keys are not found: the search is broken")
	}
	go func() {
		err := p.reload()
		p.waitQuiescent()
		clearStack()
		done <- err
	}()
	require.NoError(t, <-done)
	if n := wanted.found(t); n > 0 {
		t.Errorf("removed keys found at %d places", n)
	}
}

// clearStack overwrites the remains of earlier calls on the stack.
//
//go:noinline
func clearStack() {
	var room [1 << 15]uint16
	for i := range room {
		room[i] = uint16(i)
	}
	runtime.KeepAlive(&room)
}

// needles are the first words of keys to search for, masked so that the search does not find them here.
type needles map[uint64]bool

const mask = 0x9e3779b97f4a7c15

// key returns a random key and adds it to the needles.
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

// found returns the number of matches in writable memory.
func (n needles) found(t *testing.T) (places int) {
	t.Helper()
	var filter [1 << 16]bool
	for x := range n {
		filter[uint16(x)] = true
	}
	maps, err := os.ReadFile("/proc/self/maps")
	require.NoError(t, err)
	memory, err := os.Open("/proc/self/mem")
	require.NoError(t, err)
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
				break // unmapped meanwhile
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
