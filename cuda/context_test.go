package cuda

import (
	"testing"
	"time"
)

func TestCloseWaitsForDoAndRejectsLaterCalls(t *testing.T) {
	destroyed := make(chan struct{})
	c := &Context{destroy: func() error { close(destroyed); return nil }}
	c.users.Add(1) // a call of Do that runs
	closed := make(chan error)
	go func() { closed <- c.Close() }()
	for !c.closing.Load() {
		time.Sleep(time.Millisecond)
	}
	if err := c.Do(func() error { t.Error("Do called its function"); return nil }); err == nil {
		t.Error("Do entered a context that is being closed")
	}
	select {
	case <-destroyed:
		t.Error("the context was destroyed while it was in use")
	case <-time.After(20 * time.Millisecond):
	}
	c.users.Add(-1)
	if err := <-closed; err != nil {
		t.Error(err)
	}
	<-destroyed
	if err := c.Do(func() error { t.Error("Do called its function"); return nil }); err == nil {
		t.Error("Do entered a closed context")
	}
}
