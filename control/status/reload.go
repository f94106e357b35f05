package status

import (
	"fmt"
	"io"
	"time"

	"github.com/warproute/warproute/control/config"
)

// Reload is the answer of `reload`: how the configuration differs from the one in force,
// and what was done about it.
type Reload struct {
	Result  ReloadResult    `json:"result"`
	DryRun  bool            `json:"dry_run,omitempty"` // applied and refused mean what would be
	Changes []config.Change `json:"changes"`
	Restart []string        `json:"restart,omitempty"` // refused: keys of changes that take a restart
	Faults  []Fault         `json:"faults,omitempty"`  // invalid
	Error   string          `json:"error,omitempty"`   // failed, or invalid without faults
}

// ReloadResult is what became of a reload, as the metrics call it.
type ReloadResult string

const (
	ReloadApplied   ReloadResult = "applied"
	ReloadUnchanged ReloadResult = "unchanged" // nothing differs
	ReloadRefused   ReloadResult = "refused"   // something takes a restart
	ReloadInvalid   ReloadResult = "invalid"   // the configuration is wrong
	ReloadFailed    ReloadResult = "failed"    // a change could not be made, and none was
)

// ReloadResults are all of them.
var ReloadResults = []ReloadResult{ReloadApplied, ReloadUnchanged, ReloadRefused, ReloadInvalid, ReloadFailed}

// Fault is one thing that is wrong with a configuration.
type Fault struct {
	File    string `json:"file,omitempty"`
	Line    int    `json:"line,omitempty"` // from 1, as is Column
	Column  int    `json:"column,omitempty"`
	Message string `json:"message"`
	Mend    string `json:"mend"`
}

// Error is the fault as whoever read the configuration had it.
func (f Fault) Error() *config.Error {
	return &config.Error{File: f.File, Line: f.Line, Column: f.Column, Msg: f.Message, Mend: f.Mend}
}

// ConfigState is what configuration is in force.
type ConfigState struct {
	Loaded  time.Time // when it was put in force
	Tried   time.Time // when a reload was last asked for; zero: never
	Reloads map[ReloadResult]uint64
}

// WriteReload writes a line for each change and, if it is well, what became of them.
func WriteReload(w io.Writer, r Reload) error {
	for _, c := range r.Changes {
		if _, err := fmt.Fprintln(w, c); err != nil {
			return err
		}
	}
	if r.Result != ReloadApplied && r.Result != ReloadUnchanged {
		return nil
	}
	_, err := fmt.Fprintln(w, r.Summary())
	return err
}

// Summary says in a sentence what became of the reload.
func (r *Reload) Summary() string {
	n := fmt.Sprintf("%d changes", len(r.Changes))
	if len(r.Changes) == 1 {
		n = "1 change"
	}
	switch r.Result {
	case ReloadApplied:
		if r.DryRun {
			return n + " would be applied"
		}
		return n + " applied"
	case ReloadUnchanged:
		return "nothing differs from the configuration in force"
	case ReloadRefused:
		return fmt.Sprintf("nothing was changed, because this takes a restart: %s", list(r.Restart))
	}
	return "nothing was changed: " + r.Error
}

func list(names []string) string {
	text := ""
	for i, name := range names {
		if i == 5 && len(names) > 6 {
			return fmt.Sprintf("%s and %d more", text, len(names)-i)
		}
		if i > 0 {
			text += ", "
		}
		text += name
	}
	return text
}
