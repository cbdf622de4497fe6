package diff

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/cudatrace/cudatrace/convert/stats/table"
	"github.com/cudatrace/cudatrace/record/goldentest"
	"github.com/google/go-cmp/cmp"
)

var testWords = Words{
	Figures: map[string]table.Unit{"kernel_time": table.Duration, "peak_memory": table.Bytes, "gpu_busy": table.Share, "kernel_count": table.Number},
	Reports: map[string]map[string]table.Unit{
		"kernels": {"count": table.Number, "total_ns": table.Duration, "median_ns": table.Duration}, "calls": {"count": table.Number, "total_ns": table.Duration},
		"copies": {"count": table.Number, "bytes": table.Bytes, "max_bytes": table.Bytes, "gbps": table.Rate}, "memory": {"peak_bytes": table.Bytes},
	},
}

func TestParse(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Condition{
		"kernel_time > +5%":                      {Figure: "kernel_time", Unit: table.Duration, Op: ">", Value: 0.05, Change: true, Percent: true},
		"kernel_time>+5ms":                       {Figure: "kernel_time", Unit: table.Duration, Op: ">", Value: 5e6, Change: true},
		"kernel_time >= 1.5s":                    {Figure: "kernel_time", Unit: table.Duration, Op: ">=", Value: 1.5e9},
		"kernel_time > 20µs":                     {Figure: "kernel_time", Unit: table.Duration, Op: ">", Value: 20e3},
		"kernel_time > 0":                        {Figure: "kernel_time", Unit: table.Duration, Op: ">"},
		"  peak_memory > 2GiB ":                  {Figure: "peak_memory", Unit: table.Bytes, Op: ">", Value: 2 << 30},
		"peak_memory > +64k":                     {Figure: "peak_memory", Unit: table.Bytes, Op: ">", Value: 64 << 10, Change: true},
		"gpu_busy < 80%":                         {Figure: "gpu_busy", Unit: table.Share, Op: "<", Value: 0.8},
		"gpu_busy <= 0.75":                       {Figure: "gpu_busy", Unit: table.Share, Op: "<=", Value: 0.75},
		"gpu_busy < -5%":                         {Figure: "gpu_busy", Unit: table.Share, Op: "<", Value: -0.05, Change: true, Percent: true},
		"calls:cudaMalloc > 0":                   {Report: "calls", Name: "cudaMalloc", Column: "count", Op: ">"},
		"call:cudaMalloc* > +0":                  {Report: "calls", Name: "cudaMalloc*", Column: "count", Op: ">", Change: true},
		"kernel:gemm*:median > +10%":             {Report: "kernels", Name: "gemm*", Column: "median_ns", Unit: table.Duration, Op: ">", Value: 0.1, Change: true, Percent: true},
		"kernel:at::native::add:median_ns > 1us": {Report: "kernels", Name: "at::native::add", Column: "median_ns", Unit: table.Duration, Op: ">", Value: 1e3},
		"kernel:at::median > 1":                  {Report: "kernels", Name: "at::median", Column: "count", Op: ">", Value: 1},
		`kernel:"gemm<float, 128>":total > 1ms`:  {Report: "kernels", Name: "gemm<float, 128>", Column: "total_ns", Unit: table.Duration, Op: ">", Value: 1e6},
		`kernel:"a:b" > 1`:                       {Report: "kernels", Name: "a:b", Column: "count", Op: ">", Value: 1},
		"copy:HtoD:bytes > 1G":                   {Report: "copies", Name: "HtoD", Column: "bytes", Unit: table.Bytes, Op: ">", Value: 1 << 30},
		"copies:HtoD:max > 1G":                   {Report: "copies", Name: "HtoD", Column: "max_bytes", Unit: table.Bytes, Op: ">", Value: 1 << 30},
		"copies:HtoD:gbps < 12.5":                {Report: "copies", Name: "HtoD", Column: "gbps", Unit: table.Rate, Op: "<", Value: 12.5},
		"memory:device:peak > 1T":                {Report: "memory", Name: "device", Column: "peak_bytes", Unit: table.Bytes, Op: ">", Value: 1 << 40},
	} {
		want.Text = strings.TrimSpace(text)
		if want.Unit == 0 {
			want.Unit = table.Number
		}
		got, err := ParseCondition(text, testWords)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		goldentest.Same(t, &want, got, "%s", text)
	}
}

// An error marks the wrong part of the text.
func TestErrors(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ text, mark, says string }{
		{"", "", "a figure is missing"},
		{"> 5", "^", "a figure is missing"},
		{"kernel_tme > +5%", "^^^^^^^^^^", `no figure "kernel_tme"; there are gpu_busy, kernel_count,`},
		{"kernels > 5", "       ^", "which of the kernels? write kernels:NAME"},
		{"kernel: > 5", "       ^", "a name is missing"},
		{"kernl:gemm > 5", "^^^^^", `no report "kernl"; there are calls, copies, kernels, memory`},
		{"kernel:gemm:medain > 5", "            ^^^^^^", `no column "medain"; there are count, median_ns, total_ns`},
		{"kernel:gemm: > 5", "            ^", "a column is missing"},
		{"memory:device > 5", "             ^", "memory have no count: name a column, such as peak_bytes"},
		{"kernel:gemm<float> > 5", "            ^^^^^^", "< or > stands between quotes"},
		{`kernel:"gemm > 5`, "       ^^^^^^^^^", "a closing quote is missing"},
		{"kernel:gemm[ > 5", "       ^^^^^", "is no pattern"},
		{"kernel_time", "", "a comparison is missing"},
		{"kernel_time 5ms", "            ^", "a comparison is missing"},
		{"kernel_time == 5ms", "            ^^", `no comparison "=="`},
		{"kernel_time > ", "", "the value is missing: the figure is a time"},
		{"kernel_time > 5", "", "a unit is missing: the figure is a time"},
		{"kernel_time > 5x", "               ^", `"x" is no unit of the figure, which is a time`},
		{"kernel_time > 5%", "               ^", "a change has a sign: +5% or -5%"},
		{"kernel_time > 1.2.3ms", "              ^^^^^^^", "the value is missing"},
		{"kernel_time > -5%", "              ^", "a rise is written > +5%, a fall < -5%"},
		{"gpu_busy < +5%", "           ^", "a fall is written < -5%, a rise > +5%"},
		{"peak_memory > 5ms", "               ^^", "which is a size: write 500K"},
		{"kernel_time > 5ms or", "                  ^^", "nothing may follow the value"},
		{"kernel_time > 1" + strings.Repeat("0", 308) + "ms", "              " + strings.Repeat("^", 311), "the value is too large"},
	} {
		_, err := ParseCondition(c.text, testWords)
		var e *SyntaxError
		if !errors.As(err, &e) {
			t.Errorf("%s: error %v", c.text, err)
			continue
		}
		if mark := strings.Repeat(" ", e.At) + strings.Repeat("^", e.Len); strings.TrimRight(mark, " ") != c.mark || !strings.Contains(e.Error(), c.says) {
			t.Errorf("%s: %s\n%s\n%s", c.text, e, c.text, mark)
		}
	}
}

func TestHolds(t *testing.T) {
	t.Parallel()
	for op, want := range map[string][3]bool{">": {false, false, true}, ">=": {false, true, true}, "<": {true, false, false}, "<=": {true, true, false}} {
		c := Condition{Op: op, Value: 2}
		for i, v := range []float64{1, 2, 3} {
			if c.holds(v) != want[i] {
				t.Errorf("%v %s 2 is %t", v, op, !want[i])
			}
		}
	}
}

// A condition that is read again is the same, and an error marks characters of the text.
func FuzzParse(f *testing.F) {
	for _, text := range []string{"kernel_time > +5%", `kernel:"a b":median < 5us`, "copies:HtoD:gbps < -1.5", "µ > 1", "gpu_busy <= 80%", "kernel:a[b > 0"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, err := ParseCondition(text, testWords)
		var e *SyntaxError
		if errors.As(err, &e) {
			if e.At < 0 || e.Len < 0 || e.At+e.Len > len(text) || e.Message == "" {
				t.Fatalf("%q: error at %d, %d bytes: %q", text, e.At, e.Len, e.Message)
			}
			if utf8.ValidString(text) && !utf8.ValidString(text[e.At:e.At+e.Len]) {
				t.Fatalf("%q: error within a character at %d, %d bytes", text, e.At, e.Len)
			}
			return
		}
		again, err := ParseCondition(c.Text, testWords)
		if err != nil {
			t.Fatalf("%q: %q: %v", text, c.Text, err)
		}
		if diff := cmp.Diff(c, again); diff != "" {
			t.Fatalf("%q: %s", text, diff)
		}
	})
}

func TestBudget(t *testing.T) {
	t.Parallel()
	got, err := ReadBudget(strings.NewReader("\ufeff# times\r\n\nkernel_time > +5%  # of main\r\n\tkernel:\"a # b\" > 1\nkernel:a#1 > 2"))
	want := []BudgetLine{{3, "kernel_time > +5%"}, {4, `kernel:"a # b" > 1`}, {5, "kernel:a#1 > 2"}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if _, err := ReadBudget(strings.NewReader(strings.Repeat("a > 1\n", 10_001))); err == nil || err.Error() != "it has more than 10000 conditions" {
		t.Errorf("of too many conditions: %v", err)
	}
	if _, err := ReadBudget(strings.NewReader(strings.Repeat("x", 70_000))); err == nil || err.Error() != "a line is longer than 65536 bytes" {
		t.Errorf("a long line: %v", err)
	}
}
