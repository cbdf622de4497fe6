package read

import (
	"hash/maphash"

	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// Bounds of GraphNodes. The nodes beyond them have no content: their work counts as work whose captured call is not
// sure.
const (
	maxGraphNodes = 1 << 22 // of all graphs
	maxNodeNumber = 1 << 20 // in a graph
)

// A NodeContent is what the work of a graph's node and a captured call must have in common, to be of one node: the
// kernel's name, grid, block and dynamic shared memory; that it is a copy, or a memset. 0 is no content.
type NodeContent uint64

// The contents of nodes that are no kernels.
const (
	CopyContent NodeContent = 1 + iota
	MemsetContent
)

var contentSeed = maphash.MakeSeed()

// KernelContent returns the content of a node with a kernel.
func KernelContent(name string, grid, block [3]uint32, shared uint32) NodeContent {
	h := maphash.String(contentSeed, name)
	for _, v := range [...]uint32{grid[0], grid[1], grid[2], block[0], block[1], block[2], shared} {
		h = (h ^ uint64(v)) * 0x9E3779B97F4A7C15
		h ^= h >> 29
	}
	return NodeContent(h | 1<<63)
}

// ContentOf returns the content of the node that a piece of work is of.
func ContentOf(w *timeline.Work) NodeContent {
	switch k := &w.Shape.Kernel; w.Kind {
	case timeline.KernelWork:
		return KernelContent(k.Name, k.Grid, k.Block, k.DynamicShared)
	case timeline.MemcpyWork:
		return CopyContent
	case timeline.MemsetWork:
		return MemsetContent
	}
	return 0
}

// NodeNumber is the number of a node in its executable graph, the low half of CUPTI's graphNodeId. The driver numbers
// nodes in the order in which they were added, then those of child graphs and of conditional bodies.
func NodeNumber(node uint64) uint32 { return uint32(node) }

// A graphKey is an executable graph of a process. A PID's later programs count anew: their graphs are taken for one,
// whose contents then differ from those of its capture.
type graphKey struct{ pid, graph uint32 }

// GraphNodes have the contents of the nodes of executable graphs, as the first work of each node shows it.
type GraphNodes struct {
	byGraph map[graphKey][]NodeContent // by number
	size    int
	recent  graphKey
	nodes   []NodeContent // of recent
}

// Of returns the contents of a graph's nodes by their numbers, 0 for a node without work.
func (l *GraphNodes) Of(pid, graph uint32) []NodeContent { return l.byGraph[graphKey{pid, graph}] }

// Any reports whether there are nodes.
func (l *GraphNodes) Any() bool { return l.size > 0 }

// take takes a block of GPU work.
func (l *GraphNodes) take(b *tracelog.Block) {
	graphs := b.Column("graph")
	if graph, same := graphs.Const(); same && graph == 0 {
		return
	}
	pid, nodes := keyOf(b, "pid"), b.Column("graph_node")
	var shape shapeColumns
	opened := false
	for i := range b.N {
		graph, node := uint32(graphs.At(i)), NodeNumber(nodes.At(i))
		if graph == 0 || node >= maxNodeNumber {
			continue
		}
		if key := (graphKey{pid, graph}); l.nodes == nil || key != l.recent {
			l.recent, l.nodes = key, l.byGraph[key]
		}
		if int(node) < len(l.nodes) && l.nodes[node] != 0 || l.size >= maxGraphNodes {
			continue
		}
		if !opened {
			opened = true
			shape.open(b, workKinds[b.Kind])
		}
		l.set(int(node), shape.content(b, i))
	}
}

// set sets the content of a node of the recent graph.
func (l *GraphNodes) set(node int, content NodeContent) {
	if l.byGraph == nil {
		l.byGraph = make(map[graphKey][]NodeContent)
	}
	if more := node + 1 - len(l.nodes); more > 0 {
		l.nodes = append(l.nodes, make([]NodeContent, more)...)
		l.size += more
	}
	l.nodes[node] = content
	l.byGraph[l.recent] = l.nodes
}

// content returns the content of the node that a row is of.
func (c *shapeColumns) content(b *tracelog.Block, i int) NodeContent {
	switch c.kind {
	case timeline.MemcpyWork:
		return CopyContent
	case timeline.MemsetWork:
		return MemsetContent
	}
	v := func(f int) uint32 { return uint32(c.columns[f].At(i)) }
	return KernelContent(b.Text(c.columns[0].At(i)), [3]uint32{v(1), v(2), v(3)}, [3]uint32{v(4), v(5), v(6)}, v(11))
}
