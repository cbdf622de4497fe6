// Package record runs a program, or attaches to running ones, and records their CUDA calls and
// GPU work. Options go in; a log and the program's exit code come out.
//
// The recorder does as little as it can. Calls come from uprobes through mapped memory (package
// probe). GPU work comes from the injected library through a socket (package cupti). Both go to
// the log as they come (package tracelog). Whatever breaks on the way, the program runs on; a
// note in the log and a line for the person say what is missing.
//
//	record.go        a recording from start to end
//	session.go       the loop that decides what happens to processes, and its events
//	process.go       what is known of each process, and the table of its life
//	listener.go      what the library in a process says; chosen.go: which ranks are recorded
//	python.go        the Python interpreter of a process, from package pyframes
//	sampling.go      what threads do, from package threads
//	injection.go     the library's server, and what it is told to record: package cupti; pcie.go: GPUs' PCIe links
//	calls.go         calls, from package probe; queue.go: one process after the other is probed; package callers: where calls were made
//	metrics.go       samples of GPUs and processes, from package gpumetrics
//	program.go       the program that is run; attach.go: processes that already run
//	unseen.go        processes that use CUDA and are not recorded: the kernel tells who opens the driver's device
//	orphans.go    processes that outlive the program
//	signals.go       Ctrl-C and other signals
//	descriptors.go   room for open files
//	logfile.go       the log on disk; outname.go: the names of the files
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
	"time"

	"github.com/cudatrace/cudatrace/record/host"
	"github.com/cudatrace/cudatrace/record/internal/cupti"
	"github.com/cudatrace/cudatrace/record/internal/probe"
	"github.com/cudatrace/cudatrace/record/invoker"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// rescanInterval is the time between two looks for CUDA libraries that a process opens late.
const rescanInterval = 200 * time.Millisecond

// clocksInterval is the time between two readings of the host's clocks. Logs of several hosts are aligned by them.
const clocksInterval = 5 * time.Second

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
	s, err := newSession(o)
	if err != nil {
		return Result{}, err
	}
	defer s.cancel()
	defer s.close()
	user := invoker.Find()
	s.remarkPython()
	s.remarkOperators()
	s.startThreads()
	s.startMemory()
	s.preparing.Go(func() { // beside the program's start; the first process that uses CUDA waits for it
		s.calls.open(s, false)
		s.tell(opened{})
	})
	s.listen(user)
	s.metrics.start(s, user)
	if s.program, err = s.start(path, user); err != nil {
		close(s.over)
		s.preparing.Wait()
		s.discard()
		return Result{}, err
	}
	s.watch()
	go s.program.wait()
	over := s.idle()
	go s.heed(signals, over)
	if s.opts.FromStart {
		s.use()
	}
	s.loop(over)
	res = Result{Output: s.output}
	s.finish(&res)
	switch s.early {
	case notEarly:
		res.ExitCode = s.program.exitStatus()
	case stopByTime: // the program runs on: Result.Wait waits for it
		s.close()
		res.program, res.signals = s.program, signals
	case stopBySignal:
		res.ExitCode = 128 + int(s.signal)
		if isClosed(s.program.ended) {
			res.ExitCode = s.program.exitStatus()
		}
	}
	return res, nil
}

// newSession creates the log. It opens nothing else.
func newSession(o Options) (*session, error) {
	o.complete()
	log, err := createLog(o)
	if err != nil {
		return nil, err
	}
	s := &session{opts: o, log: log, report: &report{log: log.Writer, say: o.Say}, output: o.Output,
		events: make(chan event), decided: make(chan struct{}), ending: make(chan struct{}), over: make(chan struct{}),
		paused: o.Delay > 0}
	s.calls = newCalls(o, log.Writer, s.report)
	s.pythons = &cupti.PythonLog{BareFiles: o.NoMetadata}
	if s.readsOperators() {
		s.pythons.Generated = s.readGenerated
	}
	if log.ring != nil {
		s.newest.keepIn(log.ring)
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	if o.Opened != nil {
		o.Opened(log.reading)
	}
	return s, nil
}

// start starts the program, with the variables by which the driver loads the library into it.
func (s *session) start(path string, as *invoker.Invoker) (*program, error) {
	env := os.Environ()
	if s.server != nil {
		env = s.server.Environ(env)
	}
	var p *program
	var err error
	s.unseen.start(func() { p, err = startProgram(path, s.opts, env, as) })
	if err != nil {
		return nil, err
	}
	s.log.Add(&tracelog.Meta{Key: tracelog.MetaPID, Value: strconv.Itoa(p.pid())})
	if s.opts.OutputOf != nil {
		s.rename(s.opts.OutputOf(p.pid()))
	}
	return p, nil
}

// rename gives the files another path. Where that fails they keep the one that they have.
func (s *session) rename(output string) {
	o := s.opts
	o.Output = output
	if err := s.log.rename(o); err != nil {
		s.report.say(fmt.Sprintf("%v; the log will be %s", err, s.log.path))
		return
	}
	s.output = output
}

// idle returns a channel that is closed when nothing of the program's tree is left to record.
func (s *session) idle() <-chan struct{} {
	idle := make(chan struct{})
	go func() {
		defer close(idle)
		<-s.program.ended
		switch {
		case s.server == nil || isClosed(s.ctx.Done()): // the recording has ended already
		case s.opts.Wait == WaitProgram:
			s.server.Wait(stopGrace) // the program's last records may be on their way
		default:
			newOrphans(s.opts.Program, s.program.owner, s.program.since, s.server.Environ(nil)[0], s.isLeft).wait(s.server.Wait,
				s.opts.Say)
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

// save saves the log now and then, and reads the clocks, until recording ends.
func (s *session) save() {
	// A record waits in the injected library and then here, half of the interval in each.
	flush := time.NewTicker(s.opts.FlushInterval / 2)
	defer flush.Stop()
	clocks := time.NewTicker(clocksInterval)
	defer clocks.Stop()
	for {
		select {
		case <-s.ending:
			return
		case <-flush.C:
			s.calls.noteProgress()
			s.log.save()
		case <-clocks.C:
			s.log.Add(readClocks())
		}
	}
}

// programPID is the PID of the program that cudatrace has started, 0 if there is none.
func (s *session) programPID() uint32 {
	if s.program == nil {
		return 0
	}
	return uint32(s.program.pid())
}

// stop closes the sources: the injected libraries flush, the buffers of calls are emptied. The loop takes their last
// events meanwhile.
func (s *session) stop() {
	s.preparing.Wait()
	close(s.ending)
	s.unseen.wake()
	s.beside.Wait()
	if s.early != notEarly || s.opts.Wait == WaitProgram || s.program == nil {
		s.calls.pause(true) // before GPU work, so that no recorded call lacks its work
		s.stopLibraries()
	}
	if s.early == stopBySignal && s.program != nil {
		last := "the program"
		if isClosed(s.program.ended) {
			last = "the last of the program's processes"
		}
		s.report.miss(0, fmt.Sprintf("recording was stopped before %s ended", last))
	}
	s.endThreads()
	s.endMemory()
	s.calls.finish()
	s.metrics.end()
	s.log.why = s.endNewest()
}

// finish gives the log its end. The loop has ended.
func (s *session) finish(res *Result) {
	s.later.Wait()
	res.Early = s.early != notEarly && s.program != nil
	res.Others = s.others(&s.opts.Ranks)
	if x, known := s.exit(s.mainPID()); known {
		res.Ended = x.Words()
		s.log.Add(&tracelog.Meta{Key: tracelog.MetaEnded, Value: res.Ended})
	}
	if len(s.chosen()) == 0 {
		if s.program != nil {
			res.Unseen = s.whyNothing(s.program.path)
			res.Unknown = s.unknown()
		}
		s.discard()
		return
	}
	s.log.describeIfKnown(tracelog.MetaUnknown, s.unknown())
	ends, missing := s.lastWords(s.exit, host.Monotonic())
	for _, e := range ends {
		e.AddTo(s.log.Writer)
	}
	if !res.Early {
		for _, reason := range missing {
			s.report.note(0, tracelog.NoteWarning, reason)
			s.report.missing.addReason(reason)
		}
	}
	s.remarkEmpty()
	if res.Others != "" {
		s.report.note(0, tracelog.NoteInfo, res.Others)
	}
	s.report.note(0, tracelog.NoteInfo, s.calls.cost())
	s.log.finish(s.report.missing.list(), res)
}

// mainPID is the PID of the program, or of the only process that is attached to; 0 if there are several.
func (s *session) mainPID() uint32 {
	if len(s.opts.PIDs) == 1 {
		return uint32(s.opts.PIDs[0])
	}
	return s.programPID()
}

// exit says how a process has ended; ok is false while it runs, or if that is not known.
func (s *session) exit(pid uint32) (x probe.Exit, ok bool) {
	seen, ok := s.calls.exit(pid)
	if s.program != nil && pid == s.programPID() {
		if x, ended := s.program.exit(); ended {
			x.Time, x.Exec, x.Traced = seen.Time, seen.Exec, seen.Traced
			return x, true
		}
	}
	return seen, ok && seen.Final
}

// remarkEmpty says why nothing was recorded although the program used CUDA.
func (s *session) remarkEmpty() {
	switch {
	case s.opts.Delay > 0 && !s.resumed:
		s.report.remark(0, fmt.Sprintf("nothing was recorded: the recording ended before --delay %s was over", s.opts.Delay))
	case s.opts.CaptureRange && !s.worked():
		s.report.remark(0, "no GPU work was recorded: the program did none between cudaProfilerStart and cudaProfilerStop, "+
			"or called neither")
	case s.opts.CaptureSteps.Count > 0 && !s.worked() && s.otherSteps.Load():
		s.report.remark(0, fmt.Sprintf("no GPU work was recorded: there are NVTX ranges named %s, but the program "+
			"did none in "+
			"step %s: name steps that it reaches", s.opts.CaptureNVTX, s.opts.CaptureSteps))
	case s.opts.CaptureSteps.Count > 0 && !s.worked():
		s.report.remark(0, fmt.Sprintf("no GPU work was recorded: no NVTX range named %s was seen; mark the loop with "+
			"torch.cuda.nvtx.range(f'step {i}') or cudatrace.step(), or name the ranges that it has with --step",
			s.opts.CaptureNVTX))
	case !s.opts.CaptureNVTX.None() && !s.worked():
		s.report.remark(0, fmt.Sprintf("no GPU work was recorded: the program did none in an NVTX range that %s matches, "+
			"or had no such range", s.opts.CaptureNVTX))
	}
}

// discard removes the log of a program that did not use CUDA.
func (s *session) discard() {
	s.endThreads()
	s.memory.end()
	s.calls.beside.Wait()
	s.metrics.end()
	s.log.discard()
}

// close removes the probes, the library and its socket. A second call does nothing.
func (s *session) close() {
	s.closing.Do(func() {
		s.closeServer()
		s.workers.Wait()
		s.calls.close()
	})
}
