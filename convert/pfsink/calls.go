package pfsink

import (
	"fmt"
	"math"

	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/perfetto"
)

// templates is the number of calls, and of pieces of work, that are kept in encoded form.
// Programs repeat the same calls over and over.
const templates = 1 << 12

// calls write calls.
type calls struct {
	w           *perfetto.Writer
	correlation *perfetto.ArgName
	names       timeline.KernelNames
	byArguments []callTemplate              // calls with arguments, by the ID of the arguments
	byFunction  []callTemplate              // calls without arguments
	callers     map[*timeline.Caller]string // their texts
	args        []perfetto.Arg
	works       []uint64
}

// A callTemplate has the common part of calls that are encoded alike.
type callTemplate struct {
	key callKey
	perfetto.TrackEventTemplate
}

type callKey struct {
	fn        *timeline.Function
	kernel    *timeline.Kernel
	stream    *timeline.Stream
	caller    *timeline.Caller
	arguments uint64 // their ID
	ret       int32
	flags     uint16
}

func newCalls(w *perfetto.Writer, correlation *perfetto.ArgName, names timeline.KernelNames) calls {
	return calls{w: w, correlation: correlation, names: names, callers: make(map[*timeline.Caller]string),
		byArguments: make([]callTemplate, 2*templates), byFunction: make([]callTemplate, templates)}
}

// begin begins a call on its thread's track.
func (c *calls) begin(track *perfetto.Track, sl *timeline.Slice) {
	t, work, waits := c.template(sl), sl.Work(), sl.Waits()
	var correlation perfetto.UintArg
	if sl.Correlation != 0 {
		correlation = c.correlation.Value(uint64(sl.Correlation))
	}
	if len(work) <= 1 && len(waits) == 0 && sl.Flags&timeline.Unfinished == 0 { // nearly all calls
		id := uint64(0)
		if len(work) > 0 {
			id = work[0]
		}
		track.Begin(sl.Start, t, id, correlation)
		return
	}
	c.args = c.args[:0]
	if sl.Flags&timeline.Unfinished != 0 {
		c.args = append(c.args, perfetto.Uint("age_ns", sl.End-sl.Start))
	}
	track.BeginWith(sl.Start, t, perfetto.GPUCorrelation{Submitted: work, WaitedFor: c.awaited(waits)}, correlation, c.args...)
}

// awaited returns the IDs of the work for which a call waited.
func (c *calls) awaited(waits []timeline.Awaited) []uint64 {
	c.works = c.works[:0]
	for i := range waits {
		c.works = append(c.works, waits[i].Work)
	}
	return c.works
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
	if id := sl.Arguments.ID; id != 0 { // arguments nearly always belong to one function and stream
		t = &c.byArguments[(id+from*spread)%uint64(len(c.byArguments))]
	} else {
		h := uint64(sl.Function.ID)<<32 ^ from<<48 ^ uint64(uint32(sl.Ret))
		if sl.Stream != nil {
			h ^= uint64(sl.Stream.ID+1) << 8
		}
		t = &c.byFunction[h*spread>>32%templates]
	}
	if !t.key.is(sl) {
		t.key = callKey{sl.Function, sl.Kernel, sl.Stream, sl.Caller, sl.Arguments.ID, sl.Ret, sl.Flags}
		c.arguments(sl)
		t.Encode(c.w, sl.Name, sl.Library, c.args)
	}
	return &t.TrackEventTemplate
}

// is says whether a call has the key.
func (k *callKey) is(sl *timeline.Slice) bool {
	return k.fn == sl.Function && k.arguments == sl.Arguments.ID && k.stream == sl.Stream && k.kernel == sl.Kernel &&
		k.caller == sl.Caller && k.ret == sl.Ret && k.flags == sl.Flags
}

// arguments returns the arguments that the calls of one template share.
func (c *calls) arguments(sl *timeline.Slice) {
	c.args = c.args[:0]
	for i, v := range sl.Args {
		c.args = append(c.args, argument(sl.Params, i, v))
	}
	kind, text := sl.Ending()
	if kind != "" {
		c.args = append(c.args, perfetto.String(kind, text))
	}
	if kind == "error" {
		c.args = append(c.args, perfetto.Int("result", int64(sl.Ret)))
	}
	if text := timeline.CutText(sl.Flags); text != "" {
		c.args = append(c.args, perfetto.String(timeline.CutName, text))
	}
	if sl.Kernel != nil {
		c.args = append(c.args, perfetto.String("kernel", c.names.Of(sl.Kernel.Name).Full))
	}
	if sl.Stream != nil { // show the stream's number, which its track bears too; a stream's handle says little
		c.args = append(c.args, perfetto.Uint("stream_id", uint64(sl.Stream.ID)))
	}
	if sl.Driver != "" {
		c.args = append(c.args, perfetto.String("driver", sl.Driver))
	}
	if sl.Caller != nil {
		c.args = append(c.args, perfetto.Repeated("caller", c.callerText(sl.Caller)))
	}
}

// callerText returns the text of a caller. It demangles each name once.
func (c *calls) callerText(from *timeline.Caller) string {
	text, ok := c.callers[from]
	if !ok {
		text = from.Text()
		c.callers[from] = text
	}
	return text
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
