package record

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/cudatrace/cudatrace/record/cudaapi"
	"github.com/cudatrace/cudatrace/record/cupti"
	"github.com/cudatrace/cudatrace/record/procfs"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// An injection talks to the library that the driver loads into each process that uses CUDA.
// So it learns of processes, and receives their GPU work.
type injection struct {
	opts    Options
	report  *report
	tracees *tracees
	calls   *calls
	opened  <-chan struct{} // closed when calls can be probed
	server  *cupti.Server   // nil if no process can be injected
	paused  atomic.Bool     // before the delay is over, and at the end
}

// open opens the socket of the injected library. Without it nothing is recorded.
func (i *injection) open(owner *invoker) {
	if other := cupti.Conflict(os.Environ()); other != "" {
		i.report.miss(0, other+" is set: another tool (nsys, ncu, compute-sanitizer) has this place, nothing is recorded; leave one of them out or unset the variable")
		return
	}
	o := cupti.Options{Sink: records{i.report.log, i}}
	if owner != nil {
		o.Owner = &cupti.Owner{UID: int(owner.uid), GID: int(owner.gid)}
	}
	s, err := cupti.Listen(o)
	if err != nil {
		i.report.miss(0, "nothing is recorded: "+err.Error())
		return
	}
	i.server = s
	go s.Serve(i)
}

// Hello prepares a process that has initialised CUDA, and waits: when Hello returns the
// process is probed and goes on.
func (i *injection) Hello(p cupti.Peer) cupti.GoConfig {
	<-i.opened
	i.tracees.add(p.ID, tracee{pid: p.PID, request: p.BufferRequest})
	i.calls.attach(p.PID)
	mapped, err := procfs.Files(int(p.PID))
	if err != nil {
		mapped = nil // of a process that we may not look into: the usual places are left
	}
	return i.config(cupti.Locate(int(p.PID), mapped))
}

// End takes the end of a process.
func (i *injection) End(p cupti.Peer, e tracelog.ProcessEnd) { i.tracees.end(p.ID, e) }

// Note takes what the injected library has to say.
func (i *injection) Note(p cupti.Peer, severity uint32, text string) {
	if severity >= tracelog.NoteWarning && !i.tracees.hasRival(p.PID) {
		i.report.miss(p.PID, text)
		return
	}
	i.report.note(p.PID, severity, text)
}

// WatchExit has a process hand over its last GPU records when it is about to end in a way
// that it can't see itself.
func (i *injection) WatchExit(p cupti.Peer, signal uint32, handler uint64) {
	i.calls.watchExit(p.PID, signal, handler)
}

// registered takes every registration with CUPTI. CUPTI serves the client that came last: once
// a rival has registered, the records are lost to us.
func (i *injection) registered(pid uint32, request uint64) {
	if i.server == nil {
		return // the process is attached to by PID: CUPTI's records were never ours
	}
	if i.tracees.registered(pid, request) {
		return
	}
	i.server.Rival(pid)
	i.report.miss(pid, fmt.Sprintf("process %d: another CUPTI client (PyTorch's profiler, for instance) has taken over the GPU records; calls go on being recorded", pid))
}

// records is a cupti.Sink that writes to the log.
type records struct {
	log *tracelog.Writer
	i   *injection
}

func (r records) Add(record tracelog.Record) {
	record.AddTo(r.log)
	if c, ok := record.(*tracelog.CUPTI); ok {
		r.i.started(c)
	}
}

// started comes when a process has loaded libcupti and registered with it. Now libcupti is
// probed: who registers from then on is a rival.
func (i *injection) started(c *tracelog.CUPTI) {
	i.calls.attach(c.PID)
	if c.Status == "on" {
		i.tracees.setRecorded(c.PID)
	} else if !i.tracees.wasRecorded(c.PID) { // else a rival has taken over, which registered says
		i.withoutCUPTI(c)
	}
}

// withoutCUPTI says why a process's GPU work is not recorded and what to do.
func (i *injection) withoutCUPTI(c *tracelog.CUPTI) {
	if i.opts.GPU == GPUNone {
		return // nobody asked for it
	}
	why, _, _ := strings.Cut(c.Status, "; ")
	if about, ok := strings.CutPrefix(why, "it "); ok {
		why = "the libcupti that was found " + about
	}
	text := fmt.Sprintf("GPU work of process %d is not recorded: ", c.PID)
	switch {
	case c.Path == "":
		text += why + ". Looked beside the CUDA libraries that it has mapped, in its Python packages, in CUDA_HOME, /usr/local/cuda*, /opt/cuda* and" +
			" the linker's path. Install the toolkit's cuda-cupti package, or beside Python's packages: pip install nvidia-cuda-cupti"
	default:
		text += fmt.Sprintf("%s: %s", c.Path, why)
	}
	i.report.miss(c.PID, text)
}

// pause switches records off in every process.
func (i *injection) pause() {
	i.paused.Store(true)
	if i.server != nil {
		i.server.Pause()
	}
}

// resumeWait is time for the injected libraries to switch records on.
const resumeWait = 50 * time.Millisecond

// resume switches records on in every process.
func (i *injection) resume() {
	i.paused.Store(false)
	if i.server != nil {
		i.server.Resume()
		time.Sleep(resumeWait)
	}
}

// stop ends recording in every process, which lives on.
func (i *injection) stop() {
	if i.server == nil {
		return
	}
	if left := i.server.StopAll(2 * time.Second); left > 0 {
		i.report.miss(0, fmt.Sprintf("%d processes did not hand over their last records in time", left))
	}
}

// close removes the library and its socket.
func (i *injection) close() {
	if i.server == nil {
		return
	}
	if err := i.server.Close(); err != nil {
		i.report.say("could not remove everything that recording needed: " + err.Error())
	}
}

// config says what the injected library is to record.
func (i *injection) config(candidates []cupti.Candidate) cupti.GoConfig {
	c := cupti.GoConfig{
		Candidates: candidates, Records: cupti.DefaultRecords,
		CaptureRange: i.opts.CaptureRange, Paused: i.paused.Load(),
		WatchRivals:   i.calls.prober == nil,
		FlushInterval: min(i.opts.FlushInterval/2, maxHandover), MemoryLimit: i.opts.MemoryLimit,
	}
	if i.opts.Graphs == GraphWhole {
		c.Records |= cupti.RecordGraphs
	}
	if i.opts.Waits != WaitsCUPTI {
		c.Records &^= cupti.RecordSync
	}
	switch {
	case i.calls.source == CallsCUPTI:
		c.Calls = apiRecords(i.opts.Functions, i.opts.Driver)
	case i.opts.Driver:
		c.Calls = apiRecords(nil, true)
	}
	c.NoCUPTI = i.opts.GPU == GPUNone && i.calls.source != CallsCUPTI
	return c
}

// maxHandover is the longest time that the injected library keeps records back, however seldom
// the log is written: records of the same time from elsewhere wait for them in memory.
const maxHandover = time.Second

// apiRecords lists the functions whose API records are needed: the chosen ones, and all that
// create GPU work, whose correlation IDs name the work. Of these the driver's are always
// there; driver says that they are enough. Else the runtime's are there too: CUPTI records a
// driver call inside a runtime call only if it does not record the runtime call. (On an H200
// with CUPTI 13.0.1 all work of a PyTorch loop, of graphs too, could be joined by the driver's
// calls alone, and the loop took 3 % less time.)
func apiRecords(chosen []*cudaapi.Function, driver bool) []string {
	var names []string
	for _, f := range chosen {
		names = append(names, f.Name)
	}
	for _, f := range cudaapi.Functions(cudaapi.All) {
		creates := f.Category == "launch" || f.Category == "copy" || f.Category == "set"
		if f.GPUWork || f.Library == cudaapi.Runtime && creates && !driver {
			names = append(names, f.Name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
