package record

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cudatrace/cudatrace/record/armed"
	"github.com/cudatrace/cudatrace/record/cudaapi"
	"github.com/cudatrace/cudatrace/record/cupti"
	"github.com/cudatrace/cudatrace/record/cupti/libcupti"
	"github.com/cudatrace/cudatrace/record/figures"
	"github.com/cudatrace/cudatrace/record/invoker"
	"github.com/cudatrace/cudatrace/record/pcie"
	"github.com/cudatrace/cudatrace/record/procfs"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// An injection is the recorder's side of the library that the driver loads into each process that
// uses CUDA. The library tells it of the process and sends it GPU work.
type injection struct {
	opts    Options
	report  *report
	tracees *tracees
	calls   *calls
	metrics *metrics
	chosen                  // which processes are recorded
	opened  <-chan struct{} // closed when calls can be probed
	used    func()          // is called when a process uses CUDA, and does nothing after the first time
	server  *cupti.Server   // nil if the library cannot be injected
	called  []*armed.Call   // armed processes, when attached to running ones
	why     string          // it cannot be
	unseen  *unseen         // nil without server
	crowded sync.Once       // it was said that too many processes start at once
	paused  atomic.Bool     // set until the delay is over, and at the end
}

// open opens the socket of the injected library. Without it nothing is recorded.
func (i *injection) open(owner *invoker.Invoker) {
	if other := cupti.Conflict(os.Environ()); other != "" {
		i.unable(other + " is set: another tool (nsys, ncu, compute-sanitizer) is recording already; run without it, or unset the variable")
		return
	}
	o := cupti.Options{Sink: records{i.report.log, i}, Within: cupti.NVTXRange(i.opts.CaptureNVTX)}
	if owner != nil {
		o.Owner = &cupti.Owner{UID: int(owner.UID), GID: int(owner.GID)}
	}
	s, err := cupti.Listen(o)
	if err != nil {
		i.unable(err.Error())
		return
	}
	i.server = s
	i.unseen = newUnseen(s.Environ(nil)[0], owner)
	go s.Serve(i)
}

// unable says why the library cannot be injected.
func (i *injection) unable(why string) {
	i.why = why
	i.report.miss(0, "nothing is recorded: "+why)
}

// watch looks for processes of the program's that use CUDA and run unrecorded. end ends it.
func (i *injection) watch(program int) (end func()) {
	if i.unseen == nil {
		return func() {}
	}
	i.unseen.looked = time.Now()
	over, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		i.unseen.watch(over, func() { i.look(program) })
	}()
	return func() {
		close(over)
		<-ended
		i.look(program)
		if i.unseen.doubt {
			i.report.note(0, tracelog.NoteWarning, i.unseen.watched())
		}
	}
}

func (i *injection) look(program int) {
	live := i.tracees.live()
	i.unseen.look(program, func(pid uint32) met {
		switch {
		case slices.Contains(live, pid), i.server.Has(pid), i.leaves(pid):
			return running
		case i.tracees.has(pid):
			return formerly
		}
		return stranger
	}, i.report.miss)
}

// whyNothing says why nothing was recorded of a program that uses CUDA, as far as is known; "" if the
// program did not use CUDA.
func (i *injection) whyNothing(program string) string {
	if i.unseen == nil {
		return i.why
	}
	if i.unseen.first == "" && i.others() != "" {
		return "" // those processes loaded the library
	}
	return i.unseen.reason(program)
}

// watched says which processes may have gone unnoticed although they used CUDA; "" if CUDA had no time to start.
func (i *injection) watched(p *program) string {
	if i.unseen == nil || p.ran() < cudaStart {
		return ""
	}
	return i.unseen.watched()
}

// Hello probes a process that has initialised CUDA and waits for the answer. The process goes on
// when Hello returns.
func (i *injection) Hello(p cupti.Peer) (cupti.GoConfig, cupti.Follower) {
	return i.meet(p), follower{i, p}
}

func (i *injection) meet(p cupti.Peer) cupti.GoConfig {
	<-i.opened
	mapped, err := procfs.Files(int(p.PID))
	if err != nil {
		mapped = nil // we may not read the process: look in the usual places only
	}
	if len(i.called) > 0 { // it was probed before
		i.tracees.meet(p.ID, p.PID, p.BufferRequest)
		i.report.note(p.PID, tracelog.NoteInfo, fmt.Sprintf("process %d was armed: its GPU work is recorded from here on", p.PID))
		return late(i.config(libcupti.Locate(int(p.PID), mapped), true))
	}
	defer i.used()
	i.tracees.add(p.ID, tracee{pid: p.PID, request: p.BufferRequest}, mapped)
	found := libcupti.Locate(int(p.PID), mapped)
	i.metrics.offer(p.PID, found)
	i.metrics.begin()
	inTime := i.calls.begin(p.PID, p.Patience())
	if !inTime {
		i.notInTime(p.PID)
	}
	if i.wantsCallers() {
		i.calls.sites.begin(p)
	}
	return i.config(found, inTime)
}

// late is the configuration of an armed process, which has long started CUDA.
func late(c cupti.GoConfig) cupti.GoConfig {
	c.Late, c.Callers, c.Calls = true, false, nil // those of the calls that create GPU work alone, at the runtime
	c.Records &^= cupti.RecordNVTX
	return c
}

// notInTime says that there was no time to probe a process.
func (i *injection) notInTime(pid uint32) {
	i.report.note(pid, tracelog.NoteInfo, fmt.Sprintf("process %d is not probed: too many processes started at the same time", pid))
	const text = "so many processes start at the same time that there is no time to probe them all"
	switch {
	case !i.calls.probed:
	case i.calls.source == CallsAuto:
		i.crowded.Do(func() {
			i.report.remark(0, text+": the calls of some come from CUPTI instead, without arguments and callers")
		})
	default:
		i.crowded.Do(func() {
			i.report.miss(0, text+": the calls of some are not recorded (--calls auto has CUPTI record them)")
		})
	}
}

// A follower is told of a process.
type follower struct {
	*injection
	peer cupti.Peer
}

// End is called at the end of the process.
func (f follower) End(e cupti.End) {
	if e.Absent != "" {
		f.tracees.setAbsent(f.peer.ID, e.Absent)
	}
	if e.Cut {
		f.tracees.setCut(f.peer.ID)
	}
	f.tracees.end(f.peer.ID, e.ProcessEnd)
	if f.calls.sites != nil {
		f.calls.sites.end(f.peer)
	}
}

// FindCaller finds out where a call was made.
func (f follower) FindCaller(c cupti.Chain, need func(depth int)) (caller uint32) {
	return f.calls.sites.find(f.peer, c, need)
}

// FindFunction finds out which function of the driver a thread is in.
func (f follower) FindFunction(c cupti.OpenCall) string {
	return f.calls.sites.function(f.peer, c.Inner)
}

// nameless is called when nothing names the functions of a process's runtime.
func (i *injection) nameless(pid uint32, path string) {
	i.server.RecordRuntime(pid)
	i.report.remark(pid, fmt.Sprintf("process %d: calls have no callers, and are named by the runtime's records: nothing names the runtime's functions in %s", pid, path))
}

// wantsCallers says whether CUPTI's records of the driver's calls stand for those of the runtime's.
func (i *injection) wantsCallers() bool {
	return i.calls.source == CallsCUPTI && !i.opts.Runtime && driverTellsAll(i.opts.Functions)
}

// Warn is called with a line from the server.
func (i *injection) Warn(pid uint32, text string) { i.report.miss(pid, text) }

// Note is called with a line from the injected library.
func (f follower) Note(severity uint32, text string) {
	if severity >= tracelog.NoteWarning && !f.tracees.hasRival(f.peer.PID) {
		f.report.miss(f.peer.PID, text)
		return
	}
	f.report.note(f.peer.PID, severity, text)
}

// WatchExit makes a process hand over its last GPU records before an end that it cannot see
// itself. With a probe on cuProfilerStart and cuProfilerStop these tell the process, too.
func (f follower) WatchExit(signal uint32, handler uint64) (ranges bool) {
	watched := f.calls.watchExit(f.peer.PID, signal, handler)
	return watched && f.calls.probed && f.opts.CaptureRange
}

// registered is called for every registration with CUPTI. CUPTI serves the client that came
// last: once a rival has registered, its process's records no longer come to us.
func (i *injection) registered(pid uint32, request uint64) {
	if i.server == nil || i.tracees.isAttached(pid) {
		return // we never had CUPTI's records
	}
	if i.tracees.isOwn(pid, request) {
		return
	}
	i.server.Rival(pid)
	i.taken(pid)
}

// taken is called when a rival has CUPTI's records of a process: the probe on CUPTI's registration
// or the injected library says so, or both.
func (i *injection) taken(pid uint32) {
	what := fromCUPTI(i.calls.source, i.opts.GPU)
	if !i.tracees.setRival(pid) || what == "" {
		return
	}
	text := fmt.Sprintf("process %d: another CUPTI client (PyTorch's profiler, for instance) has taken over CUPTI's records: from here to its end the log lacks its %s", pid, what)
	if i.calls.probed {
		text += "; calls are still recorded"
	}
	i.report.miss(pid, text)
}

// fromCUPTI names what CUPTI records under these options; "" if it is not in use.
func fromCUPTI(source CallSource, gpu GPUSource) string {
	switch calls, work := source == CallsCUPTI, gpu != GPUNone; {
	case calls && work:
		return "calls and GPU work"
	case calls:
		return "calls"
	case work:
		return "GPU work"
	}
	return ""
}

// records is a cupti.Sink that writes to the log.
type records struct {
	log *tracelog.Writer
	i   *injection
}

func (r records) Add(record tracelog.Record) {
	if d, ok := record.(*tracelog.Device); ok {
		addLink(d, pcie.Of(d.UUID))
	}
	record.AddTo(r.log)
	switch record := record.(type) {
	case *tracelog.Device, *tracelog.Context:
		r.i.metrics.see(record)
	}
}

// addLink adds what CUPTI does not know of a device: its PCIe link.
func addLink(d *tracelog.Device, l pcie.Link) {
	d.PCI = l.Address
	d.PCIeGeneration, d.PCIeWidth = l.Generation, l.Width
	d.PCIeMaxGeneration, d.PCIeMaxWidth = l.MaxGeneration, l.MaxWidth
}

// Status is called when the library has loaded libcupti into a process and registered with it, or not.
// It probes libcupti: a client that registers from now on is a rival.
func (i follower) Status(c tracelog.CUPTI) {
	i.calls.attach(c.PID)
	defer i.tracees.change(c.PID, func(t *tracee) { t.answered = true })
	switch {
	case c.Status == "on":
		i.tracees.setRecorded(c.PID)
	case i.tracees.wasRecorded(c.PID): // it no longer is
		i.taken(c.PID)
	default:
		i.withoutCUPTI(&c)
	}
}

// withoutCUPTI says why CUPTI does not record a process, and what to do.
func (i *injection) withoutCUPTI(c *tracelog.CUPTI) {
	what := fromCUPTI(i.calls.source, i.opts.GPU)
	if what == "" {
		return
	}
	why, _, _ := strings.Cut(c.Status, "; ")
	if about, ok := strings.CutPrefix(why, "it "); ok {
		why = "the libcupti that was found " + about
	}
	text := fmt.Sprintf("CUPTI cannot record the %s of process %d: ", what, c.PID)
	switch {
	case c.Path == "":
		text += why + ". Looked beside the CUDA libraries that it has mapped, in its Python packages, in CUDA_HOME, /usr/local/cuda*, /opt/cuda* and" +
			" the linker's path. Install the toolkit's cuda-cupti package, or for Python: pip install nvidia-cuda-cupti"
	default:
		text += fmt.Sprintf("%s: %s", c.Path, why)
	}
	i.report.miss(c.PID, text)
}

// pause switches GPU records off in every process.
func (i *injection) pause() {
	i.paused.Store(true)
	if i.server != nil {
		i.server.Pause()
	}
}

// resumeWait is the time in which the injected libraries switch records on.
const resumeWait = 50 * time.Millisecond

// resume switches GPU records on in every process.
func (i *injection) resume() {
	i.paused.Store(false)
	if i.server != nil {
		i.server.Resume()
		time.Sleep(resumeWait)
	}
}

// stop ends recording in every process. The processes run on.
func (i *injection) stop() {
	if i.server == nil {
		return
	}
	if left := i.server.StopAll(2 * time.Second); left > 0 {
		i.report.miss(0, figures.Count(left, "process", "processes")+" did not hand over the last GPU records in time")
	}
}

// close removes the library and its socket.
func (i *injection) close() {
	if i.server == nil {
		return
	}
	if i.unseen != nil {
		i.unseen.close()
	}
	err := i.server.Close()
	for _, c := range i.called {
		err = errors.Join(err, c.Close())
	}
	if err != nil {
		i.report.say("could not remove everything that recording needed: " + err.Error())
	}
}

// config is the configuration that the injected library gets.
// Calls of a process for which there was no time to probe it come from CUPTI, too.
func (i *injection) config(candidates []libcupti.Candidate, inTime bool) cupti.GoConfig {
	c := cupti.GoConfig{
		Candidates: candidates, Records: groups(&i.opts),
		CaptureRange: i.opts.CaptureRange, Paused: i.paused.Load(),
		WatchRivals:   i.calls.prober == nil || !inTime,
		FlushInterval: min(i.opts.FlushInterval/2, maxHandover), MemoryLimit: i.opts.MemoryLimit,
	}
	work := i.opts.GPU != GPUNone
	switch {
	case i.calls.source == CallsCUPTI:
		c.Callers = i.wantsCallers()
		c.Calls = apiRecords(i.opts.Functions, !i.opts.Runtime && !c.Callers, work)
		if c.Callers {
			c.Calls = append(c.Calls, kernelLookup)
		}
	case !inTime && i.calls.source == CallsAuto:
		c.Calls = apiRecords(i.opts.Functions, !i.opts.Runtime, work)
	case !i.opts.Runtime:
		c.Calls = apiRecords(nil, true, work)
	}
	c.NoCUPTI = !work && i.calls.source != CallsCUPTI
	return c
}

// groups are the groups of records that CUPTI makes.
func groups(o *Options) cupti.Records {
	if o.GPU == GPUNone {
		return cupti.RecordCalls
	}
	r := cupti.DefaultRecords
	if o.Graphs == GraphWhole {
		r |= cupti.RecordGraphs
	}
	if o.Waits != WaitsCUPTI {
		r &^= cupti.RecordSync
	}
	return r
}

// kernelLookup is the function of the driver by which a launch of the runtime's fails that never reaches
// the driver's launch.
const kernelLookup = "cuLibraryGetKernel"

// maxHandover is the longest time for which the injected library keeps records, even if the log is
// flushed less often. A converter has to hold all other records of that time in memory.
const maxHandover = time.Second

// apiRecords lists the functions whose API records are needed: the chosen functions and, with work,
// all that create GPU work, because the correlation ID of an API record names the work. With driver, the
// driver's functions are enough. Without, the runtime's are listed too, since CUPTI records a
// driver call inside a runtime call only if it does not record the runtime call. (On an H200 with
// CUPTI 13.0.1 the driver's records alone joined all work of a PyTorch loop, that of graphs too,
// and the loop took 3 % less time.)
func apiRecords(chosen []*cudaapi.Function, driver, work bool) []string {
	var names []string
	for _, f := range chosen {
		names = append(names, f.Name)
	}
	for _, f := range cudaapi.Functions(cudaapi.All) {
		creates := f.Category == "launch" || f.Category == "copy" || f.Category == "memset" || f.Within
		if f.GPUWork && work || f.Library == cudaapi.Runtime && creates && !driver {
			names = append(names, f.Name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
