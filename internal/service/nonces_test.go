package service

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/warproute/warproute/control/config"
	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/internal/testutil"
	"github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/ipsec/suite"
	"github.com/warproute/warproute/packet"
)

// nonceSuites are the suites whose key stream repeats with a nonce.
var nonceSuites = []string{"aes128gcm16", "aes256gcm16", "chacha20poly1305", "aes128ctr-sha256", "aes128-sha256"}

// tunnels returns an outbound SA per suite of nonceSuites, with the same keys in every call.
func tunnels(t *testing.T) (list []config.SA) {
	t.Helper()
	for i, name := range nonceSuites {
		s, err := suite.ByName(name)
		require.NoError(t, err)
		sa := outbound(name, uint32(0x200+i), 0)
		sa.Suite, sa.Key, sa.AuthKey = name, config.NewKey(bytes.Repeat([]byte{byte(i + 1)}, s.KeyLen+s.SaltLen)), config.NewKey(bytes.Repeat([]byte{0xaa}, s.AuthKeyLen))
		list = append(list, sa)
	}
	return list
}

// wire records the IVs of all sent packets.
type wire struct {
	ivs     map[string]string // run that sent it, by suite and IV
	packets int
}

// send sends packets by every tunnel and records their IVs.
func (w *wire) send(t *testing.T, run string, p *ipsecGateway, packets int) {
	t.Helper()
	for _, name := range nonceSuites {
		sa := p.sas[name].SA
		for range packets {
			buf := make([]byte, 512)
			n := copy(buf[128:], testutil.UDP4("10.7.0.1", "10.8.0.1", 1, 2)[packet.EthernetLen:])
			at, _, e := sa.Encapsulate(0, buf, 128, n)
			if e != ipsec.OK {
				t.Fatalf("%s, %s: %v", run, name, e)
			}
			iv := name + string(buf[at+packet.IPv4Len+8:][:sa.IVLen()])
			if before, ok := w.ivs[iv]; ok {
				t.Errorf("%s: %s sends IV %x, as %s did", run, name, iv[len(name):], before)
				return
			}
			w.ivs[iv] = run
			w.packets++
		}
	}
}

// No IV is sent twice with a key, even if the state directory is restored or deleted.
func TestNoncesNeverRepeat(t *testing.T) {
	const packets = 100
	w := &wire{ivs: map[string]string{}}
	state := filepath.Join(t.TempDir(), "state")
	run := func(what string) {
		t.Helper()
		p := protect(t, state, tunnels(t)...)
		w.send(t, what, p, packets)
		require.NoError(t, p.close())
	}
	must := func(err error) {
		t.Helper()
		require.NoError(t, err)
	}
	run("the first run")
	run("a restart")
	backup := filepath.Join(t.TempDir(), "copy")
	must(os.CopyFS(backup, os.DirFS(state)))
	run("a run after the copy was made")
	for i := range 2 {
		must(os.RemoveAll(state))
		must(os.CopyFS(state, os.DirFS(backup)))
		run([]string{"restored from the copy", "restored again"}[i])
	}
	for i := range 3 {
		must(os.RemoveAll(state))
		run([]string{"deleted", "deleted again", "deleted once more"}[i])
	}
	for _, name := range []string{"used", "received", "lifetimes"} {
		must(os.Truncate(filepath.Join(state, name), 0))
	}
	if p, err := newIPsecGateway(&config.IPsec{State: state, SAs: tunnels(t)}, 1, nil); err == nil {
		t.Error("a router starts with a truncated directory")
		w.send(t, "truncated", p, packets)
		must(p.close())
	}
	must(os.RemoveAll(state))

	// Two routers with one configuration, at once, with a directory each.
	a, b := protect(t, state, tunnels(t)...), protect(t, backup+"-b", tunnels(t)...)
	for range 5 {
		w.send(t, "one of a pair", a, packets)
		w.send(t, "the other of the pair", b, packets)
	}
	// The memory of a virtual machine exists twice: once it notices.
	a.gateway.Nonces.Renew()
	w.send(t, "after a renewal", a, packets)
	if want := (8 + 10 + 1) * packets * len(nonceSuites); w.packets != want {
		t.Errorf("%d packets, want %d", w.packets, want)
	}
}
