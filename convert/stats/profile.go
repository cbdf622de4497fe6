package stats

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/cudatrace/cudatrace/convert/stats/sketch"
	"github.com/cudatrace/cudatrace/convert/stats/table"
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/figures"
)

// transfers is the time of copies and sets, the part of those that asynchronous calls or graphs launched, and that of copies of pageable memory, which
// no function copies asynchronously.
type transfers struct{ all, async, pageable uint64 }

func (t *transfers) countTransfer(w *timeline.Work) {
	if w.Untimed || w.Kind != timeline.MemcpyWork && w.Kind != timeline.MemsetWork {
		return
	}
	t.all = sketch.Sum(t.all, w.Dur)
	if w.Kind == timeline.MemcpyWork && w.Shape.Memcpy.Pageable() {
		t.pageable = sketch.Sum(t.pageable, w.Dur)
		return
	}
	if w.Graph != 0 || w.Call.Function != nil && w.Call.Async {
		t.async = sketch.Sum(t.async, w.Dur)
	}
}

// A namedTime is a kernel with its time.
type namedTime struct {
	name string
	ns   uint64
}

// profileKernels is the number of kernels in the profile.
const profileKernels = 3

// largestKernels returns the kernels with most time.
func largestKernels[R any](rows []R, of func(R) (name string, ns uint64)) (top []namedTime) {
	for _, r := range rows {
		n, ns := of(r)
		if i := slices.IndexFunc(top, func(k namedTime) bool { return ns > k.ns || ns == k.ns && n < k.name }); i >= 0 {
			top = slices.Insert(top, i, namedTime{n, ns})
		} else {
			top = append(top, namedTime{n, ns})
		}
		top = top[:min(len(top), profileKernels)]
	}
	return top
}

// Columns of the profile.
const (
	profileGPUs = 1 + iota
	profileBusyShare
	profileBusy
	profileSpan
	profileCompute
	profileCopy
	profileCommunication
	profileAsync
	profilePeak
	profilePeakGPU
	profilePeakAt
	profileTop
	profileTopShares
	profileOccupancy
	profilePageable
)

var profileReport = Report{
	Name: "profile", Title: "all GPUs together",
	needs: gpuWork, whyEmpty: "no GPU work",
	table: func(s *Sink, f Facts) *table.Table { return s.profile(f) },
	Keys: []Key{
		{"name, gpus", "`all`, and the number of GPUs with work"},
		{"busy_share, busy_ns, span_ns", "as in `devices`"},
		{"compute_ns, copy_ns, communication_ns", "as in `ranks`"},
		{"async_share, pageable_share", "parts of the time of copies and sets: those that `Async` functions or graphs launched, without pageable memory; and those of pageable memory, which is never copied asynchronously; `null` without any"},
		{"peak_bytes, peak_gpu, peak_at_ns", "most device memory that all processes had allocated on one GPU at one time, the GPU and the moment"},
		{"occupancy", "mean theoretical occupancy of kernels, weighted with their time"},
		{"top_kernels, top_shares", "lists: the three kernels with most time, and their share of all GPU work"},
	},
}

// profile returns the report of the profile.
func (s *Sink) profile(f Facts) *table.Table {
	top := largestKernels(s.work.kernels.list, func(r *kernelRow) (string, uint64) { return s.work.title(r.name), r.time.Total })
	return profileTable(&s.busy, &s.memory, s.host, s.work.occupied, top, s.work.total, f.Memory)
}

// profileTable returns the report of the profile: one row of all GPUs together.
func profileTable(b *busy, m *memory, host transfers, occupied meanOccupancy, top []namedTime, total uint64, noMemory string) *table.Table {
	prose := func(row []any) table.Paragraph { return profileLines(row, noMemory) }
	t := &table.Table{Prose: prose, Columns: []table.Column{
		name("GPUs"), count("gpus", "", 0), column("busy_share", "", table.Share, 0), duration("busy_ns", "", 0), duration("span_ns", "", 0),
		duration("compute_ns", "", 0), duration("copy_ns", "", 0), duration("communication_ns", "", 0),
		column("async_share", "", table.Share, 0), column("peak_bytes", "", table.Bytes, 0), id("peak_gpu", "", 0), column("peak_at_ns", "", table.Moment, 0),
		column("top_kernels", "", table.Text, 0), column("top_shares", "", table.Text, 0),
		column("occupancy", "", table.Share, 0), column("pageable_share", "", table.Share, 0),
	}}
	devices := b.sorted()
	if len(devices) == 0 {
		return t
	}
	row := make([]any, len(t.Columns))
	row[0], row[profileGPUs] = "all", uint64(len(devices))
	row[profileAsync], row[profilePageable], row[profileOccupancy] = table.ShareOf(host.async, host.all), table.ShareOf(host.pageable, host.all), occupied.cell()
	profileTimes(row, devices)
	for gpu, g := range m.gpus {
		if peak, known := row[profilePeak].(uint64); g.peak > peak || !known || g.peak == peak && uint64(gpu) < row[profilePeakGPU].(uint64) {
			row[profilePeak], row[profilePeakGPU], row[profilePeakAt] = g.peak, uint64(gpu), m.clock.since(g.peakAt)
		}
	}
	names, shares := []string{}, []float64{}
	for _, k := range top {
		if total > 0 {
			names, shares = append(names, k.name), append(shares, float64(k.ns)/float64(total))
		}
	}
	row[profileTop], row[profileTopShares] = names, shares
	t.Rows = [][]any{row}
	return t
}

// profileTimes sets the times of all devices together. They are not known if those of one are not.
func profileTimes(row []any, devices []*deviceRow) {
	var busy, span, compute, copies, communication uint64
	for _, d := range devices {
		if d.Late > 0 || d.First == timeline.Never {
			return
		}
		busy, span = sketch.Sum(busy, d.Busy()), sketch.Sum(span, d.Last-d.First)
		compute, copies, communication = sketch.Sum(compute, d.Compute()), sketch.Sum(copies, d.Times.Copies()), sketch.Sum(communication, d.Communication())
	}
	row[profileBusyShare], row[profileBusy], row[profileSpan] = table.ShareOf(busy, span), busy, span
	row[profileCompute], row[profileCopy], row[profileCommunication] = compute, copies, communication
}

// profileLines are the lines that people read of the profile.
func profileLines(row []any, noMemory string) table.Paragraph {
	text := func(i int, u table.Unit) string { return table.Words(row[i], u) }
	busy := "not known"
	if row[profileBusy] != nil {
		busy = fmt.Sprintf("%s: %s of %s", text(profileBusyShare, table.Share), text(profileBusy, table.Duration), text(profileSpan, table.Duration))
	}
	if n := row[profileGPUs].(uint64); n > 1 {
		busy += " on " + figures.Count(n, "GPU", "GPUs") + " together"
	}
	parts := "not known"
	if row[profileCompute] != nil {
		parts = fmt.Sprintf("compute %s : copies %s : communication %s", text(profileCompute, table.Duration), text(profileCopy, table.Duration), text(profileCommunication, table.Duration))
	}
	async := "no copies or sets"
	if row[profileAsync] != nil {
		async = text(profileAsync, table.Share) + " of the time of copies and sets"
		if pageable, _ := row[profilePageable].(float64); pageable > 0 {
			async += "; copies of pageable memory, which are not: " + text(profilePageable, table.Share)
		}
	}
	peak := cmp.Or(noMemory, "no allocation recorded")
	if row[profilePeak] != nil {
		peak = fmt.Sprintf("%s on GPU %d at %s", text(profilePeak, table.Bytes), row[profilePeakGPU], text(profilePeakAt, table.Moment))
	}
	occupied := "not known"
	if row[profileOccupancy] != nil {
		occupied = text(profileOccupancy, table.Share) + " in theory, the mean over the time of kernels"
	}
	return table.Paragraph{Items: []table.Item{
		{Label: "GPU busy", Text: busy},
		{Label: "busy with", Text: parts},
		{Label: "asynchronous", Text: async},
		{Label: "peak memory", Text: peak},
		{Label: "occupancy", Text: occupied},
		{Label: "largest kernels", Text: cmp.Or(profileKernelText(row), "no kernels")},
	}}
}

// kernelWidth is the longest name of a kernel in the profile, in characters.
const kernelWidth = 24

func profileKernelText(row []any) string {
	var words []string
	shares := row[profileTopShares].([]float64)
	for i, n := range row[profileTop].([]string) {
		words = append(words, strings.ReplaceAll(figures.Cut(n, kernelWidth)+" "+table.Words(shares[i], table.Share), " ", table.Glue))
	}
	return strings.Join(words, ", ")
}
