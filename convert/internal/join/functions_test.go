package join

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cudatrace/cudatrace/convert/timeline"
)

// spansOf are the spans that calls show, a line a span. A call is "START END FRAMES", with frames FUNCTION:LINE from the outermost on, or - for
// none, or launch: one without frames that has GPU work, on a thread of PyTorch's backward pass.
func spansOf(t *testing.T, calls ...string) string {
	t.Helper()
	var events heard
	p := pythonSpans{thread: &timeline.Thread{Name: "pt_autograd_0", Python: true}, begun: new(uint64)}
	stacks := make(map[string]*timeline.Python)
	for _, text := range calls {
		var c timeline.Slice
		var frames string
		if n, err := fmt.Sscan(text, &c.Start, &c.End, &frames); n != 3 {
			t.Fatal(err)
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
	p.endFrom(0, &events)
	var lines []string
	var open []int
	for _, e := range events {
		switch e := e.(type) {
		case *timeline.SpanBegin:
			name := strings.TrimPrefix(e.Name, "a.py(0): ")
			lines = append(lines, fmt.Sprintf("%s%s %d", strings.Repeat(" ", len(open)), name, e.Start))
			open = append(open, len(lines)-1)
		case *timeline.SpanEnd:
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
			if diff := cmp.Diff(c.want, spansOf(t, c.calls...)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
