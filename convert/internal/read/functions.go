package read

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/cudaapi"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// A Function is a function with the facts that joining needs.
type Function struct {
	timeline.Function
	cudaapi.Traits
	GPUWork bool // a driver function that puts work on a GPU
	// a driver function that is recorded beside the function of the runtime that it carries out
	Beside  bool
	Known   bool                  // it is in cudaapi's table
	Driver  bool                  // it was recorded at the driver
	Runtime bool                  // it was recorded at the runtime
	Memory  *cudaapi.MemoryReader // what its calls do to memory; nil for nothing
	Makes   timeline.WorkKind     // the work that a call of it makes, where it makes one piece

	recorded   *Function // the function that records name: f itself, except for a result of Called
	inner      *Function // in a result of Joined: the driver's function
	added      []int     // in a result of Joined: indexes of the arguments that follow those of inner
	base       string    // Name without suffixes of version and stream
	kernel     int       // index of the argument that is the kernel's handle, -1 for none
	stream     int       // index of the argument that is the stream's handle, -1 for none
	ownDefault bool      // its default stream is the thread's own
}

// Functions are the functions of a log: calls refer to them by ID, API records by name. A
// function of the runtime and a function of the driver that were called as one have a Function
// of their own.
type Functions struct {
	byID       map[uint32]*Function
	byCallback map[callback]*Function
	ofDriver   map[string]*Function // of API records, by name
	called     map[calledKey]*Function
	joined     map[joinedKey]*Function
	carries    map[joinedKey]bool // results of CarriesOut
	count      uint32
}

// A callback identifies a function as CUPTI does: by domain and by the number of its name in
// the log.
type callback struct {
	runtime bool
	name    uint64
}

func newFunctions() Functions {
	return Functions{byID: make(map[uint32]*Function), byCallback: make(map[callback]*Function),
		ofDriver: make(map[string]*Function),
		called:   make(map[calledKey]*Function), joined: make(map[joinedKey]*Function), carries: make(map[joinedKey]bool)}
}

func (l *Functions) learn(b *tracelog.Block, i int) {
	var f tracelog.Function
	f.Read(b, i)
	l.byID[f.ID] = l.make(f.Name, f.Library, f.Args)
}

// Recorded lists the functions of CUDA that were probed, sorted.
func (l *Functions) Recorded() (names []string) {
	for _, f := range l.byID {
		if f.Driver || f.Runtime {
			names = append(names, f.Name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// ByID returns the function of a call. A log that was cut or damaged may not have it.
func (l *Functions) ByID(id uint32) *Function {
	fn := l.byID[id]
	if fn == nil {
		fn = l.make(fmt.Sprintf("function %d", id), "", "")
		l.byID[id] = fn
	}
	return fn
}

// ByCallback returns the function of an API record in a block, by the domain of the
// record and the number of its name.
func (l *Functions) ByCallback(b *tracelog.Block, runtime bool, name uint64) *Function {
	key := callback{runtime, name}
	fn := l.byCallback[key]
	if fn == nil {
		if text := b.Text(name); runtime {
			fn = l.make(text, cudaapi.Runtime.String(), "")
		} else {
			fn = l.OfDriver(text)
		}
		l.byCallback[key] = fn
	}
	return fn
}

// OfDriver returns the function of the driver with a name, of API records.
func (l *Functions) OfDriver(name string) *Function {
	fn := l.ofDriver[name]
	if fn == nil {
		fn = l.make(name, cudaapi.Driver.String(), "")
		l.ofDriver[name] = fn
	}
	return fn
}

func (l *Functions) make(name, library, args string) *Function {
	if len(name) > maxName {
		name = strings.ToValidUTF8(name[:maxName], "") + "... (cut)"
	}
	fn := &Function{
		Function: timeline.NewFunction(name, library, l.count),
		Traits:   cudaapi.TraitsOf(name),
		Driver:   library == cudaapi.Driver.String(),
		Runtime:  library == cudaapi.Runtime.String(),
		base:     cudaapi.Unversioned(name),
		kernel:   -1,
		stream:   -1,
	}
	l.count++
	fn.recorded = fn
	fn.Wait = fn.Waits
	fn.ownDefault = fn.PerThread
	if f := cudaapi.ByName(name); f != nil {
		fn.Known, fn.GPUWork, fn.Beside = true, f.GPUWork, f.Beside
	}
	fn.params(args)
	fn.Memory = cudaapi.ReadMemory(name, args)
	switch {
	case strings.Contains(name, "Memcpy"):
		fn.Makes = timeline.MemcpyWork
	case strings.Contains(name, "Memset"):
		fn.Makes = timeline.MemsetWork
	}
	return fn
}

// kernelParams are the names of the parameters for the kernel of launching functions.
var kernelParams = map[string]bool{"function": true, "func": true, "f": true, "hfunc": true, "kernel": true}

// handles are the arguments that are handles of streams and events.
var handles = map[string]timeline.Handle{"stream:handle": timeline.StreamHandle, "event:handle": timeline.EventHandle}

// params parses the recorded arguments, tracelog.Function.Args.
func (f *Function) params(args string) {
	for word := range strings.FieldsSeq(args) {
		if len(f.Params) == tracelog.MaxArgs {
			return
		}
		name, typ, _ := strings.Cut(word, ":")
		if (f.Launches || f.Role == cudaapi.GraphAddNode) && f.kernel < 0 && kernelParams[name] {
			f.kernel = len(f.Params)
		}
		p := timeline.Param{Name: name, Type: typ, Of: handles[word]}
		if f.stream < 0 && p.Of == timeline.StreamHandle {
			f.stream = len(f.Params)
		}
		f.Params = append(f.Params, p)
	}
}

// Same reports whether a CUPTI callback and a probed symbol are one function. CUPTI leaves out the
// "_v2" of some symbols and keeps that of others, and uses either suffix for functions with
// per-thread default streams.
func (f *Function) Same(o *Function) bool {
	f, o = f.recorded, o.recorded
	return f == o || f.Library == o.Library && f.base == o.base
}

// KernelHandle returns the handle of the kernel that a call with these arguments launches, and
// whether the call names one.
func (f *Function) KernelHandle(args []uint64) (handle uint64, ok bool) {
	if f.kernel < 0 || f.kernel >= len(args) {
		return 0, false
	}
	return args[f.kernel], true
}

// Argument returns the argument with a name of a call with these arguments, 0 for none.
func (f *Function) Argument(name string, args []uint64) uint64 {
	for i := range min(len(f.Params), len(args)) {
		if f.Params[i].Name == name {
			return args[i]
		}
	}
	return 0
}

// A StreamHandle identifies a stream as calls do; 0 for none. The two default streams have the
// numbers of CU_STREAM_LEGACY and CU_STREAM_PER_THREAD, even where a call passes 0.
type StreamHandle uint64

// The default streams.
const (
	LegacyStream StreamHandle = 1
	ThreadStream StreamHandle = 2
)

// StreamHandle returns the stream that a call with these arguments names.
func (f *Function) StreamHandle(args []uint64) StreamHandle {
	switch {
	case f.stream < 0 || f.stream >= len(args):
		return 0
	case args[f.stream] != 0:
		return StreamHandle(args[f.stream])
	case f.ownDefault:
		return ThreadStream
	}
	return LegacyStream
}
