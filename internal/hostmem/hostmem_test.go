package hostmem

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/internal/require"
)

func TestMapHuge(t *testing.T) {
	for name, mapping := range map[string]func(int) (*Memory, error){"reserved or not": MapHuge, "not reserved": mapTransparent} {
		for _, size := range []int{1, HugePage, HugePage + 1, 8 * HugePage} {
			if name == "not reserved" {
				size = (size + HugePage - 1) / HugePage * HugePage
			}
			m, err := mapping(size)
			require.NoError(t, err)
			b := m.Bytes
			if len(b) < size || len(b) >= size+HugePage || len(b)%HugePage != 0 || distance(b) != 0 {
				t.Errorf("%s, %d bytes: got %d, %d in front of a huge page", name, size, len(b), distance(b))
			}
			for _, i := range []int{0, len(b) - 1} {
				if b[i] != 0 {
					t.Errorf("byte %d of new memory is %d", i, b[i])
				}
				b[i] = 0xaa // faults unless it is mapped for writing
			}
			for range 2 {
				require.NoError(t, m.Close())
			}
			if m.Bytes != nil {
				t.Error("closed memory has bytes")
			}
		}
	}
}

// TestHugeIsWhatTheKernelReports compares Memory.Huge with /proc/self/smaps.
func TestHugeIsWhatTheKernelReports(t *testing.T) {
	m, err := mapTransparent(4 * HugePage)
	require.NoError(t, err)
	defer m.Close()
	kernel := hugeKiB(t, m.Bytes) << 10
	if huge := kernel == len(m.Bytes); huge != m.Huge {
		t.Errorf("on huge pages: %v, and the kernel has %d of %d bytes on some", m.Huge, kernel, len(m.Bytes))
	}
	var name unix.Utsname
	require.NoError(t, unix.Uname(&name))
	if !m.Huge {
		t.Errorf("8 MiB are not on huge pages (Linux %s, %s)", unix.ByteSliceToString(name.Release[:]), meminfo(t))
	}
}

// hugeKiB returns AnonHugePages of the mapping that has b.
func hugeKiB(t *testing.T, b []byte) (n int) {
	t.Helper()
	text, err := os.ReadFile("/proc/self/smaps")
	require.NoError(t, err)
	at := address(b)
	inside := false
	for line := range strings.Lines(string(text)) {
		var from, to uintptr
		if _, err := fmt.Sscanf(line, "%x-%x ", &from, &to); err == nil {
			inside = from <= at && at < to
		}
		if inside {
			fmt.Sscanf(line, "AnonHugePages: %d kB", &n)
		}
	}
	return n
}

func meminfo(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("/proc/meminfo")
	require.NoError(t, err)
	return strings.Join(strings.Fields(string(text))[:9], " ")
}

// TestMapFailsWithoutPages asks for more huge pages than any machine has.
func TestMapFailsWithoutPages(t *testing.T) {
	b, err := mapReserved(1<<40, unix.MAP_HUGETLB|unix.MAP_HUGE_1GB|unix.MAP_NORESERVE)
	if err == nil {
		_ = unix.Munmap(b)
		t.Error("got memory that has no pages")
	}
	if m, err := mapTransparent(1 << 50); err == nil {
		_ = m.Close()
		t.Error("got more than there are addresses for")
	}
}

func TestMapAndReserve(t *testing.T) {
	for name, mapping := range map[string]func(int) (*Memory, error){"map": Map, "reserve": Reserve} {
		m, err := mapping(3 * unix.Getpagesize())
		if err != nil {
			t.Fatal(name, err)
		}
		if len(m.Bytes) != 3*unix.Getpagesize() || m.Huge {
			t.Errorf("%s: %d bytes, huge pages %v", name, len(m.Bytes), m.Huge)
		}
		m.Bytes[len(m.Bytes)-1] = 0xaa // faults unless mapped for writing
		for range 2 {
			if err := m.Close(); err != nil {
				t.Error(name, err)
			}
		}
		if _, err := mapping(1 << 50); err == nil {
			t.Errorf("%s: got more than the address space", name)
		}
	}
}
