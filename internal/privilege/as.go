package privilege

import (
	"errors"
	"os/user"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"
)

// AsUser calls f with the permissions for files of a user and its groups. Only root can. f must not leave the work to other
// goroutines.
func AsUser(name string, f func()) error {
	u, err := user.Lookup(name)
	if err != nil {
		return err
	}
	uid, uidErr := strconv.Atoi(u.Uid)
	gid, gidErr := strconv.Atoi(u.Gid)
	ids, idsErr := u.GroupIds()
	var groups []uint32
	for _, s := range ids {
		id, err := strconv.ParseUint(s, 10, 32)
		groups, idsErr = append(groups, uint32(id)), errors.Join(idsErr, err)
	}
	if err := errors.Join(uidErr, gidErr, idsErr); err != nil {
		return err
	}
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
		if err := setgroups(groups); err != nil {
			done <- err
			return
		}
		// They report no errors. Of root, they take the exemptions from permissions.
		_ = unix.Setfsgid(gid)
		_ = unix.Setfsuid(uid)
		if now, _ := unix.SetfsuidRetUid(-1); now != uid {
			done <- unix.EPERM
			return
		}
		f()
		done <- nil
	}()
	return <-done
}
