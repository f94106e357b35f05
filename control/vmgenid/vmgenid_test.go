package vmgenid

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/warproute/warproute/internal/require"
)

func TestNewGenerationsAreRecognized(t *testing.T) {
	message := func(parts ...string) []byte { return []byte(strings.Join(parts, "\x00") + "\x00") }
	for _, test := range []struct {
		message []byte
		want    bool
	}{
		{message("change@/devices/LNXSYSTM:00/LNXSYBUS:00/QEMUVGID:00", "ACTION=change", "SUBSYSTEM=acpi", "NEW_VMGENID=1", "SEQNUM=1234"), true},
		{message("change@/devices/LNXSYSTM:00/LNXSYBUS:00/QEMUVGID:00", "ACTION=change", "SUBSYSTEM=acpi", "SEQNUM=1234"), false},
		{message("add@/devices/virtual/net/veth0", "ACTION=add", "INTERFACE=NEW_VMGENID=1"), false},
		{message("NEW_VMGENID=1"), false}, // header, not a variable
		{message("change@/x", "NEW_VMGENID=10"), false},
		{nil, false},
	} {
		if got := isChange(test.message); got != test.want {
			t.Errorf("%q: %v, want %v", test.message, got, test.want)
		}
	}
}

// TestOtherEventsAreIgnored triggers a uevent of another device, and checks that Close returns.
func TestOtherEventsAreIgnored(t *testing.T) {
	calls := make(chan struct{}, 1)
	w, err := Watch(func() { calls <- struct{}{} })
	require.NoError(t, err)
	if err := os.WriteFile("/sys/class/mem/null/uevent", []byte("change"), 0); err != nil {
		t.Logf("trigger a uevent: %v", err)
	}
	closed := make(chan struct{})
	go func() { time.Sleep(20 * time.Millisecond); w.Close(); close(closed) }()
	select {
	case <-calls:
		t.Error("a uevent of another device was reported as a new generation")
	case <-closed:
	case <-time.After(10 * time.Second):
		t.Fatal("Close does not return")
	}
}
