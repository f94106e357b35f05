package forward

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/warproute/warproute/bench/bed"
	"github.com/warproute/warproute/fib"
	"github.com/warproute/warproute/internal/oracle"
	"github.com/warproute/warproute/packet"
)

// verify plays every frame once through a router of one worker, or of one for each GPU, and
// compares what comes out of each, in order, with what should.
func verify(o Options, base *fib.FIB, routes []bed.Route, play [][]byte) (verified int, err error) {
	o.Workers = max(1, o.GPUs)
	b, err := bed.New(o.bed(), base, o.engine(base))
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	sent, all := make([][][]byte, o.Workers), uint64(o.Workers*len(play))
	for w := range sent {
		b.Out[w].Collect(func(f []byte) { sent[w] = append(sent[w], bytes.Clone(f)) })
		b.In[w].Play(play, len(play))
	}
	if err := b.Start(); err != nil {
		return 0, err
	}
	received := func() (n uint64) {
		for _, p := range b.Router.Stats().Ports {
			n += p.RxPackets
		}
		return n
	}
	for end := time.Now().Add(time.Minute); received() < all && time.Now().Before(end); {
		time.Sleep(100 * time.Microsecond) // a router that is stopped takes what there is, but only for so long
	}
	b.Stop()
	for w, got := range sent {
		if len(got) != len(play) {
			return 0, fmt.Errorf("%d of %d packets came out of worker %d", len(got), len(play), w)
		}
	}
	truth := bed.Answers(routes)
	for i, in := range play {
		want := expect(in, truth)
		for w, got := range sent {
			if !bytes.Equal(got[i], want) {
				return 0, fmt.Errorf("packet %d of worker %d:\n in   % x\n want % x\n got  % x", i, w, in, want, got[i])
			}
			verified++
		}
	}
	return verified, nil
}

// expect returns what a router makes of a frame: the oracle's answer, and every
// header field computed anew.
func expect(in []byte, truth *oracle.Ranges[int]) []byte {
	out := bytes.Clone(in)
	p := out[packet.EthernetLen:]
	var dst netip.Addr
	if p[0]>>4 == 4 {
		dst = netip.AddrFrom4([4]byte(p[16:20]))
		p[8]--
		binary.BigEndian.PutUint16(p[10:], 0)
		var sum uint32
		for i := 0; i < packet.IPv4Len; i += 2 {
			sum += uint32(binary.BigEndian.Uint16(p[i:]))
		}
		for sum > 0xffff {
			sum = sum>>16 + sum&0xffff
		}
		binary.BigEndian.PutUint16(p[10:], ^uint16(sum))
	} else {
		dst = netip.AddrFrom16([16]byte(p[24:40]))
		p[7]--
	}
	peer, _ := truth.Lookup(dst)
	mac := bed.PeerMAC(peer)
	for i := range 6 {
		out[i] = byte(mac >> (40 - 8*i))
		out[6+i] = byte(bed.RouterMAC >> (40 - 8*i))
	}
	return out
}
