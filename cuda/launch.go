package cuda

import (
	"errors"
	"fmt"
	"reflect"
)

// Dim is the shape of a grid, in blocks, or of a block, in threads. A Y or Z of 0 counts as 1.
type Dim struct{ X, Y, Z uint32 }

// Launch is a kernel with its parameters and its shape. It is enqueued any number of times, without
// an allocation, and belongs to one goroutine.
type Launch struct {
	Grid, Block Dim
	Shared      uint32 // bytes of dynamic shared memory of each block

	caller
	fn     *Function
	values any       // the struct with the parameters
	fields []uintptr // addresses of its fields
	params uintptr   // address of fields: cuLaunchKernel's kernelParams
}

// NewLaunch returns a launch of f. params points to a struct with a field for each parameter of the
// kernel, in order and of the same size. The caller changes the struct between launches; Enqueue
// reads it before it returns.
//
// Go lays out numbers, DevicePtr, and arrays and structs of these like C on every host with CUDA, so
// a field may be a struct that the kernel takes by value. With driver 12.4 and later, a struct of
// other sizes is an error; an older driver passes undefined parameters.
func NewLaunch[T any](f *Function, params *T) (*Launch, error) {
	l := &Launch{caller: caller{drv: f.drv}, fn: f, values: params}
	v := reflect.ValueOf(params).Elem()
	if v.Kind() != reflect.Struct {
		return nil, fmt.Errorf("prepare kernel %s: its parameters must be a struct, not %v", f.name, v.Type())
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

// Enqueue enqueues the kernel on the stream. A later call reports a fault of the kernel.
func (l *Launch) Enqueue(s *Stream) error {
	if err := l.launch(l.fn.handle, l.Grid.full(), l.Block.full(), l.Shared, s.handle, l.params); err != nil {
		return fmt.Errorf("launch kernel %s: %w", l.fn.name, err)
	}
	return nil
}

// full returns d with every length given.
func (d Dim) full() Dim { return Dim{d.X, max(d.Y, 1), max(d.Z, 1)} }

// plain reports whether values of a type have the same meaning on a device.
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
		err := f.drv.cuFuncGetParamInfo.call(f.handle, uint64(i), &offset, &size)
		switch {
		case errors.Is(err, errors.ErrUnsupported):
			return nil
		case errors.Is(err, InvalidValue): // after the last one
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
