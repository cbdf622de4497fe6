package stats

import (
	"fmt"

	"github.com/cudatrace/cudatrace/convert/internal/activity"
	"github.com/cudatrace/cudatrace/convert/internal/query"
	"github.com/cudatrace/cudatrace/convert/stats/internal/ranks"
	"github.com/cudatrace/cudatrace/convert/timeline"
)

// KernelCells is a row of kernels.
type KernelCells struct {
	Name string `key:"name" title:"kernel"` // demangled name, without parameters
	kernelTimes
	LaunchMedian *uint64 `key:"launch_median_ns"` // `call_median_ns` and `queue_median_ns` of `launches`
	QueueMedian  *uint64 `key:"queue_median_ns"`  // =
	kernelFacts
	// theoretical occupancy, weighted with time
	Occupancy *float64 `key:"occupancy" title:"occupancy" rank:"6" unit:"share"`

	first    uint64 // start of the first launch
	occupied meanOccupancy
	on       ranks.Users
}

// kernelTimes are columns that all reports of kernels have.
type kernelTimes struct {
	totals
	Share *float64 `key:"share" title:"share" rank:"2"` // part of the time of all GPU work
	spread

	timed // launches with times
}

// kernelFacts are likewise.
type kernelFacts struct {
	InGraphs  uint64 `key:"in_graphs"` // launched by CUDA graphs
	Untimed   uint64 `key:"untimed"`   // without times
	Signature string `key:"signature"` // the name with parameters

	mangled string
}

// countKernel counts a launch of a kernel.
func countKernel(times *kernelTimes, facts *kernelFacts, w *timeline.Work) {
	if w.Graph != 0 {
		facts.InGraphs++
	}
	if w.Untimed {
		facts.Untimed++
		return
	}
	times.time.Add(w.Dur)
}

// mergeKernel adds what another row of the same kernel counted.
func mergeKernel(times, later *kernelTimes, facts, more *kernelFacts) {
	times.merge(&later.timed)
	facts.InGraphs, facts.Untimed = facts.InGraphs+more.InGraphs, facts.Untimed+more.Untimed
}

// fillKernel sets the columns of a row and returns its name.
func (s *Sink) fillKernel(times *kernelTimes, facts *kernelFacts, total uint64) (name string) {
	times.totals, times.Share, times.spread = times.columns(total, facts.Untimed)
	facts.Signature = s.names.Of(facts.mangled).Full
	return s.kernelTitle(facts.mangled)
}

// kernelTitle is the name of a kernel for people.
func (s *Sink) kernelTitle(mangled string) string {
	if mangled == other {
		return other
	}
	return s.names.Of(mangled).Short
}

// onGPU is the time of all GPU work.
func onGPU(v *view) uint64 { return v.onGPU }

var kernelsReport = declare(grouped[string, KernelCells]{
	Report: Report{Name: "kernels", Title: "kernels by name", kernels: true, needs: gpuWork, whyEmpty: "no kernels"},
	things: kernels,
	others: other,
	row: func(mangled string) KernelCells {
		return KernelCells{kernelFacts: kernelFacts{mangled: mangled}, first: timeline.Never}
	},
	from: func(s *section, rows *query.Rows[string, KernelCells]) {
		s.work[timeline.KernelWork].By(func(shape *timeline.Shape) func(*piece) {
			r, occupancy := rows.Of(shape.Kernel.Name), occupancyOf(shape)
			return func(w *piece) {
				countKernel(&r.kernelTimes, &r.kernelFacts, w.Work)
				r.first = min(r.first, w.Start)
				r.on.AddKernel(w.on.rank, w.Work)
				occupancy.weigh(&r.occupied, w)
			}
		})
	},
	merge: func(r, later *KernelCells) {
		mergeKernel(&r.kernelTimes, &later.kernelTimes, &r.kernelFacts, &later.kernelFacts)
		r.first = min(r.first, later.first)
		r.on.Join(&later.on)
		r.occupied.join(&later.occupied)
	},
	of: onGPU,
	fill: func(s *view, r *KernelCells, total uint64) {
		r.Name, r.Occupancy = s.fillKernel(&r.kernelTimes, &r.kernelFacts, total), r.occupied.mean()
		if l := launchesReport.rowsOf(s).Find(r.mangled); l != nil {
			r.LaunchMedian, r.QueueMedian = median(&l.call), median(&l.queue)
		}
	},
})

// launchedKernels are the kernels with the processes that ran them, communication apart.
func (s *Sink) launchedKernels() (all []ranks.Kernel) {
	for _, r := range kernelsReport.rowsOf(s.view().whole).List {
		if r.mangled != other && activity.KernelClass(r.mangled) != activity.Communication {
			all = append(all, ranks.Kernel{
				Title: s.kernelTitle(r.mangled), Short: s.shortTitle(r.mangled), On: &r.on,
				Count: r.time.Count, Time: r.time.Total, First: r.first,
			})
		}
	}
	return all
}

// shapeCells is a row of kernel_shapes.
type shapeCells struct {
	Name        string `key:"name" title:"kernel"` // as in `kernels`
	Grid        string `key:"grid" title:"grid"`   // blocks, and threads in a block: `256x1x1`
	Block       string `key:"block" title:"block"` // =
	kernelTimes        // as in `kernels`
	kernelFacts        // as in `kernels`
	// as in `kernels`
	Occupancy *float64 `key:"occupancy" title:"occupancy" rank:"6" unit:"share"`

	occupied meanOccupancy
}

type shapeKey struct {
	mangled     string
	grid, block [3]uint32
}

var kernelShapesReport = declare(grouped[shapeKey, shapeCells]{
	Report: Report{
		Name: "kernel_shapes", Title: "kernels by name, grid and block", Detail: true, kernels: true,
		needs: gpuWork, whyEmpty: "no kernels",
	},
	things: kernels,
	others: shapeKey{mangled: other},
	row: func(k shapeKey) shapeCells {
		return shapeCells{Grid: dimensions(k.grid), Block: dimensions(k.block), kernelFacts: kernelFacts{mangled: k.mangled}}
	},
	from: func(s *section, rows *query.Rows[shapeKey, shapeCells]) {
		s.work[timeline.KernelWork].By(func(shape *timeline.Shape) func(*piece) {
			k, occupancy := &shape.Kernel, occupancyOf(shape)
			r := rows.Of(shapeKey{k.Name, k.Grid, k.Block})
			return func(w *piece) {
				countKernel(&r.kernelTimes, &r.kernelFacts, w.Work)
				occupancy.weigh(&r.occupied, w)
			}
		})
	},
	merge: func(r, later *shapeCells) {
		mergeKernel(&r.kernelTimes, &later.kernelTimes, &r.kernelFacts, &later.kernelFacts)
		r.occupied.join(&later.occupied)
	},
	of: onGPU,
	fill: func(s *view, r *shapeCells, total uint64) {
		r.Name, r.Occupancy = s.fillKernel(&r.kernelTimes, &r.kernelFacts, total), r.occupied.mean()
	},
})

// dimensions are those of a grid or a block, "" where they are not known.
func dimensions(d [3]uint32) string {
	if d == [3]uint32{} {
		return ""
	}
	return fmt.Sprintf("%dx%dx%d", d[0], d[1], d[2])
}

// kernelPythonCells is a row of kernel_python.
type kernelPythonCells struct {
	Name string `key:"name" title:"kernel"` // as in `kernels`
	// innermost [Python function](calls.md#python-lines) outside the interpreter and packages
	File        string `key:"file" title:"file" rank:"2"`
	Function    string `key:"function" title:"function"` // =
	kernelTimes        // as in `kernels`
	kernelFacts        // as in `kernels`
}

type kernelPythonKey struct{ mangled, file, function string }

var kernelPythonReport = declare(grouped[kernelPythonKey, kernelPythonCells]{
	Report: Report{
		Name: "kernel_python", Title: "kernels by name and Python function", Detail: true, kernels: true,
		needs: gpuWork, whyEmpty: "no launch has Python frames",
	},
	things: kernels,
	others: kernelPythonKey{mangled: other},
	row: func(k kernelPythonKey) kernelPythonCells {
		return kernelPythonCells{File: k.file, Function: k.function, kernelFacts: kernelFacts{mangled: k.mangled}}
	},
	from: func(s *section, rows *query.Rows[kernelPythonKey, kernelPythonCells]) {
		type launch struct {
			shape  *timeline.Shape
			python *timeline.Python
		}
		byLaunch := make(query.Cache[launch, *kernelPythonCells])
		s.work[timeline.KernelWork].By(func(shape *timeline.Shape) func(*piece) {
			return func(w *piece) {
				at := w.Call.Python
				if at == nil && !s.framed {
					return
				}
				if !s.framed {
					s.Sink.framed = true
					startFrames(s, rows)
				}
				r := byLaunch.Of(launch{shape, at}, func() *kernelPythonCells {
					k := kernelPythonKey{mangled: shape.Kernel.Name}
					if at != nil {
						own := at.Own()
						k.file, k.function = own.File, own.Function
					}
					return rows.Of(k)
				})
				countKernel(&r.kernelTimes, &r.kernelFacts, w.Work)
			}
		})
	},
	merge: func(r, later *kernelPythonCells) {
		mergeKernel(&r.kernelTimes, &later.kernelTimes, &r.kernelFacts, &later.kernelFacts)
	},
	ready: startFrames,
	of:    onGPU,
	fill: func(s *view, r *kernelPythonCells, total uint64) {
		r.Name = s.fillKernel(&r.kernelTimes, &r.kernelFacts, total)
	},
})

// startFrames gives kernels their rows without a frame once a launch in any section has one: no launch of this section
// so far, which kernels has counted, had one.
func startFrames(s *section, rows *query.Rows[kernelPythonKey, kernelPythonCells]) {
	if s.framed || !s.Sink.framed {
		return
	}
	s.framed = true
	for _, k := range kernelsReport.in(s).List {
		r := rows.Of(kernelPythonKey{mangled: k.mangled})
		r.time.Merge(&k.time)
		r.Untimed, r.InGraphs = k.Untimed, k.InGraphs
	}
}
