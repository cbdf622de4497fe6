package join

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/cudatrace/cudatrace/convert/logtest"
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// bodyTests are GPU work of two launches, listed by stream as in a log. Body work is 5 ns long,
// other work is not.
var bodyTests = []struct {
	name, log string
	calls     string // start of each body work, and start of its call: "310@100", "310@0" for none
	options   Options
}{
	{"of the latest launch", `
kernel context=1 stream=7 graph=9 graph_node=1 start=300 dur=4 correlation=3
kernel context=1 stream=7 graph=9 graph_node=1 start=400 dur=4 correlation=4
memset context=1 stream=8 graph=9 graph_node=2 start=310 dur=5
kernel context=1 stream=8 graph=9 graph_node=3 start=390 dur=5
memcpy context=1 stream=8 graph=9 graph_node=4 start=405 dur=5`, "310@100 390@100 405@200", Options{}},
	{"on a stream that the log has first", `
kernel context=1 stream=8 graph=9 graph_node=2 start=310 dur=5
kernel context=1 stream=8 graph=9 graph_node=2 start=410 dur=5
kernel context=1 stream=7 graph=9 graph_node=1 start=300 dur=4 correlation=3
kernel context=1 stream=7 graph=9 graph_node=1 start=400 dur=4 correlation=4`, "310@100 410@200", Options{}},
	{"behind the first of several top-level nodes", `
kernel context=1 stream=7 graph=9 graph_node=1 start=300 dur=4 correlation=3
kernel context=1 stream=7 graph=9 graph_node=1 start=400 dur=4 correlation=4
kernel context=1 stream=8 graph=9 graph_node=2 start=306 dur=90 correlation=3
kernel context=1 stream=8 graph=9 graph_node=2 start=406 dur=90 correlation=4
kernel context=1 stream=9 graph=9 graph_node=3 start=308 dur=5
kernel context=1 stream=9 graph=9 graph_node=3 start=408 dur=5`, "308@100 408@200", Options{}},
	{"of the same graph and the same context only", `
kernel context=1 stream=7 graph=9 graph_node=1 start=300 dur=4 correlation=3
kernel context=1 stream=7 graph=8 graph_node=1 start=310 dur=4 correlation=4
kernel context=1 stream=8 graph=9 graph_node=2 start=320 dur=5
kernel context=1 stream=8 graph=8 graph_node=2 start=330 dur=5
kernel context=1 stream=8 graph=7 graph_node=2 start=340 dur=5
kernel context=2 stream=8 graph=9 graph_node=2 start=350 dur=5`, "320@100 330@200 340@0 350@0", Options{}},
	{"of no graph", `
kernel context=1 stream=7 graph=9 graph_node=1 start=300 dur=4 correlation=3
kernel context=1 stream=8 start=320 dur=5`, "320@0", Options{}},
	{"before all top-level work: no call, then and later", `
kernel context=1 stream=7 graph=9 graph_node=1 start=300 dur=4 correlation=3
kernel context=1 stream=7 graph=9 graph_node=1 start=400 dur=4 correlation=4
kernel context=1 stream=8 graph=9 graph_node=2 start=290 dur=5
kernel context=1 stream=8 graph=9 graph_node=2 start=390 dur=5`, "290@0 390@0", Options{}},
	{"beside all top-level work: of the launch that runs, later no call", `
kernel context=1 stream=7 graph=9 graph_node=1 start=300 dur=4 correlation=3
kernel context=1 stream=7 graph=9 graph_node=1 start=400 dur=4 correlation=4
kernel context=1 stream=8 graph=9 graph_node=2 start=303 dur=5
kernel context=1 stream=8 graph=9 graph_node=2 start=399 dur=5`, "303@100 399@0", Options{}},
	{"of a launch by the GPU: no call", `
kernel context=1 stream=7 graph=9 graph_node=1 start=300 dur=4 correlation=3
kernel context=1 stream=8 graph=9 graph_node=1 start=320 dur=5
kernel context=1 stream=8 graph=9 graph_node=2 start=330 dur=5`, "320@0 330@0", Options{}},
	{"with the calls that are read", `
kernel context=1 stream=7 graph=9 graph_node=1 start=300 dur=4 correlation=3
kernel context=1 stream=8 graph=9 graph_node=2 start=310 dur=5
kernel context=1 stream=8 graph=8 graph_node=2 start=320 dur=5`, "310@100", Options{OfCalls: true}},
	{"where the filter hides other streams: no call", `
kernel context=1 stream=7 graph=9 graph_node=1 start=300 dur=4 correlation=3
kernel context=1 stream=8 graph=9 graph_node=2 start=310 dur=5`, "310@0",
		Options{Filter: &tracelog.Filter{Streams: []uint32{7, 8}}}},
	{"where parts of the log are missing: no call", `
kernel context=1 stream=7 graph=9 graph_node=1 start=300 dur=4 correlation=3
kernel context=1 stream=8 graph=9 graph_node=2 start=310 dur=5`, "310@0", Options{Damaged: true}},
	{"where work was lost: no call", `
lost pid=1 cause=cupti_dropped count=1
kernel context=1 stream=7 graph=9 graph_node=1 start=300 dur=4 correlation=3
kernel context=1 stream=8 graph=9 graph_node=2 start=310 dur=5`, "310@0", Options{}},
}

// Work in the body of a conditional node has the call that launched the graph, or none.
func TestBodies(t *testing.T) {
	t.Parallel()
	const launches = `process pid=1 start=1
api pid=1 tid=1 domain=1 name=cuGraphLaunch start=100 dur=50 correlation=3
api pid=1 tid=1 domain=1 name=cuGraphLaunch start=200 dur=50 correlation=4
`
	for _, test := range bodyTests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			log := launches + strings.NewReplacer("kernel ", "kernel pid=1 name=k ", "memset ", "memset pid=1 ",
				"memcpy ", "memcpy pid=1 ").Replace(test.log)
			for name, run := range map[string]func(*joining) *joining{"at once": (*joining).run, "in steps": (*joining).runInSteps} {
				if got := bodyCalls(run(newJoining(t, logtest.Assemble(t, log), test.options))); got != test.calls {
					t.Errorf("%s: the calls are %s, want %s", name, got, test.calls)
				}
			}
		})
	}
}

// certainTests are GPU work of two launches of a graph that has work in bodies alone, in logs that have every call.
var certainTests = []struct {
	name, log string
	calls     string // as in bodyTests
	options   Options
}{
	{"the first was called alone", "", "170@100 310@0 420@0", Options{}},
	{"a wait for the stream", "call pid=1 tid=1 func=cuStreamSynchronize enter=180 dur=10 args: stream=7\n", "170@100 310@200 420@200", Options{}},
	{"a wait for another stream", "call pid=1 tid=1 func=cuStreamSynchronize enter=180 dur=10 args: stream=9\n", "170@100 310@0 420@0", Options{}},
	{"a wait that failed", "call pid=1 tid=1 func=cuStreamSynchronize enter=180 dur=10 ret=700 args: stream=7\n", "170@100 310@0 420@0", Options{}},
	{"a wait for the context", "call pid=1 tid=2 func=cuCtxSynchronize enter=180 dur=10\n", "170@100 310@200 420@200", Options{}},
	{"a wait for one of two contexts", "context pid=1 id=2\ncall pid=1 tid=2 func=cuCtxSynchronize enter=180 dur=10\n", "170@100 310@0 420@0", Options{}},
	{"a wait for a stream made later", "call pid=1 tid=1 func=cuStreamDestroy_v2 enter=160 dur=2 args: stream=7\ncall pid=1 tid=1 func=cuStreamSynchronize enter=180 dur=10 args: stream=7\n", "170@100 310@0 420@0", Options{}},
	{"later work on the stream", "call pid=1 tid=1 func=cuLaunchKernel enter=160 dur=10 args: function=5 stream=7\napi pid=1 tid=1 domain=1 name=cuLaunchKernel start=161 dur=8 correlation=8\n" +
		"kernel pid=1 name=k context=1 stream=13 start=300 dur=1 correlation=8\n", "170@100 310@200 420@200", Options{}},
	{"later work on another stream", "call pid=1 tid=1 func=cuLaunchKernel enter=160 dur=10 args: function=5 stream=9\napi pid=1 tid=1 domain=1 name=cuLaunchKernel start=161 dur=8 correlation=8\n" +
		"kernel pid=1 name=k context=1 stream=14 start=300 dur=1 correlation=8\n", "170@100 310@0 420@0", Options{}},
	{"a launch without a record", "call pid=1 tid=2 func=cuGraphLaunch enter=50 dur=10 args: graphExec=3 stream=4\n", "170@0 310@0 420@0", Options{}},
	{"a launch that failed", "call pid=1 tid=2 func=cuGraphLaunch enter=50 dur=10 ret=700 args: graphExec=3 stream=4\n", "170@100 310@0 420@0", Options{}},
	{"with calls left out", "", "170@0 310@0 420@0", Options{Filter: &tracelog.Filter{From: 1, PIDs: []uint32{1}}}},
	{"with work lost", "lost pid=1 cause=cupti_dropped count=1\n", "170@0 310@0 420@0", Options{}},
}

// Where a graph has no top-level work, the calls tell the launch of its body work, or nothing does.
func TestBodiesByCalls(t *testing.T) {
	t.Parallel()
	const log = `function id=6 name=cuGraphLaunch library=driver args="graphExec:handle stream:handle"
function id=7 name=cuLaunchKernel library=driver args="function:handle stream:handle"
function id=8 name=cuStreamSynchronize library=driver args="stream:handle"
function id=9 name=cuCtxSynchronize library=driver
function id=10 name=cuStreamDestroy_v2 library=driver args="stream:handle"
meta key=pid value=1
process pid=1 start=1
cupti pid=1 status=on
context pid=1 id=1
`
	const rest = `call pid=1 tid=1 func=cuGraphLaunch enter=100 dur=50 args: graphExec=6 stream=7
call pid=1 tid=1 func=cuGraphLaunch enter=200 dur=50 args: graphExec=6 stream=7
api pid=1 tid=1 domain=1 name=cuGraphLaunch start=101 dur=48 correlation=3
api pid=1 tid=1 domain=1 name=cuGraphLaunch start=201 dur=48 correlation=4
kernel pid=1 name=k context=1 stream=8 graph=9 graph_node=1 start=170 dur=5
kernel pid=1 name=k context=1 stream=8 graph=9 graph_node=1 start=310 dur=5
kernel pid=1 name=k context=1 stream=8 graph=9 graph_node=1 start=420 dur=5
process_end pid=1 time=900 status=0 complete=1
end time=1000 complete=1
`
	for _, test := range certainTests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			open := logtest.Assemble(t, log+test.log+rest)
			for name, run := range map[string]func(*joining) *joining{"at once": (*joining).run, "in steps": (*joining).runInSteps} {
				j := run(newJoining(t, open, test.options))
				if got := bodyCalls(j); got != test.calls {
					t.Errorf("%s: the calls are %s, want %s", name, got, test.calls)
				}
				if n := uint64(strings.Count(test.calls, "@0")); j.Found.Work.Bodies != n {
					t.Errorf("%s: %d pieces of body work are counted without a call, want %d", name, j.Found.Work.Bodies, n)
				}
			}
		})
	}
}

// On a GPU, body work has the call of its launch, or none. The bodies of launch i of conditional.cu run for 1 + i % 4 rounds
// of two kernels.
func TestBodiesOnGPU(t *testing.T) {
	t.Parallel()
	rounds := func(launches, graphs int) (work []int) {
		for i := range launches {
			for range graphs {
				work = append(work, 2*(1+i%4))
			}
		}
		return work
	}
	for name, want := range map[string]struct {
		bodies  []int // of each launch
		without int   // pieces of body work without a call
	}{
		"beside":              {rounds(8, 1), 0},
		"bare":                {rounds(8, 1), 0},
		"bare-two":            {rounds(8, 2), 3},
		"bare-between":        {rounds(8, 1), 29},
		"bare-queued":         {rounds(8, 1), 40},
		"if":                  {[]int{5, 5, 5, 5, 5, 5, 5, 5}, 0},
		"cupti-bare":          {rounds(8, 1), 38},
		"cupti-beside-queued": {rounds(8, 1), 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := newJoining(t, func() (*tracelog.Reader, error) {
				return tracelog.Open("../../../testdata/gpu/logs/conditional/" + name + ".cudatrace")
			}, Options{})
			launches, without := bodiesOf(j.run())
			if without != want.without || j.Found.Work.Bodies != uint64(without) || len(launches) != len(want.bodies) {
				t.Errorf("%d launches, want %d; %d pieces of body work have no call, want %d, counted %d", len(launches), len(want.bodies),
					without, want.without, j.Found.Work.Bodies)
			}
			for i, n := range launches {
				if n > want.bodies[i] || want.without == 0 && n < want.bodies[i] {
					t.Errorf("launch %d has %d pieces of body work, want %d", i, n, want.bodies[i])
				}
			}
		})
	}
}

// bodiesOf counts the body work of each launch of a graph, in the order of the calls, and the body work without a call.
func bodiesOf(j *joining) (launches []int, without int) {
	counts := make(map[uint64]int)
	for _, p := range j.timeline().Processes {
		for _, th := range p.Threads {
			for i := range th.Slices {
				if strings.Contains(th.Slices[i].Name, "GraphLaunch") {
					counts[th.Slices[i].Start] += 0
				}
			}
		}
		for _, s := range p.Streams {
			for i := range s.Work {
				w := &s.Work[i]
				switch {
				case w.Graph == 0 || w.Shape.Kernel.Name == "_Z3topPi":
				case w.Call.Function == nil:
					without++
				default:
					counts[w.Call.Start]++
				}
			}
		}
	}
	for _, start := range slices.Sorted(maps.Keys(counts)) {
		launches = append(launches, counts[start])
	}
	return launches, without
}

// Beyond its limits a program's body work has no call.
func TestBodyLimits(t *testing.T) {
	t.Parallel()
	o := &waitingWork{start: 200, stream: &stream{out: &timeline.Stream{Context: &timeline.Context{ID: 1}}}}
	top := &timeline.Work{Start: 100, Dur: 4, Graph: 9, Correlation: 3}
	body := &timeline.Work{Start: 200, Dur: 5, Graph: 9, GraphNode: 1}
	full := graphs{size: maxGraphs}
	if full.matchNode(top, o) || full.matchNode(body, o) || len(full.byKey) > 0 {
		t.Error("a graph too many is followed")
	}
	var waiting graphs
	if waiting.matchNode(top, o); !waiting.matchNode(body, o) || waiting.unsettledWork() != 2 {
		t.Fatalf("%d pieces of work wait, want 2", waiting.unsettledWork())
	}
	launch := uint32(0)
	waiting.settle(waiting.newestWork(), func(_ *waitingWork, of uint32) { launch = of })
	if launch != top.Correlation || waiting.unsettledWork() != 0 {
		t.Errorf("where too much waits, body work is of launch %d; %d pieces wait", launch, waiting.unsettledWork())
	}
	last := graphs{size: maxGraphs - 1}
	if last.matchNode(top, o); !last.matchNode(body, o) {
		t.Fatal("the last graph is not followed")
	}
	last.settle(timeline.Never, nil)
	if g := last.recent; !g.unsure || len(g.nodes) > 0 || len(last.bodies) > 0 {
		t.Errorf("a node too many is followed: %+v", g)
	}
}

// bodyCalls describes the calls of body work.
func bodyCalls(j *joining) string {
	var words []string
	for _, p := range j.timeline().Processes {
		for _, s := range p.Streams {
			for i := range s.Work {
				if w := &s.Work[i]; w.Dur == 5 {
					words = append(words, fmt.Sprintf("%d@%d", w.Start, w.Call.Start))
				}
			}
		}
	}
	return strings.Join(words, " ")
}

// A question is for the launch of a graph at a time; 0 for none.
type question struct {
	graph uint32
	at    uint64
	want  uint32
}

// Of finds the only launch that can have been running.
func TestOf(t *testing.T) {
	t.Parallel()
	first, second := graphLaunch{Correlation: 1, Start: 100, End: 110, Stream: 7, Exec: 70}, graphLaunch{Correlation: 2, Start: 200, End: 210, Stream: 7, Exec: 70}
	other := graphLaunch{Correlation: 3, Start: 150, End: 160, Stream: 8, Exec: 80}
	tests := []struct {
		name      string
		launches  []graphLaunch
		marks     []finishMark
		questions []question
	}{
		{"the only one", []graphLaunch{first}, nil, []question{{9, 99, 0}, {9, 100, 1}, {9, 500, 1}}},
		{"several", []graphLaunch{first, second}, nil, []question{{9, 199, 1}, {9, 200, 0}, {9, 900, 0}}},
		{"in any order", []graphLaunch{second, first}, nil, []question{{9, 199, 1}, {9, 200, 0}}},
		{"behind a wait for the stream", []graphLaunch{first, second}, []finishMark{{Stream: 7, After: 110, At: 190}}, []question{{9, 150, 1}, {9, 200, 2}}},
		{"behind a wait for everything", []graphLaunch{first, second}, []finishMark{{After: 150, At: 190}}, []question{{9, 300, 2}}},
		{"behind a wait for another stream", []graphLaunch{first, second}, []finishMark{{Stream: 8, After: 150, At: 190}}, []question{{9, 300, 0}}},
		{"behind a wait that began before the launch returned", []graphLaunch{first, second}, []finishMark{{Stream: 7, After: 109, At: 190}}, []question{{9, 300, 0}}},
		{"before the end of a wait", []graphLaunch{first, second}, []finishMark{{Stream: 7, After: 120, At: 250}}, []question{{9, 240, 0}, {9, 250, 2}}},
		{"a wait that is not known yet", []graphLaunch{first, second}, []finishMark{{Stream: 7, After: 1000, At: 1001}}, []question{{9, 300, 0}}},
		{"a wait for another stream of the same handle", []graphLaunch{first, second}, []finishMark{{Stream: 7, After: 190, At: 195}, {Stream: 7, After: 120, Destroyed: true}}, []question{{9, 300, 0}}},
		{"a wait for everything, of a stream that was destroyed", []graphLaunch{first, second}, []finishMark{{After: 190, At: 195}, {Stream: 7, After: 120, Destroyed: true}}, []question{{9, 300, 2}}},
		{"of two graphs", []graphLaunch{first, other}, nil, []question{{9, 120, 1}, {5, 170, 3}}},
		{"of two graphs at once", []graphLaunch{first, other}, nil, []question{{9, 170, 0}, {5, 180, 0}}},
		{"with the graph's handle", []graphLaunch{first, other, second}, []finishMark{{Stream: 7, After: 120, At: 195}}, []question{{9, 120, 1}, {9, 300, 2}}},
		{"two records of one launch", []graphLaunch{{Correlation: 1, Start: 102, End: 108, Stream: 7}, {Correlation: 1, Start: 100, End: 110}, second}, []finishMark{{Stream: 7, After: 109, At: 190}}, []question{{9, 101, 1}, {9, 300, 0}}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var l graphLaunches
			ofNumber := map[uint32]*graph{5: new(graph), 9: new(graph)}
			for _, x := range test.launches {
				l.addLaunch(x)
			}
			for _, m := range test.marks {
				l.mark(m)
			}
			l.advance(1000)
			for _, q := range test.questions {
				if got := l.onlyRunning(ofNumber[q.graph], q.at); got != q.want {
					t.Errorf("graph %d at %d is of launch %d, want %d", q.graph, q.at, got, q.want)
				}
			}
		})
	}
}

// A launch that ran is of its graph, and the graph's earlier launches had finished.
func TestRan(t *testing.T) {
	t.Parallel()
	var l graphLaunches
	a, b := new(graph), new(graph)
	for i := range uint32(4) {
		l.addLaunch(graphLaunch{Correlation: i + 1, Start: uint64(i*10 + 10), End: uint64(i*10 + 15)})
	}
	l.ran(1, a, 50)
	l.ran(2, b, 50)
	l.ran(4, a, 60)
	l.ran(9, a, 60)
	l.passed(50)
	if got := l.onlyRunning(a, 59); got != 0 {
		t.Errorf("of launches 1, 3 and 4 it is %d", got)
	}
	if l.passed(60); len(l.list) != 3 {
		t.Errorf("%d launches may be running, want 3", len(l.list))
	}
	if got := l.onlyRunning(b, 70); got != 0 {
		t.Errorf("of launches 2 and 3 it is %d", got)
	}
}

// Beyond its limits nothing is certain, and nothing is kept.
func TestLimits(t *testing.T) {
	t.Parallel()
	var l graphLaunches
	for i := range uint32(maxGraphRuns) {
		l.addLaunch(graphLaunch{Correlation: i + 1, Start: uint64(i)*10 + 10, End: uint64(i)*10 + 15})
	}
	if got := l.onlyRunning(new(graph), 12); got != 1 || len(l.list) != maxGraphRuns {
		t.Fatalf("the first of %d launches is %d", len(l.list), got)
	}
	l.addLaunch(graphLaunch{Correlation: 1 << 20, Start: 1 << 20, End: 1 << 20})
	l.mark(finishMark{At: 1})
	if got := l.onlyRunning(new(graph), 13); got != 0 || l.list != nil || l.marks != nil || !l.launched {
		t.Errorf("beyond the limit it is launch %d", got)
	}
}

// A program may make one graph executable again and again: what is known of the nodes is bounded for all of them together.
func TestNamedNodesAreBounded(t *testing.T) {
	t.Parallel()
	l := newCaptures(nil, nil, timeline.CaptureUnseen)
	var all []*instance
	for i := range uint32(1000) {
		x := new(instance)
		l.know(x, i+1, make([]*capturedCall, maxNamed/128))
		all = append(all, x)
	}
	nodes := 0
	for _, x := range all {
		nodes += len(x.nodes)
	}
	if nodes != l.nodesOf || nodes > maxNamed || nodes == 0 || len(all[999].nodes) == 0 {
		t.Errorf("%d nodes are known, %d are counted; of the last graph %d", nodes, l.nodesOf, len(all[999].nodes))
	}
}
