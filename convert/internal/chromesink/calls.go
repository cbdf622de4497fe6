package chromesink

import (
	"cmp"
	"fmt"
	"math"

	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/figures"
)

// categories are Kineto's names of CUDA's libraries.
var categories = map[string]string{"runtime": "cuda_runtime", "driver": "cuda_driver"}

func (s *Sink) slices(l *timeline.Slices) {
	if len(l.List) == 0 {
		return
	}
	r := s.threadRow(l.Thread)
	if r == nil {
		return
	}
	for i := range l.List {
		s.call(l.Thread, r, &l.List[i])
	}
}

// threadRow returns the row of a thread's calls, nil without a file.
func (s *Sink) threadRow(t *timeline.Thread) *row {
	r := s.rows[t]
	if r == nil {
		f := s.file(t.Process)
		if f == nil {
			return nil
		}
		r = &row{file: f, pid: t.Process.PID, base: t.TID, name: threadName(t), nests: true}
		s.rows[t] = r
	}
	return r
}

// threadName is a thread's name in Kineto's form.
func threadName(t *timeline.Thread) string {
	if title := t.Title(); title != "" {
		return fmt.Sprintf("thread %d (%s)", t.TID, title)
	}
	return fmt.Sprintf("thread %d", t.TID)
}

func (s *Sink) call(t *timeline.Thread, r *row, sl *timeline.Slice) {
	f, cat := r.file, categories[sl.Library]
	if cat == "" {
		cat = "cuda_driver"
	}
	l := r.place(sl.Start, max(sl.End, sl.Start), sl.Correlation)
	o := f.slice(cat, sl.Name, r.pid, l.tid, sl.Start, sl.End)
	// Readers count a launch for each call with a correlation ID. Of nested calls with one ID the outer
	// call bears it, of calls that follow each other the first.
	if sl.Correlation != 0 && sl.Correlation != r.borne && !l.repeats(sl.Correlation) {
		o.uint("correlation", uint64(sl.Correlation))
		r.borne = sl.Correlation
	}
	if sl.HasWork() && sl.Correlation != 0 && isOperator(sl.Operator) && !t.Spans {
		r.launched = cmp.Or(r.launched, sl.Correlation)
		o.uint("External id", uint64(r.launched))
	}
	s.names.callArgs(&o, t, sl)
	f.endArgs(&o)
	// an arrow has one beginning
	if sl.HasWork() && (sl.Correlation == 0 || sl.Correlation != r.begun && !l.begunAround(sl.Correlation)) {
		f.flow(launchArrow, "s", flowID(sl.Correlation, sl.Work()[0]), r.pid, l.tid, sl.Start)
		l.open[len(l.open)-1].begun, r.begun = true, sl.Correlation
	}
	s.waits(r, l, sl)
}

// waits writes arrows to a call from the work that it waited for, if that is in the file already. They end within the
// call, as readers take a slice for the end of an arrow that is open then; work that began with the call's return has
// none. On streams with work that overlaps it is not kept which thread number a piece of work has.
func (s *Sink) waits(r *row, l *lane, sl *timeline.Slice) {
	for i := range sl.Waits() {
		a := &sl.Waits()[i]
		from := s.rows[a.Stream]
		if from == nil || from.file != r.file || len(from.lanes) != 1 || a.Start > from.lanes[0].last ||
			a.Start >= a.End || sl.End <= max(a.Start, sl.Start)+1 {
			continue
		}
		id := waitFlow | a.Work
		r.file.flow(waitArrow, "s", id, from.pid, from.lanes[0].tid, a.Start)
		r.file.flow(waitArrow, "f", id, r.pid, l.tid, sl.End-1)
	}
}

// waitFlow makes the numbers of arrows to waiting calls other than those of flowID.
const waitFlow = 1 << 48

// flowID is the number of the arrow from a call to its work: the correlation ID, as in Kineto's
// traces. Work without one has a number beyond all correlation IDs.
func flowID(correlation uint32, work uint64) uint64 {
	if correlation != 0 {
		return uint64(correlation)
	}
	return 1<<32 | work
}

// callArgs adds the facts about a call. The arguments of the call have an object of their own:
// readers take a member named stream or device for that of GPU work.
func (t *texts) callArgs(o *object, of *timeline.Thread, sl *timeline.Slice) {
	if sl.Stream != nil {
		o.uint("cuda stream", uint64(sl.Stream.ID))
	}
	kind, text := sl.Ending()
	if kind != "" {
		o.string(kind, text)
	}
	switch kind {
	case "unfinished":
		o.uint("age_ns", sl.End-sl.Start)
	case "error":
		o.int("result", int64(sl.Ret))
	}
	if sl.Kernel != nil {
		o.raw("launched kernel", t.kernel(sl.Kernel.Name))
	}
	if sl.Driver != "" {
		o.string("driver", sl.Driver)
	}
	if sl.Caller != nil {
		o.raw("caller", t.caller(sl.Caller))
	}
	python := sl.Python
	if sl.HasWork() {
		python = of.Launching(python)
	}
	if python != nil {
		o.string("python", python.Own().Text())
	}
	operatorArgs(o, sl.Operator)
	if len(sl.Args) == 0 {
		return
	}
	o.begin("arguments")
	for i, v := range sl.Args {
		argument(o, sl.Params, i, v)
	}
	o.end()
}

// operatorArgs adds the operator that a call was made in, those around it, and the forward one of a backward one.
func operatorArgs(o *object, in *timeline.Operator) {
	if in == nil {
		return
	}
	o.string("operator", in.Stack())
	if made := in.Made(); made != nil {
		o.string("forward_operator", made.Stack())
	}
}

// argument adds a recorded argument by the type of its parameter.
func argument(o *object, params []timeline.Param, i int, v uint64) {
	if i >= len(params) {
		o.uint(fmt.Sprintf("arg%d", i), v)
		return
	}
	p := &params[i]
	switch p.Type {
	case "ptr", "handle":
		o.pointer(p.Name, v)
	case "i32", "enum":
		o.int(p.Name, int64(int32(v)))
	case "i64":
		o.int(p.Name, int64(v))
	case "f32":
		o.float(p.Name, float64(math.Float32frombits(uint32(v))))
	default:
		o.uint(p.Name, v)
	}
}

// texts are long texts in JSON form, each made once.
type texts struct {
	names   timeline.KernelNames
	kernels map[string][]byte // by mangled name
	callers map[*timeline.Caller][]byte
	scratch []byte
}

func newTexts() texts {
	return texts{
		names: make(timeline.KernelNames), kernels: make(map[string][]byte), callers: make(map[*timeline.Caller][]byte),
	}
}

// kernel returns the demangled name of a kernel.
func (t *texts) kernel(mangled string) []byte {
	json := t.kernels[mangled]
	if json == nil {
		name := t.names.Of(mangled)
		if name.Full == "" {
			name.Full = name.Short
		}
		json = figures.AppendJSON(nil, name.Full)
		t.kernels[mangled] = json
	}
	return json
}

func (t *texts) caller(c *timeline.Caller) []byte {
	json := t.callers[c]
	if json == nil {
		json = figures.AppendJSON(nil, c.Text())
		t.callers[c] = json
	}
	return json
}
