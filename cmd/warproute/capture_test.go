package main

import (
	"bytes"
	"context"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/warproute/warproute/control/socket"
	"github.com/warproute/warproute/internal/require"
)

func TestCaptureSendsFlagsAndWritesTheAnswer(t *testing.T) {
	var asked url.Values
	socketPath := filepath.Join(t.TempDir(), "w.sock")
	s, err := socket.Serve(socketPath, map[string]socket.Handler{"/capture": func(r *http.Request) (any, error) {
		asked = r.URL.Query()
		return &socket.Content{Type: "x", Write: func(_ context.Context, w *socket.ContentWriter) error {
			w.Note("Captured", "7")
			w.Note("Missed", "1")
			_, err := w.Write([]byte("packets"))
			return err
		}}, nil
	}}, socket.Access{Group: -1})
	require.NoError(t, err)
	defer s.Close()
	file := filepath.Join(t.TempDir(), "c")
	for args, want := range map[string]string{
		"":                                      "drop=1&rx=1&tx=1",
		"--drop":                                "drop=1",
		"--reason no_route --reason ether_type": "drop=1&reason=no_route&reason=ether_type",
		"--rx --port lan0 --port wan0 --count 5 --duration 3s --snaplen 64 tcp and port 80": "count=5&duration=3s&filter=tcp+and+port+80&port=lan0&port=wan0&rx=1&snaplen=64",
	} {
		var out, messages bytes.Buffer
		root := newRootCommand()
		root.SetOut(&out)
		root.SetErr(&messages)
		root.SetArgs(append([]string{"capture", "--socket", socketPath, "-w", file}, strings.Fields(args)...))
		require.NoError(t, root.ExecuteContext(t.Context()))
		if diff := cmp.Diff(want, asked.Encode()); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", args, diff)
		}
		if b, err := os.ReadFile(file); string(b) != "packets" || err != nil {
			t.Errorf("%s: file: %q, %v", args, b, err)
		}
		if messages.String() != "7 packets captured, 1 missed\n" {
			t.Errorf("%s: stderr: %q", args, &messages)
		}
	}
}
