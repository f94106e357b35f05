package cuda

import (
	"testing"

	"github.com/warproute/warproute/internal/require"
)

func TestPeerAtomics(t *testing.T) {
	for macro, want := range map[string]bool{"PEERS=1": true, "PEERS=0": false} {
		f := openFake(t, macro)
		devices := got(f.Devices())(t)
		f.reset()
		if can := got(devices[1].PeerAtomics(devices[0]))(t); can != want {
			t.Errorf("%s: %v", macro, can)
		}
		calls := []string{"cuDeviceGetP2PAttribute(2, 1, 0)", "cuDeviceGetP2PAttribute(3, 1, 0)"}
		if !want {
			calls = calls[:1]
		}
		f.expect(t, calls...)
		f.fail("cuDeviceGetP2PAttribute", InvalidValue)
		_, err := devices[1].PeerAtomics(devices[0])
		failsWith(t, err, "read attribute 2 of GPU 1 as peer of GPU 0", "cuDeviceGetP2PAttribute(attribute=2, device=1, peer=0)")
	}
}

func TestEnablePeer(t *testing.T) {
	f := openFake(t)
	c := f.context(t)
	peer := got(got(f.Devices())(t)[1].Retain())(t)
	f.reset()
	require.NoError(t, c.EnablePeer(peer))
	f.expect(t, "cuCtxEnablePeerAccess(0xc1, 0)")
	f.fail("cuCtxEnablePeerAccess", PeerAlreadyEnabled)
	require.NoError(t, c.EnablePeer(peer))
	f.fail("cuCtxEnablePeerAccess", OutOfMemory)
	failsWith(t, c.EnablePeer(peer), "access memory of GPU 1 from GPU 0: cuCtxEnablePeerAccess(peer=", "out of memory")
}
