package drivers

import (
	"fmt"
	"strings"
)

// Table returns the drivers as a table of Markdown, for docs/nics.md.
func Table() string {
	var b strings.Builder
	b.WriteString("| driver | hardware | native since | zero-copy since | MTU with native | notes | tested | source |\n|---|---|---|---|---|---|---|---|\n")
	for _, d := range All {
		fmt.Fprintf(&b, "| %s | %s | %v | %v | %s | %s | %s | %s |\n", d.Name, d.Hardware, d.Native, d.ZeroCopy, d.mtu(), d.notes(), tested(d.Tested), d.Source)
	}
	return b.String()
}

// mtu describes the limit of the MTU.
func (d Driver) mtu() string {
	switch {
	case d.Native == Version{}:
		return ""
	case d.MTU == 0:
		return "unknown"
	case d.MultiBuffer != Version{}:
		return fmt.Sprintf("%d before %v", d.MTU, d.MultiBuffer)
	}
	return fmt.Sprint(d.MTU)
}

// notes joins the properties.
func (d Driver) notes() string {
	var notes []string
	if d.Unit > 0 {
		notes = append(notes, fmt.Sprintf("zero-copy buffers in units of %d bytes", d.Unit))
	}
	if d.Channels != "" {
		notes = append(notes, "channels: "+string(d.Channels))
	}
	if d.Resets {
		notes = append(notes, "attaching resets the link")
	}
	if d.ForgetsProgram {
		notes = append(notes, "runs no program after the interface was set down and up, or got another MTU: the router attaches it again after 2 to 3 s of traffic")
	}
	if d.Note != "" {
		notes = append(notes, d.Note)
	}
	return strings.Join(notes, "; ")
}

func tested(by string) string {
	if by == "" {
		return "not run on hardware"
	}
	return by
}
