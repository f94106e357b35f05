package status

import (
	"slices"
	"strings"
	"testing"

	"github.com/warproute/warproute/internal/require"
)

func TestRefusedRedirectsAreShownAsLosses(t *testing.T) {
	s := sample()
	s.Ports[0].XDP.Refused = 20
	drops := Drops(s)
	at := slices.IndexFunc(drops, func(d Drop) bool { return d.Reason == "redirect_refused" })
	if at < 0 || drops[at].Port != "lan0" || drops[at].Packets != 20 || drops[at].Description == "" || drops[at].Hint == "" {
		t.Errorf("drops: %+v", drops)
	}
	var b strings.Builder
	require.NoError(t, WriteDrops(&b, drops))
	require.NoError(t, WritePorts(&b, Ports(s)))
	for _, want := range []string{"redirect_refused", "xdp:xdp_redirect_err", "lan0: dropped, redirect to the AF_XDP socket refused: 20"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, &b)
		}
	}
	if n := s.Ports[0].lost(); n != 21 { // 20 refused redirects, 1 frame without a socket
		t.Errorf("%d frames lost before the router, want 21", n)
	}
}

// Frames that the kernel or the XDP program lost are drops, with a hint each.
func TestLossesBeforeTheRouterAreDrops(t *testing.T) {
	s := sample()
	s.Ports[1].XDP.NoSocket, s.Ports[1].Rings.RxRingFull, s.Ports[1].Rings.RxDropped = 3, 4, 5
	for reason, frames := range map[string]uint64{"no_socket": 3, "rx_ring_full": 4, "rx_dropped": 5} {
		if !slices.ContainsFunc(Drops(s), func(d Drop) bool {
			return d.Reason == reason && d.Packets == frames && d.Port == s.Ports[1].Name && d.Description != "" && d.Hint != ""
		}) {
			t.Errorf("no %s of %d frames: %+v", reason, frames, Drops(s))
		}
	}
}
