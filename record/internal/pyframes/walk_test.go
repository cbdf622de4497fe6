package pyframes

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/cudatrace/cudatrace/record/must"
	"github.com/cudatrace/cudatrace/record/pythontest"
)

const walked = `import sys, threading
class Outer:
    def wait(self):
        sys.stdin.read()
def middle(o):
    for x in [1]:
        o.wait()
def spin():
    global turns
    while True:
        turns += 1
def busy():
    spin()
def deep(n):
    if n == 0:
        middle(Outer())
    else:
        deep(n - 1)
turns = 0
t = threading.Thread(target=busy, daemon=True)
t.start()
while turns < 1000:
    pass
print(threading.get_native_id(), t.native_id, flush=True)
if len(sys.argv) > 1:
    sys.setrecursionlimit(5000)
    deep(int(sys.argv[1]))
middle(Outer())`

// text writes a stack as lines, the innermost first.
func text(frames []Frame) string {
	var b strings.Builder
	for _, f := range frames {
		fmt.Fprintf(&b, "%s:%d ", f.Code.Function, f.Line())
	}
	return b.String()
}

// TestWalk reads the stacks of a thread that waits and of one that runs.
func TestWalk(t *testing.T) {
	pythontest.Each(t, func(t *testing.T, p pythontest.Interpreter) {
		pid, said := start(t, exec.Command(p.Path, "-c", walked))
		i, err := Find(pid)
		if err != nil || i == nil {
			t.Fatal(i, err)
		}
		var first, second uint32
		must.Get(fmt.Sscan(said, &first, &second))(t)
		w := NewWalker(pid, i)
		want, name := "wait:4 middle:7 <module>:28 ", ""
		if p.Minor >= 11 {
			want = "Outer." + want
		}
		for n := 0; name != want && n < 1e6; n++ { // it has said that it is ready, and is on its way there
			frames, cut, err := w.Stack(first, nil)
			if err == nil && !cut {
				name = text(frames)
			}
		}
		if name != want {
			t.Errorf("the first thread is at %s, not %s", name, want)
		}
		for range 200 {
			frames, _, err := w.Stack(second, nil)
			if err != nil {
				t.Fatal(err)
			}
			got := text(frames)
			if !strings.HasPrefix(got, "spin:10 busy:13 ") && !strings.HasPrefix(got, "spin:11 busy:13 ") {
				t.Fatalf("the second thread is at %s", got)
			}
		}
		if frames, _, err := w.Stack(1<<30, nil); len(frames) > 0 || err != nil {
			t.Error("a thread that is none has frames", frames, err)
		}
	})
}

// TestWalkDeep reads a stack of more frames than are kept.
func TestWalkDeep(t *testing.T) {
	pythontest.Each(t, func(t *testing.T, p pythontest.Interpreter) {
		pid, said := start(t, exec.Command(p.Path, "-c", walked, "1000"))
		i, err := Find(pid)
		if err != nil || i == nil {
			t.Fatal(i, err)
		}
		var first uint32
		must.Get(fmt.Sscan(said, &first))(t)
		w := NewWalker(pid, i)
		for n := 0; n < 1e6; n++ {
			frames, cut, err := w.Stack(first, nil)
			if err == nil && cut && strings.Contains(text(frames), "wait:4 ") {
				if len(frames) != MaxDepth {
					t.Errorf("%d frames", len(frames))
				}
				return
			}
		}
		t.Error("the stack was not seen")
	})
}

// TestWalkGone walks in a process that has ended.
func TestWalkGone(t *testing.T) {
	pythontest.Each(t, func(t *testing.T, p pythontest.Interpreter) {
		cmd := exec.Command(p.Path, "-c", "import sys; print(1, flush=True); sys.stdin.read()")
		in, _ := cmd.StdinPipe()
		out, _ := cmd.StdoutPipe()
		must.Do(t, cmd.Start())
		must.Get(fmt.Fscan(out, new(int)))(t)
		i, err := Find(cmd.Process.Pid)
		if err != nil || i == nil {
			t.Fatal(i, err)
		}
		in.Close()
		must.Do(t, cmd.Wait())
		if frames, _, err := NewWalker(cmd.Process.Pid, i).Stack(uint32(cmd.Process.Pid), nil); err == nil || len(frames) > 0 {
			t.Error("frames of a process that is gone:", frames, err)
		}
	})
}

func TestCharacters(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		in    []byte
		width int
		want  string
	}{
		{[]byte("plain"), 1, "plain"},
		{[]byte{'Z', 0xfc}, 1, "Zü"},
		{[]byte{0x2d, 0x4e, 'x'}, 2, "中"},
		{[]byte{0xbb, 0xd4, 1, 0}, 4, "\U0001d4bb"},
		{[]byte{0xff, 0xdc}, 2, "\xff"},
		{[]byte{0xff, 0xff, 0xff, 0xff}, 4, "\ufffd"},
	} {
		if got := Characters(c.in, c.width); got != c.want {
			t.Errorf("%x: %q, not %q", c.in, got, c.want)
		}
	}
}
