package web

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"
)

const logInterval = 10 * time.Second

// sparse is a log handler for failures that clients cause, such as failed TLS handshakes. It logs at most one
// warning per interval, so that clients cannot fill the log.
type sparse struct {
	log  *slog.Logger
	key  string // of the server's address
	next atomic.Int64
}

func (h *sparse) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelWarn }

func (h *sparse) Handle(_ context.Context, r slog.Record) error {
	due := h.next.Load()
	if now := r.Time.UnixNano(); now < due || !h.next.CompareAndSwap(due, now+int64(logInterval)) {
		return nil
	}
	reason := r.Message
	r.Attrs(func(a slog.Attr) bool { reason += ": " + a.Value.String(); return true })
	h.log.Warn("request not answered, further ones are not logged for 10 s", "reason", h.key+": "+reason)
	return nil
}

// WithAttrs and WithGroup are not used by servers.
func (h *sparse) WithAttrs([]slog.Attr) slog.Handler { return h }
func (h *sparse) WithGroup(string) slog.Handler      { return h }
