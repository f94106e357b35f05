package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/warproute/warproute/internal/lab/guest/wire"
)

// serve runs commands from the control device.
func serve(control string) error {
	f, err := os.OpenFile(control, os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return fmt.Errorf("open the control device: %w", err)
	}
	if err := makeRaw(f); err != nil {
		return fmt.Errorf("make %s transparent: %w", control, err)
	}
	var mu sync.Mutex
	encoder := json.NewEncoder(f)
	reply := func(r wire.Result) {
		mu.Lock()
		defer mu.Unlock()
		if err := encoder.Encode(r); err != nil {
			fmt.Println("agent: reply:", err)
		}
	}
	reply(wire.Result{})
	for decoder := json.NewDecoder(f); ; {
		var c wire.Command
		if err := decoder.Decode(&c); err != nil {
			return fmt.Errorf("read a command from %s: %w", control, err)
		}
		if len(c.Args) == 0 { // the host asks for results
			go reply(wire.Result{})
			continue
		}
		go func() { reply(run(c)) }()
	}
}

func run(c wire.Command) wire.Result {
	output, err := execute(c)
	r := wire.Result{ID: c.ID, Output: output}
	if err != nil {
		r.Failure = err.Error()
	}
	return r
}

func execute(c wire.Command) (output []byte, err error) {
	cmd := exec.Command(c.Args[0], c.Args[1:]...)
	if c.Input != "" {
		input, err := os.Open(c.Input)
		if err != nil {
			return nil, err
		}
		defer input.Close()
		cmd.Stdin = input
	}
	// With a pipe, the command would last until its last background process ends.
	out, err := os.CreateTemp("/run", "output")
	if err != nil {
		return nil, err
	}
	defer os.Remove(out.Name())
	defer out.Close()
	cmd.Stdout, cmd.Stderr = out, out
	failure := cmd.Run()
	if output, err = os.ReadFile(out.Name()); err != nil {
		return nil, err
	}
	return output, failure
}

// makeRaw sets a terminal to raw mode. A virtio port is no terminal and needs none.
func makeRaw(f *os.File) error {
	t, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	if err == unix.ENOTTY || err == unix.EINVAL {
		return nil
	}
	if err != nil {
		return err
	}
	t.Iflag, t.Oflag, t.Lflag = 0, 0, 0
	t.Cflag = t.Cflag&^(unix.CSIZE|unix.PARENB) | unix.CS8
	t.Cc[unix.VMIN], t.Cc[unix.VTIME] = 1, 0
	return unix.IoctlSetTermios(int(f.Fd()), unix.TCSETS, t)
}
