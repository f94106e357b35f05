package memport

import (
	"runtime"
	"unsafe"

	"github.com/warproute/warproute/internal/pages"
)

// newLines returns so many lines, for as long as the tape is used: on huge pages, if they fill
// one. Played from small ones, a tape leaves its page behind with every burst, and the
// processor does not fetch ahead over their ends.
func (t *Tape) newLines(n int) []line {
	if n*lineLen < pages.Huge {
		return make([]line, n)
	}
	m, err := pages.Map(n * lineLen)
	if err != nil {
		return make([]line, n)
	}
	runtime.AddCleanup(t, func(m *pages.Mapping) { _ = m.Close() }, m)
	return unsafe.Slice((*line)(unsafe.Pointer(&m.Bytes[0])), n)
}
