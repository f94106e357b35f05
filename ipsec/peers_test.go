package ipsec

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/warproute/warproute/internal/require"
	"github.com/warproute/warproute/ipsec/suite"
)

// names are the names of a suite's parts in other programs.
var names = map[string]struct{ scapyCipher, scapyAuth, tsharkCipher, tsharkAuth string }{
	"aes128gcm16":      {"AES-GCM", "", "AES-GCM with 16 octet ICV [RFC4106]", "NULL"},
	"aes192gcm16":      {"AES-GCM", "", "AES-GCM with 16 octet ICV [RFC4106]", "NULL"},
	"aes256gcm16":      {"AES-GCM", "", "AES-GCM with 16 octet ICV [RFC4106]", "NULL"},
	"chacha20poly1305": {"CHACHA20-POLY1305", "", "", ""},
	"aes128ctr-sha1":   {"AES-CTR", "HMAC-SHA1-96", "AES-CTR [RFC3686]", "HMAC-SHA-1-96 [RFC2404]"},
	"aes128ctr-sha256": {"AES-CTR", "SHA2-256-128", "AES-CTR [RFC3686]", "HMAC-SHA-256-128 [RFC4868]"},
	"aes128-sha1":      {"AES-CBC", "HMAC-SHA1-96", "AES-CBC [RFC3602]", "HMAC-SHA-1-96 [RFC2404]"},
	"aes128-sha256":    {"AES-CBC", "SHA2-256-128", "AES-CBC [RFC3602]", "HMAC-SHA-256-128 [RFC4868]"},
	"aes256-sha256":    {"AES-CBC", "SHA2-256-128", "AES-CBC [RFC3602]", "HMAC-SHA-256-128 [RFC4868]"},
	"aes256-sha512":    {"AES-CBC", "SHA2-512-256", "AES-CBC [RFC3602]", "HMAC-SHA-512-256 [RFC4868]"},
	"null-sha256":      {"NULL", "SHA2-256-128", "NULL", "HMAC-SHA-256-128 [RFC4868]"},
}

const python = "/usr/bin/python3" // Debian's, which has Debian's scapy

// scapy returns a function that calls one scapy process.
func scapy(t *testing.T) func(question map[string]any) string {
	cmd := exec.Command(python, "testdata/scapy_esp.py")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	if err := cmd.Start(); err != nil {
		t.Fatalf("starting %v: %v; install python3-scapy", cmd, err)
	}
	t.Cleanup(func() {
		_ = stdin.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("%v: %v; it needs python3-scapy\n%s", cmd, err, &stderr)
		}
	})
	answers := bufio.NewReader(stdout)
	return func(question map[string]any) string {
		line, err := json.Marshal(question)
		require.NoError(t, err)
		if _, err := stdin.Write(append(line, '\n')); err != nil {
			t.Fatalf("asking scapy: %v\n%s", err, &stderr)
		}
		answer, err := answers.ReadString('\n')
		if err != nil && err != io.EOF {
			t.Fatalf("scapy's answer: %v\n%s", err, &stderr)
		}
		return strings.TrimSpace(answer)
	}
}

// Scapy decrypts our packets, and we decrypt scapy's: every suite, mode and family, with and without
// UDP, with ESN where scapy supports it.
func TestScapyAgrees(t *testing.T) {
	ask := scapy(t)
	rnd := rand.New(rand.NewPCG(1, 1))
	for i := range suite.All {
		st := &suite.All[i]
		for _, c := range []struct {
			mode         Mode
			outer, inner bool // IPv4
		}{{Tunnel, true, true}, {Tunnel, true, false}, {Tunnel, false, true}, {Tunnel, false, false}, {Transport, true, true}, {Transport, false, false}} {
			for variant, n := range []int{0, 1, 13, 64, 333, 1300} {
				conf := config(rnd, st.Name, c.mode, c.outer)
				conf.ESN = st.Auth == suite.Combined && variant%2 == 1
				if c.outer && variant%3 == 2 { // in IPv6 scapy sends a checksum of zero, but wants none
					conf.Encap = &Encap{4500, 4500}
				}
				out, in := pair(t, conf)
				seq := uint64(1)
				if conf.ESN {
					seq = 5<<32 + 7
					out.Skip(seq - 1)
					in.Skip(seq - 1)
				}
				question := func(what string, p []byte) map[string]any {
					auth := any(names[st.Name].scapyAuth)
					if auth == "" {
						auth = nil
					}
					return map[string]any{
						"cipher": names[st.Name].scapyCipher, "auth": auth, "spi": conf.SPI, "key": hex.EncodeToString(conf.Key),
						"auth_key": hex.EncodeToString(conf.AuthKey), "tunnel": c.mode == Tunnel, "src": conf.Src.String(), "dst": conf.Dst.String(),
						"udp": conf.Encap != nil, "esn": conf.ESN, "seq": seq, what: hex.EncodeToString(p),
					}
				}
				label := fmt.Sprintf("%s, %v, outer IPv4 %v, inner IPv4 %v, UDP %v, ESN %v, %d bytes", st.Name, c.mode, c.outer, c.inner, conf.Encap != nil, conf.ESN, n)
				p := ipPacket(rnd, c.inner, 253, n)
				setTOS(p, 0)
				f, at, length := encapsulated(t, out, p)
				if got := ask(question("open", f[at:at+length])); got != hex.EncodeToString(p) {
					t.Errorf("%s: scapy opens what we seal as\n      %s\n want %x", label, got, p)
				}
				theirs, err := hex.DecodeString(ask(question("seal", p)))
				if err != nil {
					t.Fatalf("%s: scapy does not seal: %v", label, err)
				}
				if conf.Encap != nil { // scapy counts in the length only the header
					binary.BigEndian.PutUint16(theirs[24:], uint16(len(theirs)-20))
				}
				f = frame(theirs)
				at, length, e := in.Decapsulate(0, f, frameRoom, len(theirs))
				if e != OK || !bytes.Equal(f[at:at+length], p) {
					t.Errorf("%s: we open what scapy seals (% x): %v\n got  %x\n want %x", label, theirs, e, f[at:at+length], p)
				}
			}
		}
	}
}

// Tshark decrypts our packets and verifies their ICV, in all suites but ChaCha20-Poly1305, which
// Wireshark 4 lacks for ESP.
func TestTsharkAgrees(t *testing.T) {
	rnd := rand.New(rand.NewPCG(2, 2))
	var capture bytes.Buffer
	put := func(b []byte, values ...uint32) []byte {
		for _, v := range values {
			b = binary.LittleEndian.AppendUint32(b, v)
		}
		return b
	}
	const linkRaw = 101 // the packets begin with the IP header
	capture.Write(put(nil, 0xa1b2c3d4, 4<<16|2, 0, 0, 65535, linkRaw))
	args := []string{"-n", "-o", "esp.enable_encryption_decode:TRUE", "-o", "esp.enable_authentication_check:TRUE"}
	type sent struct {
		suite string
		id    uint16 // of the inner packet
	}
	var all []sent
	for i := range suite.All {
		st := &suite.All[i]
		if names[st.Name].tsharkCipher == "" {
			continue
		}
		for _, v4 := range []bool{true, false} {
			conf := config(rnd, st.Name, Tunnel, v4)
			out := newSA(t, conf, 1)
			family := map[bool]string{true: "IPv4", false: "IPv6"}[v4]
			args = append(args, "-o", fmt.Sprintf(`uat:esp_sa:"%s","*","*","0x%08x","%s","0x%x","%s","0x%x"`, family, conf.SPI,
				names[st.Name].tsharkCipher, conf.Key, names[st.Name].tsharkAuth, conf.AuthKey))
			for _, n := range []int{0, 50, 51, 1300} {
				p := ipPacket(rnd, true, 253, n)
				setTOS(p, 0)
				f, at, length := encapsulated(t, out, p)
				capture.Write(put(nil, uint32(len(all)), 0, uint32(length), uint32(length)))
				capture.Write(f[at : at+length])
				all = append(all, sent{st.Name, binary.BigEndian.Uint16(p[4:])})
			}
		}
	}
	file := filepath.Join(t.TempDir(), "esp.pcap")
	require.NoError(t, os.WriteFile(file, capture.Bytes(), 0o600))
	cmd := exec.Command("tshark", append(args, "-r", file, "-T", "fields", "-e", "ip.id", "-e", "esp.icv_good", "-e", "_ws.malformed")...)
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir()) // nobody's settings
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	text, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v; install tshark\n%s", cmd, err, &stderr)
	}
	lines := strings.Split(strings.TrimRight(string(text), "\n"), "\n")
	if len(lines) != len(all) {
		t.Fatalf("tshark shows %d packets of %d\n%s%s", len(lines), len(all), text, &stderr)
	}
	for i, line := range lines {
		fields := strings.Split(line, "\t")
		ids := strings.Split(fields[0], ",") // the outer one's first, if it has one
		if want := fmt.Sprintf("0x%04x", all[i].id); ids[len(ids)-1] != want || fields[1] != "1" && fields[1] != "True" || fields[2] != "" {
			t.Errorf("packet %d, %s: tshark shows IDs, ICV, faults %q, want ID %s and a good ICV", i, all[i].suite, fields, want)
		}
	}
}
