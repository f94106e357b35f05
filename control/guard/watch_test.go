package guard

import (
	"bytes"
	"errors"
	"io/fs"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/control/rtnl"
	"github.com/warproute/warproute/internal/lab"
	"github.com/warproute/warproute/internal/require"
)

// logged collects the log of a watcher.
type logged struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func watch(t *testing.T, ns *lab.Namespace, drop bool, ports ...string) (w *Watcher, log *logged) {
	t.Helper()
	log = &logged{}
	require.NoError(t, ns.Do(func() (err error) {
		w, err = Watch(ports, drop, slog.New(slog.NewTextHandler(log, nil)))
		return err
	}))
	t.Cleanup(w.Close)
	return w, log
}

func await(t *testing.T, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(5 * time.Second); !f(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("timeout: %s", what)
		}
	}
}

func veth(t *testing.T, ns *lab.Namespace, name, peer string) {
	t.Helper()
	require.NoError(t, lab.Veth(lab.End{Namespace: ns, Name: name}, lab.End{Namespace: ns, Name: peer}, lab.VethOptions{}))
}

func TestWatcherFollowsForwarding(t *testing.T) {
	for _, drop := range []bool{true, false} {
		ns := newNamespace(t)
		veth(t, ns, "lan0", "peer0")
		require.NoError(t, ns.Sysctl("net.ipv4.ip_forward", "0"))
		require.NoError(t, ns.Sysctl("net.ipv6.conf.all.forwarding", "0"))
		w, log := watch(t, ns, drop, "lan0", "wan0")
		state := func(ports ...Port) func() bool {
			return func() bool { s := w.State(); return s.Active == drop && slices.Equal(s.Ports, ports) }
		}
		await(t, "a port without forwarding, and one that does not exist", state(Port{Name: "lan0"}))
		for _, step := range []struct {
			setting, value string
			want           Port
		}{
			{"net.ipv4.conf.lan0.forwarding", "1", Port{"lan0", true, false}},
			{"net.ipv6.conf.all.forwarding", "1", Port{"lan0", true, true}},
			{"net.ipv4.ip_forward", "0", Port{"lan0", true, true}}, // already 0: no change
			{"net.ipv4.conf.lan0.forwarding", "0", Port{"lan0", false, true}},
			{"net.ipv6.conf.all.forwarding", "0", Port{"lan0", false, false}},
			{"net.ipv6.conf.lan0.force_forwarding", "1", Port{"lan0", false, true}},
			{"net.ipv6.conf.lan0.force_forwarding", "0", Port{"lan0", false, false}},
			{"net.ipv4.conf.default.forwarding", "1", Port{"lan0", false, false}},
		} {
			err := ns.Sysctl(step.setting, step.value)
			if strings.Contains(step.setting, "force") && errors.Is(err, fs.ErrNotExist) {
				continue // Linux before 6.17
			}
			require.NoError(t, err)
			await(t, step.setting+"="+step.value, state(step.want))
		}
		veth(t, ns, "wan0", "peer1") // inherits conf.default
		await(t, "a new port that forwards", state(Port{Name: "lan0"}, Port{"wan0", true, false}))
		level := "level=ERROR"
		if drop {
			level = "level=WARN"
		}
		for _, want := range []string{"forwarding is on", "port=lan0 family=ipv6", "port=wan0 family=ipv4", "forwarding is off", level} {
			if !strings.Contains(log.String(), want) {
				t.Errorf("with drop %v, no %q in the log:\n%s", drop, want, log)
			}
		}
	}
}

func TestWatcherGuardsStackedAndRenamedInterfaces(t *testing.T) {
	ns := newNamespace(t)
	table := openTable(t, ns)
	_, log := watch(t, ns, true, "lan0", "wan0")
	expectGuarded(t, table, "lan0", "wan0") // neither exists
	veth(t, ns, "lan0", "peer0")
	run(t, ns, "ip link add mv0 link lan0 type macvlan")
	run(t, ns, "ip link add mv1 link peer0 type macvlan") // neither is stacked on a port
	await(t, "an interface stacked on a port", func() bool {
		names, err := table.Guarded()
		return err == nil && slices.Equal(names, []string{"lan0", "mv0", "wan0"})
	})
	run(t, ns, "ip link set lan0 name lan9")
	await(t, "a renamed port", func() bool {
		names, err := table.Guarded()
		return err == nil && slices.Contains(names, "lan9") && slices.Contains(names, "lan0")
	})
	run(t, ns, "nft flush ruleset")
	await(t, "a table that is restored", func() bool {
		names, err := table.Guarded()
		return err == nil && slices.Equal(names, []string{"lan0", "lan9", "mv0", "wan0"}) && strings.Contains(log.String(), "restored")
	})
}

func TestStackedIncludesUpperAndMasterInterfaces(t *testing.T) {
	links := []rtnl.Link{
		{Index: 1, Name: "lo"}, {Index: 2, Name: "lan0", Master: 9}, {Index: 3, Name: "wan0", Kind: "veth", Parent: 4}, {Index: 4, Name: "peer", Kind: "veth", Parent: 3},
		{Index: 5, Name: "wan0.7.8", Kind: "vlan", Parent: 6}, {Index: 6, Name: "wan0.7", Kind: "vlan", Parent: 3}, {Index: 7, Name: "vxlan0", Kind: "vxlan", Parent: 3},
		{Index: 8, Name: "other", Master: 9}, {Index: 9, Name: "br0", Kind: "bridge"}, {Index: 10, Name: "br0.5", Kind: "vlan", Parent: 9}, {Index: 11, Name: "mv9", Kind: "macvlan", Parent: 1},
	}
	got := stacked(links, map[int]bool{2: true, 3: true})
	if want := []string{"lan0", "wan0", "wan0.7.8", "wan0.7", "br0", "br0.5"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestInputChainKeepsESPFromLinux checks that the table drops ESP, and passes IKE and keepalives.
func TestInputChainKeepsESPFromLinux(t *testing.T) {
	a, b := newNamespace(t), newNamespace(t)
	require.NoError(t, lab.Veth(lab.End{Namespace: a, Name: "wan0"}, lab.End{Namespace: b, Name: "peer0"}, lab.VethOptions{}))
	run(t, a, "ip addr add 192.0.2.1/24 dev wan0")
	run(t, b, "ip addr add 192.0.2.2/24 dev peer0")
	guard(t, openTable(t, a), true, "wan0")
	var ike net.PacketConn
	require.NoError(t, a.Do(func() (err error) { ike, err = net.ListenPacket("udp4", ":4500"); return err }))
	defer ike.Close()
	var esp int
	require.NoError(t, b.Do(func() (err error) { esp, err = unix.Socket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ESP); return err }))
	defer unix.Close(esp)
	require.NoError(t, unix.Sendto(esp, make([]byte, 32), 0, &unix.SockaddrInet4{Addr: [4]byte{192, 0, 2, 1}}))
	messages := []string{"\x00\x00\x01\x00ESP in UDP", "\xff", "\x00\x00\x00\x00IKE"}
	require.NoError(t, b.Do(func() error {
		c, err := net.Dial("udp4", "192.0.2.1:4500")
		if err != nil {
			return err
		}
		defer c.Close()
		for _, m := range messages {
			if _, err := c.Write([]byte(m)); err != nil {
				return err
			}
		}
		return nil
	}))
	buf := make([]byte, 100)
	for _, want := range messages[1:] { // keepalive, IKE
		_ = ike.SetReadDeadline(time.Now().Add(5 * time.Second))
		if n, _, err := ike.ReadFrom(buf); err != nil || string(buf[:n]) != want {
			t.Errorf("received %q, %v, want %q", buf[:n], err, want)
		}
	}
	out := run(t, a, "nft list chain inet warproute input")
	if strings.Count(out, "counter packets 1 ") != 2 {
		t.Errorf("want counters of 1 packet for ESP and for ESP in UDP:\n%s", out)
	}
}

// FuzzMessages checks that parsers of malformed messages do not panic.
func FuzzMessages(f *testing.F) {
	f.Add(elements(unix.NFT_MSG_NEWSETELEM, []string{"lan0"}).Body)
	f.Add(replacement([]string{"lan0"}, allRules)[0].Body)
	f.Fuzz(func(_ *testing.T, data []byte) {
		_, _ = elementNames(data)
		_, _ = tableFlags(data)
		var n rtnl.Netconf
		_ = n.Parse(data)
	})
}
