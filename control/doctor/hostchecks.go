package doctor

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/afxdp"
	"github.com/warproute/warproute/control/config"
	"github.com/warproute/warproute/internal/hostmem"
	"github.com/warproute/warproute/internal/placement"
	"github.com/warproute/warproute/umem"
)

// Required and recommended kernels: 5.10 shares one UMEM between interfaces, 5.11 has preferred
// busy polling and accounts BPF memory outside RLIMIT_MEMLOCK.
const (
	needMajor, needMinor = 5, 10
	wantMajor, wantMinor = 5, 11
)

// version returns the kernel version, if known.
func (h *Host) version() (major, minor int, known bool) {
	n, _ := fmt.Sscanf(h.Release, "%d.%d", &major, &minor)
	return major, minor, n == 2
}

func kernel(h *Host) []Finding {
	major, minor, known := h.version()
	if !known {
		return warn("", "Linux %s, unknown version", h.Release)
	}
	olderThan := func(wMajor, wMinor int) bool { return major < wMajor || major == wMajor && minor < wMinor }
	switch {
	case olderThan(needMajor, needMinor):
		return fail(fmt.Sprintf("boot Linux %d.%d or later", needMajor, needMinor), "Linux %s cannot share frame memory between ports", h.Release)
	case olderThan(wantMajor, wantMinor):
		return warn(fmt.Sprintf("boot Linux %d.%d or later for busy polling", wantMajor, wantMinor), "Linux %s has no preferred busy polling", h.Release)
	}
	return ok("Linux %s", h.Release)
}

func capabilities(h *Host) []Finding {
	if len(h.Missing) == 0 {
		return ok("all required ones")
	}
	texts := make([]string, len(h.Missing))
	for i, c := range h.Missing {
		texts[i] = fmt.Sprintf("%s (%s)", c.Name, c.Why)
	}
	return fail("run it with sudo, or once: "+Setcap(h.Executable), "missing %s", strings.Join(texts, ", "))
}

func afxdpSocket(h *Host) []Finding {
	err := h.OpenSocket()
	switch {
	case err == nil:
		return ok("sockets can be opened")
	case errors.Is(err, unix.EPERM):
		return fail("run it with sudo, or once: "+Setcap(h.Executable), "open a socket: %v", err)
	case errors.Is(err, unix.EAFNOSUPPORT):
		return fail("boot a kernel built with CONFIG_XDP_SOCKETS=y", "open a socket: %v", err)
	}
	return fail("find what blocks socket(AF_XDP), for example the seccomp filter of a container", "open a socket: %v", err)
}

func bpf(h *Host) []Finding {
	err := h.LoadBPF()
	switch {
	case err == nil:
		return ok("maps can be created")
	case errors.Is(err, unix.ENOSYS):
		return fail("boot a kernel built with CONFIG_BPF_SYSCALL=y", "create a map: %v", err)
	case len(h.Missing) > 0:
		return fail("run it with sudo, or once: "+Setcap(h.Executable), "create a map: %v", err)
	}
	return fail("allow bpf(2): in a container, its seccomp profile and --cap-add BPF,NET_ADMIN; with kernel lockdown, its integrity level", "create a map: %v", err)
}

// frameBytes returns the frame memory of a router with the ports and a default configuration, without that for ports that are
// added later, in whole huge pages per worker.
func (h *Host) frameBytes() uint64 {
	chunks, room := config.ChunksWithCPU, config.MaxPackets
	if device, library := h.gpu(); device && library != "" {
		chunks, room = config.ChunksWithGPU, config.DefaultMaxPackets
	}
	workers := max(h.Workers, 1)
	queues := (max(h.Queues, 1) + workers - 1) / workers
	size := (queues*afxdp.FramesPerQueue(afxdp.DefaultRingSize) + config.ChunkFrames(chunks, room)) * umem.FrameSize
	if h.Jumbo {
		size += queues * afxdp.LargePerQueue(afxdp.DefaultRingSize) * umem.LargeSize
	}
	return uint64(workers) * uint64((size+hostmem.HugePage-1)&^(hostmem.HugePage-1))
}

func memlock(h *Host) []Finding {
	need := h.frameBytes()
	switch {
	case h.LockedMax == unix.RLIM_INFINITY || h.MayLock:
		return ok("no limit")
	case h.LockedMax >= need:
		return ok("%d MiB, %d MiB or more needed for frames", h.LockedMax>>20, need>>20)
	}
	return fail("ulimit -l unlimited (systemd: LimitMEMLOCK=infinity), or once: "+Setcap(h.Executable),
		"limit %d KiB, %d KiB or more needed for frames", h.LockedMax>>10, need>>10)
}

// hugePages checks for free 2 MiB pages, which need not be the default size.
func hugePages(h *Host) []Finding {
	const dir = "sys/kernel/mm/hugepages/hugepages-2048kB"
	if !h.exists(dir) {
		return warn("", "this kernel has no 2 MiB pages: normal pages are used")
	}
	free, total := h.number(dir+"/free_hugepages"), h.number(dir+"/nr_hugepages")
	need := h.frameBytes() / hostmem.HugePage
	if free >= need {
		return ok("%d free 2 MiB pages, %d or more needed for frames", free, need)
	}
	return warn(fmt.Sprintf("echo %d | sudo tee /%s/nr_hugepages", total-free+need, dir),
		"%d free 2 MiB pages, %d or more needed for frames: Linux must compact memory for the others, or normal pages are used", free, need)
}

// number returns the number in a file, 0 if none.
func (h *Host) number(path string) uint64 {
	text, _ := h.read(path)
	n, _ := strconv.ParseUint(strings.TrimSpace(text), 10, 64)
	return n
}

// forwarding checks the forwarding settings of Linux for the ports, or else for all interfaces.
func forwarding(h *Host) []Finding {
	var found []Finding
	settings := config.ForwardingSettings(h.Ports...)
	if len(h.Ports) == 0 {
		settings = append(settings, "net/ipv4/ip_forward")
	}
	for _, path := range settings {
		text, err := h.read("proc/sys/" + path)
		if err != nil {
			found = append(found, warn("", "read /proc/sys/%s: %v", path, err)...)
			continue
		}
		name := config.SettingName(path)
		if value := strings.TrimSpace(text); value != "" && value != "0" {
			found = append(found, warn(fmt.Sprintf("sudo sysctl -w %s=0, unless routes lead to interfaces that are not ports", name),
				"%s=%s: Linux forwards packets that the router passes to it (IPv4 options, VLANs, other MAC addresses), without counting them here; a gateway passes none",
				name, value)...)
		}
	}
	if len(found) == 0 {
		return ok("off: only the router forwards")
	}
	return found
}

func filters(h *Host) []Finding {
	chains, err := h.Filters()
	switch {
	case err != nil:
		return warn("run it with sudo", "%v", err)
	case len(chains) == 0:
		return ok("no rules for forwarded packets")
	}
	texts := make([]string, len(chains))
	for i, c := range chains {
		texts[i] = c.String()
	}
	return warn("filter on other hosts, or by IPsec policies (ipsec.policies, action: discard)",
		"packets that the router forwards bypass %s", strings.Join(texts, ", "))
}

func cores(h *Host) []Finding {
	if r := h.Placement; r.Cores != nil {
		r.Workers = cmp.Or(r.Workers, h.Workers)
		if err := placement.CheckCores(r); err != nil {
			found, hint, _ := strings.Cut(err.Error(), "; ")
			return fail(hint, "%s", found)
		}
	}
	if h.Cores < 2 {
		return warn("give the process at least two cores", "1, shared by workers and everything else")
	}
	return ok("%d usable by workers", h.Cores)
}
