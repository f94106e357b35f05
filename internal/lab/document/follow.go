package document

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Host is a host of a lab.
type Host interface {
	// Run runs a script in a shell that ends with the first failure, and returns what it prints.
	Run(script string) (string, error)
	// Start starts a command in the background.
	Start(command string) error
	// Write writes a file.
	Write(path, text string) error
}

// patience is how long a check, which is a block with an output, may fail.
const patience = 90 * time.Second

// Follow does the steps of a document on hosts by name, like a reader. From and to are headings of level 2, the first and
// the last to follow; "" is the beginning or the end.
func Follow(t *testing.T, file, from, to string, hosts map[string]Host) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	steps, err := Parse(string(text))
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	name, begin, ran := filepath.Base(file), time.Now(), 0
	started, ended := from == "", false
	for _, s := range steps {
		started = started || s.Section == from
		ended = ended || to != "" && ran > 0 && s.Section != to && seen(steps, to, s.Line)
		if !started || ended {
			continue
		}
		on := s.Hosts
		if len(on) == 0 {
			on = []string{""}
		}
		for _, h := range on {
			host, ok := hosts[h]
			if !ok {
				t.Fatalf("%s, line %d: no host %q", name, s.Line, h)
			}
			start := time.Now()
			out, err := s.do(host)
			t.Logf("%s, line %d, %s, %v: %s%s", name, s.Line, h, time.Since(start).Round(10*time.Millisecond), s.Text, out)
			if err != nil {
				t.Fatalf("%s, line %d, %s: %v", name, s.Line, h, err)
			}
			ran++
		}
	}
	if ran == 0 {
		t.Errorf("%s has no steps from %q to %q", name, from, to)
	}
	t.Logf("%s: %d steps in %v", name, ran, time.Since(begin).Round(100*time.Millisecond))
}

// seen reports whether a section has a step before a line.
func seen(steps []Step, section string, line int) bool {
	for _, s := range steps {
		if s.Section == section && s.Line < line {
			return true
		}
	}
	return false
}

// do does a step. A check is repeated until its output is right.
func (s *Step) do(h Host) (out string, err error) {
	switch s.Kind {
	case File:
		return "", h.Write(s.Path, s.Text)
	case Background:
		return "", h.Start(s.Text)
	}
	for end := time.Now().Add(patience); ; time.Sleep(200 * time.Millisecond) {
		out, err = h.Run(s.Text)
		if err != nil {
			err = fmt.Errorf("%w: %s", err, out)
		} else {
			err = Compare(out, s.Output)
		}
		if err == nil || s.Output == "" || time.Now().After(end) {
			return out, err
		}
	}
}
