package suite

import (
	"reflect"
	"unsafe"
)

// wipe overwrites the value that p points to, if it is plain memory. Memory behind its pointers stays.
func wipe(p any) {
	v := reflect.ValueOf(p)
	if v.Kind() != reflect.Pointer || v.IsNil() || !plain(v.Type().Elem()) {
		return
	}
	clear(unsafe.Slice((*byte)(v.UnsafePointer()), v.Type().Elem().Size()))
}

// plain reports whether a type has no pointers, so that the garbage collector ignores its content.
func plain(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Struct:
		for f := range t.Fields() {
			if !plain(f.Type) {
				return false
			}
		}
		return true
	case reflect.Array:
		return plain(t.Elem())
	}
	return t.Kind() <= reflect.Complex128
}
