// Package pprofsink makes a profile of GPU time by stack, in pprof's format, which `go tool pprof`, Pyroscope and Parca
// read: the GPU work as the innermost frame, then the operators of PyTorch, then the Python lines that launched it.
package pprofsink

import (
	"cmp"
	"io"
	"strconv"
	"strings"

	"github.com/google/pprof/profile"

	"github.com/cudatrace/cudatrace/convert/internal/query"
	"github.com/cudatrace/cudatrace/convert/kernelnames"
	"github.com/cudatrace/cudatrace/convert/timeline"
)

// mostSamples bounds the stacks.
const mostSamples = 1 << 16

// Options are the options of a sink.
type Options struct {
	// HostPID makes the PID that a process has in the timeline that of its host.
	HostPID func(uint32) uint32
}

// A key is what work has in common whose times are one sample.
type key struct {
	kind     timeline.WorkKind
	name     string // of a kernel mangled, of a copy as people see it
	operator *timeline.Operator
	python   *timeline.Python
	caller   *timeline.Caller
	without  string // what stands for a Python frame
	context  *timeline.Context
}

// A sample is the work of a stack.
type sample struct {
	key
	count, ns int64
}

// A Sink makes a profile.
type Sink struct {
	options Options
	out     io.Writer
	names   timeline.KernelNames
	samples *query.Rows[key, sample]
	ahead   uint64 // added to a time to make it one since 1970, wrapping
	first   uint64 // start of the first work
	last    uint64 // end of the last one

	profile   profile.Profile
	short     *kernelnames.Names
	functions map[function]*profile.Function
	locations map[line]*profile.Location
}

// A function is a function of the profile, a line a place in it.
type (
	function struct {
		name, system, file string
		first              uint32 // line
	}
	line struct {
		function
		at uint32
	}
)

// New returns a sink that writes to a file at the end.
func New(out io.Writer, o Options) *Sink {
	return &Sink{
		options: o, out: out, names: make(timeline.KernelNames), first: timeline.Never,
		functions: make(map[function]*profile.Function), locations: make(map[line]*profile.Location),
		samples: query.NewRows(mostSamples, key{without: "(other stacks)"}, func(k key) sample { return sample{key: k} }),
	}
}

// Slices is the number of samples so far.
func (s *Sink) Slices() uint64 { return uint64(len(s.samples.List)) }

// Take takes events.
func (s *Sink) Take(events []timeline.Event) error {
	for _, e := range events {
		switch e := e.(type) {
		case *timeline.WorkList:
			for i := range e.List {
				s.work(e.Stream.Context, &e.List[i])
			}
		case *timeline.Recording:
			if e.Realtime != 0 {
				s.ahead = e.Realtime - e.Monotonic
			}
		}
	}
	return nil
}

// work counts a piece of work. Where neither Python nor PyTorch tells who launched it, the caller of CUDA does.
func (s *Sink) work(on *timeline.Context, w *timeline.Work) {
	k := key{kind: w.Kind, context: on, operator: w.Call.Operator, python: w.Call.Thread.Launching(w.Call.Python)}
	if w.Kind == timeline.KernelWork {
		k.name = w.Shape.Kernel.Name
	} else {
		k.name = s.names.Title(w)
	}
	if k.python == nil {
		if k.caller = w.Call.Caller; k.caller == nil || k.operator != nil {
			k.caller, k.without = nil, w.Call.Thread.NoPython()
		}
	}
	r := s.samples.Of(k)
	r.count++
	if !w.Untimed {
		r.ns += int64(w.Dur)
		s.first, s.last = min(s.first, w.Start), max(s.last, timeline.End(w.Start, w.Dur))
	}
}

// End writes the profile of a complete timeline.
func (s *Sink) End(err error) error {
	if err != nil {
		return nil
	}
	p := &s.profile
	if s.first < s.last {
		p.DurationNanos = int64(s.last - s.first)
		if s.ahead != 0 {
			p.TimeNanos = int64(s.first + s.ahead)
		}
	}
	p.SampleType = []*profile.ValueType{{Type: "launches", Unit: "count"}, {Type: "gpu_time", Unit: "nanoseconds"}}
	p.PeriodType, p.Period, p.DefaultSampleType = p.SampleType[1], 1, "gpu_time"
	var kernels []timeline.KernelName
	for _, r := range s.samples.List {
		if r.kind == timeline.KernelWork {
			kernels = append(kernels, s.names.Of(r.name))
		}
	}
	s.short = kernelnames.New(kernels)
	for _, r := range s.samples.List {
		p.Sample = append(p.Sample, &profile.Sample{
			Value: []int64{r.count, r.ns}, Location: s.stack(&r.key), Label: s.labels(r.context),
		})
	}
	if err := p.CheckValid(); err != nil {
		return err
	}
	return p.Write(s.out)
}

// stack is the frames of a sample, the innermost one first.
func (s *Sink) stack(k *key) (stack []*profile.Location) {
	switch {
	case k.context == nil: // what has no room
	case k.kind == timeline.KernelWork:
		name := s.names.Of(k.name)
		title := s.short.Of(cmp.Or(name.Full, name.Short))
		stack = append(stack, s.location(line{function: function{name: title, system: k.name}}))
	default:
		stack = append(stack, s.location(line{function: function{name: k.name}}))
	}
	for o := range k.operator.Operators() {
		stack = append(stack, s.location(line{function: function{name: o.Title(), system: o.Name}}))
	}
	for f := range k.python.Frames() {
		name := f.Function
		if f.File != "" {
			name = f.ShortFile() + ":" + f.Function
		}
		stack = append(stack, s.location(line{function{name, f.Function, f.File, f.First}, f.Line}))
	}
	if c := k.caller; c != nil {
		stack = append(stack, s.location(line{function: function{cmp.Or(c.Function(), c.Text()), c.Symbol, c.Module, 0}}))
	}
	if k.without != "" {
		stack = append(stack, s.location(line{function: function{name: k.without}}))
	}
	return stack
}

// location is a place of the profile.
func (s *Sink) location(l line) *profile.Location {
	at := s.locations[l]
	if at == nil {
		f := s.functions[l.function]
		if f == nil {
			f = &profile.Function{ID: uint64(len(s.functions) + 1), Name: text(l.name), Filename: text(l.file),
				SystemName: text(cmp.Or(l.system, l.name)), StartLine: int64(l.function.first)}
			s.functions[l.function] = f
			s.profile.Function = append(s.profile.Function, f)
		}
		at = &profile.Location{ID: uint64(len(s.locations) + 1), Line: []profile.Line{{Function: f, Line: int64(l.at)}}}
		s.locations[l] = at
		s.profile.Location = append(s.profile.Location, at)
	}
	return at
}

// text is a text of the profile: readers refuse one that is not UTF-8, as a program's names can be.
func text(name string) string { return strings.ToValidUTF8(name, "\ufffd") }

// labels say where work ran, and of which process.
func (s *Sink) labels(on *timeline.Context) map[string][]string {
	if on == nil {
		return nil
	}
	p := on.Process
	labels := map[string][]string{
		"gpu": {strconv.FormatUint(uint64(on.GPU), 10)},
		"pid": {strconv.FormatUint(uint64(s.options.HostPID(p.PID)), 10)},
	}
	if p.Host != "" {
		labels["host"] = []string{text(p.Host)}
	}
	if p.Rank.Known {
		labels["rank"] = []string{strconv.FormatUint(uint64(p.Rank.Number), 10)}
	}
	return labels
}
