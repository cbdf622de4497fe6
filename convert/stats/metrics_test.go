package stats_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cudatrace/cudatrace/convert/stats/table"
	"github.com/cudatrace/cudatrace/record/goldentest"
	"github.com/cudatrace/cudatrace/record/metric"
)

// lines are the rows of a report as people see them, without times.
func lines(r *table.Table) (all []string) {
	for _, row := range r.Rows {
		var words []string
		for i, c := range r.Columns {
			if c.Title != "" && c.Key != "time_ns" {
				words = append(words, table.Words(row.Cells[i], c.Unit))
			}
		}
		all = append(all, strings.Join(words, " | "))
	}
	return all
}

// Values count from the first GPU work to the last: 100 ms of 150. Half of the time SM active is 5 %,
// half of it 90 %, before and behind the work 40 %. The clocks are lowered for 20 ms.
func TestMetrics(t *testing.T) {
	t.Parallel()
	p := newProgram()
	p.steady("work")
	p.sampled(metric.PM, []metric.Metric{
		{Name: metric.NameSMActive, Unit: metric.Percent, Kind: metric.Percentage},
		{Name: metric.NameDRAMRead, Unit: metric.BytesPerSec, Kind: metric.Rate},
		{Name: "never", Unit: metric.Percent, Kind: metric.Percentage},
	}, func(i int) []float64 {
		if i < 10 || i > 110 {
			return []float64{40, 0}
		}
		return []float64{[]float64{5, 90}[i%2], 1e12}
	})
	p.nvml(metric.HardwareThermal, 10, 30)
	p.other()
	r := p.reports(t, false)["metrics"]
	want := []string{
		metric.NameSMActive + " | PM sampling | 0 | - | 47.5 % | 5.0 % | 90.0 % | 90.0 % | 50.0 % | 50.0 %",
		metric.NameDRAMRead + " | PM sampling | 0 | - | 1.00 TB/s | 1.00 TB/s | 1.00 TB/s | 1.00 TB/s | - | -",
		metric.NameSMClock + " | NVML | 0 | - | 1.82 GHz | 1.98 GHz | 1.98 GHz | 1.98 GHz | - | -",
		"clocks lowered: hardware thermal slowdown | NVML | 0 | - | 20.0 % | - | - | - | - | -",
	}
	goldentest.Same(t, want, lines(r), "metrics")
	if len(r.Notes) != 1 || !strings.Contains(r.Notes[0], "process 99 (other)") {
		t.Errorf("notes are %q", r.Notes)
	}
	for _, row := range r.Rows {
		if ns := row.Cells[r.Column("time_ns")].(uint64); ns > 101*ms {
			t.Errorf("%v covers %s", row.Cells[0], fmt.Sprint(ns))
		}
	}
}

// Without GPU work there is nothing to say, and a reason for that.
func TestMetricsWithoutWork(t *testing.T) {
	t.Parallel()
	p := newProgram()
	p.call("cudaGetDevice", us)
	p.nvml(metric.PowerCap, 10, 30)
	if r := p.reports(t, false)["metrics"]; len(r.Rows) != 0 || r.Reason == "" {
		t.Errorf("%d rows, reason %q", len(r.Rows), r.Reason)
	}
}

// nvtx makes calls in an NVTX range.
func (p *program) nvtx(id int, name string, calls func()) {
	fmt.Fprintf(&p.log, "marker pid=10 tid=10 flags=0x2 id=%d time=%d name=%s\n", id, p.now, name)
	calls()
	fmt.Fprintf(&p.log, "marker pid=10 tid=10 flags=0x4 id=%d time=%d\n", id, p.now)
}

// The ranges take 0.6 ms of the thread, one after the other, and 100 ms of the GPU. In the work of "first" SM active is 5 %,
// in that of "second" 90 %, which GPM shows as 20 and 70 %: values of two sources are never in one row. Clocks
// are lowered in 10 ms of "second".
func TestRangeMetrics(t *testing.T) {
	t.Parallel()
	p := newProgram()
	launch := func() { times(50, func(int) { p.work("cudaLaunchKernel", 7, 5*us, ms, grid("work", 200)) }) }
	p.nvtx(1, "step", func() {
		p.nvtx(2, "first", launch)
		p.nvtx(3, "second", launch)
		p.nvtx(4, "idle", func() { p.cpu(100 * us) })
	})
	for _, s := range []struct {
		source      metric.Source
		name        string
		first, next float64
	}{{metric.PM, metric.NameSMActive, 5, 90}, {metric.GPM, metric.NameGPMSMActive, 20, 70}} {
		p.sampled(s.source, []metric.Metric{{Name: s.name, Unit: metric.Percent, Kind: metric.Percentage}}, func(i int) []float64 {
			if i < 60 {
				return []float64{s.first}
			}
			return []float64{s.next}
		})
	}
	p.nvml(metric.PowerCap, 60, 70)
	p.other()
	r := p.reports(t, false)["nvtx_metrics"]
	want := []string{
		"step | - | SM | PM sampling | 0 | 47.5 % | 90.0 % | 90.0 % | 90.0 % | 49.9 % | 50.1 %",
		"step | - | GPM | GPM | 0 | 45.0 % | 70.0 % | 70.0 % | 70.0 % | 0.0 % | 0.0 %",
		"step | - | clock | NVML | 0 | 1.90 GHz | 1.98 GHz | 1.98 GHz | 1.98 GHz | - | -",
		"step | - | clocks lowered: power cap | NVML | 0 | 10.0 % | - | - | - | - | -",
		"first | - | SM | PM sampling | 0 | 5.0 % | 5.0 % | 5.0 % | 5.0 % | 100.0 % | 0.0 %",
		"first | - | GPM | GPM | 0 | 20.0 % | 20.0 % | 20.0 % | 20.0 % | 0.0 % | 0.0 %",
		"first | - | clock | NVML | 0 | 1.98 GHz | 1.98 GHz | 1.98 GHz | 1.98 GHz | - | -",
		"second | - | SM | PM sampling | 0 | 90.0 % | 90.0 % | 90.0 % | 90.0 % | 0.0 % | 100.0 %",
		"second | - | GPM | GPM | 0 | 70.0 % | 70.0 % | 70.0 % | 70.0 % | 0.0 % | 0.0 %",
		"second | - | clock | NVML | 0 | 1.82 GHz | 1.98 GHz | 1.98 GHz | 1.98 GHz | - | -",
		"second | - | clocks lowered: power cap | NVML | 0 | 20.0 % | - | - | - | - | -",
	}
	short := strings.NewReplacer(metric.NameSMActive, "SM", metric.NameGPMSMActive, "GPM", metric.NameSMClock, "clock")
	got := lines(r)
	for i := range got {
		got[i] = short.Replace(got[i])
	}
	goldentest.Same(t, want, got, "metrics")
	if len(r.Notes) != 1 || !strings.Contains(r.Notes[0], "process 99 (other)") {
		t.Errorf("notes are %q", r.Notes)
	}
	if span := r.Rows[0].Cells[r.Column("span_ns")].(uint64); span/ms != 100 {
		t.Errorf("the work of step takes %d ns", span)
	}
}
