package service

import (
	"errors"
	"strings"
	"testing"
)

func TestClosersRunInReverseOrderAndJoinErrors(t *testing.T) {
	var c closers
	var order []string
	for _, name := range []string{"close a", "close b", "close c"} {
		c.push(name, func() error {
			order = append(order, name)
			if name == "close b" {
				return nil
			}
			return errors.New("busy")
		})
	}
	err := c.unwind()
	if got := strings.Join(order, ", "); got != "close c, close b, close a" {
		t.Errorf("ran %s", got)
	}
	if want := "close c: busy\nclose a: busy"; err == nil || err.Error() != want {
		t.Errorf("error %v, want %q", err, want)
	}
	if err := c.unwind(); err != nil || len(order) != 3 {
		t.Errorf("a second unwind ran functions again: %v, %v", order, err)
	}
}
