package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/netip"
	"strings"
)

// addrsAtOnce is the number of addresses per batch: enough to amortize the calls to a GPU.
const addrsAtOnce = 1 << 16

// addrBatches returns the addresses of the arguments, or else of standard input, in batches. A
// batch is valid until the next one.
func addrBatches(args []string, in io.Reader, routes string) (iter.Seq2[[]netip.Addr, error], error) {
	if len(args) == 0 && routes == "-" {
		return nil, errors.New("standard input has the routes: write the addresses as arguments")
	}
	if len(args) == 0 {
		return readAddrs(in), nil
	}
	addrs := make([]netip.Addr, len(args))
	for i, word := range args {
		var err error
		if addrs[i], err = parseAddr(word); err != nil {
			return nil, err
		}
	}
	return func(yield func([]netip.Addr, error) bool) { yield(addrs, nil) }, nil
}

func parseAddr(word string) (netip.Addr, error) {
	addr, err := netip.ParseAddr(word)
	if err != nil || addr.Zone() != "" {
		return addr, fmt.Errorf("%q is not an IP address; write one such as 192.0.2.1 or 2001:db8::1", word)
	}
	return addr.Unmap(), nil // IPv6 sockets write 192.0.2.1 as ::ffff:192.0.2.1
}

// readAddrs reads addresses from standard input. An error is the last value; empty input is one.
func readAddrs(in io.Reader) iter.Seq2[[]netip.Addr, error] {
	return func(yield func([]netip.Addr, error) bool) {
		batch, some := make([]netip.Addr, 0, addrsAtOnce), false
		lines := bufio.NewScanner(in)
		lines.Buffer(nil, 64<<20) // a line can have any number of addresses
		for n := 1; lines.Scan(); n++ {
			for word := range strings.FieldsSeq(lines.Text()) {
				addr, err := parseAddr(word)
				if err != nil {
					yield(nil, fmt.Errorf("standard input:%d: %w", n, err))
					return
				}
				if batch, some = append(batch, addr), true; len(batch) == addrsAtOnce {
					if !yield(batch, nil) {
						return
					}
					batch = batch[:0]
				}
			}
		}
		switch err := lines.Err(); {
		case err != nil:
			yield(nil, fmt.Errorf("read addresses from standard input: %w", err))
		case !some:
			yield(nil, errors.New("no address: write some as arguments or to standard input, such as 192.0.2.1 or 2001:db8::1"))
		case len(batch) > 0:
			yield(batch, nil)
		}
	}
}
