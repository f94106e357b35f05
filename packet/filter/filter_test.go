package filter

import (
	"encoding/binary"
	"math/rand/v2"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/net/bpf"

	"github.com/warproute/warproute/internal/require"
)

// libpcap compiles an expression as tcpdump does; nil if it refuses it.
func libpcap(t *testing.T, expr string) *bpf.VM {
	t.Helper()
	out, err := exec.Command("tcpdump", "-y", "EN10MB", "-O", "-ddd", expr).Output()
	if _, refused := err.(*exec.ExitError); refused {
		return nil
	}
	if err != nil {
		t.Fatalf("the tests compare with tcpdump, of the Debian package of that name: %v", err)
	}
	var raw []bpf.RawInstruction
	for _, line := range strings.Split(strings.TrimSpace(string(out)), "\n")[1:] {
		var n [4]uint64
		for i, f := range strings.Fields(line) {
			n[i], _ = strconv.ParseUint(f, 10, 32)
		}
		raw = append(raw, bpf.RawInstruction{Op: uint16(n[0]), Jt: uint8(n[1]), Jf: uint8(n[2]), K: uint32(n[3])})
	}
	program, whole := bpf.Disassemble(raw)
	if !whole {
		t.Fatalf("%s: instructions that nobody knows", expr)
	}
	vm, err := bpf.NewVM(program)
	if err != nil {
		t.Fatalf("%s: %v", expr, err)
	}
	return vm
}

// frame returns one of a few thousand different frames, so that most expressions meet some.
func frame(r *rand.Rand) []byte {
	b := make([]byte, 90)
	for i := 34; i < len(b); i++ {
		b[i] = byte(r.IntN(4) * 17)
	}
	pick := func(options ...uint16) uint16 { return options[r.IntN(len(options))] }
	copy(b, []byte{2, 0, 0, 0, 0, byte(r.IntN(3)), 2, 0, 0, 0, 0, byte(r.IntN(3))})
	switch r.IntN(10) {
	case 0:
		copy(b, []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff})
	case 1:
		copy(b, []byte{1, 0, 0x5e, 0, 0, 1})
	}
	ports := func(at int) {
		binary.BigEndian.PutUint16(b[at:], pick(22, 53, 80, 443, 60000))
		binary.BigEndian.PutUint16(b[at+2:], pick(22, 53, 80, 443, 60000))
	}
	v4 := func(at int) {
		copy(b[at:], []byte{byte(pick(10, 10, 10, 192, 224)), byte(r.IntN(2)), 0, byte(r.IntN(4))})
	}
	switch kind := pick(0x0800, 0x0800, 0x86dd, 0x86dd, 0x0806, 0x8035, 0x88cc); kind {
	case 0x0800:
		binary.BigEndian.PutUint16(b[12:], kind)
		b[14], b[22], b[23] = 0x45, byte(r.IntN(3)), byte(pick(1, 2, 6, 17, 50, 51, 132))
		ports(34)
		if r.IntN(4) == 0 {
			b[14] = 0x46
			ports(38)
		}
		if r.IntN(5) == 0 {
			b[20+r.IntN(2)] = byte(pick(0x20, 0x40, 1, 7))
		}
		binary.BigEndian.PutUint16(b[16:], uint16(20+r.IntN(60)))
		v4(26)
		v4(30)
	case 0x86dd:
		binary.BigEndian.PutUint16(b[12:], kind)
		b[14], b[20], b[21] = 0x60, byte(pick(6, 17, 44, 50, 58, 132, 0)), byte(r.IntN(3))
		for _, at := range []int{22, 38} {
			copy(b[at:], []byte{0x20, 1, 0xd, 0xb8, byte(r.IntN(2))})
			b[at+15] = byte(r.IntN(4))
		}
		if r.IntN(5) == 0 {
			b[38] = 0xff
		}
		ports(54)
		if b[20] == 44 {
			b[54] = byte(pick(6, 17, 58))
		}
	default:
		binary.BigEndian.PutUint16(b[12:], kind)
		v4(28)
		v4(38)
	}
	if r.IntN(4) == 0 {
		return b[:14+r.IntN(70)]
	}
	return b
}

var expressions = strings.Split(`ip
ip6
arp
rarp
tcp
udp
icmp
icmp6
igmp
esp
ah
sctp
host 10.0.0.1
src host 10.0.0.1
dst host 10.0.0.2
src or dst host 10.0.0.1
src and dst host 10.0.0.1
src 10.0.0.1
dst 2001:db8::1 and udp
ip host 10.0.0.1
arp host 10.0.0.1
host 2001:db8::1
ip6 src host 2001:db8::1
net 10.0.0.0/8
net 10
src net 10.0
net 10.0/16
net 10.0.0.0 mask 255.255.255.254
src net 10.0.0.2/31
net 0.0.0.0/0
net 2001:db8::/64
dst net 2001:db8::2/127
port 53
src port 53
dst port 80
tcp port 80
udp dst port 53
sctp port 53
src and dst port 53
portrange 50-90
tcp portrange 22-60
portrange 90-50
port domain
port http
port https
tcp port http
port 065
portrange 065
portrange 010-0120
port 0x35
proto 50
proto \tcp
ip proto 6
ip proto \icmp
ip6 proto 17
ip6 proto \tcp
ether proto 0x0800
ether proto \arp
ether host 02:00:00:00:00:01
ether src 02:00:00:00:00:01
ether dst host 02:00:00:00:00:02
broadcast
multicast
ether broadcast
ip multicast
ip6 multicast
less 50
greater 40
len > 60
len = 90 or len < 20
tcp and port 80
host 10.0.0.1 and port 53
not tcp
! icmp
not not udp
tcp or udp
host 10.0.0.1 or 10.0.0.2
host 10.0.0.1 or 10.0.0.2 and tcp
tcp port 80 or 443
port 80 or not 443
port (80 or 443) and tcp
host (10.0.0.1 or 10.0.0.2)
(host 10.0.0.1 or host 10.0.0.2) and tcp port 80
not (tcp or udp)
udp and not port 53
host 10.0.0.1 && !port 22 && ! port 53
tcp port 80 || udp port 53 || icmp
tcp or udp and ip6
tcp dst port 80 and not host 10.0.0.3
ip[8] == 0
ip[8]=1
ip[2:2] > 40
ip[16:4] = 0x0a000001
ip[0] & 0xf != 5
(ip[0] & 0xf) != 5
ip[6:2] & 0x1fff = 0
ip6[7] < 2
ip6[6] == 58 or ip6[6] == 44
ether[0] & 1 = 0
ether[12:2] != 0x800
tcp[13] & 2 != 0
tcp[tcpflags] & (tcp-syn|tcp-fin) != 0
tcp[0:2] == tcp[2:2]
udp[2:2] = 53
icmp[icmptype] = icmp-echo
icmp[0] == 0 or icmp[0] = 17
icmp6[icmp6type] = 0
not ip[60] = 17
ip[60] = 17 or tcp
(tcp[12] >> 4) * 4 > 8
ip[2:2] - ((ip[0] & 0xf) << 2) >= 20
len - 14 > 40 and ip
ip[ip[8]] = 69
((((tcp))))
10 > len
(len % 7) * 2 = 12
(len & 3) ^ 4 = 6
len % 7 = 3
arp[6:2] = 0`, "\n")

// Accepted expressions mean the same as in libpcap.
func TestFiltersAgreeWithLibpcap(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, expr := range expressions {
		agree(t, r, expr, 2000, true)
	}
}

func agree(t *testing.T, r *rand.Rand, expr string, frames int, both bool) {
	t.Helper()
	theirs := libpcap(t, expr)
	ours, err := Parse(expr)
	if (theirs == nil) != (err != nil) && (both || theirs == nil) {
		t.Errorf("%s: libpcap refuses it: %v; we: %v", expr, theirs == nil, err)
	}
	if theirs == nil || err != nil {
		return
	}
	for range frames {
		f := frame(r)
		n, err := theirs.Run(f)
		require.NoError(t, err)
		if want, got := n > 0, ours.Match(f); got != want {
			t.Errorf("%s: libpcap says %v, we %v: % x", expr, want, got, f)
			return
		}
	}
}

// Primitives joined at random.
func TestJoinedFiltersAgreeWithLibpcap(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	var join func(depth int) string
	join = func(depth int) string {
		if depth == 0 || r.IntN(3) == 0 {
			return expressions[r.IntN(len(expressions))]
		}
		s := join(depth-1) + []string{" and ", " or ", " && ", " || "}[r.IntN(4)] + join(depth-1)
		switch r.IntN(4) {
		case 0:
			return "(" + s + ")"
		case 1:
			return "not (" + s + ")"
		}
		return s
	}
	for range 150 {
		agree(t, r, join(3), 300, true)
	}
}

func TestInvalidFiltersAreRefused(t *testing.T) {
	for expr, want := range map[string]string{
		"bogus":                     `column 1: found "bogus"`,
		"host":                      "column 5: the expression ends, expected a value of host",
		"host example.org":          `column 6: "example.org" is not an address`,
		"net 10.0.0.1/8":            "use 10.0.0.0/8",
		"tcp host 10.0.0.1":         `10.0.0.1 does not match "tcp"`,
		"ip port 80":                `"ip" has no ports`,
		"port 70000":                `"70000" is not a known port`,
		"udp port http":             `"http" is not a port of udp`,
		"port 0x10000":              `"0x10000" is not a known port`,
		"len % 7 * 2 = 12":          "need parentheses",
		"1 = len & 3 ^ 4":           "need parentheses",
		"len ^ 3 ^ 4 = 1":           "need parentheses",
		"tcp and":                   "column 8: the expression ends",
		"(tcp":                      `column 5: the expression ends, expected ")"`,
		"tcp)":                      `column 4: found ")"`,
		"tcp udp":                   `column 5: found "udp", expected and, or, or the end`,
		"ip[0:3] = 1":               `column 6: found "3", expected 1, 2 or 4`,
		"vlan 5":                    `column 1: found "vlan"`,
		"tcp; udp":                  `column 4: unexpected character ";"`,
		strings.Repeat("(", 100):    "nested too deeply",
		strings.Repeat("tcp ", 2e3): "limit of 4096",
	} {
		if _, err := Parse(expr); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", expr, err, want)
		}
	}
}

func TestMatchDoesNotAllocate(t *testing.T) {
	f, err := Parse("tcp port 80 and (host 10.0.0.1 or net 2001:db8::/32) and not tcp[tcpflags] & tcp-syn != 0")
	require.NoError(t, err)
	b := frame(rand.New(rand.NewPCG(5, 6)))
	if n := testing.AllocsPerRun(100, func() { f.Match(b) }); n != 0 {
		t.Errorf("Match allocates %v times", n)
	}
}

func FuzzParse(f *testing.F) {
	for _, expr := range expressions {
		f.Add(expr, []byte{1, 2, 3})
	}
	r := rand.New(rand.NewPCG(7, 8))
	whole := frame(r)
	f.Fuzz(func(t *testing.T, expr string, b []byte) {
		if filter, err := Parse(expr); err == nil {
			filter.Match(b)
			filter.Match(whole)
		}
	})
}
