package fragment

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"

	"github.com/gopacket/gopacket/layers"

	"github.com/warproute/warproute/packet"
)

// The last fragment fits its own header; with what the first one has more, it does
// not.
func TestDatagramsTooLongByTheirHeadersAreRefused(t *testing.T) {
	for _, fam := range families {
		data := pattern(map[string]int{"IPv4": maxPacket - 20, "IPv6": maxPacket}[fam.name])
		const at = 1000
		first := with4(at, func(h *layers.IPv4) {
			h.Flags, h.Options = layers.IPv4MoreFragments, []layers.IPv4Option{{OptionType: 1}, {OptionType: 0}}
		})
		if fam.name == "IPv6" {
			first = with6(16+at, func(h *layers.IPv6) { h.NextHeader = layers.IPProtocolIPv6Destination })
			copy(first[40:], []byte{byte(packet.Fragment), 0, 1, 4, 0, 0, 0, 0, byte(packet.UDP), 0, 0, 1, 0, 0, 0xab, 0xcd})
		}
		r := NewReassembler(Limits{})
		if _, err := r.Add(0, first); err != nil {
			t.Fatal(err)
		}
		if got, err := r.Add(0, fam.part(0xabcd, at, false, data[at:])); got != nil || !errors.Is(err, ErrTooLong) || r.Waiting() != 0 {
			t.Errorf("%s: %d bytes, %v", fam.name, len(got), err)
		}
	}
}

func TestReassemblyKeepsCongestionMarks(t *testing.T) {
	const none, ect1, ect0, ce = 0, 1, 2, 3
	for _, c := range []struct {
		name                string
		first, second, want byte
		err                 error
	}{
		{"none", none, none, none, nil},
		{"as the first", ect0, ect0, ect0, nil},
		{"two capable ones", ect1, ect0, ect1, nil},
		{"the first saw it", ce, ect0, ce, nil},
		{"another saw it", ect0, ce, ce, nil},
		{"both saw it", ce, ce, ce, nil},
		{"capable and not", none, ect0, none, nil},
		{"seen, and not capable", none, ce, 0, ErrECN},
		{"not capable, and seen", ce, none, 0, ErrECN},
	} {
		eachFamily(t, func(t *testing.T, fam family) {
			mark := func(p []byte, ecn byte) []byte {
				if fam.name == "IPv4" {
					p[1] |= ecn
				} else {
					p[1] |= ecn << 4
				}
				return p
			}
			data := pattern(32)
			r := NewReassembler(Limits{})
			r.Add(0, mark(fam.part(1, 0, true, data[:16]), c.first))
			got, err := r.Add(0, mark(fam.part(1, 16, false, data[16:]), c.second))
			if !errors.Is(err, c.err) {
				t.Errorf("%s: %v, want %v", c.name, err, c.err)
			}
			if c.err != nil {
				return
			}
			want := mark(fam.whole(1, data), c.want)
			if fam.name == "IPv4" {
				binary.BigEndian.PutUint16(want[10:], 0)
				binary.BigEndian.PutUint16(want[10:], packet.Checksum(want[:20]))
			}
			if !bytes.Equal(got, want) {
				t.Errorf("%s:\n got  % x\n want % x", c.name, got, want)
			}
		})
	}
}

// RFC 6946: a fragment that is all of its packet has nothing to do with others of
// the same key, whole or abandoned.
func TestAtomicFragmentsStandAlone(t *testing.T) {
	data := pattern(24)
	r := NewReassembler(Limits{Datagrams: 1})
	r.Add(0, part6(1, 0, true, data[:16]))
	for _, n := range []int{24, 16, 1, 0} {
		got, err := r.Add(0, part6(1, 0, false, data[:n]))
		if want := families[1].whole(1, data[:n]); !bytes.Equal(got, want) {
			t.Errorf("%d bytes of payload: % x, %v, want % x", n, got, err, want)
		}
	}
	if got, err := r.Add(0, part6(1, 16, false, data[16:])); !bytes.Equal(got, families[1].whole(1, data)) {
		t.Errorf("the datagram that waited: % x, %v", got, err)
	}
}

func TestHeadersBeforeAndAfterTheFragmentHeader(t *testing.T) {
	dest := func(next byte) []byte { return []byte{next, 0, 1, 4, 0, 0, 0, 0} }
	const options, fragment, udp = byte(packet.DestOptions), byte(packet.Fragment), byte(packet.UDP)
	join := func(first byte, parts ...[]byte) []byte {
		rest := bytes.Join(parts, nil)
		p := with6(len(rest), func(h *layers.IPv6) { h.NextHeader = layers.IPProtocol(first) })
		copy(p[40:], rest)
		return p
	}
	frag := func(next, offset, flag byte) []byte { return []byte{next, 0, 0, offset | flag, 0, 0, 0, 9} }
	first := join(options, dest(fragment), frag(options, 0, 1), dest(udp), pattern(8))
	last := join(options, dest(fragment), frag(options, 16, 0), pattern(5))
	want := join(options, dest(options), dest(udp), pattern(8), pattern(5))
	for _, order := range [][][]byte{{first, last}, {last, first}} {
		r := NewReassembler(Limits{})
		r.Add(0, order[0])
		if got, err := r.Add(0, order[1]); !bytes.Equal(got, want) {
			t.Errorf("\n got  % x, %v\n want % x", got, err, want)
		}
	}
	long := append([]byte{fragment, 31, 1, 254}, make([]byte, 252)...) // 256 bytes of options
	for name, p := range map[string][]byte{
		"a first fragment without all headers":      join(fragment, frag(options, 0, 1), dest(options)),
		"a chain that is cut off":                   join(options, []byte{fragment, 1, 1, 4, 0, 0, 0, 0}),
		"a chain that ends before it starts":        join(options),
		"half a Fragment header":                    join(fragment, []byte{udp, 0, 0, 0}),
		"more headers than there is room for":       join(options, long, frag(udp, 8, 0), pattern(8)),
		"extension headers longer than the payload": join(options, []byte{fragment, 255, 0, 0, 0, 0, 0, 0}),
	} {
		r := NewReassembler(Limits{})
		if got, err := r.Add(0, p); got != nil || !errors.Is(err, ErrMalformed) || r.Waiting() != 0 {
			t.Errorf("%s: % x, %v", name, got, err)
		}
	}
}

func TestIPv4OptionsOfTheFirstFragmentStay(t *testing.T) {
	options := func(h *layers.IPv4) { h.Options = []layers.IPv4Option{{OptionType: 1}, {OptionType: 0}} }
	first := with4(16, func(h *layers.IPv4) { options(h); h.Flags = layers.IPv4MoreFragments })
	last := part4(0xabcd, 16, false, pattern(21)[16:])
	for _, order := range [][][]byte{{first, last}, {last, first}} {
		r := NewReassembler(Limits{})
		r.Add(0, order[0])
		if got, err := r.Add(0, order[1]); !bytes.Equal(got, with4(21, options)) {
			t.Errorf("\n got  % x, %v\n want % x", got, err, with4(21, options))
		}
	}
}
