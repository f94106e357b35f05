package ipsec

import (
	"github.com/warproute/warproute/bench/pcie"
	"github.com/warproute/warproute/packet"
	"github.com/warproute/warproute/umem"
)

// pcieLimit measures the rate, in Mpps, at which the GPUs read packets of the traffic's sizes from host
// memory and write the results back.
func (t *traffic) pcieLimit() (float64, error) {
	header := packet.IPv4Len
	if t.IPv6 {
		header = packet.IPv6Len
	}
	const espLen, trailerLen = 8, 2
	link := umem.Headroom + packet.EthernetLen // from the word with the Ethernet header on
	front := header + espLen + t.suite.IVLen
	var shapes []pcie.Shape
	for _, size := range t.Sizes {
		pad := -(size + trailerLen) & (t.suite.Align - 1)
		s := pcie.Shape{At: umem.DataOffset - umem.Headroom, Read: link + front + size + pad + trailerLen + t.suite.ICVLen}
		if s.Back = s.Read; t.Direction == in {
			s.Back = link + size
		} else {
			s.At -= front
		}
		shapes = append(shapes, s)
	}
	rates, err := pcie.RatesOn(t.Testbed.Driver, t.Testbed.GPUs, t.Testbed.Multiprocessors, shapes)
	if err != nil {
		return 0, err
	}
	took := 0.0 // µs for a packet of each size
	for _, mpps := range rates {
		took += 1 / mpps
	}
	return float64(len(rates)) / took, nil
}
