package echo

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/warproute/warproute/internal/require"
)

// dial returns a connection to an echo on loopback that flips bits.
func dial(t *testing.T, twist byte) net.Conn {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	go Serve(twisted{l, twist})
	conn, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	return conn
}

func TestExchangeComparesTheEcho(t *testing.T) {
	const n = 1 << 20 // exceeds socket buffers, so that both directions flow
	if err := Exchange(t.Context(), dial(t, 0), n); err != nil {
		t.Errorf("as it was sent: %v", err)
	}
	if err := Exchange(t.Context(), dial(t, 1), n); err == nil || !strings.Contains(err.Error(), "is not what was sent") {
		t.Errorf("changed: got %v", err)
	}
}

func TestExchangeEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer silent.Close()
	conn, err := net.Dial("tcp", silent.Addr().String())
	require.NoError(t, err)
	if err := Exchange(ctx, conn, 1); !errors.Is(err, net.ErrClosed) {
		t.Errorf("got %v, want that the connection was closed", err)
	}
}

// twisted is a listener whose connections flip bits of received bytes.
type twisted struct {
	net.Listener
	mask byte
}

func (l twisted) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	return twistedConn{conn, l.mask}, err
}

type twistedConn struct {
	net.Conn
	mask byte
}

func (c twistedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	for i := range p[:n] {
		p[i] ^= c.mask
	}
	return n, err
}
