package convert

import (
	"fmt"
	"strings"

	"github.com/cudatrace/cudatrace/record/cudaapi"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// function is a traced function as the log describes it.
type function struct {
	name    string
	library string
	args    []argName
}

// argName is the name of a recorded argument and how to show it.
type argName struct {
	name string
	kind string // the type word of tracelog.Function.Args: "ptr", "u32", ...
}

func newFunction(f tracelog.Function) *function {
	fn := &function{name: f.Name, library: f.Library}
	for _, word := range strings.Fields(f.Args) {
		name, kind, _ := strings.Cut(word, ":")
		fn.args = append(fn.args, argName{name, kind})
	}
	return fn
}

// function finds a function by the id that a call names. A log that was cut or
// damaged may lack it.
func (l *loader) function(id uint32) *function {
	fn := l.functions[id]
	if fn == nil {
		fn = &function{name: fmt.Sprintf("function %d", id)}
		l.functions[id] = fn
	}
	return fn
}

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

const (
	categoryDriver  = "driver"
	categoryRuntime = "runtime"
)

// sameCall says whether a CUPTI callback and a probed symbol are one function.
// CUPTI leaves out the "_v2" of some symbols and keeps that of others, and
// writes per-thread stream spellings with either suffix.
func sameCall(api, symbol string) bool {
	return api == symbol || baseName(api) == baseName(symbol)
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
