package stats

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/cudatrace/cudatrace/convert/activity"
	"github.com/cudatrace/cudatrace/convert/stats/ranks"
	"github.com/cudatrace/cudatrace/convert/stats/sketch"
	"github.com/cudatrace/cudatrace/convert/stats/table"
	"github.com/cudatrace/cudatrace/convert/timeline"
	"github.com/cudatrace/cudatrace/record/cudaapi"
)

// work is the reports of GPU work.
type work struct {
	names   timeline.KernelNames
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

		functions:   newGroups(pythonKey{name: other}, func(k pythonKey) *kernelRow { return &kernelRow{shapeKey: shapeKey{name: k.name}, python: k} }),
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
		s.copies.of(copyKey{cudaapi.MemcpyKindName(m.CopyKind), cudaapi.MemoryKindName(m.SrcKind), cudaapi.MemoryKindName(m.DstKind),
			m.SrcDevice != m.DstDevice}).countTransfer(w, m.Bytes)
	case timeline.MemsetWork:
		s.sets.of(copyKey{}).countTransfer(w, w.Shape.Memset.Bytes)
	}
	return activity.ClassOfWork(s.names, w)
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
		return &kernelRows{s.kernels.of(k.Name), s.shapes.of(shapeKey{k.Name, k.Grid, k.Block}), activity.ClassOf(s.names, k.Name), activity.Blocks(k.Grid), shapeOccupancy{}}
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
	Name: "kernels", Title: "kernels by name",
	needs: gpuWork, whyEmpty: "no kernels",
	table: func(s *Sink, _ Facts) *table.Table { return s.work.kernelTable() },
	Keys: []Key{
		{"name", "demangled name, without parameters"},
		{"count, total_ns", ""},
		{"share", "part of the time of all GPU work"},
		{"min_ns, median_ns, mean_ns, p95_ns, p99_ns, max_ns, stddev_ns, median_low_ns, median_high_ns", ""},
		{"launch_median_ns, queue_median_ns", "`call_median_ns` and `queue_median_ns` of `launches`"},
		{"in_graphs", "launched by CUDA graphs"},
		{"untimed", "without times"},
		{"signature", "the name with parameters"},
		{"occupancy", "theoretical occupancy, weighted with time"},
	},
}

// kernelTable returns the report of kernels by name.
func (s *work) kernelTable() *table.Table {
	t := new(table.Table)
	t.Columns = slices.Concat([]table.Column{name("kernel")}, totals(), spread(), []table.Column{
		duration("launch_median_ns", "", 0), duration("queue_median_ns", "", 0),
		count("in_graphs", "", 0), count("untimed", "", 0), column("signature", "", table.Text, 0), column("occupancy", "occupancy", table.Share, 6),
	})
	for _, r := range s.kernels.list {
		t.Rows = append(t.Rows, slices.Concat([]any{s.title(r.name)}, r.cells(s.total), []any{
			median(&r.launch.call), median(&r.launch.queue), r.inGraphs, r.untimed, text(s.names.Of(r.name).Full), r.occupied.cell()}))
	}
	t.Sort("total_ns")
	return t
}

var kernelShapesReport = Report{
	Name: "kernel_shapes", Title: "kernels by name, grid and block", Detail: true,
	needs: gpuWork, whyEmpty: "no kernels",
	table: func(s *Sink, _ Facts) *table.Table { return s.work.shapeTable() },
	Keys: []Key{
		{"name", "as in `kernels`"},
		{"grid, block", "blocks, and threads in a block: `256x1x1`"},
		{"count, total_ns, share, min_ns, median_ns, mean_ns, p95_ns, p99_ns, max_ns, stddev_ns, median_low_ns, median_high_ns, in_graphs, untimed, signature, occupancy", "as in `kernels`"},
	},
}

// shapeTable returns the report of kernels by name, grid and block.
func (s *work) shapeTable() *table.Table {
	t := new(table.Table)
	t.Columns = slices.Concat([]table.Column{name("kernel"), column("grid", "grid", table.Text, 0), column("block", "block", table.Text, 0)},
		totals(), spread(), []table.Column{count("in_graphs", "", 0), count("untimed", "", 0), column("signature", "", table.Text, 0),
			column("occupancy", "occupancy", table.Share, 6)})
	for _, r := range s.shapes.list {
		t.Rows = append(t.Rows, slices.Concat([]any{s.title(r.name), dimensions(r.grid), dimensions(r.block)}, r.cells(s.total),
			[]any{r.inGraphs, r.untimed, text(s.names.Of(r.name).Full), r.occupied.cell()}))
	}
	t.Sort("total_ns")
	return t
}

var kernelPythonReport = Report{
	Name: "kernel_python", Title: "kernels by name and Python function", Detail: true,
	needs: gpuWork, whyEmpty: "no launch has Python frames",
	table: func(s *Sink, _ Facts) *table.Table { return s.work.functionTable() },
	Keys: []Key{
		{"name", "as in `kernels`"},
		{"file, function", "innermost [Python function](calls.md#python-lines) outside the interpreter and packages"},
		{"count, total_ns, share, min_ns, median_ns, mean_ns, p95_ns, p99_ns, max_ns, stddev_ns, median_low_ns, median_high_ns, in_graphs, untimed, signature", "as in `kernels`"},
	},
}

// functionTable returns the report of kernels by name and Python function.
func (s *work) functionTable() *table.Table {
	t := new(table.Table)
	t.Columns = slices.Concat([]table.Column{name("kernel"), column("file", "file", table.Text, 2), column("function", "function", table.Text, 0)},
		totals(), spread(), []table.Column{count("in_graphs", "", 0), count("untimed", "", 0), column("signature", "", table.Text, 0)})
	for _, r := range s.functions.list {
		t.Rows = append(t.Rows, slices.Concat([]any{s.title(r.name), text(r.python.file), text(r.python.function)}, r.cells(s.total),
			[]any{r.inGraphs, r.untimed, text(s.names.Of(r.name).Full)}))
	}
	t.Sort("total_ns")
	return t
}

// cells are the cells of totals and spread.
func (r *kernelRow) cells(total uint64) []any {
	return append([]any{r.time.Count + r.untimed, r.time.Total, table.ShareOf(r.time.Total, total)}, spreadOf(&r.time)...)
}

func dimensions(d [3]uint32) any {
	if d == [3]uint32{} {
		return nil
	}
	return fmt.Sprintf("%dx%dx%d", d[0], d[1], d[2])
}

var launchesReport = Report{
	Name: "launches", Title: "time of a launch in its call, in the queue, and of the kernel",
	needs: gpuWork, whyEmpty: "no kernels whose call is known",
	table: func(s *Sink, _ Facts) *table.Table { return s.work.launchTable() },
	Keys: []Key{
		{"name", ""},
		{"count", ""},
		{"total_ns", "sum of all three times"},
		{"call_median_ns, call_total_ns, call_mean_ns, call_p95_ns, call_max_ns", "time of the call"},
		{"queue_median_ns, queue_total_ns, queue_mean_ns, queue_p95_ns, queue_max_ns", "from the return of the call to the start of the kernel; 0 where it started earlier"},
		{"kernel_median_ns, kernel_total_ns, kernel_mean_ns, kernel_p95_ns, kernel_max_ns", "time of the kernel"},
		{"short", "calls that took longer than the kernel"},
		{"underfilled", "launches with fewer blocks than the GPU has multiprocessors"},
		{"default_stream", "launches on the default stream of their context"},
	},
}

// launchTable returns the report of launches: the time of the call, in the queue, and of the
// kernel.
func (s *work) launchTable() *table.Table {
	t := &table.Table{Columns: []table.Column{
		name("kernel"), count("count", "count", 1), duration("total_ns", "total", 1),
		duration("call_median_ns", "call", 2), duration("queue_median_ns", "queue", 2), duration("kernel_median_ns", "kernel", 2),
		duration("call_total_ns", "", 0), duration("queue_total_ns", "", 0), duration("kernel_total_ns", "", 0),
		duration("call_mean_ns", "", 0), duration("queue_mean_ns", "", 0), duration("kernel_mean_ns", "", 0),
		duration("call_p95_ns", "", 0), duration("queue_p95_ns", "queue p95", 3), duration("kernel_p95_ns", "", 0),
		duration("call_max_ns", "", 0), duration("queue_max_ns", "queue max", 4), duration("kernel_max_ns", "", 0),
		count("short", "short", 5), count("underfilled", "few blocks", 5), count("default_stream", "default stream", 6),
	}}
	for _, r := range s.kernels.list {
		l := r.launch
		c, q, k := &l.call, &l.queue, &l.kernel
		if c.Count == 0 {
			continue
		}
		t.Rows = append(t.Rows, []any{s.title(r.name), c.Count, sketch.Sum(sketch.Sum(c.Total, q.Total), k.Total),
			median(c), median(q), median(k), c.Total, q.Total, k.Total, mean(c), mean(q), mean(k),
			c.Percentile(95), q.Percentile(95), k.Percentile(95), c.Max, q.Max, k.Max, l.short, l.fewBlocks(), l.onDefault})
	}
	t.Sort("total_ns")
	return t
}

// fewBlocks is the number of launches that cannot fill their device, nil if nothing is known of
// any device.
func (r *launchRow) fewBlocks() any {
	if r.underfilled+r.filled == 0 {
		return nil
	}
	return r.underfilled
}

// memoryColumns are the columns of copies and sets behind their names.
func memoryColumns() []table.Column {
	return slices.Concat(totals(), []table.Column{
		column("bytes", "bytes", table.Bytes, 2), column("gbps", "GB/s", table.Rate, 2)}, spread(), []table.Column{
		column("min_bytes", "", table.Bytes, 0), column("median_bytes", "size", table.Bytes, 8), column("mean_bytes", "", table.Bytes, 0),
		column("max_bytes", "", table.Bytes, 0), count("untimed", "", 0)})
}

func (r *memoryRow) cells(total uint64) []any {
	var rate any
	if r.time.Total > 0 {
		rate = float64(r.timed) / float64(r.time.Total) // bytes per ns are GB per s
	}
	b := &r.bytes
	return slices.Concat([]any{b.Count, r.time.Total, table.ShareOf(r.time.Total, total), b.Total, rate}, spreadOf(&r.time),
		[]any{b.Min, b.Percentile(50), b.Mean(), b.Max, r.untimed})
}

var copiesReport = Report{
	Name: "copies", Title: "copies by direction and kind of memory",
	needs: gpuWork, whyEmpty: "no copies",
	table: func(s *Sink, _ Facts) *table.Table { return s.work.copyTable() },
	Keys: []Key{
		{"name", ""},
		{"from, to", "kinds of memory: `Pageable`, `Pinned`, `Device`, `Array`, `Managed`, `DeviceStatic`, `ManagedStatic`, `unknown`"},
		{"peer", "whether the copy is between two GPUs"},
		{"count, total_ns, share, min_ns, median_ns, mean_ns, p95_ns, p99_ns, max_ns, stddev_ns, median_low_ns, median_high_ns, untimed", "as in `kernels`"},
		{"bytes", "bytes copied"},
		{"gbps", "GB (10<sup>9</sup> bytes) a second, of the copies with times"},
		{"min_bytes, median_bytes, mean_bytes, max_bytes", "sizes of the copies"},
	},
}

func (s *work) copyTable() *table.Table {
	t := new(table.Table)
	t.Columns = slices.Concat([]table.Column{name("direction"), column("from", "from", table.Text, 0), column("to", "to", table.Text, 0),
		column("peer", "", table.Flag, 0)}, memoryColumns())
	for _, r := range s.copies.list {
		t.Rows = append(t.Rows, append([]any{r.direction, text(r.source), text(r.destination), r.peer}, r.cells(s.total)...))
	}
	t.Sort("total_ns")
	return t
}

var setsReport = Report{
	Name: "sets", Title: "memory sets",
	needs: gpuWork, whyEmpty: "no memory sets",
	table: func(s *Sink, _ Facts) *table.Table { return s.work.setTable() },
	Keys: []Key{
		{"name", ""},
		{"count, total_ns, share, bytes, gbps, min_ns, median_ns, mean_ns, p95_ns, p99_ns, max_ns, stddev_ns, median_low_ns, median_high_ns, min_bytes, median_bytes, mean_bytes, max_bytes, untimed", "as in `copies`"},
	},
}

func (s *work) setTable() *table.Table {
	t := new(table.Table)
	t.Columns = append([]table.Column{name("operation")}, memoryColumns()...)
	for _, r := range s.sets.list {
		t.Rows = append(t.Rows, append([]any{cmp.Or(r.direction, "Memset")}, r.cells(s.total)...))
	}
	return t
}

// launched are the kernels with the processes that ran them, communication apart.
func (s *work) launched() (all []ranks.Kernel) {
	for _, r := range s.kernels.list {
		if r.name != other && activity.ClassOf(s.names, r.name) != activity.Communication {
			all = append(all, ranks.Kernel{Title: s.title(r.name), On: &r.on, Count: r.time.Count, Time: r.time.Total, First: r.first})
		}
	}
	return all
}
