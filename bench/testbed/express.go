package testbed

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/netip"
	"time"

	"github.com/warproute/warproute/fib"
	"github.com/warproute/warproute/packet"
)

// ExpressPort receives express packets and transmits them. They are plain: IPsec leaves them alone.
const ExpressPort = 2

const (
	expressFlows = 64
	expressSize  = 64      // bytes of the IP packet
	dscpEF       = 46 << 2 // in the second byte of an IPv4 header
	tosAt        = packet.EthernetLen + 1
	sumAt        = packet.EthernetLen + 10
)

// expressDst returns the destination of a flow (RFC 2544's range).
func expressDst(flow int) netip.Addr { return netip.AddrFrom4([4]byte{198, 18, 0, byte(flow)}) }

// AddExpress adds the routes of express packets, one per destination.
func AddExpress(f *fib.FIB, mtu uint16) error {
	f.SetPort(ExpressPort, RouterMAC, mtu)
	adj, err := f.NewAdjacency(ExpressPort)
	if err != nil {
		return err
	}
	f.SetAdjacency(adj, ExpressPort, PeerMAC(0))
	hop, err := f.NewNextHop(fib.KindForward, fib.Path{Adjacency: adj, Weight: 1})
	if err != nil {
		return err
	}
	for i := range expressFlows {
		if err := f.IPv4.Table.Insert(netip.PrefixFrom(expressDst(i), 32), hop); err != nil {
			return fmt.Errorf("add express routes: %w", err)
		}
	}
	return nil
}

// expressFrames returns a frame per flow, with DSCP EF.
func expressFrames() [][]byte {
	frames := make([][]byte, expressFlows)
	for i := range frames {
		f := make([]byte, packet.EthernetLen+expressSize)
		PutEthernet(f, false)
		PutIP(f[packet.EthernetLen:], netip.AddrFrom4([4]byte{192, 0, 2, 1}), expressDst(i), packet.UDP, 64, 0)
		f[tosAt] = dscpEF
		putChecksum(f)
		frames[i] = f
	}
	return frames
}

// putChecksum writes the checksum of an IPv4 header without options.
func putChecksum(f []byte) {
	clear(f[sumAt : sumAt+2])
	binary.BigEndian.PutUint16(f[sumAt:], checksum(f[packet.EthernetLen:packet.EthernetLen+packet.IPv4Len]))
}

// VerifyExpress plays the express packets through each worker and compares the transmitted ones.
func (b *Testbed) VerifyExpress() (verified int, err error) {
	frames := expressFrames()
	sent := make([][][]byte, len(b.Express))
	for w, q := range b.Express {
		q.Collect(func(f []byte) { sent[w] = append(sent[w], bytes.Clone(f)) })
		q.Play(frames, len(frames))
	}
	if err := b.Start(); err != nil {
		return 0, err
	}
	total := uint64(len(frames) * len(b.Express))
	for start := time.Now(); b.Router.Stats().Ports[ExpressPort].TxPackets < total && time.Since(start) < timeout; {
		time.Sleep(time.Millisecond)
	}
	b.Stop()
	for w, got := range sent {
		if len(got) != len(frames) {
			stats := b.Router.Stats()
			return 0, fmt.Errorf("worker %d transmitted %d of %d express packets; drop reasons: %v", w, len(got), len(frames), Reasons(&stats.Ports[ExpressPort]))
		}
		for i, f := range frames {
			want := Hop(f)
			putMACs(want, PeerMAC(0))
			if !bytes.Equal(got[i], want) {
				return 0, fmt.Errorf("express packet %d of worker %d:\n in   % x\n want % x\n got  % x", i, w, f, want, got[i])
			}
			verified++
		}
	}
	return verified, nil
}
