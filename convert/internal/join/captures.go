package join

import (
	"cmp"
	"slices"

	"github.com/cudatrace/cudatrace/convert/internal/read"
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/cudaapi"
)

// While a stream is captured, a launch makes a node of a graph in place of work. The work of that node, at each
// launch of the graph, belongs to two calls: the launch of the graph, which its correlation ID leads to, and the
// captured launch, which captures find.
//
// The driver numbers the nodes of an executable graph in the order in which the calls added them. So the n-th
// captured call of a capture is the n-th node. That holds for a graph only where it is proved: the calls that led
// to it (the capture's end, the instantiation, the launch) name its handles, and each node has the kernel, the
// grid, the block and the shared memory of its call. The nodes of child graphs and of conditional bodies follow
// those of the graph itself, in parts that are whole captures: they are proved where only one series of captures
// gives these nodes. Everything else has no captured call, and is counted.

// Bounds of the captures of a program. What lies beyond them is not named: the work of its graphs counts as work
// without a captured call.
const (
	maxCaptured = 1 << 19 // captured calls and executable graphs that are kept; others are counted
	maxFinished = 1 << 9  // captures that may be child graphs or bodies: of more, the latest
	maxNamed    = 1 << 21 // nodes whose calls are remembered; those of others are looked for again
)

// A capturedCall is a call that may have made a node of a graph.
type capturedCall struct {
	timeline.Call
	fn      *read.Function
	args    []uint64
	stream  read.StreamHandle
	content read.NodeContent // 0 where it is not known
	unseen  bool             // it launches a kernel, and CUPTI alone has recorded it, without arguments
	sure    bool             // of its capture: on the capture's stream, or made by its thread
	failed  bool
}

// makes reports whether a call may have made a node. Of a launch whose arguments are not known the node is a kernel.
func (c *capturedCall) makes(node read.NodeContent) bool {
	if c.unseen {
		return node != 0 && node != read.CopyContent && node != read.MemsetContent
	}
	return c.content != 0 && c.content == node
}

// A capture is a stream's capture.
type capture struct {
	stream read.StreamHandle
	graph  uint64 // handle that the nodes are added to, 0 for a new graph
	tid    uint32
	begin  *timeline.Call
	calls  []*capturedCall
}

// A builtGraph is a graph that is not executable.
type builtGraph struct {
	calls []*capturedCall
	begin *timeline.Call // that began its capture, nil for none
}

// An instance is what an executable graph was made from, or updated with.
type instance struct {
	builtGraph
	from      uint64 // when the call that did it began
	update    bool
	destroyed uint64                // when, 0 for not yet
	origin    *timeline.GraphOrigin // nil until it is asked for
	number    uint32                // of the executable graph that nodes is of
	nodes     []*capturedCall       // calls that made the nodes, by number; nil for none
}

// captures find the captured calls of graph nodes. Nil finds none.
type captures struct {
	nodes    *read.GraphNodes
	program  *read.Program
	waiting  []*capturedCall // calls whose order is not known yet
	sorted   int             // length of waiting when it was sorted last
	open     []*capture
	finished [][]*capturedCall
	graphs   map[uint64]builtGraph  // by handle
	execs    map[uint64][]*instance // by handle, in the order of time
	execOf   map[uint32]uint64      // handles of executable graphs, by their number
	kept     int
	refused  int                 // calls and executable graphs that have not been kept since one was
	beyond   uint64              // all that have not been kept
	named    []*instance         // whose nodes are known
	nodesOf  int                 // how many nodes these have
	low      uint64              // calls that begin before this time are in order
	lack     timeline.Uncaptured // of graphs whose making is not known
}

func newCaptures(nodes *read.GraphNodes, p *read.Program, lack timeline.Uncaptured) *captures {
	return &captures{nodes: nodes, program: p, lack: lack, graphs: make(map[uint64]builtGraph),
		execs: make(map[uint64][]*instance), execOf: make(map[uint32]uint64)}
}

// called takes a call that has ended.
func (l *captures) called(c *call) {
	if l == nil || c.Flags&timeline.Unfinished != 0 ||
		c.fn.Role == cudaapi.NoRole && (!c.fn.GPUWork || c.fn.LaunchesGraph) {
		return
	}
	made := &capturedCall{Call: c.asCause(), fn: c.fn, args: c.Args, stream: c.stream, failed: c.Ret != 0}
	l.waiting = append(l.waiting, made)
}

// launched notes that a call launched an executable graph.
func (l *captures) launched(graph uint32, c *call) {
	if l == nil || !c.fn.LaunchesGraph {
		return
	}
	exec := c.fn.Argument("graphExec", c.Args)
	if l.execOf[graph] == exec || exec == 0 {
		return
	}
	if len(l.execOf) >= maxCaptured {
		clear(l.execOf)
	}
	l.execOf[graph] = exec
}

// unsettledCalls returns the number of calls whose order is not known yet.
func (l *captures) unsettledCalls() int {
	if l == nil {
		return 0
	}
	return len(l.waiting)
}

// newestCall returns a time by which all waiting calls begin.
func (l *captures) newestCall() (at uint64) {
	if l == nil {
		return 0
	}
	for _, c := range l.waiting {
		at = max(at, c.Start+1)
	}
	return at
}

// settle puts the calls in order that begin before low: all of those are known.
func (l *captures) settle(low uint64) {
	if l == nil {
		return
	}
	l.low = max(l.low, low)
	if l.sorted != len(l.waiting) {
		slices.SortStableFunc(l.waiting, func(a, b *capturedCall) int { return cmp.Compare(a.Start, b.Start) })
	}
	n := 0
	for n < len(l.waiting) && l.waiting[n].Start < low {
		n++
	}
	for _, c := range l.waiting[:n] {
		l.take(c)
	}
	l.waiting = l.waiting[n:]
	l.sorted = len(l.waiting)
}

// take takes the next call in the order of time.
func (l *captures) take(c *capturedCall) {
	if c.failed && c.fn.Role != cudaapi.CaptureEnd { // a capture that failed has ended
		return
	}
	graph := c.fn.Argument("graph", c.args)
	switch c.fn.Role {
	case cudaapi.CaptureBegin:
		l.begin(&capture{stream: c.stream, graph: graph, tid: c.Thread.TID, begin: &c.Call})
	case cudaapi.CaptureEnd:
		l.end(c, graph)
	case cudaapi.GraphInstantiate, cudaapi.GraphUpdate:
		x := &instance{builtGraph: l.graphs[graph], from: c.Start, update: c.fn.Role == cudaapi.GraphUpdate}
		l.made(c.fn.Argument("graphExec", c.args), x)
	case cudaapi.GraphClone:
		g := l.graphs[graph]
		if l.keep(c.Start) {
			g.calls = slices.Clip(g.calls) // what is added to one is not added to the other
			l.graphs[graph], l.graphs[c.fn.Argument("clone", c.args)] = g, g
		}
	case cudaapi.GraphDestroy:
		delete(l.graphs, graph)
	case cudaapi.ExecDestroy:
		if x := l.latest(l.execs[c.fn.Argument("graphExec", c.args)], c.Start); x != nil {
			x.destroyed = c.Start
		}
	case cudaapi.GraphAddNode:
		if !l.keep(c.Start) {
			return
		}
		l.learn(c)
		g := l.graphs[graph]
		l.graphs[graph] = builtGraph{append(g.calls, c), g.begin}
	default:
		l.captured(c)
	}
}

// begin begins a capture. The functions of the runtime and of the driver are both recorded.
func (l *captures) begin(x *capture) {
	l.open = slices.DeleteFunc(l.open, func(o *capture) bool { return o.stream == x.stream })
	l.open = append(l.open, x)
}

// captured gives a launch, copy or memset to the capture that it belongs to.
func (l *captures) captured(c *capturedCall) {
	var of *capture
	for _, x := range l.open {
		if x.stream == c.stream && c.stream != 0 {
			of, c.sure = x, true
			break
		}
		if x.tid == c.Thread.TID {
			of, c.sure = x, true
		}
	}
	if of == nil && len(l.open) == 1 { // another thread may launch into a captured stream
		of = l.open[0]
	}
	if of == nil {
		return
	}
	if !l.keep(c.Start) {
		return
	}
	l.learn(c)
	of.calls = append(of.calls, c)
}

// keep reports whether one more call or executable graph is kept.
func (l *captures) keep(now uint64) bool {
	if l.kept >= maxCaptured {
		if l.refused++; l.refused%(maxCaptured/16) == 1 { // to look for room each time would take long
			l.trim(now)
		}
		if l.kept >= maxCaptured {
			l.beyond++
			return false
		}
	}
	l.refused = 0
	l.kept++
	return true
}

// goneFor is the time, in ns, for which an executable graph has been destroyed when all of its work has been named.
const goneFor = 10e9

// trim makes room: it forgets the graphs that were destroyed or updated, and captures that may be parts of others.
func (l *captures) trim(now uint64) {
	l.finished = nil
	l.kept = 0
	l.forgetNodes()
	for exec, list := range l.execs {
		staying := list[:0]
		for i, x := range list {
			destroyed := x.destroyed != 0 && x.destroyed+goneFor < now
			if updated := i+1 < len(list) && list[i+1].from+goneFor < now; !destroyed && !updated {
				staying = append(staying, x)
				l.kept += 1 + len(x.calls)
			}
		}
		clear(list[len(staying):])
		if l.execs[exec] = staying; len(staying) == 0 {
			delete(l.execs, exec)
		}
	}
	for _, g := range l.graphs {
		l.kept += len(g.calls)
	}
	l.kept += maxCaptured / 16 // so that graphs that stay do not make each capture look for room
}

// learn finds the content of a call's node.
func (l *captures) learn(c *capturedCall) {
	arg := func(name string) uint32 { return uint32(c.fn.Argument(name, c.args)) }
	switch c.fn.Makes {
	case timeline.MemcpyWork:
		c.content = read.CopyContent
	case timeline.MemsetWork:
		c.content = read.MemsetContent
	default:
		handle, ok := c.fn.KernelHandle(c.args)
		if !ok {
			c.unseen = len(c.args) == 0 && c.fn.Launches
			return
		}
		if k := l.program.Handles.Kernel(handle, c.Start); k != nil {
			c.content = read.KernelContent(k.Name, [3]uint32{arg("gridX"), arg("gridY"), arg("gridZ")},
				[3]uint32{arg("blockX"), arg("blockY"), arg("blockZ")}, arg("shared"))
		}
	}
}

// end ends the capture of a stream. Its graph is what the call returned, or that which the capture added to.
func (l *captures) end(c *capturedCall, graph uint64) {
	i := slices.IndexFunc(l.open, func(x *capture) bool { return x.stream == c.stream })
	if i < 0 { // the runtime's call ended it already
		return
	}
	x := l.open[i]
	l.open = slices.Delete(l.open, i, i+1)
	if c.failed {
		return
	}
	if len(l.finished) == maxFinished {
		l.finished = slices.Delete(l.finished, 0, maxFinished/2)
	}
	l.finished = append(l.finished, x.calls)
	if x.graph != 0 {
		l.graphs[x.graph] = builtGraph{append(l.graphs[x.graph].calls, x.calls...), x.begin}
	} else if graph != 0 {
		l.graphs[graph] = builtGraph{x.calls, x.begin}
	}
}

// made notes what an executable graph was made from, or updated with. A handle may be used again.
func (l *captures) made(exec uint64, x *instance) {
	if !l.keep(x.from) {
		return
	}
	list := l.execs[exec]
	if n := len(list); n > 0 && !x.update && list[n-1].destroyed == 0 { // unseen
		list[n-1].destroyed = x.from
	}
	l.execs[exec] = append(list, x)
}

// awaits reports whether calls may still come that tell which captured call a piece of work is of. launch is the
// start of its own call.
func (l *captures) awaits(w *timeline.Work, launch uint64) bool {
	return l != nil && w.Graph != 0 && launch >= l.low
}

// name finds the captured call of the node that a piece of work is of. The work has its call, whose Python frames
// become those of the captured call.
func (l *captures) name(w *timeline.Work) {
	w.Captured, w.Uncaptured = nil, timeline.Named
	if l == nil || w.Graph == 0 {
		return
	}
	if w.Call.Start >= l.low {
		// the work cannot wait any longer
		l.settle(w.Call.Start + 1)
	}
	list := l.execs[l.execOf[w.Graph]]
	x := l.latest(list, w.Call.Start)
	if x == nil {
		w.Uncaptured = l.lack
		return
	}
	if x.number != w.Graph {
		updated := slices.ContainsFunc(list, func(x *instance) bool { return x.update })
		l.know(x, w.Graph, l.prove(l.nodes.Of(l.program.PID, w.Graph), x, updated))
	}
	i := int(read.NodeNumber(w.GraphNode))
	if i >= len(x.nodes) || x.nodes[i] == nil || !x.nodes[i].makes(read.ContentOf(w)) {
		w.Uncaptured = timeline.CaptureUnsure
		return
	}
	w.Captured = &x.nodes[i].Call
	w.Call.Python, w.Call.Operator = w.Captured.Python, w.Captured.Operator
}

// know remembers the calls that made the nodes of an executable graph.
func (l *captures) know(x *instance, number uint32, nodes []*capturedCall) {
	if l.nodesOf+len(nodes) > maxNamed {
		l.forgetNodes()
	}
	x.number, x.nodes = number, nodes
	l.named, l.nodesOf = append(l.named, x), l.nodesOf+len(nodes)
}

// forgetNodes forgets the calls that made nodes.
func (l *captures) forgetNodes() {
	for _, x := range l.named {
		x.number, x.nodes = 0, nil
	}
	l.named, l.nodesOf = nil, 0
}

// origin returns from where the graph comes that a call launched, nil where that is not known.
func (l *captures) origin(c *call) *timeline.GraphOrigin {
	if l == nil {
		return nil
	}
	x := l.latest(l.execs[c.fn.Argument("graphExec", c.Args)], c.Start)
	if x == nil || x.begin == nil {
		return nil
	}
	if x.origin == nil {
		x.origin = &timeline.GraphOrigin{Begin: x.begin}
		for i, made := range x.calls {
			if x.origin.Python = made.Python.Common(x.origin.Python); i == 0 {
				x.origin.Python = made.Python
			}
		}
	}
	return x.origin
}

// latest returns what an executable graph was made from when it was launched.
func (l *captures) latest(list []*instance, launch uint64) *instance {
	i, _ := slices.BinarySearchFunc(list, launch, func(x *instance, at uint64) int { return cmp.Compare(x.from, at) })
	if i > 0 {
		return list[i-1]
	}
	return nil
}

// prove returns the calls that made the nodes of an executable graph, by number; nil where that is not proved. The
// nodes of a graph that is updated have the contents of any time.
func (l *captures) prove(nodes []read.NodeContent, x *instance, updated bool) []*capturedCall {
	calls := make([]*capturedCall, len(nodes))
	var numbers []int // of the nodes with work
	for i, content := range nodes {
		if content != 0 {
			numbers = append(numbers, i)
		}
	}
	put := func(at int, made []*capturedCall) {
		for i, c := range made {
			calls[numbers[at+i]] = c
		}
	}
	// An update may give a node another kernel: then the work itself must have the content of its call.
	fits := func(at int, made []*capturedCall) bool {
		if len(made) == 0 || len(made) > len(numbers)-at {
			return false
		}
		for i, c := range made {
			if !c.makes(nodes[numbers[at+i]]) && (c.content == 0 || !updated) {
				return false
			}
		}
		return true
	}
	for _, own := range [][]*capturedCall{x.calls, sure(x.calls)} {
		if len(own) == len(numbers) && fits(0, own) {
			put(0, own)
			return calls
		}
	}
	if updated {
		return nil
	}
	own := 0 // nodes of the graph itself: its first ones
	if fits(0, x.calls) {
		own = len(x.calls)
		put(0, x.calls)
	}
	before := -1
	if own > 0 {
		before = numbers[own-1]
	}
	// Nothing is left, or there is no number for the node that holds what is left.
	if own == len(numbers) || numbers[own] == before+1 {
		return nil
	}
	parts := l.parts(numbers, own, fits)
	if parts == nil {
		return nil
	}
	for at := own; at < len(numbers); at += len(parts[at]) {
		put(at, parts[at])
	}
	return calls
}

// sure returns the calls that are sure to be of their capture.
func sure(calls []*capturedCall) (list []*capturedCall) {
	for _, c := range calls {
		if c.sure {
			list = append(list, c)
		}
	}
	return list
}

// maxParts bounds the comparisons of nodes with captures. Beyond it nothing is proved, and the work counts as unsure.
const maxParts = 1 << 16

// parts divides nodes from one on into captures. The capture of each part is at the index of its first node. It is
// nil where there is no such division, or more than one. The latest of captures that equal each other, with the
// same places of their calls, stands for them.
func (l *captures) parts(numbers []int, from int, fits func(at int, made []*capturedCall) bool) [][]*capturedCall {
	if n := len(numbers); n-from > maxParts/max(len(l.finished), 1) {
		return nil
	}
	found := make([][]*capturedCall, len(numbers)+1)
	ways := make([]int, len(numbers)+1) // of dividing the nodes from here on, up to 2
	ways[len(numbers)] = 1
	for at := len(numbers) - 1; at >= from; at-- {
		for i := len(l.finished) - 1; i >= 0; i-- {
			made := l.finished[i]
			if !fits(at, made) || ways[at+len(made)] == 0 || len(made) == len(found[at]) && samePlaces(made, found[at]) {
				continue
			}
			ways[at] += ways[at+len(made)]
			found[at] = made
		}
	}
	if ways[from] != 1 {
		return nil
	}
	return found
}

// samePlaces reports whether the calls of two captures were made at the same places.
func samePlaces(a, b []*capturedCall) bool {
	return slices.EqualFunc(a, b, func(a, b *capturedCall) bool {
		return a.content == b.content && a.unseen == b.unseen && a.Caller == b.Caller && a.Python == b.Python && a.Operator == b.Operator
	})
}
