package join

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cudatrace/cudatrace/convert/timeline"
)

// spansOf are the spans of a category that calls show, a line a span. A call is "START END FRAMES|OPERATORS", with
// frames FUNCTION:LINE from the outermost on, or - for none, or launch: one without frames that has GPU work, on a thread of
// PyTorch's backward pass. Operators need not be there; a range has # before its name.
func spansOf(t *testing.T, of timeline.Category, calls ...string) string {
	t.Helper()
	var events heard
	p := newSeen(&timeline.Thread{Name: "pt_autograd_0", Python: true}, new(program))
	stacks, operators := make(map[string]*timeline.Python), make(map[string]*timeline.Operator)
	for _, text := range calls {
		var c timeline.Slice
		var frames string
		if n, err := fmt.Sscan(text, &c.Start, &c.End, &frames); n != 3 {
			t.Fatal(err)
		}
		frames, in, _ := strings.Cut(frames, "|")
		above := ""
		for o := range strings.SplitSeq(in, ",") {
			if o == "" {
				break
			}
			name, isRange := strings.CutPrefix(o, "#")
			if o = above + "," + o; operators[o] == nil {
				operators[o] = &timeline.Operator{Name: name, Parent: c.Operator}
				if isRange {
					operators[o].Scope = timeline.RangeScope
				}
			}
			above, c.Operator = o, operators[o]
		}
		path := ""
		for f := range strings.SplitSeq(frames, ",") {
			if f == "launch" {
				c.AddWork(1)
			}
			if f == "-" || f == "launch" {
				break
			}
			name, line, _ := strings.Cut(f, ":")
			above := c.Python
			if path += "," + f; stacks[path] == nil {
				frame := &timeline.PythonFrame{File: "a.py", Function: name}
				fmt.Sscan(line, &frame.Line)
				stacks[path] = &timeline.Python{PythonFrame: frame, Parent: above}
			}
			c.Python = stacks[path]
		}
		p.see(&c, &events)
	}
	p.end(&events)
	nest(t, events)
	var lines []string
	var open []int
	for _, e := range events {
		switch e := e.(type) {
		case *timeline.SpanBegin:
			if e.Track.Category != of {
				continue
			}
			name := strings.TrimPrefix(e.Name, "a.py(0): ")
			lines = append(lines, fmt.Sprintf("%s%s %d", strings.Repeat(" ", len(open)), name, e.Start))
			open = append(open, len(lines)-1)
		case *timeline.SpanEnd:
			if e.Track.Category != of {
				continue
			}
			at := open[len(open)-1]
			open = open[:len(open)-1]
			lines[at] += fmt.Sprintf(" to %d", e.End)
			for _, d := range e.Late {
				lines[at] += fmt.Sprintf(" %s=%s", d.Name, d.Text)
				if d.Text == "" {
					lines[at] += fmt.Sprint(d.Value)
				}
			}
		}
	}
	return strings.Join(lines, "\n")
}

// nest fails the test where an operator, not a range, crosses a Python function: both are on one thread of a Chrome
// trace.
func nest(t *testing.T, events []timeline.Event) {
	t.Helper()
	var ended []*timeline.Span
	for _, e := range events {
		end, ok := e.(*timeline.SpanEnd)
		if !ok || end.Operator != nil && end.Operator.Scope == timeline.RangeScope {
			continue
		}
		for _, s := range ended {
			first, second := s, &end.Span
			if first.Start > second.Start {
				first, second = second, first
			}
			if first.Start < second.Start && second.Start < first.End && first.End < second.End {
				t.Errorf("%s from %d to %d crosses %s from %d to %d", first.Name, first.Start, first.End,
					second.Name, second.Start, second.End)
			}
		}
		ended = append(ended, &end.Span)
	}
}

type heard []timeline.Event

func (h *heard) Emit(e timeline.Event) { *h = append(*h, e) }

func TestPythonSpans(t *testing.T) {
	t.Parallel()
	var many []string
	for i := range 20 {
		many = append(many, fmt.Sprintf("%d %d f:%d", 100*i+100, 100*i+110, 40-i))
	}
	for name, c := range map[string]struct {
		calls []string
		want  string
	}{
		"no frames": {[]string{"100 200 -"}, ""},
		"one call":  {[]string{"100 200 main:1,step:2"}, "main 98 to 200 calls=1 lines=1\n step 99 to 200 calls=1 lines=2"},
		"a function goes on": {[]string{"100 200 main:1,step:2", "300 400 main:1,step:3", "500 600 main:1"},
			"main 98 to 600 calls=3 lines=1\n step 99 to 400 calls=2 lines=2, 3"},
		"called from another line": {[]string{"100 200 main:1,step:2", "300 400 main:5,step:2"},
			"main 98 to 400 calls=2 lines=1, 5\n step 99 to 200 calls=1 lines=2\n step 299 to 400 calls=1 lines=2"},
		"recursion": {[]string{"100 200 f:1", "300 400 f:1,f:1", "500 600 f:1"}, "f 99 to 600 calls=3 lines=1\n f 299 to 400 calls=1 lines=1"},
		// A call without frames ends nothing, but nothing begins before it has ended.
		"calls without frames": {[]string{"100 200 f:1", "210 299 -", "300 400 f:1,g:1,h:1"},
			"f 99 to 400 calls=2 lines=1\n g 299 to 400 calls=1 lines=1\n  h 299 to 400 calls=1 lines=1"},
		"no room":           {[]string{"100 200 f:1", "200 300 g:1"}, "f 99 to 200 calls=1 lines=1\ng 200 to 300 calls=1 lines=1"},
		"calls within":      {[]string{"100 200 f:1", "110 150 g:1", "210 220 f:1"}, "f 99 to 220 calls=2 lines=1"},
		"backward":          {[]string{"100 200 -", "110 150 launch", "160 170 launch", "210 220 launch", "230 240 f:1"}, "(no Python frame: autograd) 99 to 220 calls=2\nf 229 to 240 calls=1 lines=1"},
		"10 ms":             {[]string{"100 200 f:1", "10000200 10000300 f:1"}, "f 99 to 10000300 calls=2 lines=1"},
		"more than 10 ms":   {[]string{"100 200 f:1", "10000201 10000300 f:1"}, "f 99 to 200 calls=1 lines=1 not_seen_for_ns=10000001\nf 10000200 to 10000300 calls=1 lines=1"},
		"a line is unknown": {[]string{"100 200 f:0"}, "f 99 to 200 calls=1"},
		"many lines":        {many, "f 99 to 2010 calls=20 lines=25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40 and others"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(c.want, spansOf(t, timeline.PythonFunctions, c.calls...)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestOperatorSpans(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		calls []string
		want  string
	}{
		"none":     {[]string{"100 200 f:1"}, ""},
		"one call": {[]string{"100 200 f:1|linear,addmm"}, "linear 98 to 204 calls=1\n addmm 99 to 202 calls=1"},
		"of several kernels": {[]string{"100 200 f:1|to,copy", "300 400 f:1|to,fill"},
			"to 98 to 404 calls=2\n copy 99 to 202 calls=1\n fill 299 to 402 calls=1"},
		"the same again": {[]string{"100 200 f:1|mul", "300 400 f:1|mul"}, "mul 99 to 202 calls=1\nmul 299 to 402 calls=1"},
		"the same again within another": {[]string{"100 200 f:1|Backward,mm", "300 400 f:1|Backward,mm"},
			"Backward 98 to 404 calls=2\n mm 99 to 202 calls=1\n mm 299 to 402 calls=1"},
		"one that launches behind what it calls": {[]string{"100 200 f:1|sum,fill", "300 400 f:1|sum", "500 600 f:1|sum"},
			"sum 98 to 204 calls=1\n fill 99 to 202 calls=1\nsum 299 to 402 calls=1\nsum 499 to 602 calls=1"},
		"one that launches before what it calls": {[]string{"100 200 f:1|sum", "300 400 f:1|sum,fill"},
			"sum 99 to 404 calls=2\n fill 299 to 402 calls=1"},
		"from another line": {[]string{"100 200 f:1|linear,addmm", "300 400 f:2|linear,addmm"},
			"linear 98 to 204 calls=1\n addmm 99 to 202 calls=1\nlinear 298 to 404 calls=1\n addmm 299 to 402 calls=1"},
		"a range calls Python": {[]string{"100 200 f:1|#step,mul", "300 400 f:2|#step,div", "500 600 f:3|#step", "700 800 f:3|#step"},
			"step 98 to 802 calls=4\n mul 99 to 202 calls=1\n div 299 to 402 calls=1"},
		"a launch in no operator": {[]string{"100 200 f:1|to,copy", "210 220 f:1", "300 400 f:1|to,copy"},
			"to 98 to 204 calls=1\n copy 99 to 202 calls=1\nto 298 to 404 calls=1\n copy 299 to 402 calls=1"},
		"a call of which nothing is known": {[]string{"100 200 f:1|to,copy", "210 220 -", "300 400 f:1|to,fill"},
			"to 98 to 404 calls=2\n copy 99 to 202 calls=1\n fill 299 to 402 calls=1"},
		"a call within": {[]string{"100 200 f:1|add", "110 150 f:1|add"}, "add 99 to 202 calls=1"},
		"no room":       {[]string{"100 200 f:1|a,b", "200 300 f:2|a,b", "303 400 f:2|a,c"}, "a 98 to 200 calls=1\n b 99 to 200 calls=1\na 200 to 404 calls=2\n b 200 to 301 calls=1\n c 302 to 402 calls=1"},
		"more than 10 ms": {[]string{"100 200 f:1|#r", "10000201 10000300 f:1|#r"},
			"r 99 to 202 calls=1 not_seen_for_ns=10000001\nr 10000200 to 10000302 calls=1"},
		"another function": {[]string{"100 200 f:1|a", "210 220 g:1,h:1|a", "225 300 g:1"},
			"a 99 to 202 calls=1\na 209 to 222 calls=1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(c.want, spansOf(t, timeline.Operators, c.calls...)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
