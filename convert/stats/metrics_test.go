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
