package stats

import (
	"fmt"

	"github.com/cudatrace/cudatrace/convert/internal/sketch"
	"github.com/cudatrace/cudatrace/convert/stats/table"
	"github.com/cudatrace/cudatrace/convert/timeline"
)

// rate is the report of launches over time. All intervals have one length, which doubles when the
// launches take up more time than there are intervals.
type rate struct {
	clock     *clock
	length    uint64 // ns
	intervals [rateIntervals]interval
}

const (
	rateIntervals = 64
	leastInterval = 1e6 // ns
)

// An interval has the launches whose calls began in it.
type interval struct{ launches, short, call, kernel uint64 }

func newRate(c *clock) rate { return rate{clock: c, length: leastInterval} }

// countLaunch counts a launch: a kernel whose call is known and launched no other.
func (r *rate) countLaunch(w *timeline.Work) {
	at := r.clock.since(w.Call.Start)
	for at/r.length >= rateIntervals {
		r.double()
	}
	i, call := &r.intervals[at/r.length], w.Call.End-min(w.Call.Start, w.Call.End)
	i.launches++
	i.call, i.kernel = sketch.Sum(i.call, call), sketch.Sum(i.kernel, w.Dur)
	if w.Dur < call {
		i.short++
	}
}

// double joins each two intervals.
func (r *rate) double() {
	for k := range r.intervals {
		var sum interval
		if 2*k < rateIntervals {
			a, b := &r.intervals[2*k], &r.intervals[2*k+1]
			sum = interval{
				a.launches + b.launches, a.short + b.short, sketch.Sum(a.call, b.call), sketch.Sum(a.kernel, b.kernel),
			}
		}
		r.intervals[k] = sum
	}
	r.length *= 2
}

var launchRateReport = Report{
	Name: "launch_rate", Title: "launches over time", Detail: true,
	needs: gpuWork, whyEmpty: "no kernels whose call is known",
	open: func(s *section) {
		s.work[timeline.KernelWork].Each(func(w *piece) {
			if isLaunch(w.Work) {
				s.rate.countLaunch(w.Work)
			}
		})
	},
	table: func(s *Sink, _ Facts) *table.Table { return s.rate.table() },
}

// rateCells is a row of launch_rate.
type rateCells struct {
	Name      string `key:"name" title:"from"`                        // beginning of the interval, and its length
	At        uint64 `key:"at_ns" unit:"moment"`                      // =
	Span      uint64 `key:"span_ns" title:"length" rank:"2"`          // =
	Count     uint64 `key:"count" title:"launches" rank:"1"`          // launches, and launches a second
	PerSecond uint64 `key:"per_s" title:"a second" rank:"1"`          // =
	Short     uint64 `key:"short" title:"short" rank:"3"`             // as in `launches`
	Calls     uint64 `key:"call_total_ns" title:"in calls" rank:"2"`  // time of the calls and of the kernels
	Kernels   uint64 `key:"kernel_total_ns" title:"kernels" rank:"2"` // =
}

// table returns the report, from the first interval with launches to the last.
func (r *rate) table() *table.Table {
	first, last := -1, -1
	for k := range r.intervals {
		if r.intervals[k].launches > 0 {
			if last = k; first < 0 {
				first = k
			}
		}
	}
	var rows []rateCells
	for k := max(first, 0); k <= last; k++ {
		i, at := &r.intervals[k], uint64(k)*r.length
		rows = append(rows, rateCells{
			Name: fmt.Sprintf("%.3f s", float64(at)/1e9), At: at, Span: r.length, Count: i.launches,
			PerSecond: uint64(float64(i.launches)/float64(r.length)*1e9 + 0.5), Short: i.short, Calls: i.call, Kernels: i.kernel,
		})
	}
	return table.Of(rows)
}
