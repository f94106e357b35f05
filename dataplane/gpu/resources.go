package gpu

import "github.com/warproute/warproute/cuda"

// The device closes these resources in the reverse order of their creation.

func (d *Device) load(ptx []byte) (*cuda.Module, error) {
	m, err := d.ctx.Load(ptx)
	return own(d, m, err)
}

func (d *Device) alloc(size int) (*cuda.Memory, error) {
	m, err := d.ctx.Alloc(size)
	return own(d, m, err)
}

func (d *Device) register(memory []byte) (*cuda.HostMemory, error) {
	m, err := d.ctx.Register(memory)
	return own(d, m, err)
}

func (d *Device) newStream(priority int) (*cuda.Stream, error) {
	s, err := d.ctx.NewStream(priority)
	return own(d, s, err)
}

// own returns r and err, and adds r to the device's resources unless there is an error.
func own[R interface{ Close() error }](d *Device, r R, err error) (R, error) {
	if err == nil {
		d.closers = append(d.closers, r.Close)
	}
	return r, err
}
