package ipsec

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/bench/bed"
	"github.com/warproute/warproute/dataplane"
	"github.com/warproute/warproute/internal/oracle"
	esp "github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/packet"
)

const (
	in = esp.In
	// verifyWindow is that of verification, whatever is timed.
	verifyWindow = 1024
	// patience is how long verification may take.
	patience = time.Minute
)

// verify plays every packet once, to be encrypted by all workers, or twice, to be
// decrypted the first time and refused the second, and compares what comes out, in
// order, with what should.
func (t *traffic) verify() (int, error) {
	if t.Direction == in {
		return t.verifyDecryption()
	}
	return t.verifyEncryption()
}

// run has the workers' frames played so many times and returns what each worker sent.
func (t *traffic) run(play [][][]byte, times int) (sent [][][]byte, stats *dataplane.Stats, err error) {
	b, err := t.newBed(len(play), verifyWindow)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	sent, total := make([][][]byte, len(play)), uint64(0)
	for w := range play {
		b.Out[w].Collect(func(f []byte) { sent[w] = append(sent[w], bytes.Clone(f)) })
		b.In[w].Play(play[w], times*len(play[w]))
		total += uint64(times * len(play[w]))
	}
	if err := b.Start(); err != nil {
		return nil, nil, err
	}
	decided := func(s *dataplane.Stats) uint64 { return s.Ports[bed.EgressPort].TxPackets + s.Ports[0].Dropped() }
	for start := time.Now(); ; time.Sleep(time.Millisecond) {
		if stats = b.Router.Stats(); decided(stats) >= total || time.Since(start) > patience {
			break
		}
	}
	b.Stop()
	if n := decided(stats); n != total {
		return nil, nil, fmt.Errorf("%d of %d packets were decided on within %v", n, total, patience)
	}
	if stats.Engine != t.Engine {
		return nil, nil, fmt.Errorf("the engine was %s in the end, not %s: it failed", stats.Engine, t.Engine)
	}
	return sent, stats, nil
}

// newBed is a bed whose associations are new.
func (t *traffic) newBed(workers, window int) (*bed.Bed, error) {
	g, err := t.gateway(window, workers)
	if err != nil {
		return nil, err
	}
	c := t.Bed
	c.Workers = workers
	return bed.New(c, t.base, makers[t.Engine](c, t.base, g))
}

func (t *traffic) verifyEncryption() (verified int, err error) {
	frames := make([][]byte, len(t.inner))
	for i, p := range t.inner {
		frames[i] = p.frame
	}
	sent, _, err := t.run(slices.Repeat([][][]byte{frames}, t.Bed.Workers), 1)
	if err != nil {
		return 0, err
	}
	truth := bed.Answers(t.routes)
	used := map[*tunnel][]bool{} // sequence numbers
	for w, got := range sent {
		if len(got) != len(frames) {
			return 0, fmt.Errorf("%d of %d packets came out of worker %d", len(got), len(frames), w)
		}
		last := map[*tunnel]uint32{} // of this worker
		for i, p := range t.inner {
			seq, err := t.checkSealed(got[i], p, truth)
			if err != nil {
				return 0, fmt.Errorf("packet %d of worker %d: %w\n in  % x\n out % x", i, w, err, p.frame, got[i])
			}
			if seq <= last[p.tunnel] {
				return 0, fmt.Errorf("packet %d of worker %d: sequence number %d follows %d", i, w, seq, last[p.tunnel])
			}
			last[p.tunnel] = seq
			if used[p.tunnel] == nil {
				used[p.tunnel] = make([]bool, t.Bed.Workers*len(frames)+1)
			}
			if int(seq) >= len(used[p.tunnel]) || used[p.tunnel][seq] {
				return 0, fmt.Errorf("packet %d of worker %d: sequence number %d was used before, or others were left out", i, w, seq)
			}
			used[p.tunnel][seq] = true
			verified++
		}
	}
	return verified, nil
}

// checkSealed compares every byte of what a packet became, the sequence number apart,
// which it returns.
func (t *traffic) checkSealed(got []byte, p inner, truth *oracle.Ranges[int]) (seq uint32, err error) {
	want := make([]byte, t.espSize(len(p.frame)-packet.EthernetLen))
	if len(got) != len(want) {
		return 0, fmt.Errorf("%d bytes, not %d", len(got), len(want))
	}
	at := packet.EthernetLen + t.ipLen()
	seq = binary.BigEndian.Uint32(got[at+4:])
	t.putLink(want, p.to, truth)
	binary.BigEndian.PutUint32(want[at:], p.spi)
	binary.BigEndian.PutUint32(want[at+4:], seq)
	// The gateway sends it with 64 hops to go, and routes it.
	putIP(want[packet.EthernetLen:], p.from, p.to, protoESP, 63, uint16(seq))
	if !bytes.Equal(got[:at+headerLen], want[:at+headerLen]) {
		return 0, fmt.Errorf("the headers are to be % x", want[:at+headerLen])
	}
	body, ok := p.library.open(want, got[at:])
	if !ok {
		return 0, errors.New("it is a forgery to crypto/cipher and crypto/hmac")
	}
	inside := hop(p.frame)[packet.EthernetLen:]
	if inside = append(inside, p.library.trailer(len(inside), t.carried())...); !bytes.Equal(body, inside) {
		return 0, fmt.Errorf("it carries\n % x, and is to carry\n % x", body, inside)
	}
	return seq, nil
}

// verifyDecryption has as many workers as there are tunnels or GPUs, if they are not fewer.
// Where there are fewer tunnels, each is of one worker after another: so all GPUs have packets.
func (t *traffic) verifyDecryption() (verified int, err error) {
	workers := min(t.Bed.Workers, max(len(t.tunnels), t.Bed.GPUs))
	for first := 0; first < max(1, t.Bed.GPUs); first += len(t.tunnels) {
		n, err := t.verifyOpened(workers, first)
		if err != nil {
			return 0, err
		}
		verified += n
	}
	return verified, nil
}

// verifyOpened has the first tunnel's packets reach a worker, and the others' the next ones.
func (t *traffic) verifyOpened(workers, first int) (verified int, err error) {
	play, expect := make([][][]byte, workers), make([][]inner, workers)
	for _, p := range t.inner {
		w := (first + p.worker) % workers
		f := make([]byte, t.espSize(len(p.frame)-packet.EthernetLen))
		t.protect(f, p)
		play[w], expect[w] = append(play[w], f), append(expect[w], p)
	}
	sent, stats, err := t.run(play, 2)
	if err != nil {
		return 0, err
	}
	truth := bed.Answers(t.routes)
	for w, got := range sent {
		if len(got) != len(expect[w]) {
			return 0, fmt.Errorf("%d packets came out of worker %d, where %d were sent twice", len(got), w, len(expect[w]))
		}
		for i, p := range expect[w] {
			want := hop(p.frame)
			t.putLink(want, destination(want), truth)
			if !bytes.Equal(got[i], want) {
				return 0, fmt.Errorf("packet %d of worker %d:\n in   % x\n want % x\n got  % x", i, w, play[w][i], want, got[i])
			}
			verified++
		}
	}
	if n := stats.Ports[0].Drops[batch.XfrmInStateSeqError]; n != uint64(verified) {
		return 0, fmt.Errorf("%d of %d replayed packets were refused as such", n, verified)
	}
	return verified, nil
}

// putLink writes the Ethernet header of a packet that is sent on to an address.
func (t *traffic) putLink(f []byte, to netip.Addr, truth *oracle.Ranges[int]) {
	putEthernet(f, t.IPv6)
	peer, _ := truth.Lookup(to)
	dst, src := bed.PeerMAC(peer), bed.RouterMAC
	for i := range 6 {
		f[i], f[6+i] = byte(dst>>(40-8*i)), byte(src>>(40-8*i))
	}
}

// destination returns that of a frame.
func destination(f []byte) netip.Addr {
	p := f[packet.EthernetLen:]
	if p[0]>>4 == 4 {
		return netip.AddrFrom4([4]byte(p[16:20]))
	}
	return netip.AddrFrom16([16]byte(p[24:40]))
}

// hop returns what a router makes of a frame, but for the link addresses.
func hop(f []byte) []byte {
	f = bytes.Clone(f)
	p := f[packet.EthernetLen:]
	if p[0]>>4 == 6 {
		p[7]--
		return f
	}
	p[8]--
	p[10], p[11] = 0, 0
	binary.BigEndian.PutUint16(p[10:], checksum(p[:packet.IPv4Len]))
	return f
}
