package gpu

import (
	"github.com/warproute/warproute/ipsec/device"
	"github.com/warproute/warproute/ipsec/gateway"
)

// aesEncryptBytes are the bytes of a block's AES tables without those to decrypt AES-CBC. The other ciphers, and CBC encryption, need
// only these.
const aesEncryptBytes = 32768

// aesBytes returns the bytes of a block's AES tables.
func (s Shape) aesBytes() uint64 {
	if s.WithoutCBC {
		return aesEncryptBytes
	}
	return aesBytes
}

// cbcFilter is a gateway.Device in front of one whose kernel does not decrypt AES-CBC. It keeps inbound SAs with AES-CBC from that device, which
// therefore leaves their packets to the host. The host makes no jobs of them: esp.Stage.SetHostDecryptsCBC.
type cbcFilter struct {
	gateway.Device
	withheld map[uint32]bool // SAs, by the index of their keys
}

// filter returns d, or a cbcFilter in front of it if the shape is without AES-CBC decryption.
func (s Shape) filter(d gateway.Device) gateway.Device {
	if s.WithoutCBC {
		return &cbcFilter{d, map[uint32]bool{}}
	}
	return d
}

// Store implements gateway.Device.
func (c *cbcFilter) Store(index uint32, k *device.Key) {
	if k.OpensCBC() {
		c.withheld[index] = true
		return
	}
	c.Device.Store(index, k)
}

// Erase implements gateway.Device. The index may be that of another SA afterwards.
func (c *cbcFilter) Erase(index uint32) {
	if c.withheld[index] {
		delete(c.withheld, index)
		return
	}
	c.Device.Erase(index)
}

// AddSPI implements gateway.Device.
func (c *cbcFilter) AddSPI(spi, index uint32) {
	if !c.withheld[index] {
		c.Device.AddSPI(spi, index)
	}
}

// RemoveSPI implements gateway.Device.
func (c *cbcFilter) RemoveSPI(spi, index uint32) {
	if !c.withheld[index] {
		c.Device.RemoveSPI(spi, index)
	}
}
