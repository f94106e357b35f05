package xfrm

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/ipsec/gateway"
)

// A mirror that starts beside another one reports nothing to Linux. When it takes the states over, they continue with
// the numbers and the use of the other one. A state that the other one lacked skips numbers as at a restart.
func testTakeOver(t *testing.T) {
	k := newKernel(t)
	const inSA = "xfrm state add src 192.0.2.2 dst 192.0.2.1 proto esp spi %#x reqid 1 mode tunnel replay-window 32 "
	key := func(seed byte) string { return fmt.Sprintf("aead rfc4106(gcm(aes)) 0x%x 128", keyOf(20, seed)) }
	k.ip(fmt.Sprintf(outSA, 0x100)+key(1), fmt.Sprintf(inSA, 0x200)+key(50))
	out, in := k.association(0x100), k.association(0x200)
	if _, n := out.Reserve(1000); n != 1000 {
		t.Fatal("no numbers are left")
	}
	out.Count(0, 1000, 64_000)
	in.Accept(90)
	in.Accept(100)
	old := k.mirror
	linux := func() string {
		t.Helper()
		text, err := k.Run("ip", "-s", "xfrm", "state", "get", "src", "192.0.2.1", "dst", "192.0.2.2", "proto", "esp", "spi", "0x100")
		require.NoError(t, err)
		return text
	}
	eventually := func(what, want string) {
		t.Helper()
		for end := time.Now().Add(5 * time.Second); !strings.Contains(linux(), want); time.Sleep(20 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%s: Linux has\n%s", what, linux())
			}
		}
	}
	eventually("the first mirror reports", "1000(packets)")

	next := new(gateway.Gateway)
	var mirror *Mirror
	require.NoError(t, k.Do(func() (err error) {
		mirror, err = StartPassive(next, 1, Hooks{IsLocal: func(a netip.Addr) bool { return a == here || a == here6 }}, nil)
		return err
	}))
	t.Cleanup(func() { mirror.Close() })
	k.mirror, k.gateway = mirror, next
	nextOut, nextIn := k.association(0x100), k.association(0x200)
	out.Reserve(500)
	out.Count(0, 500, 32_000)
	in.Accept(95)
	old.Suspend()
	out.Reserve(7) // which Linux does not know
	out.Count(0, 7, 448)
	states := old.States()
	if len(states) != 2 {
		t.Fatalf("%d states, want 2: %v", len(states), states)
	}
	k.ip(fmt.Sprintf(outSA, 0x101) + key(100)) // the other mirror has ended
	added := k.association(0x101)
	before := added.Sequence()
	require.NoError(t, old.Close())
	reported := linux()
	require.NoError(t, mirror.TakeOver(states))

	if n := nextOut.Sequence(); n != out.Sequence() {
		t.Errorf("outbound numbers continue after %d, want %d", n, out.Sequence())
	}
	for seq, fresh := range map[uint64]bool{90: false, 95: false, 100: false, 96: true, 101: true} {
		if nextIn.Accept(seq) != fresh {
			t.Errorf("inbound number %d accepted: %v", seq, !fresh)
		}
	}
	if n := added.Sequence(); n != before+restartGap {
		t.Errorf("numbers of the added state continue after %d, want %d", n, before+restartGap)
	}
	if strings.Contains(reported, "1507(packets)") {
		t.Error("a suspended mirror has reported")
	}
	eventually("the next mirror reports", "1507(packets)")
}
