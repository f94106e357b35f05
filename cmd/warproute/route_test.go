package main

import (
	"strings"
	"testing"
)

func TestOneLineMayHoldManyAddresses(t *testing.T) {
	const n = 20_000
	addrs, err := readAddrs(strings.NewReader(strings.Repeat("2001:db8::1 ", n)), "")
	if err != nil || len(addrs) != n {
		t.Errorf("read %d addresses, %v, want %d", len(addrs), err, n)
	}
}
