package pfsink

import (
	"regexp"
	"strings"
	"testing"

	"github.com/cudatrace/cudatrace/perfetto/tracetest"
	"github.com/cudatrace/cudatrace/record/must"
)

var internedText = regexp.MustCompile(`(\w+) \{ iid: (\d+) (?:name|str): "((?:[^"\\]|\\.)*)"`)

// Kernels with their arguments, and launches up to these.
var (
	internedKernel = regexp.MustCompile(`compute_kernels \{ iid: (\d+) (?:(?:demangled_)?name: "(?:[^"\\]|\\.)*" )*((?:args \{[^{}]*\} )*)\}`)
	launchOf       = regexp.MustCompile(`kernel_iid: (\d+) launch \{ (?:grid_size \{[^{}]*\} )?(?:workgroup_size \{[^{}]*\} )?`)
)

// references are the fields that refer to interned text, with the table of each and what is
// shown in place of it. The first that fits counts.
var references = []struct {
	field        *regexp.Regexp
	table, shown string
}{
	{regexp.MustCompile(`(debug_annotations \{) name_iid: (\d+)`), "debug_annotation_names", "%s"},
	{regexp.MustCompile(`( args \{) name_iid: (\d+)`), "compute_arg_names", "%s"},
	{regexp.MustCompile(`( )string_value_iid: (\d+)`), "debug_annotation_string_values", `"%s"`},
	{regexp.MustCompile(`( )category_iids: (\d+)`), "event_categories", `category: "%s"`},
	{regexp.MustCompile(`( )name_iid: (\d+)`), "event_names", `name: "%s"`},
	{regexp.MustCompile(`( )kernel_iid: (\d+)`), "compute_kernels", `kernel: "%s"`},
	{regexp.MustCompile(`( )stage_iid: (\d+)`), "gpu_specifications", `stage: "%s"`},
	{regexp.MustCompile(`( )hw_queue_iid: (\d+)`), "gpu_specifications", `queue: "%s"`},
}

// text shows a trace with names in place of the numbers that refer to them.
func text(t testing.TB, trace []byte) string {
	t.Helper()
	return resolved(t, plain(t, trace))
}

func plain(t testing.TB, trace []byte) string {
	t.Helper()
	text := must.Get(tracetest.Text(trace))(t)
	return text
}

// withKernels gives launches the arguments of their kernels.
func withKernels(text string) string {
	ofKernels := make(map[string]string)
	for _, m := range internedKernel.FindAllStringSubmatch(text, -1) {
		ofKernels[m[1]] = m[2]
	}
	return launchOf.ReplaceAllStringFunc(text, func(s string) string { return s + ofKernels[launchOf.FindStringSubmatch(s)[1]] })
}

func resolved(t testing.TB, text string) string {
	t.Helper()
	names := make(map[string]string)
	for _, m := range internedText.FindAllStringSubmatch(text, -1) {
		names[m[1]+m[2]] = m[3]
	}
	for _, r := range references {
		text = r.field.ReplaceAllStringFunc(text, func(s string) string {
			m := r.field.FindStringSubmatch(s)
			name, ok := names[r.table+m[2]]
			if !ok {
				t.Errorf("%s refers to nothing", s)
			}
			return strings.TrimRight(m[1], " ") + " " + strings.Replace(r.shown, "%s", name, 1)
		})
	}
	return text
}

// events returns the events of a trace, of which the text begins like this. Launches have the arguments of their kernels.
func events(t testing.TB, trace []byte, begins string) (list []string) {
	t.Helper()
	for line := range strings.SplitSeq(resolved(t, withKernels(plain(t, trace))), "\n") {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, begins) {
			list = append(list, line)
		}
	}
	return list
}
