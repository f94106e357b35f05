package doctor

import (
	"errors"
	"strings"
	"testing"

	"github.com/warproute/warproute/cuda"
	"github.com/warproute/warproute/dataplane/gpu"
)

func TestGPUChecks(t *testing.T) {
	files := []string{"dev/nvidia0", "", "dev/nvidiactl", "", "usr/lib/x86_64-linux-gnu/libcuda.so.1", ""}
	h200 := gpu.Board{
		Number: 1, Info: cuda.DeviceInfo{Name: "NVIDIA H200", PCIBusID: "0000:1a:00.0", Compute: "9.0"}, Sharing: cuda.Sharing{Mode: cuda.TimeSlicing},
		Forward: gpu.Shape{Warps: 16, Shared: 75784, BlocksPerMultiprocessor: 3}, Gateway: gpu.Shape{Warps: 8, Shared: 232336, Staging: 15600, BlocksPerMultiprocessor: 1},
	}
	change := func(f func(*gpu.Board)) []gpu.Board {
		b := h200
		f(&b)
		return []gpu.Board{b}
	}
	shared := func(mode cuda.SharingMode) []gpu.Board {
		return change(func(b *gpu.Board) { b.Sharing.Mode = mode })
	}
	const forward, gateway = "forwarding kernel: up to 3 blocks per multiprocessor, of 16 warps and 75784 bytes of shared memory",
		"IPsec kernel: up to 1 block per multiprocessor, of 8 warps and 232336 bytes of shared memory (staging buffers: 15600 bytes per warp)"
	for _, tt := range []struct {
		name   string
		files  []string
		boards []gpu.Board
		err    error
		want   []string // level, text and hint of each finding; the latter two are parts
	}{
		{"no GPU", nil, nil, nil, []string{"OK|none|"}},
		{"GPU without its library", files[:4], nil, nil, []string{"WARN|no libcuda.so.1|libcuda1"}},
		{"library without a GPU", files[4:], nil, nil, []string{"WARN|no /dev/nvidia0|modprobe nvidia"}},
		{"driver that fails", files, nil, errors.New("no CUDA-capable device"), []string{"WARN|the CPU engine is used: no CUDA-capable device|nvidia-smi"}},
		{"time slicing", files, []gpu.Board{h200}, nil, []string{
			"OK|driver library /usr/lib/x86_64-linux-gnu/libcuda.so.1, 1 visible|", "OK|GPU 1 (NVIDIA H200): time slicing: while the GPU runs another process's|MPS", "OK|" + forward + "|", "OK|" + gateway + "|",
		}},
		{"MPS", files, shared(cuda.MPS), nil, []string{"OK|1 visible|", "OK|MPS: kernels of other processes run beside|", "OK|" + forward + "|", "OK|" + gateway + "|"}},
		{"MIG", files, shared(cuda.MIG), nil, []string{"OK|1 visible|", "OK|MIG: the router has a hardware partition|", "OK|" + forward + "|", "OK|" + gateway + "|"}},
		{"exclusive", files, shared(cuda.Exclusive), nil, []string{"OK|1 visible|", "OK|compute mode exclusive: no other process|", "OK|" + forward + "|", "OK|" + gateway + "|"}},
		{"prohibited", files, shared(cuda.Prohibited), nil, []string{"OK|1 visible|", "WARN|compute mode prohibited|sudo nvidia-smi -i 0000:1a:00.0 -c DEFAULT"}},
		{"too old a GPU", files, change(func(b *gpu.Board) { b.Info.Compute = "7.5" }), nil, []string{"OK|1 visible|", "WARN|compute capability 7.5, 8.0 is required|"}},
		{"too little shared memory", files, change(func(b *gpu.Board) { b.GatewayErr = errors.New("the IPsec kernel needs more") }), nil, []string{
			"OK|1 visible|", "OK|time slicing|MPS", "OK|" + forward + "|", "WARN|GPU 1 (NVIDIA H200): the IPsec kernel needs more: the CPU engine is used|",
		}},
		{"too little shared memory for AES-CBC", files, change(func(b *gpu.Board) { b.Gateway.WithoutCBC = true }), nil, []string{
			"OK|1 visible|", "OK|time slicing|MPS", "OK|" + forward + "|", "OK|" + gateway + "; it does not decrypt AES-CBC: the CPU engine does|",
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := healthy()
			h.Root = root(tt.files...)
			h.Boards = func() ([]gpu.Board, error) { return tt.boards, tt.err }
			found := gpus(h)
			if len(found) != len(tt.want) {
				t.Fatalf("%d findings, want %d: %+v", len(found), len(tt.want), found)
			}
			for i, want := range tt.want {
				part := strings.Split(want, "|")
				if f := found[i]; string(f.Level) != part[0] || !strings.Contains(f.Found, part[1]) || !strings.Contains(f.Hint, part[2]) || part[2] == "" && f.Hint != "" {
					t.Errorf("%+v, want %q", f, want)
				}
			}
		})
	}
}

// A router that needs a GPU does not start without a usable one.
func TestNeededGPUIsMissing(t *testing.T) {
	good := gpu.Board{Info: cuda.DeviceInfo{Compute: "9.0"}, Sharing: cuda.Sharing{Mode: cuda.TimeSlicing}}
	old := good
	old.Info.Compute = "7.5"
	files := []string{"dev/nvidia0", "", "dev/nvidiactl", "", "usr/lib/x86_64-linux-gnu/libcuda.so.1", ""}
	for name, c := range map[string]struct {
		files  []string
		boards []gpu.Board
		err    error
		starts bool
	}{
		"no GPU":               {},
		"under another name":   {boards: []gpu.Board{good}, starts: true},
		"no library":           {files: files[:4]},
		"driver that fails":    {files: files, err: errors.New("for the test")},
		"none visible":         {files: files},
		"too old a GPU":        {files: files, boards: []gpu.Board{old}},
		"one of two is usable": {files: files, boards: []gpu.Board{old, good}, starts: true},
	} {
		for _, needed := range []bool{false, true} {
			h := healthy()
			h.Root, h.NeedsGPU = root(c.files...), needed
			h.Boards = func() ([]gpu.Board, error) { return c.boards, c.err }
			if got := Healthy(gpus(h)); got != (c.starts || !needed) {
				t.Errorf("%s, needed: %v: the router would start: %v", name, needed, got)
			}
		}
	}
}
