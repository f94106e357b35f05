package web_test

import (
	"fmt"
	"io"
	"net/http"

	"github.com/warproute/warproute/control/web"
)

// A server answers until Close.
func Example() {
	s, err := web.Serve(web.Endpoint{Key: "status.listen", Listen: "127.0.0.1:0", Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, "forwarding")
	})})
	if err != nil {
		panic(err)
	}
	defer s.Close()
	resp, err := http.Get("http://" + s.Addr().String())
	if err != nil {
		panic(err)
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	fmt.Println(string(body))
	// Output: forwarding
}
