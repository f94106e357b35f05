package netdev

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
)

// Counters are frames that an interface received or lost, by the counters of its driver and of Linux since it was created
// (`ip -s link`, net/core/net-procfs.c).
type Counters struct {
	RxPackets uint64
	RxDropped uint64 // for want of a receive buffer ("missed"), by the driver, or by Linux
	RxErrors  uint64
	TxDropped uint64
	TxErrors  uint64
}

// CounterFile reads the counters of the interfaces of a network namespace. It does not wait for changes of interfaces, which
// netlink requests do.
type CounterFile struct {
	mu   sync.Mutex
	file *os.File
}

// OpenCounters opens the counters of the network namespace of the calling thread.
func OpenCounters() (*CounterFile, error) {
	f, err := os.Open("/proc/thread-self/net/dev")
	if err != nil {
		return nil, fmt.Errorf("open the counters of interfaces: %w", err)
	}
	return &CounterFile{file: f}, nil
}

// Close closes the file.
func (c *CounterFile) Close() error { return c.file.Close() }

// Read returns the counters by the interface's name. Any goroutine may call it.
func (c *CounterFile) Read() (map[string]Counters, error) {
	c.mu.Lock()
	text, err := io.ReadAll(io.NewSectionReader(c.file, 0, 1<<30))
	c.mu.Unlock()
	if err != nil {
		return nil, fmt.Errorf("read the counters of interfaces: %w", err)
	}
	return parseCounters(string(text))
}

// Columns of /proc/net/dev after the name.
const (
	rxPackets, rxErrors, rxDropped = 1, 2, 3
	txErrors, txDropped            = 10, 11
	counterColumns                 = 16
)

func parseCounters(text string) (map[string]Counters, error) {
	all := map[string]Counters{}
	for line := range strings.Lines(text) {
		name, rest, ok := strings.Cut(line, ":")
		if !ok {
			continue // of the header
		}
		columns := strings.Fields(rest)
		if len(columns) < counterColumns {
			return nil, fmt.Errorf("read the counters of interfaces: %q has %d columns, not %d", line, len(columns), counterColumns)
		}
		var c Counters
		for column, to := range map[int]*uint64{rxPackets: &c.RxPackets, rxErrors: &c.RxErrors, rxDropped: &c.RxDropped, txErrors: &c.TxErrors, txDropped: &c.TxDropped} {
			n, err := strconv.ParseUint(columns[column], 10, 64)
			if err != nil {
				return nil, fmt.Errorf("read the counters of interfaces: %q: %w", line, err)
			}
			*to = n
		}
		all[strings.TrimSpace(name)] = c
	}
	return all, nil
}
