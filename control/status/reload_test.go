package status

import (
	"strings"
	"testing"

	"github.com/warproute/warproute/control/config"
)

// A reload that is well says what was done; one that is not leaves that to the error.
func TestWriteReload(t *testing.T) {
	change := []config.Change{{Key: "workers", Kind: config.Changed, From: "0", To: "1"}}
	for _, c := range []struct {
		reload        Reload
		want, summary string
	}{
		{Reload{Result: ReloadApplied, Changes: change}, "~ workers: 0 -> 1\n1 change applied\n", "1 change applied"},
		{Reload{Result: ReloadApplied, Changes: change, DryRun: true}, "~ workers: 0 -> 1\n1 change would be applied\n", "1 change would be applied"},
		{Reload{Result: ReloadUnchanged}, "nothing differs from the configuration in force\n", "nothing differs from the configuration in force"},
		{Reload{Result: ReloadRefused, Changes: change, Restart: strings.Split("a b c d e f g", " ")}, "~ workers: 0 -> 1\n",
			"nothing was changed, because this takes a restart: a, b, c, d, e and 2 more"},
		{Reload{Result: ReloadFailed, Error: "no room"}, "", "nothing was changed: no room"},
	} {
		var b strings.Builder
		if err := WriteReload(&b, c.reload); err != nil || b.String() != c.want || c.reload.Summary() != c.summary {
			t.Errorf("%s: %q, %q, %v", c.reload.Result, b.String(), c.reload.Summary(), err)
		}
	}
}
