package status

import (
	"strings"
	"testing"

	"github.com/warproute/warproute/internal/require"
)

func TestRefusedRedirectsAreShownAsLosses(t *testing.T) {
	s := sample()
	s.Ports[0].XDP.Refused = 20
	drops := Drops(s)
	last := drops[len(drops)-1]
	if last.Reason != "redirect_refused" || last.Port != "lan0" || last.Packets != 20 || last.Description == "" || last.Hint == "" {
		t.Errorf("the last drop is %+v", last)
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
