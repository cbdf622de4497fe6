package convert

import (
	"fmt"
	"strings"

	"github.com/cudatrace/cudatrace/record/cudaapi"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// argName is the name of a recorded argument and how to show it.
type argName struct {
	name string
	kind string // the type word of tracelog.Function.Args: "ptr", "u32", ...
}

const (
	categoryDriver  = "driver"
	categoryRuntime = "runtime"
)

// Types of tracelog.Sync.
const (
	syncEvent   = 1
	syncStream  = 3
	syncContext = 4
)

// waits has the functions that wait for GPU work, by name without suffixes, and
// the type of Sync record that CUPTI makes of each.
var waits = map[string]uint32{
	"cudaEventSynchronize": syncEvent, "cuEventSynchronize": syncEvent,
	"cudaStreamSynchronize": syncStream, "cuStreamSynchronize": syncStream,
	"cudaDeviceSynchronize": syncContext, "cudaThreadSynchronize": syncContext, "cuCtxSynchronize": syncContext,
}

// launchers has the functions that launch kernels, by name without suffixes.
var launchers = map[string]bool{
	"cudaLaunch": true, "cudaLaunchKernel": true, "cudaLaunchKernelExC": true,
	"cudaLaunchCooperativeKernel": true, "cudaLaunchCooperativeKernelMultiDevice": true,
	"cuLaunch": true, "cuLaunchGrid": true, "cuLaunchGridAsync": true,
	"cuLaunchKernel": true, "cuLaunchKernelEx": true,
	"cuLaunchCooperativeKernel": true, "cuLaunchCooperativeKernelMultiDevice": true,
}

// workCategories are those of functions that may create GPU work.
var workCategories = map[string]bool{"launch": true, "copy": true, "set": true, "graph": true}

// How much work of its process may begin after a call before the call is taken to have
// none, by what is known of its function. A GPU takes in about a thousand launches a
// stream ahead of running them.
const (
	windowWork    = 1 << 17
	windowUnknown = 1 << 15
	windowOther   = 1 << 12
)

// kernelArgs are the names under which launch functions take their kernel.
var kernelArgs = map[string]bool{"function": true, "func": true, "f": true, "hfunc": true, "kernel": true}

func newFunction(name, category, args string) *Function {
	fn := &Function{Name: name, Category: category, base: baseName(name), handle: -1, stream: -1}
	fn.launches, fn.wait = launchers[fn.base], waits[fn.base]
	fn.driver, fn.runtime = category == categoryDriver, category == categoryRuntime
	fn.own = strings.HasSuffix(name, "_ptsz") || strings.HasSuffix(name, "_ptds")
	fn.window = windowUnknown
	if f := cudaapi.ByName(name); f != nil {
		fn.work, fn.window = f.GPUWork, windowOther
		if f.GPUWork || workCategories[f.Category] {
			fn.window = windowWork
		}
	}
	for _, word := range strings.Fields(args) {
		name, kind, _ := strings.Cut(word, ":")
		if fn.launches && fn.handle < 0 && kernelArgs[name] {
			fn.handle = len(fn.ArgNames)
		}
		if fn.stream < 0 && name == "stream" && kind == "handle" {
			fn.stream = len(fn.ArgNames)
		}
		fn.ArgNames = append(fn.ArgNames, argName{name, kind})
	}
	return fn
}

// function finds a function by the id that a call names. A log that was cut or
// damaged may lack it.
func (l *catalog) function(id uint32) *Function {
	fn := l.functions[id]
	if fn == nil {
		fn = l.numbered(newFunction(fmt.Sprintf("function %d", id), "", ""))
		l.functions[id] = fn
	}
	return fn
}

// callback is a function as CUPTI names it, by the number of the name in the log.
type callback struct {
	runtime bool
	name    uint64
}

// callback finds the function of an API record in a block.
func (l *catalog) callback(b *tracelog.Block, key callback) *Function {
	fn := l.callbacks[key]
	if fn == nil {
		category := categoryDriver
		if key.runtime {
			category = categoryRuntime
		}
		fn = l.numbered(newFunction(b.Text(key.name), category, ""))
		l.callbacks[key] = fn
	}
	return fn
}

func (l *catalog) numbered(fn *Function) *Function {
	fn.id = l.fns
	l.fns++
	return fn
}

// notReady is cudaErrorNotReady and CUDA_ERROR_NOT_READY: the answer of a query
// on work under way, which CUDA does not count as an error.
const notReady = 600

// deinitialized is CUDA_ERROR_DEINITIALIZED and cudaErrorCudartUnloading: what every
// program gets that tidies up, in its destructors, after CUDA has gone. It is no
// failure that anyone could mend.
const deinitialized = 4

// resultName is CUDA's name for a failed call's return code; "" for success.
func resultName(category string, ret int32) string {
	if ret == 0 {
		return ""
	}
	lib := cudaapi.Driver
	if category == categoryRuntime {
		lib = cudaapi.Runtime
	}
	return cudaapi.ErrorName(lib, ret)
}

// same says whether a CUPTI callback and a probed symbol are one function. CUPTI
// leaves out the "_v2" of some symbols and keeps that of others, and writes
// per-thread stream spellings with either suffix.
func (fn *Function) same(o *Function) bool {
	return fn == o || fn.Category == o.Category && fn.base == o.base
}

func baseName(name string) string {
	name = strings.TrimSuffix(name, "_ptsz")
	name = strings.TrimSuffix(name, "_ptds")
	if i := strings.LastIndex(name, "_v"); i > 0 && digits(name[i+2:]) {
		name = name[:i]
	}
	return name
}

func digits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}
