package cudaapi

import "strings"

// Traits are the properties of a function that matter for joining calls with GPU work. They
// belong to the name without suffixes.
type Traits struct {
	Launches      bool // it launches one kernel and does nothing else on the GPU
	LaunchesGraph bool
	MayWork       bool // it may put work on a GPU: a launch, a copy, a memset, a graph
	Waits         Wait // it waits for GPU work

	MakesStream    bool
	DestroysStream bool
	Role           GraphRole
}

// A GraphRole is what a function does for the making of a graph.
type GraphRole uint8

// The roles.
const (
	NoRole       GraphRole = iota
	CaptureBegin           // of a stream
	CaptureEnd             // launches before it may have gone into a graph
	GraphInstantiate
	GraphUpdate // of an executable graph by another graph
	GraphClone
	GraphDestroy
	ExecDestroy
	GraphAddNode // a kernel, copy or memset
)

var graphRoles = map[string]GraphRole{
	"cudaStreamBeginCapture": CaptureBegin, "cuStreamBeginCapture": CaptureBegin,
	"cudaStreamBeginCaptureToGraph": CaptureBegin, "cuStreamBeginCaptureToGraph": CaptureBegin,
	"cudaStreamEndCapture": CaptureEnd, "cuStreamEndCapture": CaptureEnd,
	"cudaGraphInstantiate": GraphInstantiate, "cuGraphInstantiate": GraphInstantiate,
	"cudaGraphInstantiateWithFlags": GraphInstantiate, "cuGraphInstantiateWithFlags": GraphInstantiate,
	"cudaGraphInstantiateWithParams": GraphInstantiate, "cuGraphInstantiateWithParams": GraphInstantiate,
	"cudaGraphExecUpdate": GraphUpdate, "cuGraphExecUpdate": GraphUpdate,
	"cudaGraphClone": GraphClone, "cuGraphClone": GraphClone,
	"cudaGraphDestroy": GraphDestroy, "cuGraphDestroy": GraphDestroy,
	"cudaGraphExecDestroy": ExecDestroy, "cuGraphExecDestroy": ExecDestroy,
	"cudaGraphAddKernelNode": GraphAddNode, "cuGraphAddKernelNode": GraphAddNode,
	"cudaGraphAddMemcpyNode": GraphAddNode, "cudaGraphAddMemcpyNode1D": GraphAddNode, "cuGraphAddMemcpyNode": GraphAddNode,
	"cudaGraphAddMemsetNode": GraphAddNode, "cuGraphAddMemsetNode": GraphAddNode,
}

// A Wait is the kind of wait of a waiting function: for an event, a stream or a context.
type Wait uint8

// The waits that make a call wait.
const (
	NoWait Wait = iota
	EventWait
	StreamWait
	ContextWait
)

var waits = map[string]Wait{
	"cudaEventSynchronize": EventWait, "cuEventSynchronize": EventWait,
	"cudaStreamSynchronize": StreamWait, "cuStreamSynchronize": StreamWait,
	"cudaDeviceSynchronize": ContextWait, "cudaThreadSynchronize": ContextWait, "cuCtxSynchronize": ContextWait,
}

var kernelLaunchers = map[string]bool{
	"cudaLaunch": true, "cudaLaunchKernel": true, "__cudaLaunchKernel": true, "cudaLaunchKernelExC": true,
	"cudaLaunchCooperativeKernel": true, "cudaLaunchCooperativeKernelMultiDevice": true,
	"cuLaunch": true, "cuLaunchGrid": true, "cuLaunchGridAsync": true,
	"cuLaunchKernel": true, "cuLaunchKernelEx": true,
	"cuLaunchCooperativeKernel": true, "cuLaunchCooperativeKernelMultiDevice": true,
}

var streamMakers = map[string]bool{"cudaStreamCreate": true, "cudaStreamCreateWithFlags": true,
	"cudaStreamCreateWithPriority": true,
	"cuStreamCreate":               true, "cuStreamCreateWithPriority": true, "cuGreenCtxStreamCreate": true}

var streamDestroyers = map[string]bool{"cudaStreamDestroy": true, "cuStreamDestroy": true}

var graphLaunchers = map[string]bool{"cudaGraphLaunch": true, "cuGraphLaunch": true}

// workCategories are the categories of functions that may put work on a GPU.
var workCategories = map[string]bool{"launch": true, "copy": true, "memset": true, "graph": true}

// TraitsOf returns the traits of a function by the name of its symbol or of its CUPTI callback.
func TraitsOf(name string) Traits {
	base := Unversioned(name)
	t := Traits{Launches: kernelLaunchers[base], LaunchesGraph: graphLaunchers[base], Waits: waits[base],
		MakesStream: streamMakers[base], DestroysStream: streamDestroyers[base], Role: graphRoles[base]}
	if f := byCallback(name); f != nil {
		t.MayWork = f.GPUWork || workCategories[f.Category]
	}
	return t
}

// byCallback returns the function of a CUPTI callback, whose suffixes may differ from those
// of the symbol. It is nil if there is none.
func byCallback(name string) *Function {
	id, ok := byName[name]
	if !ok {
		id, ok = byBase[Unversioned(name)]
	}
	if !ok {
		return nil
	}
	return &functions[id]
}

// CarriesOut reports whether a call of a driver's function inside a function of the runtime does
// what the program called the runtime for: it may put work on a GPU, or it is the driver's
// counterpart, such as cuMemAlloc_v2 inside cudaMalloc. The loading of a module inside
// cudaLaunchKernel is neither.
func CarriesOut(driver, runtime string) bool {
	d, r := byCallback(driver), byCallback(runtime)
	switch {
	case d == nil || d.Library != Driver:
		return false
	case d.GPUWork || workCategories[d.Category]:
		return true
	}
	return r != nil && (d.Fallback || d.Beside) && d.Sets&Default != 0 && d.Category == r.Category
}

// RuntimeLaunches lists the functions of the runtime that launch one kernel.
func RuntimeLaunches() []*Function {
	var found []*Function
	for i := range functions {
		if f := &functions[i]; f.Library == Runtime && TraitsOf(f.Name).Launches {
			found = append(found, f)
		}
	}
	return found
}

// Suffixes of functions whose default stream is the calling thread's own.
const (
	suffixStream  = "_ptsz" // of a function with a stream argument
	suffixDefault = "_ptds" // of a function without one
)

// PerThreadStream reports whether the default stream of a function is the calling thread's own.
func PerThreadStream(name string) bool {
	return strings.HasSuffix(name, suffixStream) || strings.HasSuffix(name, suffixDefault)
}

// Unversioned returns a function's name without the suffixes of stream and version:
// "cuMemcpyHtoD_v2_ptds" is "cuMemcpyHtoD".
func Unversioned(name string) string {
	name = strings.TrimSuffix(name, suffixStream)
	name = strings.TrimSuffix(name, suffixDefault)
	if i := strings.LastIndex(name, "_v"); i > 0 && digits(name[i+2:]) {
		name = name[:i]
	}
	return name
}

func digits(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }
