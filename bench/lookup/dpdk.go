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
	"github.com/warproute/warproute/internal/hostmem"
	"github.com/warproute/warproute/internal/routes"
	"github.com/warproute/warproute/lookup"
)

// peerProgram describes the table of an address family in peer.c.
type peerProgram struct {
	name    string
	family  routes.Family
	kernels []string // names in peer.c
	tbl8s   func(*routes.Set) int
}

var (
	rteFIB  = peerProgram{"rte_fib", routes.IPv4, []string{"scalar-macro", "scalar-inline", "scalar-uni", "avx512"}, fibTbl8s}
	rteFIB6 = peerProgram{"rte_fib6", routes.IPv6, []string{"scalar", "avx512"}, fib6Tbl8s}
)

// fibTbl8s returns the number of tbl8 groups of rte_fib for the routes: one per /24 with
// longer routes, and a reserve.
func fibTbl8s(s *routes.Set) int {
	n, last := 256, -1
	for _, p := range s.Prefixes { // ascending
		if a := int(from4(p.Addr()) >> 8); p.Bits() > 24 && a != last {
			n, last = n+1, a
		}
	}
	return n
}

// fib6Tbl8s returns the number of tbl8 groups that rte_fib6 reserves for the routes: per
// route one for each byte after the third, and a quarter more because updates in another
// order reserve more. rte_fib6 uses fewer, but does not share reserved groups.
func fib6Tbl8s(s *routes.Set) int {
	n := 256
	for _, p := range s.Prefixes {
		n += max(0, (p.Bits()-24+7)/8)
	}
	return n + n/4
}

// memory returns an upper estimate of DPDK's memory in bytes: tbl24, 1 KiB per tbl8
// group, two nodes per route in its RIB, and 160 MiB for the EAL.
func (p peerProgram) memory(s *routes.Set) int {
	return 64<<20 + p.tbl8s(s)<<10 + 2*192*s.Len() + 160<<20
}

// reserve reserves huge pages; tests replace it.
var reserve = hugepages.Reserve

// newDPDK compiles the peer, loads its table, and tries its kernels. absent lists kernels
// that this host does not support. After an error there is no peer.
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
	binary := b.PeerProgram
	if binary == "" {
		if binary, err = compilePeer(dir); err != nil {
			return nil, nil, err
		}
	}
	files, err := b.writeFiles(dir)
	if err != nil {
		return nil, nil, fmt.Errorf("write files for the peer: %w", err)
	}
	memory := program.memory(b.Routes)
	if available := availableMemory(); memory > available {
		return nil, nil, fmt.Errorf("its table needs %d MiB; %d MiB are available", memory>>20, available>>20)
	}
	args := []string{
		"-l", strconv.Itoa(b.core), "--no-pci", "--no-telemetry",
		"--force-max-simd-bitwidth=512", // by default DPDK avoids AVX-512
	}
	note := "on huge pages"
	if restore, err := reserve(memory / hostmem.HugePage); err == nil {
		undo.add(restore)
		args = append(args, "--in-memory")
	} else {
		note = fmt.Sprintf("on transparent huge pages: %v", err)
		args = append(args, "--no-huge", "--no-shconf", "-m", strconv.Itoa(memory>>20))
	}
	args = append(args, "--", strconv.Itoa(int(program.family)))
	args = append(args, files[:2]...)
	args = append(args, strconv.Itoa(program.tbl8s(b.Routes)))
	p, err := startPeer(binary, dir, append(args, files[2:]...))
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
	var kernels []string
	for _, kernel := range program.kernels {
		if !b.measures(kernel) {
			continue
		}
		if _, err := p.command(2, "look %s 0 64 0", kernel); err != nil {
			absent = append(absent, Absent{program.name + " " + kernel, err.Error()})
			continue
		}
		kernels = append(kernels, kernel)
		c.variants = append(c.variants, variant{name: program.name + " " + kernel, dpdk: true, measure: func(kind, batch int, d time.Duration) (int, time.Duration, error) {
			n, err := p.command(2, "look %s %d %d %d", kernel, kind, batch, d.Nanoseconds())
			if err != nil {
				return 0, 0, err
			}
			return int(n[0]), time.Duration(n[1]), nil
		}})
	}
	c.verify = func() error { return b.verifyDPDK(p, kernels, filepath.Join(dir, "answers")) }
	return c, absent, nil
}

// cleanup runs functions once, in reverse order.
type cleanup struct{ todo []func() }

func (c *cleanup) add(f func()) { c.todo = append(c.todo, f) }

func (c *cleanup) run() {
	for i := len(c.todo) - 1; i >= 0; i-- {
		c.todo[i]()
	}
	c.todo = nil
}

// verifyDPDK verifies all queries with every kernel of the peer.
func (b *bench[A]) verifyDPDK(p *peer, kernels []string, path string) error {
	for _, kernel := range kernels {
		if _, err := p.command(0, "answer %s %d %s", kernel, len(b.addrs), path); err != nil {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		got := make([]lookup.NextHopID, len(data)/4)
		for i := range got {
			got[i] = lookup.NextHopID(binary.NativeEndian.Uint32(data[4*i:]))
		}
		if err := b.check(got); err != nil {
			return fmt.Errorf("kernel %s: %w", kernel, err)
		}
	}
	return nil
}

// updateDPDK measures sustained updates without a reader: rte_fib does not support
// concurrent readers and writers.
func (b *bench[A]) updateDPDK(p *peer) (*Updates, error) {
	var rates []float64
	for range b.Rounds {
		n, err := p.command(2, "update %d", b.Duration.Nanoseconds())
		if err != nil {
			return nil, err
		}
		rates = append(rates, float64(n[0])/float64(n[1])*1e9)
	}
	return &Updates{Alone: medianOf(rates)}, nil
}

// availableMemory returns the kernel's MemAvailable in bytes.
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
