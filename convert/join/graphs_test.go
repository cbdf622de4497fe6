package join

import (
	"fmt"
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
	{"beside all top-level work: no call, then and later", `
kernel context=1 stream=7 graph=9 graph_node=1 start=300 dur=4 correlation=3
kernel context=1 stream=7 graph=9 graph_node=1 start=400 dur=4 correlation=4
kernel context=1 stream=8 graph=9 graph_node=2 start=303 dur=5
kernel context=1 stream=8 graph=9 graph_node=2 start=399 dur=5`, "303@0 399@0", Options{}},
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

// Beyond its limits a program's body work has no call.
func TestBodyLimits(t *testing.T) {
	t.Parallel()
	o := &orphan{stream: &stream{out: &timeline.Stream{Context: &timeline.Context{ID: 1}}}}
	top, body := &timeline.Work{Start: 100, Dur: 4, Graph: 9, Correlation: 3}, &timeline.Work{Start: 200, Dur: 5, Graph: 9}
	full := graphs{size: maxGraphs}
	if full.take(top, o) || full.take(body, o) || len(full.byKey) > 0 {
		t.Error("a graph too many is followed")
	}
	late := graphs{top: make([]nodeWork, maxTop)}
	if late.take(top, o) || late.take(body, o) || !late.off || late.top != nil {
		t.Error("more top-level work waits than may")
	}
	last := graphs{size: maxGraphs - 1}
	if last.take(top, o); !last.take(body, o) {
		t.Fatal("the last graph is not followed")
	}
	last.settle(timeline.Never, nil, nil)
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
