package mirror

import (
	"testing"
	"time"

	"github.com/warproute/warproute/fib"
)

// Barrier waits for the mirror's goroutine, also a blocked one, and returns when the mirror is
// closed.
func TestBarrierWaitsForTheMirror(t *testing.T) {
	m := newWorld(t).mirror(fib.New(1), Hooks{}, defaults)
	turned := func() chan struct{} {
		done := make(chan struct{})
		go func() { m.Barrier(); close(done) }()
		return done
	}
	<-turned()
	entered, release := make(chan struct{}), make(chan struct{})
	go m.do(func() { close(entered); <-release })
	<-entered
	done := turned()
	select {
	case <-done:
		t.Error("the mirror is stuck, and a turn is over")
	case <-time.After(100 * time.Millisecond):
	}
	close(release)
	<-done
	m.Close()
	<-turned()
}
