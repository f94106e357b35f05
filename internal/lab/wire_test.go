package lab

import (
	"bytes"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/internal/require"
)

// Listeners at both ends receive every frame with its direction, also those that
// nobody had read yet when it was stopped.
func TestListenReceivesEveryFrame(t *testing.T) {
	ns, err := New("wire")
	require.NoError(t, err)
	defer ns.Close()
	require.NoError(t, Veth(End{Namespace: ns, Name: "a"}, End{Namespace: ns, Name: "b"}, VethOptions{}))
	const frames = 1000
	frame := append(bytes.Repeat([]byte{0xff}, 12), append([]byte{0x88, 0xb5}, make([]byte, 50)...)...) // an experimental type
	var counts [2]struct{ in, out int }
	var stops [2]func()
	for i, link := range []string{"a", "b"} {
		if stops[i], err = ns.Listen(link, func(f []byte, out bool) {
			switch {
			case !bytes.Equal(f, frame):
			case out:
				counts[i].out++
			default:
				counts[i].in++
			}
		}); err != nil {
			t.Fatal(err)
		}
	}
	fd, err := ns.PacketSocket("a")
	require.NoError(t, err)
	defer unix.Close(fd)
	for range frames {
		require.NoError(t, unix.Send(fd, frame, 0))
	}
	for _, stop := range stops {
		stop()
	}
	if a, b := counts[0], counts[1]; a.out != frames || a.in != 0 || b.in != frames || b.out != 0 {
		t.Errorf("%d sent: %+v at one end, %+v at the other", frames, a, b)
	}
	if _, err := ns.Listen("c", nil); err == nil {
		t.Error("no error for a missing link")
	}
}
