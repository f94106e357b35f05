package service

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/warproute/warproute/control/config"
	"github.com/warproute/warproute/control/mirror"
	"github.com/warproute/warproute/fib"
)

// More than loggedAtStart VLANs of the start are logged in one line, and each later one in a line.
func TestManyVLANsOfTheStartAreLoggedInOneLine(t *testing.T) {
	for _, n := range []int{loggedAtStart, loggedAtStart + 1} {
		var text bytes.Buffer
		s := &Service{
			cfg: config.Default("a"), fib: fib.New(1), log: slog.New(slog.NewTextHandler(&text, nil)),
			ports: ports{logical: map[int]*logicalPort{}, hasVLANs: true},
		}
		s.setRoom(1, n)
		add := func(i int) {
			s.ports.configured[0].Port = config.Port{Interface: "a", ReversePath: config.ReversePathOff}
			tag, _ := fib.MakeTag(0x8100, uint16(i+1))
			s.vlanAdded(mirror.LogicalPort{Number: 100 + i, Name: fmt.Sprint("v", i), Tag: tag})
		}
		for i := range n {
			add(i)
		}
		s.logStarted()
		add(n)
		lines := strings.Split(strings.TrimSpace(text.String()), "\n")
		want := n + 1
		if n > loggedAtStart {
			want = 2
			if !strings.Contains(lines[0], fmt.Sprintf(`msg="ports added" reason="%d VLAN interfaces`, n)) {
				t.Errorf("the first line is %s", lines[0])
			}
		}
		if len(lines) != want || !strings.Contains(lines[len(lines)-1], fmt.Sprintf("port=v%d ", n)) {
			t.Errorf("%d VLANs give %d lines, want %d: %s", n, len(lines), want, lines[len(lines)-1])
		}
	}
}
