package web

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/warproute/warproute/internal/require"
)

// TestClosedServerDoesNotListen closes servers right after Serve.
func TestClosedServerDoesNotListen(t *testing.T) {
	elsewhere := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}} // avoids TCP self-connections
	for range 1000 {
		s, err := Serve(Endpoint{Key: "status.listen", Listen: "127.0.0.1:0", Handler: http.NotFoundHandler()})
		require.NoError(t, err)
		require.NoError(t, s.Close())
		if c, err := elsewhere.Dial("tcp", s.Addr().String()); err == nil {
			c.Close()
			t.Fatal("a closed server accepts connections")
		}
	}
}

func TestAddressInUseNamesTheSetting(t *testing.T) {
	taken := httptest.NewServer(http.NotFoundHandler())
	defer taken.Close()
	address := taken.Listener.Addr().String()
	if _, err := Serve(Endpoint{Key: "metrics.listen", Listen: address}); err == nil || !strings.Contains(err.Error(), address) || !strings.Contains(err.Error(), "metrics.listen") {
		t.Errorf("got %v", err)
	}
}
