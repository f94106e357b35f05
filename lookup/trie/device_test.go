package trie

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"

	"github.com/warproute/warproute/internal/race"
)

// The numbers of trie.h are those of layout.go.
func TestDevicesKnowTheLayout(t *testing.T) {
	header, err := os.ReadFile("trie.h")
	if err != nil {
		t.Fatal(err)
	}
	defined := map[string]uint64{}
	for _, m := range regexp.MustCompile(`(?m)^#define TRIE_(\w+) (0x[0-9a-f]+|\d+)u?\b`).FindAllStringSubmatch(string(header), -1) {
		if defined[m[1]], err = strconv.ParseUint(m[2], 0, 32); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]uint64{
		"ROOT_BITS": RootBits, "GROUP_BITS": GroupBits, "ROOT": Root, "GROUP": Group, "DEFAULT": Default, "REUSES": Reuses,
		"GROUPS": Groups, "MAX_WORDS": MaxWords, "REFERENCE": Reference,
		"NEXT_HOP_BITS": NextHopBits, "NEXT_HOP_MASK": nextHopMask, "LENGTH_MASK": lengthMask,
	} {
		if got, ok := defined[name]; !ok || got != want {
			t.Errorf("TRIE_%s is %#x in trie.h, %#x in Go", name, got, want)
		}
		delete(defined, name)
	}
	if len(defined) > 0 {
		t.Errorf("trie.h defines what Go does not: %v", defined)
	}
}

// The walks of trie.h, compiled for the host, answer as the table does.
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
			t.Fatalf("%d bits: %v, %d bytes of answers", bits, err, len(out))
		}
		hits := 0
		for i, a := range addrs {
			_, nh := table.Walk(keyOf(a))
			if got := binary.NativeEndian.Uint32(out[4*i:]); got != uint32(nh) {
				t.Fatalf("%v: the device's walk gives %d, the table %d", a, got, nh)
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
