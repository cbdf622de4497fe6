package main

import (
	"fmt"
	"strings"

	"github.com/ianlancetaylor/demangle"

	"github.com/cudatrace/cudatrace/record/cudaapi"
	"github.com/cudatrace/cudatrace/record/figures"
	"github.com/cudatrace/cudatrace/record/metric"
	"github.com/cudatrace/cudatrace/record/tracelog/logtext"
)

// dumpView returns a view that shows the values of a log to people.
func dumpView(begin uint64) *logtext.View {
	return &logtext.View{
		Begin:    begin,
		Names:    func(kind, field string) func(uint64) string { return enumerations[kind+"."+field] },
		Result:   cudaapi.FailureName,
		Demangle: func(name string) string { return demangle.Filter(name, demangle.LLVMStyle) },
		Text:     func(text string) string { return figures.Cut(text, figures.LongText) },
		Samples:  new(samples),
	}
}

// enumerations are the names of the values of fields, by the kind of record and the field.
var enumerations = map[string]func(uint64) string{
	"api.domain":             listed("", "driver", "runtime"),
	"api.flags":              bits("unfinished"),
	"call.flags":             bits("unfinished", "no_return"),
	"marker.flags":           bits("mark", "start", "end", "", "", "", "", "before"),
	"memcpy.copy_kind":       named(cudaapi.MemcpyKindName),
	"memcpy.src_kind":        named(cudaapi.MemoryKindName),
	"memcpy.dst_kind":        named(cudaapi.MemoryKindName),
	"memory.memory_kind":     named(cudaapi.MemoryKindName),
	"memory.operation":       listed("", "allocation", "release"),
	"memory_pool.operation":  named(cudaapi.PoolOperationName),
	"memory_pool.pool_kind":  listed("", "local", "imported"),
	"metric.unit":            func(v uint64) string { return enumeration(metric.Unit(v), v) },
	"metric.value_kind":      func(v uint64) string { return enumeration(metric.Kind(v), v) },
	"metric_set.source":      func(v uint64) string { return enumeration(metric.Source(v), v) },
	"metric_set.device":      notApplicable,
	"name.object_kind":       objectKinds,
	"nccl_call.known":        bits("communicator", "bytes", "ranks"),
	"note.severity":          listed("information", "warning"),
	"overhead.overhead_kind": func(v uint64) string { return cudaapi.OverheadName(uint32(v)) },
	"overhead.object_kind":   objectKinds,
	"process_end.complete":   listed("no", "yes"),
	"end.complete":           listed("no", "yes"),
	"stream.flags":           listed("", "default", "non_blocking", "null"),
	"thread_sample.flags":    bits("kernel", "system_call", "fault", "unread"),
	"thread_state.state":     listed("", "running", "runnable", "blocked"),
}

// objectKinds is CUpti_ActivityObjectKind.
var objectKinds = listed("", "process", "thread", "device", "context", "stream")

// listed names values from 0 on; "" is a value without a name.
func listed(names ...string) func(uint64) string {
	return func(v uint64) string {
		if v < uint64(len(names)) {
			return names[v]
		}
		return ""
	}
}

// named takes the names that the package of CUDA's functions has.
func named(name func(uint32) string) func(uint64) string {
	none := name(1 << 31) // a value without a name
	return func(v uint64) string {
		if s := name(uint32(v)); v>>32 == 0 && s != none {
			return s
		}
		return ""
	}
}

// bits names flags, from the lowest on.
func bits(names ...string) func(uint64) string {
	return func(v uint64) string {
		var set []string
		for i, name := range names {
			if v&(1<<i) != 0 {
				set = append(set, name)
			}
		}
		if v>>len(names) != 0 {
			return "" // a newer version's
		}
		return strings.Join(set, "|")
	}
}

// enumeration is the name of a number of package metric.
func enumeration(name fmt.Stringer, v uint64) string {
	if v>>32 != 0 {
		return ""
	}
	return name.String()
}

// notApplicable names the number for no device.
func notApplicable(v uint64) string {
	if v == 1<<32-1 {
		return "none"
	}
	return ""
}
