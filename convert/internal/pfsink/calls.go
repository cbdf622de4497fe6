package pfsink

import (
	"fmt"
	"math"

	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/perfetto"
	"github.com/cudatrace/cudatrace/record/cudaapi"
)

// templates is the number of calls, and of pieces of work, that are kept in encoded form.
// Programs repeat the same calls over and over.
const templates = 1 << 12

// calls write calls.
type calls struct {
	w           *perfetto.Writer
	names       timeline.KernelNames
	byArguments []callTemplate // calls with arguments, by the ID of the arguments
	byFunction  []callTemplate // calls without arguments
	callers     callerTexts
	args        []perfetto.Arg
}

// A callTemplate has the common part of calls that are encoded alike.
type callTemplate struct {
	key callKey
	perfetto.TrackEventTemplate
}

type callKey struct {
	fn        *timeline.Function
	kernel    *timeline.Kernel
	launched  *timeline.Shape
	stream    *timeline.Stream
	caller    *timeline.Caller
	python    *timeline.Python
	operator  *timeline.Operator
	arguments uint64 // their ID
	ret       int32
	flags     uint16
}

func newCalls(w *perfetto.Writer, names timeline.KernelNames, callers callerTexts) calls {
	return calls{w: w, names: names, callers: callers,
		byArguments: make([]callTemplate, 2*templates), byFunction: make([]callTemplate, templates)}
}

// begin begins a call on its thread's track.
func (c *calls) begin(track *perfetto.Track, sl *timeline.Slice) {
	t, work := c.template(sl), sl.Work()
	c.args = c.args[:0]
	if sl.Flags&timeline.Unfinished != 0 {
		c.args = append(c.args, perfetto.Uint("age_ns", sl.End-sl.Start))
	}
	c.waiting(sl)
	if g := sl.Graph(); g != nil {
		c.args = append(c.args, perfetto.Repeated("graph_captured_at", g.Text()))
	}
	// Most work has its call's correlation ID for its number: with the number beside the ID a launch
	// would take two bytes more.
	if sl.Correlation != 0 && (len(work) != 1 || work[0] != uint64(sl.Correlation)) {
		c.args = append(c.args, perfetto.Uint("correlation", uint64(sl.Correlation)))
	}
	track.Begin(sl.Start, t, perfetto.Links{Submitted: work}, c.args...)
}

// waiting adds what a call waited for, and for how long: up to the end of the awaited work.
func (c *calls) waiting(sl *timeline.Slice) {
	waits := sl.Waits()
	if sl.Wait == 0 && len(waits) == 0 {
		return
	}
	c.args = append(c.args, perfetto.String("waits_for", awaitedName(sl)))
	if len(waits) == 0 {
		return
	}
	until := sl.Start
	for i := range waits {
		until = max(until, min(waits[i].End, sl.End))
	}
	c.args = append(c.args, perfetto.Uint("waited_ns", until-sl.Start))
}

// awaitedName is the name of the stream, the event or the device that a call waits for.
func awaitedName(sl *timeline.Slice) string {
	var stream *timeline.Stream
	if waits := sl.Waits(); len(waits) > 0 {
		stream = waits[0].Stream
	}
	switch {
	case sl.Wait == cudaapi.EventWait && stream != nil:
		return "event" + handleOf(sl, timeline.EventHandle) + " on " + streamName(stream)
	case sl.Wait == cudaapi.EventWait:
		return "event" + handleOf(sl, timeline.EventHandle)
	case sl.Wait == cudaapi.ContextWait && stream != nil:
		return fmt.Sprintf("device %d", stream.Context.Device)
	case sl.Wait == cudaapi.ContextWait:
		return "device"
	case stream != nil:
		return streamName(stream)
	}
	return "stream" + handleOf(sl, timeline.StreamHandle)
}

// handleOf returns a call's argument that is a handle, " 0x12", or "" without that argument.
func handleOf(sl *timeline.Slice, of timeline.Handle) string {
	if v, known := sl.Handle(of); known {
		return fmt.Sprintf(" %#x", v)
	}
	return ""
}

// awaited returns the IDs of the work for which a call waited.
func awaited(sl *timeline.Slice) (ids []uint64) {
	for i := range sl.Waits() {
		ids = append(ids, sl.Waits()[i].Work)
	}
	return ids
}

// spread is a factor that makes numbers that are close together differ in all bits.
const spread = 0x9E3779B97F4A7C15

// template returns the template of a call.
func (c *calls) template(sl *timeline.Slice) *perfetto.TrackEventTemplate {
	var t *callTemplate
	from := uint64(0)
	if sl.Caller != nil {
		from = uint64(sl.Caller.ID)
	}
	if sl.Python != nil {
		from += pythonSpread * uint64(sl.Python.ID)
	}
	from += operatorNumber(sl.Operator)
	if id := sl.Arguments.ID; id != 0 { // arguments nearly always belong to one function and stream
		t = &c.byArguments[(id+from*spread)%uint64(len(c.byArguments))]
	} else {
		h := uint64(sl.Function.ID)<<32 ^ from<<48 ^ uint64(uint32(sl.Ret))
		if sl.Stream != nil {
			h ^= uint64(sl.Stream.ID+1) << 8
		}
		if sl.Launched != nil {
			h ^= uint64(sl.Launched.ID) << 16
		}
		t = &c.byFunction[h*spread>>32%templates]
	}
	if !t.key.is(sl) {
		t.key = callKey{
			sl.Function, sl.Kernel, sl.Launched, sl.Stream, sl.Caller, sl.Python, sl.Operator, sl.Arguments.ID, sl.Ret, sl.Flags,
		}
		c.arguments(sl)
		category := sl.Library
		if sl.Failed() {
			category += ",failed"
		}
		t.Encode(c.w, sl.Name, category, c.args)
	}
	return &t.TrackEventTemplate
}

// is reports whether a call has the key.
func (k *callKey) is(sl *timeline.Slice) bool {
	return k.fn == sl.Function && k.arguments == sl.Arguments.ID && k.stream == sl.Stream && k.launched == sl.Launched &&
		k.kernel == sl.Kernel &&
		k.caller == sl.Caller && k.python == sl.Python && k.operator == sl.Operator && k.ret == sl.Ret && k.flags == sl.Flags
}

// arguments returns the arguments that the calls of one template share.
func (c *calls) arguments(sl *timeline.Slice) {
	c.args = c.args[:0]
	for i := 0; i < len(sl.Args); i++ {
		if name := dimensional(sl.Params, i); name != "" && i+2 < len(sl.Args) {
			c.args = append(c.args, perfetto.String(name, dimensions([3]uint32{
				uint32(sl.Args[i]), uint32(sl.Args[i+1]), uint32(sl.Args[i+2]),
			})))
			i += 2
			continue
		}
		c.args = append(c.args, argument(sl.Params, i, sl.Args[i]))
	}
	kind, text := sl.Ending()
	if kind != "" {
		c.args = append(c.args, perfetto.String(kind, text))
	}
	if kind == "error" {
		c.args = append(c.args, perfetto.Int("result", int64(sl.Ret)))
		if meaning := sl.ErrorMeaning(); meaning != "" {
			c.args = append(c.args, perfetto.String("meaning", meaning))
		}
	}
	if sl.Kernel != nil {
		c.args = append(c.args, perfetto.Repeated("kernel", c.names.Of(sl.Kernel.Name).Full))
	}
	c.launched(sl)
	if sl.Stream != nil { // show the stream's number, which its track bears too; a stream's handle says little
		c.args = append(c.args, perfetto.Uint("stream_id", uint64(sl.Stream.ID)))
	}
	if sl.Driver != "" {
		c.args = append(c.args, perfetto.String("driver", sl.Driver))
	}
	if sl.Caller != nil {
		c.args = append(c.args, perfetto.Repeated("caller", c.callers.of(sl.Caller)))
	}
	c.args = appendOperator(appendPython(c.args, sl.Python), sl.Operator)
}

// launched adds the kernel or the copy that a call launched. Its size is there once: a call whose
// arguments were recorded has it already.
func (c *calls) launched(sl *timeline.Slice) {
	if sl.Launched == nil || len(sl.Work()) != 1 {
		return
	}
	switch k, m := &sl.Launched.Kernel, &sl.Launched.Memcpy; {
	case k.Name != "":
		c.args = append(c.args, perfetto.Repeated("kernel", c.names.Of(k.Name).Full))
		if len(sl.Args) == 0 {
			c.args = append(c.args, perfetto.String("grid", dimensions(k.Grid)), perfetto.String("block", dimensions(k.Block)))
		}
	case m.CopyKind != 0 && len(sl.Args) == 0:
		c.args = append(c.args, perfetto.Uint("bytes", m.Bytes),
			perfetto.String("direction", cudaapi.MemcpyKindName(m.CopyKind)))
	}
}

// dimensional returns "grid" or "block" where the parameters from the i-th on are the three dimensions of one, else "".
func dimensional(params []timeline.Param, i int) string {
	if i+2 >= len(params) {
		return ""
	}
	for _, name := range []string{"grid", "block"} {
		if params[i].Name == name+"X" && params[i+1].Name == name+"Y" && params[i+2].Name == name+"Z" {
			return name
		}
	}
	return ""
}

// dimensions are the dimensions of a grid, a block or a cluster: "4x2x1".
func dimensions(d [3]uint32) string { return fmt.Sprintf("%dx%dx%d", d[0], d[1], d[2]) }

// callerTexts are the texts of callers. Each name is demangled once.
type callerTexts map[*timeline.Caller]string

func (c callerTexts) of(from *timeline.Caller) string {
	text, ok := c[from]
	if !ok {
		text = from.Text()
		c[from] = text
	}
	return text
}

// pythonSpread is a factor by which the numbers of Python stacks differ in the bits that those of callers leave.
const pythonSpread = 977

// appendPython appends the line of the program's own that made a call, and the frames around it.
func appendPython(args []perfetto.Arg, p *timeline.Python) []perfetto.Arg {
	if p == nil {
		return args
	}
	return append(args, perfetto.Repeated("python", p.Own().Text()), perfetto.Repeated("python_stack", p.Stack()))
}

// operatorNumber is a number that differs between stacks of operators in the bits that those of Python stacks leave.
func operatorNumber(o *timeline.Operator) uint64 {
	if o == nil {
		return 0
	}
	return 31 * uint64(o.ID)
}

// appendOperator appends PyTorch's operator that a call was made in, those around it, and the forward one of a backward
// one.
func appendOperator(args []perfetto.Arg, o *timeline.Operator) []perfetto.Arg {
	if o == nil {
		return args
	}
	args = append(args, perfetto.Repeated("operator", o.Title()))
	if o.Parent != nil {
		args = append(args, perfetto.Repeated("operator_stack", o.Stack()))
	}
	if made := o.Made(); made != nil {
		args = append(args, perfetto.Repeated("forward_operator", made.Stack()))
	}
	return args
}

// argument formats a recorded argument by the type of its parameter.
func argument(params []timeline.Param, i int, v uint64) perfetto.Arg {
	if i >= len(params) {
		return perfetto.Uint(fmt.Sprintf("arg%d", i), v)
	}
	p := params[i]
	switch p.Type {
	case "ptr", "handle":
		return perfetto.Pointer(p.Name, v)
	case "i32", "enum":
		return perfetto.Int(p.Name, int64(int32(v)))
	case "i64":
		return perfetto.Int(p.Name, int64(v))
	case "f32":
		return perfetto.Float(p.Name, float64(math.Float32frombits(uint32(v))))
	default:
		return perfetto.Uint(p.Name, v)
	}
}
