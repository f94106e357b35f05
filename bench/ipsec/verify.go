package ipsec

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/bench/testbed"
	"github.com/warproute/warproute/dataplane"
	"github.com/warproute/warproute/internal/oracle"
	esp "github.com/warproute/warproute/ipsec"
	"github.com/warproute/warproute/packet"
)

const (
	in = esp.In
	// verifyWindow is the replay window of the verification.
	verifyWindow = 1024
	// timeout limits a round.
	timeout = time.Minute
)

// verify compares the transmitted packets, in order, with the expected ones. To encrypt, every packet
// is played once through each worker. To decrypt, it is played twice and must be refused once.
func (t *traffic) verify() (int, error) {
	if t.Direction == in {
		return t.verifyDecryption()
	}
	return t.verifyEncryption()
}

// run plays the frames of each worker and returns the frames that each worker transmits.
func (t *traffic) run(play [][][]byte, times int) (sent [][][]byte, stats *dataplane.Stats, err error) {
	prepared := 0
	if t.Testbed.Prepared > 0 {
		for _, frames := range play {
			prepared = max(prepared, times*len(frames))
		}
	}
	one := t.withLanes(testbed.OneLane) // packets are played faster than lanes take them
	b, err := one.newTestbedPrepared(len(play), 0, verifyWindow, prepared)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	if sent, stats, err = b.Verify(play, times); err == nil && stats.Engine != t.Engine {
		err = fmt.Errorf("engine %s at the end, not %s: it failed", stats.Engine, t.Engine)
	}
	return sent, stats, err
}

// newTestbed returns a testbed with new SAs.
func (t *traffic) newTestbed(workers, window int) (*testbed.Testbed, error) {
	return t.newTestbedPrepared(workers, t.Testbed.Busy, window, t.Testbed.Prepared)
}

// newTestbedPrepared is newTestbed with numbers of workers that packets are offered to and of prepared packets.
func (t *traffic) newTestbedPrepared(workers, busy, window, prepared int) (*testbed.Testbed, error) {
	g, err := t.gateway(window, workers)
	if err != nil {
		return nil, err
	}
	c := t.Testbed
	c.Workers, c.Busy, c.Prepared = workers, busy, prepared
	c = c.Secured(g)
	return testbed.New(c, t.base, engines[t.Engine](c, t.base, g))
}

func (t *traffic) verifyEncryption() (verified int, err error) {
	frames := make([][]byte, len(t.inner))
	for i, p := range t.inner {
		frames[i] = p.frame
	}
	sent, _, err := t.run(slices.Repeat([][][]byte{frames}, t.Testbed.Workers), 1)
	if err != nil {
		return 0, err
	}
	truth := testbed.Answers(t.routes)
	used := map[*tunnel][]bool{} // by sequence number
	for w, got := range sent {
		if len(got) != len(frames) {
			return 0, fmt.Errorf("worker %d transmitted %d of %d packets", w, len(got), len(frames))
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
				used[p.tunnel] = make([]bool, t.Testbed.Workers*len(frames)+1)
			}
			if int(seq) >= len(used[p.tunnel]) || used[p.tunnel][seq] {
				return 0, fmt.Errorf("packet %d of worker %d: sequence number %d is reused or skips others", i, w, seq)
			}
			used[p.tunnel][seq] = true
			verified++
		}
	}
	return verified, nil
}

// checkSealed compares every byte of an encrypted packet with the expected one, except the sequence
// number, which it returns.
func (t *traffic) checkSealed(got []byte, p inner, truth *oracle.Ranges[int]) (seq uint32, err error) {
	want := make([]byte, t.espSize(len(p.frame)-packet.EthernetLen))
	if len(got) != len(want) {
		return 0, fmt.Errorf("%d bytes, not %d", len(got), len(want))
	}
	at := packet.EthernetLen + t.ipLen()
	seq = binary.BigEndian.Uint32(got[at+4:])
	testbed.PutEgress(want, p.to, truth)
	binary.BigEndian.PutUint32(want[at:], p.spi)
	binary.BigEndian.PutUint32(want[at+4:], seq)
	// The gateway sets the hop limit to 64, then forwards.
	testbed.PutIP(want[packet.EthernetLen:], p.from, p.to, protoESP, 63, uint16(seq))
	if !bytes.Equal(got[:at+headerLen], want[:at+headerLen]) {
		return 0, fmt.Errorf("want headers % x", want[:at+headerLen])
	}
	body, ok := p.library.open(want, got[at:])
	if !ok {
		return 0, errors.New("crypto/cipher and crypto/hmac refuse it as a forgery")
	}
	inside := testbed.Hop(p.frame)[packet.EthernetLen:]
	if inside = append(inside, p.library.trailer(len(inside), t.carried())...); !bytes.Equal(body, inside) {
		return 0, fmt.Errorf("inner packet\n % x, want\n % x", body, inside)
	}
	return seq, nil
}

// verifyDecryption uses at most as many workers as tunnels or GPUs. With fewer tunnels than GPUs it
// repeats the verification, so that every GPU gets packets.
func (t *traffic) verifyDecryption() (verified int, err error) {
	workers := min(t.Testbed.Workers, max(len(t.tunnels), t.Testbed.GPUs))
	for first := 0; first < max(1, t.Testbed.GPUs); first += len(t.tunnels) {
		n, err := t.verifyOpened(workers, first)
		if err != nil {
			return 0, err
		}
		verified += n
	}
	return verified, nil
}

// verifyOpened assigns tunnels to workers round-robin, beginning with worker first.
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
	truth := testbed.Answers(t.routes)
	for w, got := range sent {
		if len(got) != len(expect[w]) {
			return 0, fmt.Errorf("worker %d transmitted %d packets of %d, played twice", w, len(got), len(expect[w]))
		}
		for i, p := range expect[w] {
			want := testbed.Forwarded(p.frame, truth)
			if !bytes.Equal(got[i], want) {
				return 0, fmt.Errorf("packet %d of worker %d:\n in   % x\n want % x\n got  % x", i, w, play[w][i], want, got[i])
			}
			verified++
		}
	}
	if n := stats.Ports[0].Drops[batch.XfrmInStateSeqError]; n != uint64(verified) {
		return 0, fmt.Errorf("%d of %d replayed packets refused as such", n, verified)
	}
	return verified, nil
}
