package gpu

import (
	"encoding/binary"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/warproute/warproute/fib"
	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/lookup/trie"
)

// shim is a process that runs the kernels' code, with a copy of a FIB that follows the
// original.
type shim struct {
	t *testing.T
	*shimMemory
	spiTable *spiTable
	released []uint32 // of the mailbox
	stdin    io.WriteCloser
	stdout   io.ReadCloser
	stderr   strings.Builder
}

// programs are the compiled C programs of testdata, by source: each takes seconds, and is the same for all tests.
var programs struct {
	sync.Mutex
	dir      string
	bySource map[string]string
}

func TestMain(m *testing.M) {
	code := m.Run()
	_ = os.RemoveAll(programs.dir)
	os.Exit(code)
}

// compile builds a C program of testdata with UBSan, once. _FORTIFY_SOURCE, a default of some distributions, takes the
// switches between lanes for errors.
func compile(t *testing.T, source string) (program string) {
	t.Helper()
	programs.Lock()
	defer programs.Unlock()
	if program = programs.bySource[source]; program != "" {
		return program
	}
	if programs.dir == "" {
		programs.dir, programs.bySource = got(os.MkdirTemp("", "gpu-test"))(t), map[string]string{}
	}
	program = filepath.Join(programs.dir, strconv.Itoa(len(programs.bySource)))
	cmd := exec.Command("cc", "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-O2",
		"-fsanitize=undefined", "-fno-sanitize-recover=undefined", "-U_FORTIFY_SOURCE", "-o", program, source)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v (a C compiler is needed: apt-get install gcc libc6-dev)\n%s", cmd, err, out)
	}
	programs.bySource[source] = program
	return program
}

// newShim starts the process.
func newShim(t *testing.T, base *fib.FIB, partialChecksums []bool, size, umemBytes int) *shim {
	t.Helper()
	return startShim(t, base, partialChecksums, size, umemBytes, "testdata/shim.c")
}

func startShim(t *testing.T, base *fib.FIB, partialChecksums []bool, size, umemBytes int, source string, args ...string) *shim {
	t.Helper()
	s := &shim{t: t, shimMemory: newShimMemory(t, base, size, umemBytes)}
	s.spiTable = &spiTable{words: make([]uint64, spiSlots), flush: func() {}, store: func(slot uint32, word uint64) { atomic.StoreUint64(&s.spis[slot], word) }}
	w := base.Words()
	copyWords(s.nextHops, w.NextHops)
	copyWords(s.groups, w.Groups)
	copyWords(s.adjacencies, w.Adjacencies)
	copyWords(s.ports, w.Ports)
	copyWords(s.ingress, w.Ingress)
	for port, is := range partialChecksums {
		if is {
			s.partialChecksums[port/32] |= 1 << (port % 32)
		}
	}
	base.Follow(s)
	base.IPv4.Follow(shimImage{s, s.images[0]})
	base.IPv6.Follow(shimImage{s, s.images[1]})

	cmd := exec.Command(compile(t, source), args...)
	cmd.ExtraFiles, cmd.Stderr = []*os.File{s.file}, &s.stderr
	var err error
	s.stdin, err = cmd.StdinPipe()
	require.NoError(t, err)
	s.stdout, err = cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		s.stdin.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("shim: %v\n%s", err, &s.stderr)
		}
	})
	return s
}

// submit processes the first n frames of in.
func (s *shim) submit(n int) {
	s.t.Helper()
	if err := binary.Write(s.stdin, binary.NativeEndian, uint32(n)); err != nil {
		s.t.Fatalf("shim: %v", err)
	}
	var done uint32
	if err := binary.Read(s.stdout, binary.NativeEndian, &done); err != nil || int(done) != n {
		s.t.Fatalf("shim: %d packets of %d done: %v", done, n, err)
	}
}

// copyWords copies words and stores only different ones.
func copyWords[T uint32 | uint64](to, from []T) {
	for i, w := range from {
		if w != to[i] {
			to[i] = w
		}
	}
}

// Word implements fib.Follower.
func (s *shim) Word(a fib.Array, index uint32, word uint64) {
	switch a {
	case fib.NextHops:
		atomic.StoreUint64(&s.nextHops[index], word)
	case fib.Groups:
		atomic.StoreUint32(&s.groups[index], uint32(word))
	case fib.Adjacencies:
		atomic.StoreUint64(&s.adjacencies[index], word)
	case fib.Ports:
		atomic.StoreUint64(&s.ports[index], word)
	case fib.Ingress:
		atomic.StoreUint32(&s.ingress[index], uint32(word))
	}
	s.Reuse()
}

// Reuse implements fib.Follower.
func (s *shim) Reuse() { atomic.AddUint32(&s.generation, 1) }

// Flush implements fib.Follower.
func (s *shim) Flush() {}

// shimImage follows a table.
type shimImage struct {
	s     *shim
	words []uint32
}

// Replace implements trie.Follower. No packets are in flight then.
func (im shimImage) Replace(words []uint32) { copyWords(im.words, words) }

// Patch implements trie.Follower.
func (im shimImage) Patch(p trie.Patch) {
	if p.At == trie.Generation {
		im.s.Reuse()
		return
	}
	for i := range p.Count {
		atomic.StoreUint32(&im.words[p.At+i], p.Word)
	}
}

// TestLookupsRepeatAfterReuse: at every load of a lookup, after the reuse of an entry or an image.
func TestLookupsRepeatAfterReuse(t *testing.T) {
	out, err := exec.Command(compile(t, "testdata/reuse.c")).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	// Loads: the generation twice, the images' addresses, the port's reverse path, root, next hop,
	// group, adjacency, port; with a cache four of each; and the same of the source, with four buckets. In a
	// VRF, its word instead of the root, and a node.
	if loads, err := strconv.Atoi(strings.TrimSpace(string(out))); err != nil || loads < 2*(10+22+20+27) {
		t.Errorf("%q: too few loads for a lookup", out)
	}
}
