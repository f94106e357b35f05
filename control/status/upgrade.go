package status

import (
	"fmt"
	"io"
	"time"
)

// Upgrade is the response to `upgrade`.
type Upgrade struct {
	Result UpgradeResult `json:"result"`           // upgraded, refused or restarted
	From   string        `json:"from"`             // version of the running router
	To     string        `json:"to,omitempty"`     // version of the installed binary, once it was ready
	PID    int           `json:"pid,omitempty"`    // ID of the new process
	GapNS  int64         `json:"gap_ns,omitempty"` // time without forwarding, in nanoseconds
	Error  string        `json:"error,omitempty"`  // reason, unless upgraded
}

// UpgradeResult is the result of an upgrade.
type UpgradeResult string

const (
	UpgradeDone      UpgradeResult = "upgraded"
	UpgradeRefused   UpgradeResult = "refused"   // the running router continues, without loss
	UpgradeRestarted UpgradeResult = "restarted" // the new process failed, and the running version started again
)

// WriteUpgrade writes the result of a successful upgrade.
func WriteUpgrade(w io.Writer, u Upgrade) error {
	_, err := fmt.Fprintf(w, "upgraded from %s to %s, process %d; %v without forwarding\n", u.From, u.To, u.PID, time.Duration(u.GapNS).Round(100*time.Microsecond))
	return err
}

// Summary describes a failed upgrade in one sentence.
func (u *Upgrade) Summary() string {
	if u.Result == UpgradeRestarted {
		return fmt.Sprintf("upgrade: %s; version %s started again", u.Error, u.From)
	}
	return fmt.Sprintf("upgrade: %s; version %s continues", u.Error, u.From)
}

// Version is the response to GET /version.
type Version struct {
	Version     string `json:"version"`      // of the running router
	PID         int    `json:"pid"`          // ID of its process
	HandingOver bool   `json:"handing_over"` // true if another process has the ports
}
