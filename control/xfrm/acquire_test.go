package xfrm

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/control/rtnl"
	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/ipsec"
	ipsecpolicy "github.com/warproute/warproute/ipsec/policy"
)

// testAcquire sends packets without an SA, for which Linux asks key daemons: once per policy, with
// the policy and its template.
func testAcquire(t *testing.T) {
	k := newKernel(t)
	var daemon *rtnl.Listener
	require.NoError(t, k.Do(func() (err error) {
		daemon, err = rtnl.ListenFamily(unix.NETLINK_XFRM, 1<<20, groupAcquire)
		return err
	}))
	preferredSPI := make(chan []byte, 8)
	go func() {
		buf := make([]byte, rtnl.MinBuffer)
		for {
			n, err := daemon.Receive(buf)
			if errors.Is(err, os.ErrClosed) {
				return
			}
			for rest := buf[:n]; len(rest) > 0; {
				var msg rtnl.Message
				if msg, rest, err = rtnl.Next(rest); err == nil && msg.Type == msgAcquire {
					preferredSPI <- bytes.Clone(msg.Data)
				}
			}
		}
	}()
	t.Cleanup(func() { daemon.Close() })

	k.ip("xfrm policy add src 10.1.0.0/16 dst 10.2.0.0/16 proto tcp dir out priority 10 tmpl src 192.0.2.1 dst 192.0.2.2 proto esp reqid 7 mode tunnel",
		"xfrm policy add src fd01::/64 dst fd02::/64 dir out priority 10 tmpl src 192.0.2.1 dst 192.0.2.2 proto esp reqid 8 mode tunnel")
	k.eventually("policies", func() error {
		if n := len(k.gateway.Rules()); n != 2 {
			return fmt.Errorf("%d rules", n)
		}
		return nil
	})
	src, dst := netip.MustParseAddr("fd01::1").As16(), netip.MustParseAddr("fd02::1").As16()
	for i, f := range []ipsecpolicy.Flow{ipsecpolicy.IPv4Flow(0x0a010001, 0x0a020001, unix.IPPROTO_TCP, 1, 2), ipsecpolicy.IPv6Flow(&src, &dst, unix.IPPROTO_UDP, 1, 2)} {
		for range 3 {
			if s, err := k.gateway.LookupOutbound(&f); s != nil || err != ipsec.OutNoStates {
				t.Fatalf("without an association: %v, %v", s, err)
			}
		}
		select {
		case msg := <-preferredSPI:
			if len(msg) < sizeofAcquire {
				t.Fatalf("Linux asks with %d bytes", len(msg))
			}
			sel := readSelector(msg[40:])
			want := []string{"10.1.0.0/16 10.2.0.0/16 6", "fd01::/64 fd02::/64 0"}[i]
			if got := fmt.Sprint(sel.src, sel.dst, sel.protocol); got != want {
				t.Errorf("Linux asks for %s, want %s", got, want)
			}
			p, err := parsePolicy(append(bytes.Clone(msg[96:264]), msg[sizeofAcquire:]...))
			if err != nil || p.protects != (tunnelID{here, netip.MustParseAddr("192.0.2.2"), modeTunnel, uint32(7 + i), 0}) {
				t.Errorf("Linux asks by %+v, %v", p, err)
			}
		case <-time.After(5 * time.Second):
			t.Fatal("Linux does not ask")
		}
	}
	select {
	case msg := <-preferredSPI:
		t.Errorf("Linux asks again: % x", msg)
	case <-time.After(200 * time.Millisecond):
	}
	if _, _, acquires := k.mirror.Stats(); acquires != 2 {
		t.Errorf("%d ACQUIREs, want 2", acquires)
	}
}
