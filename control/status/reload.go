package status

import (
	"fmt"
	"io"
	"time"

	"github.com/warproute/warproute/control/config"
)

// Reload is the response to `reload`: the changes against the active configuration and the
// result.
type Reload struct {
	Result  ReloadResult    `json:"result"`            // applied, unchanged, refused, invalid or failed
	DryRun  bool            `json:"dry_run,omitempty"` // true if no change was applied
	Changes []config.Change `json:"changes"`           // changes against the active configuration
	Restart []string        `json:"restart,omitempty"` // changed keys that need a restart, with result refused
	Faults  []Fault         `json:"faults,omitempty"`  // configuration errors, with result invalid
	Error   string          `json:"error,omitempty"`   // error message, with result failed or with result invalid and no faults
}

// ReloadResult is the result of a reload, also a metric label.
type ReloadResult string

const (
	ReloadApplied   ReloadResult = "applied"
	ReloadUnchanged ReloadResult = "unchanged" // no changes
	ReloadRefused   ReloadResult = "refused"   // a change needs a restart
	ReloadInvalid   ReloadResult = "invalid"   // the configuration is wrong
	ReloadFailed    ReloadResult = "failed"    // a change could not be applied, so the configuration did not change
)

// ReloadResults lists all results.
var ReloadResults = []ReloadResult{ReloadApplied, ReloadUnchanged, ReloadRefused, ReloadInvalid, ReloadFailed}

// Fault is an error in a configuration.
type Fault struct {
	File    string `json:"file,omitempty"`   // configuration file
	Line    int    `json:"line,omitempty"`   // line number from 1
	Column  int    `json:"column,omitempty"` // column number from 1
	Message string `json:"message"`          // error message
	Hint    string `json:"hint"`             // suggested fix
}

// Error converts the fault back to a configuration error.
func (f Fault) Error() *config.Error {
	return &config.Error{File: f.File, Line: f.Line, Column: f.Column, Msg: f.Message, Hint: f.Hint}
}

// ConfigState describes the active configuration.
type ConfigState struct {
	Loaded  time.Time               // load time
	Tried   time.Time               // last reload request; zero: never
	Reloads map[ReloadResult]uint64 // number of reloads by result
}

// WriteReload writes one line per change and, on success, the summary.
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

// Summary describes the result in one sentence.
func (r *Reload) Summary() string {
	n := count(len(r.Changes), "change")
	switch r.Result {
	case ReloadApplied:
		if r.DryRun {
			return n + " would be applied"
		}
		return n + " applied"
	case ReloadUnchanged:
		return "no changes to the active configuration"
	case ReloadRefused:
		return fmt.Sprintf("nothing changed; these keys need a restart: %s", list(r.Restart))
	}
	return "nothing changed: " + r.Error
}

// list joins names, and shortens lists of more than 6.
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
