package device

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/warproute/warproute/internal/require"
)

// operation is what the shim is asked for, as its enum numbers it.
type operation uint32

const (
	seal operation = iota
	open
	encryptIV
	fits
	aesEncrypt
	aesDecrypt
	ghashMultiply
	chacha20Block
	poly1305Message
	poly1305Multiply
	poly1305Tag
)

// request is the shim's struct request, with the key and the packet behind it.
type request struct {
	operation     operation
	lanes         int
	extended      bool
	high, counter uint32
	key           *Key
	packet        []byte
	differs       uint32 // the answer; packet is overwritten
}

// dir is for the shim's program.
var dir string

func TestMain(m *testing.M) {
	var err error
	if dir, err = os.MkdirTemp("", "shim"); err != nil {
		log.Fatal(err)
	}
	code := m.Run()
	if err := os.RemoveAll(dir); err != nil {
		log.Print(err)
	}
	os.Exit(code)
}

// compile builds the shim with UBSan and returns its program. _FORTIFY_SOURCE, a default of some distributions,
// takes the switches between lanes for errors.
var compile = sync.OnceValues(func() (program string, err error) {
	program = filepath.Join(dir, "shim")
	cmd := exec.Command("cc", "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-O2",
		"-fsanitize=undefined", "-fno-sanitize-recover=undefined", "-U_FORTIFY_SOURCE", "-o", program, "testdata/shim.c")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%v: %w (a C compiler is needed: apt-get install gcc libc6-dev)\n%s", cmd, err, out)
	}
	return program, nil
})

// lookAtSources makes cached test results depend on the C sources: go test tracks the files that a
// test opens, not those that the compiler does.
var lookAtSources = sync.OnceValue(func() error {
	sources, err := filepath.Glob("*.h")
	for _, source := range append(sources, "testdata/shim.c") {
		_, one := os.Stat(source)
		err = errors.Join(err, one)
	}
	return err
})

// run has the shim answer requests.
func run(t *testing.T, requests ...*request) {
	t.Helper()
	require.NoError(t, lookAtSources())
	program, err := compile()
	require.NoError(t, err)
	var in, errs bytes.Buffer
	for _, q := range requests {
		q.write(&in)
	}
	cmd := exec.Command(program)
	cmd.Stdin, cmd.Stderr = &in, &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("shim: %v\n%s", err, &errs)
	}
	r := bytes.NewReader(out)
	for _, q := range requests {
		if err := binary.Read(r, binary.NativeEndian, &q.differs); err != nil {
			t.Fatalf("shim: read an answer: %v", err)
		}
		if _, err := io.ReadFull(r, q.packet); err != nil {
			t.Fatalf("shim: read a packet: %v", err)
		}
	}
	if r.Len() > 0 {
		t.Fatalf("shim: %d bytes too many", r.Len())
	}
}

func (q *request) write(b *bytes.Buffer) {
	var key []byte
	extended := uint32(0)
	if q.extended {
		extended = 1
	}
	if q.key != nil {
		most, fixed := q.key.Used()
		key = q.key.Bytes()[:min(most, fixed+len(q.packet)&^15)] // as ipsec.SA.DeviceKeyUsed
	}
	for _, w := range [8]uint32{uint32(q.operation), uint32(max(q.lanes, 1)), uint32(len(q.packet)), extended, q.high, q.counter, uint32(len(key))} {
		b.Write(binary.NativeEndian.AppendUint32(nil, w))
	}
	b.Write(key)
	b.Write(q.packet)
}
