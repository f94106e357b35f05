package lab

import (
	"slices"
	"testing"
)

func TestBlocksAreThoseBetweenFences(t *testing.T) {
	const fence = "```"
	got := Blocks("# Title\n" + fence + "frr file spine:/etc/frr/frr.conf\nrouter bgp 1\n\n exit\n" + fence + "\n## A b\n" + fence + "\n## c\n" + fence + "\n" + fence + "sh\nopen\n")
	want := []Block{{2, "", "frr file spine:/etc/frr/frr.conf", "router bgp 1\n\n exit\n"}, {8, "A b", "", "## c\n"}}
	if !slices.Equal(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
