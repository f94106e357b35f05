package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/bench/gen"
	"github.com/warproute/warproute/internal/cli"
	"github.com/warproute/warproute/internal/lab"
	"github.com/warproute/warproute/internal/require"
)

func newLab(t *testing.T) *lab.Topology {
	t.Helper()
	if os.Getuid() != 0 {
		t.Fatal("needs root for network namespaces")
	}
	top, err := lab.NewTopology(lab.VethOptions{})
	require.NoError(t, err)
	t.Cleanup(top.Close)
	return top
}

func TestNextHopMACResolvesNeighborsAndGateways(t *testing.T) {
	top := newLab(t)
	want, err := top.Router.MAC(lab.LAN)
	require.NoError(t, err)
	for _, dst := range []netip.Addr{lab.LAN4.Addr(), lab.Server4.Addr(), lab.LAN6.Addr(), lab.Server6.Addr()} {
		err := top.Client.Do(func() error {
			got, err := nextHopMAC(lab.ClientLink, dst)
			if err == nil && got.String() != want.String() {
				err = fmt.Errorf("got %v, want the router's %v", got, want)
			}
			return err
		})
		if err != nil {
			t.Errorf("%v: %v", dst, err)
		}
	}
	// An IPv4 route via an IPv6 gateway (RFC 5549).
	link, err := top.Client.Link(lab.ClientLink)
	require.NoError(t, err)
	dst := netip.MustParsePrefix("192.0.2.1/32")
	route := &netlink.Route{
		LinkIndex: link.Attrs().Index,
		Dst:       netlink.NewIPNet(dst.Addr().AsSlice()),
		Via:       &netlink.Via{AddrFamily: unix.AF_INET6, Addr: lab.LAN6.Addr().AsSlice()},
	}
	require.NoError(t, top.Client.Netlink().RouteAdd(route))
	err = top.Client.Do(func() error {
		got, err := nextHopMAC(lab.ClientLink, dst.Addr())
		if err == nil && got.String() != want.String() {
			err = fmt.Errorf("got %v, want the router's %v", got, want)
		}
		return err
	})
	if err != nil {
		t.Errorf("%v via %v: %v", dst, lab.LAN6.Addr(), err)
	}
}

func TestNextHopMACRejectsOwnAddressesAndSilentHosts(t *testing.T) {
	top := newLab(t)
	for dst, want := range map[netip.Addr]string{
		lab.Client4.Addr():               "address of this host",
		lab.Client6.Addr():               "address of this host",
		netip.MustParseAddr("10.7.0.99"): "10.7.0.99 did not answer within 3s (or set --dst-mac)",
	} {
		err := top.Client.Do(func() error {
			_, err := nextHopMAC(lab.ClientLink, dst)
			return err
		})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: got error %v, want %q", dst, err, want)
		}
	}
}

func TestAddressOfReturnsGlobalAddresses(t *testing.T) {
	top := newLab(t)
	err := top.Client.Do(func() error {
		for ipv6, want := range map[bool]netip.Addr{false: lab.Client4.Addr(), true: lab.Client6.Addr()} {
			if got, err := addressOf(lab.ClientLink, ipv6); err != nil || got != gen.Host(want) {
				return fmt.Errorf("IPv6 %v: got %v, %v, want %v", ipv6, got, err, want)
			}
		}
		if got, err := addressOf("lo", false); err == nil {
			return fmt.Errorf("lo: got %v, want an error", got)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestGenCrossesNamespaces(t *testing.T) {
	if os.Getuid() != 0 {
		t.Fatal("needs root for network namespaces")
	}
	a, b := fmt.Sprintf("warproute-a-%d", os.Getpid()), fmt.Sprintf("warproute-b-%d", os.Getpid())
	ip := func(args ...string) {
		t.Helper()
		if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
			t.Fatalf("ip %s: %v: %s", strings.Join(args, " "), err, out)
		}
	}
	for _, name := range []string{a, b} {
		ip("netns", "add", name)
		t.Cleanup(func() { _ = exec.Command("ip", "netns", "del", name).Run() })
	}
	ip("-n", a, "link", "add", "left", "type", "veth", "peer", "name", "right", "netns", b)
	ip("-n", a, "addr", "add", "192.0.2.1/24", "dev", "left")
	ip("-n", b, "addr", "add", "192.0.2.2/24", "dev", "right")
	ip("-n", a, "link", "set", "left", "up")
	ip("-n", b, "link", "set", "right", "up")

	generate := func(args ...string) (stdout string, err error) {
		t.Helper()
		var out bytes.Buffer
		c := newRootCommand()
		c.SetOut(&out)
		c.SetErr(&out)
		c.SetArgs(append([]string{"gen", "--port", "left@" + a, "--count", "500", "--rate", "5k"}, args...))
		err = c.Execute()
		return out.String(), err
	}
	out, err := generate("--port", "right@"+b, "--dst", "192.0.2.2", "--flows", "4", "--max-loss", "0", "--json")
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var rep gen.Report
	if err := json.Unmarshal([]byte(out), &rep); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	if rep.Send == nil || rep.Receive == nil || rep.Send.Packets != 500 || rep.Receive.Packets != 500 || rep.Traffic.Src != "192.0.2.1/32" {
		t.Errorf("reported %s", out)
	}

	file := t.TempDir() + "/report.json"
	out, err = generate("--dst", "192.0.2.2", "--max-loss", "50", "--output", file)
	if cli.ExitCode(err) != cli.ExitFailure || !strings.Contains(out, "no packet returned on left@"+a) || !strings.Contains(out, "500 (100 %)") {
		t.Errorf("no packet returned: %v\n%s", err, out)
	}
	if data, err := os.ReadFile(file); err != nil || json.Unmarshal(data, &rep) != nil || rep.Receive.Lost != 500 {
		t.Errorf("%s, %v", data, err)
	}
	if out, err = generate("--dst", "192.0.2.2", "--send-only"); err != nil || strings.Contains(out, "lost") {
		t.Errorf("sending only: %v\n%s", err, out)
	}
}
