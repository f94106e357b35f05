package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/warproute/warproute/internal/lab"
	"github.com/warproute/warproute/internal/require"
)

// tooBig is ping's report of each family's error.
var tooBig = map[string]string{"IPv4": "Frag needed and DF set (mtu = %d)", "IPv6": "Packet too big: mtu=%d"}

// headers are the lengths of the headers of a ping, in bytes.
var headers = map[string]int{"IPv4": 28, "IPv6": 48}

// discovers checks that the client learns the exact path MTU from a router's error.
func (c *chain) discovers(t *testing.T, family, server, router string, mtu int) {
	t.Helper()
	ping := func(mtu int) string {
		out, _ := c.client.Run("ping", "-n", "-c", "1", "-W", "2", "-M", "do", "-s", strconv.Itoa(mtu-headers[family]), server)
		return out
	}
	want := "From " + router + " icmp_seq=1 " + fmt.Sprintf(tooBig[family], mtu)
	if out := ping(mtu + 1); !strings.Contains(out, want) {
		t.Errorf("%s, a byte too long: ping does not say %q:\n%s", family, want, out)
	}
	if got := c.pathMTU(server); got != strconv.Itoa(mtu) {
		t.Errorf("%s: the client's Linux learned an MTU of %q, want %d", family, got, mtu)
	}
	if out := ping(mtu); !strings.Contains(out, " 0% packet loss") {
		t.Errorf("%s: a packet of %d bytes does not pass:\n%s", family, mtu, out)
	}
}

// Hosts learn the MTU of a link behind another router.
func TestPathMTU(t *testing.T) {
	c := newChain(t, lab.VethOptions{})
	c.start()
	c.farMTU("1400")
	for _, f := range families {
		c.discovers(t, f.name, f.server, f.hops[1], 1400)
	}
	c.farMTU("1300") // the learned MTU is obsolete
	for _, f := range families {
		out := must(t, c.client, "tracepath", "-n", f.flag, f.server)
		if !strings.Contains(out, "pmtu 1300 hops 3 back 3") {
			t.Errorf("%s: tracepath finds another path than of 1300 bytes and 3 hops:\n%s", f.name, out)
		}
	}
}

// IPv4 packets without DF are fragmented by the client and the last router, and arrive whole.
func TestFragmentedPacketsArriveWhole(t *testing.T) {
	c := newChain(t, lab.VethOptions{})
	c.start()
	c.farMTU("1000")
	for _, size := range []string{"973", "1472", "4000"} { // the first exceeds the MTU by one byte
		if out := must(t, c.client, "ping", "-n", "-c", "3", "-i", "0.05", "-W", "2", "-M", "dont", "-s", size, "10.2.0.2"); !strings.Contains(out, " 0% packet loss") {
			t.Errorf("%s bytes without DF: %s", size, out)
		}
	}
	if got := nstat(t, c.server, "IpReasmOKs"); got != 9 {
		t.Errorf("the server reassembled %d packets, want 9", got)
	}
	if got := nstat(t, c.server, "IpReasmFails"); got != 0 {
		t.Errorf("the server missed fragments of %d packets", got)
	}
}

// A TCP connection survives a decrease of the path MTU.
func TestTCPSurvivesAShrinkingPathMTU(t *testing.T) {
	c := newChain(t, lab.VethOptions{})
	c.start()
	for _, f := range families {
		t.Run(f.name, func(t *testing.T) {
			c.farMTU("1500")
			conn, received := c.stream(t, f.server)
			const half = 1 << 20
			data := make([]byte, 2*half)
			rand.NewChaCha8([32]byte{}).Read(data)
			var got []byte
			for i, mtu := range []string{"1500", "1280"} {
				c.farMTU(mtu)
				written := make(chan error, 1)
				go func() {
					_, err := conn.Write(data[i*half : (i+1)*half])
					written <- err
				}()
				part := make([]byte, half)
				if n, err := io.ReadFull(received, part); err != nil {
					t.Fatalf("with an MTU of %s ahead, %d of %d bytes arrived: %v", mtu, n, half, err)
				}
				require.NoError(t, <-written)
				got = append(got, part...)
			}
			if !bytes.Equal(got, data) {
				t.Error("what arrived is not what was sent")
			}
			if mtu := c.pathMTU(f.server); mtu != "1280" {
				t.Errorf("the client learned an MTU of %q, want 1280", mtu)
			}
		})
	}
}

// stream returns both ends of a TCP connection from the client to the server.
func (c *chain) stream(t *testing.T, server string) (client, accepted net.Conn) {
	t.Helper()
	var listener net.Listener
	err := c.server.Do(func() (err error) {
		listener, err = net.Listen("tcp", netip.AddrPortFrom(netip.MustParseAddr(server), 0).String())
		return err
	})
	require.NoError(t, err)
	defer listener.Close()
	err = c.client.Do(func() (err error) {
		client, err = net.DialTimeout("tcp", listener.Addr().String(), 5*time.Second)
		return err
	})
	require.NoError(t, err)
	t.Cleanup(func() { client.Close() })
	accepted, err = listener.Accept()
	require.NoError(t, err)
	t.Cleanup(func() { accepted.Close() })
	deadline := time.Now().Add(15 * time.Second)
	require.NoError(t, errors.Join(client.SetDeadline(deadline), accepted.SetDeadline(deadline)))
	return client, accepted
}

// startTunnel starts both routers as gateways with a tunnel per family between the client's and the
// server's networks.
func (c *chain) startTunnel() {
	c.t.Helper()
	state := c.t.TempDir()
	sa := func(name, direction string, spi int, src, dst string) string {
		return fmt.Sprintf("    - {name: %s, direction: %s, spi: %d, src: \"%s\", dst: \"%s\", suite: aes128gcm16, key: \"%x\"}\n",
			name, direction, spi, src, dst, bytes.Repeat([]byte{byte(spi >> 8), byte(spi)}, 10))
	}
	for _, r := range []struct {
		ns                 *lab.Namespace
		ports, there, back string
	}{{c.r1, "[{interface: lan0}, {interface: mid0}]", "out", "in"}, {c.r2, "[{interface: mid0}, {interface: wan0}]", "in", "out"}} {
		config := fmt.Sprintf("ports: %s\nipsec:\n  state: %s\n  sas:\n", r.ports, filepath.Join(state, r.there)) +
			sa("there4", r.there, 0x1004, "10.12.0.1", "10.12.0.2") + sa("back4", r.back, 0x2004, "10.12.0.2", "10.12.0.1") +
			sa("there6", r.there, 0x1006, "fd12::1", "fd12::2") + sa("back6", r.back, 0x2006, "fd12::2", "fd12::1") +
			"  policies:\n" + fmt.Sprintf(`    - {direction: %[1]s, src: 10.1.0.0/24, dst: 10.2.0.0/24, action: protect, sa: there4}
    - {direction: %[2]s, src: 10.2.0.0/24, dst: 10.1.0.0/24, action: protect, sa: back4}
    - {direction: %[1]s, src: "fd01::/64", dst: "fd02::/64", action: protect, sa: there6}
    - {direction: %[2]s, src: "fd02::/64", dst: "fd01::/64", action: protect, sa: back6}
`, r.there, r.back)
		file := filepath.Join(state, r.there+".yaml")
		writeFile(c.t, file, config)
		startRouter(c.t, r.ns, "--config", file)
	}
}

// Sources learn the exact inner MTU of a tunnel: the port's MTU minus the overhead of AES-GCM, which is
// an outer header of 20 or 40 bytes, 8 each for ESP header and IV, a 16-byte ICV, a 2-byte trailer,
// and padding to 4 bytes.
func TestTunnelsReportTheirInnerMTU(t *testing.T) {
	c := newChain(t, lab.VethOptions{})
	c.startTunnel()
	for _, mtu := range []struct {
		link string
		fits map[string]int
	}{
		{"1500", map[string]int{"IPv4": 1446, "IPv6": 1426}},
		{"1399", map[string]int{"IPv4": 1342, "IPv6": 1322}},
	} {
		setMTU(t, mtu.link, map[string]*lab.Namespace{"mid0": c.r1})
		setMTU(t, mtu.link, map[string]*lab.Namespace{"mid0": c.r2})
		for _, f := range families {
			c.discovers(t, f.name, f.server, f.hops[0], mtu.fits[f.name])
		}
	}
	for _, f := range families {
		got := c.trace(t, "-I", f.flag, f.server)
		if !slices.Equal(got, f.hops) {
			t.Errorf("%s through the tunnel: %v, want %v", f.name, got, f.hops)
		}
	}
	// Behind the tunnel, the other router reports the decrypted packet.
	c.farMTU("1290")
	for _, f := range families {
		c.discovers(t, f.name, f.server, f.hops[1], 1290)
	}
	if out := must(t, c.client, "ping", "-n", "-c", "3", "-i", "0.05", "-W", "2", "-M", "dont", "-s", "4000", "10.2.0.2"); !strings.Contains(out, " 0% packet loss") {
		t.Errorf("packets without DF through the tunnel:\n%s", out)
	}
}
