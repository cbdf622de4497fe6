// Package tracetest shows traces as text, for tests. Input: the bytes of a trace. Output: lines of
// text.
package tracetest

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
)

// Schema has the fields of all messages in a trace, by message and number: "name", or
// "name Message" for a nested message, "name int" for a signed integer, "name delta" for an
// unsigned one that wraps. It is independent of the constants in package perfetto, on purpose.
var Schema = map[string]map[protowire.Number]string{
	"Trace": {1: "packet TracePacket"},
	"TracePacket": {
		2: "process_tree ProcessTree", 5: "chrome_events ChromeEventBundle", 6: "clock_snapshot ClockSnapshot",
		8: "timestamp delta", 10: "trusted_packet_sequence_id",
		11: "track_event TrackEvent", 12: "interned_data InternedData", 13: "sequence_flags",
		52: "gpu_counter_event GpuCounterEvent", 53: "gpu_render_stage_event GpuRenderStageEvent",
		59: "trace_packet_defaults TracePacketDefaults",
		60: "track_descriptor TrackDescriptor", 66: "perf_sample PerfSample",
		117: "generic_kernel_task_state_event GenericKernelTaskStateEvent", 128: "gpu_info GpuInfo",
	},
	"ProcessTree":         {1: "processes ProcessTree.Process"},
	"ProcessTree.Process": {1: "pid int", 2: "ppid int", 3: "cmdline"},
	"ChromeEventBundle":   {2: "metadata ChromeMetadata"},
	"ChromeMetadata":      {1: "name", 2: "string_value"},
	"ClockSnapshot":       {1: "clocks ClockSnapshot.Clock", 2: "primary_trace_clock"},
	"ClockSnapshot.Clock": {1: "clock_id", 2: "timestamp", 3: "is_incremental"},
	"TracePacketDefaults": {
		11: "track_event_defaults TrackEventDefaults", 12: "perf_sample_defaults PerfSampleDefaults",
		58: "timestamp_clock_id",
	},
	"TrackEventDefaults": {11: "track_uuid"},
	"TrackDescriptor": {
		1: "uuid", 2: "name", 3: "process ProcessDescriptor", 4: "thread ThreadDescriptor", 5: "parent_uuid",
		8: "counter CounterDescriptor", 9: "disallow_merging_with_system_tracks",
		11: "child_ordering", 12: "sibling_order_rank int",
	},
	"CounterDescriptor": {3: "unit", 6: "unit_name"},
	"ProcessDescriptor": {1: "pid int", 3: "legacy_sort_index int", 6: "process_name", 7: "start_timestamp_ns int"},
	"ThreadDescriptor":  {1: "pid int", 2: "tid int", 3: "legacy_sort_index int", 5: "thread_name"},
	"TrackEvent": {
		3: "category_iids", 4: "debug_annotations DebugAnnotation", 9: "type", 10: "name_iid", 22: "categories", 23: "name",
		30: "counter_value int", 44: "double_counter_value",
		3000: "gpu_correlation GpuCorrelation",
	},
	"GpuCorrelation": {1: "render_stage_submission_event_ids", 2: "render_stage_wait_event_ids"},
	"DebugAnnotation": {
		1: "name_iid", 3: "uint_value", 4: "int_value int", 5: "double_value", 6: "string_value", 7: "pointer_value",
		10: "name", 17: "string_value_iid",
	},
	"InternedData": {
		1: "event_categories EventCategory", 2: "event_names EventName", 3: "debug_annotation_names DebugAnnotationName",
		5: "function_names InternedString", 6: "frames Frame", 7: "callstacks Callstack",
		17: "mapping_paths InternedString", 18: "source_paths InternedString", 19: "mappings Mapping",
		23: "graphics_contexts InternedGraphicsContext", 24: "gpu_specifications InternedGpuRenderStageSpecification",
		29: "debug_annotation_string_values InternedString", 47: "gpu_counter_descriptors InternedGpuCounterDescriptor",
		1000: "compute_kernels InternedComputeKernel",
		1001: "compute_arg_names InternedComputeArgName",
	},
	"PerfSampleDefaults":          {1: "timebase PerfEvents.Timebase"},
	"PerfEvents.Timebase":         {1: "period", 10: "name"},
	"GenericKernelTaskStateEvent": {1: "cpu int", 2: "comm", 3: "tid int", 4: "state", 5: "prio int"},
	"PerfSample":                  {2: "pid", 3: "tid", 4: "callstack_iid", 5: "cpu_mode", 6: "timebase_count"},
	"Frame": {
		1: "iid", 2: "function_name_id", 3: "mapping_id", 4: "rel_pc", 5: "source_path_iid", 6: "line_number",
	},
	"Callstack":                           {1: "iid", 2: "frame_ids"},
	"Mapping":                             {1: "iid", 7: "path_string_ids"},
	"EventCategory":                       {1: "iid", 2: "name"},
	"EventName":                           {1: "iid", 2: "name"},
	"DebugAnnotationName":                 {1: "iid", 2: "name"},
	"InternedString":                      {1: "iid", 2: "str"},
	"InternedGraphicsContext":             {1: "iid", 2: "pid int", 3: "api"},
	"InternedGpuRenderStageSpecification": {1: "iid", 2: "name", 3: "description", 4: "category"},
	"InternedComputeKernel": {
		1: "iid", 2: "name", 3: "demangled_name", 5: "args GpuRenderStageEvent.ExtraComputeArg",
	},
	"InternedComputeArgName":       {1: "iid", 2: "name"},
	"InternedGpuCounterDescriptor": {1: "iid", 2: "counter_descriptor GpuCounterDescriptor", 3: "gpu_id int"},
	"GpuCounterDescriptor": {
		1: "specs GpuCounterDescriptor.GpuCounterSpec", 3: "min_sampling_period_ns",
		6: "counter_groups GpuCounterDescriptor.GpuCounterGroupSpec",
	},
	"GpuCounterDescriptor.GpuCounterSpec": {
		1: "counter_id", 2: "name", 3: "description", 7: "numerator_units", 8: "denominator_units",
	},
	"GpuCounterDescriptor.GpuCounterGroupSpec": {1: "group_id", 2: "name", 4: "counter_ids"},
	"GpuCounterEvent":                          {2: "counters GpuCounterEvent.GpuCounter", 4: "counter_descriptor_iid"},
	"GpuCounterEvent.GpuCounter":               {1: "counter_id", 2: "int_value int", 3: "double_value"},
	"GpuRenderStageEvent": {
		1: "event_id", 2: "duration", 5: "context", 11: "gpu_id int", 13: "hw_queue_iid", 14: "stage_iid", 17: "name",
		19: "kernel_iid", 20: "name_iid", 21: "launch GpuRenderStageEvent.ComputeKernelLaunch",
	},
	"GpuRenderStageEvent.ComputeKernelLaunch": {
		1: "grid_size GpuRenderStageEvent.Dim3", 2: "workgroup_size GpuRenderStageEvent.Dim3",
		3: "args GpuRenderStageEvent.ExtraComputeArg",
	},
	"GpuRenderStageEvent.Dim3": {1: "x", 2: "y", 3: "z"},
	"GpuRenderStageEvent.ExtraComputeArg": {
		1: "name_iid", 2: "name", 3: "int_value int", 4: "uint_value", 5: "double_value", 6: "string_value",
		7: "string_value_iid",
	},
	"GpuInfo": {1: "gpus GpuInfo.Gpu"},
	"GpuInfo.Gpu": {
		1: "name", 2: "vendor", 3: "model", 4: "architecture", 5: "uuid", 6: "extra_info GpuInfo.Gpu.KeyValue",
	},
	"GpuInfo.Gpu.KeyValue": {1: "key", 2: "value"},
}

// Text returns a trace in a form like protobuf's text format: a packet is a block of lines,
// each of its fields a line.
func Text(trace []byte) (string, error) {
	var out strings.Builder
	for len(trace) > 0 {
		number, typ, n := protowire.ConsumeTag(trace)
		if n < 0 || number != 1 || typ != protowire.BytesType {
			return "", fmt.Errorf("no packet at %x", trace[:min(len(trace), 16)])
		}
		packet, m := protowire.ConsumeBytes(trace[n:])
		if m < 0 {
			return "", fmt.Errorf("a packet is cut off: %w", protowire.ParseError(m))
		}
		out.WriteString("packet {\n")
		if err := messageText(&out, "TracePacket", packet, "  ", "\n"); err != nil {
			return "", err
		}
		out.WriteString("}\n")
		trace = trace[n+m:]
	}
	return out.String(), nil
}

// Message returns the fields of a message, which is one of Schema, on one line.
func Message(name string, b []byte) (string, error) {
	var out strings.Builder
	err := messageText(&out, name, b, " ", "")
	return strings.TrimPrefix(out.String(), " "), err
}

// messageText prints the fields of a message, with text before and after each one.
func messageText(out *strings.Builder, name string, b []byte, before, after string) error {
	for len(b) > 0 {
		number, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			return fmt.Errorf("%s: %w", name, protowire.ParseError(n))
		}
		entry, ok := Schema[name][number]
		if !ok {
			return fmt.Errorf("%s has no field %d", name, number)
		}
		label, kind, _ := strings.Cut(entry, " ")
		out.WriteString(before + label)
		m, err := valueText(out, kind, typ, b[n:])
		if err != nil {
			return fmt.Errorf("%s.%s: %w", name, label, err)
		}
		out.WriteString(after)
		b = b[n+m:]
	}
	return nil
}

// valueText prints the value of a field and returns its size.
func valueText(out *strings.Builder, kind string, typ protowire.Type, b []byte) (n int, err error) {
	var v uint64
	var p []byte
	switch typ {
	case protowire.VarintType:
		v, n = protowire.ConsumeVarint(b)
		if kind == "int" || kind == "delta" {
			fmt.Fprintf(out, ": %d", int64(v))
		} else {
			fmt.Fprintf(out, ": %d", v)
		}
	case protowire.Fixed64Type:
		v, n = protowire.ConsumeFixed64(b)
		fmt.Fprintf(out, ": %g", math.Float64frombits(v))
	case protowire.BytesType:
		p, n = protowire.ConsumeBytes(b)
		if kind == "" {
			fmt.Fprintf(out, ": %q", p)
			break
		}
		out.WriteString(" {")
		err = messageText(out, kind, p, " ", "")
		out.WriteString(" }")
	default:
		err = errors.New("an unexpected wire type")
	}
	if n < 0 {
		err = protowire.ParseError(n)
	}
	return n, err
}
