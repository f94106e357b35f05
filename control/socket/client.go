package socket

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"

	"golang.org/x/sys/unix"
)

// ErrNoRouter is wrapped by errors about a socket that no process serves.
var ErrNoRouter = errors.New("no router is running")

// ErrUnknownRequest is wrapped by errors about a request that the router does not know.
var ErrUnknownRequest = errors.New("it may be of another version")

// Get sends a GET request for a path, optionally with a query, to the router at a socket and
// decodes the answer into out.
func Get(ctx context.Context, socketPath, path string, out any) error {
	return get(ctx, socketPath, path, func(d *json.Decoder) error { return d.Decode(out) })
}

// Post is like Get with a POST request, which changes the router.
func Post(ctx context.Context, socketPath, path string, out any) error {
	return ask(ctx, http.MethodPost, socketPath, path, func(d *json.Decoder) error { return d.Decode(out) })
}

// Each is like Get for a long array: it calls f with each element and returns the first error of f.
func Each[T any](ctx context.Context, socketPath, path string, f func(T) error) error {
	return get(ctx, socketPath, path, func(d *json.Decoder) error {
		if _, err := d.Token(); err != nil {
			return err
		}
		for d.More() {
			var element T
			if err := d.Decode(&element); err != nil {
				return err
			}
			if err := f(element); err != nil {
				return stop{err}
			}
		}
		_, err := d.Token()
		return err
	})
}

// stop marks an error of the caller's function, which get returns unchanged.
type stop struct{ error }

func get(ctx context.Context, socketPath, path string, decode func(*json.Decoder) error) error {
	return ask(ctx, http.MethodGet, socketPath, path, decode)
}

// ask sends a request and decodes the answer.
func ask(ctx context.Context, method, socketPath, path string, decode func(*json.Decoder) error) error {
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socketPath)
	}}
	defer transport.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, method, "http://warproute"+path, nil)
	if err != nil {
		return fmt.Errorf("ask the router for %s: %w", path, err)
	}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return dialError(socketPath, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return answerError(path, resp)
	}
	err = decode(json.NewDecoder(resp.Body))
	var own stop
	switch {
	case err == nil:
		return nil
	case errors.As(err, &own):
		return own.error
	case errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("read the router's answer about %s: truncated: the router stopped, or the client stalled for %v; "+
			"write the answer to a file and read that", path, stallTimeout)
	}
	return fmt.Errorf("read the router's answer about %s: %w", path, err)
}

// dialError adds a hint to a connection error.
func dialError(path string, err error) error {
	switch {
	case errors.Is(err, os.ErrNotExist), errors.Is(err, unix.ECONNREFUSED):
		return fmt.Errorf("%w at %s: `systemctl status warproute` says why it ended; start one with `warproute run`, or name its socket with --socket", ErrNoRouter, path)
	case errors.Is(err, os.ErrPermission):
		return fmt.Errorf("open control socket %s: permission denied: it is for root, the user that runs the router, and its group (control.group); use sudo", path)
	}
	return fmt.Errorf("ask the router at %s: %w", path, err)
}

// answerError converts an answer with a status other than 200 to an error.
func answerError(path string, resp *http.Response) error {
	var f failure
	if json.NewDecoder(resp.Body).Decode(&f) == nil && f.Error != "" {
		return errors.New(f.Error)
	}
	if resp.StatusCode == http.StatusNotFound {
		return fmt.Errorf("the router does not know %s: %w", path, ErrUnknownRequest)
	}
	return fmt.Errorf("ask the router for %s: %s", path, resp.Status)
}
