package routefile

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/internal/require"
)

var netips = cmpopts.EquateComparable(netip.Addr{}, netip.Prefix{})

func pfx(s string) netip.Prefix { return netip.MustParsePrefix(s) }
func ip(s string) netip.Addr    { return netip.MustParseAddr(s) }

func TestReadParsesLines(t *testing.T) {
	tests := []struct {
		name, text string
		want       []Route
	}{
		{"nothing", "\n  \n# a comment\n", nil},
		{"bare prefixes", "192.0.2.0/24\n2001:db8::/32\n", []Route{{Prefix: pfx("192.0.2.0/24"), Type: "unicast"}, {Prefix: pfx("2001:db8::/32"), Type: "unicast"}}},
		{"bare addresses are host routes", "192.0.2.1\n2001:db8::1\n", []Route{{Prefix: pfx("192.0.2.1/32"), Type: "unicast"}, {Prefix: pfx("2001:db8::1/128"), Type: "unicast"}}},
		{"gateway", "10.0.0.0/8 via 192.0.2.1 dev eth0 proto bird metric 32 \n",
			[]Route{{Prefix: pfx("10.0.0.0/8"), Type: "unicast", Metric: 32, Paths: []Path{{ip("192.0.2.1"), "eth0", 1, false, false}}}}},
		{"an MTU", "10.0.0.0/8 via 192.0.2.1 dev eth0 mtu 1400 \nfd00::/8 dev eth0 metric 1024 mtu lock 1300 pref medium\n",
			[]Route{{Prefix: pfx("10.0.0.0/8"), Type: "unicast", MTU: 1400, Paths: []Path{{ip("192.0.2.1"), "eth0", 1, false, false}}},
				{Prefix: pfx("fd00::/8"), Type: "unicast", Metric: 1024, MTU: 1300, Paths: []Path{{Dev: "eth0", Weight: 1}}}}},
		{"connected", "192.0.2.0/24 dev eth0 proto kernel scope link src 192.0.2.7 linkdown\n",
			[]Route{{Prefix: pfx("192.0.2.0/24"), Type: "unicast", Paths: []Path{{Dev: "eth0", Weight: 1}}}}},
		{"IPv4 by an IPv6 gateway", "10.0.0.0/8 via inet6 fe80::1 dev eth0\n",
			[]Route{{Prefix: pfx("10.0.0.0/8"), Type: "unicast", Paths: []Path{{ip("fe80::1"), "eth0", 1, false, false}}}}},
		{"routes with encapsulation", "41.0.0.0/24  encap seg6 mode encap segs 2 [ fd00::1 fd00::2 ] dev r1 scope link\n42.0.0.0/24 encap mpls 100 via 1.1.1.1 dev r1\n",
			[]Route{{Prefix: pfx("41.0.0.0/24"), Type: "unicast", Paths: []Path{{Dev: "r1", Weight: 1, Encap: true}}},
				{Prefix: pfx("42.0.0.0/24"), Type: "unicast", Paths: []Path{{Via: ip("1.1.1.1"), Dev: "r1", Weight: 1, Encap: true}}}}},
		{"IPv4 default route", "default via 192.0.2.1 dev eth0\n", []Route{{Prefix: pfx("0.0.0.0/0"), Type: "unicast", Paths: []Path{{ip("192.0.2.1"), "eth0", 1, false, false}}}}},
		{"IPv6 default route", "default via fe80::1 dev eth0 metric 1024 pref medium\n", []Route{{Prefix: pfx("::/0"), Type: "unicast", Metric: 1024, Paths: []Path{{ip("fe80::1"), "eth0", 1, false, false}}}}},
		{"IPv6 default route without a gateway", "default dev tun0 metric 1024 pref medium\n", []Route{{Prefix: pfx("::/0"), Type: "unicast", Metric: 1024, Paths: []Path{{Dev: "tun0", Weight: 1}}}}},
		{"types without a next hop", "blackhole 10.0.0.0/8\nunreachable 2001:db8::/32 dev lo metric 1024 error -113 pref medium\nprohibit default\n",
			[]Route{{Prefix: pfx("10.0.0.0/8"), Type: "blackhole"}, {Prefix: pfx("2001:db8::/32"), Type: "unreachable", Metric: 1024}, {Prefix: pfx("0.0.0.0/0"), Type: "prohibit"}}},
		{"multipath", "10.0.0.0/8 proto bird metric 32\n\tnexthop via 192.0.2.1 dev eth0 weight 1 \n\tnexthop via 192.0.2.2 dev eth1 weight 3 \n",
			[]Route{{Prefix: pfx("10.0.0.0/8"), Type: "unicast", Metric: 32, Paths: []Path{{ip("192.0.2.1"), "eth0", 1, false, false}, {ip("192.0.2.2"), "eth1", 3, false, false}}}}},
		{"a path whose link is down", "10.0.0.0/8\n\tnexthop via 192.0.2.1 dev eth0 weight 1 dead linkdown \n\tnexthop via 192.0.2.2 dev dead weight 1\n",
			[]Route{{Prefix: pfx("10.0.0.0/8"), Type: "unicast", Paths: []Path{{ip("192.0.2.1"), "eth0", 1, false, true}, {ip("192.0.2.2"), "dead", 1, false, false}}}}},
		{"multipath on one line, as ip -oneline prints it", "fd00::/8 metric 1024 pref medium\\\tnexthop via fe80::1 dev eth0 weight 1 \\\tnexthop via fe80::2 dev nexthop weight 3 \n",
			[]Route{{Prefix: pfx("fd00::/8"), Type: "unicast", Metric: 1024, Paths: []Path{{ip("fe80::1"), "eth0", 1, false, false}, {ip("fe80::2"), "nexthop", 3, false, false}}}}},
		{"CRLF line ends", "10.0.0.0/8 dev eth0\r\n10.1.0.0/16\r\n", []Route{{Prefix: pfx("10.0.0.0/8"), Type: "unicast", Paths: []Path{{Dev: "eth0", Weight: 1}}}, {Prefix: pfx("10.1.0.0/16"), Type: "unicast"}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Read("f", strings.NewReader(tt.text))
			require.NoError(t, err)
			if diff := cmp.Diff(tt.want, got, netips); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestErrorsNameFileAndLine(t *testing.T) {
	tests := []struct{ text, want string }{
		{"10.0.0.0/8\nhello world\n", `f:2: "hello" is not a prefix; write lines such as`},
		{"10.0.0.1/8\n", "f:1: 10.0.0.1/8 has address bits beyond its length; did you mean 10.0.0.0/8?"},
		{"10.0.0.0/33\n", `f:1: "10.0.0.0/33" is not a prefix`},
		{"fe80::1%eth0\n", `f:1: "fe80::1%eth0" is not a prefix`},
		{"blackhole\n", "f:1: a blackhole route without a prefix"},
		{"10.0.0.0/8 via\n", `f:1: "via" without a value`},
		{"10.0.0.0/8 via inet6\n", `f:1: "via" without a value`},
		{"10.0.0.0/8 via eth0\n", `f:1: via "eth0": `},
		{"10.0.0.0/8 metric many\n", `f:1: metric "many": `},
		{"10.0.0.0/8 mtu lock\n", `f:1: "mtu" without a value`},
		{"10.0.0.0/8 mtu 65536\n", `f:1: mtu "65536": `},
		{"\tnexthop via 10.0.0.1 dev eth0 weight 1\n", "f:1: a nexthop line without a route before it"},
		{"10.0.0.0/8\nnexthop via 10.0.0.1 weight 0\n", `f:2: weight "0": it is a number from 1 to 256`},
		{"2001:db8::/32 from 2001:db8:1::/48 via fe80::1 dev eth0\n", "f:1: a route by source address (from 2001:db8:1::/48)"},
		{strings.Repeat("1", 100_000), "f:1: read routes: "},
		{"\x1f\x8bnot gzip", "read routes: unpack f: "},
	}
	for _, tt := range tests {
		_, err := Read("f", strings.NewReader(tt.text))
		if err == nil || !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("%.40q: got %v, want %s", tt.text, err, tt.want)
		}
	}
}

func TestOpenUnpacksGzip(t *testing.T) {
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	z.Write([]byte("10.0.0.0/8\n"))
	z.Close()
	path := filepath.Join(t.TempDir(), "routes.gz")
	require.NoError(t, os.WriteFile(path, packed.Bytes(), 0o600))
	got, err := Open(path)
	if err != nil || len(got) != 1 || got[0].Prefix != pfx("10.0.0.0/8") {
		t.Errorf("got %v, %v", got, err)
	}
	if _, err := Open(path + ".missing"); err == nil || !strings.Contains(err.Error(), path+".missing") {
		t.Errorf("a missing file: %v", err)
	}
}

// TestOpenReadsPipes also checks that a pipe without a writer is an error and does not block.
func TestOpenReadsPipes(t *testing.T) {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	if _, err := w.WriteString("10.0.0.0/8\n"); err != nil {
		t.Fatal(err)
	}
	w.Close()
	path := fmt.Sprintf("/dev/fd/%d", r.Fd())
	if got, err := Open(path); err != nil || len(got) != 1 {
		t.Errorf("got %v, %v", got, err)
	}
	fifo := filepath.Join(t.TempDir(), "fifo")
	require.NoError(t, unix.Mkfifo(fifo, 0o600))
	for _, path := range []string{fifo, "/dev/zero"} {
		done := make(chan error, 1)
		go func() { _, err := Open(path); done <- err }()
		select {
		case err := <-done:
			if err == nil || !strings.Contains(err.Error(), path) {
				t.Errorf("%s: %v", path, err)
			}
		case <-time.After(20 * time.Second):
			t.Fatalf("Open(%s) blocks", path)
		}
	}
}

func TestReadLimitsLines(t *testing.T) {
	const want = "f:4: more than 3 lines: name a file with fewer"
	if _, err := read("f", strings.NewReader("10.0.0.0/8\n#\n\n#\n"), 3); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestTruncatedLineIsNotASyntaxError(t *testing.T) {
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	z.Write([]byte("10.0.0.0/8\n10.1"))
	z.Flush()
	_, err := Read("f", &packed)
	if want := "f:2: read routes: unexpected EOF"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestLowestMetricWinsThenTheFirst(t *testing.T) {
	routes, err := Read("f", strings.NewReader("10.0.0.0/8 dev a metric 20\n10.0.0.0/8 dev b metric 10\n10.0.0.0/8 dev c metric 10\n"))
	require.NoError(t, err)
	table, err := NewTable(routes)
	require.NoError(t, err)
	got, ok := table.Lookup(ip("10.1.2.3"))
	if !ok || got.Paths[0].Dev != "b" || table.Len() != 1 {
		t.Errorf("got %v, %t of %d routes, want the one on b alone", got, ok, table.Len())
	}
}

func TestDeadRoutesAreSkipped(t *testing.T) {
	routes, err := Read("f", strings.NewReader("10.0.0.0/8 dev eth0\n10.1.0.0/16 dev eth1 dead linkdown\n"+
		"10.2.0.0/16 dev eth1 metric 1 dead\n10.2.0.0/16 dev eth2 metric 2\n10.3.0.0/16\n\tnexthop dev eth1 weight 1 dead\n\tnexthop dev eth2 weight 1\n"))
	require.NoError(t, err)
	table, err := NewTable(routes)
	require.NoError(t, err)
	for addr, want := range map[string]string{"10.1.0.1": "10.0.0.0/8 eth0", "10.2.0.1": "10.2.0.0/16 eth2", "10.3.0.1": "10.3.0.0/16 eth1"} {
		if r, ok := table.Lookup(ip(addr)); !ok || r.Prefix.String()+" "+r.Paths[0].Dev != want {
			t.Errorf("%s: got %+v, want %s", addr, r, want)
		}
	}
}

// TestLookupFindsTheLongestPrefix compares Lookup with a linear search.
func TestLookupFindsTheLongestPrefix(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	var routes []Route
	random := func(bits int) netip.Addr { // zero bytes are frequent, so that prefixes nest
		b := make([]byte, bits/8)
		for i := range b {
			b[i] = byte(rnd.IntN(2)) * byte(rnd.IntN(256))
		}
		a, _ := netip.AddrFromSlice(b)
		return a
	}
	for range 2000 {
		for _, bits := range []int{32, 128} {
			p, _ := random(bits).Prefix(rnd.IntN(bits + 1))
			routes = append(routes, Route{Prefix: p, Type: "unicast"})
		}
	}
	table, err := NewTable(routes)
	require.NoError(t, err)
	for range 2000 {
		for _, bits := range []int{32, 128} {
			addr := random(bits)
			want := -1
			for _, r := range routes {
				if r.Prefix.Contains(addr) {
					want = max(want, r.Prefix.Bits())
				}
			}
			got, ok := table.Lookup(addr)
			if ok != (want >= 0) || ok && (got.Prefix.Bits() != want || !got.Prefix.Contains(addr)) {
				t.Fatalf("%v: got %v, %t, want a prefix of %d bits", addr, got.Prefix, ok, want)
			}
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add("10.0.0.0/8 via inet6 fe80::1 dev eth0 metric 1\n\tnexthop via 1.1.1.1 weight 3\n")
	f.Add("::ffff:10.0.0.0/104 via ::ffff:1.2.3.4 dev eth0\n::/0\n")
	f.Add("unreachable default dev lo pref medium\n# c\n")
	f.Fuzz(func(t *testing.T, text string) {
		routes, err := Read("f", strings.NewReader(text))
		if err != nil {
			return
		}
		table, err := NewTable(routes)
		if err != nil {
			t.Fatalf("build a table of valid routes: %v", err)
		}
		for _, r := range routes {
			if _, ok := table.Lookup(r.Prefix.Addr()); !ok {
				t.Errorf("%v is not found by its own address", r.Prefix)
			}
		}
	})
}
