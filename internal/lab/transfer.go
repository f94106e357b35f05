package lab

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"time"
)

// TransferResult is the result of a Transfer.
type TransferResult struct {
	Bytes   int64
	Elapsed time.Duration
}

// BitsPerSecond returns the transfer's rate.
func (r TransferResult) BitsPerSecond() float64 { return 8 * float64(r.Bytes) / r.Elapsed.Seconds() }

// Transfer sends n random bytes over TCP from one namespace to an address of another and compares
// hashes. It fails after the timeout.
func Transfer(from, to *Namespace, addr netip.Addr, n int64, timeout time.Duration) (TransferResult, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	start := time.Now()
	if err := transfer(ctx, from, to, addr, n); err != nil {
		return TransferResult{}, fmt.Errorf("send %d bytes over TCP from namespace %q to %v in %q: %w", n, from.name, addr, to.name, err)
	}
	return TransferResult{Bytes: n, Elapsed: time.Since(start)}, nil
}

func transfer(ctx context.Context, from, to *Namespace, addr netip.Addr, n int64) error {
	var listener net.Listener
	err := to.Do(func() (err error) {
		var config net.ListenConfig
		config.SetMultipathTCP(false) // its options are irrelevant for a router
		listener, err = config.Listen(ctx, "tcp", netip.AddrPortFrom(addr, 0).String())
		return err
	})
	if err != nil {
		return err
	}
	defer listener.Close()
	context.AfterFunc(ctx, func() { listener.Close() })

	received := make(chan error, 1)
	go func() { received <- receive(ctx, listener, n) }()

	var conn net.Conn
	err = from.Do(func() (err error) {
		var dialer net.Dialer
		dialer.SetMultipathTCP(false)
		conn, err = dialer.DialContext(ctx, "tcp", listener.Addr().String())
		return err
	})
	if err != nil {
		return err
	}
	defer conn.Close()
	deadline, _ := ctx.Deadline()
	conn.SetDeadline(deadline)

	digest := sha256.New()
	sent, err := io.CopyN(io.MultiWriter(conn, digest), rand.NewChaCha8([32]byte{}), n)
	if err != nil {
		return fmt.Errorf("stuck after %d bytes: %w", sent, err)
	}
	if _, err := conn.Write(digest.Sum(nil)); err != nil {
		return fmt.Errorf("send the digest: %w", err)
	}
	return <-received
}

// receive accepts one connection and reads n bytes and their digest from it.
func receive(ctx context.Context, listener net.Listener, n int64) error {
	conn, err := listener.Accept()
	if err != nil {
		return fmt.Errorf("accept: %w", err)
	}
	defer conn.Close()
	deadline, _ := ctx.Deadline()
	conn.SetDeadline(deadline)

	var digest hash.Hash = sha256.New()
	got, err := io.CopyN(digest, conn, n)
	if err != nil {
		return fmt.Errorf("receive: stuck after %d bytes: %w", got, err)
	}
	want := make([]byte, digest.Size())
	if _, err := io.ReadFull(conn, want); err != nil {
		return fmt.Errorf("receive the digest: %w", err)
	}
	if string(digest.Sum(nil)) != string(want) {
		return errors.New("what arrived is not what was sent")
	}
	return nil
}
