package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/control/config"
	"github.com/warproute/warproute/internal/require"
)

// logged returns what a function logs in a format.
func logged(t *testing.T, format config.LogFormat, level slog.Leveler, f func(*slog.Logger)) string {
	t.Helper()
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	f(NewLogger(w, format, level))
	require.NoError(t, w.Close())
	text, err := io.ReadAll(r)
	require.NoError(t, err)
	return string(text)
}

func TestLogFormats(t *testing.T) {
	speak := func(l *slog.Logger) {
		l.Debug("not at this level")
		l.Info("port open", "port", "lan0", "hint", "two words\nand a line")
		l.Warn("slow")
		l.With("port", "wan0").WithGroup("g").Error("gone", "err", io.EOF)
	}
	if got, want := logged(t, config.LogJournal, slog.LevelInfo, speak), `<6>msg="port open" port=lan0 hint="two words\nand a line"
<4>msg=slow
<3>msg=gone port=wan0 g.err=EOF
`; got != want {
		t.Errorf("journal:\n%s\nwant\n%s", got, want)
	}
	lines := strings.Split(strings.TrimSpace(logged(t, config.LogJSON, slog.LevelInfo, speak)), "\n")
	var first map[string]any
	require.NoError(t, json.Unmarshal([]byte(lines[0]), &first))
	if len(lines) != 3 || first["msg"] != "port open" || first["level"] != "INFO" || first["time"] == nil {
		t.Errorf("JSON: %q", lines)
	}
	if got := logged(t, config.LogText, slog.LevelInfo, speak); !strings.HasPrefix(got, "time=") || !strings.Contains(got, ` level=INFO msg="port open" port=lan0 `) || strings.Count(got, "\n") != 3 {
		t.Errorf("text: %s", got)
	}
}

// A level that changes applies at once, in every format.
func TestLogLevelChanges(t *testing.T) {
	for _, format := range []config.LogFormat{config.LogText, config.LogJSON, config.LogJournal} {
		var level slog.LevelVar
		got := logged(t, format, &level, func(l *slog.Logger) {
			l = l.With("a", 1)
			l.Debug("one")
			level.Set(slog.LevelDebug)
			l.Debug("two")
			level.Set(slog.LevelError)
			l.Warn("three")
		})
		if strings.Count(got, "\n") != 1 || !strings.Contains(got, "two") {
			t.Errorf("%s: %q", format, got)
		}
	}
}

// Format auto is that of the journal if systemd has connected the file to it, and else text.
func TestLogDetectsTheJournal(t *testing.T) {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	var s unix.Stat_t
	require.NoError(t, unix.Fstat(int(w.Fd()), &s))
	t.Setenv("JOURNAL_STREAM", fmt.Sprintf("%d:%d", s.Dev, s.Ino))
	NewLogger(w, config.LogAuto, slog.LevelInfo).Info("hello")
	t.Setenv("JOURNAL_STREAM", "1:2")
	NewLogger(w, config.LogAuto, slog.LevelInfo).Info("hello")
	require.NoError(t, w.Close())
	text, err := io.ReadAll(r)
	require.NoError(t, err)
	if got := string(text); !strings.HasPrefix(got, "<6>msg=hello\ntime=") {
		t.Errorf("got %q", got)
	}
}

// Lines of several goroutines do not mix, also of derived loggers.
func TestJournalLinesAreWhole(t *testing.T) {
	const goroutines, each = 8, 50
	got := logged(t, config.LogJournal, slog.LevelInfo, func(l *slog.Logger) {
		var wg sync.WaitGroup
		for i := range goroutines {
			wg.Go(func() {
				for range each {
					l.With("worker", i).Error("chunk late")
				}
			})
		}
		wg.Wait()
	})
	for i := range goroutines {
		if n := strings.Count("\n"+got, fmt.Sprintf("\n<3>msg=\"chunk late\" worker=%d\n", i)); n == 0 {
			t.Errorf("no line of worker %d", i)
		}
	}
	if n := strings.Count(got, "<3>"); n != goroutines*each || strings.Count(got, "\n") != n {
		t.Errorf("%d lines", n)
	}
}
