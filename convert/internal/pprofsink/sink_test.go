package pprofsink_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/pprof/profile"

	"github.com/cudatrace/cudatrace/convert"
	"github.com/cudatrace/cudatrace/convert/internal/pprofsink"
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/goldentest"
	"github.com/cudatrace/cudatrace/record/must"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

const logs = "../../../testdata/gpu/logs/"

// of is the profile of logs, and what their work amounts to.
func of(t *testing.T, paths ...string) (p *profile.Profile, packed []byte, count, ns int64) {
	t.Helper()
	var list []convert.Log
	for _, path := range paths {
		list = append(list, convert.Log{Name: path, Open: func() (*tracelog.Reader, error) { return tracelog.Open(path) }})
	}
	var out bytes.Buffer
	_, err := convert.FilesTo(list, &out, convert.TraceOptions{Format: convert.FormatNamed("pprof")})
	must.Do(t, err)
	p, err = profile.Parse(bytes.NewReader(out.Bytes()))
	must.Do(t, err)
	_, err = convert.Timeline(list, convert.Options{}, counter(func(w *timeline.Work) {
		if count++; !w.Untimed {
			ns += int64(w.Dur)
		}
	}))
	must.Do(t, err)
	return p, out.Bytes(), count, ns
}

// A counter takes all GPU work.
type counter func(*timeline.Work)

func (c counter) Take(events []timeline.Event) error {
	for _, e := range events {
		if l, is := e.(*timeline.WorkList); is {
			for i := range l.List {
				c(&l.List[i])
			}
		}
	}
	return nil
}

func (c counter) End(error) error { return nil }

// A profile has all GPU work of its logs, by rank.
func TestSums(t *testing.T) {
	t.Parallel()
	for _, paths := range [][]string{
		{"train.cudatrace"}, {"operators.cudatrace"}, {"graphs/python.cudatrace"}, {"streams.cudatrace"},
		{"nccl-rank0.cudatrace", "nccl-rank1.cudatrace"},
	} {
		for i := range paths {
			paths[i] = logs + paths[i]
		}
		p, _, count, ns := of(t, paths...)
		var launches, gpu int64
		ranks := make(map[string]bool)
		for _, s := range p.Sample {
			launches, gpu = launches+s.Value[0], gpu+s.Value[1]
			ranks[strings.Join(s.Label["rank"], " ")] = true
		}
		if launches != count || gpu != ns || ns == 0 {
			t.Errorf("%v: %d launches of %d ns, want %d of %d", paths, launches, gpu, count, ns)
		}
		if len(ranks) != len(paths) || len(paths) > 1 && !(ranks["0"] && ranks["1"]) {
			t.Errorf("%v: ranks %v", paths, ranks)
		}
	}
}

// Stacks of Python lines and of operators, as pprof's library reads them.
func TestGolden(t *testing.T) {
	t.Parallel()
	p, _, _, _ := of(t, logs+"operators.cudatrace")
	goldentest.Hold(t, filepath.Join("testdata", "operators.golden"), p.String())
}

// Go's own pprof opens a profile and finds the kernels and lines in it.
func TestGoToolPprof(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("needs go")
	}
	_, packed, _, _ := of(t, logs+"operators.cudatrace")
	path := filepath.Join(t.TempDir(), "app.pb.gz")
	must.Do(t, os.WriteFile(path, packed, 0o666))
	top := func(options ...string) string {
		text, err := exec.Command("go", slices.Concat([]string{"tool", "pprof", "-top", "-nodecount=0"}, options, []string{path})...).Output()
		must.Do(t, err)
		return string(text)
	}
	for options, want := range map[string][]string{
		"-cum":                   {"Type: gpu_time", "Duration: 4.44s, Total samples = 4.48ms", "operators.py:train", "aten::addmm"},
		"-sample_index=launches": {"Type: launches", "Memcpy HtoD"},
		"-focus=aten::linear":    {"gemm"},
		"-tagfocus=gpu=^0$":      {"Memcpy HtoD"},
	} {
		got := top(options)
		for _, w := range want {
			if !strings.Contains(got, w) {
				t.Errorf("%s has no %q:\n%s", options, w, got)
			}
		}
	}
}

// Stacks beyond the bound are one sample: nothing is lost.
func TestManyStacks(t *testing.T) {
	t.Parallel()
	const stacks = 70_000
	var out bytes.Buffer
	s := pprofsink.New(&out, pprofsink.Options{HostPID: func(pid uint32) uint32 { return pid }})
	on := &timeline.Stream{Context: &timeline.Context{Process: &timeline.Process{PID: 7, Host: "node"}}}
	shape := &timeline.Shape{Kernel: timeline.KernelShape{Name: "k"}}
	for range 2 {
		for i := range uint32(stacks) {
			at := &timeline.Python{PythonFrame: &timeline.PythonFrame{File: "/a.py", Function: "f", Line: i + 1}, ID: i + 1}
			must.Do(t, s.Take([]timeline.Event{&timeline.WorkList{Stream: on, List: []timeline.Work{
				{Start: uint64(i), Dur: 3, Shape: shape, Call: timeline.Call{Python: at}},
			}}}))
		}
	}
	must.Do(t, s.End(nil))
	p, err := profile.Parse(&out)
	must.Do(t, err)
	total := int64(0)
	for _, s := range p.Sample {
		total += s.Value[1]
	}
	if last := p.Sample[len(p.Sample)-1]; total != 2*3*stacks || len(p.Sample) >= stacks ||
		last.Location[0].Line[0].Function.Name != "(other stacks)" || last.Label != nil {
		t.Errorf("%d ns in %d samples, the last of them %v", total, len(p.Sample), last)
	}
}

// Texts that are not UTF-8 become such: protobuf has no others.
func TestNotUTF8(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	s := pprofsink.New(&out, pprofsink.Options{HostPID: func(pid uint32) uint32 { return pid }})
	at := &timeline.Python{PythonFrame: &timeline.PythonFrame{File: "/\xff.py", Function: "f\xc3"}, ID: 1}
	must.Do(t, s.Take([]timeline.Event{&timeline.WorkList{
		Stream: &timeline.Stream{Context: &timeline.Context{Process: &timeline.Process{PID: 7, Host: "n\xfe"}}},
		List: []timeline.Work{{Dur: 3, Shape: &timeline.Shape{Kernel: timeline.KernelShape{Name: "k\xf0"}},
			Call: timeline.Call{Python: at}}},
	}}))
	must.Do(t, s.End(nil))
	p, err := profile.Parse(&out)
	must.Do(t, err)
	if text := p.String(); !utf8.ValidString(text) || strings.Count(text, "\ufffd") < 4 {
		t.Errorf("%q", text)
	}
}

// An error of the timeline leaves the file empty, one of writing is returned.
func TestErrors(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if err := pprofsink.New(&out, pprofsink.Options{}).End(errors.New("cut")); err != nil || out.Len() > 0 {
		t.Errorf("%d bytes, %v", out.Len(), err)
	}
	full := errors.New("disk full")
	if err := pprofsink.New(failing{full}, pprofsink.Options{}).End(nil); !errors.Is(err, full) {
		t.Errorf("got %v", err)
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }
