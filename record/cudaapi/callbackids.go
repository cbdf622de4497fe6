package cudaapi

import (
	_ "embed"
	"strings"
	"sync"
)

// RuntimeCallback is the name of the runtime's function that has a CUPTI callback id, "" if none of
// CUDA 11 to 13 has it. Ids are never reused.
func RuntimeCallback(id uint32) string {
	names := runtimeCallbacks()
	if id >= uint32(len(names)) {
		return ""
	}
	return names[id]
}

// IsRuntimeName reports whether a name is one of the runtime's exported functions.
func IsRuntimeName(name string) bool { return runtimeNames()[name] }

var runtimeNames = sync.OnceValue(func() map[string]bool {
	names := map[string]bool{}
	for _, name := range runtimeCallbacks()[1:] {
		names[name] = true
	}
	for i := range functions {
		if functions[i].Library == Runtime {
			names[functions[i].Name] = true
		}
	}
	return names
})

// callbackNames has a line N(ID, "NAME") for each callback id from 0 on, as cuptiGetCallbackName of CUPTI 13.0.1
// answers. The simulated CUPTI includes it.
//
//go:embed runtime_names.def
var callbackNames string

// runtimeCallbacks are the names by callback id, without the version behind them. Id 0 has none.
var runtimeCallbacks = sync.OnceValue(func() []string {
	names := []string{}
	for line := range strings.Lines(callbackNames) {
		if _, name, ok := strings.Cut(line, ", \""); ok {
			name, _, _ = strings.Cut(name, "\"")
			if i := strings.LastIndex(name, "_v"); i > 0 && len(name) >= i+len("_v3020") && digits(name[i+2:]) {
				name = name[:i]
			}
			names = append(names, name)
		}
	}
	names[0] = ""
	return names
})
