package record

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/cudatrace/cudatrace/record/cudaapi"
	"github.com/cudatrace/cudatrace/record/cupti"
	"github.com/cudatrace/cudatrace/record/probe"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// rescanInterval is how soon a CUDA library that a process opens late is probed.
const rescanInterval = 200 * time.Millisecond

// openProber loads the uprobe programs. Without them calls come from CUPTI's API
// records alone.
func (r *recorder) openProber() {
	if r.opts.Calls == CallsCUPTI || r.opts.Calls == CallsNone {
		r.openWatcher()
		return
	}
	p, err := probe.Open(probe.Options{
		Functions: r.opts.Functions, Symbols: true,
		Paused: r.opts.Delay > 0, CaptureRange: r.opts.CaptureRange,
		OnCUPTIClient: r.foreignClient, RingBytes: r.opts.RingBytes, WatchExits: len(r.opts.PIDs) == 0,
	})
	if err != nil {
		r.notProbed(err)
		return
	}
	r.prober, r.probed = p, true
	if err := p.Degraded(); err != nil {
		r.log.Note(&tracelog.Note{Time: now(), Severity: tracelog.NoteInfo, Text: err.Error()})
	}
	for _, f := range r.opts.Functions {
		r.log.Function(&tracelog.Function{
			ID: uint32(f.ID), Name: f.Name, Library: f.Library.String(), Args: cudaapi.ArgSpec(f),
		})
	}
	go r.drain(p)
}

// calibrate measures what a probed call costs, for the summary to say what recording
// cost the program. It runs beside the program's start.
func (r *recorder) calibrate() {
	if !r.probed {
		return
	}
	cost, err := r.prober.Calibrate()
	if err != nil {
		r.log.Note(&tracelog.Note{Time: now(), Severity: tracelog.NoteInfo, Text: err.Error()})
		return
	}
	r.callCost.Store(cost.Nanoseconds())
	r.log.Meta(&tracelog.Meta{Key: tracelog.MetaCallCost, Value: strconv.FormatInt(cost.Nanoseconds(), 10)})
}

// A countingLog counts the calls that probes saw on their way to the log, which it has to
// itself for a run of them. It is for one goroutine.
type countingLog struct {
	log   *tracelog.Writer
	calls *atomic.Uint64
	run   uint64 // calls of the run so far
	held  tracelog.Calls
}

func (r *recorder) countingLog() *countingLog { return &countingLog{log: r.log, calls: &r.seen} }

func (l *countingLog) Begin() { l.held = l.log.Calls() }

func (l *countingLog) End() {
	l.held.Release()
	l.held = tracelog.Calls{}
	l.calls.Add(l.run)
	l.run = 0
}

func (l *countingLog) Call(c *tracelog.Call) {
	if l.held == (tracelog.Calls{}) {
		l.calls.Add(1)
		l.log.Call(c)
		return
	}
	l.run++
	l.held.Add(c)
}

func (l *countingLog) Thread(t *tracelog.Thread) { l.aside(func() { l.log.Thread(t) }) }
func (l *countingLog) Symbol(s *tracelog.Symbol) { l.aside(func() { l.log.Symbol(s) }) }

// aside does something else with the log, in the midst of a run too.
func (l *countingLog) aside(f func()) {
	if l.held == (tracelog.Calls{}) {
		f()
		return
	}
	l.End()
	f()
	l.Begin()
}

// noteCost says in the log, and so in the trace, what recording cost as far as we know.
// What CUPTI says of itself is on a track of its own.
func (r *recorder) noteCost() {
	text := fmt.Sprintf("cost of recording: %.2f s of processor time in the recorder", ownCPU().Seconds())
	if seen, cost := r.seen.Load(), r.callCost.Load(); cost > 0 && seen > 0 {
		text += fmt.Sprintf("; about %v in the program for %d probed calls of %v each, as measured at the start",
			(time.Duration(seen) * time.Duration(cost)).Round(time.Microsecond), seen, time.Duration(cost))
	}
	r.log.Note(&tracelog.Note{Time: now(), Severity: tracelog.NoteInfo, Text: text})
}

// openWatcher loads what sees the ends of processes and other CUPTI clients, without
// probes on calls. Where rights or a kernel for it are missing, the injected library
// sees most of both by itself.
func (r *recorder) openWatcher() {
	p, err := probe.Open(probe.Options{RingBytes: watcherRing, OnCUPTIClient: r.foreignClient, WatchExits: true})
	if err != nil {
		r.log.Note(&tracelog.Note{Time: now(), Severity: tracelog.NoteInfo, Text: "the ends of processes are not watched: " + err.Error()})
		return
	}
	r.prober = p
	go r.drain(p)
}

// watcherRing is room for the few events of a prober without functions, in bytes.
const watcherRing = 64 << 10

// WatchExit has a process hand over its last GPU records when it is about to end in a
// way that it can't see itself.
func (r *recorder) WatchExit(p cupti.Peer, signal uint32, handler uint64) {
	if r.prober == nil {
		return
	}
	text := "all its signals have handlers of its own"
	if signal != 0 {
		err := r.prober.WatchExit(int(p.PID), int(signal), handler)
		if err == nil {
			return
		}
		text = err.Error()
	}
	// Only an end by _exit, exec or a handler of its own loses anything; then it is said.
	r.log.Note(&tracelog.Note{Time: now(), PID: p.PID, Severity: tracelog.NoteInfo, Text: fmt.Sprintf("the end of process %d is not watched: %s", p.PID, text)})
}

// notProbed says why calls are not probed and where they come from instead.
func (r *recorder) notProbed(err error) {
	text := "calls are not probed: " + err.Error()
	var denied *probe.PermissionError
	if r.opts.Calls == CallsAuto && len(r.opts.PIDs) == 0 {
		r.opts.Calls = CallsCUPTI
		text += "; they come from CUPTI instead, without arguments"
		if errors.As(err, &denied) {
			// CUPTI gives every call that was asked for: nothing is missing.
			r.remark(0, text)
			return
		}
	}
	r.miss(0, text)
}

// drain hands calls to the log until the recording ends.
func (r *recorder) drain(p *probe.Prober) {
	if err := p.Run(r.ctx, r.countingLog()); err != nil {
		r.miss(0, "calls are no longer recorded: "+err.Error())
	}
}

// attach probes a process.
func (r *recorder) attach(pid uint32) {
	if r.prober == nil {
		return
	}
	a, err := r.prober.Attach(int(pid))
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // it has ended: nothing is left to probe
		r.miss(pid, fmt.Sprintf("calls of process %d are not all probed: %v", pid, err))
	}
	for _, l := range a.Libraries {
		if l.New && len(l.Refused) > 0 {
			r.miss(pid, fmt.Sprintf("%d functions of %s are not probed: %s", len(l.Refused), filepath.Base(l.Path), strings.Join(l.Refused[:min(3, len(l.Refused))], ", ")))
		}
	}
}

// finishProber delivers what the buffers still hold and the calls that have
// not returned.
func (r *recorder) finishProber() {
	r.beside.Wait()
	if r.prober == nil {
		return
	}
	if _, err := r.prober.Finish(r.countingLog()); err != nil {
		r.miss(0, "calls may be missing: "+err.Error())
	}
	r.loseCalls()
}

// loseCalls puts the calls that were lost since the last time into the log.
func (r *recorder) loseCalls() {
	lost, err := r.prober.LostSince()
	if err != nil {
		r.miss(0, "lost calls could not be counted: "+err.Error())
	}
	for _, l := range lost {
		r.log.Lost(&l)
	}
}

// foreignClient is told of every registration with CUPTI. CUPTI serves the client
// that came last: from then on its records are lost to us.
func (r *recorder) foreignClient(pid, _ uint32, _, request uint64) {
	if r.server == nil {
		return // attached by PID: CUPTI's records were never ours
	}
	r.mu.Lock()
	own := false
	for _, s := range r.sessions {
		own = own || s.pid == pid && s.request == request
	}
	for _, s := range r.sessions {
		s.foreign = s.foreign || s.pid == pid && !own
	}
	r.mu.Unlock()
	if !own {
		r.server.Rival(pid)
		r.miss(pid, fmt.Sprintf("process %d: another CUPTI client (PyTorch's profiler, for instance) has taken over the GPU records; calls go on being recorded", pid))
	}
}

// rescan probes CUDA libraries that processes have opened since.
func (r *recorder) rescan() {
	if r.prober == nil {
		return
	}
	for _, s := range r.live() {
		if _, err := r.prober.Rescan(int(s.pid)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			r.miss(s.pid, fmt.Sprintf("calls of process %d are not all probed: %v", s.pid, err))
		}
	}
}

// pause stops recording while processes run on, calls first: what was called is to
// have its GPU work.
func (r *recorder) pause() {
	r.paused.Store(true)
	if r.prober != nil {
		if err := r.prober.Pause(); err != nil {
			r.miss(0, err.Error())
		}
	}
	if r.server != nil {
		r.server.Pause()
	}
}

// resumeWait is time for the injected libraries to switch records on.
const resumeWait = 50 * time.Millisecond

// resume begins to record after a delay, GPU work first.
func (r *recorder) resume() {
	r.paused.Store(false)
	r.resumed = true
	if r.server != nil {
		r.server.Resume()
		time.Sleep(resumeWait)
	}
	if r.prober != nil {
		if err := r.prober.Resume(); err != nil {
			r.miss(0, err.Error())
		}
	}
}
