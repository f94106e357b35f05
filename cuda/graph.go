package cuda

import (
	"errors"
	"fmt"
	"structs"
)

// Graph is recorded work that one call enqueues. It belongs to one goroutine.
type Graph struct {
	caller
	exec    execHandle   // 0: closed
	graph   graphHandle  // source of exec
	kernels []nodeHandle // kernel nodes of graph
	update  *kernelNode
}

// kernelNode is CUDA_KERNEL_NODE_PARAMS as CUDA 12.0 defines it.
type kernelNode struct {
	_           structs.HostLayout
	function    functionHandle
	grid, block Dim
	shared      uint32
	params      uintptr // address of addresses
	extra       uintptr
	kernel      uintptr
	context     contextHandle
}

// Values of CUgraphNodeType and CUstreamCaptureMode.
const (
	nodeKernel         = 0
	captureThreadLocal = 1
)

// Capture records the work that record enqueues on the stream, without running it. Launches keep
// their current parameters; Graph.Update changes them.
func (s *Stream) Capture(record func() error) (*Graph, error) {
	if err := s.drv.cuStreamBeginCapture.call(s.handle, captureThreadLocal); err != nil {
		return nil, fmt.Errorf("capture a graph: %w", err)
	}
	err := record()
	g := &Graph{caller: caller{drv: s.drv}, update: &kernelNode{}}
	if endErr := s.drv.cuStreamEndCapture.call(s.handle, &g.graph); err == nil {
		err = endErr
	}
	if err == nil {
		g.kernels, err = s.drv.kernelNodes(g.graph)
	}
	if err == nil {
		err = s.drv.cuGraphInstantiateWithFlags.call(&g.exec, g.graph, 0)
	}
	if err != nil {
		g.Close()
		return nil, fmt.Errorf("capture a graph: %w", err)
	}
	return g, nil
}

// kernelNodes returns the kernel nodes of a graph.
func (d *Driver) kernelNodes(graph graphHandle) (kernels []nodeHandle, err error) {
	var n uint64
	if err := d.cuGraphGetNodes.call(graph, nil, &n); err != nil || n == 0 {
		return nil, err
	}
	nodes := make([]nodeHandle, n)
	if err := d.cuGraphGetNodes.call(graph, nodes, &n); err != nil {
		return nil, err
	}
	for _, node := range nodes {
		var kind int32
		if err := d.cuGraphNodeGetType.call(node, &kind); err != nil {
			return nil, err
		}
		if kind == nodeKernel {
			kernels = append(kernels, node)
		}
	}
	return kernels, nil
}

// Update copies the current parameters and shape of l to the graph's kernel node. The graph must
// have exactly one. Update allocates nothing.
func (g *Graph) Update(l *Launch) error {
	if len(g.kernels) != 1 {
		return errors.New("update a graph: it has not exactly one kernel node")
	}
	*g.update = kernelNode{function: l.fn.handle, grid: l.Grid.full(), block: l.Block.full(), shared: l.Shared, params: l.params}
	if err := call3(&g.caller, &g.drv.cuGraphExecKernelNodeSetParams, g.exec, g.kernels[0], address(g.update)); err != nil {
		return fmt.Errorf("update a graph: %w", err)
	}
	return nil
}

// Enqueue enqueues the graph on a stream.
func (g *Graph) Enqueue(s *Stream) error {
	if err := call2(&g.caller, &g.drv.cuGraphLaunch, g.exec, s.handle); err != nil {
		return fmt.Errorf("launch a graph: %w", err)
	}
	return nil
}

// Close destroys the graph. Enqueued launches still run.
func (g *Graph) Close() error {
	exec, graph := g.exec, g.graph
	g.exec, g.graph = 0, 0
	var errs []error
	if exec != 0 {
		errs = append(errs, g.drv.cuGraphExecDestroy.call(exec))
	}
	if graph != 0 {
		errs = append(errs, g.drv.cuGraphDestroy.call(graph))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("destroy a graph: %w", err)
	}
	return nil
}
