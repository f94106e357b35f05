package privilege

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"runtime"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

// Options of a reduction.
type Options struct {
	UID, GID int    // of the user that the router becomes; -1: unchanged
	Group    string // further group that the router must be in to give it files, "" for none
	Realtime bool   // keep CAP_SYS_NICE
	// Prepare runs with all privileges before they are reduced, on the same thread.
	Prepare func() error
}

// reduced is an environment variable of a program that has been executed again by Reduce.
const reduced = "WARPROUTE_REDUCED"

// Reduce leaves the process only the capabilities that a running router needs, without a way to get others
// (no_new_privs), as another user if the options name one. Credentials belong to threads, so Reduce executes the
// program again, which starts with one thread. It returns if there is nothing to reduce.
//
// systemd (contrib/warproute.service) and container runtimes reduce in advance.
func Reduce(o Options) error {
	keep := kept(o.Realtime)
	have, err := permitted()
	if err != nil {
		return err
	}
	id, err := identify(o)
	if err != nil {
		return err
	}
	nnp, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0)
	if err != nil {
		return fmt.Errorf("read no_new_privs: %w", err)
	}
	if have&^keep == 0 && nnp == 1 && !id.differs() {
		return os.Unsetenv(reduced)
	}
	if os.Getenv(reduced) != "" {
		return fmt.Errorf("reduce privileges: %v and no_new_privs %d remain after executing the program again", have, nnp)
	}
	runtime.LockOSThread() // until the program is executed
	defer runtime.UnlockOSThread()
	if o.Prepare != nil {
		if err := o.Prepare(); err != nil {
			return err
		}
	}
	if have.has(unix.CAP_SETPCAP) {
		if err := bound(keep); err != nil {
			return err
		}
	}
	if err := id.assume(); err != nil {
		return err
	}
	if err := setThread(have & keep); err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("set no_new_privs: %w", err)
	}
	err = unix.Exec("/proc/self/exe", os.Args, append(os.Environ(), reduced+"=1"))
	return fmt.Errorf("execute the program again without privileges: %w", err)
}

// CheckUpgrade returns an error if the options need privileges that this process, which another router's spawner has
// started, cannot get.
func CheckUpgrade(o Options) error {
	have, err := permitted()
	if err != nil {
		return err
	}
	if o.Realtime && !have.has(Realtime.Bit) {
		return fmt.Errorf("napi: thread needs %s, which the running router lacks: restart it", Realtime.Name)
	}
	id, err := identify(o)
	if err != nil {
		return err
	}
	gid, err := LookupGroup(o.Group)
	if err != nil {
		return err
	}
	if gid >= 0 {
		id.groups = []int{gid}
	}
	if id.differs() {
		return errors.New("privileges.user or control.group differ from those of the running router, which cannot change them: restart it")
	}
	return nil
}

// identity is a user with groups.
type identity struct {
	uid, gid int   // -1: unchanged
	groups   []int // further ones, to set if there are any or the user changes
}

// identify returns the identity that the options name.
func identify(o Options) (identity, error) {
	id := identity{uid: -1, gid: -1}
	switch me := os.Getuid(); {
	case o.UID < 0 || o.UID == me:
	case me != 0:
		return id, fmt.Errorf("privileges.user: only root can become user %d; start the router as root or as that user", o.UID)
	default:
		id.uid, id.gid = o.UID, o.GID
	}
	if gid, err := LookupGroup(o.Group); err != nil {
		return id, err
	} else if gid >= 0 && os.Getuid() == 0 {
		id.groups = []int{gid}
	}
	return id, nil
}

// LookupUser returns the numbers of a user and of its group, -1 for "".
func LookupUser(name string) (uid, gid int, err error) {
	if name == "" {
		return -1, -1, nil
	}
	u, err := user.Lookup(name)
	if err != nil {
		return -1, -1, fmt.Errorf("privileges.user: %w; create it: useradd --system %s", err, name)
	}
	uid, uidErr := strconv.Atoi(u.Uid)
	gid, gidErr := strconv.Atoi(u.Gid)
	return uid, gid, errors.Join(uidErr, gidErr)
}

// LookupGroup returns the number of a group, -1 for "".
func LookupGroup(name string) (int, error) {
	if name == "" {
		return -1, nil
	}
	g, err := user.LookupGroup(name)
	if err != nil {
		return -1, fmt.Errorf("control.group: %w; create it: groupadd --system %s", err, name)
	}
	return strconv.Atoi(g.Gid)
}

// differs reports whether the process has another identity.
func (id identity) differs() bool {
	if id.uid >= 0 {
		return true
	}
	have, err := os.Getgroups()
	return err != nil || slices.ContainsFunc(id.groups, func(gid int) bool {
		return gid != os.Getgid() && !slices.Contains(have, gid)
	})
}

// assume makes it the identity of the calling thread, which keeps its permitted capabilities.
func (id identity) assume() error {
	if !id.differs() {
		return nil
	}
	// Raw calls: those of Go's packages change all threads, which purego's runtime does not support.
	groups := make([]uint32, 1, 2)
	for _, gid := range id.groups {
		groups = append(groups, uint32(gid))
	}
	if groups[0] = uint32(os.Getgid()); id.gid >= 0 {
		groups[0] = uint32(id.gid)
	}
	if err := setgroups(groups); err != nil {
		return fmt.Errorf("set groups %v: %w", groups, err)
	}
	if id.uid < 0 {
		return nil
	}
	if err := unix.Prctl(unix.PR_SET_KEEPCAPS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("keep capabilities: %w", err)
	}
	gid, uid := uintptr(id.gid), uintptr(id.uid)
	if _, _, errno := unix.RawSyscall(unix.SYS_SETRESGID, gid, gid, gid); errno != 0 {
		return fmt.Errorf("become group %d: %w", id.gid, errno)
	}
	if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, uid, uid, uid); errno != 0 {
		return fmt.Errorf("become user %d: %w", id.uid, errno)
	}
	return nil
}
