package e2e

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"
	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/control/socket"
	"github.com/warproute/warproute/internal/lab"
	"github.com/warproute/warproute/internal/testutil"
)

// sniffer has every IP frame that passes a peer's link, by a packet socket. It leaves out
// neighbour discovery and multicast reports, which are between the peer and Linux.
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

// frames returns what came and what went so far.
func (s *sniffer) frames() (in, out [][]byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([][]byte(nil), s.in...), append([][]byte(nil), s.out...)
}

// routed reports whether a frame is one that may have been routed.
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

// readCapture reads a file, and the losses that it tells of, by interface.
func readCapture(t *testing.T, r io.Reader) (all []captured, missed map[string]uint64) {
	t.Helper()
	ng, err := pcapgo.NewNgReader(r, pcapgo.NgReaderOptions{})
	if err != nil {
		t.Fatal(err)
	}
	directions := map[pcapgo.NgEpbFlag]string{pcapgo.NgEpbFlagDirectionInbound: "in", pcapgo.NgEpbFlagDirectionOutbound: "out"}
	for {
		data, ci, options, err := ng.ReadPacketDataWithOptions()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		port, err := ng.Interface(ci.InterfaceIndex)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, captured{port.Name, directions[options.Flags.Direction], strings.Join(options.Comments, "\n"), ci.Timestamp, data, ci.Length})
	}
	missed = map[string]uint64{}
	for i := range ng.NInterfaces() {
		port, _ := ng.Interface(i)
		missed[port.Name] = port.Statistics.PacketsDropped
	}
	return all, missed
}

// capture runs `warproute capture` until it is ended. Should the test die, the router does
// with it, and that ends the capture: a signal at the parent's death would come at that of
// the thread that started it, and threads end with what is run in namespaces.
type capture struct {
	file string
	cmd  *exec.Cmd
	err  bytes.Buffer
}

func (r *router) capture(args ...string) *capture {
	r.t.Helper()
	c := &capture{file: filepath.Join(r.t.TempDir(), "capture.pcapng")}
	c.cmd = exec.Command(program, append([]string{"capture", "--socket", r.socket, "-w", c.file}, args...)...)
	c.cmd.Stderr = &c.err
	if err := c.cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = c.cmd.Process.Kill(); _ = c.cmd.Wait() })
	for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(5 * time.Millisecond) { // the file's header
		if info, err := os.Stat(c.file); err == nil && info.Size() > 0 {
			time.Sleep(60 * time.Millisecond) // a worker that sleeps looks for taps when it wakes
			return c
		}
		if time.Now().After(deadline) {
			r.t.Fatalf("the capture does not begin: %s", &c.err)
		}
	}
}

// end ends it as Ctrl-C does.
func (c *capture) end(t *testing.T) (all []captured, missed map[string]uint64) {
	t.Helper()
	_ = c.cmd.Process.Signal(os.Interrupt)
	if err := c.cmd.Wait(); err != nil {
		t.Fatalf("capture: %v: %s", err, &c.err)
	}
	f, err := os.Open(c.file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	return readCapture(t, f)
}

// only keeps the packets of a port and direction that were not dropped.
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
		t.Errorf("%s: %d frames were captured, and %d passed", what, len(got), len(want))
	}
	for i := range min(len(got), len(want)) {
		if !bytes.Equal(got[i], want[i]) {
			t.Errorf("%s: frame %d\ncaptured % x\npassed   % x", what, i, got[i], want[i])
			return
		}
	}
}

// A capture has, byte for byte, what the peers saw, and drops with their reasons; tshark
// reads it.
func TestACaptureHasWhatThePeersSaw(t *testing.T) {
	top := newTopology(t, lab.VethOptions{})
	r := startRouter(t, top.Router, "--port", lab.LAN, "--port", lab.WAN)
	for _, a := range []netip.Prefix{lab.Server4, lab.Server6} { // neighbours
		if _, err := lab.Ping(top.Client, a.Addr(), lab.PingOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	client, server := startSniffer(t, top.Client, lab.ClientLink), startSniffer(t, top.Server, lab.ServerLink)
	c := r.capture()
	began := time.Now()

	fd := packetSocket(t, top.Client, lab.ClientLink)
	mac, err := top.Router.MAC(lab.LAN)
	if err != nil {
		t.Fatal(err)
	}
	send := func(f []byte) {
		copy(f, mac)
		if err := unix.Send(fd, f, 0); err != nil {
			t.Fatal(err)
		}
	}
	expiring := testutil.IPv4(lab.Client4.Addr().String(), lab.Server4.Addr().String(), layers.IPProtocolUDP)
	expiring.TTL = 1
	for i := range 200 {
		send(testutil.UDP4(lab.Client4.Addr().String(), lab.Server4.Addr().String(), 1000, loadPort, bytes.Repeat([]byte{byte(i)}, i*7)...))
		send(testutil.UDP6(lab.Client6.Addr().String(), lab.Server6.Addr().String(), 1000, loadPort, bytes.Repeat([]byte{byte(i)}, i*7)...))
	}
	noRoute := testutil.UDP4(lab.Client4.Addr().String(), "172.16.0.1", 1000, loadPort, 1, 2, 3)
	send(noRoute)
	send(testutil.Frame(testutil.Ethernet(layers.EthernetTypeIPv4), expiring, &layers.UDP{SrcPort: 1, DstPort: 2}, gopacket.Payload("expires")))
	if r, err := lab.Transfer(top.Client, top.Server, lab.Server4.Addr(), 1<<20, 10*time.Second); err != nil || r.Bytes != 1<<20 {
		t.Fatal(err)
	}
	time.Sleep(100 * time.Millisecond)
	all, missed := c.end(t)
	if missed[lab.LAN]+missed[lab.WAN] != 0 {
		t.Fatalf("the capture did not keep up: %v", missed)
	}
	if !strings.HasSuffix(c.err.String(), " packets captured, 0 missed\n") {
		t.Errorf("its last words: %q", &c.err)
	}
	clientIn, clientOut := client.frames()
	serverIn, serverOut := server.frames()
	sameFrames(t, "received on lan0", only(all, lab.LAN, "in"), clientOut)
	sameFrames(t, "sent to wan0", only(all, lab.WAN, "out"), serverIn)
	sameFrames(t, "received on wan0", only(all, lab.WAN, "in"), serverOut)
	sameFrames(t, "sent to lan0", only(all, lab.LAN, "out"), clientIn)

	comments := map[string][]captured{}
	for _, p := range all {
		if d := p.at.Sub(began); d < 0 || d > time.Minute {
			t.Fatalf("a packet was captured %v after the capture began", d)
		}
		if p.comment != "" {
			comments[p.comment] = append(comments[p.comment], p)
		}
	}
	if d := comments["no_route: no route covers the destination"]; len(d) != 1 || !bytes.Equal(d[0].data, noRoute) || d[0].port != lab.LAN {
		t.Errorf("no_route: %v", d)
	}
	if d := comments["ttl_expired: the TTL or hop limit ran out here"]; len(d) != 1 {
		t.Errorf("ttl_expired: %v", d)
	}
	if d := comments["made by this router, about a packet received on lan0"]; len(d) != 2 { // both drops are reported
		t.Errorf("made by the router: %v", d)
	}

	out, err := exec.Command("tshark", "-n", "-r", c.file, "-Y", "frame.comment", "-T", "fields", "-e", "frame.interface_name", "-e", "frame.comment").Output()
	if err != nil {
		t.Fatalf("tshark: %v", err)
	}
	for _, want := range []string{"lan0\tno_route: no route covers the destination\n", "lan0\tmade by this router, about a packet received on lan0\n"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("tshark does not show %q:\n%s", want, out)
		}
	}
}

// Filters, ports, reasons, lengths and limits choose.
func TestACaptureHasWhatWasAskedFor(t *testing.T) {
	top := newTopology(t, lab.VethOptions{})
	r := startRouter(t, top.Router, "--port", lab.LAN, "--port", lab.WAN)
	l := startLoad(t, top, 2000, lab.Server4.Addr().String(), lab.Server6.Addr().String(), "172.16.0.1")
	for _, test := range []struct {
		query string
		ok    func(captured) bool
	}{
		{"rx=1&filter=dst+host+10.8.0.2+and+udp+port+7777", func(p captured) bool {
			return p.direction == "in" && p.port == lab.LAN && p.data[33] == 2 && p.comment == ""
		}},
		{"port=wan0&tx=1&snaplen=30", func(p captured) bool {
			return p.direction == "out" && p.port == lab.WAN && len(p.data) == 30 && p.length > 30
		}},
		{"drop=1&reason=no_route", func(p captured) bool { return strings.HasPrefix(p.comment, "no_route: ") && p.data[30] == 172 }},
	} {
		body, err := socket.Open(t.Context(), r.socket, "/capture?count=20&"+test.query)
		if err != nil {
			t.Fatalf("%s: %v", test.query, err)
		}
		all, _ := readCapture(t, body)
		body.Close()
		if len(all) != 20 {
			t.Errorf("%s: %d packets, want 20", test.query, len(all))
		}
		for _, p := range all {
			if !test.ok(p) {
				t.Errorf("%s: captured %+v", test.query, p)
				break
			}
		}
	}
	l.end()
	for query, want := range map[string]string{
		"rx=1&port=eth9": "its ports are lan0, wan0", "rx=1&filter=tcp+udp": `"udp", where and`, "drop=1&reason=bad": `"bad" is not a reason`,
		"rx=1&count=many": `"many" is not a number`, "rx=1&snaplen=0": `snaplen "0"`, "filter=tcp": "all off",
	} {
		if _, err := socket.Open(t.Context(), r.socket, "/capture?"+query); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", query, err)
		}
	}
}

// Clients that read nothing or die cost no packet and leave nothing behind.
func TestACaptureThatStallsOrDiesCostsNothing(t *testing.T) {
	top := newTopology(t, lab.VethOptions{})
	r := startRouter(t, top.Router, "--port", lab.LAN, "--port", lab.WAN)
	if _, err := lab.Ping(top.Client, lab.Server4.Addr(), lab.PingOptions{}); err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(t.Context())
	defer end()
	stalled, err := socket.Open(ctx, r.socket, "/capture?rx=1&tx=1&drop=1")
	if err != nil {
		t.Fatal(err)
	}
	defer stalled.Close()
	w := startWatch(t, top.Server, lab.ServerLink)
	l := startLoad(t, top, 5000, lab.Server4.Addr().String())
	r.capture("--rx").cmd.Process.Kill()
	for range 20 { // more than may be at once
		dead, err := socket.Open(t.Context(), r.socket, "/capture?rx=1")
		if err != nil {
			t.Fatal(err)
		}
		dead.Close()
		time.Sleep(10 * time.Millisecond)
	}
	time.Sleep(time.Second)
	l.end()
	if lost, disorder := missing(l.sent[0].Load(), w.of(0)); len(lost)+disorder > 0 {
		t.Errorf("%d of %d packets lost, %d out of order", len(lost), l.sent[0].Load(), disorder)
	}
	end()
	_, missed := readCapture(t, stalled)
	if missed[lab.LAN] == 0 {
		t.Error("the stalled capture missed nothing: it did not stall")
	}
	c := r.capture("--rx")
	if _, err := lab.Ping(top.Client, lab.Server4.Addr(), lab.PingOptions{Count: 1}); err != nil {
		t.Fatal(err)
	}
	if all, _ := c.end(t); len(all) == 0 {
		t.Error("a capture after others died has nothing")
	}
}
