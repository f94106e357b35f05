package main

import (
	"log/slog"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The service manager gets the ID of the next process, and has processed it before this one ends.
func TestManagerKnowsTheNextProcess(t *testing.T) {
	conn, m := listenAsManager(t), manager{slog.New(slog.DiscardHandler)}
	ended := make(chan struct{})
	go func() { m.mainPID(4711); close(ended) }()
	if got := receive(t, conn, time.Second); got != "MAINPID=4711" {
		t.Errorf("got %q", got)
	}
	body, rights := make([]byte, 64), make([]byte, 64)
	_ = conn.SetReadDeadline(time.Now().Add(time.Second))
	n, size, _, _, err := conn.ReadMsgUnix(body, rights)
	if err != nil || string(body[:n]) != "BARRIER=1" {
		t.Fatalf("got %q (%v)", body[:n], err)
	}
	select {
	case <-ended:
		t.Error("did not wait for the service manager")
	case <-time.After(50 * time.Millisecond):
	}
	messages, err := unix.ParseSocketControlMessage(rights[:size])
	if err != nil || len(messages) != 1 {
		t.Fatalf("%d control messages (%v)", len(messages), err)
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 {
		t.Fatalf("%d files (%v)", len(fds), err)
	}
	unix.Close(fds[0])
	select {
	case <-ended:
	case <-time.After(barrierTimeout / 2):
		t.Error("waits though the service manager has closed the file")
	}
}

// A service manager without barriers delays the end by a limited time, and none is no error.
func TestBarrierIsLimited(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", "")
	if err := barrier(); err != nil {
		t.Error(err)
	}
	listenAsManager(t)
	start := time.Now()
	if err := barrier(); err != nil {
		t.Error(err)
	}
	if took := time.Since(start); took < barrierTimeout/2 || took > 5*barrierTimeout {
		t.Errorf("waited for %v", took)
	}
}

// The next process gets the arguments of this one and the connection, also in a chain of upgrades.
func TestUpgradePassesArguments(t *testing.T) {
	want := []string{"run", "--config", "/etc/warproute.yaml", "--upgrade-fd=3"}
	next := upgradeArgs(want[:3])
	if again := upgradeArgs(next); !slices.Equal(next, want) || !slices.Equal(again, want) {
		t.Errorf("%v, then %v; want %v", next, again, want)
	}
}
