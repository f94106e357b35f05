package device

import (
	"encoding/binary"
	"os"
	"reflect"
	"regexp"
	"strconv"
	"testing"

	"github.com/warproute/warproute/ipsec/schedule"
	"github.com/warproute/warproute/ipsec/suite"
)

// struct esp_key is Key, and the numbers of key.h are Go's.
func TestDevicesKnowTheLayout(t *testing.T) {
	q := &request{operation: layout, packet: make([]byte, 256)}
	run(t, q)
	got := func() (w uint32) {
		w, q.packet = binary.NativeEndian.Uint32(q.packet), q.packet[4:]
		return w
	}
	key := reflect.TypeFor[Key]()
	for i := range key.NumField() {
		if f := key.Field(i); f.Name != "_" {
			if at := got(); at != uint32(f.Offset) {
				t.Errorf("%s is at %d in C, %d in Go", f.Name, at, f.Offset)
			}
		}
	}
	if size := got(); size != uint32(key.Size()) || size%LineBytes != 0 {
		t.Errorf("a key has %d bytes in C, %d in Go", size, key.Size())
	}

	text, err := os.ReadFile("key.h")
	if err != nil {
		t.Fatal(err)
	}
	defined := map[string]int{}
	for _, m := range regexp.MustCompile(`(?m)^#define ESP_(\w+) (\d+)\b`).FindAllStringSubmatch(string(text), -1) {
		if defined[m[1]], err = strconv.Atoi(m[2]); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]int{
		"NULL": int(suite.Null), "CBC": int(suite.CBC), "CTR": int(suite.CTR), "GCM": int(suite.GCM), "CHACHA20": int(suite.ChaCha20),
		"COMBINED": int(suite.Combined), "SHA1": int(suite.SHA1), "SHA256": int(suite.SHA256), "SHA512": int(suite.SHA512),
		"ROUND_KEYS": schedule.MaxWords / 4, "POWERS": MaxLanes,
	} {
		if got, ok := defined[name]; !ok || got != want {
			t.Errorf("ESP_%s is %d in key.h (%v), %d in Go", name, got, ok, want)
		}
		delete(defined, name)
	}
	if len(defined) > 0 {
		t.Errorf("key.h defines what Go does not: %v", defined)
	}
}
