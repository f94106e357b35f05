package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/warproute/warproute/internal/lab"
)

// tunnelDemo is a tunnel between two routers, across a third network:
//
//	client ── A ── internet ── B ── server
//	10.7.0.2  192.0.2.1  198.51.100.1  10.8.0.2
type tunnelDemo struct {
	*demo
	spaces  map[string]*lab.Namespace
	routers [2]*lab.Process
	logs    [2]bytes.Buffer
	keys    [2]string // of the SAs from A to B and back, in hex
}

// tunnelKey is the length of a key of aes128gcm16 with its 4-byte salt.
const tunnelKey = 20

func (d *demo) tunnel(ctx context.Context) (err error) {
	t := &tunnelDemo{demo: d, spaces: map[string]*lab.Namespace{}}
	defer t.close()
	if err := t.build(); err != nil {
		return fmt.Errorf("build the tunnel's namespaces: %w", err)
	}
	for i := range t.keys {
		key := make([]byte, tunnelKey)
		_, _ = rand.Read(key) // never fails (crypto/rand)
		t.keys[i] = fmt.Sprintf("%x", key)
	}
	for i, side := range sides {
		if err := t.start(ctx, i, side); err != nil {
			return err
		}
	}
	d.say("\ntunnel: client %v ── A ── internet ── B ── server %v; A and B are warproute, aes128gcm16 between %v and %v", lab.Client4.Addr(), lab.Server4.Addr(), sides[0].wan.Addr(), sides[1].wan.Addr())
	capture := d.capture
	if capture == "" {
		capture = filepath.Join(d.dir, "tunnel.pcap")
	}
	wire, err := captureAt(t.spaces["internet"], "toA", capture)
	if err != nil {
		return err
	}
	defer wire.close()
	for _, to := range []netip.Prefix{lab.Server4, lab.Server6} {
		r, err := lab.Ping(t.spaces["client"], to.Addr(), lab.PingOptions{Count: 5})
		if err != nil {
			return t.failed(err)
		}
		d.say("  %-23s %d of %d answered, round trip %s to %s", "ping "+to.Addr().String(), r.Received, r.Sent, digits(r.Min), digits(r.Max))
	}
	const size = 16 << 20
	r, err := lab.Transfer(t.spaces["client"], t.spaces["server"], lab.Server4.Addr(), size, 60*time.Second)
	if err != nil {
		return t.failed(err)
	}
	d.say("  %-23s %d MiB in %s, %.3g Gbit/s, contents equal", "TCP over IPv4", r.Bytes>>20, digits(r.Elapsed), r.BitsPerSecond()/1e9)
	counts, err := wire.stop()
	if err != nil {
		return err
	}
	if counts.other > 0 || counts.esp == 0 {
		return t.failed(fmt.Errorf("%d ESP packets and %d others between A and B", counts.esp, counts.other))
	}
	d.say("  %-23s %d ESP packets, and only neighbor discovery besides", "between A and B", counts.esp)
	if d.capture == "" {
		return nil
	}
	d.say("  read them with tshark -r %s -o esp.enable_encryption_decode:TRUE \\\n%s", capture, t.tshark())
	return nil
}

// side is the addresses and names at one end of the tunnel.
type side struct {
	name, host     string
	lan4, lan6     netip.Prefix
	host4, host6   netip.Prefix
	wan, next      netip.Prefix // of the router, and of its next hop
	link, hostLink string
}

var sides = [2]side{
	{"A", "client", lab.LAN4, lab.LAN6, lab.Client4, lab.Client6, netip.MustParsePrefix("192.0.2.1/24"), netip.MustParsePrefix("192.0.2.254/24"), "toA", lab.ClientLink},
	{"B", "server", lab.WAN4, lab.WAN6, lab.Server4, lab.Server6, netip.MustParsePrefix("198.51.100.1/24"), netip.MustParsePrefix("198.51.100.254/24"), "toB", lab.ServerLink},
}

func (t *tunnelDemo) build() error {
	for _, name := range []string{"client", "A", "internet", "B", "server"} {
		ns, err := lab.New(name)
		if err != nil {
			return err
		}
		t.spaces[name] = ns
	}
	var errs []error
	do := func(err error) { errs = append(errs, err) }
	internet := t.spaces["internet"]
	do(internet.Sysctl("net.ipv4.ip_forward", "1"))
	for _, s := range sides {
		router, host := t.spaces[s.name], t.spaces[s.host]
		do(router.Sysctl("net.ipv4.ip_forward", "0"))
		do(router.Sysctl("net.ipv6.conf.all.forwarding", "0"))
		do(lab.Veth(lab.End{Namespace: host, Name: s.hostLink}, lab.End{Namespace: router, Name: lab.LAN}, lab.VethOptions{}))
		do(lab.Veth(lab.End{Namespace: internet, Name: s.link}, lab.End{Namespace: router, Name: lab.WAN}, lab.VethOptions{}))
		for _, a := range []struct {
			ns   *lab.Namespace
			link string
			addr netip.Prefix
		}{
			{host, s.hostLink, s.host4}, {host, s.hostLink, s.host6}, {router, lab.LAN, s.lan4}, {router, lab.LAN, s.lan6},
			{router, lab.WAN, s.wan}, {internet, s.link, s.next},
		} {
			do(a.ns.AddAddr(a.link, a.addr))
		}
		for _, via := range []netip.Prefix{s.lan4, s.lan6} {
			do(host.AddRoute(netip.PrefixFrom(via.Addr(), 0), via.Addr()))
		}
		do(router.AddRoute(netip.PrefixFrom(s.next.Addr(), 0), s.next.Addr()))
	}
	return errors.Join(errs...)
}

// configuration returns the configuration file of a router, with SAs and policies for both families.
func (t *tunnelDemo) configuration(i int) string {
	me, other := sides[i], sides[1-i]
	var b strings.Builder
	fmt.Fprintf(&b, "ports: [{interface: %s}, {interface: %s}]\nengine: %s\nmetrics: {listen: \"\"}\ncontrol: {socket: %s}\nipsec:\n  state: %s\n  sas:\n",
		lab.LAN, lab.WAN, t.engine, t.socket(i), filepath.Join(t.dir, "state-"+me.name))
	association := "    - {name: %s, direction: %s, spi: %#x, src: %v, dst: %v, suite: aes128gcm16, key: \"%s\"}\n"
	fmt.Fprintf(&b, association, "there", "out", 0x1000+i, me.wan.Addr(), other.wan.Addr(), t.keys[i])
	fmt.Fprintf(&b, association, "back", "in", 0x1000+1-i, other.wan.Addr(), me.wan.Addr(), t.keys[1-i])
	b.WriteString("  policies:\n")
	for _, nets := range [][2]netip.Prefix{{me.host4, other.host4}, {me.host6, other.host6}} {
		fmt.Fprintf(&b, "    - {direction: out, src: \"%v\", dst: \"%v\", action: protect, sa: there}\n", nets[0].Masked(), nets[1].Masked())
		fmt.Fprintf(&b, "    - {direction: in, src: \"%v\", dst: \"%v\", action: protect, sa: back}\n", nets[1].Masked(), nets[0].Masked())
	}
	return b.String()
}

func (t *tunnelDemo) socket(i int) string { return filepath.Join(t.dir, sides[i].name+".sock") }

func (t *tunnelDemo) start(ctx context.Context, i int, s side) error {
	path := filepath.Join(t.dir, s.name+".yaml")
	if err := os.WriteFile(path, []byte(t.configuration(i)), 0o600); err != nil {
		return err
	}
	cmd := exec.Command(t.program, "run", "--config", path)
	cmd.Stdout, cmd.Stderr = &t.logs[i], &t.logs[i]
	var err error
	if t.routers[i], err = t.spaces[s.name].Start(cmd); err != nil {
		return fmt.Errorf("start router %s: %w", s.name, err)
	}
	if _, err := awaitRouter(ctx, t.routers[i], t.socket(i)); err != nil {
		return t.failed(fmt.Errorf("start router %s: %w", s.name, err))
	}
	return nil
}

// tshark returns the options with which tshark decrypts the capture.
func (t *tunnelDemo) tshark() string {
	var b strings.Builder
	for i := range sides {
		fmt.Fprintf(&b, "    -o 'uat:esp_sa:\"IPv4\",\"%v\",\"%v\",\"%#x\",\"AES-GCM with 16 octet ICV [RFC4106]\",\"0x%s\",\"NULL\",\"\",\"32-bit\"'", sides[i].wan.Addr(), sides[1-i].wan.Addr(), 0x1000+i, t.keys[i])
		if i == 0 {
			b.WriteString(" \\\n")
		}
	}
	return b.String()
}

func (t *tunnelDemo) failed(err error) error {
	for i, s := range sides {
		t.say("output of router %s:\n%s", s.name, t.logs[i].Bytes())
	}
	return fmt.Errorf("tunnel: %w", err)
}

func (t *tunnelDemo) close() {
	for _, r := range t.routers {
		if r != nil {
			_ = r.Stop(5 * time.Second)
		}
	}
	for _, ns := range t.spaces {
		ns.Close()
	}
}
