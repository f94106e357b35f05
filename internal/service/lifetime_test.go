package service

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/control/config"
	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/ipsec"
)

func TestRestartKeepsReplayWindows(t *testing.T) {
	state := t.TempDir()
	p := protect(t, state, inbound("a", 0x100, 1))
	next := sender(t, 0x100, 1)
	old := next()
	p.expect(t, "the first packet", old, ipsec.OK)
	require.NoError(t, p.close())
	p = protect(t, state, inbound("a", 0x100, 1))
	p.expect(t, "a packet from before the restart", old, ipsec.InStateSeqError)
	p.expect(t, "the next packet", next(), ipsec.OK)
}

func TestRestartKeepsLifetimes(t *testing.T) {
	state := t.TempDir()
	sa := inbound("a", 0x100, 1)
	sa.Lifetime.Hard.Packets = 2
	p := protect(t, state, sa)
	next := sender(t, 0x100, 1)
	p.expect(t, "the first packet", next(), ipsec.OK)
	require.NoError(t, p.close())
	sa.Key = config.NewKey(bytes.Repeat([]byte{1}, 20))
	p = protect(t, state, sa)
	for i, want := range []ipsec.Error{ipsec.OK, ipsec.InStateExpired} {
		if e := p.receive(next()); e != want {
			t.Errorf("packet %d: %v, want %v", i+2, e, want)
		}
	}
}

func TestExpiredLifetimesAreReportedOnce(t *testing.T) {
	a, b := inbound("a", 0x100, 1), inbound("b", 0x101, 2)
	a.Lifetime.Soft.Packets, b.Lifetime.Soft.Packets = 2, 3
	a.Lifetime.Hard.Packets = 3
	p := protect(t, t.TempDir(), a, b)
	next := map[uint32]func() []byte{0x100: sender(t, 0x100, 1), 0x101: sender(t, 0x101, 2)}
	expect := func(packets int, soft, hard string) {
		t.Helper()
		for spi := range next {
			for range packets {
				p.receive(next[spi]())
			}
		}
		s, h := p.expired()
		if strings.Join(s, " ") != soft || strings.Join(h, " ") != hard {
			t.Errorf("soft: %q, hard: %q", s, h)
		}
	}
	expect(2, "a", "")
	expect(0, "", "")
	expect(2, "b", "a")
	expect(1, "", "")
}

func TestLifetimesBeginWithTheSA(t *testing.T) {
	p := protect(t, t.TempDir(), inbound("a", 0x100, 1))
	now := batch.Clock()
	if d := now - p.gateway.Clock.Now(); d > time.Second {
		t.Errorf("the clock is %v late", d)
	}
	time.Sleep(20 * time.Millisecond)
	require.NoError(t, p.tick())
	if p.gateway.Clock.Now() < now {
		t.Error("the clock stands still without packets")
	}
}
