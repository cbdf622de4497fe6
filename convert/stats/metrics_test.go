package stats_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cudatrace/cudatrace/convert"
	"github.com/cudatrace/cudatrace/convert/logtest"
	"github.com/cudatrace/cudatrace/convert/stats"
	"github.com/cudatrace/cudatrace/convert/stats/table"
	"github.com/cudatrace/cudatrace/record/metric"
)

// metricsOf is the report of metrics of a program.
func metricsOf(t *testing.T, p *program) *table.Table {
	t.Helper()
	s := stats.New()
	if _, err := convert.Timeline([]convert.Log{{Name: "log", Open: logtest.InMemory(p.bytes(t))}}, convert.Options{}, s); err != nil {
		t.Fatal(err)
	}
	for _, r := range s.Tables(stats.Facts{}) {
		if r.Name == "metrics" {
			return r
		}
	}
	t.Fatal("no report of metrics")
	return nil
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
	r := metricsOf(t, p)
	var got []string
	for _, row := range r.Rows {
		var words []string
		for i, c := range r.Columns {
			if c.Title != "" && c.Key != "time_ns" {
				words = append(words, table.Words(row[i], c.Unit))
			}
		}
		got = append(got, strings.Join(words, " | "))
	}
	want := []string{
		metric.NameSMActive + " | PM sampling | 0 | - | 47.5 % | 5.0 % | 90.0 % | 90.0 % | 50.0 % | 50.0 %",
		metric.NameDRAMRead + " | PM sampling | 0 | - | 1.00 TB/s | 1.00 TB/s | 1.00 TB/s | 1.00 TB/s | - | -",
		metric.NameSMClock + " | NVML | 0 | - | 1.82 GHz | 1.98 GHz | 1.98 GHz | 1.98 GHz | - | -",
		"clocks lowered: hardware thermal slowdown | NVML | 0 | - | 20.0 % | - | - | - | - | -",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
	if len(r.Notes) != 1 || !strings.Contains(r.Notes[0], "process 99 (other)") {
		t.Errorf("notes are %q", r.Notes)
	}
	for _, row := range r.Rows {
		if ns := row[r.Column("time_ns")].(uint64); ns > 101*ms {
			t.Errorf("%v covers %s", row[0], fmt.Sprint(ns))
		}
	}
}

// Without GPU work there is nothing to say, and a reason for that.
func TestMetricsWithoutWork(t *testing.T) {
	t.Parallel()
	p := newProgram()
	p.call("cudaGetDevice", us)
	p.nvml(metric.PowerCap, 10, 30)
	if r := metricsOf(t, p); len(r.Rows) != 0 || r.Reason == "" {
		t.Errorf("%d rows, reason %q", len(r.Rows), r.Reason)
	}
}
