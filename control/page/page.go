package page

import (
	"embed"
	"io/fs"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"

	"github.com/warproute/warproute/control/status"
)

//go:embed assets
var assets embed.FS

// Source is a router.
type Source struct {
	Version  string
	Snapshot func() *status.Snapshot // any goroutine may call it
	Ending   <-chan struct{}         // closed when streams should end
}

// policy lets the page load its own files only.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// Handler serves the page at / and its data at /events, as server-sent events
// (https://html.spec.whatwg.org/multipage/server-sent-events.html): one message per second, see Message.
func Handler(s Source) http.Handler {
	files, err := fs.Sub(assets, "assets")
	if err != nil {
		panic(err) // never: the directory is embedded
	}
	host, _ := os.Hostname()
	mux := http.NewServeMux()
	mux.Handle("GET /", http.FileServerFS(files))
	mux.Handle("GET /events", &stream{source: s, host: host})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !isOurs(r.Host, host) {
			http.Error(w, "use the address of this host, its name "+host+", or localhost", http.StatusMisdirectedRequest)
			return
		}
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-cache")
		mux.ServeHTTP(w, r)
	})
}

// isOurs reports whether a Host header names this host. A web site whose name resolves to the host (DNS
// rebinding) could read the page through its visitors' browsers.
func isOurs(header, host string) bool {
	name, _, err := net.SplitHostPort(header)
	if err != nil {
		name = strings.Trim(header, "[]")
	}
	if _, err := netip.ParseAddr(name); err == nil {
		return true
	}
	short, _, _ := strings.Cut(name, ".")
	own, _, _ := strings.Cut(host, ".")
	return strings.EqualFold(name, "localhost") || strings.EqualFold(name, host) || name == short && strings.EqualFold(short, own)
}
