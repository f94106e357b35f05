package xfrm

import (
	"errors"
	"fmt"
	"net"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// ESPMissing returns the families, of "IPv4" and "IPv6", for which Linux refuses SAs, for want of ESP or of its modules. IPv6 is
// not missing if it is off. Linux is asked to add an SA whose key is too short: one that has ESP refuses it for its key (EINVAL),
// others before (net/xfrm/xfrm_user.c: xfrm_state_construct). ESP comes with AES-CBC since Linux 5.8. The question loads modules.
func ESPMissing() (families []string, err error) {
	for _, f := range []struct {
		name, address string
		number        int
	}{{"IPv4", "192.0.2.1", unix.AF_INET}, {"IPv6", "2001:db8::1", unix.AF_INET6}} {
		s, err := unix.Socket(f.number, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		if errors.Is(err, unix.EAFNOSUPPORT) {
			continue
		}
		unix.Close(s)
		err = netlink.XfrmStateAdd(&netlink.XfrmState{
			Src: net.ParseIP(f.address), Dst: net.ParseIP(f.address), Proto: netlink.XFRM_PROTO_ESP, Mode: netlink.XFRM_MODE_TUNNEL, Spi: 0x100,
			Crypt: &netlink.XfrmStateAlgo{Name: "cbc(aes)", Key: []byte{1}},
		})
		switch {
		case errors.Is(err, unix.EINVAL):
		case errors.Is(err, unix.EPROTONOSUPPORT), errors.Is(err, unix.ENOSYS):
			families = append(families, f.name)
		default:
			return nil, fmt.Errorf("ask Linux for ESP of %s: %w", f.name, err)
		}
	}
	return families, nil
}
