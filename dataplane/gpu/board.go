package gpu

import (
	"fmt"

	"github.com/warproute/warproute/cuda"
)

// Board describes a GPU without using it.
type Board struct {
	Number  int // the driver's ordinal
	Info    cuda.DeviceInfo
	Sharing cuda.Sharing
	Forward Shape // of the forwarding kernel
	Gateway Shape // of the IPsec kernel
	// Errors of the shapes: limits of the GPU that are too small.
	ForwardErr, GatewayErr error
}

// Boards describes the visible GPUs. It creates no context. library is the path of libcuda, "" for the
// installed one.
func Boards(library string) ([]Board, error) {
	found, err := find(library, 0)
	if err != nil {
		return nil, err
	}
	boards := make([]Board, len(found))
	for number, d := range found {
		b := &boards[number]
		b.Number = number
		if b.Info, err = d.Info(); err == nil {
			b.Sharing, err = d.Sharing()
		}
		var l limits
		if err == nil {
			l, err = readLimits(d, 0)
		}
		if err != nil {
			return nil, fmt.Errorf("examine GPU %d: %w", number, err)
		}
		b.Forward, b.ForwardErr = forwardNeeds.shape(l)
		b.Gateway, b.GatewayErr = gatewayNeeds.shape(l)
	}
	return boards, nil
}

// SharingLatency says in a sentence what other processes on a GPU mean for the router's latency.
func SharingLatency(s cuda.Sharing) string {
	switch s.Mode {
	case cuda.MPS:
		text := "kernels of other processes run beside the router's, on other multiprocessors"
		if s.Percent > 0 {
			text += fmt.Sprintf("; MPS gives the router %d %% of the GPU's threads", s.Percent)
		}
		return text
	case cuda.MIG:
		return "the router has a hardware partition of its own; only processes in the same instance delay it"
	case cuda.Exclusive:
		return "no other process can use the GPU, so none delays the router"
	case cuda.Prohibited:
		return "no process can use the GPU"
	}
	return "while the GPU runs another process's time slice of 2 to 3 ms, packets on the GPU wait"
}
