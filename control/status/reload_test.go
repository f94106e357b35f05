package status

import (
	"strings"
	"testing"

	"github.com/warproute/warproute/control/config"
)

func TestWriteReloadPrintsChangesAndSummary(t *testing.T) {
	change := []config.Change{{Key: "workers", Kind: config.Changed, From: "0", To: "1"}}
	for _, c := range []struct {
		reload        Reload
		want, summary string
	}{
		{Reload{Result: ReloadApplied, Changes: change}, "~ workers: 0 -> 1\n1 change applied\n", "1 change applied"},
		{Reload{Result: ReloadApplied, Changes: change, DryRun: true}, "~ workers: 0 -> 1\n1 change would be applied\n", "1 change would be applied"},
		{Reload{Result: ReloadUnchanged}, "no changes to the active configuration\n", "no changes to the active configuration"},
		{Reload{Result: ReloadRefused, Changes: change, Restart: strings.Split("a b c d e f g", " ")}, "~ workers: 0 -> 1\n",
			"nothing changed; these keys need a restart: a, b, c, d, e and 2 more"},
		{Reload{Result: ReloadFailed, Error: "no room"}, "", "nothing changed: no room"},
	} {
		var b strings.Builder
		if err := WriteReload(&b, c.reload); err != nil || b.String() != c.want || c.reload.Summary() != c.summary {
			t.Errorf("%s: %q, %q, %v", c.reload.Result, b.String(), c.reload.Summary(), err)
		}
	}
}
