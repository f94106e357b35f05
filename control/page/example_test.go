package page_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/warproute/warproute/control/page"
	"github.com/warproute/warproute/control/status"
)

// The page of a router is part of the binary.
func ExampleHandler() {
	h := page.Handler(page.Source{Version: "v1.0.0", Snapshot: func() *status.Snapshot { return nil }})
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://localhost:9274/", nil))
	fmt.Println(w.Code, w.Header().Get("Content-Type"))
	// Output: 200 text/html; charset=utf-8
}
