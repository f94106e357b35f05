package afxdp

import (
	"encoding/binary"
	"net"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/internal/require"
)

// stripTags has Linux move the outer tag of frames that an interface transmits from the frame to the metadata of the
// socket buffer, where a VLAN interface with `txvlan on` has it. The peer of a veth then receives a stripped tag.
func stripTags(t testing.TB, name string) (stop func()) {
	t.Helper()
	const protocol, tci, taken = 16, 14, -8 // in struct __sk_buff; in the frame; on the stack
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.SchedCLS, License: "Apache-2.0", Instructions: asm.Instructions{
		asm.Mov.Reg(asm.R6, asm.R1),
		asm.LoadMem(asm.R7, asm.R6, protocol, asm.Word),
		asm.JEq.Imm(asm.R7, 0x0081, "tagged"), // in network order
		asm.JNE.Imm(asm.R7, 0xa888, "out"),
		asm.Mov.Imm(asm.R2, tci).WithSymbol("tagged"),
		asm.Mov.Reg(asm.R1, asm.R6),
		asm.Mov.Reg(asm.R3, asm.RFP), asm.Add.Imm(asm.R3, taken),
		asm.Mov.Imm(asm.R4, 2),
		asm.FnSkbLoadBytes.Call(),
		asm.JNE.Imm(asm.R0, 0, "out"),
		asm.LoadMem(asm.R8, asm.RFP, taken, asm.Half),
		asm.HostTo(asm.BE, asm.R8, asm.Half),
		asm.Mov.Reg(asm.R1, asm.R6),
		asm.FnSkbVlanPop.Call(),
		asm.JNE.Imm(asm.R0, 0, "out"),
		asm.Mov.Reg(asm.R1, asm.R6), asm.Mov.Reg(asm.R2, asm.R7), asm.Mov.Reg(asm.R3, asm.R8),
		asm.FnSkbVlanPush.Call(),
		asm.Mov.Imm(asm.R0, 0).WithSymbol("out"), // pass
		asm.Return(),
	}})
	require.NoError(t, err)
	t.Cleanup(func() { prog.Close() })
	iface, err := net.InterfaceByName(name)
	require.NoError(t, err)
	l, err := link.AttachTCX(link.TCXOptions{Interface: iface.Index, Program: prog, Attach: ebpf.AttachTCXEgress})
	require.NoError(t, err)
	return func() { require.NoError(t, l.Close()) }
}

// linuxFrame is a frame that Linux received, with the tag that it removed.
type linuxFrame struct {
	frame     string
	tpid, tci uint16
}

// receiveTagged returns the next frame, or false if none arrives within patience.
func (w *wire) receiveTagged() (got linuxFrame, ok bool) {
	w.t.Helper()
	b, control := make([]byte, 65536), make([]byte, unix.CmsgSpace(20)) // of struct tpacket_auxdata
	n, c, _, _, err := unix.Recvmsg(w.fd, b, control, 0)
	if err == unix.EAGAIN {
		return got, false
	}
	require.NoError(w.t, err)
	messages, err := unix.ParseSocketControlMessage(control[:c])
	require.NoError(w.t, err)
	for _, m := range messages {
		if status := binary.NativeEndian.Uint32(m.Data); status&unix.TP_STATUS_VLAN_VALID != 0 {
			got.tci, got.tpid = binary.NativeEndian.Uint16(m.Data[16:]), binary.NativeEndian.Uint16(m.Data[18:])
		}
	}
	got.frame = string(b[:n])
	return got, true
}

// outcome is what the port does with a frame: the decision, and the frame as the worker or Linux has it.
type outcome struct {
	decision Decision
	worker   string
	linux    linuxFrame
}

// outcomeOf sends a frame to port ra, whose Linux side is the second wire.
func outcomeOf(t *testing.T, s *Set, w WorkerMemory, in, linux *wire, frame []byte) (got outcome) {
	t.Helper()
	p := s.Ports[0]
	before, err := p.program.counts()
	require.NoError(t, err)
	in.send(frame)
	found := false
	for deadline := time.Now().Add(patience); !found && time.Now().Before(deadline); {
		after, err := p.program.counts()
		require.NoError(t, err)
		for d := range after {
			if after[d] != before[d] {
				got.decision, found = Decision(d), true
			}
		}
	}
	if !found {
		t.Fatalf("%x is not counted", frame)
	}
	switch {
	case got.decision == ToSocket:
		frames := receiveAll(p.Queues(0), 1)
		if len(frames) != 1 {
			t.Fatalf("%x: the worker has %d frames", frame, len(frames))
		}
		got.worker = string(bytesOf(w, frames[0]))
		w.Pool.Put(frames[0].Addr)
	case got.decision >= VLAN:
		ok := false
		if got.linux, ok = linux.receiveTagged(); !ok {
			t.Fatalf("%x: %v, and Linux has not received it", frame, got.decision)
		}
	}
	return got
}
