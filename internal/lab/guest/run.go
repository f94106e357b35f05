package guest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/warproute/warproute/internal/lab/guest/wire"
)

const (
	commandLimit = 2 * time.Minute // of a command
	// Without a result, an empty command is sent this often: one in some ten thousand commands of emulated guests was
	// noticed only with the next one, as if an interrupt of the control device had been lost.
	nudgeInterval = 5 * time.Second
)

// Run runs a command in the guest and returns its standard output and error. Background processes of
// the command keep running.
func (g *Guest) Run(name string, args ...string) (output string, err error) {
	return g.run(wire.Command{Args: append([]string{name}, args...)})
}

// Feed is Run of a command with input.
func (g *Guest) Feed(input, name string, args ...string) (output string, err error) {
	f, err := os.CreateTemp(g.dir, "input")
	if err != nil {
		return "", err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	if _, err := f.WriteString(input); err != nil {
		return "", err
	}
	return g.run(wire.Command{Args: append([]string{name}, args...), Input: f.Name()})
}

func (g *Guest) run(c wire.Command) (output string, err error) {
	r, err := g.call(c)
	if err == nil && r.Failure != "" {
		err = fmt.Errorf("%s: %s", r.Failure, bytes.TrimSpace(r.Output))
	}
	if err != nil {
		return string(r.Output), fmt.Errorf("%s in guest %q: %w", strings.Join(c.Args, " "), g.name, err)
	}
	return string(r.Output), nil
}

func (g *Guest) call(c wire.Command) (wire.Result, error) {
	done := make(chan wire.Result, 1)
	g.mu.Lock()
	if g.down != nil {
		g.mu.Unlock()
		return wire.Result{}, g.down
	}
	g.last++
	c.ID = g.last
	g.pending[c.ID] = done
	err := json.NewEncoder(g.control).Encode(c)
	g.mu.Unlock()
	if err != nil {
		return wire.Result{}, fmt.Errorf("send the command: %w", err)
	}
	nudge, late := time.NewTicker(nudgeInterval), time.After(commandLimit)
	defer nudge.Stop()
	for {
		select {
		case r := <-done:
			return r, nil
		case <-nudge.C:
			g.mu.Lock()
			err := json.NewEncoder(g.control).Encode(wire.Command{})
			g.mu.Unlock()
			if err != nil {
				return wire.Result{}, fmt.Errorf("ask for the result: %w", err)
			}
		case <-late:
			return wire.Result{}, fmt.Errorf("did not end within %v; the console:\n%s", commandLimit, g.console.String())
		}
	}
}

// receive distributes results until the guest ends.
func (g *Guest) receive() {
	for decoder := json.NewDecoder(g.control); ; {
		var r wire.Result
		if err := decoder.Decode(&r); err != nil {
			g.fail(fmt.Errorf("the guest ended: %w; its console:\n%s", err, g.console.String()))
			return
		}
		g.mu.Lock()
		done := g.pending[r.ID]
		delete(g.pending, r.ID)
		g.mu.Unlock()
		if done != nil {
			done <- r
		}
	}
}

// fail fails all pending and future calls.
func (g *Guest) fail(why error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.down == nil {
		g.down = why
	}
	for id, done := range g.pending {
		delete(g.pending, id)
		done <- wire.Result{ID: id, Failure: g.down.Error()}
	}
}
