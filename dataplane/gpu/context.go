package gpu

import (
	"errors"
	"fmt"

	"github.com/warproute/warproute/cuda"
)

// openContext returns the primary context of a GPU, and the number of multiprocessors that its streams
// use: all if most is 0, else most, rounded up to what the driver can divide. Memory, and its
// registration, belong to the primary context in either case. It fails if the GPU has fewer
// multiprocessors, and if the driver cannot divide it.
func openContext(found *cuda.Device, most int) (ctx *cuda.Context, multiprocessors int, err error) {
	whole, err := found.Attribute(cuda.Multiprocessors)
	if err != nil {
		return nil, 0, err
	}
	limit := func(err error, hint string) error {
		return fmt.Errorf("limit the router to %d of %d multiprocessors: %w; %s", most, whole, err, hint)
	}
	if most > whole {
		return nil, 0, limit(errors.New("the GPU has fewer"), fmt.Sprintf("set gpu.multiprocessors to %d or less, or to 0 for all", whole))
	}
	if most <= 0 || most == whole {
		ctx, err = found.Retain()
		return ctx, whole, err
	}
	const hint = "set gpu.multiprocessors to 0, or limit the router by MPS (CUDA_MPS_ACTIVE_THREAD_PERCENTAGE)"
	parts, _, err := found.Split(1, most)
	switch {
	case errors.Is(err, cuda.InvalidResources):
		return nil, 0, limit(err, "or set gpu.multiprocessors to 0")
	case err != nil:
		return nil, 0, limit(err, hint)
	case len(parts) == 0 || parts[0].Multiprocessors() >= whole: // rounded up to all
		ctx, err = found.Retain()
		return ctx, whole, err
	}
	if ctx, err = parts[0].Retain(); err != nil {
		return nil, 0, limit(err, hint)
	}
	return ctx, parts[0].Multiprocessors(), nil
}
