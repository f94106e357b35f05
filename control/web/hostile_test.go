package web

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"

	"github.com/warproute/warproute/internal/require"
)

// certificate writes cert.pem and key.pem to a directory, and returns a client that trusts only them.
func certificate(t *testing.T, dir string) *http.Client {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	write(t, filepath.Join(dir, "cert.pem"), string(cert))
	write(t, filepath.Join(dir, "key.pem"), string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})))
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(cert)
	return &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, DisableKeepAlives: true}, Timeout: 20 * time.Second}
}

func write(t *testing.T, file, text string) {
	t.Helper()
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
}

// config writes a web configuration file with TLS and the user prometheus.
func config(t *testing.T, dir, password string) string {
	t.Helper()
	hash, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
	require.NoError(t, err)
	file := filepath.Join(dir, "web.yaml")
	write(t, file, fmt.Sprintf("tls_server_config: {cert_file: cert.pem, key_file: key.pem}\nbasic_auth_users: {prometheus: %q}\n", hash))
	return file
}

// journal is a log that tests read.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *journal) Write(b []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(b)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

// secured serves "forwarding" with TLS and the password "right".
func secured(t *testing.T, dir string, log io.Writer) (s *Server, address string) {
	t.Helper()
	s, err := Serve(Endpoint{Key: "metrics.listen", Listen: "127.0.0.1:0", WebConfig: config(t, dir, "right"), Connections: 8,
		Log: slog.New(slog.NewTextHandler(log, nil)), Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "forwarding") })})
	require.NoError(t, err)
	t.Cleanup(func() { s.Close() })
	return s, s.Addr().String()
}

// get returns the status and the body of a GET request.
func get(client *http.Client, url, user, password string) (int, string, error) {
	r, err := http.NewRequest("GET", url, nil)
	if err != nil {
		return 0, "", err
	}
	if user != "" {
		r.SetBasicAuth(user, password)
	}
	resp, err := client.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(body), err
}

func TestOnlyThePasswordOverTLSIsAnswered(t *testing.T) {
	dir := t.TempDir()
	client := certificate(t, dir)
	_, address := secured(t, dir, io.Discard)
	for _, c := range []struct {
		url, user, password string
		status              int
		want                string
	}{
		{"https://", "prometheus", "right", 200, "forwarding"},
		{"https://", "prometheus", "wrong", 401, "Unauthorized"},
		{"https://", "prometheus", "", 401, "Unauthorized"},
		{"https://", "root", "right", 401, "Unauthorized"},
		{"https://", "", "", 401, "Unauthorized"},
		{"https://", "prometheus", strings.Repeat("x", 2*maxHeader), 431, ""},
		{"http://", "prometheus", "right", 400, "HTTPS server"},
	} {
		status, body, err := get(client, c.url+address, c.user, c.password)
		if err != nil || status != c.status || !strings.Contains(body, c.want) || c.status != 200 && strings.Contains(body, "forwarding") {
			t.Errorf("%s, user %q, password of %d bytes: %d, %q, %v; want %d", c.url, c.user, len(c.password), status, body, err, c.status)
		}
	}
	if _, _, err := get(http.DefaultClient, "https://"+address, "prometheus", "right"); err == nil {
		t.Error("a client that does not know the certificate trusts it")
	}
}

// A server is complete when Serve returns: a file that is emptied right after does not disable TLS.
func TestFileEmptiedAtTheStartDoesNotDisableTLS(t *testing.T) {
	dir := t.TempDir()
	certificate(t, dir)
	for range 50 {
		s, address := secured(t, dir, io.Discard)
		write(t, filepath.Join(dir, "web.yaml"), "")
		if status, body, err := get(http.DefaultClient, "http://"+address, "", ""); err == nil && status != 400 || strings.Contains(body, "forwarding") {
			t.Fatalf("%d, %q, %v", status, body, err)
		}
		require.NoError(t, s.Close())
	}
}

// A certificate that is replaced by a broken file, or a key that does not belong to it, is never answered in
// plaintext or without a password. The failure is logged once, and a valid certificate works at once.
func TestBrokenCertificateIsReportedAndReplaced(t *testing.T) {
	dir, log := t.TempDir(), new(journal)
	client := certificate(t, dir)
	_, address := secured(t, dir, log)
	key, err := os.ReadFile(filepath.Join(dir, "key.pem"))
	require.NoError(t, err)
	certificate(t, dir) // another pair
	for name, text := range map[string]string{"key.pem": string(key), "cert.pem": "no certificate", "web.yaml": "", "./web.yaml": "basic_auth_users: [\n"} {
		write(t, filepath.Join(dir, name), text)
		for range 20 {
			if status, body, err := get(client, "https://"+address, "prometheus", "right"); err == nil {
				t.Fatalf("broken %s: %d, %q", name, status, body)
			}
		}
	}
	for start := time.Now(); !strings.Contains(log.String(), "TLS handshake error"); time.Sleep(time.Millisecond) {
		if time.Since(start) > 5*time.Second {
			t.Fatalf("failures are not logged:\n%s", log)
		}
	}
	if n := strings.Count(log.String(), "\n"); n != 1 {
		t.Errorf("%d lines in the log for 80 failures:\n%s", n, log)
	}
	client = certificate(t, dir)
	config(t, dir, "right")
	if status, body, err := get(client, "https://"+address, "prometheus", "right"); status != 200 || body != "forwarding" {
		t.Errorf("after the repair: %d, %q, %v", status, body, err)
	}
}

func TestServeRejectsInvalidWebConfigurations(t *testing.T) {
	dir := t.TempDir()
	certificate(t, dir)
	for _, c := range []struct{ text, want string }{
		{"tls_server_config: {cert_file: none.pem, key_file: key.pem}\n", "none.pem"},
		{"tls_server_config: {cert_file: cert.pem, key_file: cert.pem}\n", "X509KeyPair"},
		{"tls_server_config: {cert_file: cert.pem}\n", "missing one of key"},
		{"basic_auth_users: {prometheus: plaintext}\n", "hashedSecret"},
		{"tls_server: {}\n", "tls_server"},
	} {
		file := filepath.Join(dir, "web.yaml")
		write(t, file, c.text)
		s, err := Serve(Endpoint{Key: "metrics.listen", Listen: "127.0.0.1:0", WebConfig: file, Handler: http.NotFoundHandler()})
		if err == nil {
			s.Close()
			t.Errorf("%q is served", c.text)
		} else if !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), file) {
			t.Errorf("%q: %v", c.text, err)
		}
	}
}

// Clients that connect and send nothing, or half a request, occupy all connections only until their timeout.
// Clients without a password cannot keep a connection either.
func TestStalledClientsDoNotOccupyTheServer(t *testing.T) {
	dir := t.TempDir()
	client := certificate(t, dir)
	_, address := secured(t, dir, io.Discard)
	for i := range 8 {
		c, err := net.Dial("tcp", address)
		require.NoError(t, err)
		defer c.Close()
		if i%2 == 0 {
			secure := tls.Client(c, &tls.Config{InsecureSkipVerify: true})
			_, err = secure.Write([]byte("GET / HTTP/1.1\r\nHost: a\r\n"))
			require.NoError(t, err)
		}
	}
	start := time.Now()
	status, body, err := get(client, "https://"+address, "prometheus", "right")
	if took := time.Since(start); status != 200 || body != "forwarding" || took > 2*requestTimeout {
		t.Errorf("%d, %q, %v after %v", status, body, err, took)
	} else if took < requestTimeout/2 {
		t.Errorf("answered after %v: the connections were not occupied", took)
	}
	idle := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	for range 16 { // twice as many as there are connections, kept by the client
		if status, _, err := get(idle, "https://"+address, "", ""); status != 401 {
			t.Fatalf("%d, %v", status, err)
		}
	}
}
