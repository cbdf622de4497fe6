package probe

import (
	"fmt"
	"path/filepath"

	"strings"
	"testing"

	"github.com/cudatrace/cudatrace/bpf"
	"github.com/cudatrace/cudatrace/record/must"
	"github.com/cudatrace/cudatrace/record/pattern"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// A functionRecording records functions of the program anyfunctions.
type functionRecording struct {
	*target
	prober *Prober
	found  map[string]Functions // by the name of the file
	names  map[uint32]string
}

func recordFunctions(t *testing.T, o Options, patterns ...string) *functionRecording {
	t.Helper()
	r := &functionRecording{found: map[string]Functions{}, names: map[uint32]string{}}
	for _, text := range patterns {
		of := must.Get(pattern.ParseFunctions(strings.TrimPrefix(text, "-")))(t)
		if strings.HasPrefix(text, "-") {
			o.WithoutOfFiles = append(o.WithoutOfFiles, of)
		} else {
			o.OfFiles = append(o.OfFiles, of)
		}
	}
	o.OnFunctions = func(f Functions) {
		r.found[filepath.Base(f.Path)] = f
		for _, x := range f.New {
			r.names[x.ID] = x.Name
		}
	}
	r.prober, r.target = open(t, o), startTarget(t, "anyfunctions")
	attach(t, r.prober, r.target)
	return r
}

// text shows the entries and returns of a thread, "add(5 4) = 9", in brackets what lies within.
func (r *functionRecording) text(events []tracelog.FunctionEvent, tid uint32) string {
	var b strings.Builder
	last := uint64(0)
	for _, e := range events {
		if e.TID != tid {
			continue
		}
		if e.Time < last {
			b.WriteString("BACK IN TIME ")
		}
		last = e.Time
		name := r.names[e.Func]
		switch {
		case e.Flags == tracelog.FunctionEntry:
			fmt.Fprintf(&b, "%s(%d %d)[", name, e.Args[0], e.Args[1])
		case e.Flags == tracelog.FunctionEntry|tracelog.FunctionAlone:
			fmt.Fprintf(&b, "%s(%d %d) ", name, e.Args[0], e.Args[1])
		case e.Flags == tracelog.FunctionReturn:
			fmt.Fprintf(&b, "]=%d ", int64(e.Ret))
		case e.Flags == tracelog.FunctionReturn|tracelog.FunctionLeft:
			b.WriteString("]left ")
		default:
			fmt.Fprintf(&b, "flags %x", e.Flags)
		}
	}
	return strings.TrimSpace(b.String())
}

// The functions of a library and of a program are recorded with their arguments and what they return, nested as they were called,
// and no call of CUDA is lost.
func TestFunctions(t *testing.T) {
	for _, mode := range []attachMode{modeMulti, modeSingle} {
		t.Run(mode.String(), func(t *testing.T) {
			r := recordFunctions(t, Options{mode: mode}, "libfunctions:add/2", "libfunctions.so:outer*/1", "anyfunctions:own_*", "anyfunctions:none*", "libfunctions:a*", "-libfunctions:again")
			if got := r.run("steps", 2); got != "8" {
				t.Errorf("the program computed %s", got)
			}
			all := finish(t, r.prober)
			if got, want := r.text(all.functions, uint32(r.pid)), "own_step(0 0)[outer(0 0)[add(0 1)[]=1 add(0 2)[]=2 ]=3 ]=3 own_step(0 0)[outer(1 0)[add(1 1)[]=2 add(1 2)[]=3 ]=5 ]=5"; r.prober.Mode() == mode.String() && strings.ReplaceAll(got, "own_step(1 ", "own_step(0 ") != want {
				t.Errorf("recorded were\n%s\nnot\n%s", got, want)
			}
			if n := all.count("cuLaunchKernel", 0); n != 2 || len(all.threads) != 1 {
				t.Errorf("%d launches, %d threads", n, len(all.threads))
			}
			if f := r.found["libfunctions.so.1.2"]; len(f.New) != 2 || len(f.Once)+f.Beyond+len(f.Refused) != 0 || f.Err != nil || f.New[0].Library != "libfunctions.so.1.2" {
				t.Errorf("found were %+v", f)
			}
			if none := r.prober.Unmatched(); len(none) != 2 || none[0].String() != "anyfunctions:none*" { // and a*, of which each was another's, or left out
				t.Errorf("unmatched are %v", none)
			}
		})
	}
}

// A function that longjmp or an exception leaves ends before the next one begins or ends.
func TestFunctionsLeft(t *testing.T) {
	r := recordFunctions(t, Options{}, "libfunctions:again/1", "libfunctions:left/1", "libfunctions:*::*/1")
	if got := r.run("left", 4); got != "2" {
		t.Errorf("the program computed %s", got)
	}
	if got := r.run("exceptions", 3); got != "-3" {
		t.Errorf("the program computed %s", got)
	}
	all := finish(t, r.prober)
	want := "again(0 0)[left(0 0)[]left ]=-1 again(1 0)[left(1 0)[]=1 ]=1 again(2 0)[left(2 0)[]left ]=-1 again(3 0)[left(3 0)[]=3 ]=3 " +
		"_ZN6shapes7catcherEi(0 0)[_ZN6shapes7throwerEi(0 0)[]=0 ]=0 _ZN6shapes7catcherEi(1 0)[_ZN6shapes7throwerEi(1 0)[]left ]=4294967295 " +
		"_ZN6shapes7catcherEi(2 0)[_ZN6shapes7throwerEi(2 0)[]left ]=4294967294"
	if got := r.text(all.functions, uint32(r.pid)); got != want {
		t.Errorf("recorded were\n%s\nnot\n%s", got, want)
	}
	if once := r.found["libfunctions.so.1.2"].Once; len(once) != 0 {
		t.Errorf("without returns are %q", once)
	}
}

// Functions that are nested too deeply, and those that are called more often than is recorded, are counted. The rest is whole.
func TestFunctionsBounded(t *testing.T) {
	r := recordFunctions(t, Options{rate: 70}, "libfunctions:deep/1", "libfunctions:add/2")
	r.run("deep", 60)
	sink := &recorder{}
	var lost []tracelog.Lost
	take := func() {
		t.Helper()
		some := must.Get(r.prober.LostSince())(t)
		lost = append(lost, some...)
	}
	r.run("adds", 10_000) // at this rate they would have to take 14 s
	must.Do(t, r.prober.Finish(sink))
	take()
	count := map[string]int{}
	for _, e := range sink.functions {
		if e.Flags == tracelog.FunctionEntry {
			count[r.names[e.Func]]++
		} else if e.Flags == tracelog.FunctionReturn {
			count["return of "+r.names[e.Func]]++
		}
	}
	by := map[string]uint64{}
	for _, l := range lost {
		by[l.Cause] += l.Count
	}
	if count["deep"] != bpf.MaxNested || count["return of deep"] != bpf.MaxNested || by[tracelog.LostFunctionNesting] != 61-bpf.MaxNested {
		t.Errorf("counted %v, lost %v", count, by)
	}
	if n := uint64(count["add"]); n+by[tracelog.LostFunctionRate] != 10_000 || count["add"] != count["return of add"] || n < 60 || by[tracelog.LostFunctionRate] == 0 {
		t.Errorf("counted %v, lost %v", count, by)
	}
}

// A thread that calls nothing of CUDA's has its functions and its name.
func TestFunctionsOfThread(t *testing.T) {
	r := recordFunctions(t, Options{}, "libfunctions:*/2", "-libfunctions:add")
	if got := r.run("thread", 7); got != "17" {
		t.Errorf("the program computed %s", got)
	}
	all := finish(t, r.prober)
	if len(all.threads) != 1 || all.threads[0].TID == uint32(r.pid) || len(all.calls) != 0 {
		t.Fatalf("threads are %v, calls %v", all.threads, all.calls)
	}
	if got := r.text(all.functions, all.threads[0].TID); !strings.HasPrefix(got, "outer(7 ") || !strings.HasSuffix(got, ")[]=17") {
		t.Errorf("recorded were %s", got)
	}
}

// More functions than there is room for are not probed at all, and said to be.
func TestTooManyFunctions(t *testing.T) {
	r := recordFunctions(t, Options{}, "libc.so:*", "libfunctions:same/1")
	if got := r.run("same", 0); got != "1" {
		t.Errorf("the program computed %s", got)
	}
	all := finish(t, r.prober)
	if f := r.found["libc.so.6"]; f.Beyond < 1000 || len(f.New) != 0 || f.Most != maxFunctions || len(all.functions) != 2 {
		t.Errorf("found were %d of %d, %d too many; %d events", len(f.New), f.Most, f.Beyond, len(all.functions))
	}
}
