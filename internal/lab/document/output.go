package document

import (
	"fmt"
	"net/netip"
	"regexp"
	"strings"
)

var (
	word   = regexp.MustCompile(`[^\s=()\[\];"|]+`)
	number = regexp.MustCompile(`^[-+#]?\d+(,\d{3})*(\.\d+)?(ns|µs|us|ms|s|m|h|B|[KMG](i?B)?)?$|^\d\d:\d\d:\d\d$`)
	hex    = regexp.MustCompile(`^(0x)?[0-9a-f]{8,40}(_[ir]\*?)?$`)
)

// Compare compares a printed output with that of a document. All lines of the document must be printed, in
// order; others may be between them. Numbers, durations and SPIs may differ, addresses and words may not. A line
// "..." is ignored, and a line that ends with it is the beginning of one.
func Compare(printed, want string) error {
	lines := strings.Split(printed, "\n")
	for line := range strings.Lines(want) {
		line = strings.TrimSpace(line)
		if line == "" || line == "..." {
			continue
		}
		found := false
		for i, got := range lines {
			if same(got, line) {
				lines, found = lines[i+1:], true
				break
			}
		}
		if !found {
			return fmt.Errorf("no line %q, or not in this order, in:\n%s", line, printed)
		}
	}
	return nil
}

func same(printed, want string) bool {
	begin, short := strings.CutSuffix(want, "...")
	got := normal(printed)
	return got == normal(want) || short && strings.HasPrefix(got, normal(begin))
}

// normal replaces numbers by one character, and collapses spaces.
func normal(line string) string {
	line = word.ReplaceAllStringFunc(line, func(w string) string {
		core := strings.TrimRight(w, ".:,")
		if _, err := netip.ParseAddr(core); err != nil && (number.MatchString(core) || hex.MatchString(core)) {
			return "#" + w[len(core):]
		}
		return w
	})
	return strings.Join(strings.Fields(line), " ")
}
