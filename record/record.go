// Package record runs a program, or attaches to running ones, and writes down
// what they do with CUDA.
//
// The recorder does as little as it can: calls come from uprobes through mapped
// memory, GPU work from the injected library through a socket, and both go
// to the log as they come. Whatever breaks on the way, the program runs on; a
// note in the log and a line for the person say what is missing.
package record

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cudatrace/cudatrace/record/cupti"
	"github.com/cudatrace/cudatrace/record/probe"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// recorder is one recording under way.
type recorder struct {
	opts    Options
	log     *tracelog.Writer
	partial string
	opened  chan struct{} // closed when prober is what it will be
	prober  *probe.Prober // nil without the rights for eBPF
	probed  bool          // calls are probed, not only the ends of processes watched
	server  *cupti.Server // nil when no process can be injected
	cmd     *exec.Cmd     // nil when attached to running processes
	ctx     context.Context
	invoker *invoker // who called sudo; nil without sudo
	closing sync.Once
	beside  sync.WaitGroup // what uses prober and log beside the rest

	seen      atomic.Uint64 // calls by probes
	callCost  atomic.Int64  // of a probed call, ns; 0 when not measured
	drained   uint64        // calls up to here are in the log, ns
	unwritten bool          // the last flush failed

	paused   atomic.Bool // before the delay is over, and at the end
	resumed  bool        // the delay is over
	mu       sync.Mutex
	sessions map[uint64]*session // by Peer.ID; attached processes by PID
	missing  missing
}

// Run starts the program, records it until it and every process of its tree
// that uses CUDA has ended, and finishes the log. The error says why the program
// could not be started (a *StartError) or the log not be opened; once the
// program runs, failures are lines, not errors.
func Run(o Options) (Result, error) {
	path, err := lookProgram(o.Program)
	if err != nil {
		return Result{}, err
	}
	r, cancel := newRecorder(o)
	defer cancel()
	signals := watchSignals(true)
	defer signal.Stop(signals)
	if err := r.openLog(); err != nil {
		return Result{}, err
	}
	defer r.closeAll()
	r.openServer()
	go func() { // while the program starts; the first process that uses CUDA waits for it
		r.openProber()
		r.beside.Go(r.calibrate)
		close(r.opened)
	}()
	err = r.start(path)
	<-r.opened
	if err != nil {
		r.discard()
		return Result{}, err
	}
	return r.follow(signals), nil
}

func newRecorder(o Options) (*recorder, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	o.complete()
	r := &recorder{opts: o, ctx: ctx, invoker: findInvoker(), sessions: map[uint64]*session{}, opened: make(chan struct{})}
	r.paused.Store(o.Delay > 0)
	return r, cancel
}

func (r *recorder) start(path string) error {
	cmd := exec.Command(path, r.opts.Args...)
	cmd.Args[0] = r.opts.Program
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = os.Environ()
	if r.server != nil {
		cmd.Env = r.server.Environ(cmd.Env)
	}
	r.invoker.apply(cmd)
	if err := cmd.Start(); err != nil {
		return startError(r.opts.Program, err)
	}
	r.cmd = cmd
	r.log.Add(&tracelog.Meta{Key: tracelog.MetaPID, Value: strconv.Itoa(cmd.Process.Pid)})
	return nil
}

// follow records until the program and every process of its tree that talks to
// us has ended, or until recording is to stop; the program's exit code is waited
// for unless a signal said to stop.
func (r *recorder) follow(signals <-chan os.Signal) Result {
	var res Result
	ended := make(chan struct{})
	go func() {
		// A program that ends with an error is not ours to report: its exit
		// code says it.
		_ = r.cmd.Wait()
		close(ended)
	}()
	over := r.idle(ended)
	stop := watchStop(signals, r.cmd, ended, over, r.opts.Say)
	early := r.wait(over, stop)
	if early == notEarly {
		res.ExitCode = exitStatus(r.cmd.ProcessState)
		r.finish(&res, early)
		return res
	}
	r.finish(&res, early)
	if early == stopByTime {
		r.closeAll()
		select {
		case <-ended:
		case <-stop.wish:
		}
	}
	res.ExitCode = 128 + int(stop.signal.Load())
	if isClosed(ended) {
		res.ExitCode = exitStatus(r.cmd.ProcessState)
	}
	return res
}

// early says why recording ends while processes still run.
type early int

const (
	notEarly early = iota
	stopBySignal
	stopByTime
)

// wait lets time pass until all is over, and does what is due meanwhile.
func (r *recorder) wait(idle <-chan struct{}, stop *stopper) early {
	// Half of it for us, half for the injected library: a record waits for both.
	flush := time.NewTicker(r.opts.FlushInterval / 2)
	defer flush.Stop()
	rescan := time.NewTicker(rescanInterval)
	defer rescan.Stop()
	begin, over := r.schedule()
	for {
		select {
		case <-idle:
			return notEarly
		case <-stop.wish:
			return stopBySignal
		case <-over:
			return stopByTime
		case <-begin:
			r.resume()
		case <-flush.C:
			r.flush()
		case <-rescan.C:
			r.rescan()
		}
	}
}

// flush brings to the disk what was recorded, and says up to when that is all of
// the calls. A disk that is full is told of once.
func (r *recorder) flush() {
	if r.probed {
		r.loseCalls()
		if until := r.prober.DrainedUntil(); until > r.drained {
			r.drained = until
			r.log.Add(&tracelog.Flushed{Until: until})
		}
	}
	err := r.log.Flush()
	if err != nil && !r.unwritten {
		r.opts.Say(fmt.Sprintf("%v; recording goes on, what can't be written is counted as lost", outputError(r.opts.Output+LogSuffix, err)))
	}
	r.unwritten = err != nil
}

// schedule gives the times at which recording begins and is over; a channel that
// is nil never fires.
func (r *recorder) schedule() (begin, over <-chan time.Time) {
	if r.opts.Delay > 0 {
		begin = time.After(r.opts.Delay)
	}
	if r.opts.Duration > 0 {
		over = time.After(r.opts.Delay + r.opts.Duration)
	}
	return begin, over
}

// idle is closed when the program has ended and nothing of its tree is left to record.
func (r *recorder) idle(ended <-chan struct{}) <-chan struct{} {
	idle := make(chan struct{})
	go func() {
		defer close(idle)
		<-ended
		switch {
		case r.server == nil:
		case r.opts.Wait == WaitProgram:
			r.server.Wait(stopGrace) // its last records may be on their way
		default:
			r.waitForRest()
		}
	}()
	return idle
}

// finish closes the sources in the order in which they depend on each other:
// the injected libraries' last flush, the buffers of calls, the log.
func (r *recorder) finish(res *Result, why early) {
	res.Early = why != notEarly
	stop := res.Early || r.opts.Wait == WaitProgram
	if stop {
		r.pause()
	}
	if r.server != nil && stop {
		if left := r.server.StopAll(2 * time.Second); left > 0 {
			r.miss(0, fmt.Sprintf("%d processes did not hand over their last records in time", left))
		}
	}
	if why == stopBySignal && r.cmd != nil {
		r.miss(0, "recording was stopped before the program ended")
	}
	r.finishProber()
	if r.unused() {
		r.discard()
		return
	}
	r.finishSessions(res, why)
	r.remarkEmpty()
	r.finishLog(res)
}

// remarkEmpty says why nothing was recorded of a program that did use CUDA.
func (r *recorder) remarkEmpty() {
	switch {
	case r.opts.Delay > 0 && r.paused.Load() && !r.resumed:
		r.remark(0, fmt.Sprintf("recording had not begun when it ended: --delay %s was not over", r.opts.Delay))
	case r.opts.CaptureRange && !r.worked():
		r.remark(0, "no GPU work was recorded: the program did none between cudaProfilerStart and cudaProfilerStop, or called neither")
	}
}

// worked says whether any process handed over GPU work.
func (r *recorder) worked() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.sessions {
		if s.end.Kernels+s.end.Copies+s.end.Sets > 0 {
			return true
		}
	}
	return false
}

// unused says whether no process used CUDA.
func (r *recorder) unused() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.sessions) == 0
}

// closeAll removes what recording needed; a second call does nothing.
func (r *recorder) closeAll() { r.closing.Do(r.closeSources) }

func (r *recorder) closeSources() {
	r.beside.Wait()
	if r.server != nil {
		if err := r.server.Close(); err != nil {
			r.opts.Say("could not remove everything that recording needed: " + err.Error())
		}
	}
	if r.prober != nil {
		if err := r.prober.Close(); err != nil {
			r.opts.Say("could not remove every probe: " + err.Error())
		}
	}
}

// discard drops a log that holds nothing.
func (r *recorder) discard() {
	r.beside.Wait()
	err := errors.Join(r.log.Close(tracelog.End{}), os.Remove(r.partial))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		r.opts.Say(fmt.Sprintf("could not remove %s: delete it by hand", r.partial))
	}
}
