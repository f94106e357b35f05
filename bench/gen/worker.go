package gen

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/internal/affinity"
)

// worker is a thread that sends, receives, or does both in turn.
type worker struct {
	cpu      int
	sender   *sender   // or nil
	receiver *receiver // or nil

	fds     []unix.PollFd // of the queues that it receives from
	longest time.Duration // how long it may sleep
	idle    time.Duration // since when it has had nothing to do; 0: it has
	timeout unix.Timespec // of the sleep
}

const (
	// spin is how long a receiver looks at empty rings before it sleeps: to wake
	// up takes longer than that, and is measured as latency.
	spin = 20 * time.Microsecond
	// wakeup is how much later than asked for Linux may wake a thread.
	wakeup = 80 * time.Microsecond
	// No sleep is longer, so that the end is noticed...
	maxSleep = time.Millisecond
	// ...or than this, where no file descriptor tells of frames.
	pollSleep = 50 * time.Microsecond
)

// prepare finds out what to wait for.
func (w *worker) prepare() {
	w.longest = maxSleep
	if w.receiver == nil {
		return
	}
	for _, q := range w.receiver.queues {
		w.fds = append(w.fds, unix.PollFd{Fd: int32(q.FD()), Events: unix.POLLIN})
		if q.FD() < 0 {
			w.longest = pollSleep
		}
	}
}

// lastRounds bounds what a receiver still takes when it is told to stop: all that
// its rings hold, but not for ever what a stranger sends.
const lastRounds = 1 << 10

// run works until it is told to stop.
func (w *worker) run(r *running) error {
	restore, err := affinity.Pin(w.cpu)
	if err != nil {
		if w.sender != nil {
			r.sending.Done()
		}
		return err
	}
	defer restore()
	w.prepare()
	reported := w.sender == nil
	for !r.stop.Load() {
		now := clock()
		busy := w.turn(now, r.stopSend.Load())
		if !reported && w.sender.done {
			reported = true
			r.sending.Done()
		}
		switch {
		case busy:
			w.idle = 0
		case w.idle == 0:
			w.idle = now
		default:
			w.sleep(now)
		}
	}
	for range lastRounds {
		if w.receiver == nil || !w.receiver.receive() {
			break
		}
	}
	return nil
}

// turn sends and receives once.
func (w *worker) turn(now time.Duration, stopSend bool) (busy bool) {
	if w.sender != nil {
		busy = w.sender.send(now, stopSend)
	}
	if w.receiver != nil {
		busy = w.receiver.receive() || busy
	}
	return busy
}

// sleep waits for frames to receive, or until there is one to send.
func (w *worker) sleep(now time.Duration) {
	if w.receiver != nil && now-w.idle < spin {
		return
	}
	d := w.longest
	if s := w.sender; s != nil && !s.finished {
		d = min(d, s.pace.next(s.made)-wakeup-now)
	}
	if d <= 0 {
		return
	}
	w.timeout = unix.NsecToTimespec(int64(d))
	// An error means a signal, or a socket that is gone; either way we go on.
	_, _ = unix.Ppoll(w.fds, &w.timeout, nil)
}
