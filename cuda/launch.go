package cuda

import (
	"errors"
	"fmt"
	"reflect"
)

// Dim is the shape of a grid, in blocks, or of a block, in threads. Where Y or Z
// is 0 it counts as 1.
type Dim struct{ X, Y, Z uint32 }

// Launch is a kernel with its parameters and its shape, to be enqueued again and
// again. Enqueue allocates nothing. A Launch belongs to one goroutine.
type Launch struct {
	Grid, Block Dim
	Shared      uint32 // bytes of dynamic shared memory of each block

	caller
	fn     *Function
	values any       // the struct with the parameters
	fields []uintptr // addresses of its fields
	params uintptr   // address of fields, as the driver wants it
}

// NewLaunch ties a kernel to its parameters: params points to a struct that has a
// field for each, in order and of the same size. The struct is the caller's to
// change between launches; Enqueue reads it before it returns.
//
// Go lays out numbers, DevicePtr, and arrays and structs of these as C does on
// every host that has CUDA, so a field may be a struct that the kernel takes by
// value. Drivers from 12.4 on tell a kernel's parameters, and a struct that does not
// fit them is an error here; with an older one it is undefined what the kernel gets.
func NewLaunch[T any](f *Function, params *T) (*Launch, error) {
	l := &Launch{caller: caller{drv: f.drv}, fn: f, values: params}
	v := reflect.ValueOf(params).Elem()
	if v.Kind() != reflect.Struct {
		return nil, fmt.Errorf("prepare kernel %s: its parameters are a struct, not %v", f.name, v.Type())
	}
	for i := range v.NumField() {
		field := v.Type().Field(i)
		if !plain(field.Type) {
			return nil, fmt.Errorf("prepare kernel %s: parameter %d, %s, is a %v, which a device cannot read", f.name, i, field.Name, field.Type)
		}
		l.fields = append(l.fields, v.Field(i).Addr().Pointer())
	}
	if err := f.checkParams(v.Type()); err != nil {
		return nil, fmt.Errorf("prepare kernel %s: %w", f.name, err)
	}
	l.params = address(l.fields)
	return l, nil
}

// Enqueue starts the kernel in its turn on the stream. That the kernel failed is
// told by a later call.
func (l *Launch) Enqueue(s *Stream) error {
	grid, block := l.Grid.full(), l.Block.full()
	if err := l.raw(cuLaunchKernel, l.fn.handle, uintptr(grid.X), uintptr(grid.Y), uintptr(grid.Z),
		uintptr(block.X), uintptr(block.Y), uintptr(block.Z), uintptr(l.Shared), s.handle, l.params, 0); err != nil {
		return fmt.Errorf("launch kernel %s: %w", l.fn.name, err)
	}
	return nil
}

// full is d with every length given.
func (d Dim) full() Dim { return Dim{d.X, max(d.Y, 1), max(d.Z, 1)} }

// plain tells whether values of a type mean the same on a device.
func plain(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Float32, reflect.Float64:
		return true
	case reflect.Uintptr:
		return t == reflect.TypeFor[DevicePtr]()
	case reflect.Array:
		return plain(t.Elem())
	case reflect.Struct:
		for i := range t.NumField() {
			if !plain(t.Field(i).Type) {
				return false
			}
		}
		return true
	}
	return false
}

// checkParams compares the fields of t with the kernel's parameters.
func (f *Function) checkParams(t reflect.Type) error {
	for i := 0; ; i++ {
		var offset, size uint64
		err := f.drv.call(cuFuncGetParamInfo, f.handle, i, &offset, &size)
		switch {
		case errors.Is(err, errors.ErrUnsupported):
			return nil
		case errors.Is(err, InvalidValue): // past the last one
			if i < t.NumField() {
				return fmt.Errorf("it takes %d parameters, %v has %d", i, t, t.NumField())
			}
			return nil
		case err != nil:
			return err
		case i >= t.NumField():
			return fmt.Errorf("it takes more parameters than the %d of %v", t.NumField(), t)
		case uintptr(size) != t.Field(i).Type.Size():
			return fmt.Errorf("its parameter %d has %d bytes, %v.%s has %d", i, size, t, t.Field(i).Name, t.Field(i).Type.Size())
		}
	}
}
