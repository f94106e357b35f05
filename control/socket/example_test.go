package socket_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"

	"github.com/warproute/warproute/control/socket"
)

// A router serves its state, and `warproute show` requests it.
func Example() {
	dir, err := os.MkdirTemp("", "socket")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	type port struct {
		Name string `json:"name"`
		MTU  int    `json:"mtu"`
	}
	path := filepath.Join(dir, "control.sock")
	server, err := socket.Serve(path, map[string]socket.Handler{
		"/ports": func(*http.Request) (any, error) { return []port{{"eth1", 1500}, {"eth2", 9000}}, nil },
	}, socket.Access{Group: -1})
	if err != nil {
		panic(err)
	}
	defer server.Close()

	var ports []port
	if err := socket.Get(context.Background(), path, "/ports", &ports); err != nil {
		panic(err)
	}
	fmt.Println(ports)
	// Output: [{eth1 1500} {eth2 9000}]
}
