package afxdp

import "time"

// The program directs a frame to a socket, and the kernel may refuse that: the socket is of
// another device or queue than the one that the frame is of (EINVAL), or bound to none
// (ENXIO). It drops the frame and counts it nowhere; only the tracepoint xdp_redirect_err
// shows it. So refused frames are those that the program counted as directed to a socket
// and that are neither received nor lost by another way.
//
// These counts are read one after the other while frames arrive. Two things keep frames
// that are on their way from being taken for refused ones. What the program counted is read
// first, so that everything that happens meanwhile makes the difference smaller. And a frame
// reaches the ring when the driver ends its round, some time after the program has counted it:
// of the difference only that counts which frames of one round cannot explain, and all of it
// once the program has counted nothing for a while, or in the time before.

const (
	// roundFrames is more than a driver takes from a queue before it hands them over: its
	// NAPI budget, 64 in all drivers and 256 in some zero-copy ones.
	roundFrames = 256
	// roundTime is more than such a round takes, on an overloaded host too.
	roundTime = time.Second
)

// refusals counts the frames of a port that the kernel refused.
type refusals struct {
	count uint64 // so far; never more than there were
	// What the program had counted, at two times: the older one at least roundTime before
	// the newer one replaced it.
	old, new sample
}

type sample struct {
	directed uint64
	at       time.Time
}

// update takes new counts: the frames that the program directed to sockets, read at a time,
// and those that were found again, read later. With detached set, no more frames come.
func (r *refusals) update(directed, found uint64, queues int, now time.Time, detached bool) uint64 {
	if now.Sub(r.new.at) >= roundTime {
		r.old, r.new = r.new, sample{directed, now}
	}
	certain := func(directed uint64) { r.count = max(r.count, directed-min(directed, found)) }
	if detached {
		certain(directed)
	}
	certain(r.old.directed)
	certain(directed - min(directed, uint64(queues)*roundFrames))
	return r.count
}
