package e2e

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gopacket/gopacket/pcapgo"
	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/internal/lab"
	"github.com/warproute/warproute/internal/require"
)

// sniffer collects every IP frame on a peer's link, except for neighbor discovery and multicast
// reports between the peer and Linux.
type sniffer struct {
	mu      sync.Mutex
	in, out [][]byte
}

func startSniffer(t *testing.T, ns *lab.Namespace, link string) *sniffer {
	t.Helper()
	s := &sniffer{}
	listen(t, ns, link, func(frame []byte, out bool) {
		if !routed(frame) {
			return
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if out {
			s.out = append(s.out, bytes.Clone(frame))
		} else {
			s.in = append(s.in, bytes.Clone(frame))
		}
	})
	return s
}

// frames returns the received and sent frames so far.
func (s *sniffer) frames() (in, out [][]byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([][]byte(nil), s.in...), append([][]byte(nil), s.out...)
}

// routed reports whether a frame may have been routed.
func routed(b []byte) bool {
	if len(b) < 34 {
		return false
	}
	switch uint16(b[12])<<8 | uint16(b[13]) {
	case unix.ETH_P_IP:
		return true
	case unix.ETH_P_IPV6:
		kind := byte(0)
		if b[20] == 58 {
			kind = b[54]
		}
		return b[20] != 0 && (kind < 130 || kind > 143)
	}
	return false
}

// captured is a packet of a pcapng file.
type captured struct {
	port, direction, comment string
	at                       time.Time
	data                     []byte
	length                   int
}

// readCapture returns the packets of a file and its counts of missed packets by interface.
func readCapture(t *testing.T, r io.Reader) (all []captured, missed map[string]uint64) {
	t.Helper()
	ng, err := pcapgo.NewNgReader(r, pcapgo.NgReaderOptions{})
	require.NoError(t, err)
	directions := map[pcapgo.NgEpbFlag]string{pcapgo.NgEpbFlagDirectionInbound: "in", pcapgo.NgEpbFlagDirectionOutbound: "out"}
	for {
		data, ci, options, err := ng.ReadPacketDataWithOptions()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		port, err := ng.Interface(ci.InterfaceIndex)
		require.NoError(t, err)
		all = append(all, captured{port.Name, directions[options.Flags.Direction], strings.Join(options.Comments, "\n"), ci.Timestamp, data, ci.Length})
	}
	missed = map[string]uint64{}
	for i := range ng.NInterfaces() {
		port, _ := ng.Interface(i)
		missed[port.Name] = port.Statistics.PacketsDropped
	}
	return all, missed
}

// capture is a running `warproute capture`. If the test dies, the router ends and with it the
// capture. A parent death signal would arrive too early: it is bound to the starting thread, and
// threads end with the commands that they run in namespaces.
type capture struct {
	file string
	cmd  *exec.Cmd
	err  bytes.Buffer
}

func (r *router) capture(args ...string) *capture {
	r.T.Helper()
	c := &capture{file: filepath.Join(r.T.TempDir(), "capture.pcapng")}
	c.cmd = exec.Command(program, append([]string{"capture", "--socket", r.Socket, "-w", c.file}, args...)...)
	c.cmd.Stderr = &c.err
	require.NoError(r.T, c.cmd.Start())
	r.T.Cleanup(func() { _ = c.cmd.Process.Kill(); _ = c.cmd.Wait() })
	eventually(r.T, 5*time.Second, "the capture writes the file's header", func() bool {
		info, err := os.Stat(c.file)
		return err == nil && info.Size() > 0
	})
	time.Sleep(60 * time.Millisecond) // a worker that sleeps looks for taps when it wakes
	return c
}

// end interrupts the capture as Ctrl-C does.
func (c *capture) end(t *testing.T) (all []captured, missed map[string]uint64) {
	t.Helper()
	_ = c.cmd.Process.Signal(os.Interrupt)
	if err := c.cmd.Wait(); err != nil {
		t.Fatalf("capture: %v: %s", err, &c.err)
	}
	f, err := os.Open(c.file)
	require.NoError(t, err)
	defer f.Close()
	return readCapture(t, f)
}

// only returns the packets of a port and direction that were not dropped.
func only(all []captured, port, direction string) (frames [][]byte) {
	for _, p := range all {
		if p.port == port && p.direction == direction && (direction == "out" || p.comment == "") {
			frames = append(frames, p.data)
		}
	}
	return frames
}

func sameFrames(t *testing.T, what string, got, want [][]byte) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%s: %d frames captured, %d on the wire", what, len(got), len(want))
	}
	for i := range min(len(got), len(want)) {
		if !bytes.Equal(got[i], want[i]) {
			t.Errorf("%s: frame %d\ncaptured % x\nwire     % x", what, i, got[i], want[i])
			return
		}
	}
}
