package record

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cudatrace/cudatrace/record/cudaapi"
	"github.com/cudatrace/cudatrace/record/figures"
	"github.com/cudatrace/cudatrace/record/host"
	"github.com/cudatrace/cudatrace/record/internal/callers"
	"github.com/cudatrace/cudatrace/record/internal/probe"
	"github.com/cudatrace/cudatrace/record/internal/threads"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// calls owns the uprobes of a recording: loading, attaching, draining. Its prober also sees how processes end and which
// clients register with CUPTI.
type calls struct {
	opts   Options
	log    *tracelog.Writer
	report *report
	source CallSource // where calls come from; open replaces CallsAuto where probes are not allowed

	loading  atomic.Pointer[probe.Prober] // the prober to be, which reads files of processes meanwhile; nil before open
	prober   *probe.Prober                // nil without the rights for eBPF
	threads  *threads.Recorder            // of the threads that make calls; nil: none
	callers  *callers.Log                 // where calls were made; nil before open
	probed   bool                         // calls are probed
	armed    bool                         // some processes that were attached to are armed
	spared   []*cudaapi.Function          // they lose probes in processes whose API records have them; none: all are probed
	answered chan struct{}                // closed when a process has been told to go on: until then the probes are in its way
	beside   sync.WaitGroup               // goroutines that use prober and log

	seen    atomic.Uint64 // number of probed calls
	perCall atomic.Int64  // cost of a probed call, ns; 0 if it is not measured
	drained uint64        // ns: the log has every call that returned before this time
	looked  uint64        // ns: when open calls were looked at
}

func newCalls(o Options, log *tracelog.Writer, r *report) *calls {
	return &calls{opts: o, log: log, report: r, source: o.Calls, answered: make(chan struct{})}
}

// open loads the eBPF programs. Without them calls come from CUPTI's API records alone. The session is told of each
// registration with CUPTI. Calls are delivered until its context is done. armed says that processes
// hand GPU work over that were attached to.
func (c *calls) open(s *session, armed bool) {
	c.armed = armed
	if c.source == CallsCUPTI {
		c.findSites(s, s.epoch)
	}
	if c.source == CallsCUPTI || c.source == CallsNone {
		c.describeMemory()
		c.openWatcher(s.ctx)
		return
	}
	spared, buffer := spareable(&c.opts), c.opts.CallBufferBytes
	if buffer == 0 && len(spared) > 0 {
		buffer = sparingBytes
	}
	p, err := c.load(probe.Options{
		Functions: c.opts.Functions, Spared: spared, Symbols: true,
		Paused: c.opts.Delay > 0, CaptureRange: c.opts.CaptureRange, CaptureNVTX: !c.opts.CaptureNVTX.None(),
		OnCUPTIClient: func(pid uint32, request, at uint64) { s.post(registered{pid, request, at}) },
		BufferBytes:   buffer, WatchExits: len(c.opts.PIDs) == 0 || armed,
		OfFiles: c.opts.OfFiles, WithoutOfFiles: c.opts.WithoutOfFiles, OnFunctions: c.describeFile,
	})
	if err != nil {
		c.notProbed(s, err)
		return
	}
	c.prober, c.probed, c.spared = p, true, spared
	c.findSites(s, p.Callers().Epoch)
	if err := p.Degraded(); err != nil {
		c.report.note(0, tracelog.NoteInfo, err.Error())
	}
	c.describeFunctions()
	c.describeMemory()
	go c.deliver(s.ctx)
	c.beside.Go(func() {
		select {
		case <-c.answered:
		case <-s.ending:
		case <-s.over: // the program could not be started
		}
		if isClosed(c.answered) {
			c.calibrate()
		}
	})
}

// sparingBytes is the default size of the buffers where launches, copies and fills have no probes: the kernel clears
// them before a program can be probed, 64 MiB in 8 ms.
const sparingBytes = 16 << 20

// spareable lists the functions that lose probes where CUPTI makes records of their calls. There are none where
// arguments are wanted, where nothing says who calls, and where a call is to be in the log when it returns.
func spareable(o *Options) (spared []*cudaapi.Function) {
	if o.Calls != CallsAuto || o.GPU == GPUNone || len(o.PIDs) > 0 || o.Last > 0 {
		return nil
	}
	for _, f := range o.Functions {
		switch {
		case f.Sets&(cudaapi.Default|cudaapi.Minimal) == 0:
			return nil
		case f.Sources().Left != cudaapi.BothProbes:
			spared = append(spared, f)
		}
	}
	for _, f := range cudaapi.Functions(cudaapi.All) {
		if f.Naming == cudaapi.NamesByHandle && len(spared) > 0 { // probed though nobody has chosen it
			spared = append(spared, f)
		}
	}
	return spared
}

// load loads the eBPF programs, if there is room for their files.
func (c *calls) load(o probe.Options) (*probe.Prober, error) {
	if err := checkFiles(FilesToProbe); err != nil {
		return nil, err
	}
	p, err := probe.New(o)
	if err != nil {
		return nil, err
	}
	c.loading.Store(p)
	return p, p.Load()
}

// examine reads the files of a process that will be probed, while the eBPF programs are loaded.
func (c *calls) examine(pid uint32) {
	if p := c.loading.Load(); p != nil {
		p.Examine(int(pid))
	}
}

// watcherBytes is the buffer size of a prober without functions, which has few events.
const watcherBytes = 64 << 10

// openWatcher loads a prober that sees the ends of processes, and puts no breakpoint into them but on functions of
// libraries that a person has named. Where the rights or the kernel do not allow it, the injected library sees most
// ends by itself.
func (c *calls) openWatcher(ctx context.Context) {
	o := probe.Options{
		BufferBytes: watcherBytes, OnlyOfFiles: true, WatchExits: true,
		OfFiles: c.opts.OfFiles, WithoutOfFiles: c.opts.WithoutOfFiles, OnFunctions: c.describeFile, Paused: c.opts.Delay > 0,
	}
	if len(o.OfFiles) > 0 {
		o.BufferBytes = c.opts.CallBufferBytes
	}
	p, err := c.load(o)
	if err != nil {
		c.report.note(0, tracelog.NoteInfo, "the ends of processes are not watched: "+err.Error())
		c.withoutFiles(err)
		return
	}
	c.prober = p
	go c.deliver(ctx)
}

// intrudes reports whether breakpoints are put into processes.
func (c *calls) intrudes() bool { return c.prober != nil && (c.probed || len(c.opts.OfFiles) > 0) }

// notProbed says why calls are not probed and where they come from instead.
func (c *calls) notProbed(s *session, err error) {
	text := "calls are not probed: " + err.Error()
	c.withoutFiles(err)
	var denied *probe.PermissionError
	if c.source == CallsAuto && len(c.opts.PIDs) == 0 {
		c.source = CallsCUPTI
		c.findSites(s, s.epoch)
		c.describeMemory()
		text += "; they come from CUPTI instead, without arguments"
		if errors.As(err, &denied) {
			// CUPTI gives every call that was asked for, so nothing is missing.
			c.report.remark(0, text)
			return
		}
	}
	c.describeMemory()
	c.report.miss(0, text)
}

// findSites starts to find out where calls were made. epoch reads a process's epoch.
func (c *calls) findSites(s *session, epoch func(pid int) uint64) {
	last := uint32(0)
	if c.probed {
		last = probe.MaxChains
	}
	c.callers = callers.Open(s.log.Writer, callers.Options{
		Epoch:    epoch,
		Last:     last,
		Nameless: func(pid int, path string) { s.post(nameless{uint32(pid), path}) },
		Crowded: func() {
			s.report.miss(0, fmt.Sprintf("callers are missing: the lists of code that all processes together have mapped need "+
				"more than the %s that recording allows them",
				figures.Bytes(callers.DefaultBudget)))
		},
	})
}

// calibrate measures the cost of a probed call. The summary says how much time recording cost the program.
func (c *calls) calibrate() {
	cost, err := c.prober.Calibrate()
	if err != nil {
		c.report.note(0, tracelog.NoteInfo, err.Error())
		return
	}
	c.perCall.Store(cost.Nanoseconds())
	c.log.Add(&tracelog.Meta{Key: tracelog.MetaCallCost, Value: strconv.FormatInt(cost.Nanoseconds(), 10)})
}

func (c *calls) sink() *countingLog {
	return &countingLog{log: c.log, calls: &c.seen, chain: c.newChain, threads: c.threads}
}

// describeFunctions logs the functions whose calls may be in the log: those that were chosen, and
// those that tell of a launch that the runtime refuses.
func (c *calls) describeFunctions() {
	chosen := map[cudaapi.ID]bool{}
	for _, f := range c.opts.Functions {
		chosen[f.ID] = true
	}
	refused := map[cudaapi.ID]bool{}
	for _, f := range cudaapi.RuntimeLaunches() {
		refused[f.ID] = true
	}
	for _, f := range cudaapi.Functions(cudaapi.All) {
		if chosen[f.ID] || refused[f.ID] || f.Naming != cudaapi.NamesNothing {
			c.log.Add(&tracelog.Function{ID: uint32(f.ID), Name: f.Name, Library: f.Library.String(), Args: cudaapi.ArgSpec(f)})
		}
	}
}

// shownNames bounds the names of functions in a line.
const shownNames = 3

// describeFile logs the functions of a file that are none of CUDA's, and says which are not recorded.
func (c *calls) describeFile(f probe.Functions) {
	for i := range f.New {
		f.New[i].AddTo(c.log)
	}
	pid, base := uint32(f.PID), filepath.Base(f.Path)
	if n := len(f.Once); n > 0 {
		c.report.remark(pid, fmt.Sprintf("%s of %s without returns, since where their code ends is not certain: %s",
			figures.Count(n, "function", "functions"), base, someOf(f.Once)))
	}
	if f.Beyond > 0 {
		c.report.miss(pid, fmt.Sprintf("functions of %s are not recorded: %s selected, and at most %d are probed in all",
			base, figures.Count(f.Beyond, "is", "are"), f.Most))
	}
	if n := len(f.Refused); n > 0 {
		c.report.miss(pid, fmt.Sprintf("%s of %s cannot be probed: %s", figures.Count(n, "function", "functions"), base,
			someOf(f.Refused)))
	}
	if f.Err != nil && !errors.Is(f.Err, fs.ErrNotExist) {
		c.report.miss(pid, fmt.Sprintf("functions of %s are not recorded: %v", base, f.Err))
	}
}

func someOf(names []string) string {
	text := strings.Join(names[:min(shownNames, len(names))], ", ")
	if len(names) > shownNames {
		text += ", ..."
	}
	return text
}

// withoutFiles says that functions of any library are not recorded, if some were asked for.
func (c *calls) withoutFiles(err error) {
	if len(c.opts.OfFiles) > 0 {
		c.report.miss(0, "functions of libraries are not recorded: "+err.Error())
	}
}

// A MemorySource says what tells of allocated memory.
type MemorySource string

// The values of a MemorySource.
const (
	MemoryCalls MemorySource = "calls" // CUPTI's callbacks for the driver's functions that allocate and free
	MemoryNone  MemorySource = "none"  // nothing, where calls are not probed
)

// describeMemory logs what tells what the program has allocated.
func (c *calls) describeMemory() {
	callbacks := c.callbacks()
	switch left := cudaapi.WithoutMemory(c.opts.Functions); {
	case callbacks && c.opts.Memory != MemoryCalls:
		c.withoutMemory("calls are not probed, and --memory none leaves CUPTI's callbacks out")
	case !callbacks && c.source == CallsNone:
		c.withoutMemory("calls are not recorded")
	case !callbacks && !c.probed:
		c.withoutMemory("calls are not probed")
	case len(left) == 0 && callbacks:
		c.log.Add(&tracelog.Meta{Key: tracelog.MetaMemory, Value: tracelog.MemoryOfCallbacks})
		for _, f := range c.shown() {
			c.log.Add(&tracelog.Function{ID: uint32(f.ID), Name: f.Name, Library: f.Library.String(),
				Args: cudaapi.ArgSpec(f) + " " + cudaapi.ContextArgument + ":" + cudaapi.U32.String()})
		}
	case len(left) == 0:
		c.log.Add(&tracelog.Meta{Key: tracelog.MetaMemory, Value: tracelog.MemoryOfCalls})
	case len(left) == 1:
		c.withoutMemory(left[0] + " is not probed")
	default:
		c.withoutMemory(fmt.Sprintf("%s and %s that allocate or free are not probed", left[0],
			figures.Count(len(left)-1, "other function", "other functions")))
	}
}

// callbacks reports whether CUPTI says what calls allocate and free, since they are not probed. Of processes that were
// attached to, only those that are armed have CUPTI.
func (c *calls) callbacks() bool {
	if len(c.opts.PIDs) > 0 {
		return c.armed && !c.probed
	}
	return c.source == CallsCUPTI
}

// shown lists the functions whose calls come from CUPTI's callbacks: the chosen ones that do something to memory.
// None of them is called often.
func (c *calls) shown() (list []*cudaapi.Function) {
	if !c.callbacks() || c.opts.Memory != MemoryCalls || len(cudaapi.WithoutMemory(c.opts.Functions)) > 0 {
		return nil
	}
	for _, f := range c.opts.Functions {
		if f.Shown() != nil {
			list = append(list, f)
		}
	}
	return list
}

// withoutMemory logs why nothing tells what the program has allocated.
func (c *calls) withoutMemory(why string) {
	c.log.Add(&tracelog.Meta{Key: tracelog.MetaMemory, Value: "not recorded: " + why})
}

// newChain takes a chain of return addresses above probed calls.
func (c *calls) newChain(chain *probe.Chain) {
	if c.callers == nil {
		return
	}
	known, pid, epoch, site := c.prober.Callers(), chain.PID, chain.Epoch, chain.Addresses[0]
	n := callers.Chain{ID: chain.ID, PID: pid, Epoch: epoch, Addresses: chain.Addresses}
	if f := cudaapi.ByID(cudaapi.ID(chain.Function)); f != nil {
		n.Function = f.Name
	}
	n.Need = func(depth int) { known.Need(pid, epoch, site, depth) }
	c.callers.Add(n)
}

// deliver hands calls to the log until the recording ends.
func (c *calls) deliver(ctx context.Context) {
	if err := c.prober.Run(ctx, c.sink()); err != nil {
		c.report.miss(0, "calls are no longer recorded: "+err.Error())
	}
}

// renew makes a process that runs another program by exec ready to be probed again, which takes its time.
func (c *calls) renew(pid uint32) {
	if c.prober != nil {
		_, err := c.prober.Renew(int(pid))
		notAttached(c.report, pid, err)
	}
}

// begin probes a process that runs a new program, under a PID that may be known from another one. It returns the epoch
// in which the process's code was read.
func (c *calls) begin(pid uint32) (looked uint64) {
	if c.prober != nil {
		c.probe(pid, c.prober.AttachSparing)
		c.prober.Callers().Replaced(pid)
	}
	if c.callers != nil {
		looked = c.callers.Begin(pid)
	}
	return looked
}

// attachTo probes a running process, as far as anything is probed.
func (c *calls) attachTo(pid int) (a probe.Attachment, looked uint64, err error) {
	if c.prober != nil {
		if a, err = c.prober.Attach(pid); err != nil {
			return a, 0, err
		}
	}
	if c.callers != nil {
		looked = c.callers.Begin(uint32(pid))
	}
	return a, looked, nil
}

// attach probes what a process has mapped since begin, unless it was late.
func (c *calls) attach(pid uint32, late bool) {
	if c.prober != nil && !late {
		c.probe(pid, c.prober.Attach)
	}
	if c.callers != nil {
		c.callers.Look(pid)
	}
}

// probe probes the libraries that a process has mapped.
func (c *calls) probe(pid uint32, attach func(pid int) (probe.Attachment, error)) {
	a, err := attach(int(pid))
	notAttached(c.report, pid, err)
	for _, l := range a.Libraries {
		if l.New && len(l.Refused) > 0 {
			c.report.miss(pid, fmt.Sprintf("%s of %s cannot be probed: %s",
				figures.Count(len(l.Refused), "function", "functions"), filepath.Base(l.Path),
				strings.Join(l.Refused[:min(3, len(l.Refused))], ", ")))
		}
	}
}

// complete probes what begin has spared: CUPTI has no records of it, or does not tell who calls.
func (c *calls) complete(pid uint32) {
	if len(c.spared) > 0 {
		notAttached(c.report, pid, c.prober.Complete(int(pid)))
	}
}

// spares reports whether a function of the driver's loses probes where CUPTI has its records.
func (c *calls) spares(name string) bool {
	return slices.ContainsFunc(c.spared, func(f *cudaapi.Function) bool { return f.Name == name })
}

// rescan probes the CUDA libraries that a process has opened since the last look. Under -p, exec is the time since
// which the process runs another program, 0 if there is none. looked is the epoch in which its code was read last.
func (c *calls) rescan(pid uint32, looked uint64) (now, exec uint64) {
	if c.callers != nil {
		looked = c.callers.LookAgain(pid, looked)
	}
	if c.prober == nil {
		return looked, 0
	}
	var e probe.Exec
	var err error
	if len(c.opts.PIDs) > 0 {
		e, err = c.prober.Renew(int(pid))
	}
	if e.Time != 0 {
		c.probe(pid, c.prober.Attach)
	} else {
		_, scanned := c.prober.Rescan(int(pid))
		err = errors.Join(err, scanned)
	}
	if err == nil && e.Bare && hasStarted(int(pid)) {
		err = errors.New("a thread other than its first ran another program, which took the probes away until now")
	}
	notAttached(c.report, pid, err)
	return looked, e.Time
}

// notAttached says that probes are missing, unless the process has ended.
func notAttached(r *report, pid uint32, err error) {
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		r.miss(pid, fmt.Sprintf("some calls of process %d are not recorded: %v", pid, err))
	}
}

// watchExit makes a process hand over its last GPU records before an end that it cannot see
// itself: the kernel sends it a signal on the way.
func (c *calls) watchExit(pid, signal uint32, handler, over uint64) {
	if c.prober == nil {
		return
	}
	text := "the program handles every signal itself"
	if signal != 0 {
		err := c.prober.WatchExit(int(pid), int(signal), handler, over)
		if err == nil {
			return
		}
		text = err.Error()
	}
	// Records are lost only if it ends by _exit, exec or a handler of its own; its end then says so.
	c.report.note(pid, tracelog.NoteInfo, fmt.Sprintf("the end of process %d is not watched: %s", pid, text))
}

// exit says how a process ended. ok is false if its end is not watched.
func (c *calls) exit(pid uint32) (e probe.Exit, ok bool) {
	if c.prober == nil {
		return probe.Exit{}, false
	}
	return c.prober.ExitReason(int(pid))
}

// pause pauses the recording of calls, or resumes it.
func (c *calls) pause(paused bool) {
	if c.prober == nil {
		return
	}
	change := c.prober.Resume
	if paused {
		change = c.prober.Pause
	}
	if err := change(); err != nil {
		c.report.miss(0, err.Error())
	}
}

// noteProgress logs how many calls were lost since the last time, and up to which time the log
// has every other call.
func (c *calls) noteProgress() {
	if c.prober == nil || !c.probed && len(c.opts.OfFiles) == 0 {
		return
	}
	c.noteLosses()
	if !c.probed {
		return
	}
	c.noteOpenCalls()
	if until := c.prober.DrainedUntil(); until > c.drained {
		c.drained = until
		c.log.Add(&tracelog.Flushed{Until: until})
	}
}

// openAfter is the time for which a call has to be open so that the log has it before it returns, and openPause that
// between two looks.
const (
	openAfter = time.Second
	openPause = openAfter / 2
)

// noteOpenCalls logs the calls that have not returned for a while.
func (c *calls) noteOpenCalls() {
	now := host.Monotonic()
	if now-c.looked < uint64(openPause) || c.opts.Last > 0 { // a log of the newest part is not read while it grows
		return
	}
	c.looked = now
	c.prober.OpenCalls(now-min(uint64(openAfter), now), func(o *tracelog.Call) {
		c.log.Add(&tracelog.OpenCall{
			PID: o.PID, TID: o.TID, Func: o.Func, Enter: o.Enter, Dur: now - o.Enter, Caller: o.Caller, Args: o.Args,
		})
	})
}

func (c *calls) noteLosses() {
	lost, err := c.prober.LostSince()
	if err != nil {
		c.report.miss(0, "lost calls could not be counted: "+err.Error())
	}
	for _, l := range lost {
		l.AddTo(c.log)
	}
}

// finish delivers the calls in the buffers and the calls that have not returned.
func (c *calls) finish() {
	c.beside.Wait()
	if c.prober != nil {
		if err := c.prober.Finish(c.sink()); err != nil {
			c.report.miss(0, "calls may be missing: "+err.Error())
		}
		for _, of := range c.prober.Unmatched() {
			c.report.remark(0, "no file of the recorded processes has a function that "+of.String()+" selects")
		}
	}
	if c.callers != nil {
		c.callers.Finish()
		c.missCallers()
	}
	if c.prober != nil {
		c.noteLosses()
	}
}

// missCallers says how many calls have no caller because something was full.
func (c *calls) missCallers() {
	var u probe.Unplaced
	if c.prober != nil {
		u = c.prober.Unplaced()
	}
	for _, x := range []struct {
		n         uint64
		one, many string
		why       string
	}{
		{u.Undefined, "call has", "calls have", "the call buffers were full when the return addresses above came " +
			"(raise --call-buffer: 256M)"},
		{u.More, "call has", "calls have", "the program calls CUDA in more places than are kept"},
		{c.callers.Left(), "place of calls has", "places of calls have",
			"new ones came faster than the program's files could be read"},
	} {
		if x.n > 0 {
			c.report.miss(0, fmt.Sprintf("%s no caller: %s", figures.Count(x.n, x.one, x.many), x.why))
		}
	}
}

// cost says how much time recording has cost so far.
func (c *calls) cost() string {
	return costText(c.seen.Load(), time.Duration(c.perCall.Load()))
}

// close removes every probe.
func (c *calls) close() {
	c.beside.Wait()
	if c.prober == nil {
		return
	}
	if err := c.prober.Close(); err != nil {
		c.report.say("could not remove every probe: " + err.Error())
	}
}
