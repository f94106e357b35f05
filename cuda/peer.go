package cuda

import (
	"errors"
	"fmt"
)

// Attributes of a pair of devices (CUdevice_P2PAttribute).
const (
	peerAccess  int32 = 2
	peerAtomics int32 = 3
)

// PeerAtomics reports whether kernels on d can access memory of another GPU, also with atomic operations, as those can that NVLink connects.
func (d *Device) PeerAtomics(of *Device) (bool, error) {
	for _, a := range []int32{peerAccess, peerAtomics} {
		var v int32
		if err := d.drv.cuDeviceGetP2PAttribute.call(&v, a, d.handle, of.handle); err != nil {
			return false, fmt.Errorf("read attribute %d of GPU %d as peer of GPU %d: %w", a, d.handle, of.handle, err)
		}
		if v == 0 {
			return false, nil
		}
	}
	return true, nil
}

// EnablePeer lets kernels in the context access the memory of another GPU's context, until one of them is closed. The context must be
// current.
func (c *Context) EnablePeer(of *Context) error {
	err := c.drv.cuCtxEnablePeerAccess.call(of.handle, 0)
	if err != nil && !errors.Is(err, PeerAlreadyEnabled) {
		return fmt.Errorf("access memory of GPU %d from GPU %d: %w", of.dev.handle, c.dev.handle, err)
	}
	return nil
}
