package afxdp

import "time"

// The kernel can refuse a redirect to a socket that is bound to another device or queue (EINVAL) or
// not bound (ENXIO). It drops the frame without a counter; only the tracepoint xdp_redirect_err
// shows it. So refused frames are those that the program redirected and that were neither received
// nor counted as lost.
//
// The counters are read one after another while frames arrive. Two rules keep frames in flight from
// being counted as refused. The program's counter is read first, so that later events make the
// difference smaller. And a frame enters the RX ring at the end of the driver's NAPI poll, after the
// program has counted it: so only a difference larger than one NAPI poll counts at once, and the rest
// after pollTime.
const (
	// pollFrames is more than the NAPI budget, 64 in all drivers and 256 in some zero-copy ones.
	pollFrames = 256
	// pollTime is more than the time of a NAPI poll, on an overloaded host too.
	pollTime = time.Second
)

// redirectErrors counts the frames of a port that the kernel refused.
type redirectErrors struct {
	count uint64 // a lower bound
	// The program's counter at two times, at least pollTime apart.
	old, new sample
}

type sample struct {
	redirected uint64
	at         time.Time
}

// update takes new counters: the frames that the program redirected, read at now, and the frames
// found since, read later. detached means that no more frames arrive.
func (r *redirectErrors) update(redirected, found uint64, queues int, now time.Time, detached bool) uint64 {
	if now.Sub(r.new.at) >= pollTime {
		r.old, r.new = r.new, sample{redirected, now}
	}
	atLeast := func(redirected uint64) { r.count = max(r.count, redirected-min(redirected, found)) }
	if detached {
		atLeast(redirected)
	}
	atLeast(r.old.redirected)
	atLeast(redirected - min(redirected, uint64(queues)*pollFrames))
	return r.count
}
