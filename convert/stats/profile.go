package stats

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/cudatrace/cudatrace/convert/internal/activity"
	"github.com/cudatrace/cudatrace/convert/internal/sketch"
	"github.com/cudatrace/cudatrace/convert/kernelnames"
	"github.com/cudatrace/cudatrace/convert/stats/table"
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/figures"
)

// transfers is the time of copies and sets: of all, of those that asynchronous calls or graphs launched, and of those
// of pageable memory, which no function copies asynchronously.
type transfers struct{ all, async, pageable uint64 }

func (t *transfers) countTransfer(w *piece) {
	if w.Untimed {
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

var profileReport = Report{
	Name: "profile", Title: "all GPUs together",
	needs: gpuWork, whyEmpty: "no GPU work",
	open: func(s *section) {
		s.work[timeline.MemcpyWork].Each(s.host.countTransfer)
		s.work[timeline.MemsetWork].Each(s.host.countTransfer)
	},
	table: func(s *Sink, f Facts) *table.Table { return s.profile(f) },
}

// ProfileCells is the row of profile.
type ProfileCells struct {
	Name          string   `key:"name" title:"GPUs"` // `all`, and the number of GPUs with work
	GPUs          int      `key:"gpus"`              // =
	BusyShare     *float64 `key:"busy_share"`        // as in `devices`
	Busy          *uint64  `key:"busy_ns"`           // as in `devices`
	Span          *uint64  `key:"span_ns"`           // as in `devices`
	Startup       *uint64  `key:"startup_ns"`        // time from the first work on that is left out
	Compute       *uint64  `key:"compute_ns"`        // as in `ranks`
	Copies        *uint64  `key:"copy_ns"`           // as in `ranks`
	Communication *uint64  `key:"communication_ns"`  // as in `ranks`
	// parts of the time of copies and sets: those that `Async` functions or graphs launched, without pageable memory; and
	// those of pageable memory, which is never copied asynchronously; `null` without any
	Async *float64 `key:"async_share"`
	// most device memory that all processes had allocated on one GPU at one time, the GPU and the moment
	Peak    *uint64 `key:"peak_bytes"`
	PeakGPU *uint32 `key:"peak_gpu" unit:"id"`       // =
	PeakAt  *uint64 `key:"peak_at_ns" unit:"moment"` // =
	// lists: the three kernels with most time, and their share of all GPU work
	Top       []string  `key:"top_kernels"`
	TopShares []float64 `key:"top_shares" unit:"text"` // =
	// mean theoretical occupancy of kernels, weighted with their time
	Occupancy *float64 `key:"occupancy" unit:"share"`
	Pageable  *float64 `key:"pageable_share"` // as `async_share`
}

// profile returns the report of the profile: one row of all GPUs together.
func (s *Sink) profile(f Facts) *table.Table {
	devices := s.busy.sorted()
	if len(devices) == 0 {
		return table.Of[ProfileCells](nil)
	}
	counted := s.counts(f.Startup)
	var occupied meanOccupancy
	for _, r := range kernelsReport.rowsOf(counted).List {
		occupied.join(&r.occupied)
	}
	x := ProfileCells{
		Name: "all", GPUs: len(devices), Top: []string{}, TopShares: []float64{}, Occupancy: occupied.mean(),
		Async: table.ShareOf(s.host.async, s.host.all), Pageable: table.ShareOf(s.host.pageable, s.host.all),
	}
	s.profileTimes(&x, devices, f.Startup)
	for gpu, g := range s.memory.gpus {
		if x.Peak == nil || g.peak > *x.Peak || g.peak == *x.Peak && gpu < *x.PeakGPU {
			x.Peak, x.PeakGPU, x.PeakAt = &g.peak, &gpu, new(s.memory.clock.since(g.peakAt))
		}
	}
	total := counted.onGPU
	timeOf := func(r *KernelCells) (string, uint64) { return s.kernelTitle(r.mangled), r.time.Total }
	for _, k := range largestKernels(kernelsReport.rowsOf(counted).List, timeOf) {
		if total > 0 {
			x.Top, x.TopShares = append(x.Top, k.name), append(x.TopShares, float64(k.ns)/float64(total))
		}
	}
	t := table.Of([]ProfileCells{x})
	t.Prose = func(row table.Row) table.Paragraph {
		return row.Of.(*ProfileCells).lines(&f, s.shortNames())
	}
	return t
}

// profileTimes sets the times of all devices together. They are not known if those of one are not.
func (s *Sink) profileTimes(x *ProfileCells, devices []*deviceRow, startup bool) {
	var all activity.Sum
	var span, left uint64
	for _, d := range devices {
		if d.Late > 0 || d.First == timeline.Never {
			return
		}
		during, from := s.during(d, d.Parts, startup)
		all, span, left = all.Plus(during), sketch.Sum(span, d.Last-from), sketch.Sum(left, from-d.First)
	}
	x.BusyShare, x.Busy, x.Span, x.Startup = table.ShareOf(all.Busy, span), &all.Busy, &span, &left
	x.Compute, x.Copies, x.Communication = &all.Compute, &all.Copies, &all.Communication
}

// lines are the lines that people read of the profile.
func (x *ProfileCells) lines(f *Facts, names *kernelnames.Names) table.Paragraph {
	busy, parts := "not known", "not known"
	duration := func(ns *uint64) string { return table.WordsOf(ns, table.Duration) }
	if x.Busy != nil {
		busy = fmt.Sprintf("%s: %s of %s", table.WordsOf(x.BusyShare, table.Share), duration(x.Busy), duration(x.Span))
		if *x.Startup > 0 {
			busy += " after the start-up"
		}
		parts = fmt.Sprintf("compute %s : copies %s : communication %s",
			duration(x.Compute), duration(x.Copies), duration(x.Communication))
	}
	if x.GPUs > 1 {
		busy += ", on " + figures.Count(x.GPUs, "GPU", "GPUs") + " together"
	}
	async := "no copies or sets"
	if x.Async != nil {
		async = table.Words(*x.Async, table.Share) + " of the time of copies and sets"
		if *x.Pageable > 0 {
			async += "; copies of pageable memory, which are not: " + table.Words(*x.Pageable, table.Share)
		}
	}
	peak := cmp.Or(f.Memory, "no allocation recorded")
	if x.Peak != nil {
		at := table.Words(*x.PeakAt, table.Moment)
		peak = fmt.Sprintf("%s on GPU %d at %s", table.Words(*x.Peak, table.Bytes), *x.PeakGPU, at)
	}
	occupied := "not known"
	if x.Occupancy != nil {
		occupied = table.Words(*x.Occupancy, table.Share) + " in theory, the mean over the time of kernels"
	}
	return table.Paragraph{Items: []table.Item{
		{Label: "GPU busy", Text: busy},
		{Label: "busy with", Text: parts},
		{Label: "asynchronous", Text: async},
		{Label: "peak memory", Text: peak},
		{Label: "occupancy", Text: occupied},
		{Label: "largest kernels", Text: cmp.Or(x.kernels(names), "no kernels")},
	}}
}

func (x *ProfileCells) kernels(names *kernelnames.Names) string {
	var words []string
	for i, n := range x.Top {
		text := cmp.Or(names.Known(n), n) + " " + table.Words(x.TopShares[i], table.Share)
		words = append(words, strings.ReplaceAll(text, " ", table.Glue))
	}
	return strings.Join(words, ", ")
}
