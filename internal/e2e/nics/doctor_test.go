package nics

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/warproute/warproute/control/doctor"
)

// predictions returns doctor's predictions for the ports, and whether the router would start.
func (p *pair) predictions(t *testing.T, args string) (ports [2]doctor.Prediction, starts bool) {
	t.Helper()
	// Its warnings are on standard error, which Run appends.
	out, err := p.Run("sh", "-c", fmt.Sprintf("%s doctor --json --port %s --port %s %s 2>/dev/null", p.program, p.port(0), p.port(1), args))
	var found []doctor.Finding
	if fault := json.Unmarshal([]byte(out), &found); fault != nil {
		t.Fatalf("%s: doctor: %v\n%s", p.model, errors.Join(err, fault), out)
	}
	for _, f := range found {
		for side := range ports {
			if f.Port == p.port(side) && f.Predicted != nil {
				ports[side] = *f.Predicted
			}
		}
	}
	return ports, doctor.Healthy(found)
}

// startPredicted starts a router and compares it with doctor's predictions, of which those without a trial
// derive from the table of drivers. It returns nil if both say that the router does not start.
func (p *pair) startPredicted(t *testing.T) *router {
	t.Helper()
	type prediction struct {
		from   string
		ports  [2]doctor.Prediction
		starts bool
	}
	all := []prediction{{from: ""}, {from: "--try"}}
	for i := range all {
		all[i].ports, all[i].starts = p.predictions(t, all[i].from)
	}
	r, log, ok := p.start(t, "")
	for _, predicted := range all {
		what := fmt.Sprintf("%s, Linux %s, doctor %s", p.model, p.kernel, predicted.from)
		if predicted.starts != ok {
			t.Errorf("%s: predicts that the router starts: %v, but: %v\n%s", what, predicted.starts, ok, log)
		}
		if !ok {
			continue
		}
		for side, port := range r.show() {
			was := predicted.ports[side]
			if was.Mode != port.Mode || was.Queues != port.Queues {
				t.Errorf("%s: predicts %+v for %s, but it has mode %s (%s) and %d queues", what, was, port.Name, port.Mode, port.ModeReason, port.Queues)
			}
			if was.Tried && was.Reason != port.ModeReason {
				t.Errorf("%s: predicts the reason %q, but it is %q", what, was.Reason, port.ModeReason)
			}
		}
	}
	if all[1].starts && !all[1].ports[0].Tried {
		t.Errorf("%s, Linux %s: doctor --try tried nothing", p.model, p.kernel)
	}
	if ok && strings.Contains(r.log(), "no_socket") {
		t.Errorf("%s, Linux %s: queues without sockets", p.model, p.kernel)
	}
	return r
}
