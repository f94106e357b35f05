package systemd

import (
	"net"
	"os"
	"strings"
	"testing"
	"time"
)

// filteredConfig has a tunnel to 192.0.2.2, whose path has a link with a smaller MTU.
const filteredConfig = `ports: [{interface: lan0}, {interface: wan0}]
engine: cpu
metrics: {listen: ":9273"}
ipsec:
  sas:
    - {name: out, spi: 0x2000, direction: out, src: 192.0.2.1, dst: 192.0.2.2, suite: null-sha256, auth_key: "` + key + `"}
  policies:
    - {direction: out, src: 10.7.0.0/24, dst: 10.99.0.0/16, action: protect, sa: out}
`

// The unit lets private networks, and no others, exchange packets with sockets of the router. Path MTU errors of
// routers with any address arrive nevertheless.
func testAddresses(t *testing.T, h *host) {
	if state := h.show("IPAddressDeny"); !strings.Contains(state, "0.0.0.0/0") || !strings.Contains(state, "::/0") {
		t.Fatalf("IPAddressDeny is %q", state)
	}
	server := h.network["server"]
	for _, c := range []struct {
		name string
		args []string
	}{
		{"router", []string{"addr", "add", "192.0.2.1/32", "dev", "lo"}},
		{"router", []string{"route", "add", "192.0.2.2", "via", "10.8.0.2"}},
		{"router", []string{"route", "add", "10.99.0.0/16", "via", "10.8.0.2"}},
		{"router", []string{"route", "add", "198.51.100.1", "via", "10.8.0.2"}},
		{"client", []string{"route", "add", "10.99.0.0/16", "via", "10.7.0.1"}},
		{"server", []string{"addr", "add", "198.51.100.1/32", "dev", "lo"}},
		{"server", []string{"route", "add", "192.0.2.1", "via", "10.8.0.1", "src", "198.51.100.1"}},
		{"server", []string{"link", "add", "narrow", "mtu", "1300", "type", "dummy"}},
		{"server", []string{"link", "set", "narrow", "up"}},
		{"server", []string{"route", "add", "192.0.2.2", "dev", "narrow"}},
	} {
		if out, err := h.network[c.name].Run("ip", c.args...); err != nil {
			t.Fatalf("ip %v on %s: %v: %s", c.args, c.name, err, out)
		}
	}
	h.must(server.Sysctl("net.ipv4.ip_forward", "1"))
	h.configure(filteredConfig)
	h.systemctl("restart", "warproute")
	h.forwardsWithin(patience, "the restart")

	fetch := func(from, address string) (err error) {
		h.must(server.Do(func() error {
			d := net.Dialer{Timeout: 2 * time.Second, LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
			var conn net.Conn
			if conn, err = d.Dial("tcp", address); err == nil {
				conn.Close()
			}
			return nil
		}))
		return err
	}
	if err := fetch("10.8.0.2", "10.8.0.1:9273"); err != nil {
		t.Errorf("metrics for a private network: %v", err)
	}
	if err := fetch("198.51.100.1", "10.8.0.1:9273"); !os.IsTimeout(err) {
		t.Errorf("metrics for another host: %v, want a timeout", err)
	}
	h.eventually(t, patience, "a router has reported the path MTU", func() bool {
		_, _ = h.client.Run("ping", "-c", "1", "-W", "1", "-M", "do", "-s", "1372", "10.99.0.1")
		return strings.Contains(h.written(), "path MTU to another gateway lowered")
	})
	h.logged(t, `reason="198.51.100.1 reported 1300"`)
}
