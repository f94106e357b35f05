package doctor

import (
	"fmt"
	"slices"

	"github.com/warproute/warproute/cuda"
	"github.com/warproute/warproute/dataplane/gpu"
)

// libcudaPaths lists the paths of the driver library.
var libcudaPaths = []string{
	"usr/lib/x86_64-linux-gnu/libcuda.so.1", "usr/lib/aarch64-linux-gnu/libcuda.so.1",
	"usr/lib64/libcuda.so.1", "usr/lib/libcuda.so.1", "usr/local/nvidia/lib64/libcuda.so.1",
}

// gpu reports whether a GPU exists, and the path of the driver library, "" for none.
func (h *Host) gpu() (device bool, library string) {
	device = h.exists("dev/nvidia0") && h.exists("dev/nvidiactl")
	for _, p := range libcudaPaths {
		if h.exists(p) {
			return device, "/" + p
		}
	}
	return device, ""
}

// boards describes the GPUs of this host.
func boards() ([]gpu.Board, error) { return gpu.Boards("") }

// gpus checks the driver, and each GPU: how processes share it, and what fits its multiprocessors. Without a usable one, a router
// that needs one does not start.
func gpus(h *Host) []Finding {
	found, usable := examineGPUs(h)
	if !h.NeedsGPU || usable {
		return found
	}
	if boards, err := h.Boards(); err == nil && slices.ContainsFunc(boards, usableBoard) { // the driver finds what has other names here
		return ok("%d visible", len(boards))
	}
	found = slices.DeleteFunc(found, func(f Finding) bool { return f.Level == OK }) // "the CPU engine is used"
	return append(found, fail("install a GPU and its driver, or set engine: auto", "no GPU can be used, and engine: gpu permits no CPU engine")...)
}

// usableBoard reports whether nothing is known that keeps the router from using a GPU.
func usableBoard(b gpu.Board) bool {
	return !slices.ContainsFunc(boardFindings(&b), func(f Finding) bool { return f.Level == Warn })
}

// examineGPUs returns the findings about the driver and each GPU, and whether at least one GPU can be used.
func examineGPUs(h *Host) (found []Finding, usable bool) {
	device, library := h.gpu()
	switch {
	case device && library != "":
	case device:
		return warn("install the user-space driver (Debian: libcuda1), or mount it into the container", "device /dev/nvidia0, but no libcuda.so.1: the CPU engine is used"), false
	case library != "":
		return warn("load the kernel module (sudo modprobe nvidia), or pass the device to the container", "%s, but no /dev/nvidia0: the CPU engine is used", library), false
	default:
		return ok("none: the CPU engine is used"), false
	}
	boards, err := h.Boards()
	if err != nil {
		return warn("see `nvidia-smi`", "device /dev/nvidia0, driver library %s, and the CPU engine is used: %v", library, err), false
	}
	found = ok("driver library %s, %d visible", library, len(boards))
	for i := range boards {
		usable = usable || usableBoard(boards[i])
		found = append(found, boardFindings(&boards[i])...)
	}
	return found, usable
}

// leastCompute is the compute capability for which the kernels are written.
const leastCompute = 8

func boardFindings(b *gpu.Board) []Finding {
	name := fmt.Sprintf("GPU %d (%s)", b.Number, b.Info.Name)
	var major int
	if _, err := fmt.Sscanf(b.Info.Compute, "%d.", &major); err != nil || major < leastCompute {
		return warn("", "%s: compute capability %s, %d.0 is required: the CPU engine is used", name, b.Info.Compute, leastCompute)
	}
	latency := gpu.SharingLatency(b.Sharing)
	var found []Finding
	switch b.Sharing.Mode {
	case cuda.Prohibited:
		return warn(fmt.Sprintf("sudo nvidia-smi -i %s -c DEFAULT", b.Info.PCIBusID), "%s: compute mode prohibited: %s: the CPU engine is used", name, latency)
	case cuda.TimeSlicing:
		found = ok("%s: time slicing: %s", name, latency)
		found[0].Hint = "if other processes use this GPU: MPS (nvidia-cuda-mps-control -d)"
	case cuda.Exclusive:
		found = ok("%s: compute mode exclusive: %s", name, latency)
	case cuda.MPS:
		found = ok("%s: MPS: %s", name, latency)
	case cuda.MIG:
		found = ok("%s: MIG: %s", name, latency)
	}
	return append(append(found, shapeFinding(name, "forwarding", b.Forward, b.ForwardErr)...), shapeFinding(name, "IPsec", b.Gateway, b.GatewayErr)...)
}

// shapeFinding is about the launch shape of a kernel. Registers, which are not known yet, can limit the
// blocks further.
func shapeFinding(name, kernel string, s gpu.Shape, err error) []Finding {
	if err != nil {
		return warn("", "%s: %v: the CPU engine is used", name, err)
	}
	return ok("%s: %s kernel: up to %v", name, kernel, s)
}
