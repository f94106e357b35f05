package afxdp

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"slices"
	"testing"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/internal/require"
)

// steerOracle returns the decision of steer.bpf.c without its code, for a gateway with the
// addresses own4 and own6. either is true for a later fragment of UDP, which is ESP if its first
// fragment was, recently.
func steerOracle(f []byte) (want Decision, either bool) {
	transit := map[Decision]Decision{
		VLAN: TransitVLAN, EtherType: TransitEtherType, OtherMAC: TransitOtherMAC, IPv4Options: TransitIPv4Options,
		LinkLocal: TransitLinkLocal, OwnSource: TransitOwnSource, NeighborDiscovery: TransitNeighborDiscovery,
	}
	want, either = routerOracle(f)
	if dropped, is := transit[want]; is && !isForHost(f[12:], 2) {
		return dropped, false
	}
	return want, either
}

// isForHost reports whether Linux would not forward a packet that begins with an EtherType, after
// up to a number of VLAN tags.
func isForHost(p []byte, tags int) bool {
	if len(p) < 2 {
		return false
	}
	etherType, p := binary.BigEndian.Uint16(p), p[2:]
	switch {
	case etherType == 0x8847, etherType == 0x8848:
		return false
	case etherType == 0x8100, etherType == 0x88a8:
		return tags > 0 && len(p) >= 4 && isForHost(p[2:], tags-1)
	case etherType == 0x0800 && (len(p) < 20 || p[0]>>4 != 4), etherType == 0x86dd && (len(p) < 40 || p[0]>>4 != 6):
		return false
	case etherType == 0x0800:
		dst := netip.AddrFrom4([4]byte(p[16:]))
		return dst.IsMulticast() || dst == netip.AddrFrom4([4]byte{255, 255, 255, 255}) || dst == own4
	case etherType == 0x86dd:
		dst := netip.AddrFrom16([16]byte(p[24:]))
		return p[24] == 0xff || netip.MustParsePrefix("fe80::/10").Contains(dst) || dst == own6
	}
	return true
}

// routerOracle returns the decision of a router that is no gateway.
func routerOracle(f []byte) (want Decision, either bool) {
	if len(f) < 14 {
		return ToSocket, false
	}
	switch binary.BigEndian.Uint16(f[12:]) {
	case 0x8100, 0x88a8:
		return VLAN, false
	case 0x0800, 0x86dd:
	default:
		return EtherType, false
	}
	if !bytes.Equal(f[:6], portMAC[:]) {
		return OtherMAC, false
	}
	p := f[14:]
	if binary.BigEndian.Uint16(f[12:]) == 0x0800 {
		return steerOracle4(p)
	}
	return steerOracle6(p)
}

func steerOracle4(p []byte) (Decision, bool) {
	if len(p) < 20 || p[0]>>4 != 4 {
		return ToSocket, false
	}
	src, dst := netip.AddrFrom4([4]byte(p[12:])), netip.AddrFrom4([4]byte(p[16:]))
	fragment := binary.BigEndian.Uint16(p[6:]) & 0x3fff
	switch {
	case p[0]&0xf > 5:
		return IPv4Options, false
	case dst.IsMulticast():
		return Multicast, false
	case dst == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
		return Broadcast, false
	case dst == own4:
		return oracleESP(p[9], p[20:], fragment != 0, fragment&0x1fff != 0)
	case src == own4:
		return OwnSource, false
	}
	return ToSocket, false
}

func steerOracle6(p []byte) (Decision, bool) {
	if len(p) < 40 || p[0]>>4 != 6 {
		return ToSocket, false
	}
	src, dst := netip.AddrFrom16([16]byte(p[8:])), netip.AddrFrom16([16]byte(p[24:]))
	linkLocal := netip.MustParsePrefix("fe80::/10")
	next, l4 := p[6], p[40:]
	switch {
	case p[24] == 0xff:
		return Multicast, false
	case linkLocal.Contains(src), linkLocal.Contains(dst):
		return LinkLocal, false
	case dst == own6 && next == unix.IPPROTO_FRAGMENT && len(l4) < 8:
		return Local, false
	case dst == own6 && next == unix.IPPROTO_FRAGMENT:
		return oracleESP(l4[0], l4[8:], true, binary.BigEndian.Uint16(l4[2:])&0xfff8 != 0)
	case dst == own6:
		return oracleESP(next, l4, false, false)
	case src == own6:
		return OwnSource, false
	case next == unix.IPPROTO_ICMPV6 && len(l4) > 0 && l4[0] >= 133 && l4[0] <= 137:
		return NeighborDiscovery, false
	}
	return ToSocket, false
}

// oracleESP returns the decision on a packet to this host: ESP, also in UDP, goes to the socket.
func oracleESP(protocol byte, l4 []byte, fragment, later bool) (Decision, bool) {
	switch {
	case protocol == unix.IPPROTO_ESP:
		return ToSocket, false
	case protocol == unix.IPPROTO_UDP && fragment && later:
		return Local, true
	case protocol == unix.IPPROTO_UDP && len(l4) >= 16 && binary.BigEndian.Uint16(l4[2:]) == 4500 && binary.BigEndian.Uint32(l4[8:]) != 0:
		return ToSocket, false
	}
	return Local, false
}

// FuzzSteer compares the XDP program of a gateway, run by BPF_PROG_TEST_RUN, with an oracle.
func FuzzSteer(f *testing.F) {
	p, err := loadProgram(0, 1, nil, false)
	require.NoError(f, err)
	f.Cleanup(func() { p.close() })
	var folds [1 << 10]uint64 // every address has to be looked up
	for i := range folds {
		folds[i] = ^uint64(0)
	}
	for _, err := range []error{
		p.setMAC(portMAC), p.setGateway(), p.LocalFolds.Set(folds), p.Local4.Put(own4.AsSlice(), uint8(1)), p.Local6.Put(own6.AsSlice(), uint8(1)),
	} {
		require.NoError(f, err)
	}
	for _, c := range steerTests {
		f.Add(c.frame)
	}
	for _, c := range gatewayTests {
		f.Add(c.frame)
	}
	f.Fuzz(func(t *testing.T, frame []byte) {
		if len(frame) < 14 || len(frame) > 3000 { // what the kernel runs programs on
			return
		}
		before, err := p.counts()
		require.NoError(t, err)
		out := make([]byte, len(frame))
		action, err := p.Steer.Run(&ebpf.RunOptions{Data: frame, DataOut: out})
		require.NoError(t, err)
		after, err := p.counts()
		require.NoError(t, err)
		want, either := steerOracle(frame)
		got := Decision(slices.IndexFunc(slices.Collect(func(yield func(bool) bool) {
			for d := range after {
				if !yield(after[d] != before[d]) {
					return
				}
			}
		}), func(changed bool) bool { return changed }))
		if got == NoSocket { // a frame for a queue without a socket is dropped
			got = ToSocket
		}
		if drop := action == xdpDrop; drop != (got == ToSocket || got < VLAN) || !drop && action != xdpPass {
			t.Errorf("%v, and action %d", got, action)
		}
		if got != want && !(either && got == ToSocket) {
			t.Errorf("%v, want %v", got, want)
		}
		if !bytes.Equal(out, frame) {
			t.Errorf("the frame was changed: %x", out)
		}
	})
}
