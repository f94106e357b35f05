package afxdp

import (
	"strings"
	"testing"

	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/umem"
)

// Drivers that round the length of a buffer to KiB leave 1,024 of the 1,790 bytes.
func TestZeroCopyRoom(t *testing.T) {
	for _, c := range []struct {
		driver, device string
		want           int
	}{
		{"igb", "0x1533", 1024}, {"igc", "0x125c", 1024}, {"stmmac", "", 1776},
		{"ixgbe", "0x10fb", 1024}, {"ixgbe", "", 1024}, {"ixgbe", "0x1563", umem.MaxFrameLen},
		{"i40e", "0x1572", umem.MaxFrameLen}, {"ice", "", umem.MaxFrameLen}, {"mlx5_core", "", umem.MaxFrameLen},
		{"virtio_net", "", umem.MaxFrameLen}, {"", "", umem.MaxFrameLen},
	} {
		if got := zeroCopyRoom(c.driver, c.device); got != c.want {
			t.Errorf("driver %q, device %q: a frame holds %d bytes of a packet, want %d", c.driver, c.device, got, c.want)
		}
	}
}

// A port whose driver would truncate packets uses copy mode, like all other ports then; required
// zero-copy is an error. Veths replace the NICs.
func TestPortsThatWouldTruncatePacketsUseCopyMode(t *testing.T) {
	enterNamespace(t)
	addVeth(t, "ra", "a", 1)
	addVeth(t, "rb", "b", 1)
	real := hardware
	t.Cleanup(func() { hardware = real })
	hardware = func(name string) (string, string) {
		if name == "rb" {
			return "igb", "0x1533"
		}
		return "ice", ""
	}
	const reason = "port rb: driver igb rounds the buffer length of 1790 bytes down to 1024, and packets with an MTU of 1500 need 1514: it would truncate them"
	w := []WorkerMemory{newWorker(t, 256)}
	setMTU(t, "rb", 500) // which may be raised
	s := open(t, Config{Ports: ports(Auto, "ra", "rb"), Workers: w, RingSize: 64})
	for _, p := range s.Ports {
		if p.Mode != Native || !strings.Contains(p.ModeReason, reason) {
			t.Errorf("%s: %v because %q, want native because %q", p.Name, p.Mode, p.ModeReason, reason)
		}
	}
	require.NoError(t, s.Close())
	if s, err := Open(Config{Ports: ports(ZeroCopy, "ra", "rb"), Workers: w, RingSize: 64}); err == nil {
		s.Close()
		t.Error("zero-copy ports were opened that would cut packets")
	} else if !strings.Contains(err.Error(), reason) || !strings.Contains(err.Error(), "use mode auto or native") {
		t.Errorf("the error does not say why: %v", err)
	}
	if err := CheckZeroCopy("ra", 1776, 0); err != nil {
		t.Errorf("a driver that rounds nothing: %v", err)
	}
	if err := CheckZeroCopy("ra", 1500, 2); err == nil || !strings.Contains(err.Error(), "adds 2 queues for XDP") {
		t.Errorf("a driver that adds queues: %v", err)
	}
}

// The native XDP of ixgbevf runs programs and redirects nothing: its ports use generic mode.
func TestDriversWithoutRedirectionUseGenericMode(t *testing.T) {
	enterNamespace(t)
	addVeth(t, "ra", "a", 1)
	real := hardware
	t.Cleanup(func() { hardware = real })
	hardware = func(string) (string, string) { return "ixgbevf", "" }
	w := []WorkerMemory{newWorker(t, 256)}
	s := open(t, Config{Ports: ports(Auto, "ra"), Workers: w, RingSize: 64})
	if p := s.Ports[0]; p.Mode != Generic || !strings.Contains(p.ModeReason, "does not redirect") {
		t.Errorf("%v because %q", p.Mode, p.ModeReason)
	}
	require.NoError(t, s.Close())
	if s, err := Open(Config{Ports: ports(Native, "ra"), Workers: w, RingSize: 64}); err == nil {
		s.Close()
		t.Error("a native port was opened that would receive nothing")
	} else if !strings.Contains(err.Error(), "use mode auto or generic") {
		t.Errorf("the error has no hint: %v", err)
	}
}
