package stats

import (
	"github.com/cudatrace/cudatrace/convert/internal/activity"
	"github.com/cudatrace/cudatrace/convert/internal/query"
	"github.com/cudatrace/cudatrace/convert/internal/sketch"
	"github.com/cudatrace/cudatrace/convert/timeline"
)

// launchCells is a row of launches.
type launchCells struct {
	Name  string `key:"name" title:"kernel"`
	Count uint64 `key:"count" title:"count" rank:"1"`
	Total uint64 `key:"total_ns" title:"total" rank:"1"` // sum of all three times

	CallMedian *uint64 `key:"call_median_ns" title:"call" rank:"2"` // time of the call
	// from the return of the call to the start of the kernel; 0 where it started earlier
	QueueMedian  *uint64 `key:"queue_median_ns" title:"queue" rank:"2"`
	KernelMedian *uint64 `key:"kernel_median_ns" title:"kernel" rank:"2"` // time of the kernel
	CallTotal    uint64  `key:"call_total_ns"`                            // as `call_median_ns`
	QueueTotal   uint64  `key:"queue_total_ns"`                           // as `queue_median_ns`
	KernelTotal  uint64  `key:"kernel_total_ns"`                          // as `kernel_median_ns`
	CallMean     float64 `key:"call_mean_ns"`                             // as `call_median_ns`
	QueueMean    float64 `key:"queue_mean_ns"`                            // as `queue_median_ns`
	KernelMean   float64 `key:"kernel_mean_ns"`                           // as `kernel_median_ns`
	CallP95      uint64  `key:"call_p95_ns"`                              // as `call_median_ns`
	QueueP95     uint64  `key:"queue_p95_ns" title:"queue p95" rank:"3"`  // as `queue_median_ns`
	KernelP95    uint64  `key:"kernel_p95_ns"`                            // as `kernel_median_ns`
	CallMax      uint64  `key:"call_max_ns"`                              // as `call_median_ns`
	QueueMax     uint64  `key:"queue_max_ns" title:"queue max" rank:"4"`  // as `queue_median_ns`
	KernelMax    uint64  `key:"kernel_max_ns"`                            // as `kernel_median_ns`

	Short uint64 `key:"short" title:"short" rank:"5"` // calls that took longer than the kernel
	// launches with fewer blocks than the GPU has multiprocessors
	Underfilled *uint64 `key:"underfilled" title:"few blocks" rank:"5"`
	// launches on the default stream of their context
	OnDefault uint64 `key:"default_stream" title:"default stream" rank:"6"`

	mangled             string
	call, queue, kernel sketch.Distribution
	few, enough         uint64 // launches of a number of blocks that is known to be so
}

// isLaunch reports whether work is a kernel with times, whose call is known and launched no other.
func isLaunch(w *timeline.Work) bool {
	return w.Kind == timeline.KernelWork && w.Call.Function != nil && w.Graph == 0 && !w.Untimed
}

// A kernel that starts before its call returned was not queued.
var launchesReport = declare(grouped[string, launchCells]{
	Report: Report{
		Name: "launches", Title: "time of a launch in its call, in the queue, and of the kernel", kernels: true,
		needs: gpuWork, whyEmpty: "no kernels whose call is known",
	},
	things: [2]string{"launch", "launches"},
	others: other,
	row:    func(mangled string) launchCells { return launchCells{mangled: mangled} },
	from: func(s *section, rows *query.Rows[string, launchCells]) {
		s.work[timeline.KernelWork].By(func(shape *timeline.Shape) func(*piece) {
			var r *launchCells
			blocks := activity.Blocks(shape.Kernel.Grid)
			return func(w *piece) {
				if !isLaunch(w.Work) {
					return
				}
				if r == nil {
					r = rows.Of(shape.Kernel.Name)
				}
				call := w.Call.End - min(w.Call.Start, w.Call.End)
				if w.Dur < call {
					r.Short++
				}
				if w.on.Default {
					r.OnDefault++
				}
				switch all := uint64(w.on.device.multiprocessors); {
				case all == 0:
				case blocks < all:
					r.few++
				default:
					r.enough++
				}
				r.call.Add(call)
				r.queue.Add(w.Start - min(w.Start, w.Call.End))
				r.kernel.Add(w.Dur)
			}
		})
	},
	merge: func(r, later *launchCells) {
		r.call.Merge(&later.call)
		r.queue.Merge(&later.queue)
		r.kernel.Merge(&later.kernel)
		r.Short, r.OnDefault = r.Short+later.Short, r.OnDefault+later.OnDefault
		r.few, r.enough = r.few+later.few, r.enough+later.enough
	},
	fill: func(s *view, r *launchCells, _ uint64) {
		c, q, k := &r.call, &r.queue, &r.kernel
		r.Name, r.Count, r.Total = s.kernelTitle(r.mangled), c.Count, sketch.Sum(sketch.Sum(c.Total, q.Total), k.Total)
		r.CallMedian, r.CallTotal, r.CallMean, r.CallP95, r.CallMax = summary(c)
		r.QueueMedian, r.QueueTotal, r.QueueMean, r.QueueP95, r.QueueMax = summary(q)
		r.KernelMedian, r.KernelTotal, r.KernelMean, r.KernelP95, r.KernelMax = summary(k)
		if r.few+r.enough > 0 {
			r.Underfilled = &r.few
		}
	},
})

func summary(d *sketch.Distribution) (median *uint64, total uint64, mean float64, p95, most uint64) {
	return new(d.Percentile(50)), d.Total, d.Mean(), d.Percentile(95), d.Max
}
