package record

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/cudatrace/cudatrace/record/cudaapi"
	"github.com/cudatrace/cudatrace/record/errno"
	"github.com/cudatrace/cudatrace/record/figures"
	"github.com/cudatrace/cudatrace/record/host"
	"github.com/cudatrace/cudatrace/record/internal/cupti"
	"github.com/cudatrace/cudatrace/record/internal/threads"
	"github.com/cudatrace/cudatrace/record/invoker"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// listen opens the socket of the injected library. Without it nothing is recorded.
func (s *session) listen(owner *invoker.Invoker) {
	if other := cupti.Conflict(os.Environ()); other != "" {
		s.unable(other + " is set: another tool (nsys, ncu, compute-sanitizer, another cudatrace) is recording already; " +
			"run without it, or unset the variable")
		return
	}
	o := cupti.Options{Sink: s.records(), Within: s.opts.CaptureNVTX, Steps: s.opts.CaptureSteps, Python: s.pythons,
		OpenCalls: s.opts.Last == 0} // a log of the newest part is not read while it grows
	if owner != nil {
		o.Owner = &cupti.Owner{UID: int(owner.UID), GID: int(owner.GID)}
	}
	server, err := cupti.Listen(o)
	if err != nil {
		s.unable(err.Error())
		return
	}
	s.server = server
	s.unseen = newUnseen(server.Environ(nil)[0], owner)
	go server.Serve(s)
}

// unable says why the library cannot be injected.
func (s *session) unable(why string) {
	s.why = why
	s.report.miss(0, "nothing is recorded: "+why)
}

// watch finds processes of the program's that use CUDA and run unrecorded, until recording ends.
func (s *session) watch() {
	if s.unseen == nil {
		return
	}
	s.beside.Go(func() {
		for suspects := false; !isClosed(s.ending); suspects = s.lookForUnseen(false) {
			s.unseen.await(suspects)
		}
		s.lookForUnseen(true)
	})
}

func (s *session) lookForUnseen(last bool) (suspects bool) {
	return s.unseen.look(last, func(pid uint32) (hellos []uint64) {
		if s.server.Has(pid) { // it is saying hello; who has said it meanwhile is found below
			hellos = append(hellos, host.Monotonic())
		}
		return append(hellos, ask(s, func() (at []uint64) {
			for p := s.latest[pid]; p != nil; p = p.before {
				at = append(at, p.began)
			}
			return at
		})...)
	}, s.report.miss)
}

// whyNothing says why nothing was recorded of a program that uses CUDA, as far as is known; "" if the
// program did not use CUDA.
func (s *session) whyNothing(program string) string {
	if s.unseen == nil {
		return s.why
	}
	if s.unseen.first == "" && s.others(&s.opts.Ranks) != "" {
		return "" // those processes loaded the library
	}
	return s.unseen.reason(program)
}

// unknown says why processes may have used CUDA that nobody knows of; "" if none can have, or none were looked for.
func (s *session) unknown() string {
	if s.unseen == nil || s.program == nil {
		return ""
	}
	return s.unseen.others()
}

// records is a cupti.Sink that writes to the log.
type records struct {
	log     *tracelog.Writer
	metrics *metrics
	threads *threads.Recorder // nil: none
}

func (s *session) records() records { return records{s.log.Writer, &s.metrics, s.threads} }

func (r records) Add(record tracelog.Record) {
	if d, ok := record.(*tracelog.Device); ok {
		addPCIeLink(d, "/")
	}
	record.AddTo(r.log)
	switch record := record.(type) {
	case *tracelog.Device, *tracelog.Context:
		r.metrics.see(record)
	case *tracelog.API:
		if r.threads != nil {
			r.threads.AddLocal(record.PID, record.TID)
		}
	}
}

// stopLibraries ends recording in every process. The processes run on.
func (s *session) stopLibraries() {
	if s.server == nil {
		return
	}
	s.server.Pause()
	if s.opts.Detach {
		s.detachCUPTI()
	}
	if left := s.server.StopAll(2 * time.Second); left > 0 {
		s.report.miss(0, figures.Count(left, "process", "processes")+" did not hand over the last GPU records in time")
	}
}

// Stays is in the line about a process that Options.Detach could not take CUPTI out of.
const Stays = ": CUPTI stays in it"

// detachCUPTI takes CUPTI out of the processes, and says of which it could not.
func (s *session) detachCUPTI() {
	failed := s.server.FinalizeAll()
	for _, pid := range slices.Sorted(maps.Keys(failed)) {
		s.report.remark(pid, fmt.Sprintf("process %d%s, and makes launches slower until it ends: %s", pid, Stays,
			errno.Words(failed[pid])))
	}
}

// closeServer removes the library and its socket.
func (s *session) closeServer() {
	if s.server == nil {
		return
	}
	if s.unseen != nil {
		s.unseen.close()
	}
	err := s.server.Close()
	for _, c := range s.armed {
		err = errors.Join(err, c.Close())
	}
	if err != nil {
		s.report.say("could not remove everything that recording needed: " + err.Error())
	}
}

// config is the answer to a process's hello.
// Calls of a process for which there was no time to probe it come from CUPTI, too.
func (s *session) config(p *recordedProcess) cupti.GoConfig {
	c := cupti.GoConfig{
		Candidates: p.found, Records: cupti.DefaultRecords,
		CaptureRange: s.opts.CaptureRange, Paused: s.paused,
		WatchClients:  !s.calls.probed || p.late,
		FlushInterval: min(s.opts.FlushInterval/2, maxHandover), MemoryLimit: s.opts.MemoryLimit,
	}
	work := s.opts.GPU != GPUNone
	if !work {
		c.Records = cupti.RecordCalls
	}
	c.Shown = s.calls.shown()
	switch {
	case s.calls.source == CallsCUPTI:
		c.Callers = s.wantsCallers()
		c.Calls = apiRecords(s.opts.Functions, !c.Callers, work)
		if c.Callers {
			c.Calls = append(c.Calls, cudaapi.RecordedFor(cudaapi.ForRefused)...)
		}
	case p.late && s.calls.source == CallsAuto:
		c.Calls = apiRecords(s.opts.Functions, true, work)
	default:
		c.Calls = apiRecords(nil, true, work)
		if c.Callers = len(s.calls.spared) > 0; c.Callers {
			c.Calls = append(c.Calls, cudaapi.RecordedFor(cudaapi.ForStreams)...)
		}
	}
	c.NoCUPTI = !work && s.calls.source != CallsCUPTI
	if len(s.opts.PIDs) > 0 {
		c.Door = s.opts.Detach
		p.python.configure(&c)
		c.Python = c.Interpreter != nil // CUDA has long started, and so has Python
		return late(c)
	}
	if !p.late {
		p.python.configure(&c)
		c.Torch = s.readsOperators() && !c.NoCUPTI
	}
	if c.Interpreter != nil && s.calls.probed {
		c.Calls = append(c.Calls, cudaapi.RecordedFor(cudaapi.ForPython)...)
	}
	return c
}

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
	if work {
		names = append(names, cudaapi.RecordedFor(cudaapi.ForWork)...)
	}
	for _, f := range chosen {
		names = append(names, f.Name)
	}
	for _, f := range cudaapi.Functions(cudaapi.All) {
		creates := f.Category == "launch" || f.Category == "copy" || f.Category == "memset" || f.Within
		if f.Library == cudaapi.Runtime && creates && !driver {
			names = append(names, f.Name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// late is the configuration of an armed process, which has long started CUDA.
func late(c cupti.GoConfig) cupti.GoConfig {
	c.Late, c.Callers = true, false
	c.Calls = nil // those of the calls that create GPU work alone, at the runtime
	return c
}

// wantsCallers reports whether CUPTI's records of the driver's calls stand for those of the runtime's.
func (s *session) wantsCallers() bool {
	return s.calls.source == CallsCUPTI && driverTellsAll(s.opts.Functions)
}

// driverTellsAll says whether the driver's calls tell all about the chosen functions. A function of the
// runtime outside the default set may call no function of the driver.
func driverTellsAll(chosen []*cudaapi.Function) bool {
	for _, f := range chosen {
		if f.Library == cudaapi.Runtime && f.Sets&(cudaapi.Default|cudaapi.Minimal) == 0 {
			return false
		}
	}
	return true
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
