package socket

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// peer is the key of the credentials of a connection in the context of its requests.
type peer struct{}

// withPeer adds the credentials of the other end to the context of a connection: those of the time when it connected.
func withPeer(ctx context.Context, conn net.Conn) context.Context {
	if cred, err := credentials(conn); err == nil {
		return context.WithValue(ctx, peer{}, cred)
	}
	return ctx
}

// restrict refuses and logs requests of users other than root and that of this process, and logs permitted ones.
func (a *Access) restrict(next http.Handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		cred, ok := r.Context().Value(peer{}).(*unix.Ucred)
		request := r.Method + " " + r.URL.RequestURI()
		if !ok || cred.Uid != 0 && int(cred.Uid) != os.Geteuid() {
			uid, pid := -1, 0
			if ok {
				uid, pid = int(cred.Uid), int(cred.Pid)
			}
			a.Log.Warn("control request refused", "request", request, "uid", uid, "pid", pid)
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusForbidden)
			_ = json.NewEncoder(w).Encode(failure{fmt.Sprintf("%s is for root and the user of the router (uid %d) only, not for uid %d: use sudo", r.URL.Path, os.Geteuid(), uid)})
			return
		}
		a.Log.Info("control request", "request", request, "uid", cred.Uid, "pid", cred.Pid)
		next.ServeHTTP(w, r)
	}
}

// credentials returns user and process at the other end of a connection.
func credentials(conn net.Conn) (cred *unix.Ucred, err error) {
	c, ok := conn.(*net.UnixConn)
	if !ok {
		return nil, errors.New("not a Unix socket")
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, err
	}
	controlErr := raw.Control(func(fd uintptr) { cred, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	return cred, errors.Join(controlErr, err)
}

// nameOf names the process at the other end of a connection.
func nameOf(conn net.Conn) string {
	cred, err := credentials(conn)
	if err != nil || cred.Pid == 0 { // 0: process in another PID namespace
		return "another process"
	}
	comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", cred.Pid))
	if err != nil {
		return fmt.Sprintf("process %d", cred.Pid)
	}
	return fmt.Sprintf("process %d (%s)", cred.Pid, strings.TrimSpace(string(comm)))
}
