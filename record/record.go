// Package record runs a program, or attaches to running ones, and records their CUDA calls and
// GPU work. Options go in; a log and the program's exit code come out.
//
// The recorder does as little as it can. Calls come from uprobes through mapped memory (package
// probe). GPU work comes from the injected library through a socket (package cupti). Both go to
// the log as they come (package tracelog). Whatever breaks on the way, the program runs on; a
// note in the log and a line for the person say what is missing.
//
//	record.go        a recording from start to end
//	program.go       the program that is run; attach.go: processes that already run
//	calls.go         calls, from package probe; package turns: one process after the other is probed
//	chosen.go        which ranks are recorded
//	injection.go     GPU work, from package cupti; callsites.go: where calls were made, from package callers
//	metrics.go       samples of GPUs and processes, from package gpumetrics
//	tracees.go       the processes that are recorded, and how each ended
//	unseen.go        processes that use CUDA and are not recorded
//	stragglers.go    processes that outlive the program
//	signals.go       Ctrl-C and other signals
//	descriptors.go   room for open files
//	logfile.go       the log on disk; outputfiles.go: names of files
//	report.go        what a person is told, and why a log is not complete
//	cost.go          what recording itself costs
//	newest.go        files of the newest part of a recording that goes on
package record

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"sync"
	"time"

	"github.com/cudatrace/cudatrace/record/invoker"
	"github.com/cudatrace/cudatrace/record/probe"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// rescanInterval is the time between two looks for CUDA libraries that a process opens late.
const rescanInterval = 200 * time.Millisecond

// clocksInterval is the time between two readings of the host's clocks. Logs of several hosts are aligned by them.
const clocksInterval = 5 * time.Second

// A recording is one run of the recorder.
type recording struct {
	opts      Options
	log       *logFile
	report    *report
	tracees   *tracees
	calls     *calls
	injection *injection
	metrics   metrics
	newest    *newest       // nil unless only the newest part is kept
	program   *program      // nil when attached to running processes
	opened    chan struct{} // closed when calls can be probed
	used      chan struct{} // closed when delay and duration begin to count
	resumed   bool          // the delay is over
	closing   sync.Once
	endWatch  func() // ends the look for processes that run unrecorded
	ctx       context.Context
	cancel    context.CancelFunc
}

// Run starts the program and records until the program and every process of its tree that uses
// CUDA have ended. An error says why the program could not be started (a *StartError), or why the
// log could not be created. Once the program runs, a failure is a line for the person, not an
// error.
func Run(o Options) (res Result, err error) {
	path, err := LookProgram(o.Program)
	if err != nil {
		return Result{}, err
	}
	if o.leavesOut() {
		return Result{}, runUnrecorded(path, o)
	}
	if err := checkFiles(FilesToRecord); err != nil {
		o.Say("nothing is recorded: " + err.Error())
		return Result{}, runUnrecorded(path, o)
	}
	signals := watchSignals(true)
	defer func() {
		if res.program == nil {
			signal.Stop(signals)
		}
	}()
	r, err := newRecording(o)
	if err != nil {
		return Result{}, err
	}
	defer r.cancel()
	defer r.close()
	user := invoker.Find()
	r.injection.open(user)
	r.metrics.start(o, user, r.tracees, r.report)
	go func() { // beside the program's start; the first process that uses CUDA waits for it
		r.calls.open(r.ctx, r.injection.registered)
		close(r.opened)
	}()
	r.program, err = r.start(path, user)
	<-r.opened
	if err != nil {
		r.discard()
		return Result{}, err
	}
	return r.follow(signals), nil
}

// newRecording creates the log. It opens nothing else.
func newRecording(o Options) (*recording, error) {
	o.complete()
	log, err := createLog(o)
	if err != nil {
		return nil, err
	}
	r := &recording{opts: o, log: log, opened: make(chan struct{}), used: make(chan struct{}), report: &report{log: log.Writer, say: o.Say}}
	r.calls = newCalls(o, log.Writer, r.report)
	r.tracees = newTracees(log.Writer, r.calls.exit)
	r.tracees.bare = o.NoMetadata
	r.injection = &injection{opts: o, report: r.report, tracees: r.tracees, calls: r.calls, metrics: &r.metrics, chosen: chosen{list: o.Ranks, pids: o.PIDs}, opened: r.opened, used: sync.OnceFunc(func() { close(r.used) })}
	r.calls.nameless = r.injection.nameless
	r.injection.paused.Store(o.Delay > 0)
	if log.ring != nil {
		r.newest = newNewest(o, log.ring, r.report, r.owing)
		r.tracees.left = r.newest.crashed
	}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	if o.Opened != nil {
		o.Opened(log.reading)
	}
	return r, nil
}

// owing lists whose records may be on their way: the calls, as 0, and processes.
func (r *recording) owing() []uint32 {
	pids := r.tracees.owing()
	if r.calls.probed {
		pids = append(pids, 0)
	}
	return pids
}

// start starts the program, with the variables by which the driver loads the library into it.
func (r *recording) start(path string, as *invoker.Invoker) (*program, error) {
	env := os.Environ()
	if r.injection.server != nil {
		env = r.injection.server.Environ(env)
	}
	p, err := startProgram(path, r.opts, env, as)
	if err != nil {
		return nil, err
	}
	r.endWatch = r.injection.watch(p.pid())
	r.log.Add(&tracelog.Meta{Key: tracelog.MetaPID, Value: strconv.Itoa(p.pid())})
	if r.opts.OutputOf != nil {
		r.rename(r.opts.OutputOf(p.pid()))
	}
	return p, nil
}

// rename gives the files another path. Where that fails they keep the one that they have.
func (r *recording) rename(output string) {
	o := r.opts
	o.Output = output
	if err := r.log.rename(o); err != nil {
		r.report.say(fmt.Sprintf("%v; the log will be %s", err, r.log.path))
		return
	}
	r.opts = o
	if r.newest != nil {
		r.newest.opts.Output = output
	}
}

// follow records until the program and every process of its tree that uses CUDA have ended, or
// until a signal or the time stops recording. After the time the program runs on: Result.Wait waits
// for it.
func (r *recording) follow(signals chan os.Signal) Result {
	res := Result{Output: r.opts.Output}
	if r.opts.FromStart {
		r.injection.used()
	}
	go r.program.wait()
	over := r.idle()
	stop := r.watchStop(signals, r.program, over)
	early := r.wait(over, stop)
	r.endWatch()
	switch early {
	case notEarly:
		res.ExitCode = r.program.exitStatus()
		r.finish(&res, early)
	case stopByTime:
		r.finish(&res, early)
		r.close()
		res.program, res.signals = r.program, signals
	case stopBySignal:
		r.finish(&res, early)
		res.ExitCode = 128 + int(stop.signal.Load())
		if isClosed(r.program.ended) {
			res.ExitCode = r.program.exitStatus()
		}
	}
	return res
}

// idle returns a channel that is closed when nothing of the program's tree is left to record.
func (r *recording) idle() <-chan struct{} {
	idle := make(chan struct{})
	go func() {
		defer close(idle)
		<-r.program.ended
		switch server := r.injection.server; {
		case server == nil || isClosed(r.ctx.Done()): // the recording has ended already
		case r.opts.Wait == WaitProgram:
			server.Wait(stopGrace) // the program's last records may be on their way
		default:
			newStragglers(r.opts.Program, r.program.owner, r.program.since, server.Environ(nil)[0], r.injection.leaves).wait(server.Wait, r.opts.Say)
		}
	}()
	return idle
}

// early says why recording ended while processes were still running.
type early int

const (
	notEarly early = iota
	stopBySignal
	stopByTime
)

// wait waits for the end of the recording. Meanwhile it saves the log, looks for new libraries,
// and starts recording when the delay is over.
func (r *recording) wait(idle <-chan struct{}, stop *stopper) early {
	// A record waits in the injected library and then here, half of the interval in each.
	flush := time.NewTicker(r.opts.FlushInterval / 2)
	defer flush.Stop()
	rescan := time.NewTicker(rescanInterval)
	defer rescan.Stop()
	clocks := time.NewTicker(clocksInterval)
	defer clocks.Stop()
	var begin, over <-chan time.Time // a nil channel never fires
	used := r.used
	if r.newest != nil {
		go r.newest.run(r.calls.source)
	}
	for {
		select {
		case <-idle:
			return notEarly
		case <-stop.wish:
			return stopBySignal
		case <-over:
			return stop.byTime()
		case <-r.opts.Stop:
			return stop.byTime()
		case <-used:
			used = nil
			begin, over = r.schedule()
		case <-begin:
			r.resume()
		case <-flush.C:
			r.calls.noteProgress()
			r.log.save()
		case <-clocks.C:
			r.log.Add(readClocks())
		case <-rescan.C:
			r.calls.rescan(r.tracees.live(), r.ran)
		}
	}
}

// schedule returns channels that fire when recording begins and when it ends, nil for never. The time
// counts from now.
func (r *recording) schedule() (begin, over <-chan time.Time) {
	if r.opts.Delay > 0 {
		begin = time.After(r.opts.Delay)
	}
	if r.opts.Duration > 0 {
		over = time.After(r.opts.Delay + r.opts.Duration)
	}
	return begin, over
}

// resume starts recording after a delay: GPU work first, so that no recorded call lacks its work.
func (r *recording) resume() {
	r.resumed = true
	r.injection.resume()
	r.calls.pause(false)
	r.metrics.resume()
}

// programPID is the PID of the program that cudatrace has started, 0 if there is none.
func (r *recording) programPID() uint32 {
	if r.program == nil {
		return 0
	}
	return uint32(r.program.pid())
}

// finish closes the sources and then the log: the injected libraries flush, the buffers of calls
// are emptied, the log gets its end.
func (r *recording) finish(res *Result, why early) {
	res.Early = why != notEarly
	if res.Early || r.opts.Wait == WaitProgram || r.program == nil {
		r.calls.pause(true) // before GPU work, so that no recorded call lacks its work
		r.injection.pause()
		r.injection.stop()
	}
	if why == stopBySignal && r.program != nil {
		r.report.miss(0, "recording was stopped before the program ended")
	}
	r.calls.finish()
	r.metrics.end()
	ends := r.ends()
	if r.newest != nil {
		r.log.why = r.newest.finish(r.programPID())
	}
	res.Others = r.injection.others()
	if x, known := ends[r.mainPID()]; known {
		res.Ended = x.Words()
		r.log.Add(&tracelog.Meta{Key: tracelog.MetaEnded, Value: res.Ended})
	}
	if r.tracees.none() {
		if r.program != nil {
			res.Unseen = r.injection.whyNothing(r.program.path)
			res.Watched = r.injection.watched(r.program)
		}
		r.discard()
		return
	}
	r.finishTracees(res, ends)
	r.remarkEmpty()
	if res.Others != "" {
		r.report.note(0, tracelog.NoteInfo, res.Others)
	}
	r.report.note(0, tracelog.NoteInfo, r.calls.cost())
	r.log.finish(r.report.missing.list(), res)
}

// finishTracees logs the end of every process, and reports the processes whose last records are
// missing.
func (r *recording) finishTracees(res *Result, ends map[uint32]probe.Exit) {
	for _, reason := range r.tracees.finish(ends, res.Early) {
		r.report.missing.add(reason)
	}
}

// mainPID is the PID of the program, or of the only process that is attached to; 0 if there are several.
func (r *recording) mainPID() uint32 {
	if len(r.opts.PIDs) == 1 {
		return uint32(r.opts.PIDs[0])
	}
	return r.programPID()
}

// ends says how the program has ended, or processes that were attached to, as far as it is known.
func (r *recording) ends() map[uint32]probe.Exit {
	known := map[uint32]probe.Exit{}
	if r.program != nil {
		if x, ended := r.program.exit(); ended {
			known[r.programPID()] = x
		}
	}
	for _, pid := range r.opts.PIDs {
		if x, ok := r.calls.exit(uint32(pid)); ok && x.Final {
			known[uint32(pid)] = x
		}
	}
	return known
}

// remarkEmpty says why nothing was recorded although the program used CUDA.
func (r *recording) remarkEmpty() {
	switch {
	case r.opts.Delay > 0 && !r.resumed:
		r.report.remark(0, fmt.Sprintf("nothing was recorded: the recording ended before --delay %s was over", r.opts.Delay))
	case r.opts.CaptureRange && !r.tracees.worked():
		r.report.remark(0, "no GPU work was recorded: the program did none between cudaProfilerStart and cudaProfilerStop, or called neither")
	case r.opts.CaptureNVTX.Name != "" && !r.tracees.worked():
		r.report.remark(0, fmt.Sprintf("no GPU work was recorded: the program did none in an NVTX range %s, or had no such range; see 'cudatrace help record' for how to name its domain", r.opts.CaptureNVTX))
	}
}

// discard removes the log of a program that did not use CUDA.
func (r *recording) discard() {
	r.calls.beside.Wait()
	r.metrics.end()
	r.log.discard()
}

// close removes the probes, the library and its socket. A second call does nothing.
func (r *recording) close() {
	r.closing.Do(func() {
		r.injection.close()
		r.calls.close()
	})
}
