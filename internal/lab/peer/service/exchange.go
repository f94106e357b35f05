package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/warproute/warproute/internal/lab/echo"
)

// patience is the time limit of an exchange.
const patience = 3 * time.Second

// exchange exchanges bytes over each flow in turn and names all that fail.
func exchange(bytes string, flows []string) error {
	n, err := strconv.Atoi(bytes)
	if err != nil {
		return err
	}
	var failures []error
	for _, f := range flows {
		if err := exchangeOne(n, f); err != nil {
			failures = append(failures, fmt.Errorf("%s: %w", f, err))
		}
	}
	return errors.Join(failures...)
}

func exchangeOne(n int, flow string) error {
	a, b, _ := strings.Cut(flow, ",")
	from, err := netip.ParseAddr(a)
	if err != nil {
		return err
	}
	to, err := netip.ParseAddr(b)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: from.AsSlice()}}
	d.SetMultipathTCP(false)
	conn, err := d.DialContext(ctx, "tcp", netip.AddrPortFrom(to, echo.Port).String())
	if err != nil {
		return err
	}
	return echo.Exchange(ctx, conn, n)
}
