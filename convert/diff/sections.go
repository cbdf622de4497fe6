package diff

// A section says what is compared of a report.
type section struct {
	report, title string
	figures       []figure
	adds          string // the column that says what a row adds to the total
}

// A figure is a column that is compared.
type figure struct {
	column   string
	exact    bool   // counts and bytes: any difference is one
	up, down string // verdicts about a larger and a smaller value
}

var (
	counted = figure{"count", true, "more", "fewer"}
	total   = figure{"total_ns", false, "slower", "faster"}
	median  = figure{"median_ns", false, "slower", "faster"}
)

// sections are what is compared, in the order in which one thing causes another: a call waits
// for kernels.
var sections = []section{
	{"kernels", "kernels", []figure{counted, total, median}, "total_ns"},
	{"copies", "copies", []figure{counted, {"bytes", true, "more bytes", "fewer bytes"}, total, median}, "total_ns"},
	{"sets", "memory sets", []figure{counted, {"bytes", true, "more bytes", "fewer bytes"}, total, median}, "total_ns"},
	{"operators", "operators of PyTorch", []figure{counted, total}, "total_ns"},
	{"calls", "CUDA calls", []figure{counted, {"failed", true, "more failures", "fewer failures"}, total, median},
		"total_ns"},
	{"errors", "failed calls", []figure{counted}, "count"},
	{"nvtx", "NVTX ranges and marks", []figure{counted, total, median}, "total_ns"},
	{"memory", "allocated memory", []figure{{"peak_bytes", true, "larger peak", "smaller peak"},
		{"allocations", true, "more allocations", "fewer allocations"},
		{"not_freed", true, "more not freed", "fewer not freed"}}, "peak_bytes"},
	{"ranks", "ranks", []figure{{"compute_ns", false, "computes longer", "computes less"},
		{"exposed_ns", false, "more exposed", "less exposed"},
		{"waited_ns", false, "waits longer", "waits less"}, {"awaited_ns", false, "others wait longer", "others wait less"}},
		"awaited_ns"},
	{"devices", "GPUs", []figure{{"busy_ns", false, "busier", "less busy"}, {"idle_ns", false, "more idle", "less idle"}},
		"busy_ns"},
}

// finer are reports with more rows, which are compared in the place of others where all runs have them.
var finer = map[string]string{"kernels": kernelPython}

// partly are reports whose rows may be known of a part of the GPU work, or of none: they are compared where that is
// nearly all.
var partly = map[string]bool{"operators": true}

// countOf is the column that says how often a row happened.
func (s *section) countOf() string {
	switch s.report {
	case "memory":
		return "allocations"
	case "devices":
		return "kernels"
	case "ranks":
		return "busy_ns"
	}
	return "count"
}
