package policy

import (
	"bytes"
	"encoding/binary"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/warproute/warproute/internal/cheader"
	"github.com/warproute/warproute/internal/race"
)

func TestCHeader(t *testing.T) {
	h := &cheader.Header{}
	h.Comment("A policy table (layout.go). Offsets are in 32-bit words.")
	h.Define("POLICY_IPV4_ROOT", ipv4Root)
	h.Define("POLICY_IPV6_ROOT", ipv6Root)
	h.Define("POLICY_NODE", node)
	h.Define("POLICY_POSITION_AT", positionAt)
	h.Define("POLICY_STRIDE_AT", strideAt)
	h.Define("POLICY_SLOTS_MASK", slotsMask)
	h.Define("POLICY_SLOTS_UNIT", slotsUnit)
	h.Define("POLICY_BITS_AT", bitsAt)
	h.Define("POLICY_PARENT_MASK", parentMask)
	h.Define("POLICY_MORE", more)
	h.Define("POLICY_LOWEST", lowest)
	h.Define("POLICY_ADDRESS", address)
	h.Define("POLICY_WORDS", policyWords)
	h.Define("POLICY_LAST", lastPolicy)
	h.Define("POLICY_ANY_SRC_PORT", anySrcPort)
	h.Define("POLICY_ANY_DST_PORT", anyDstPort)
	h.Define("POLICY_VERDICT_AT", verdictAt)
	h.Define("POLICY_NO_PORT", uint64(NoPort))
	h.Define("POLICY_HIDDEN_PORT", uint64(HiddenPort))
	h.Define("POLICY_HIDDEN_PROTOCOL", HiddenProtocol)
	h.Define("POLICY_DISCARD", uint64(Discard))
	h.Define("POLICY_BYPASS", uint64(Bypass))
	h.Define("POLICY_PROTECT", uint64(Protect))
	h.Check(t, "layout.h")
}

// policy.h, compiled for the host, agrees with the oracle, with copies and with references.
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
