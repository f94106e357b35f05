package ipsec

import (
	"github.com/warproute/warproute/bench/inplace"
	"github.com/warproute/warproute/packet"
	"github.com/warproute/warproute/umem"
)

// inPlace measures at which rate, in Mpps, GPUs, as many at once, rewrite packets of the
// traffic's sizes and at their places: all of the protected packet is read, and what becomes
// of it is written.
func (t *traffic) inPlace() (float64, error) {
	header := packet.IPv4Len
	if t.IPv6 {
		header = packet.IPv6Len
	}
	const espLen, trailerLen = 8, 2
	link := umem.Headroom + packet.EthernetLen // the word that Ethernet begins in
	front := header + espLen + t.suite.IVLen
	var shapes []inplace.Shape
	for _, size := range t.Sizes {
		pad := -(size + trailerLen) & (t.suite.Align - 1)
		s := inplace.Shape{At: umem.DataOffset - umem.Headroom, Read: link + front + size + pad + trailerLen + t.suite.ICVLen}
		if s.Back = s.Read; t.Direction == in {
			s.Back = link + size
		} else {
			s.At -= front
		}
		shapes = append(shapes, s)
	}
	rates, err := inplace.Rates(t.Bed.Driver, t.Bed.GPUs, shapes)
	if err != nil {
		return 0, err
	}
	took := 0.0 // of a packet of each size, in turn
	for _, mpps := range rates {
		took += 1 / mpps
	}
	return float64(len(rates)) / took, nil
}
