package afxdp

import (
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/internal/netdev"
	"github.com/warproute/warproute/internal/require"
)

// openStripped opens port ra in a mode, with portMAC, the addresses of the steering tests, and VLANs if wanted. Its peer
// transmits on in; linux receives what the port passes to Linux.
func openStripped(t *testing.T, mode Mode, withVLANs bool) (s *Set, w WorkerMemory, in, linux *wire) {
	t.Helper()
	enterNamespace(t)
	addVeth(t, "ra", "a", 1)
	w = newWorker(t, 64)
	s = open(t, Config{Ports: ports(mode, "ra"), Workers: []WorkerMemory{w}, RingSize: 64})
	require.NoError(t, s.Ports[0].SetMAC(portMAC))
	require.NoError(t, s.AddLocal(own4))
	require.NoError(t, s.AddLocal(subnet4))
	require.NoError(t, s.AddLocal(own6))
	if withVLANs {
		addVLANs(t, s)
	}
	linux = newWire(t, "ra")
	require.NoError(t, unix.SetsockoptInt(linux.fd, unix.SOL_PACKET, unix.PACKET_AUXDATA, 1))
	return s, w, newWire(t, "a"), linux
}

// strippedTags are the tags of VLANs of addVLANs, of unknown ones, and priority tags.
var strippedTags = [][]uint16{
	nil, {q, 5}, {q, 0xf005}, {q, 0}, {q, 0xe000}, {q, 0, q, 5}, {q, 5, q, 0}, {ad, 6, q, 7}, {ad, 0xe006, q, 0xe007},
	{q, 4}, {ad, 5}, {q, 6}, {q, 7}, {q, 5, q, 7}, {q, 5, ad, 6}, {ad, 6, q, 8}, {q, 0, q, 4}, {ad, 6, q, 7, q, 5},
}

// A tag that is stripped before XDP has the same effect as a tag in the frame: the decision and its counter, the frame
// of the worker, and the frame and tag that Linux has.
func TestStrippedTagsAreAsTagsInFrames(t *testing.T) {
	for _, gateway := range []bool{false, true} {
		s, w, in, linux := openStripped(t, Auto, true)
		if reason := s.Ports[0].TagsUnread(); reason != "" {
			t.Fatalf("stripped tags are not read: %s", reason)
		}
		if gateway {
			require.NoError(t, s.Guard())
		}
		var frames [][]byte
		for _, c := range steerTests {
			if len(c.frame) == 14 { // Linux drops a frame that ends with a tag
				continue
			}
			for _, tags := range strippedTags {
				frames = append(frames, inVLAN(c.frame, tags...))
			}
		}
		want := make([]outcome, len(frames))
		for i, f := range frames {
			want[i] = outcomeOf(t, s, w, in, linux, f)
		}
		stop := stripTags(t, "a")
		toSocket := 0
		for i, f := range frames {
			if got := outcomeOf(t, s, w, in, linux, f); got != want[i] {
				t.Errorf("gateway %v, %x:\nstripped %+v\nin frame %+v", gateway, f, got, want[i])
			}
			if want[i].decision == ToSocket {
				toSocket++
				if want[i].worker != string(f) {
					t.Errorf("%x: the worker has %x", f, want[i].worker)
				}
			}
		}
		stop()
		if toSocket < 100 {
			t.Errorf("only %d of %d frames are for the worker", toSocket, len(frames))
		}
		st, err := s.Ports[0].Stats()
		require.NoError(t, err)
		if st.RxDropped+st.RxRingFull+st.Refused+st.RxInvalid > 0 {
			t.Errorf("frames are lost: %+v", st)
		}
	}
}

// On a port without VLANs, a stripped tag with VID 0 is ignored, and others go to Linux. Paused, every frame goes to
// Linux, as it came.
func TestStrippedTagsWithoutVLANs(t *testing.T) {
	s, w, in, linux := openStripped(t, Native, false)
	stop := stripTags(t, "a")
	defer stop()
	far := eth(portMAC, ipv4, ip4(far4, 0))
	for _, c := range []struct {
		tags []uint16
		want outcome
	}{
		{nil, outcome{ToSocket, string(far), linuxFrame{}}},
		{[]uint16{q, 0xe000}, outcome{ToSocket, string(far), linuxFrame{}}},
		{[]uint16{q, 5}, outcome{VLAN, "", linuxFrame{string(far), q, 5}}},
		{[]uint16{ad, 0xe006}, outcome{VLAN, "", linuxFrame{string(far), ad, 0xe006}}},
		{[]uint16{ad, 6, q, 7}, outcome{VLAN, "", linuxFrame{string(inVLAN(far, q, 7)), ad, 6}}},
	} {
		if got := outcomeOf(t, s, w, in, linux, inVLAN(far, c.tags...)); got != c.want {
			t.Errorf("%x:\n got %+v\nwant %+v", c.tags, got, c.want)
		}
	}
	addVLANs(t, s)
	require.NoError(t, s.Ports[0].Pause())
	if got, want := outcomeOf(t, s, w, in, linux, inVLAN(far, q, 5)), (outcome{VLAN, "", linuxFrame{string(far), q, 5}}); got != want {
		t.Errorf("paused:\n got %+v\nwant %+v", got, want)
	}
}

// Jumbo frames have their stripped tags as well.
func TestStrippedTagsOfJumboFrames(t *testing.T) {
	enterNamespace(t)
	addJumbo(t, "ra", "a", 9000)
	w := newLargeWorker(t, 512, 8)
	s := open(t, Config{Ports: ports(Native, "ra"), Workers: []WorkerMemory{w}, RingSize: 64})
	require.NoError(t, s.SetVLAN(0, VLANKey{0, 5}, 100, s.Ports[0].MAC))
	if reason := s.Ports[0].TagsUnread(); reason != "" {
		t.Fatalf("stripped tags are not read: %s", reason)
	}
	stop := stripTags(t, "a")
	defer stop()
	in := newWire(t, "a")
	for _, length := range []int{60, 1514, 1790, 1791, 4000, 9014} {
		want := inVLAN(udp(s.Ports[0].MAC, 1, 1, length), q, 0xf005)
		in.send(want)
		got := receiveAll(s.Ports[0].Queues(0), 1)
		if len(got) != 1 || string(bytesOf(w, got[0])) != string(want) {
			t.Fatalf("%d bytes: received %v", length, got)
		}
		w.Pool.Put(got[0].Addr)
	}
}

// Stripped tags are read after the interface was deleted and created again, and by the next process.
func TestStrippedTagsAreReadAfterChanges(t *testing.T) {
	s, w, in, linux := openStripped(t, Native, true)
	frame := inVLAN(eth(portMAC, ipv4, ip4(far4, 0)), q, 5)
	read := func(when string) {
		t.Helper()
		defer stripTags(t, "a")()
		if reason := s.Ports[0].TagsUnread(); reason != "" {
			t.Fatalf("%s: stripped tags are not read: %s", when, reason)
		}
		if got, want := outcomeOf(t, s, w, in, linux, frame), (outcome{ToSocket, string(frame), linuxFrame{}}); got != want {
			t.Fatalf("%s:\n got %+v\nwant %+v", when, got, want)
		}
	}
	read("after the start")

	before, err := s.Ports[0].program.counts()
	require.NoError(t, err)
	deleteLink(t, "ra")
	addVeth(t, "ra", "a", 1)
	require.NoError(t, s.Ports[0].Reopen())
	s.Ports[0].Queues(0)[0].Refill() // switches to the new socket
	in, linux = newWire(t, "a"), newWire(t, "ra")
	read("after a reopen")
	after, err := s.Ports[0].program.counts()
	require.NoError(t, err)
	if after[ToSocket] != before[ToSocket]+1 {
		t.Errorf("%d frames to the socket, and one more after the reopen is %d", before[ToSocket], after[ToSocket])
	}

	next := inherit(t, s)
	require.NoError(t, next.Ports[0].SetMAC(portMAC))
	addVLANs(t, next)
	handOver(t, s, next)
	s, w = next, next.cfg.Workers[0]
	read("after a handover")
	id, _, err := netdev.XDPProgram(s.Ports[0].Ifindex)
	require.NoError(t, err)
	if is, reads := RouterProgram(id); !is || !reads {
		t.Errorf("the program of the port: of a router %v, reads tags %v", is, reads)
	}
}

// Ports in generic mode have the other program, also after a handover: the metadata are missing there, and Linux
// would not refuse the program when it replaces that of a link.
func TestStrippedTagsAreNotReadInGenericMode(t *testing.T) {
	s, _, _, _ := openStripped(t, Generic, true)
	check := func(s *Set) {
		t.Helper()
		p := s.Ports[0]
		if p.TagsUnread() != UnreadGeneric || p.program.current() != p.program.Steer {
			t.Errorf("stripped tags: %q", p.TagsUnread())
		}
		loss, hint := p.LostTags()
		if !strings.Contains(loss, "not read: generic XDP has no metadata; tagged packets are routed as untagged") || !strings.Contains(hint, "sudo ethtool -K PEER txvlan off") {
			t.Errorf("reported %q, %q", loss, hint)
		}
	}
	check(s)
	next := inherit(t, s)
	handOver(t, s, next)
	check(next)
	id, _, err := netdev.XDPProgram(next.Ports[0].Ifindex)
	require.NoError(t, err)
	if is, reads := RouterProgram(id); !is || reads {
		t.Errorf("the program of the port: of a router %v, reads tags %v", is, reads)
	}
}

// A driver without metadata leaves the port as it is, with the loss that its offload causes.
func TestTagsWithoutMetadataAreReported(t *testing.T) {
	enterNamespace(t)
	unread := WhyTagsUnread(1) // the loopback interface
	if !strings.Contains(unread, "since Linux 6.8") {
		t.Fatalf("loopback: %q", unread)
	}
	for _, c := range []struct {
		d          netdev.Driver
		unread     string
		loss, hint string
	}{
		{netdev.Driver{Name: "i40e", Flags: netdev.FlagRxVLAN}, unread, "the NIC strips VLAN tags before XDP, and they are not read: the driver", "sudo ethtool -K lan0 rxvlan off"},
		{netdev.Driver{Name: "veth"}, unread, "the peer can strip VLAN tags before XDP", "on the peer of lan0"},
		{netdev.Driver{Name: "i40e", Flags: netdev.FlagLRO}, unread, "", ""},
		{netdev.Driver{Name: "ice", Flags: netdev.FlagRxVLAN}, "", "", ""},
		{netdev.Driver{Name: "veth"}, "", "", ""},
	} {
		loss, hint := LostTags("lan0", c.d, c.unread)
		if !strings.HasPrefix(loss, c.loss) || !strings.HasPrefix(hint, c.hint) || (c.loss == "") != (loss == "") {
			t.Errorf("%+v: %q, %q", c.d, loss, hint)
		}
	}
}

// handOver hands the ports of a set over to that of a new process.
func handOver(t *testing.T, s, next *Set) {
	t.Helper()
	require.NoError(t, s.Withhold())
	require.NoError(t, s.CloseSockets())
	links, err := s.Handover()
	require.NoError(t, err)
	require.NoError(t, next.Bind())
	require.NoError(t, next.Attach(links))
	require.NoError(t, s.Leave())
	require.NoError(t, s.Close())
	next.Own()
}
