package doctor

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/afxdp"
	"github.com/warproute/warproute/control/config"
	"github.com/warproute/warproute/internal/pages"
	"github.com/warproute/warproute/umem"
)

// The oldest kernel that can: one UMEM for sockets of several interfaces is of
// 5.10, preferred busy polling and BPF memory outside RLIMIT_MEMLOCK of 5.11.
const (
	needMajor, needMinor = 5, 10
	wantMajor, wantMinor = 5, 11
)

// version is that of the kernel, if it can be told.
func (h *Host) version() (major, minor int, known bool) {
	n, _ := fmt.Sscanf(h.Release, "%d.%d", &major, &minor)
	return major, minor, n == 2
}

func kernel(h *Host) []Finding {
	major, minor, known := h.version()
	if !known {
		return warn("", "Linux %s, whose age cannot be told", h.Release)
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
		return ok("all that a router needs")
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
	return fail("see what forbids socket(AF_XDP): a seccomp filter of the container, perhaps", "open a socket: %v", err)
}

func bpf(h *Host) []Finding {
	err := h.LoadBPF()
	switch {
	case err == nil:
		return ok("maps and programs can be loaded")
	case errors.Is(err, unix.ENOSYS):
		return fail("boot a kernel built with CONFIG_BPF_SYSCALL=y", "create a map: %v", err)
	case len(h.Missing) > 0:
		return fail("run it with sudo, or once: "+Setcap(h.Executable), "create a map: %v", err)
	}
	return fail("allow bpf(2): in a container, its seccomp profile and --cap-add BPF,NET_ADMIN; with kernel lockdown, its integrity level", "create a map: %v", err)
}

// frameBytes is the frame memory of a router with the ports and a default configuration:
// of each worker a mapping in whole huge pages.
func (h *Host) frameBytes() uint64 {
	chunks, room := config.ChunksWithCPU, config.MaxPackets
	if device, library := h.gpu(); device && library != "" {
		chunks, room = config.ChunksWithGPU, config.Default().Batch.MaxPackets
	}
	workers := max(h.Workers, 1)
	queues := (max(h.Queues, 1) + workers - 1) / workers
	size := (queues*afxdp.FramesPerQueue(afxdp.DefaultRingSize) + config.ChunkFrames(chunks, room)) * umem.FrameSize
	if h.Jumbo {
		size += queues * afxdp.LargePerQueue(afxdp.DefaultRingSize) * umem.LargeSize
	}
	return uint64(workers) * uint64((size+pages.Huge-1)&^(pages.Huge-1))
}

func memlock(h *Host) []Finding {
	need := h.frameBytes()
	switch {
	case h.LockedMax == unix.RLIM_INFINITY || h.MayLock:
		return ok("no limit")
	case h.LockedMax >= need:
		return ok("%d MiB, of which the frames need %d", h.LockedMax>>20, need>>20)
	}
	return fail("ulimit -l unlimited (systemd: LimitMEMLOCK=infinity), or once: "+Setcap(h.Executable),
		"at most %d KiB, and the frames need %d", h.LockedMax>>10, need>>10)
}

// hugePages looks at those of the frames' size, which need not be the kernel's default.
func hugePages(h *Host) []Finding {
	const dir = "sys/kernel/mm/hugepages/hugepages-2048kB"
	if !h.exists(dir) {
		return warn("", "this kernel has no pages of 2 MiB, on which frames lie best: normal pages are used")
	}
	free, total := h.number(dir+"/free_hugepages"), h.number(dir+"/nr_hugepages")
	need := h.frameBytes() / pages.Huge
	if free >= need {
		return ok("%d of 2 MiB free, of which the frames need %d", free, need)
	}
	return warn(fmt.Sprintf("echo %d | sudo tee /%s/nr_hugepages", total-free+need, dir),
		"%d of 2 MiB free, and the frames need %d: Linux is asked to put some together, which it can where memory is free in one piece", free, need)
}

// number returns what a file has, 0 if that is no number.
func (h *Host) number(path string) uint64 {
	text, _ := h.read(path)
	n, _ := strconv.ParseUint(strings.TrimSpace(text), 10, 64)
	return n
}

// forwarding looks at what decides of packets that arrive at the ports, or where none are
// named, at any interface.
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
			found = append(found, warn(fmt.Sprintf("sudo sysctl -w %s=0, unless Linux shall forward them", name),
				"%s=%s: what the router leaves to Linux (IPv4 options, VLANs, other MAC addresses), Linux forwards, uncounted here; a gateway leaves it nothing to forward",
				name, value)...)
		}
	}
	if len(found) == 0 {
		return ok("off: what is forwarded, the router forwards")
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
	return warn("filter before or behind the router, or by a gateway's policies (ipsec.policies, action: discard)",
		"what the router forwards does not pass %s", strings.Join(texts, ", "))
}

func cores(h *Host) []Finding {
	if h.Cores < 2 {
		return warn("give the process two cores or more", "one, which the workers share with everything else")
	}
	return ok("%d for workers to be pinned to", h.Cores)
}

// Where the dynamic loader finds the driver's library.
var libcudaPaths = []string{
	"usr/lib/x86_64-linux-gnu/libcuda.so.1", "usr/lib/aarch64-linux-gnu/libcuda.so.1",
	"usr/lib64/libcuda.so.1", "usr/lib/libcuda.so.1", "usr/local/nvidia/lib64/libcuda.so.1",
}

// gpu says whether there is a GPU, and where its driver's library is, "" for nowhere.
func (h *Host) gpu() (device bool, library string) {
	device = h.exists("dev/nvidia0") && h.exists("dev/nvidiactl")
	for _, p := range libcudaPaths {
		if h.exists(p) {
			return device, "/" + p
		}
	}
	return device, ""
}

func gpu(h *Host) []Finding {
	switch device, library := h.gpu(); {
	case device && library != "":
		return ok("device /dev/nvidia0, driver library %s", library)
	case device:
		return warn("install the driver's user-space part (Debian: libcuda1), or mount it into the container", "device /dev/nvidia0, but no libcuda.so.1: the CPU engine is used")
	case library != "":
		return warn("load the kernel module (sudo modprobe nvidia), or give the container the device", "%s, but no /dev/nvidia0: the CPU engine is used", library)
	}
	return ok("none: the CPU engine is used")
}
