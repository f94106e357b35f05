package main

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// barrierTimeout limits the wait for a service manager, which may not know barriers (systemd before 246).
const barrierTimeout = time.Second

// barrier waits until the service manager has processed all notifications: it closes the file that comes with the
// last one (sd_notify_barrier(3)). Without a service manager it does nothing.
func barrier() error {
	path := os.Getenv("NOTIFY_SOCKET")
	if path == "" {
		return nil
	}
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer r.Close()
	if err = errors.Join(sendFile(path, "BARRIER=1", int(w.Fd())), w.Close()); err != nil {
		return err
	}
	_ = r.SetReadDeadline(time.Now().Add(barrierTimeout))
	_, _ = r.Read(make([]byte, 1))
	return nil
}

// sendFile sends a notification with a file. Package net passes no files by a connected datagram socket.
func sendFile(path, text string, fd int) error {
	s, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(s)
	return unix.Sendmsg(s, []byte(text), unix.UnixRights(fd), &unix.SockaddrUnix{Name: path}, unix.MSG_NOSIGNAL)
}
