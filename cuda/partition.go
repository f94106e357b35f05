package cuda

import (
	"errors"
	"fmt"
	"structs"
)

// Partition is a set of a device's multiprocessors. Kernels in a context of a partition (a green
// context) run on these multiprocessors alone. Partitions of different Splits may overlap.
//
// It requires driver 12.4; an older driver returns errors.ErrUnsupported.
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

// resourceSM is CU_DEV_RESOURCE_TYPE_SM.
const resourceSM = 1

// Split returns up to n partitions of at least sms multiprocessors each, and a partition with the
// remaining ones. The device rounds sms up to its granularity (8 on Hopper), and there are fewer
// partitions if the device has too few multiprocessors.
func (d *Device) Split(n, sms int) (parts []Partition, remaining Partition, err error) {
	var whole devResource
	if err := d.drv.cuDeviceGetDevResource.call(d.handle, &whole, resourceSM); err != nil {
		return nil, remaining, fmt.Errorf("count the multiprocessors of GPU %d: %w", d.handle, err)
	}
	if n < 1 || sms < 1 {
		return nil, remaining, fmt.Errorf("split GPU %d into %d partitions of %d multiprocessors: both must be at least 1", d.handle, n, sms)
	}
	resources := make([]devResource, n)
	count := uint32(n)
	remaining.dev = d
	if err := d.drv.cuDevSmResourceSplitByCount.call(resources, &count, &whole, &remaining.resource, 0, uint32(sms)); err != nil {
		return nil, remaining, fmt.Errorf("split GPU %d into %d partitions of %d of its %d multiprocessors: %w", d.handle, n, sms, whole.smCount, err)
	}
	for _, r := range resources[:count] {
		parts = append(parts, Partition{dev: d, resource: r})
	}
	return parts, remaining, nil
}

// Multiprocessors returns the size of the partition.
func (p Partition) Multiprocessors() int { return int(p.resource.smCount) }

// NewContext returns a green context of the partition. It shares memory and modules with the
// device's primary context. It must be current on one thread at a time.
func (p Partition) NewContext() (*Context, error) {
	c := &Context{drv: p.dev.drv, dev: p.dev}
	green, err := p.newGreen()
	if err != nil {
		return nil, err
	}
	c.destroy = func() error { return c.drv.cuGreenCtxDestroy.call(green) }
	if err := c.drv.cuCtxFromGreenCtx.call(&c.handle, green); err != nil {
		c.Close()
		return nil, fmt.Errorf("create a context on %d multiprocessors: %w", p.Multiprocessors(), err)
	}
	return c, nil
}

// Retain returns the device's primary context, as Device.Retain does. Its streams run on the partition
// alone; memory and modules are those of the primary context, and any thread can use it.
//
// It requires driver 12.5; an older driver returns errors.ErrUnsupported.
func (p Partition) Retain() (*Context, error) {
	c, err := p.dev.Retain() // first, as a green context keeps it
	if err != nil {
		return nil, err
	}
	if err := c.drv.cuGreenCtxStreamCreate.supported(); err != nil {
		return nil, errors.Join(fmt.Errorf("create streams on %d multiprocessors: %w", p.Multiprocessors(), err), c.Close())
	}
	if c.green, err = p.newGreen(); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	release := c.destroy
	c.destroy = func() error {
		if c.green != 0 {
			if err := c.drv.cuGreenCtxDestroy.call(c.green); err != nil {
				return err
			}
			c.green = 0
		}
		return release()
	}
	return c, nil
}

// newGreen creates a green context of the partition.
func (p Partition) newGreen() (green greenHandle, err error) {
	var description resourceHandle
	if err := p.dev.drv.cuDevResourceGenerateDesc.call(&description, &p.resource, 1); err != nil {
		return 0, fmt.Errorf("describe a partition of %d multiprocessors: %w", p.Multiprocessors(), err)
	}
	const defaultStream = 1 // CU_GREEN_CTX_DEFAULT_STREAM, which the driver requires
	if err := p.dev.drv.cuGreenCtxCreate.call(&green, description, p.dev.handle, defaultStream); err != nil {
		return 0, fmt.Errorf("create a context on %d multiprocessors: %w", p.Multiprocessors(), err)
	}
	return green, nil
}
