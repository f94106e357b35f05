package ipsec_test

import (
	"bytes"
	"fmt"
	"net/netip"

	"github.com/warproute/warproute/internal/testutil"
	"github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/packet"
)

// Two gateways send a packet through an ESP tunnel. Buffers have room for the outer headers in front
// of the packet.
func Example() {
	c := ipsec.Config{
		SPI: 0x1000, Direction: ipsec.Out, Mode: ipsec.Tunnel,
		Src: netip.MustParseAddr("203.0.113.1"), Dst: netip.MustParseAddr("203.0.113.2"),
		Suite: "aes128gcm16", Key: make([]byte, 20), // 16 bytes for AES, 4 of salt
	}
	outbound, err := ipsec.NewSA(c, 1) // for one worker
	if err != nil {
		panic(err)
	}
	c.Direction, c.ReplayWindow = ipsec.In, 64
	inbound, err := ipsec.NewSA(c, 1)
	if err != nil {
		panic(err)
	}
	var sad ipsec.SAD
	if err := sad.Add(inbound); err != nil {
		panic(err)
	}

	const worker, room = 0, 128
	p := testutil.UDP4("192.0.2.1", "198.51.100.7", 12345, 53, make([]byte, 100)...)[packet.EthernetLen:]
	buf := make([]byte, 2048)
	copy(buf[room:], p)
	at, n, failed := outbound.Encapsulate(worker, buf, room, len(p))
	fmt.Println(len(p), "bytes as", n, "bytes of ESP:", failed)

	spi, _, _ := ipsec.Inbound(buf[at : at+n])
	sa := sad.Lookup(spi, ipsec.Destination(buf[at:at+n]))
	again := bytes.Clone(buf)
	at2, n2, failed := sa.Decapsulate(worker, buf, at, n)
	fmt.Println("equal:", bytes.Equal(buf[at2:at2+n2], p), failed)

	_, _, failed = sa.Decapsulate(worker, again, at, n)
	fmt.Println("the same packet again:", failed)
	// Output:
	// 128 bytes as 184 bytes of ESP: OK
	// equal: true OK
	// the same packet again: XfrmInStateSeqError
}
