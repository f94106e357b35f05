package service

import (
	"bytes"
	"log/slog"
	"net"
	"strings"
	"testing"

	"github.com/warproute/warproute/control/config"
	"github.com/warproute/warproute/control/mirror"
	"github.com/warproute/warproute/internal/lab"
	"github.com/warproute/warproute/internal/require"
)

// TestDeletedXFRMInterfacesAreNoError: one whose deletion the mirror has not yet reported is not diverted. An interface that is there is, or
// else the log says so: the kernel may lack the filter, and internal/e2e/stock tests one that has it.
func TestDeletedXFRMInterfacesAreNoError(t *testing.T) {
	ns, err := lab.New("divert")
	require.NoError(t, err)
	defer ns.Close()
	if _, err := ns.Run("ip", "link", "add", "name", "a0", "type", "veth", "peer", "name", "b0"); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	s := &Service{cfg: &config.Config{}, ipsec: &ipsecGateway{}, log: slog.New(slog.NewTextHandler(&log, nil))}
	s.cfg.IPsec.Source = config.SourceXFRM
	require.NoError(t, ns.Do(func() error {
		if err := s.openTunnels(); err != nil {
			return err
		}
		there, err := net.InterfaceByName("a0")
		if err != nil {
			return err
		}
		gone := there.Index + 1000
		s.tunnels.all = []mirror.Tunnel{{Name: "gone", Ifindex: gone}, {Name: "a0", Ifindex: there.Index}}
		s.divertAll()
		if _, ok := s.tunnels.diverted[gone]; ok || s.tunnels.failed[gone] || s.tunnels.failed[there.Index] == (len(s.tunnels.diverted) == 1) {
			t.Errorf("diverted: %v, failed: %v; interface %d is gone, and %d is there", s.tunnels.diverted, s.tunnels.failed, gone, there.Index)
		}
		return s.tunnels.diverter.Close()
	}))
	if text := log.String(); strings.Contains(text, "interface=gone") || !strings.Contains(text, "interface=a0") {
		t.Errorf("log:\n%s", text)
	}
}
