package pathmtu

import (
	"encoding/binary"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/warproute/warproute/internal/lab"
	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/ipsec/gateway"
	"github.com/warproute/warproute/packet"
)

// Linux reports errors about ESP, with and without UDP, of both families. Its own routes do not follow those of IPv4.
func TestErrorsAreReceived(t *testing.T) {
	ns, err := lab.New("pathmtu")
	require.NoError(t, err)
	t.Cleanup(func() { ns.Close() })
	reports := make(chan gateway.TooBig, 4)
	var w *Watcher
	require.NoError(t, ns.Do(func() (err error) {
		w, err = Watch(func(e gateway.TooBig) { reports <- e })
		return err
	}))
	defer w.Close()
	for _, c := range []struct {
		network, to string
		msg         []byte
	}{
		{"ip4:icmp", "127.0.0.1", needed(1300, 50, esp)},
		{"ip4:icmp", "127.0.0.1", needed(1301, 17, udp, esp)},
		{"ip6:ipv6-icmp", "::1", tooBig(1302, 50, esp)},
		{"ip6:ipv6-icmp", "::1", tooBig(1303, 17, udp, esp)},
	} {
		to := netip.MustParseAddr(c.to)
		if to.Is4() {
			binary.BigEndian.PutUint16(c.msg[2:], packet.Checksum(c.msg))
		}
		require.NoError(t, ns.Do(func() error {
			conn, err := net.DialIP(c.network, nil, &net.IPAddr{IP: to.AsSlice()})
			if err != nil {
				return err
			}
			defer conn.Close()
			_, err = conn.Write(c.msg)
			return err
		}))
		select {
		case got := <-reports:
			if want := int(binary.BigEndian.Uint32(c.msg[4:])); got.MTU != want || got.From != to || got.SPI != 0x11223344 {
				t.Errorf("%+v, want an MTU of %d from %v", got, want, to)
			}
		case <-time.After(5 * time.Second):
			t.Fatalf("no report of %x", c.msg)
		}
	}
	if route, err := ns.Run("ip", "route", "show", "cache"); err != nil || strings.Contains(route, "mtu") {
		t.Errorf("Linux has applied an error: %v: %s", err, route)
	}
}
