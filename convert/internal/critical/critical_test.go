package critical_test

import (
	"bytes"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/cudatrace/cudatrace/convert"
	"github.com/cudatrace/cudatrace/convert/internal/activity"
	"github.com/cudatrace/cudatrace/convert/internal/critical"
	"github.com/cudatrace/cudatrace/convert/logtest"
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/goldentest"
	"github.com/cudatrace/cudatrace/record/must"
)

// A sink collects a timeline, and the ranges called "step".
type sink struct {
	*critical.Collector
	room    *activity.Room
	threads map[*timeline.Thread]*thread
	steps   []step
}

type thread struct {
	*critical.Thread
	until uint64 // end of the last call that lies in no other one
}

type step struct {
	from, to uint64
	on       *timeline.Thread
}

func newSink() *sink {
	names := make(timeline.KernelNames)
	c := critical.New(names)
	c.KeepMore()
	return &sink{Collector: c, room: activity.NewRoom(), threads: make(map[*timeline.Thread]*thread)}
}

func (s *sink) thread(of *timeline.Thread) *thread {
	t := s.threads[of]
	if t == nil {
		t = &thread{Thread: s.Thread(of, s.room.NewHistory(of))}
		s.threads[of] = t
	}
	return t
}

func (s *sink) Take(events []timeline.Event) error {
	for _, e := range events {
		switch e := e.(type) {
		case *timeline.Recording:
			s.Recording(e)
		case *timeline.Thread:
			s.thread(e)
		case *timeline.States:
			s.thread(e.Thread).History.States(e.List)
		case *timeline.StackSamples:
			s.thread(e.Thread).History.Samples(e.Period, e.List)
		case *timeline.Slices:
			t := s.thread(e.Thread)
			for i := range e.List {
				sl := &e.List[i]
				s.AddCall(t.Thread, sl, sl.Start < t.until)
				t.until = max(t.until, sl.End)
			}
		case *timeline.WorkList:
			for i := range e.List {
				w := &e.List[i]
				var by *critical.Thread
				if w.Call.Thread != nil {
					by = s.thread(w.Call.Thread).Thread
				}
				s.AddWork(s.Stream(e.Stream), w, by)
			}
		case *timeline.SpanEnd:
			if e.Name == "step" && e.Track.Category == timeline.NVTX {
				s.steps = append(s.steps, step{e.Start, e.End, e.Track.Thread})
			}
		}
	}
	return nil
}

func (s *sink) End(error) error { return nil }

// head are the records before those of a log that does not have them.
const head = `function id=1 name=cuLaunchKernel library=driver args="function:handle stream:handle"
function id=2 name=cudaStreamSynchronize library=runtime args="stream:handle"
process pid=10 start=1 exe=/bin/app args=app
thread pid=10 tid=10 name=main
thread pid=10 tid=11 name=loader
thread pid=10 tid=12 name=pt_autograd_0
device pid=10 id=0 name=G uuid=00112233445566778899aabbccddeeff multiprocessors=132
context pid=10 id=1 device=0 null_stream=7
cupti pid=10 status=on
python_frame id=1 file=/home/ann/train.py function=main first_line=1 line=41
python_stack id=1 parent=0 frame=1
python_frame id=2 file=/home/ann/train.py function=load first_line=1 line=56
python_stack id=2 parent=0 frame=2
`

// A script writes a log from short lines, whose times are in µs: fields "key=value" behind a verb. Lines with other verbs are records.
type script struct {
	strings.Builder
	functions   int
	correlation int
}

func (s *script) line(line string) {
	words := strings.Fields(line)
	f := map[string]string{"tid": "10", "pid": "10", "stream": "13", "context": "1"}
	for _, w := range words[min(1, len(words)):] {
		key, value, _ := strings.Cut(w, "=")
		f[key] = value
	}
	ns := func(key string) int {
		x, _ := strconv.ParseFloat(f[key], 64)
		return int(x*1000 + 0.5)
	}
	more := func(format string, keys ...string) (text string) {
		for _, k := range keys {
			if v := f[k]; v != "" {
				text += " " + k + "=" + v
			}
		}
		return text + format
	}
	handle := func() int { n, _ := strconv.Atoi(f["stream"]); return 16 * n }
	if len(words) == 0 {
		return
	}
	switch words[0] {
	case "step": // from, to
		s.correlation++
		fmt.Fprintf(s, "marker pid=%s tid=%s flags=0x2 id=%d time=%d name=step\nmarker pid=%s tid=%s flags=0x4 id=%d time=%d\n", f["pid"], f["tid"], s.correlation, ns("from"), f["pid"], f["tid"], s.correlation, ns("to"))
	case "launch", "node": // from, to: the call; start, end: the work; a node is of the launch before it
		if words[0] == "launch" {
			s.correlation++
			fmt.Fprintf(s, "call pid=%s tid=%s func=cuLaunchKernel enter=%d dur=%d args: function=1 stream=%d\n", f["pid"], f["tid"], ns("from"), ns("to")-ns("from"), handle())
			fmt.Fprintf(s, "api pid=%s tid=%s domain=1 cbid=307 name=cuLaunchKernel start=%d dur=%d correlation=%d%s\n", f["pid"], f["tid"], ns("from"), ns("to")-ns("from"), s.correlation, more("", "python"))
		}
		if f["start"] != "" {
			fmt.Fprintf(s, "kernel pid=%s context=%s stream=%s correlation=%d start=%d dur=%d name=%s grid_x=1 grid_y=1 grid_z=1 block_x=32 block_y=1 block_z=1%s\n", f["pid"], f["context"], f["stream"], s.correlation,
				ns("start"), ns("end")-ns("start"), f["name"], more("", "graph", "graph_node"))
		}
	case "copy": // like launch, of function name
		s.correlation++
		fmt.Fprintf(s, "api pid=%s tid=%s domain=2 cbid=31 name=%s start=%d dur=%d correlation=%d%s\n", f["pid"], f["tid"], f["name"], ns("from"), ns("to")-ns("from"), s.correlation, more("", "python"))
		fmt.Fprintf(s, "memcpy pid=%s context=%s stream=%s correlation=%d start=%d dur=%d bytes=4096 %s\n", f["pid"], f["context"], f["stream"], s.correlation, ns("start"), ns("end")-ns("start"),
			strings.ReplaceAll(f["kinds"], ",", " "))
	case "wait": // for a stream
		fmt.Fprintf(s, "call pid=%s tid=%s func=cudaStreamSynchronize enter=%d dur=%d args: stream=%d\n", f["pid"], f["tid"], ns("from"), ns("to")-ns("from"), handle())
	case "call": // of name
		s.functions++
		fmt.Fprintf(s, "function id=%d name=%s library=runtime args=\"\"\ncall pid=%s tid=%s func=%s enter=%d dur=%d\n", 10+s.functions, f["name"], f["pid"], f["tid"], f["name"], ns("from"), ns("to")-ns("from"))
	case "record", "order", "synchronize": // an event on a stream, a stream for an event, a thread for an event
		f["name"] = map[string]string{"record": "cudaEventRecord", "order": "cudaStreamWaitEvent", "synchronize": "cudaEventSynchronize"}[words[0]]
		args := map[string]string{"record": "event:handle stream:handle", "order": "stream:handle event:handle flags:u32", "synchronize": "event:handle"}[words[0]]
		if text := fmt.Sprintf("name=%s ", f["name"]); !strings.Contains(s.String(), text) {
			s.functions++
			fmt.Fprintf(s, "function id=%d %slibrary=runtime args=%q\n", 10+s.functions, text, args)
		}
		values := map[string]string{"record": fmt.Sprintf("event=%s stream=%d", f["event"], handle()), "order": fmt.Sprintf("stream=%d event=%s flags=0", handle(), f["event"]), "synchronize": "event=" + f["event"]}[words[0]]
		fmt.Fprintf(s, "call pid=%s tid=%s func=%s enter=%d dur=%d args: %s\n", f["pid"], f["tid"], f["name"], ns("from"), ns("to")-ns("from"), values)
	case "collective": // like launch, of communicator
		s.correlation++
		fmt.Fprintf(s, "nccl_call pid=%s tid=%s name=ncclAllReduce time=%d known=0x3 communicator=%s bytes=1024\nmarker pid=%s tid=%s flags=0x2 id=%d time=%d name=ncclAllReduce domain=NCCL\n",
			f["pid"], f["tid"], ns("from"), f["communicator"], f["pid"], f["tid"], 1000+s.correlation, ns("from"))
		fmt.Fprintf(s, "api pid=%s tid=%s domain=1 cbid=307 name=cuLaunchKernel start=%d dur=%d correlation=%d\n", f["pid"], f["tid"], ns("from"), ns("to")-ns("from"), s.correlation)
		fmt.Fprintf(s, "kernel pid=%s context=%s stream=%s correlation=%d start=%d dur=%d name=ncclDevKernel_AllReduce grid_x=1 grid_y=1 grid_z=1 block_x=32 block_y=1 block_z=1\n", f["pid"], f["context"], f["stream"], s.correlation, ns("start"), ns("end")-ns("start"))
		fmt.Fprintf(s, "marker pid=%s tid=%s flags=0x4 id=%d time=%d domain=NCCL\n", f["pid"], f["tid"], 1000+s.correlation, ns("to"))
	case "graph": // like launch; its nodes follow
		s.correlation++
		fmt.Fprintf(s, "api pid=%s tid=%s domain=2 cbid=311 name=cudaGraphLaunch start=%d dur=%d correlation=%d%s\n", f["pid"], f["tid"], ns("from"), ns("to")-ns("from"), s.correlation, more("", "python"))
	case "ran", "ready", "blocked":
		state := map[string]int{"ran": 1, "ready": 2, "blocked": 3}[words[0]]
		fmt.Fprintf(s, "thread_state pid=%s tid=%s state=%d start=%d dur=%d cpu=1%s\n", f["pid"], f["tid"], state, ns("from"), ns("to")-ns("from"), more("", "call", "on", "holder", "python"))
	case "sample":
		fmt.Fprintf(s, "thread_sample pid=%s tid=%s time=%d%s\n", f["pid"], f["tid"], ns("at"), more("", "python", "native"))
	default:
		fmt.Fprintln(s, line)
	}
}

// log returns the log that a text makes.
func log(t *testing.T, text string) logtest.Opener {
	t.Helper()
	s := new(script)
	if rank, rest, found := strings.Cut(text, "\n"); found && strings.HasPrefix(rank, "rank=") {
		rank, text = strings.TrimPrefix(rank, "rank="), rest
		host := "a"
		if rank, found = strings.CutSuffix(rank, " on another host"); found {
			host = "b"
		}
		s.WriteString("meta key=host value=" + host + "\nmeta key=boot_id value=" + host + "\nclock monotonic=1 realtime=1700000000000000000 boottime=2\n" + strings.NewReplacer(
			"args=app", `args=app environment="RANK=`+rank+`\x00LOCAL_RANK=`+rank+`\x00WORLD_SIZE=2"`, "ddeeff", "ddeef"+rank).Replace(head))
	} else if !strings.Contains(text, "process pid=") {
		s.WriteString(head)
	}
	for line := range strings.Lines(text) {
		s.line(strings.TrimSpace(line))
	}
	if !strings.Contains(text, "\nend time=") {
		s.WriteString("process_end pid=10 time=99000000 status=0 complete=1\nend time=99000000 complete=1\n")
	}
	return logtest.Assemble(t, s.String())
}

// words are a path from its beginning to its end: times in µs from the beginning of the step, what it is, and why it was not earlier.
func (s *sink) words(of step) string {
	var lines []string
	s.Path(of.from, of.to, critical.End{Thread: of.on}, func(x *critical.Segment) {
		text := fmt.Sprintf("%g %g %s: %s", float64(x.From-of.from)/1000, float64(x.To-of.from)/1000, x.Kind, s.Text(x.Name))
		if x.Place != 0 {
			text += " at " + s.Text(x.Place)
		}
		if x.Thread != nil && x.Thread != of.on {
			text += " on " + x.Thread.Name
		}
		switch p := of.on.Process; {
		case x.Thread != nil && x.Thread.Process != p:
			text += ", " + x.Thread.Process.Rank.String()
		case x.Stream != nil && x.Stream.Context.Process != p:
			text += ", " + x.Stream.Context.Process.Rank.String()
		}
		if x.Also != 0 {
			text += " [" + s.Text(x.Also) + "]"
		}
		lines = append(lines, text)
	})
	slices.Reverse(lines)
	return strings.Join(lines, "\n") + "\n"
}

// The paths of programs are those that their logs prove: written by hand beside the logs.
func TestAnswers(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) < 10 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			t.Parallel()
			a := must.Get(txtar.ParseFile(file))(t)
			var logs []convert.Log
			want := ""
			for _, f := range a.Files {
				if f.Name == "path" {
					want = string(f.Data)
					continue
				}
				logs = append(logs, convert.Log{Name: f.Name, Open: log(t, string(f.Data))})
			}
			s := newSink()
			must.Get(convert.Timeline(logs, convert.Options{Collectives: true}, s))(t)
			got := ""
			for _, of := range s.steps {
				got += s.words(of)
			}
			goldentest.Same(t, want, got, "%s", a.Comment)
		})
	}
}

// The paths of PyTorch's steps on two GPUs, as recorded: they lie end to end, and lead to the other rank and back through collectives.
func TestRealRanks(t *testing.T) {
	t.Parallel()
	var logs []convert.Log
	for i := range 2 {
		logs = append(logs, convert.Path(fmt.Sprintf("../../../testdata/gpu/logs/nccl-rank%d.cudatrace", i)))
	}
	s := newSink()
	must.Get(convert.Timeline(logs, convert.Options{Collectives: true}, s))(t)
	edges, crossed := make(map[critical.Edge]int), 0
	for _, of := range s.steps {
		at, away := of.to, false
		s.Path(of.from, of.to, critical.End{Thread: of.on}, func(x *critical.Segment) {
			if x.To != at || x.From >= x.To {
				t.Errorf("a segment from %d to %d behind one that begins at %d", x.From, x.To, at)
			}
			at = x.From
			edges[x.Edge]++
			away = away || x.Thread != nil && x.Thread.Process != of.on.Process
		})
		if at != of.from {
			t.Errorf("the path begins at %d, its step at %d", at, of.from)
		}
		if away {
			crossed++
		}
	}
	if len(s.steps) != 48 || crossed < 15 || edges[critical.Collective] < 15 || edges[critical.Waited] < 15 || edges[critical.Backward] < 40 {
		t.Errorf("%d steps, %d lead to the other rank; edges %v", len(s.steps), crossed, edges)
	}
}

// A path may have a million segments: finding one and dividing it among steps allocates no memory for each.
func TestPathAllocations(t *testing.T) {
	const launches = 2000
	var file bytes.Buffer
	logtest.WriteCalledLaunches(t, &file, launches)
	s := newSink()
	if _, err := convert.Timeline([]convert.Log{{Name: "log", Open: logtest.InMemory(file.Bytes())}}, convert.Options{}, s); err != nil {
		t.Fatal(err)
	}
	for of := range s.threads {
		first, last, end := s.Last(of.Process)
		var spans []critical.Span
		for from, length := first, (last-first)/100; from < last; from += length {
			spans = append(spans, critical.Span{From: from, To: from + length})
		}
		parts := 0
		s.Divided(spans, end, func(int, *critical.Segment) { parts++ })
		allocations := testing.AllocsPerRun(1, func() { s.Divided(spans, end, func(int, *critical.Segment) {}) })
		if parts < launches/2 || allocations > float64(parts/10) {
			t.Errorf("%d parts of segments take %.0f allocations", parts, allocations)
		}
		return
	}
}
