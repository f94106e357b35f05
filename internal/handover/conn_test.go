package handover

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/ipsec"
)

// pair returns both ends of a connection.
func pair(t testing.TB) (a, b *Conn) {
	t.Helper()
	a, other, err := Pair()
	require.NoError(t, err)
	fd, err := unix.Dup(int(other.Fd()))
	require.NoError(t, err)
	require.NoError(t, other.Close())
	b, err = Inherit(fd)
	require.NoError(t, err)
	t.Cleanup(func() { a.Close(); b.Close() })
	return a, b
}

// Large messages and more files than one control message holds arrive.
func TestMessagesArriveWithFiles(t *testing.T) {
	a, b := pair(t)
	var files []int
	for i := range 300 {
		f, err := os.Create(filepath.Join(t.TempDir(), "f"))
		require.NoError(t, err)
		defer f.Close()
		_, err = f.WriteAt([]byte{byte(i)}, 0)
		require.NoError(t, err)
		files = append(files, int(f.Fd()))
	}
	state := &State{Exact: true, SAs: map[string]ipsec.State{"a": {Sequence: 1 << 40, Window: bytes.Repeat([]byte{7}, 4<<20)}}}
	sent := make(chan error)
	go func() { sent <- a.Send(Message{Kind: KindState, State: state}, files...) }()
	m, got, err := b.Receive(KindState)
	require.NoError(t, err)
	require.NoError(t, <-sent)
	defer CloseAll(got)
	if !reflect.DeepEqual(m.State, state) || len(got) != len(files) {
		t.Fatalf("%d files of %d, or another state", len(got), len(files))
	}
	for i, fd := range got {
		var c [1]byte
		if _, err := unix.Pread(fd, c[:], 0); err != nil || c[0] != byte(i) {
			t.Fatalf("file %d contains %d (%v)", i, c[0], err)
		}
		if flags, _ := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); flags&unix.FD_CLOEXEC == 0 {
			t.Fatalf("file %d is inherited by further programs", i)
		}
	}
}

func TestUnexpectedMessagesAreErrors(t *testing.T) {
	for name, c := range map[string]struct {
		send func(a *Conn)
		want string
	}{
		"failure":        {func(a *Conn) { _ = a.Send(Message{Kind: KindFailed, Error: "no memory"}) }, "no memory"},
		"another kind":   {func(a *Conn) { _ = a.Send(Message{Kind: KindForwarding}) }, `wait for ready: received "forwarding"`},
		"without a body": {func(a *Conn) { _ = a.Send(Message{Kind: KindReady}) }, `wait for ready: received "ready"`},
		"end":            {func(a *Conn) { a.Close() }, "wait for ready: EOF"},
		"cut":            {func(a *Conn) { _, _ = a.unix.Write([]byte{0, 0, 0, 9, 0, 0, 0, 0, '{'}); a.Close() }, "receive ready: unexpected EOF"},
		"no JSON":        {func(a *Conn) { _, _ = a.unix.Write([]byte{0, 0, 0, 1, 0, 0, 0, 0, '{'}) }, "receive ready: unexpected end"},
		"too long":       {func(a *Conn) { _, _ = a.unix.Write([]byte{255, 255, 255, 255, 0, 0, 0, 0}) }, "a message of 4294967295 bytes"},
		"many files":     {func(a *Conn) { _, _ = a.unix.Write([]byte{0, 0, 0, 1, 255, 0, 0, 0}) }, "4278190080 files"},
		"no files":       {func(a *Conn) { _, _ = a.unix.Write([]byte{0, 0, 0, 2, 0, 0, 0, 1, '{', '}', 0}) }, "a message without its files"},
		"silence":        {func(*Conn) {}, "i/o timeout"},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := pair(t)
			b.Deadline(time.Now().Add(100 * time.Millisecond))
			c.send(a)
			_, files, err := b.Receive(KindReady)
			if err == nil || !strings.Contains(err.Error(), c.want) || len(files) > 0 {
				t.Errorf("%d files, %v; want an error with %q", len(files), err, c.want)
			}
		})
	}
}

// Another descriptor than a socket is an error.
func TestInheritNeedsASocket(t *testing.T) {
	f, err := os.Open("/dev/null")
	require.NoError(t, err)
	defer f.Close()
	fd, err := unix.Dup(int(f.Fd()))
	require.NoError(t, err)
	for _, fd := range []int{fd, 1 << 20, -1} {
		if c, err := Inherit(fd); err == nil {
			c.Close()
			t.Errorf("descriptor %d is a connection", fd)
		}
	}
}

// No bytes from the other process panic or allocate more than was sent.
func FuzzReceive(f *testing.F) {
	message := func(files uint32, body string) []byte {
		b := binary.BigEndian.AppendUint32(nil, uint32(len(body)))
		return append(binary.BigEndian.AppendUint32(b, files), body...)
	}
	f.Add(message(0, `{"kind":"ready","ready":{"version":"1"}}`))
	f.Add(message(1, `{"kind":"state","state":{"links":[{"interface":"lan0","index":2}],"sas":{"a":{"window":"AAAA"}}}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, kind := range []string{KindOffer, KindReady, KindState} {
			a, b := pair(t)
			if len(data) > 1<<14 {
				return
			}
			_, _ = a.unix.Write(data)
			a.Close()
			m, files, err := b.Receive(kind)
			CloseAll(files)
			if err == nil && m.Kind != kind {
				t.Errorf("received %q as %q", m.Kind, kind)
			}
			b.Close()
		}
	})
}
