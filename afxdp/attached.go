package afxdp

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/internal/netdev"
)

// Attached describes the XDP program of an interface.
type Attached struct {
	Interface string
	Mode      string // native, generic, hardware or several
	Program   string // name, "" for none
	ID        uint32 // of the program
	Link      uint32 // ID of the BPF link that holds it, 0 if netlink set it
	Owner     string // process that holds the link, such as "name (pid 7)"; "" if unknown
	Hidden    bool   // a link may hold it, which this process is not permitted to list
}

// FindAttached describes the program with an ID on an interface. It finds links by bpf(2) and their
// owners in /proc, as far as permissions allow.
func FindAttached(name string, ifindex int, mode string, program uint32) Attached {
	a := Attached{Interface: name, Mode: mode, ID: program}
	links := new(link.Iterator)
	defer links.Close()
	for links.Next() {
		info, err := links.Link.Info()
		if err == nil && info.XDP() != nil && int(info.XDP().Ifindex) == ifindex && uint32(info.Program) == program {
			a.Link, a.Owner = uint32(info.ID), ownerOf(uint32(info.ID))
			break
		}
	}
	a.Hidden = errors.Is(links.Err(), unix.EPERM)
	if p, err := ebpf.NewProgramFromID(ebpf.ProgramID(a.ID)); err == nil {
		if info, err := p.Info(); err == nil {
			a.Program = info.Name
		}
		p.Close()
	}
	return a
}

var linkID = regexp.MustCompile(`(?m)^link_id:\s*(\d+)$`)

// ownerOf finds a process that holds a BPF link.
func ownerOf(id uint32) string {
	files, _ := filepath.Glob("/proc/[0-9]*/fdinfo/*")
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		if m := linkID.FindSubmatch(text); m == nil || string(m[1]) != fmt.Sprint(id) {
			continue
		}
		pid := strings.Split(file, "/")[2]
		name, _ := os.ReadFile("/proc/" + pid + "/comm")
		return fmt.Sprintf("%s (pid %s)", strings.TrimSpace(string(name)), pid)
	}
	return ""
}

// attachError adds a hint to an error of attaching a program.
func attachError(err error, name string, ifindex int) error {
	if !errors.Is(err, unix.EBUSY) && !errors.Is(err, unix.EEXIST) {
		return withHint(err, attachHints)
	}
	program, mode, _ := netdev.XDPProgram(ifindex)
	if program == 0 { // detached since, or not visible
		return fmt.Errorf("%w (the interface had another XDP program: retry, or see `bpftool net`)", err)
	}
	a := FindAttached(name, ifindex, mode, program)
	return fmt.Errorf("%w (the interface has %v: %s)", err, a, a.Hint())
}

// String returns the program and its owner.
func (a Attached) String() string {
	s := fmt.Sprintf("XDP program %d", a.ID)
	if a.Program != "" {
		s += " (" + a.Program + ")"
	}
	if a.Link != 0 {
		s += fmt.Sprintf(", held by BPF link %d", a.Link)
	}
	if a.Owner != "" {
		s += " of " + a.Owner
	}
	return s
}

// Hint returns the command to detach the program: `ip link set dev X xdp off` detaches neither a BPF
// link nor a program of another mode.
func (a Attached) Hint() string {
	if a.Hidden { // the running router lacks CAP_SYS_ADMIN
		return "sudo warproute doctor --port " + a.Interface + " finds its owner and how to detach it"
	}
	command := "sudo ip link set dev " + a.Interface + " " + map[string]string{"native": "xdpdrv", "generic": "xdpgeneric", "hardware": "xdpoffload"}[a.Mode] + " off"
	switch {
	case a.Link != 0:
		command = fmt.Sprintf("sudo bpftool link detach id %d", a.Link)
	case a.Mode == "several":
		command = "sudo ip link set dev " + a.Interface + " xdp off"
	}
	if a.Owner != "" {
		return "stop " + a.Owner + ", or: " + command
	}
	return "stop what attached it, or: " + command
}
