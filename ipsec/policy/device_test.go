package policy

import (
	"bytes"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"

	"github.com/warproute/warproute/internal/race"
)

// The numbers of policy.h are Go's.
func TestDevicesKnowTheLayout(t *testing.T) {
	text, err := os.ReadFile("policy.h")
	if err != nil {
		t.Fatal(err)
	}
	defined := map[string]uint64{}
	for _, m := range regexp.MustCompile(`(?m)^#define POLICY_(\w+) (0x[0-9a-f]+|\d+)u?\b`).FindAllStringSubmatch(string(text), -1) {
		if defined[m[1]], err = strconv.ParseUint(m[2], 0, 32); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]uint64{
		"IPV4_ROOT": ipv4Root, "IPV6_ROOT": ipv6Root, "NODE": node, "POSITION_AT": positionAt, "STRIDE_AT": strideAt,
		"SLOTS_MASK": slotsMask, "SLOTS_UNIT": slotsUnit, "BITS_AT": bitsAt, "PARENT_MASK": parentMask,
		"MORE": more, "LOWEST": lowest, "ADDRESS": address, "WORDS": policyWords, "LAST": lastPolicy,
		"ANY_SRC_PORT": anySrcPort, "ANY_DST_PORT": anyDstPort, "VERDICT_AT": verdictAt,
		"NO_PORT": uint64(NoPort), "HIDDEN_PORT": uint64(HiddenPort), "HIDDEN_PROTOCOL": HiddenProtocol, "DISCARD": uint64(Discard), "BYPASS": uint64(Bypass), "PROTECT": uint64(Protect),
	} {
		if got, ok := defined[name]; !ok || got != want {
			t.Errorf("POLICY_%s is %#x in policy.h, %#x in Go", name, got, want)
		}
		delete(defined, name)
	}
	if len(defined) > 0 {
		t.Errorf("policy.h defines what Go does not: %v", defined)
	}
}

// The lookup of policy.h, compiled for the host, answers as the oracle does, whatever
// is copied and whatever referred to.
func TestDeviceLookupsAgree(t *testing.T) {
	walk := filepath.Join(t.TempDir(), "walk")
	if out, err := exec.Command("cc", "-std=c11", "-Wall", "-Wextra", "-Werror", "-O2", "-o", walk, "testdata/walk.c").CombinedOutput(); err != nil {
		t.Fatalf("compile testdata/walk.c: %v (a C compiler is needed: apt-get install gcc libc6-dev)\n%s", err, out)
	}
	sets := map[string]*world{
		"none": newWorld(1), "few": newWorld(2).random(20), "many": newWorld(3).random(400), "nested": newWorld(4).nested(300, false).nested(300, true),
		"tunnels": newWorld(5).tunnels(2000, false).tunnels(2000, true), "overlapping": newWorld(6).overlapping(500, false).overlapping(500, true),
	}
	for name, w := range sets {
		t.Run(name, func(t *testing.T) {
			for _, copies := range []int{0, 5, 1000} {
				words := w.build(t, copies).Words()
				packets := make([]packet, race.Fewer(10_000))
				in := binary.NativeEndian.AppendUint32(nil, uint32(len(words)))
				for _, word := range words {
					in = binary.NativeEndian.AppendUint32(in, word)
				}
				for i := range packets {
					packets[i] = w.packet()
					in = appendFlow(in, packets[i])
				}
				cmd := exec.Command(walk)
				cmd.Stdin = bytes.NewReader(in)
				out, err := cmd.Output()
				if err != nil || len(out) != 8*len(packets) {
					t.Fatalf("%v, %d bytes of matches", err, len(out))
				}
				for i, p := range packets {
					got, v := int32(binary.NativeEndian.Uint32(out[8*i:])), Verdict(binary.NativeEndian.Uint32(out[8*i+4:]))
					want, action, target := oracle(w.rules, p)
					if got != want || v.Action() != action || v.Target() != target {
						t.Fatalf("%+v: policy %d, %v %d; the oracle says %d, %v %d", p, got, v.Action(), v.Target(), want, action, target)
					}
				}
			}
		})
	}
}

// appendFlow appends a packet as testdata/walk.c reads it.
func appendFlow(b []byte, p packet) []byte {
	var src, dst [16]byte
	copy(src[:], p.src.AsSlice())
	copy(dst[:], p.dst.AsSlice())
	b = append(append(b, src[:]...), dst[:]...)
	wide := uint32(0)
	if p.dst.Is6() {
		wide = 1
	}
	for _, x := range []uint32{port(p.sport), port(p.dport), uint32(p.protocol), wide} {
		b = binary.NativeEndian.AppendUint32(b, x)
	}
	return b
}
