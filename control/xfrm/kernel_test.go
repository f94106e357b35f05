package xfrm

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/warproute/warproute/internal/lab"
	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/ipsec/gateway"
)

// kernel is a namespace with its own XFRM and a mirror, whose local address is 192.0.2.1.
type kernel struct {
	*lab.Namespace
	t       *testing.T
	gateway *gateway.Gateway
	mirror  *Mirror
}

func newKernel(t *testing.T) *kernel {
	t.Helper()
	ns, err := lab.New("xfrm")
	require.NoError(t, err)
	t.Cleanup(func() { ns.Close() })
	k := &kernel{Namespace: ns, t: t}
	k.start()
	return k
}

// start starts a mirror with an empty gateway, as after a restart.
func (k *kernel) start() {
	k.t.Helper()
	k.gateway = new(gateway.Gateway)
	err := k.Do(func() (err error) {
		k.mirror, err = Start(k.gateway, 1, Hooks{IsLocal: func(a netip.Addr) bool { return a == here || a == here6 }}, nil)
		return err
	})
	require.NoError(k.t, err)
	m := k.mirror
	k.t.Cleanup(func() { m.Close() })
}

// ip runs lines by `ip -batch`.
func (k *kernel) ip(lines ...string) {
	k.t.Helper()
	require.NoError(k.t, k.tryIP(lines...))
}

func (k *kernel) tryIP(lines ...string) error {
	file := filepath.Join(k.t.TempDir(), "batch")
	if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")), 0o644); err != nil {
		return err
	}
	_, err := k.Run("ip", "-batch", file)
	return err
}

// eventually waits until the mirror is where check wants it. It runs on the mirror's
// goroutine.
func (k *kernel) eventually(what string, check func() error) {
	k.t.Helper()
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		var err error
		k.mirror.Do(func() { err = check() })
		if err == nil {
			return
		}
		if time.Now().After(end) {
			k.t.Fatalf("%s: %v", what, err)
		}
	}
}

// association waits for the SA with an SPI and returns it.
func (k *kernel) association(spi uint32) (found *ipsec.SA) {
	k.eventually(fmt.Sprintf("SPI %#x", spi), func() error {
		for s := range k.gateway.All {
			if s.Config().SPI == spi {
				found = s
				return nil
			}
		}
		return fmt.Errorf("no association")
	})
	return found
}

const outSA = "xfrm state add src 192.0.2.1 dst 192.0.2.2 proto esp spi %#x reqid 1 mode tunnel "

// keyOf returns a key of n different bytes.
func keyOf(n int, seed byte) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = seed + byte(i)
	}
	return b
}

const anyKey = " aead rfc4106(gcm(aes)) 0x0102030405060708090a0b0c0d0e0f1011121314 128"

// keyFor returns a key that no other SPI has.
func keyFor(spi uint32) string { return fmt.Sprintf(" aead rfc4106(gcm(aes)) 0x%040x 128", spi) }

var here6 = netip.MustParseAddr("2001:db8::1")

// rules compares the rules of the gateway with their text.
func (k *kernel) rules(want ...string) error {
	var got []string
	for _, r := range k.gateway.Rules() {
		got = append(got, fmt.Sprintf("%v %v %v", r.Direction, &r.Policy, r.Action))
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		return fmt.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	return nil
}
