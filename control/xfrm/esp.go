package xfrm

import (
	"errors"
	"fmt"
	"net"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// ESPMissing returns the families, of "IPv4" and "IPv6", for which the kernel has no ESP (CONFIG_INET_ESP, CONFIG_INET6_ESP), so
// that it refuses SAs. It asks by an SA with a key that is too short, which no kernel adds (net/xfrm/xfrm_user.c: xfrm_add_sa).
func ESPMissing() (families []string, err error) {
	for _, f := range []struct{ name, address string }{{"IPv4", "192.0.2.1"}, {"IPv6", "2001:db8::1"}} {
		err := netlink.XfrmStateAdd(&netlink.XfrmState{
			Src: net.ParseIP(f.address), Dst: net.ParseIP(f.address), Proto: netlink.XFRM_PROTO_ESP, Mode: netlink.XFRM_MODE_TUNNEL, Spi: 0x100,
			Crypt: &netlink.XfrmStateAlgo{Name: "cbc(aes)", Key: []byte{1}},
		})
		switch {
		case errors.Is(err, unix.EPROTONOSUPPORT):
			families = append(families, f.name)
		case errors.Is(err, unix.EPERM):
			return nil, fmt.Errorf("ask for ESP: %w", err)
		}
	}
	return families, nil
}
