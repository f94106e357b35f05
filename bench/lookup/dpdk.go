package lookup

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/warproute/warproute/bench/hugepages"
	"github.com/warproute/warproute/internal/pages"
	"github.com/warproute/warproute/internal/routes"
	"github.com/warproute/warproute/lookup"
)

// peerProgram says what peer.c has for a family.
type peerProgram struct {
	name     string
	family   routes.Family
	variants []string // as peer.c calls them
	groups   func(*routes.Set) int
}

var (
	rteFIB  = peerProgram{"rte_fib", routes.IPv4, []string{"scalar-macro", "scalar-inline", "scalar-uni", "avx512"}, fibGroups}
	rteFIB6 = peerProgram{"rte_fib6", routes.IPv6, []string{"scalar", "avx512"}, fib6Groups}
)

// fibGroups is how many /24 rte_fib needs a second level for, and some to spare.
func fibGroups(s *routes.Set) int {
	groups, last := 256, -1
	for _, p := range s.Prefixes { // ascending
		if a := int(from4(p.Addr()) >> 8); p.Bits() > 24 && a != last {
			groups, last = groups+1, a
		}
	}
	return groups
}

// fib6Groups is how many groups rte_fib6 sets aside for the routes: for each, one
// for every byte behind the third. It uses fewer, but does not share what it
// sets aside, and sets more aside when routes come and go in another order.
func fib6Groups(s *routes.Set) int {
	groups := 256
	for _, p := range s.Prefixes {
		groups += max(0, (p.Bits()-24+7)/8)
	}
	return groups + groups/4
}

// memory is how many bytes of DPDK's memory the table takes, generously: the
// first level, 1 KiB a group, two nodes a route in the tree that DPDK keeps
// beside, and what DPDK itself needs.
func (p peerProgram) memory(s *routes.Set) int {
	return 64<<20 + p.groups(s)<<10 + 2*192*s.Len() + 160<<20
}

// reserve is for tests to have no huge pages.
var reserve = hugepages.Reserve

// newDPDK compiles the peer, fills its table, and finds out which of its ways to
// look up this machine has. An error says why there can be no peer.
func (b *bench[A]) newDPDK() (c *contender, absent []Absent, err error) {
	program := b.family.program
	undo := new(cleanup)
	defer func() {
		if err != nil {
			undo.run()
		}
	}()
	dir, err := os.MkdirTemp("", "warproute-bench")
	if err != nil {
		return nil, nil, err
	}
	undo.add(func() { _ = os.RemoveAll(dir) })
	binary, err := compilePeer(dir)
	if err != nil {
		return nil, nil, err
	}
	files, err := b.writeFiles(dir)
	if err != nil {
		return nil, nil, fmt.Errorf("write what the peer reads: %w", err)
	}
	memory := program.memory(b.Routes)
	if available := availableMemory(); memory > available {
		return nil, nil, fmt.Errorf("its table takes %d MiB, and %d MiB are available", memory>>20, available>>20)
	}
	args := []string{
		"-l", strconv.Itoa(b.core), "--no-pci", "--no-telemetry",
		"--force-max-simd-bitwidth=512", // else DPDK keeps from AVX-512
	}
	note := "on huge pages"
	if restore, err := reserve(memory / pages.Huge); err == nil {
		undo.add(restore)
		args = append(args, "--in-memory")
	} else {
		note = fmt.Sprintf("not on huge pages: %v", err)
		args = append(args, "--no-huge", "--no-shconf", "-m", strconv.Itoa(memory>>20))
	}
	args = append(args, "--", strconv.Itoa(int(program.family)))
	args = append(args, files[:2]...)
	args = append(args, strconv.Itoa(program.groups(b.Routes)))
	p, err := startPeer(binary, append(args, files[2:]...))
	if err != nil {
		return nil, nil, err
	}
	undo.add(p.stop)
	loaded, err := p.reply(2)
	if err != nil {
		return nil, nil, err
	}
	c = &contender{
		table:   &Table{Name: program.name, Note: note, Bytes: uint64(loaded[0]), Load: float64(loaded[1]) / 1e9},
		updates: func() (*Updates, error) { return b.updateDPDK(p) },
		close:   undo.run,
	}
	var ways []string
	for _, way := range program.variants {
		if _, err := p.ask(2, "look %s 0 64 0", way); err != nil {
			absent = append(absent, Absent{program.name + " " + way, err.Error()})
			continue
		}
		ways = append(ways, way)
		c.lanes = append(c.lanes, lane{name: program.name + " " + way, dpdk: true, look: func(kind, batch int, d time.Duration) (int, time.Duration, error) {
			n, err := p.ask(2, "look %s %d %d %d", way, kind, batch, d.Nanoseconds())
			if err != nil {
				return 0, 0, err
			}
			return int(n[0]), time.Duration(n[1]), nil
		}})
	}
	c.verify = func() error { return b.verifyDPDK(p, ways, filepath.Join(dir, "answers")) }
	return c, absent, nil
}

// cleanup is what is to be done in the end, last things first, and once.
type cleanup struct{ todo []func() }

func (c *cleanup) add(f func()) { c.todo = append(c.todo, f) }

func (c *cleanup) run() {
	for i := len(c.todo) - 1; i >= 0; i-- {
		c.todo[i]()
	}
	c.todo = nil
}

// verifyDPDK asks the peer all questions in every way.
func (b *bench[A]) verifyDPDK(p *peer, ways []string, path string) error {
	for _, way := range ways {
		if _, err := p.ask(0, "answer %s %d %s", way, len(b.addrs), path); err != nil {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		got := make([]lookup.NextHop, len(data)/4)
		for i := range got {
			got[i] = lookup.NextHop(binary.NativeEndian.Uint32(data[4*i:]))
		}
		if err := b.check(got); err != nil {
			return fmt.Errorf("by %s: %w", way, err)
		}
	}
	return nil
}

// updateDPDK measures sustained updates alone: rte_fib makes no promise to
// readers beside a writer.
func (b *bench[A]) updateDPDK(p *peer) (*Updates, error) {
	var rates []float64
	for range b.Rounds {
		n, err := p.ask(2, "update %d", b.Duration.Nanoseconds())
		if err != nil {
			return nil, err
		}
		rates = append(rates, float64(n[0])/float64(n[1])*1e9)
	}
	return &Updates{Alone: middle(rates)}, nil
}

// availableMemory is how much of it the kernel would give, in bytes.
func availableMemory() int {
	meminfo, _ := os.ReadFile("/proc/meminfo")
	_, rest, _ := strings.Cut(string(meminfo), "MemAvailable:")
	fields := strings.Fields(rest)
	if len(fields) == 0 {
		return 0
	}
	kib, _ := strconv.Atoi(fields[0])
	return kib << 10
}
