package numbered

import (
	"errors"
	"fmt"

	"github.com/warproute/warproute/internal/lab"
)

// Watch notes when a core stalls, as a Source does of its own.
type Watch struct {
	ball
	ns *lab.Namespace
}

// NewWatch watches a core.
func NewWatch(core int) (*Watch, error) {
	ns, err := lab.New("watch")
	if err != nil {
		return nil, err
	}
	w := &Watch{ns: ns}
	if err := w.start(ns, core, watchTick, map[string]any{}); err != nil {
		return nil, errors.Join(fmt.Errorf("watch core %d: %w", core, err), w.Close())
	}
	return w, nil
}

// Close ends the watch.
func (w *Watch) Close() error { return errors.Join(w.ball.Close(), w.ns.Close()) }
