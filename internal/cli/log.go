package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/control/config"
)

// NewLogger returns a logger that writes to a file in a format. It follows level.
func NewLogger(f *os.File, format config.LogFormat, level slog.Leveler) *slog.Logger {
	if format == config.LogAuto {
		format = config.LogText
		if isJournal(f, os.Getenv("JOURNAL_STREAM")) {
			format = config.LogJournal
		}
	}
	switch o := (&slog.HandlerOptions{Level: level}); format {
	case config.LogJSON:
		return slog.New(slog.NewJSONHandler(f, o))
	case config.LogJournal:
		return slog.New(newJournal(f, level))
	default:
		return slog.New(slog.NewTextHandler(f, o))
	}
}

// isJournal reports whether a file is the stream to the journal that systemd has named in JOURNAL_STREAM, as
// "device:inode" (systemd.exec(5)).
func isJournal(f *os.File, stream string) bool {
	var s unix.Stat_t
	return stream != "" && unix.Fstat(int(f.Fd()), &s) == nil && fmt.Sprintf("%d:%d", s.Dev, s.Ino) == stream
}

// journal writes text without time, which the journal adds, behind the priority (sd-daemon(3)).
type journal struct {
	slog.Handler
	lines *journalLines // shared by the handlers of all attributes
}

type journalLines struct {
	mu   sync.Mutex
	w    io.Writer
	line bytes.Buffer
}

func (l *journalLines) Write(p []byte) (int, error) { return l.line.Write(p) }

func newJournal(w io.Writer, level slog.Leveler) journal {
	lines := &journalLines{w: w}
	return journal{slog.NewTextHandler(lines, &slog.HandlerOptions{Level: level, ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
		if len(groups) == 0 && (a.Key == slog.TimeKey || a.Key == slog.LevelKey) {
			return slog.Attr{}
		}
		return a
	}}), lines}
}

func (j journal) Handle(ctx context.Context, r slog.Record) error {
	priority := 7 // LOG_DEBUG
	switch {
	case r.Level >= slog.LevelError:
		priority = 3
	case r.Level >= slog.LevelWarn:
		priority = 4
	case r.Level >= slog.LevelInfo:
		priority = 6
	}
	j.lines.mu.Lock()
	defer j.lines.mu.Unlock()
	j.lines.line.Reset()
	fmt.Fprintf(&j.lines.line, "<%d>", priority)
	if err := j.Handler.Handle(ctx, r); err != nil {
		return err
	}
	_, err := j.lines.w.Write(j.lines.line.Bytes())
	return err
}

func (j journal) WithAttrs(attrs []slog.Attr) slog.Handler {
	return journal{j.Handler.WithAttrs(attrs), j.lines}
}

func (j journal) WithGroup(name string) slog.Handler {
	return journal{j.Handler.WithGroup(name), j.lines}
}
