package trie

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/warproute/warproute/internal/cheader"
	"github.com/warproute/warproute/internal/race"
)

func TestCHeader(t *testing.T) {
	h := &cheader.Header{}
	h.Comment("A trie image (layout.go). Lengths and indexes are in 32-bit words.")
	h.Define("TRIE_ROOT_BITS", RootBits)
	h.Define("TRIE_NODE_BITS", NodeBits)
	h.Define("TRIE_NODE", NodeWords, "length of a node")
	h.Define("TRIE_DEFAULT", Default, "index of the default route's word")
	h.Define("TRIE_GENERATION", Generation, "index of the generation: reuses of nodes, and changes of the default route")
	h.Define("TRIE_VRFS", VRFs, "index of the words of VRFs, by number from 1 on")
	h.Define("TRIE_NODES", FirstNode, "index of the first node")
	h.Define("TRIE_REFERENCE", Reference, "bit of a word that refers to a node")
	h.Define("TRIE_NEXT_HOP_BITS", NextHopBits)
	h.Define("TRIE_NEXT_HOP_MASK", nextHopMask)
	h.Check(t, "layout.h")
}

// Lookups of trie.h, compiled for the host, return the same next hops as the table.
func TestDeviceWalksAgree(t *testing.T) {
	walk := filepath.Join(t.TempDir(), "walk")
	if out, err := exec.Command("cc", "-std=c11", "-Wall", "-Wextra", "-Werror", "-O2", "-o", walk, "testdata/walk.c").CombinedOutput(); err != nil {
		t.Fatalf("compile testdata/walk.c: %v (a C compiler is needed: apt-get install gcc libc6-dev)\n%s", err, out)
	}
	for _, bits := range []int{32, 128} {
		rnd := rand.New(rand.NewPCG(5, uint64(bits)))
		table, want := New(bits), routes{}
		for range race.Fewer(2000) {
			change(t, rnd, table, want)
		}
		var in bytes.Buffer
		_ = table.View(func(words []uint32) error {
			_ = binary.Write(&in, binary.NativeEndian, uint32(len(words)))
			in.Write(bytesOf(words))
			return nil
		})
		addrs := make([]netip.Addr, race.Fewer(100_000))
		for i := range addrs {
			addrs[i] = randomAddr(rnd, bits)
			in.Write(addrs[i].AsSlice())
		}
		cmd := exec.Command(walk, strconv.Itoa(bits))
		cmd.Stdin = &in
		out, err := cmd.Output()
		if err != nil || len(out) != 4*len(addrs) {
			t.Fatalf("%d bits: %v, %d bytes of results", bits, err, len(out))
		}
		hits := 0
		for i, a := range addrs {
			_, nh := table.Walk(keyOf(a))
			if got := binary.NativeEndian.Uint32(out[4*i:]); got != uint32(nh) {
				t.Fatalf("%v: device code returns %d, the table %d", a, got, nh)
			}
			if nh != 0 {
				hits++
			}
		}
		if hits < len(addrs)/10 {
			t.Errorf("only %d of %d addresses have a route", hits, len(addrs))
		}
	}
}
