package gpu

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/warproute/warproute/dataplane/cpu"
	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/internal/testutil"
	"github.com/warproute/warproute/ipsec/gateway"
)

// TestFailedOpenOfGatewayFreesAll fails each driver call of opening a device with IPsec and its engine.
func TestFailedOpenOfGatewayFreesAll(t *testing.T) {
	f, library := newFake(t)
	base, mem := newBase(t), mapMemory(t, 1<<20)
	start := func() error {
		g := &gateway.Gateway{}
		protectAll(t, testutil.NewNetwork(), g)
		d, err := openFirst(base, Options{Library: library, Gateway: g})
		if err != nil {
			return err
		}
		fallback := cpu.New(base, mem, make([]bool, 1))
		fallback.Secure(g, 0)
		_, err = d.NewEngine(mem, 2, 100, fallback)
		f.failAt = 0 // not for Close
		return errors.Join(err, d.Close())
	}
	if f.failEachCall(t, start); f.calls < 30 {
		t.Errorf("only %d calls", f.calls)
	}
}

// TestKeyTableFollowsSAs: keys are on the device from the addition of an SA, or the opening of the
// device, to the deletion of the SA or the closing. Their numbers are reused.
func TestKeyTableFollowsSAs(t *testing.T) {
	f, library := newFake(t)
	f.copies = 1
	net, g := testutil.NewNetwork(), &gateway.Gateway{}
	before := protectAll(t, net, g)
	d := got(openFirst(net.FIB, Options{Library: library, Gateway: g}))(t)
	has := func(n int) []byte { return onDevice[byte](d.ipsecTables.keys.Ptr().Add(n*keyBytes), keyBytes) }
	none := make([]byte, keyBytes)
	later := protectAll(t, net, g)
	if before.KeyIndex() != 0 || later.KeyIndex() != 1 || !bytes.Equal(has(0), before.DeviceKey().Bytes()) || !bytes.Equal(has(1), later.DeviceKey().Bytes()) {
		t.Errorf("keys are not on the device at %d and %d", before.KeyIndex(), later.KeyIndex())
	}
	g.Remove(before)
	if bytes.Equal(has(0), none) {
		t.Error("a key is gone while packets may need it")
	}
	before.Zero()
	if !bytes.Equal(has(0), none) || before.KeyIndex() < maxKeys {
		t.Error("a key is left when its association has ended")
	}
	if again := protectAll(t, net, g); again.KeyIndex() != 0 || !bytes.Equal(has(0), again.DeviceKey().Bytes()) {
		t.Errorf("a new association has the number %d", again.KeyIndex())
	}
	if page := d.ipsecTables.keyWriter.page.Bytes(); !bytes.Equal(page, make([]byte, len(page))) {
		t.Error("a key is left on its way")
	}
	require.NoError(t, d.halt())
	if !bytes.Equal(has(0), none) || !bytes.Equal(has(1), none) {
		t.Error("keys are left on the closed device")
	}
	require.NoError(t, d.release())
}

func TestDeviceAndEngineMustBothHaveIPsec(t *testing.T) {
	_, library := newFake(t)
	base, mem := newBase(t), mapMemory(t, 1<<20)
	for _, c := range []struct {
		name           string
		device, engine *gateway.Gateway
		want           string
	}{
		{"device", &gateway.Gateway{}, nil, "worker without IPsec: the GPU was opened with IPsec"},
		{"engine", nil, &gateway.Gateway{}, "opened without IPsec"},
	} {
		d := got(openFirst(base, Options{Library: library, Gateway: c.device}))(t)
		fallback := cpu.New(base, mem, make([]bool, 1))
		if c.engine != nil {
			fallback.Secure(c.engine, 0)
		}
		if _, err := d.NewEngine(mem, 1, 100, fallback); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s alone: %v", c.name, err)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
}
