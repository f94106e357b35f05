package dataplane

import (
	"time"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/internal/offload"
	"github.com/warproute/warproute/packet"
	"github.com/warproute/warproute/umem"
)

// HostQueue is a worker's queue of an interface between the router and its host (package internal/tun). Only
// this worker calls it, once per burst. No method blocks or allocates.
type HostQueue interface {
	// Send passes valid IP packets to the host, in order within a flow, until the budget is spent, and stores
	// what becomes of each. It may change the packets. It returns the time that it took.
	Send(packets [][]byte, results []offload.Result, budget time.Duration) (spent time.Duration)
	// Receive stores packets of the host in buffers and their lengths in sizes, and returns their number.
	// more reports whether there may be others.
	Receive(buffers [][]byte, sizes []int) (n int, more bool)
	// FD is the file descriptor for poll(2).
	FD() int
}

// hostPath is a worker's side of a host queue. Packets to the host are collected while a chunk is
// dispatched, and sent after the packets to ports.
type hostPath struct {
	HostQueue               // nil without one
	last      time.Duration // time of the last Receive
	more      bool          // the last Receive left packets

	frames  []batch.Frame    // to send
	packets [][]byte         // in these frames
	results []offload.Result // of these packets

	buffers [hostBurst][]byte
	sizes   [hostBurst]int
	empty   [hostBurst]batch.Frame // of the buffers
}

const (
	// hostPollInterval is the interval at which a busy worker polls a host queue without packets.
	hostPollInterval = 50 * time.Microsecond
	hostBurst        = 64 // packets of a call of Receive
	// hostRoom is the part of the slow path's queue that packets of the host can fill.
	hostRoom = slowPathSize * 3 / 4
)

func newHostPath(q HostQueue, burst int) hostPath {
	if q == nil {
		return hostPath{}
	}
	return hostPath{HostQueue: q, frames: make([]batch.Frame, 0, burst), packets: make([][]byte, 0, burst), results: make([]offload.Result, burst)}
}

// receiveFromLinux is receiveFromHost for both paths. Each of them is first in every other call, so that neither takes all places.
func (w *worker) receiveFromLinux(now time.Duration, most int) {
	paths := [...]*hostPath{&w.host, &w.exit}
	first := w.linuxFirst
	w.linuxFirst ^= 1
	w.receiveFromHost(paths[first], now, most)
	w.receiveFromHost(paths[first^1], now, most)
}

// receiveFromHost enqueues packets of the host, until the slow path's queue has most packets or hostRoom. The outbound policies apply to them.
func (w *worker) receiveFromHost(h *hostPath, now time.Duration, most int) {
	if h.HostQueue == nil || !h.more && now-h.last < hostPollInterval {
		return
	}
	h.last, h.more = now, true
	for h.more {
		room := min(hostBurst, min(hostRoom, most)-w.slow.n, w.pool.Len())
		if room <= 0 {
			return
		}
		for i := range room {
			h.empty[i], h.buffers[i] = w.allocFrame(umem.MaxMTU)
		}
		var n int
		n, h.more = h.Receive(h.buffers[:room], h.sizes[:room])
		for i, f := range h.empty[:room] {
			if i >= n || h.sizes[i] < packet.IPv4Len || h.buffers[i][0]>>4 == 6 && h.sizes[i] < packet.IPv6Len {
				w.pool.Put(f.Addr)
				continue
			}
			f.Origin = batch.From(0).With(batch.Own)
			w.originate(f, h.sizes[i])
		}
	}
}

// deliverToHost delivers a packet for an address of the host, unless the host would answer through a port, in
// cleartext. It refuses a fragment of ESP from outside: no policy was applied to it.
func (w *worker) deliverToHost(f batch.Frame, p []byte) bool {
	unchecked := !f.Origin.Has(batch.InboundChecked) && isESPFragment(p)
	if w.host.HostQueue == nil || unchecked || !w.answersByTunnel(p) {
		return false
	}
	if f.Addr+packet.EthernetLen >= uint32(len(w.mem)) || &w.mem[f.Addr+packet.EthernetLen] != &p[0] { // a reassembled packet, whose buffer is used again
		w.sendToHost(&w.host)
		return w.host.add(f, p) && w.sendToHost(&w.host)
	}
	return w.host.add(f, p)
}

// add lists a packet and reports whether there was room.
func (h *hostPath) add(f batch.Frame, p []byte) bool {
	if len(h.frames) == cap(h.frames) {
		return false
	}
	h.frames, h.packets = append(h.frames, f), append(h.packets, packet.Trim(p))
	return true
}

// hostReasons are the drop reasons of packets that the host did not get.
var hostReasons = [...]batch.Reason{offload.Limited: batch.HostLimit, offload.Failed: batch.HostFull}

// sendToHost sends the listed packets and frees their frames. It returns true.
func (w *worker) sendToHost(h *hostPath) bool {
	if len(h.frames) == 0 {
		return true
	}
	w.hostTime.refill(batch.Clock(), time.Duration(w.stats.idle.Load()))
	w.hostTime.spend(h.Send(h.packets, h.results, w.hostTime.left))
	for i, f := range h.frames {
		switch {
		case h.results[i] != offload.Sent:
			w.drop(f, hostReasons[h.results[i]])
			continue
		case f.Origin.Has(batch.Own):
			w.stats.originated.Add(-1)
		case h == &w.exit:
			w.countExit(f, len(h.packets[i]))
		default:
			w.stats.delivered.Add(1)
		}
		w.pool.Put(f.Addr)
	}
	h.frames, h.packets = h.frames[:0], h.packets[:0]
	return true
}
