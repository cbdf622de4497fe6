package join

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cudatrace/cudatrace/convert/timeline"
)

// projecting makes projections for a test.
type projecting struct {
	*projections
	spanEmitter
	stream  *timeline.Stream
	threads [2]*timeline.Thread
	calls   uint64
}

func newProjecting(t *testing.T) *projecting {
	e, p := newSpanEmitter(t)
	x := &projecting{spanEmitter: e, projections: newProjections(newSpanOutput(e), p), stream: &timeline.Stream{ID: 7, Context: &timeline.Context{Process: p}}}
	for i := range x.threads {
		x.threads[i] = &timeline.Thread{Process: p, TID: uint32(1 + i), Main: i == 0}
	}
	return x
}

// ran takes work of a call within ranges. The call is another one than that before, unless
// repeats is set.
func (x *projecting) ran(start, end uint64, within *timeline.RangeStack, repeats ...bool) {
	if len(repeats) == 0 {
		x.calls++
	}
	w := &timeline.Work{Start: start, Dur: end - start, Call: timeline.Call{Thread: x.threads[0], Ranges: within, Start: x.calls}}
	if within != nil {
		w.Call.Thread = within.Thread
	}
	x.work(x.stream, w)
}

// in returns a range of a thread within another one.
func (x *projecting) in(outer *timeline.RangeStack, name string) *timeline.RangeStack {
	r := &timeline.Range{Thread: x.threads[0], Name: name}
	if outer != nil {
		r.Thread = outer.Thread
	}
	return &timeline.RangeStack{Range: r, Outer: outer}
}

func ended(s *timeline.RangeStack, dur uint64) *timeline.RangeStack {
	s.Ended(dur)
	return s
}

func TestProjections(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		work func(x *projecting)
		want string
	}{
		"from the first work to the last": {func(x *projecting) {
			step := ended(x.in(nil, "step"), 50)
			x.ran(90, 95, nil)
			x.ran(100, 110, step)
			x.ran(120, 150, step, true)
			x.ran(160, 170, step)
			x.ran(200, 210, nil)
		}, `
  100 BEGIN step cpu_duration_ns=50 gpu_busy_ns=50 launches=2 gpu_operations=3
  170 END
`},
		"nested as on the thread": {func(x *projecting) {
			step := ended(x.in(nil, "step"), 50)
			forward, backward := ended(x.in(step, "forward"), 20), ended(x.in(step, "backward"), 21)
			x.ran(100, 110, forward)
			x.ran(110, 120, step)
			x.ran(130, 150, backward)
			x.ran(160, 170, ended(x.in(nil, "next"), 5))
		}, `
  100 BEGIN step cpu_duration_ns=50 gpu_busy_ns=40 launches=3 gpu_operations=3
    100 BEGIN forward cpu_duration_ns=20 gpu_busy_ns=10 launches=1 gpu_operations=1
    110 END
    130 BEGIN backward cpu_duration_ns=21 gpu_busy_ns=20 launches=1 gpu_operations=1
    150 END
  150 END
  160 BEGIN next cpu_duration_ns=5 gpu_busy_ns=10 launches=1 gpu_operations=1
  170 END
`},
		"work that overlaps counts once": {func(x *projecting) {
			step := ended(x.in(nil, "step"), 5)
			x.ran(100, 200, step)
			x.ran(150, 180, step)
			x.ran(190, 250, step)
		}, `
  100 BEGIN step cpu_duration_ns=5 gpu_busy_ns=150 launches=3 gpu_operations=3
  250 END
`},
		"ranges whose work overlaps": {func(x *projecting) {
			step := ended(x.in(nil, "step"), 5)
			a, b := ended(x.in(step, "a"), 1), ended(x.in(step, "b"), 2)
			x.ran(100, 200, a)
			x.ran(190, 300, b)
			x.ran(250, 280, ended(x.in(b, "in b"), 3))
		}, `
  100 BEGIN step cpu_duration_ns=5 gpu_busy_ns=200 launches=3 gpu_operations=3
    100 BEGIN a cpu_duration_ns=1 gpu_busy_ns=100 launches=1 gpu_operations=1
    200 END
  300 END
track of the thread on stream 7: nvtx_gpu "NVTX"
  190 BEGIN b cpu_duration_ns=2 gpu_busy_ns=110 launches=2 gpu_operations=2
    250 BEGIN in b cpu_duration_ns=3 gpu_busy_ns=30 launches=1 gpu_operations=1
    280 END
  300 END
`},
		"a range that ends within another one": {func(x *projecting) {
			a := ended(x.in(nil, "a"), 1)
			b := ended(x.in(a, "b"), 2)
			x.ran(100, 110, a)
			x.ran(120, 130, b)
			x.ran(140, 150, &timeline.RangeStack{Range: b.Range})
		}, `
  100 BEGIN a cpu_duration_ns=1 gpu_busy_ns=20 launches=2 gpu_operations=2
  130 END
track of the thread on stream 7: nvtx_gpu "NVTX"
  120 BEGIN b cpu_duration_ns=2 gpu_busy_ns=20 launches=2 gpu_operations=2
  150 END
`},
		"threads have tracks of their own": {func(x *projecting) {
			a, b := ended(x.in(nil, "a"), 1), ended(x.in(nil, "b"), 2)
			b.Range.Thread = x.threads[1]
			x.ran(100, 110, a)
			x.ran(110, 120, b)
			x.ran(120, 130, a)
		}, `
  100 BEGIN a cpu_duration_ns=1 gpu_busy_ns=20 launches=2 gpu_operations=2
  130 END
thread 1/2 ""
track of the thread on stream 7: nvtx_gpu "NVTX"
  110 BEGIN b cpu_duration_ns=2 gpu_busy_ns=10 launches=1 gpu_operations=1
  120 END
`},
		"in a domain, without an end": {func(x *projecting) {
			step := x.in(nil, "step")
			step.Range.Domain = "torch"
			x.ran(100, 110, step)
		}, `
  100 BEGIN step domain=0torch unfinished=0had not ended when recording did gpu_busy_ns=10 launches=1 gpu_operations=1
  110 END
`},
		"work without times": {func(x *projecting) {
			x.work(x.stream, &timeline.Work{Start: 100, Untimed: true, Call: timeline.Call{Thread: x.threads[0], Ranges: x.in(nil, "step")}})
			x.work(x.stream, &timeline.Work{Start: 100, Dur: 10})
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := newProjecting(t)
			c.work(x)
			x.advance()
			x.finish()
			_, got, _ := strings.Cut(x.text(), `nvtx_gpu "NVTX"`)
			if got != c.want {
				t.Errorf("%s\nwant%s", got, c.want)
			}
			if x.projections.out.budget.Spans.held != 0 {
				t.Errorf("%d projections are held back", x.projections.out.budget.Spans.held)
			}
		})
	}
}

// A range that stays open holds back few ranges. Its facts come at its end.
func TestProjectionsAreBounded(t *testing.T) {
	t.Parallel()
	x := newProjecting(t)
	run := ended(x.in(nil, "run"), 7)
	most := 0
	const bound = 1000
	x.projections.out.budget.Spans.Most = bound
	for i := range uint64(2 * bound) {
		x.ran(100+10*i, 105+10*i, ended(x.in(run, "step"), 1))
		x.advance()
		most = max(most, x.projections.out.budget.Spans.held)
	}
	if most > bound+1 {
		t.Errorf("%d ranges were held back", most)
	}
	if n := len(x.events); n < bound {
		t.Errorf("only %d events came while the range was open", n)
	}
	x.finish()
	first, last := x.events[0], x.events[len(x.events)-1]
	want := fmt.Sprintf("end %d cpu_duration_ns=7 gpu_busy_ns=%d launches=%d gpu_operations=%d", 95+20*bound, 10*bound, 2*bound, 2*bound)
	if first != "begin run..." || last != want {
		t.Errorf("%q ... %q, want %q", first, last, want)
	}
	x.text()
}

// Many ranges that overlap are cut off, and say so.
func TestProjectionsThatOverlap(t *testing.T) {
	t.Parallel()
	x := newProjecting(t)
	for i := range uint64(maxLanes + 10) {
		x.ran(100+i, 5000+i, ended(x.in(nil, "r"), 1))
	}
	x.finish()
	if n := strings.Count(strings.Join(x.events, ", "), "true_duration_ns=4900"); n != 10 {
		t.Errorf("%d ranges were cut off", n)
	}
	x.text()
}
