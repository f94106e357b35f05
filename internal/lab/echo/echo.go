// Package echo is a TCP echo service and its client, which check both directions of a connection.
package echo

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
)

// Port is the port of the service.
const Port = 7

// Serve echoes any number of connections until the listener is closed, and returns the error.
func Serve(l net.Listener) error {
	for {
		conn, err := l.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer conn.Close()
			io.Copy(conn, conn)
		}()
	}
}

// Exchange sends n random bytes, compares the echo, and closes the connection. The context limits it.
func Exchange(ctx context.Context, conn net.Conn, n int) error {
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	sent, got := make([]byte, n), make([]byte, n)
	rand.NewChaCha8([32]byte{}).Read(sent)
	written := make(chan error, 1)
	go func() {
		_, err := conn.Write(sent)
		written <- err
	}()
	if count, err := io.ReadFull(conn, got); err != nil {
		return fmt.Errorf("exchange %d bytes with %v: stuck after %d: %w", n, conn.RemoteAddr(), count, err)
	}
	if err := <-written; err != nil {
		return fmt.Errorf("send %d bytes to %v: %w", n, conn.RemoteAddr(), err)
	}
	if !bytes.Equal(got, sent) {
		return fmt.Errorf("exchange %d bytes with %v: what came back is not what was sent", n, conn.RemoteAddr())
	}
	return nil
}
