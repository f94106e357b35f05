package main

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/warproute/warproute/internal/require"
)

// listenAsManager returns the service manager's end of the notification socket.
func listenAsManager(t *testing.T) *net.UnixConn {
	t.Helper()
	path := filepath.Join(t.TempDir(), "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	t.Setenv("NOTIFY_SOCKET", path)
	return conn
}

// receive returns the next notification, "" after the timeout.
func receive(t *testing.T, conn *net.UnixConn, timeout time.Duration) string {
	t.Helper()
	var buf [4096]byte
	_ = conn.SetReadDeadline(time.Now().Add(timeout))
	n, err := conn.Read(buf[:])
	if err != nil {
		return ""
	}
	return string(buf[:n])
}

func TestManagerReportsStates(t *testing.T) {
	conn, m := listenAsManager(t), manager{slog.New(slog.DiscardHandler)}
	m.ready(2)
	m.reloading()
	m.stopping()
	for _, want := range []string{"READY=1\nSTATUS=forwarding on 2 ports", "RELOADING=1\nMONOTONIC_USEC=", "STOPPING=1"} {
		if got := receive(t, conn, time.Second); !strings.HasPrefix(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestWatchdogIsNotifiedOnProgressOnly(t *testing.T) {
	conn, m := listenAsManager(t), manager{slog.New(slog.DiscardHandler)}
	t.Setenv("WATCHDOG_USEC", "150000")
	t.Setenv("WATCHDOG_PID", "")
	ctx, cancel := context.WithCancel(context.Background())
	results, done := make(chan error), make(chan struct{})
	go func() {
		defer close(done)
		m.watch(ctx, func(time.Duration) error { return <-results })
	}()
	for range 3 {
		results <- nil
		if got := receive(t, conn, time.Second); got != "WATCHDOG=1" {
			t.Fatalf("after progress: %q", got)
		}
	}
	if got := receive(t, conn, 400*time.Millisecond); got != "" {
		t.Errorf("while a probe waits: %q", got)
	}
	results <- errors.New("a worker is stuck")
	if got := receive(t, conn, 100*time.Millisecond); got != "" {
		t.Errorf("without progress: %q", got)
	}
	results <- nil
	if got := receive(t, conn, time.Second); got != "WATCHDOG=1" {
		t.Errorf("after progress resumes: %q", got)
	}
	cancel()
	select {
	case results <- nil: // a probe in progress
	case <-done:
	}
	<-done
}
