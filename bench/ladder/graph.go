package ladder

import (
	"errors"

	"github.com/warproute/warproute/batch"
	"github.com/warproute/warproute/cuda"
)

// graph is a slot whose copies and kernels are a CUDA graph.
type graph struct {
	*copies
	graphs map[int]*cuda.Graph // by number of packets, captured when it is first needed
}

func openGraphs(b *bench, mem []byte, slots, size int) (*engine, error) {
	return openLaunched(b, mem, slots, func(l *launched) (slot, error) {
		s, err := newCopies(l, size)
		g := &graph{copies: s, graphs: map[int]*cuda.Graph{}}
		l.undo = append(l.undo, g.close)
		return g, err
	})
}

func (g *graph) submit(c *batch.Chunk) (err error) {
	g.gather(c)
	work := g.graphs[c.N]
	if work == nil {
		if work, err = g.stream.Capture(func() error { return g.enqueue(nil, nil) }); err != nil {
			return err
		}
		g.graphs[c.N] = work
	}
	if err := work.Enqueue(g.stream); err != nil {
		return err
	}
	return g.event.Record(g.stream)
}

func (g *graph) close() (err error) {
	for _, work := range g.graphs {
		err = errors.Join(err, work.Close())
	}
	return err
}
