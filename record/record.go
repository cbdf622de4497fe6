// Package record runs a program and writes down what it does with CUDA.
//
// The recorder does as little as it can: calls come from uprobes through a BPF
// ring buffer, GPU work from the injected library through a socket, and both go
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
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/cudatrace/cudatrace/record/cudaapi"
	"github.com/cudatrace/cudatrace/record/cupti"
	"github.com/cudatrace/cudatrace/record/probe"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// Options say what to record and where to.
type Options struct {
	Program string   // as a person names it: a path, or a name to find in PATH
	Args    []string // without the program
	Output  string   // path of the files without suffix; BaseName makes it
	Version string   // of cudatrace, for the log
	// Say shows a person one line while recording goes on. It is called from
	// several goroutines.
	Say func(line string)
}

// Result says how a recording went.
type Result struct {
	Log      string // path of the finished log; "" when the program used no CUDA
	Partial  string // path of the log as far as it got, when it could not be finished
	ExitCode int    // the program's own, 128+N after signal N
	Stopped  bool   // a signal ended the recording before the program
}

// flushInterval is how often the log's open blocks reach the disk.
const flushInterval = time.Second

// recorder is one recording under way.
type recorder struct {
	opts    Options
	log     *tracelog.Writer
	partial string
	prober  *probe.Prober
	server  *cupti.Server
	cmd     *exec.Cmd
	ctx     context.Context // ends with the recording
	invoker *invoker        // who called sudo; nil without sudo

	mu      sync.Mutex
	seen    map[uint32]bool // processes that said hello
	ends    map[uint32]tracelog.ProcessEnd
	missing []string // why the log is not complete
	told    map[string]bool
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
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	r := &recorder{
		opts: o, ctx: ctx, invoker: findInvoker(),
		seen: map[uint32]bool{}, ends: map[uint32]tracelog.ProcessEnd{}, told: map[string]bool{},
	}
	if err := r.openLog(); err != nil {
		return Result{}, err
	}
	r.openProber()
	r.openServer()
	defer r.closeAll()
	signals := watchSignals()
	defer signal.Stop(signals)
	if err := r.start(path); err != nil {
		r.discard()
		return Result{}, err
	}
	return r.follow(signals), nil
}

func (r *recorder) openLog() error {
	final := r.opts.Output + LogSuffix
	for _, path := range []string{final, r.opts.Output + TraceSuffix} {
		if err := checkReplaceable(path); err != nil {
			return err
		}
	}
	r.partial = partialName(final)
	log, err := tracelog.Create(r.partial, tracelog.Options{})
	if err != nil {
		return outputError(final, err)
	}
	r.log = log
	Own(r.partial)
	r.log.Clock(ptr(readClocks()))
	host, _ := os.Hostname() // an unnamed host is shown without a name
	cwd, _ := os.Getwd()     // likewise a folder that is gone
	args := append([]string{r.opts.Program}, r.opts.Args...)
	for _, m := range []tracelog.Meta{
		{Key: tracelog.MetaVersion, Value: r.opts.Version},
		{Key: tracelog.MetaProgram, Value: r.opts.Program},
		{Key: tracelog.MetaArgs, Value: strings.Join(args, "\x00")},
		{Key: tracelog.MetaCwd, Value: cwd},
		{Key: tracelog.MetaHost, Value: host},
		{Key: tracelog.MetaKernel, Value: kernelRelease()},
	} {
		r.log.Meta(&m)
	}
	return nil
}

// openProber loads the uprobe programs. Without them calls come from CUPTI's
// API records alone.
func (r *recorder) openProber() {
	functions := cudaapi.Functions(cudaapi.All)
	p, err := probe.Open(probe.Options{Functions: functions})
	if err != nil {
		r.miss(0, "calls are not probed: "+err.Error())
		return
	}
	r.prober = p
	for _, f := range functions {
		r.log.Function(&tracelog.Function{
			ID: uint32(f.ID), Name: f.Name, Library: f.Library.String(), Args: cudaapi.ArgSpec(f),
		})
	}
	go r.drain(p)
}

// drain hands calls to the log until the recording ends.
func (r *recorder) drain(p *probe.Prober) {
	if err := p.Run(r.ctx, r.log); err != nil {
		r.miss(0, "calls are no longer recorded: "+err.Error())
	}
}

// openServer opens the socket for the injected library. Without it no process is
// found.
func (r *recorder) openServer() {
	if other := cupti.Conflict(os.Environ()); other != "" {
		r.miss(0, other+" is set: another tool (nsys, ncu, compute-sanitizer) has this place, nothing is recorded; leave one of them out or unset the variable")
		return
	}
	o := cupti.Options{Sink: r.log}
	if r.invoker != nil {
		o.Owner = &cupti.Owner{UID: int(r.invoker.uid), GID: int(r.invoker.gid)}
	}
	s, err := cupti.Listen(o)
	if err != nil {
		r.miss(0, "nothing is recorded: "+err.Error())
		return
	}
	r.server = s
	go s.Serve(r)
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
	pid := cmd.Process.Pid
	r.log.Meta(&tracelog.Meta{Key: tracelog.MetaPID, Value: strconv.Itoa(pid)})
	return nil
}

// follow waits for the program and for every process of its tree that still
// talks to us, then finishes the log.
func (r *recorder) follow(signals <-chan os.Signal) Result {
	res := Result{ExitCode: -1}
	done := make(chan struct{})
	go func() {
		// A program that ends with an error is not ours to report: its exit
		// code says it.
		_ = r.cmd.Wait()
		close(done)
	}()
	stop, stopped := stopRequest(signals)
	tick := time.NewTicker(flushInterval)
	defer tick.Stop()
	idle := r.idle(done)
	for waiting := true; waiting; {
		select {
		case <-idle:
			waiting = false
		case <-stop:
			res.Stopped, waiting = true, false
		case <-tick.C:
			r.log.Flush()
		}
	}
	if res.Stopped {
		res.ExitCode = 128 + int(stopped())
	} else {
		res.ExitCode = exitStatus(r.cmd.ProcessState)
	}
	r.finish(&res)
	return res
}

// idle is closed when the program has ended and no process is connected.
func (r *recorder) idle(done <-chan struct{}) <-chan struct{} {
	idle := make(chan struct{})
	go func() {
		defer close(idle)
		<-done
		if r.server == nil {
			return
		}
		if left := r.server.Wait(time.Second); left > 0 {
			r.opts.Say(fmt.Sprintf("%s has ended, but processes that it started still use CUDA; recording until they end, too (Ctrl-C twice stops recording)", r.opts.Program))
		}
		for r.server.Wait(time.Minute) > 0 {
		}
	}()
	return idle
}

// finish closes the sources in the order in which they depend on each other:
// the injected libraries' last flush, the ring buffers, the log.
func (r *recorder) finish(res *Result) {
	if r.server != nil && res.Stopped {
		r.server.StopAll(2 * time.Second)
		r.miss(0, "recording was stopped before the program ended")
	}
	r.finishProber()
	if len(r.seen) == 0 {
		r.discard()
		return
	}
	r.finishProcesses(res)
	r.log.Clock(ptr(readClocks()))
	end := tracelog.End{Time: now(), Complete: 1}
	if len(r.missing) > 0 {
		end.Complete, end.Reason = 0, strings.Join(r.missing, "; ")
	}
	final := r.opts.Output + LogSuffix
	err := r.log.Close(end)
	if err == nil {
		err = os.Rename(r.partial, final)
	}
	if err != nil {
		r.opts.Say(fmt.Sprintf("%v; the log as far as it got is %s", outputError(final, err), r.partial))
		res.Partial = r.partial
		return
	}
	res.Log = final
}

func (r *recorder) finishProber() {
	if r.prober == nil {
		return
	}
	if _, err := r.prober.Finish(r.log); err != nil {
		r.miss(0, "calls may be missing: "+err.Error())
	}
	lost, err := r.prober.Lost()
	if err != nil {
		r.miss(0, "lost calls could not be counted: "+err.Error())
	}
	for _, l := range lost {
		r.log.Lost(&l)
	}
}

// finishProcesses closes every process that said hello.
func (r *recorder) finishProcesses(res *Result) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for pid := range r.seen {
		e, ok := r.ends[pid]
		if !ok {
			e = tracelog.ProcessEnd{PID: pid, Time: now(), Status: -1}
		}
		if int(pid) == r.cmd.Process.Pid && !res.Stopped {
			e.Status = int32(res.ExitCode)
		}
		if e.Complete == 0 && !res.Stopped {
			r.missing = append(r.missing, fmt.Sprintf("process %d ended before its last records were handed over", pid))
		}
		r.log.ProcessEnd(&e)
	}
}

// Hello prepares a process that has initialised CUDA: its probes are attached
// when this returns, and only then does it go on.
func (r *recorder) Hello(p cupti.Peer) cupti.GoConfig {
	r.mu.Lock()
	r.seen[p.PID] = true
	r.mu.Unlock()
	desc := describeProcess(p.PID)
	r.log.Process(&desc)
	if r.prober != nil {
		if _, err := r.prober.Attach(int(p.PID)); err != nil {
			r.miss(p.PID, "calls are not probed: "+err.Error())
		}
	}
	mapped, err := cupti.MappedFiles(int(p.PID))
	if err != nil {
		mapped = nil // of a process that we may not look into: the usual places are left
	}
	return cupti.GoConfig{Candidates: cupti.Locate(int(p.PID), mapped)}
}

// End takes a process's last word, or notes that there was none.
func (r *recorder) End(p cupti.Peer, e tracelog.ProcessEnd) {
	r.mu.Lock()
	r.ends[p.PID] = e
	r.mu.Unlock()
	r.threadNames(p.PID)
}

// Note takes what the injected library has to say.
func (r *recorder) Note(p cupti.Peer, severity uint32, text string) {
	if severity >= tracelog.NoteWarning {
		r.miss(p.PID, text)
		return
	}
	r.log.Note(&tracelog.Note{Time: now(), PID: p.PID, Severity: severity, Text: text})
}

// threadNames reads the names that threads have at the end: many programs name
// a thread after its first CUDA call.
func (r *recorder) threadNames(pid uint32) {
	dir := fmt.Sprintf("/proc/%d/task", pid)
	tasks, err := os.ReadDir(dir)
	if err != nil {
		return // the process is gone: the names seen at first call stand
	}
	for _, t := range tasks {
		tid, err := strconv.ParseUint(t.Name(), 10, 32)
		if err != nil {
			continue
		}
		if comm, err := os.ReadFile(dir + "/" + t.Name() + "/comm"); err == nil {
			r.log.Thread(&tracelog.Thread{PID: pid, TID: uint32(tid), Name: strings.TrimSuffix(string(comm), "\n")})
		}
	}
}

// miss notes that something is not recorded, and says so once.
func (r *recorder) miss(pid uint32, text string) {
	r.log.Note(&tracelog.Note{Time: now(), PID: pid, Severity: tracelog.NoteWarning, Text: text})
	r.mu.Lock()
	known := r.told[text]
	if !known {
		r.told[text] = true
		r.missing = append(r.missing, text)
	}
	r.mu.Unlock()
	if !known {
		r.opts.Say(text)
	}
}

// discard drops a log that holds nothing.
func (r *recorder) discard() {
	err := errors.Join(r.log.Close(tracelog.End{}), os.Remove(r.partial))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		r.opts.Say(fmt.Sprintf("could not remove %s: delete it by hand", r.partial))
	}
}

func (r *recorder) closeAll() {
	if r.server != nil {
		if err := r.server.Close(); err != nil {
			r.opts.Say(err.Error())
		}
	}
	if r.prober != nil {
		if err := r.prober.Close(); err != nil {
			r.opts.Say(err.Error())
		}
	}
}

// watchSignals takes the signals that would end us. A signal that was ignored
// when we started (nohup) is left alone, since what we handle the program would
// get back as its default.
func watchSignals() chan os.Signal {
	c := make(chan os.Signal, 8)
	for _, s := range []os.Signal{syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGHUP} {
		if !signal.Ignored(s) {
			signal.Notify(c, s)
		}
	}
	return c
}

// stopRequest is closed when a person wants the recording to end. The first
// Ctrl-C is the program's: the terminal sends it to both, and what the program
// does on its way out is worth recording. The second, or SIGTERM, is ours.
func stopRequest(signals <-chan os.Signal) (<-chan struct{}, func() syscall.Signal) {
	stop := make(chan struct{})
	var last syscall.Signal
	go func() {
		interrupts := 0
		for s := range signals {
			sig, _ := s.(syscall.Signal)
			if sig == syscall.SIGINT || sig == syscall.SIGQUIT {
				if interrupts++; interrupts < 2 {
					continue
				}
			}
			last = sig
			close(stop)
			return
		}
	}()
	return stop, func() syscall.Signal {
		<-stop
		return last
	}
}

func ptr[T any](v T) *T { return &v }
