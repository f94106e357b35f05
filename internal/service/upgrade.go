package service

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/warproute/warproute/control/status"
	"github.com/warproute/warproute/internal/handover"
	"github.com/warproute/warproute/internal/spawner"
)

// An upgrade starts another binary, which prepares while this router forwards, and hands the ports and SAs over to it.
// Until the other process is ready, every failure leaves this router as it is. After that, this process starts again
// if the other one fails (Upgrade.From).

// UpgradeRequest is a request of a client of the control socket.
type UpgradeRequest struct {
	Timeout time.Duration // of the preparation
	answer  chan *status.Upgrade
}

// Answer completes a request.
func (r UpgradeRequest) Answer(a *status.Upgrade) { r.answer <- a }

// UpgradeRequests returns the channel of requests. Each needs an answer.
func (s *Service) UpgradeRequests() <-chan UpgradeRequest { return s.upgrades }

// Limits of UpgradeRequest.Timeout.
const (
	upgradeTimeout    = time.Minute
	upgradeTimeoutMax = time.Hour
)

// handleUpgrade answers POST /upgrade?timeout=1m.
func (s *Service) handleUpgrade(r *http.Request) (any, error) {
	q := UpgradeRequest{Timeout: upgradeTimeout, answer: make(chan *status.Upgrade, 1)}
	if text := r.URL.Query().Get("timeout"); text != "" {
		d, err := time.ParseDuration(text)
		if err != nil || d <= 0 || d > upgradeTimeoutMax {
			return nil, fmt.Errorf("timeout %q: use a duration up to %v, such as 1m", text, upgradeTimeoutMax)
		}
		q.Timeout = d
	}
	select {
	case s.upgrades <- q:
		return <-q.answer, nil
	case <-s.ending:
		return nil, errors.New("upgrade: the router is stopping")
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
}

// forwardTimeout limits the time from the stop of the workers to those of the other process.
const forwardTimeout = 3 * time.Second

// Upgrade is an upgrade of a running router.
type Upgrade struct {
	Result *status.Upgrade
	// From is set if this process has stopped its workers and the other one has failed. Stop this Service, and
	// start another one by Inherit.
	From *Predecessor

	child *child
}

// Done reports whether the other process forwards. Stop this Service, and then call Release.
func (u *Upgrade) Done() bool { return u.Result.Result == status.UpgradeDone }

// Release reports to the other process that this one has stopped.
func (u *Upgrade) Release() {
	u.child.conn.Deadline(time.Now().Add(time.Second))
	_ = u.child.conn.Send(handover.Message{Kind: handover.KindReleased}) // the end of this process means the same
}

// Upgrade hands over to the program of a spawner, nil for none. It is for the goroutine that calls Reload. The program
// finds the connection at file descriptor 3 (UpgradeFD).
func (s *Service) Upgrade(ctx context.Context, by *spawner.Spawner, version string, timeout time.Duration) *Upgrade {
	u := &Upgrade{Result: &status.Upgrade{Result: status.UpgradeRefused, From: version}}
	fail := func(result status.UpgradeResult, err error) *Upgrade {
		u.Result.Result, u.Result.Error = result, err.Error()
		s.log.Error("not upgraded", "reason", result, "err", err)
		return u
	}
	if os.Getpid() == 1 {
		return fail(status.UpgradeRefused, errors.New("the router is process 1 of its container, which ends with it: replace the container instead"))
	}
	if by == nil {
		return fail(status.UpgradeRefused, errors.New("the router could not start its spawner (see its log): restart it instead"))
	}
	s.hotplug.mu.Lock() // ports stay as they are
	unlock := func() { s.hotplug.mu.Unlock() }
	defer func() { unlock() }()
	var err error
	if u.child, err = s.prepareChild(ctx, by, version, timeout); err != nil {
		return fail(status.UpgradeRefused, err)
	}
	u.Result.To, u.Result.PID = u.child.version, u.child.process.PID
	base, resume, err := s.suspendIPsec()
	if err != nil {
		u.child.kill()
		return fail(status.UpgradeRefused, err)
	}
	defer resume()
	start := time.Now()
	s.handing.Store(true)
	last, err := s.stopWorkers(base)
	if err == nil {
		err = u.child.takeOver(last)
	}
	u.Result.GapNS = time.Since(start).Nanoseconds()
	if err != nil {
		u.child.kill()
		u.From = s.ownPredecessor(version, last)
		fail(status.UpgradeRestarted, err)
	} else {
		handover.CloseAll(fdsOf(last))
		u.Result.Result = status.UpgradeDone
		s.log.Info("ports and SAs handed over", "to", u.Result.To, "duration", time.Duration(u.Result.GapNS))
	}
	if err := s.ports.Leave(); err != nil {
		s.log.Error("programs of XDP not left to the next process", "err", err)
	}
	return u
}

// child is the process that replaces this one.
type child struct {
	conn    *handover.Conn
	process *spawner.Process
	version string
}

// UpgradeFD is the file descriptor of the connection in the process that Upgrade starts.
const UpgradeFD = 3

// prepareChild starts the other process and waits until it is ready.
func (s *Service) prepareChild(ctx context.Context, by *spawner.Spawner, version string, timeout time.Duration) (_ *child, err error) {
	conn, other, err := handover.Pair()
	if err != nil {
		return nil, err
	}
	process, err := by.Spawn(other)
	_ = other.Close()
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	c := &child{conn: conn, process: process}
	defer context.AfterFunc(ctx, func() { conn.Deadline(time.Now()) })()
	conn.Deadline(time.Now().Add(timeout))
	offer, files := s.offer(version)
	var m handover.Message
	if err = conn.Send(handover.Message{Kind: handover.KindOffer, Offer: offer}, files...); err == nil {
		m, _, err = conn.Receive(handover.KindReady)
	}
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		c.kill()
		return nil, c.explain(by.Program, timeout, err)
	}
	c.version = m.Ready.Version
	return c, nil
}

// explain adds the end of a process to an error of the connection.
func (c *child) explain(program string, timeout time.Duration, err error) error {
	state, code := c.process.State()
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fmt.Errorf("%s was not ready within %v (--timeout)", program, timeout)
	case code >= 0 && !errors.Is(err, context.Canceled) && c.silent(err):
		return fmt.Errorf("%s ended with exit code %d before it was ready; the log has its messages. A version that does not know hot upgrade takes a restart", program, code)
	case c.silent(err):
		return fmt.Errorf("%s ended before it was ready: %v; the log has its messages", program, state)
	}
	return fmt.Errorf("%s: %w", program, err)
}

// silent reports whether an error only says that the connection has ended.
func (c *child) silent(err error) bool {
	text := err.Error()
	return strings.HasSuffix(text, "EOF") || strings.Contains(text, "broken pipe") || strings.Contains(text, "connection reset")
}

// kill ends the process and waits for its end, which frees its sockets.
func (c *child) kill() {
	_ = c.conn.Close()
	select {
	case <-c.process.Ended(): // by itself: its exit code explains more
	case <-time.After(100 * time.Millisecond):
		c.process.Kill()
		<-c.process.Ended()
	}
}

// takeOver sends the state to the process and waits until it forwards.
func (c *child) takeOver(last *stopped) error {
	c.conn.Deadline(time.Now().Add(forwardTimeout))
	err := c.conn.Send(handover.Message{Kind: handover.KindState, State: &last.state}, fdsOf(last)...)
	if err == nil {
		_, _, err = c.conn.Receive(handover.KindForwarding)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = fmt.Errorf("it did not forward within %v", forwardTimeout)
	}
	if err != nil {
		return fmt.Errorf("the new process failed after this one had stopped: %w", err)
	}
	return nil
}
