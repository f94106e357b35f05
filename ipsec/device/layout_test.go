package device

import (
	"encoding/binary"
	"os"
	"reflect"
	"regexp"
	"strconv"
	"testing"

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
	same := func(of reflect.Type, base uintptr) (last uintptr) {
		for i := range of.NumField() {
			if f := of.Field(i); f.Name != "_" {
				last = base + f.Offset
				if at := got(); at != uint32(last) {
					t.Errorf("%s is at %d in C, %d in Go", f.Name, at, last)
				}
			}
		}
		return last
	}
	key := reflect.TypeFor[Key]()
	rest := same(key, 0)
	if size := got(); size != uint32(key.Size()) || size%16 != 0 {
		t.Errorf("a key has %d bytes in C, %d in Go", size, key.Size())
	}
	same(reflect.TypeFor[separate](), rest)

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
		"POWERS": MaxLanes,
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
