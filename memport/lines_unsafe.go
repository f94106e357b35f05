package memport

import (
	"runtime"
	"unsafe"

	"github.com/warproute/warproute/internal/hostmem"
)

// newLines allocates the lines of a recording: on huge pages if they fill one, because hardware
// prefetching stops at the end of a page. They are freed with the recording.
func (t *Recording) newLines(n int) []line {
	if n*lineLen < hostmem.HugePage {
		return make([]line, n)
	}
	m, err := hostmem.MapHuge(n * lineLen)
	if err != nil {
		return make([]line, n)
	}
	runtime.AddCleanup(t, func(m *hostmem.Memory) { _ = m.Close() }, m)
	return unsafe.Slice((*line)(unsafe.Pointer(&m.Bytes[0])), n)
}
