package cuda

import (
	"errors"
	"fmt"
	"structs"
)

// Graph is work that was recorded once and is enqueued whole, with one call.
// It belongs to one goroutine.
type Graph struct {
	caller
	exec    uintptr   // 0: closed
	graph   uintptr   // what exec was made of; names its nodes
	kernels []uintptr // nodes that are launches
	update  *kernelNode
}

// kernelNode is CUDA_KERNEL_NODE_PARAMS as CUDA 12.0 defines it.
type kernelNode struct {
	_           structs.HostLayout
	function    uintptr
	grid, block Dim
	shared      uint32
	params      uintptr // address of addresses
	extra       uintptr
	kernel      uintptr
	context     uintptr
}

// Values of CUgraphNodeType and CUstreamCaptureMode.
const (
	nodeKernel         = 0
	captureThreadLocal = 1
)

// Capture records what record puts into the stream, none of which runs. Launches
// keep the parameters that they had; Graph.Update changes them.
func (s *Stream) Capture(record func() error) (*Graph, error) {
	if err := s.drv.call(cuStreamBeginCapture, s.handle, captureThreadLocal); err != nil {
		return nil, fmt.Errorf("record a graph: %w", err)
	}
	err := record()
	g := &Graph{caller: caller{drv: s.drv}, update: &kernelNode{}}
	if endErr := s.drv.call(cuStreamEndCapture, s.handle, &g.graph); err == nil {
		err = endErr
	}
	if err == nil {
		g.kernels, err = s.drv.kernelNodes(g.graph)
	}
	if err == nil {
		err = s.drv.call(cuGraphInstantiateWithFlags, &g.exec, g.graph, uint64(0))
	}
	if err != nil {
		g.Close()
		return nil, fmt.Errorf("record a graph: %w", err)
	}
	return g, nil
}

// kernelNodes lists the nodes of a graph that are launches.
func (d *Driver) kernelNodes(graph uintptr) (kernels []uintptr, err error) {
	var n uint64
	if err := d.call(cuGraphGetNodes, graph, uintptr(0), &n); err != nil || n == 0 {
		return nil, err
	}
	nodes := make([]uintptr, n)
	if err := d.call(cuGraphGetNodes, graph, nodes, &n); err != nil {
		return nil, err
	}
	for _, node := range nodes {
		var kind int32
		if err := d.call(cuGraphNodeGetType, node, &kind); err != nil {
			return nil, err
		}
		if kind == nodeKernel {
			kernels = append(kernels, node)
		}
	}
	return kernels, nil
}

// Update gives the graph's launch, of which it must have one, the parameters and
// the shape that l has now. It allocates nothing.
func (g *Graph) Update(l *Launch) error {
	if len(g.kernels) != 1 {
		return errors.New("update a graph: it has several launches, or none")
	}
	*g.update = kernelNode{function: l.fn.handle, grid: l.Grid.full(), block: l.Block.full(), shared: l.Shared, params: l.params}
	if err := g.raw(cuGraphExecKernelNodeSetParams, g.exec, g.kernels[0], address(g.update)); err != nil {
		return fmt.Errorf("update a graph: %w", err)
	}
	return nil
}

// Enqueue puts all of the graph into a stream.
func (g *Graph) Enqueue(s *Stream) error {
	if err := g.raw(cuGraphLaunch, g.exec, s.handle); err != nil {
		return fmt.Errorf("launch a graph: %w", err)
	}
	return nil
}

// Close gives the graph back; what was enqueued still runs.
func (g *Graph) Close() error {
	exec, graph := g.exec, g.graph
	g.exec, g.graph = 0, 0
	var errs []error
	if exec != 0 {
		errs = append(errs, g.drv.call(cuGraphExecDestroy, exec))
	}
	if graph != 0 {
		errs = append(errs, g.drv.call(cuGraphDestroy, graph))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("close a graph: %w", err)
	}
	return nil
}
