package pfsink

import (
	"regexp"
	"strings"
	"testing"

	"github.com/cudatrace/cudatrace/perfetto/tracetest"
)

var internedText = regexp.MustCompile(`(\w+) \{ iid: (\d+) (?:name|str): "((?:[^"\\]|\\.)*)"`)

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
	text, err := tracetest.Text(trace)
	if err != nil {
		t.Fatal(err)
	}
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

// events returns the events of a trace, of which the text begins like this.
func events(t testing.TB, trace []byte, begins string) (list []string) {
	t.Helper()
	for line := range strings.SplitSeq(text(t, trace), "\n") {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, begins) {
			list = append(list, line)
		}
	}
	return list
}
