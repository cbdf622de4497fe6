package stats

import (
	"cmp"
	"fmt"

	"github.com/cudatrace/cudatrace/convert/internal/activity"
	"github.com/cudatrace/cudatrace/convert/internal/sketch"
	"github.com/cudatrace/cudatrace/convert/kernelnames"
	"github.com/cudatrace/cudatrace/convert/stats/internal/ranks"
	"github.com/cudatrace/cudatrace/convert/stats/table"
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/cudaapi"
)

// work is the reports of GPU work.
type work struct {
	names   timeline.KernelNames
	short   *kernelnames.Names          // of the first kernels
	shortOf int                         // how many they are
	kernels groups[string, kernelRow]   // by mangled name
	shapes  groups[shapeKey, kernelRow] // by mangled name, grid and block
	copies  groups[copyKey, memoryRow]
	sets    groups[copyKey, memoryRow]
	cache   map[*timeline.Shape]*kernelRows
	total   uint64 // ns of all work

	framed      bool // a launch had Python frames
	functions   groups[pythonKey, kernelRow]
	byFunctions map[shapeFunction]*kernelRow // a cache

	occupied meanOccupancy
}

type shapeKey struct {
	name        string
	grid, block [3]uint32
}

// A pythonKey is a kernel, by mangled name, and the Python function that launched it.
type pythonKey struct{ name, file, function string }

type shapeFunction struct {
	shape  *timeline.Shape
	python *timeline.Python
}

// A kernelRow has launches of one kernel.
type kernelRow struct {
	shapeKey
	python   pythonKey
	time     sketch.Ordered // of the launches with times
	untimed  uint64
	inGraphs uint64
	first    uint64 // start of the first launch
	occupied meanOccupancy
	launch   *launchRow
	on       ranks.Users // of a name; the processes that launched it
}

// A launchRow has the launches of a kernel whose call is known and made one kernel.
type launchRow struct {
	call, queue, kernel sketch.Distribution
	short               uint64 // launches that took longer than their kernel
	onDefault           uint64 // launches on a default stream
	underfilled         uint64 // launches with fewer blocks than the device has multiprocessors
	filled              uint64 // launches with as many
}

// kernelRows are the rows of a kernel's shape.
type kernelRows struct {
	byName, byShape *kernelRow
	class           activity.Class
	blocks          uint64
	occupancy       shapeOccupancy
}

// A copyKey is the direction of a copy, with the kinds of memory; of a set all are 0.
type copyKey struct {
	direction, source, destination string
	peer                           bool // between two GPUs
}

// A memoryRow has copies or sets.
type memoryRow struct {
	copyKey
	time    sketch.Ordered
	bytes   sketch.Distribution
	timed   uint64 // bytes of the copies with times
	untimed uint64
}

func newWork(names timeline.KernelNames) work {
	ofMemory := func(k copyKey) *memoryRow { return &memoryRow{copyKey: k} }
	return work{
		names: names,
		kernels: newGroups(other, func(name string) *kernelRow {
			return &kernelRow{shapeKey: shapeKey{name: name}, launch: new(launchRow), first: timeline.Never}
		}),
		shapes: newGroups(shapeKey{name: other}, func(k shapeKey) *kernelRow { return &kernelRow{shapeKey: k} }),
		copies: newGroups(copyKey{direction: other}, ofMemory),
		sets:   newGroups(copyKey{direction: other}, ofMemory),
		cache:  make(map[*timeline.Shape]*kernelRows),

		functions: newGroups(pythonKey{name: other}, func(k pythonKey) *kernelRow {
			return &kernelRow{shapeKey: shapeKey{name: k.name}, python: k}
		}),
		byFunctions: make(map[shapeFunction]*kernelRow),
	}
}

// countWork counts a piece of work of a stream and returns its class.
func (s *work) countWork(on *streamRow, w *timeline.Work) activity.Class {
	if !w.Untimed {
		s.total = sketch.Sum(s.total, w.Dur)
	}
	switch w.Kind {
	case timeline.KernelWork:
		return s.kernel(on, w)
	case timeline.MemcpyWork:
		m := &w.Shape.Memcpy
		direction, peer := cudaapi.MemcpyKindName(m.CopyKind), m.SrcDevice != m.DstDevice
		from, to := cudaapi.MemoryKindName(m.SrcKind), cudaapi.MemoryKindName(m.DstKind)
		s.copies.of(copyKey{direction, from, to, peer}).countTransfer(w, m.Bytes)
	case timeline.MemsetWork:
		s.sets.of(copyKey{}).countTransfer(w, w.Shape.Memset.Bytes)
	}
	return activity.ClassOf(w)
}

func (s *work) kernel(on *streamRow, w *timeline.Work) activity.Class {
	rows := s.rows(w.Shape)
	if w.Call.Python != nil && !s.framed {
		s.startFrames()
	}
	rows.byName.countKernel(w)
	rows.byName.first = min(rows.byName.first, w.Start)
	rows.byName.on.AddKernel(on.rank, w)
	if share, known := rows.occupancy.of(on.device, &w.Shape.Kernel); known && !w.Untimed {
		rows.byName.occupied.weigh(share, w.Dur)
		rows.byShape.occupied.weigh(share, w.Dur)
		s.occupied.weigh(share, w.Dur)
	}
	rows.byShape.countKernel(w)
	s.frame(w)
	if isLaunch(w) {
		rows.byName.launch.countLaunch(on, w, rows.blocks)
	}
	return rows.class
}

// rows are the rows of a kernel's shape.
func (s *work) rows(shape *timeline.Shape) *kernelRows {
	return cached(s.cache, shape, func() *kernelRows {
		k := &shape.Kernel
		byShape := s.shapes.of(shapeKey{k.Name, k.Grid, k.Block})
		class, blocks := activity.KernelClass(k.Name), activity.Blocks(k.Grid)
		return &kernelRows{s.kernels.of(k.Name), byShape, class, blocks, shapeOccupancy{}}
	})
}

// startFrames begins the rows of Python functions: the launches so far had no frames.
func (s *work) startFrames() {
	s.framed = true
	for _, r := range s.kernels.list {
		f := s.functions.of(pythonKey{name: r.name})
		f.time.Merge(&r.time)
		f.untimed, f.inGraphs = r.untimed, r.inGraphs
	}
}

// frame counts a kernel for the Python function that launched it. Without any frame in a timeline it does nothing.
func (s *work) frame(w *timeline.Work) {
	if !s.framed {
		return
	}
	cached(s.byFunctions, shapeFunction{w.Shape, w.Call.Python}, func() *kernelRow {
		key := pythonKey{name: w.Shape.Kernel.Name}
		if w.Call.Python != nil {
			own := w.Call.Python.Own()
			key.file, key.function = own.File, own.Function
		}
		return s.functions.of(key)
	}).countKernel(w)
}

// firstUse returns the start of the first launch of a kernel.
func (s *work) firstUse(shape *timeline.Shape) uint64 { return s.rows(shape).byName.first }

// isLaunch reports whether work is a kernel with times, whose call is known and launched no other.
func isLaunch(w *timeline.Work) bool {
	return w.Kind == timeline.KernelWork && w.Call.Function != nil && w.Graph == 0 && !w.Untimed
}

func (r *kernelRow) countKernel(w *timeline.Work) {
	if w.Graph != 0 {
		r.inGraphs++
	}
	if w.Untimed {
		r.untimed++
		return
	}
	r.time.Add(w.Dur)
}

// countLaunch counts a launch. A kernel that starts before its call returned was not queued.
func (r *launchRow) countLaunch(on *streamRow, w *timeline.Work, blocks uint64) {
	call := w.Call.End - min(w.Call.Start, w.Call.End)
	if w.Dur < call {
		r.short++
	}
	if on.Default {
		r.onDefault++
	}
	switch all := uint64(on.device.multiprocessors); {
	case all == 0:
	case blocks < all:
		r.underfilled++
	default:
		r.filled++
	}
	r.call.Add(call)
	r.queue.Add(w.Start - min(w.Start, w.Call.End))
	r.kernel.Add(w.Dur)
}

func (r *memoryRow) countTransfer(w *timeline.Work, bytes uint64) {
	r.bytes.Add(bytes)
	if w.Untimed {
		r.untimed++
		return
	}
	r.time.Add(w.Dur)
	r.timed = sketch.Sum(r.timed, bytes)
}

// title is the name of a kernel for people.
func (s *work) title(mangled string) string {
	if mangled == other {
		return other
	}
	return s.names.Of(mangled).Short
}

var kernelsReport = Report{
	Name: "kernels", Title: "kernels by name", kernels: true,
	needs: gpuWork, whyEmpty: "no kernels",
	table: func(s *Sink, _ Facts) *table.Table { return s.work.kernelTable() },
}

// KernelCells is a row of kernels.
type KernelCells struct {
	Name string `key:"name" title:"kernel"` // demangled name, without parameters
	kernelTimes
	LaunchMedian *uint64 `key:"launch_median_ns"` // `call_median_ns` and `queue_median_ns` of `launches`
	QueueMedian  *uint64 `key:"queue_median_ns"`  // =
	kernelFacts
	// theoretical occupancy, weighted with time
	Occupancy *float64 `key:"occupancy" title:"occupancy" rank:"6" unit:"share"`
}

// kernelTimes are columns that all reports of kernels have.
type kernelTimes struct {
	totals
	Share *float64 `key:"share" title:"share" rank:"2"` // part of the time of all GPU work
	spread
}

// kernelFacts are likewise.
type kernelFacts struct {
	InGraphs  uint64 `key:"in_graphs"` // launched by CUDA graphs
	Untimed   uint64 `key:"untimed"`   // without times
	Signature string `key:"signature"` // the name with parameters
}

func (s *work) timesOf(r *kernelRow) kernelTimes {
	sums := totals{r.time.Count + r.untimed, r.time.Total}
	return kernelTimes{sums, table.ShareOf(r.time.Total, s.total), spreadOf(&r.time)}
}

func (s *work) factsOf(r *kernelRow) kernelFacts {
	return kernelFacts{r.inGraphs, r.untimed, s.names.Of(r.name).Full}
}

// kernelTable returns the report of kernels by name.
func (s *work) kernelTable() *table.Table {
	var rows []KernelCells
	for _, r := range s.kernels.list {
		rows = append(rows, KernelCells{
			s.title(r.name), s.timesOf(r), median(&r.launch.call), median(&r.launch.queue), s.factsOf(r), r.occupied.mean(),
		})
	}
	t := table.Of(rows)
	t.Sort("total_ns")
	return t
}

var kernelShapesReport = Report{
	Name: "kernel_shapes", Title: "kernels by name, grid and block", Detail: true, kernels: true,
	needs: gpuWork, whyEmpty: "no kernels",
	table: func(s *Sink, _ Facts) *table.Table { return s.work.shapeTable() },
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
}

// shapeTable returns the report of kernels by name, grid and block.
func (s *work) shapeTable() *table.Table {
	var rows []shapeCells
	for _, r := range s.shapes.list {
		rows = append(rows, shapeCells{
			s.title(r.name), dimensions(r.grid), dimensions(r.block), s.timesOf(r), s.factsOf(r), r.occupied.mean(),
		})
	}
	t := table.Of(rows)
	t.Sort("total_ns")
	return t
}

var kernelPythonReport = Report{
	Name: "kernel_python", Title: "kernels by name and Python function", Detail: true, kernels: true,
	needs: gpuWork, whyEmpty: "no launch has Python frames",
	table: func(s *Sink, _ Facts) *table.Table { return s.work.functionTable() },
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

// functionTable returns the report of kernels by name and Python function.
func (s *work) functionTable() *table.Table {
	var rows []kernelPythonCells
	for _, r := range s.functions.list {
		rows = append(rows, kernelPythonCells{s.title(r.name), r.python.file, r.python.function, s.timesOf(r), s.factsOf(r)})
	}
	t := table.Of(rows)
	t.Sort("total_ns")
	return t
}

// dimensions are those of a grid or a block, "" where they are not known.
func dimensions(d [3]uint32) string {
	if d == [3]uint32{} {
		return ""
	}
	return fmt.Sprintf("%dx%dx%d", d[0], d[1], d[2])
}

var launchesReport = Report{
	Name: "launches", Title: "time of a launch in its call, in the queue, and of the kernel", kernels: true,
	needs: gpuWork, whyEmpty: "no kernels whose call is known",
	table: func(s *Sink, _ Facts) *table.Table { return s.work.launchTable() },
}

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

	signature string
}

// launchTable returns the report of launches: the time of the call, in the queue, and of the
// kernel.
func (s *work) launchTable() *table.Table {
	var rows []launchCells
	for _, r := range s.kernels.list {
		l := r.launch
		c, q, k := &l.call, &l.queue, &l.kernel
		if c.Count == 0 {
			continue
		}
		rows = append(rows, launchCells{
			Name: s.title(r.name), Count: c.Count, Total: sketch.Sum(sketch.Sum(c.Total, q.Total), k.Total),
			CallMedian: median(c), CallTotal: c.Total, CallMean: c.Mean(), CallP95: c.Percentile(95), CallMax: c.Max,
			QueueMedian: median(q), QueueTotal: q.Total, QueueMean: q.Mean(), QueueP95: q.Percentile(95), QueueMax: q.Max,
			KernelMedian: median(k), KernelTotal: k.Total, KernelMean: k.Mean(), KernelP95: k.Percentile(95), KernelMax: k.Max,
			Short: l.short, Underfilled: l.fewBlocks(), OnDefault: l.onDefault,
			signature: cmp.Or(s.names.Of(r.name).Full, s.title(r.name)),
		})
	}
	t := table.Of(rows)
	t.Sort("total_ns")
	return t
}

// fewBlocks is the number of launches that cannot fill their device, null if nothing is known of
// any device.
func (r *launchRow) fewBlocks() *uint64 {
	if r.underfilled+r.filled == 0 {
		return nil
	}
	return &r.underfilled
}

// transferCells are the columns of copies and sets behind their names.
type transferCells struct {
	totals          // as in `kernels`
	Share  *float64 `key:"share" title:"share" rank:"2"` // as in `kernels`
	Bytes  uint64   `key:"bytes" title:"bytes" rank:"2"` // bytes copied
	// GB (10<sup>9</sup> bytes) a second, of the copies with times
	Rate        *float64 `key:"gbps" title:"GB/s" rank:"2" unit:"rate"`
	spread               // as in `kernels`
	MinBytes    uint64   `key:"min_bytes"`                          // sizes of the copies
	MedianBytes uint64   `key:"median_bytes" title:"size" rank:"8"` // =
	MeanBytes   float64  `key:"mean_bytes"`                         // =
	MaxBytes    uint64   `key:"max_bytes"`                          // =
	Untimed     uint64   `key:"untimed"`                            // as in `kernels`
}

func (s *work) transferOf(r *memoryRow) transferCells {
	var rate *float64
	if r.time.Total > 0 {
		rate = new(float64(r.timed) / float64(r.time.Total)) // bytes per ns are GB per s
	}
	b := &r.bytes
	return transferCells{totals{b.Count, r.time.Total}, table.ShareOf(r.time.Total, s.total), b.Total, rate,
		spreadOf(&r.time), b.Min, b.Percentile(50), b.Mean(), b.Max, r.untimed}
}

var copiesReport = Report{
	Name: "copies", Title: "copies by direction and kind of memory",
	needs: gpuWork, whyEmpty: "no copies",
	table: func(s *Sink, _ Facts) *table.Table { return s.work.copyTable() },
}

// copyCells is a row of copies.
type copyCells struct {
	Name string `key:"name" title:"direction"`
	// kinds of memory: `Pageable`, `Pinned`, `Device`, `Array`, `Managed`, `DeviceStatic`, `ManagedStatic`, `unknown`
	From string `key:"from" title:"from"`
	To   string `key:"to" title:"to"` // =
	Peer bool   `key:"peer"`          // whether the copy is between two GPUs
	transferCells
}

func (s *work) copyTable() *table.Table {
	var rows []copyCells
	for _, r := range s.copies.list {
		rows = append(rows, copyCells{r.direction, r.source, r.destination, r.peer, s.transferOf(r)})
	}
	t := table.Of(rows)
	t.Sort("total_ns")
	return t
}

var setsReport = Report{
	Name: "sets", Title: "memory sets",
	needs: gpuWork, whyEmpty: "no memory sets",
	table: func(s *Sink, _ Facts) *table.Table { return s.work.setTable() },
}

// setCells is a row of sets.
type setCells struct {
	Name          string `key:"name" title:"operation"`
	transferCells        // as in `copies`
}

func (s *work) setTable() *table.Table {
	var rows []setCells
	for _, r := range s.sets.list {
		rows = append(rows, setCells{cmp.Or(r.direction, "Memset"), s.transferOf(r)})
	}
	return table.Of(rows)
}

// launched are the kernels with the processes that ran them, communication apart.
func (s *work) launched() (all []ranks.Kernel) {
	for _, r := range s.kernels.list {
		if r.name != other && activity.KernelClass(r.name) != activity.Communication {
			all = append(all, ranks.Kernel{
				Title: s.title(r.name), Short: s.shortTitle(r.name), On: &r.on,
				Count: r.time.Count, Time: r.time.Total, First: r.first,
			})
		}
	}
	return all
}
