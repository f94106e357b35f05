package require

import (
	"errors"
	"testing"
)

// recorder records whether the test ended.
type recorder struct {
	testing.TB
	ended []any
}

func (r *recorder) Helper()          {}
func (r *recorder) Fatal(why ...any) { r.ended = why }

func TestNoErrorEndsTheTestOnlyWithAnError(t *testing.T) {
	r := &recorder{}
	if NoError(r, nil); r.ended != nil {
		t.Errorf("ended with %v and no error", r.ended)
	}
	failure := errors.New("failure")
	if NoError(r, failure); len(r.ended) != 1 || r.ended[0] != failure {
		t.Errorf("ended with %v, want the error", r.ended)
	}
}
