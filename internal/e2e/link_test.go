package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/control/status"
	"github.com/warproute/warproute/internal/lab"
	"github.com/warproute/warproute/internal/require"
)

// show ports and the metrics have what the interface itself lost, as `ip -s link`, also of a renamed one.
func TestFramesThatAnInterfaceLosesAreShown(t *testing.T) {
	top := newTopology(t, lab.VethOptions{})
	r := startRouterWith(t, top.Router, "--metrics", "127.0.0.1:9099", "--port", lab.LAN, "--port", lab.WAN)
	ip(t, top.Router, "link set "+lab.LAN+" name office")
	fd, err := top.Client.PacketSocket(lab.ClientLink)
	require.NoError(t, err)
	defer unix.Close(fd)
	const frames = 30
	for range frames { // for Linux, which has no receiver for the protocol and drops them
		require.NoError(t, unix.Sendto(fd, append([]byte{255, 255, 255, 255, 255, 255, 2, 0, 0, 0, 0, 1, 0x88, 0xb6}, make([]byte, 46)...), 0, nil))
	}
	var lan status.Port
	eventually(t, 10*time.Second, "the port has the frames that Linux dropped", func() bool {
		var ports []status.Port
		require.NoError(t, r.Get("/ports", &ports))
		lan = ports[0]
		return lan.Interface == "office" && lan.Link != nil && lan.Link.RxDropped >= frames
	})
	if want := must(t, top.Router, "cat", "/sys/class/net/office/statistics/rx_dropped"); strings.TrimSpace(want) != fmt.Sprint(lan.Link.RxDropped) {
		t.Errorf("%d frames, and by Linux %s", lan.Link.RxDropped, want)
	}
	want := fmt.Sprintf("%s: dropped by the driver or Linux since the interface exists (ip -s link): rx %d, rx errors 0, tx 0, tx errors 0", lab.LAN, lan.Link.RxDropped)
	if out := r.command("show", "ports")(); !strings.Contains(out, want) || strings.Contains(out, lab.WAN+": dropped by the driver") {
		t.Errorf("no %q in\n%s", want, out)
	}
	metric := fmt.Sprintf("warproute_link_dropped_frames_total{direction=\"rx\",port=%q} %d\n", lab.LAN, lan.Link.RxDropped)
	if body := scrape(top.Router, "127.0.0.1:9099"); !strings.Contains(body, metric) {
		t.Errorf("no %s", metric)
	}
}
