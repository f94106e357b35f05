package doctor

import (
	"slices"
	"strings"
	"testing"

	"github.com/warproute/warproute/afxdp"
	"github.com/warproute/warproute/internal/lab"
	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/umem"
)

// The kernel reports that a veth pair has no zero-copy, since Linux 6.3.
func TestLinkOfTheKernel(t *testing.T) {
	ns, err := lab.New("doctor")
	require.NoError(t, err)
	defer ns.Close()
	require.NoError(t, lab.Veth(lab.End{Namespace: ns, Name: "a0"}, lab.End{Namespace: ns, Name: "b0"}, lab.VethOptions{}))
	err = ns.Do(func() error {
		h, err := ThisHost()
		if err != nil {
			return err
		}
		l, err := h.Link("a0")
		if err != nil {
			return err
		}
		if l.Driver != "veth" || l.MTU != 1500 || len(l.MAC) != 6 || l.Queues < 1 || l.XDP != "" || l.Features.ZeroCopy || !l.Features.Known {
			t.Errorf("got %+v", l)
		}
		if _, err := h.Link("none0"); err == nil || !strings.Contains(err.Error(), `no interface "none0"`) {
			t.Errorf("an interface that is not there: %v", err)
		}
		if _, err := ns.Run("ip", "link", "property", "add", "dev", "a0", "altname", "another0"); err != nil {
			return err
		}
		if _, err := h.Link("another0"); err == nil || !strings.Contains(err.Error(), `another name of interface "a0"`) {
			t.Errorf("an alternative name: %v", err)
		}
		if lo, err := h.Link("lo"); err != nil || !lo.Loopback {
			t.Errorf("loopback: %+v, %v", lo, err)
		}
		if all := Examine(h, []string{"a0", "b0"}); !Healthy(all) {
			var b strings.Builder
			Write(&b, all)
			t.Errorf("this test needs root and a kernel that can:\n%s", &b)
		}
		return nil
	})
	require.NoError(t, err)
}

// A queue with an AF_XDP socket belongs to another process, even without an XDP program. Linux
// reports it since 6.15.
func TestSocketsOfTheKernel(t *testing.T) {
	ns, err := lab.New("doctor")
	require.NoError(t, err)
	defer ns.Close()
	require.NoError(t, lab.Veth(lab.End{Namespace: ns, Name: "a0"}, lab.End{Namespace: ns, Name: "b0"}, lab.VethOptions{Queues: 2}))
	err = ns.Do(func() error {
		h, err := ThisHost()
		if err != nil {
			return err
		}
		memory, err := umem.New(64)
		if err != nil {
			return err
		}
		defer memory.Close()
		s, err := afxdp.Open(afxdp.Config{
			Ports: []afxdp.PortConfig{{Interface: "a0"}}, Workers: []afxdp.WorkerMemory{{Memory: memory, Pool: umem.NewPool(memory)}}, RingSize: 64,
		})
		if err != nil {
			return err
		}
		defer s.Close()
		if err := s.Detach(); err != nil {
			return err
		}
		var want []int
		if major, minor, _ := h.version(); major > 6 || major == 6 && minor >= 15 {
			want = []int{0, 1}
		}
		for name, want := range map[string][]int{"a0": want, "b0": nil} {
			if l, err := h.Link(name); err != nil || l.XDP != "" || !slices.Equal(l.Sockets, want) {
				t.Errorf("%s has sockets on the queues of %+v (%v), want %v", name, l, err, want)
			}
		}
		return nil
	})
	require.NoError(t, err)
}

// Doctor has the driver's message before a router starts, and leaves no program attached.
func TestTrialHasTheDriversMessage(t *testing.T) {
	ns, err := lab.New("doctor")
	require.NoError(t, err)
	defer ns.Close()
	require.NoError(t, lab.Veth(lab.End{Namespace: ns, Name: "a0"}, lab.End{Namespace: ns, Name: "b0"}, lab.VethOptions{}))
	if _, err := ns.Run("ip", "link", "set", "b0", "mtu", "9000"); err != nil {
		t.Fatal(err)
	}
	err = ns.Do(func() error {
		h, err := ThisHost()
		if err != nil {
			return err
		}
		found := ""
		for _, f := range Examine(h, []string{"a0"}) {
			if f.Check == "XDP mode" && f.Level == Warn {
				found = f.Found
			}
		}
		if !strings.Contains(found, "Peer MTU is too large to set XDP") {
			t.Errorf("the XDP mode is %q", found)
		}
		if l, err := h.Link("a0"); err != nil || l.XDP != "" || len(l.Sockets) > 0 {
			t.Errorf("the trial left %+v (%v)", l, err)
		}
		return nil
	})
	require.NoError(t, err)
}

// Doctor reports of stripped VLAN tags what the port of a router does with them: before the start, and while it runs.
func TestStrippedTagsOfTheKernel(t *testing.T) {
	ns, err := lab.New("doctor")
	require.NoError(t, err)
	defer ns.Close()
	require.NoError(t, lab.Veth(lab.End{Namespace: ns, Name: "a0"}, lab.End{Namespace: ns, Name: "b0"}, lab.VethOptions{}))
	err = ns.Do(func() error {
		h, err := ThisHost()
		if err != nil {
			return err
		}
		offloads := func() (found string) {
			for _, f := range Examine(h, []string{"a0"}) {
				if f.Check == "offloads" {
					found += f.Found + "\n"
				}
			}
			return found
		}
		before := offloads()
		for _, mode := range []afxdp.Mode{afxdp.Native, afxdp.Generic} {
			memory, err := umem.New(64)
			if err != nil {
				return err
			}
			defer memory.Close()
			s, err := afxdp.Open(afxdp.Config{
				Ports: []afxdp.PortConfig{{Interface: "a0", Mode: mode}}, Workers: []afxdp.WorkerMemory{{Memory: memory, Pool: umem.NewPool(memory)}}, RingSize: 64,
			})
			if err != nil {
				return err
			}
			unread, running := s.Ports[0].TagsUnread(), offloads()
			closeSet(s)
			want := "read from its metadata"
			if unread != "" {
				want = "the peer can strip VLAN tags before XDP, and they are not read: " + unread
			}
			if !strings.Contains(running, want) {
				t.Errorf("%v mode: doctor reports %q of a router, want %q", mode, running, want)
			}
			if mode == afxdp.Native && before != running {
				t.Errorf("doctor reports %q before the start, and then %q", before, running)
			}
		}
		return nil
	})
	require.NoError(t, err)
}
