package cuda

import (
	"fmt"
	"structs"
)

// Partition is a set of a device's multiprocessors. Kernels in a context of a
// partition run there and nowhere else, so that long ones in one partition leave
// another free. Partitions of different Splits may overlap.
//
// It needs driver 12.4; an older one gives errors.ErrUnsupported.
type Partition struct {
	dev      *Device
	resource devResource
}

// devResource is CUdevResource as CUDA 12.4 defines it.
type devResource struct {
	_        structs.HostLayout
	kind     uint32
	_        [92]byte
	smCount  uint32
	reserved [44]byte
}

// The kind of a devResource that is multiprocessors.
const resourceSM = 1

// Split cuts the device's multiprocessors into up to groups partitions of at
// least sms each, and the rest. The device rounds sms up to what it can separate
// (8 on Hopper); there are fewer partitions where there are not enough of them.
func (d *Device) Split(groups, sms int) (parts []Partition, rest Partition, err error) {
	var whole devResource
	if err := d.drv.call(cuDeviceGetDevResource, d.handle, &whole, resourceSM); err != nil {
		return nil, rest, fmt.Errorf("count the multiprocessors of GPU %d: %w", d.handle, err)
	}
	if groups < 1 || sms < 1 {
		return nil, rest, fmt.Errorf("split GPU %d into %d groups of %d multiprocessors: neither may be less than 1", d.handle, groups, sms)
	}
	resources := make([]devResource, groups)
	n := uint32(groups)
	rest.dev = d
	if err := d.drv.call(cuDevSmResourceSplitByCount, resources, &n, &whole, &rest.resource, 0, sms); err != nil {
		return nil, rest, fmt.Errorf("split GPU %d into %d groups of %d of its %d multiprocessors: %w", d.handle, groups, sms, whole.smCount, err)
	}
	for _, r := range resources[:n] {
		parts = append(parts, Partition{dev: d, resource: r})
	}
	return parts, rest, nil
}

// Multiprocessors is the size of the partition.
func (p Partition) Multiprocessors() int { return int(p.resource.smCount) }

// NewContext returns a context whose kernels run on the partition (a green
// context). It shares memory and modules with the device's primary context.
func (p Partition) NewContext() (*Context, error) {
	c := &Context{drv: p.dev.drv, dev: p.dev}
	var description, green uintptr
	if err := c.drv.call(cuDevResourceGenerateDesc, &description, &p.resource, 1); err != nil {
		return nil, fmt.Errorf("describe a partition of %d multiprocessors: %w", p.Multiprocessors(), err)
	}
	const defaultStream = 1 // a flag that the driver insists on
	if err := c.drv.call(cuGreenCtxCreate, &green, description, p.dev.handle, defaultStream); err != nil {
		return nil, fmt.Errorf("make a context on %d multiprocessors: %w", p.Multiprocessors(), err)
	}
	c.destroy = func() error { return c.drv.call(cuGreenCtxDestroy, green) }
	if err := c.drv.call(cuCtxFromGreenCtx, &c.handle, green); err != nil {
		c.Close()
		return nil, fmt.Errorf("make a context on %d multiprocessors: %w", p.Multiprocessors(), err)
	}
	return c, nil
}
