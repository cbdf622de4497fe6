package perfetto

import (
	"math"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/cudatrace/cudatrace/perfetto/tracetest"
)

// Arguments of each kind, in the two messages that hold them.
func TestAppendArg(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("v", longestValue+1)
	for _, c := range []struct {
		arg                 Arg
		annotation, compute string
	}{
		{Uint("n", math.MaxUint64), "uint_value: 18446744073709551615", "uint_value: 18446744073709551615"},
		{Int("n", -5), "int_value: -5", "int_value: -5"},
		{Pointer("n", 0xfe0), "pointer_value: 4064", `string_value: "0xfe0"`},
		{Float("n", 0.25), "double_value: 0.25", "double_value: 0.25"},
		{String("n", "text"), "string_value_iid: 1", "string_value_iid: 1"},
		{String("n", ""), `string_value: ""`, `string_value: ""`},
		{String("n", long), `string_value: "` + long + `"`, `string_value: "` + long + `"`},
		{Repeated("n", "text"), "string_value_iid: 1", "string_value_iid: 1"},
		{Repeated("n", long), "string_value_iid: 1", "string_value_iid: 1"},
	} {
		for message, want := range map[argMessageID]string{debugAnnotation: c.annotation, extraComputeArg: c.compute} {
			if got := argText(t, message, &c.arg); got != "name_iid: 1 "+want {
				t.Errorf("%+v in message %d is %q, want %q", c.arg, message, got, want)
			}
		}
	}
	if got := argText(t, debugAnnotation, new(Uint("", 1))); got != `name: "" uint_value: 1` {
		t.Errorf("an argument without a name is %q", got)
	}
}

// argText encodes an argument and returns it as text.
func argText(t *testing.T, message argMessageID, a *Arg) string {
	t.Helper()
	n, b, refs := newInterner(), buffer{}, []stringRef(nil)
	n.appendArg(&b, &refs, 1, message, a)
	_, _, tag := protowire.ConsumeTag(b.b)
	body, _ := protowire.ConsumeBytes(b.b[tag:])
	text, err := tracetest.Message([]string{"DebugAnnotation", "GpuRenderStageEvent.ExtraComputeArg"}[message], body)
	if err != nil {
		t.Fatal(err)
	}
	return text
}
