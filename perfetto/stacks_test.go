package perfetto

import (
	"testing"

	"github.com/cudatrace/cudatrace/perfetto/tptest"
)

// stacks writes samples of two threads.
func stacks(w *Writer) {
	w.Process(Process{PID: 4000, Name: "train"})
	w.Thread(Thread{PID: 4000, TID: 4000, Name: "python3"})
	w.Thread(Thread{PID: 4000, TID: 4001, Name: "pt_autograd_0"})
	s := w.StackSamples("GPU time (ns)", 1000)
	main := StackFrame{Name: "main", Of: "train.py", File: "/home/ann/train.py", Line: 40}
	step := StackFrame{Name: "step", Of: "train.py", File: "/home/ann/train.py", Line: 7}
	other := StackFrame{Name: "step", Of: "train.py", File: "/home/ann/train.py", Line: 9}
	gemm := StackFrame{Name: "gemm", Of: "GPU"}
	s.Sample(uptime+100, 4000, 4000, 1000, []StackFrame{main, step, gemm})
	s.Sample(uptime+300, 4000, 4000, 1000, []StackFrame{main, step, gemm})
	s.Sample(uptime+400, 4000, 4000, 1000, []StackFrame{main, other, gemm})
	s.Sample(uptime+200, 4000, 4001, 1000, []StackFrame{{Name: "(no Python\xff frame)", Of: "Python"}, gemm})
	s.Sample(uptime+500, 4000, 4001, 1000, []StackFrame{{}})
}

// Samples are in the tables that the UI asks, and their sum is what its flame graph shows.
func TestStackSamples(t *testing.T) {
	t.Parallel()
	tr := tptest.Open(t, save(t, sampleOptions(), stacks))
	tptest.NoErrors(t, tr)
	const u = int64(uptime)
	rows(t, tr, `select p.ts, tid, cpu_mode, f.name from perf_sample p join thread using (utid) join stack_profile_callsite c on p.callsite_id = c.id
			join stack_profile_frame f on c.frame_id = f.id order by p.ts`,
		row{u + 100, int64(4000), "user", "gemm"}, row{u + 200, int64(4001), "user", "gemm"}, row{u + 300, int64(4000), "user", "gemm"},
		row{u + 400, int64(4000), "user", "gemm"}, row{u + 500, int64(4001), "user", ""})
	rows(t, tr, `select distinct name, is_timebase from perf_counter_track`, row{"GPU time (ns)", int64(1)})
	tr.Query(`include perfetto module linux.perf.samples`)
	rows(t, tr, `select c.name, mapping_name, source_file || ':' || line_number, self_count, p.name from (select * from _callstacks_for_callsites!((select callsite_id from perf_sample))) c
			left join (select id, name from _callstacks_for_callsites!((select callsite_id from perf_sample))) p on c.parent_id = p.id order by c.name, 3, self_count desc, p.name`,
		row{"", "/", nil, int64(1), nil},
		row{"(no Python\uFFFD frame)", "/Python", nil, int64(0), nil},
		row{"gemm", "/GPU", nil, int64(2), "step"},
		row{"gemm", "/GPU", nil, int64(1), "(no Python\uFFFD frame)"},
		row{"gemm", "/GPU", nil, int64(1), "step"},
		row{"main", "/train.py", "/home/ann/train.py:40", int64(0), nil},
		row{"step", "/train.py", "/home/ann/train.py:7", int64(0), "main"},
		row{"step", "/train.py", "/home/ann/train.py:9", int64(0), "main"})
}
