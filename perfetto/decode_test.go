package perfetto

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
)

// schema names the fields of the messages that a trace holds, by message and
// number: "name", or "name Message" for a nested one, or "name int" for a signed
// integer. It stands apart from the constants of fields.go on purpose.
var schema = map[string]map[protowire.Number]string{
	"Trace": {1: "packet TracePacket"},
	"TracePacket": {
		2: "process_tree ProcessTree", 6: "clock_snapshot ClockSnapshot", 8: "timestamp int", 10: "trusted_packet_sequence_id",
		11: "track_event TrackEvent", 12: "interned_data InternedData", 13: "sequence_flags",
		53: "gpu_render_stage_event GpuRenderStageEvent", 59: "trace_packet_defaults TracePacketDefaults",
		60: "track_descriptor TrackDescriptor", 128: "gpu_info GpuInfo",
	},
	"ProcessTree":         {1: "processes Process"},
	"Process":             {1: "pid", 3: "cmdline"},
	"ClockSnapshot":       {1: "clocks Clock", 2: "primary_trace_clock"},
	"Clock":               {1: "clock_id", 2: "timestamp", 3: "is_incremental"},
	"TracePacketDefaults": {11: "track_event_defaults TrackEventDefaults", 58: "timestamp_clock_id"},
	"TrackEventDefaults":  {11: "track_uuid"},
	"TrackDescriptor": {
		1: "uuid", 2: "name", 3: "process ProcessDescriptor", 4: "thread ThreadDescriptor", 5: "parent_uuid", 8: "counter CounterDescriptor",
		11: "child_ordering", 12: "sibling_order_rank int",
	},
	"CounterDescriptor": {3: "unit", 6: "unit_name"},
	"ProcessDescriptor": {1: "pid", 3: "legacy_sort_index int", 6: "process_name", 7: "start_timestamp_ns"},
	"ThreadDescriptor":  {1: "pid", 2: "tid", 3: "legacy_sort_index int", 5: "thread_name"},
	"TrackEvent": {
		3: "category_iids", 4: "debug_annotations DebugAnnotation", 9: "type", 10: "name_iid", 22: "categories", 23: "name", 30: "counter_value int",
		3000: "gpu_correlation GpuCorrelation",
	},
	"GpuCorrelation": {1: "render_stage_submission_event_ids", 2: "render_stage_wait_event_ids"},
	"DebugAnnotation": {
		1: "name_iid", 3: "uint_value", 4: "int_value int", 5: "double_value", 6: "string_value", 7: "pointer_value",
		10: "name", 17: "string_value_iid",
	},
	"InternedData": {
		1: "event_categories Interned", 2: "event_names Interned", 3: "debug_annotation_names Interned",
		23: "graphics_contexts GraphicsContext", 24: "gpu_specifications Specification",
		29: "debug_annotation_string_values Interned", 1000: "compute_kernels ComputeKernel", 1001: "compute_arg_names Interned",
	},
	"Interned":        {1: "iid", 2: "name"},
	"GraphicsContext": {1: "iid", 2: "pid", 3: "api"},
	"Specification":   {1: "iid", 2: "name", 3: "description", 4: "category"},
	"ComputeKernel":   {1: "iid", 2: "name", 3: "demangled_name", 4: "arch", 5: "args ComputeArg"},
	"ComputeArg": {
		1: "name_iid", 2: "name", 3: "int_value int", 4: "uint_value", 5: "double_value", 6: "string_value", 7: "string_value_iid",
	},
	"GpuRenderStageEvent": {
		1: "event_id", 2: "duration", 5: "context", 11: "gpu_id", 13: "hw_queue_iid", 14: "stage_iid", 17: "name",
		18: "event_wait_ids", 19: "kernel_iid", 20: "name_iid", 21: "launch Launch",
	},
	"Launch":  {1: "grid_size Dim3", 2: "workgroup_size Dim3", 3: "args ComputeArg"},
	"Dim3":    {1: "x", 2: "y", 3: "z"},
	"GpuInfo": {1: "gpus Gpu"},
	"Gpu":     {1: "name", 2: "vendor", 3: "model", 4: "architecture", 5: "uuid", 6: "extra_info Extra", 7: "pci_bdf"},
	"Extra":   {1: "key", 2: "value"},
}

// A decoder prints a message as text.
type decoder struct {
	t   testing.TB
	out strings.Builder
}

// text returns a trace in a form like protobuf's text format: a packet is a block
// of lines, a message inside it a line.
func text(t testing.TB, trace []byte) string {
	t.Helper()
	d := decoder{t: t}
	for len(trace) > 0 {
		num, typ, n := protowire.ConsumeTag(trace)
		if n < 0 || num != 1 || typ != protowire.BytesType {
			t.Fatalf("no packet at %x", trace[:min(len(trace), 16)])
		}
		packet, m := protowire.ConsumeBytes(trace[n:])
		if m < 0 {
			t.Fatalf("a packet is cut off: %v", protowire.ParseError(m))
		}
		d.out.WriteString("packet {\n")
		d.message("TracePacket", packet, "  ", "\n")
		d.out.WriteString("}\n")
		trace = trace[n+m:]
	}
	return d.out.String()
}

func (d *decoder) message(name string, b []byte, before, after string) {
	d.t.Helper()
	for len(b) > 0 {
		num, typ, n := protowire.ConsumeTag(b)
		if n < 0 {
			d.t.Fatalf("%s: %v", name, protowire.ParseError(n))
		}
		entry, ok := schema[name][num]
		if !ok {
			d.t.Fatalf("%s has no field %d", name, num)
		}
		label, kind, _ := strings.Cut(entry, " ")
		d.out.WriteString(before + label)
		n += d.value(kind, typ, b[n:])
		d.out.WriteString(after)
		b = b[n:]
	}
}

// value prints the value of a field and returns its length.
func (d *decoder) value(kind string, typ protowire.Type, b []byte) (n int) {
	d.t.Helper()
	var v uint64
	var p []byte
	switch typ {
	case protowire.VarintType:
		v, n = protowire.ConsumeVarint(b)
		if kind == "int" {
			fmt.Fprintf(&d.out, ": %d", int64(v))
		} else {
			fmt.Fprintf(&d.out, ": %d", v)
		}
	case protowire.Fixed64Type:
		v, n = protowire.ConsumeFixed64(b)
		fmt.Fprintf(&d.out, ": %g", math.Float64frombits(v))
	case protowire.BytesType:
		p, n = protowire.ConsumeBytes(b)
		if kind == "" {
			fmt.Fprintf(&d.out, ": %q", p)
			break
		}
		d.out.WriteString(" {")
		d.message(kind, p, " ", "")
		d.out.WriteString(" }")
	default:
		d.t.Fatalf("wire type %d", typ)
	}
	if n < 0 {
		d.t.Fatal(protowire.ParseError(n))
	}
	return n
}
