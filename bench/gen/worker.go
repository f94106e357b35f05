package gen

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/internal/affinity"
)

// worker is a thread that sends, receives, or both.
type worker struct {
	cpu      int
	sender   *sender   // or nil
	receiver *receiver // or nil

	fds     []unix.PollFd // of the receive queues
	longest time.Duration // limit of a sleep
	idle    time.Duration // start of the idle time; 0: busy
	timeout unix.Timespec // of a sleep
}

const (
	// spin is the time that a receiver polls empty rings before it sleeps. A wakeup takes longer,
	// and counts as latency.
	spin = 20 * time.Microsecond
	// wakeup is the delay of a timer in Linux.
	wakeup = 80 * time.Microsecond
	// maxSleep limits a sleep, so that the thread can stop.
	maxSleep = time.Millisecond
	// pollSleep limits a sleep without a file descriptor to wait for.
	pollSleep = 50 * time.Microsecond
)

// prepare collects the file descriptors to wait for.
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

// lastRounds limits the bursts that a receiver accepts after its stop: more than its rings hold.
const lastRounds = 1 << 10

// run sends and receives until the run stops.
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

// turn sends and receives a burst.
func (w *worker) turn(now time.Duration, stopSend bool) (busy bool) {
	if w.sender != nil {
		busy = w.sender.send(now, stopSend)
	}
	if w.receiver != nil {
		busy = w.receiver.receive() || busy
	}
	return busy
}

// sleep waits for received frames, or until a packet is due.
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
	// After an error, by a signal or a closed socket, the worker continues.
	_, _ = unix.Ppoll(w.fds, &w.timeout, nil)
}
