package stats

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/cudatrace/cudatrace/convert/internal/sketch"
)

// A Sheet is a table of texts, with a line of headers.
type Sheet struct {
	Name string
	Rows [][]string
}

// NsightReports are the names of the reports that Nsight returns, by the names of the reports
// that they belong to.
var NsightReports = map[string][]string{
	"kernels": {"cuda_gpu_kern_sum"}, "calls": {"cuda_api_sum"},
	"copies": {"cuda_gpu_mem_time_sum", "cuda_gpu_mem_size_sum"},
	"sets":   {"cuda_gpu_mem_time_sum", "cuda_gpu_mem_size_sum"},
}

// Nsight returns the reports that Nsight Systems has too, with its headers and units. The start-up counts, as there.
func (s *Sink) Nsight() []Sheet {
	var kernels, calls, times, sizes []nsightRow
	v := s.view().whole
	for _, r := range kernelsReport.rowsOf(v).List {
		name := cmp.Or(s.names.Of(r.mangled).Full, s.kernelTitle(r.mangled))
		kernels = append(kernels, nsightRow{&r.time.Distribution, name})
	}
	for _, r := range callsReport.rowsOf(v).List {
		calls = append(calls, nsightRow{&r.time.Distribution, r.Name})
	}
	for _, r := range copiesReport.rowsOf(v).List {
		times, sizes = append(times, nsightRow{&r.time.Distribution, r.operation()}),
			append(sizes, nsightRow{&r.bytes, r.operation()})
	}
	for _, r := range setsReport.rowsOf(v).List {
		times, sizes = append(times, nsightRow{&r.time.Distribution, "[CUDA memset]"}),
			append(sizes, nsightRow{&r.bytes, "[CUDA memset]"})
	}
	return []Sheet{
		timeSheet("cuda_gpu_kern_sum", "Instances", "Name", kernels), timeSheet("cuda_api_sum", "Num Calls", "Name", calls),
		timeSheet("cuda_gpu_mem_time_sum", "Count", "Operation", times), sizeSheet(sizes),
	}
}

// An nsightRow is a row of a sheet.
type nsightRow struct {
	of   *sketch.Distribution
	name string
}

// nsightDirections are Nsight Systems' words for the directions of copies.
var nsightDirections = map[string]string{
	"HtoD": "Host-to-Device", "DtoH": "Device-to-Host", "DtoD": "Device-to-Device", "HtoH": "Host-to-Host",
	"PtoP": "Peer-to-Peer",
	"HtoA": "Host-to-Array", "AtoH": "Array-to-Host", "AtoA": "Array-to-Array", "AtoD": "Array-to-Device",
	"DtoA": "Device-to-Array",
}

func (r *copyCells) operation() string {
	return "[CUDA memcpy " + cmp.Or(nsightDirections[r.Name], r.Name) + "]"
}

// merged joins the rows of one name: our rows of copies have the kinds of memory too. It sorts
// the rows by their totals.
func merged(rows []nsightRow) []nsightRow {
	var all []nsightRow
	for _, r := range rows {
		if r.of.Count == 0 {
			continue
		}
		i := slices.IndexFunc(all, func(o nsightRow) bool { return o.name == r.name })
		if i < 0 {
			i = len(all)
			all = append(all, nsightRow{new(sketch.Distribution), r.name})
		}
		all[i].of.Merge(r.of)
	}
	slices.SortStableFunc(all, func(a, b nsightRow) int { return cmp.Compare(b.of.Total, a.of.Total) })
	return all
}

func timeSheet(name, count, title string, rows []nsightRow) Sheet {
	s := Sheet{
		name, [][]string{{"Time (%)", "Total Time (ns)", count, "Avg (ns)", "Med (ns)", "Min (ns)", "Max (ns)",
			"StdDev (ns)", title}},
	}
	rows = merged(rows)
	total := uint64(0)
	for _, r := range rows {
		total = sketch.Sum(total, r.of.Total)
	}
	for _, r := range rows {
		d := r.of
		s.Rows = append(s.Rows, []string{
			fmt.Sprintf("%.1f", 100*float64(d.Total)/float64(max(total, 1))), fmt.Sprint(d.Total), fmt.Sprint(d.Count),
			fmt.Sprintf("%.1f", d.Mean()),
			fmt.Sprintf("%.1f", float64(d.Percentile(50))), fmt.Sprint(d.Min), fmt.Sprint(d.Max),
			fmt.Sprintf("%.1f", d.StdDev()), r.name,
		})
	}
	return s
}

// sizeSheet has sizes in MB of a million bytes.
func sizeSheet(rows []nsightRow) Sheet {
	s := Sheet{
		"cuda_gpu_mem_size_sum", [][]string{{"Total (MB)", "Count", "Avg (MB)", "Med (MB)", "Min (MB)", "Max (MB)",
			"StdDev (MB)", "Operation"}},
	}
	mb := func(bytes float64) string { return fmt.Sprintf("%.3f", bytes/1e6) }
	for _, r := range merged(rows) {
		d := r.of
		s.Rows = append(s.Rows, []string{
			mb(float64(d.Total)), fmt.Sprint(d.Count), mb(d.Mean()), mb(float64(d.Percentile(50))), mb(float64(d.Min)),
			mb(float64(d.Max)), mb(d.StdDev()), r.name,
		})
	}
	return s
}
