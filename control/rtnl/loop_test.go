package rtnl

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/internal/require"
)

// startLoop runs a loop without subscriptions that applies batches with handle.
func startLoop(t *testing.T, handle func(Message) error) *Loop {
	t.Helper()
	l, err := OpenLoop(unix.NETLINK_ROUTE, 1<<16)
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	l.Start(func() {
		for {
			select {
			case b := <-l.Events:
				if err := l.Apply(b, handle, func(error) {}); err != nil {
					t.Errorf("apply: %v", err)
				}
			case f := <-l.Calls:
				f()
			case <-l.Done:
				return
			}
		}
	})
	return l
}

func TestLoopAppliesWipesAndCountsMessages(t *testing.T) {
	l := newLoop(nil)
	msgs := slices.Concat(newRequest(unix.RTM_NEWLINK, 0, 1, 1, 2, 3, 4).bytes(), newRequest(unix.RTM_DELLINK, 0, 2).bytes(), newRequest(unix.RTM_NEWADDR, 0, 3).bytes(), []byte{1, 2})
	b := &Batch{buf: msgs, n: len(msgs)}
	var seen []uint16
	var failures []error
	err := l.Apply(b, func(msg Message) error {
		seen = append(seen, msg.Type)
		if msg.Type == unix.RTM_DELLINK {
			return unix.EINVAL
		}
		return nil
	}, func(err error) { failures = append(failures, err) })
	if err != nil || !slices.Equal(seen, []uint16{unix.RTM_NEWLINK, unix.RTM_DELLINK, unix.RTM_NEWADDR}) {
		t.Errorf("messages %v, %v", seen, err)
	}
	if len(failures) != 2 || !errors.Is(failures[0], unix.EINVAL) || !errors.Is(failures[1], ErrTruncated) {
		t.Errorf("failures %v", failures)
	}
	if s := *l.Stats(); s != (LoopStats{Events: 4, Malformed: 2}) {
		t.Errorf("%+v", s)
	}
	if got := <-l.empty; got != b || !bytes.Equal(b.buf, make([]byte, len(b.buf))) {
		t.Error("the batch was not wiped and returned")
	}
}

func TestLoopReportsOverrunWithoutMessages(t *testing.T) {
	l := newLoop(nil)
	err := l.Apply(&Batch{err: ErrOverrun}, func(Message) error { t.Error("a message after an overrun"); return nil }, func(err error) { t.Error(err) })
	if !errors.Is(err, ErrOverrun) || len(l.empty) != 1 {
		t.Errorf("%v, %d batches returned", err, len(l.empty))
	}
}

func TestLoopMarksArriveInOrder(t *testing.T) {
	l := startLoop(t, func(Message) error { return nil })
	arrived := make(chan int, 3)
	l.Do(func() {
		for i := range 2 {
			if err := l.Mark(func() { arrived <- i }); err != nil {
				t.Error(err)
			}
		}
	})
	for want := range 2 {
		if got := <-arrived; got != want {
			t.Errorf("mark %d arrived, want %d", got, want)
		}
	}
}

func TestLoopMarkCompletesEarlierMarks(t *testing.T) {
	l := newLoop(nil)
	arrived := 0
	for seq := range uint32(3) {
		l.marks = append(l.marks, mark{seq, func() { arrived++ }})
	}
	if l.arrive(1); arrived != 2 || len(l.marks) != 1 {
		t.Errorf("%d marks arrived, %d left", arrived, len(l.marks))
	}
}

func TestLoopDoRunsUntilClose(t *testing.T) {
	l := startLoop(t, func(Message) error { return nil })
	ran := false
	if !l.Do(func() { ran = true }) || !ran || l.Closed() {
		t.Error("Do on an open loop did not run the function")
	}
	if err := errors.Join(l.Close(), l.Close()); err != nil || !l.Closed() {
		t.Errorf("close twice: %v", err)
	}
	if l.Do(func() { t.Error("ran after Close") }) {
		t.Error("Do on a closed loop reported true")
	}
}
