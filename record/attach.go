package record

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cudatrace/cudatrace/record/errno"
	"github.com/cudatrace/cudatrace/record/host"
	"github.com/cudatrace/cudatrace/record/internal/cupti"
	"github.com/cudatrace/cudatrace/record/invoker"
	"github.com/cudatrace/cudatrace/record/procfs"
	"github.com/cudatrace/cudatrace/record/ring"
)

// Attach records the calls of running processes until they end, the time is over or a signal
// comes. Then it detaches. It records GPU work of processes that 'cudatrace run --armed' started: in others
// nothing of ours was loaded when they initialised CUDA.
func Attach(o Options) (Result, error) {
	slices.Sort(o.PIDs)
	o.PIDs = slices.Compact(o.PIDs)
	if err := checkFiles(FilesToProbe + len(o.PIDs)); err != nil {
		return Result{}, err
	}
	targets, err := openTargets(o.PIDs)
	if err != nil {
		return Result{}, err
	}
	defer targets.close()
	signals := watchSignals(false)
	defer signal.Stop(signals)
	s, err := newSession(o)
	if err != nil {
		return Result{}, err
	}
	defer s.cancel()
	defer s.close()
	over := targets.ended()
	go s.heed(signals, over)
	s.metrics.start(s, invoker.Find())
	s.remarkPython()
	s.remarkOperators()
	s.startThreads()
	s.startMemory()
	var failed error
	s.preparing.Go(func() {
		if failed = s.attachTo(); failed != nil {
			s.tell(question(func() { s.decide(notEarly, 0) }))
		}
	})
	s.loop(over)
	if failed != nil {
		s.discard()
		return Result{}, failed
	}
	res := Result{Output: o.Output}
	s.finish(&res)
	return res, nil
}

// attachTo attaches to the processes that a person has named, and says what is recorded of them.
func (s *session) attachTo() error {
	found := lookForArmed(s.opts.PIDs)
	if err := s.attachAll(found); err != nil {
		return err
	}
	if err := s.openArmed(found); err != nil {
		return err
	}
	s.callArmed(len(found) > 0)
	s.followSteps()
	s.offerLibraries(s.opts.PIDs)
	s.metrics.begin()
	s.post(question(s.use)) // or nobody knows when
	return nil
}

// offerLibraries tells the sampler of GPUs which files of CUPTI processes could load.
func (s *session) offerLibraries(pids []int) {
	for _, pid := range pids {
		if mapped, err := procfs.Files(pid); err == nil {
			s.metrics.offer(uint32(pid), cupti.LocateCUPTI(pid, mapped))
		}
	}
}

// attachAll probes every process, until recording is to end. A person named the processes, so it is an error if
// one cannot be probed.
func (s *session) attachAll(found []cupti.ArmedProcess) error {
	armed := len(found) > 0
	s.calls.open(s, armed)
	s.tell(opened{})
	if allArmed := len(found) == len(s.opts.PIDs); !s.calls.probed && !(allArmed && s.calls.source == CallsNone) {
		if allArmed {
			return errors.New("--calls none records the GPU work of an armed process, and the calls that create it, without probes")
		}
		return errors.New("a running process can be recorded with probes only, unless 'cudatrace run --armed' started it")
	}
	needsWork := func(c ring.Condition) bool { return c.On == ring.LongKernels || c.On == ring.SlowSteps }
	if !armed && slices.ContainsFunc(s.opts.Conditions, needsWork) {
		return errors.New("--trigger 'kernel>TIME' and 'step>FACTOR' need CUPTI, which records a running process only if " +
			"'cudatrace run --armed' started it")
	}
	s.sayMissing(found)
	if armed {
		s.calls.pause(true) // until CUPTI is on, so that no recorded call lacks its work
	}
	for _, pid := range s.opts.PIDs {
		if isClosed(s.decided) {
			return nil
		}
		if os.Geteuid() == 0 && procfs.Describe(pid).Args == "" {
			return fmt.Errorf("process %d is a kernel thread or has just ended", pid)
		}
		start, _ := procfs.Started(pid) // 0 if it has just ended
		p := ask(s, func() *recordedProcess {
			p := s.begin(uint32(pid), start, host.Monotonic())
			p.step(stepAttach)
			return p
		})
		a, looked, err := s.calls.attachTo(pid)
		if err != nil {
			return fmt.Errorf("cannot attach to process %d: %w", pid, err)
		}
		s.beginThreads(uint32(pid), nil)
		if s.calls.probed && len(a.Libraries) == 0 {
			s.report.remark(uint32(pid), fmt.Sprintf("process %d has not loaded CUDA yet; it is probed when it does", pid))
		}
		s.describe(uint32(pid), mappedBy(uint32(pid)), host.Monotonic())
		s.nameThreads(uint32(pid))
		s.post(attached{p, looked, 0})
	}
	return nil
}

// lookForArmed finds the armed ones among processes.
func lookForArmed(pids []int) []cupti.ArmedProcess {
	var found []cupti.ArmedProcess
	for _, pid := range pids {
		if p := cupti.LookForArmed(pid); p.State != cupti.NotArmed {
			found = append(found, p)
		}
	}
	return found
}

// Waits for an armed process: to connect, and to load CUPTI when it has.
const (
	armedWait = 5 * time.Second
	armedMost = 30 * time.Second
)

// callArmed has armed processes hand over their GPU work, and says what is recorded.
func (s *session) callArmed(armed bool) {
	for _, c := range s.armed {
		if err := c.Ring(); err != nil {
			s.report.miss(0, "armed processes cannot be called: "+err.Error())
		}
	}
	var with, without []int
	began := time.Now()
	for _, pid := range s.opts.PIDs {
		if s.isCalled(pid) && s.answers(pid, began) {
			with = append(with, pid)
		} else {
			without = append(without, pid)
		}
	}
	if armed && s.opts.Delay == 0 {
		s.calls.pause(false)
	}
	if !isClosed(s.decided) {
		s.sayAttached(with, without)
	}
}

// sayAttached says what is recorded of which process.
func (s *session) sayAttached(with, without []int) {
	if len(with) > 0 {
		s.opts.Say(fmt.Sprintf("recording the calls and GPU work of %s; Ctrl-C stops", processList(with)))
	}
	if len(without) > 0 && s.calls.source != CallsNone {
		s.opts.Say("recording the calls of " + processList(without) + "; Ctrl-C stops")
	}
}

// sayMissing says what a recording will lack of processes that are not armed, and what would record it.
func (s *session) sayMissing(found []cupti.ArmedProcess) {
	unarmed := slices.DeleteFunc(slices.Clone(s.opts.PIDs), func(pid int) bool {
		return slices.ContainsFunc(found, func(p cupti.ArmedProcess) bool { return p.PID == pid })
	})
	if len(unarmed) == 0 {
		return
	}
	s.opts.Say("only calls are recorded of " + processList(unarmed) + ", which 'cudatrace run --armed' did not start: " +
		"no kernels and copies on the GPU, and no names of kernels that the program has looked up before; " +
		"to record these, start it anew: cudatrace run --armed " + procfs.CommandLine(unarmed[0]))
}

// openArmed opens sockets for armed processes, as far as they can be called. It is an error if none can be and nothing
// else records them.
func (s *session) openArmed(found []cupti.ArmedProcess) error {
	var calls []*cupti.ArmedCall
	refused := map[int]error{}
	if s.opts.CaptureRange {
		for _, p := range found {
			refused[p.PID] = errors.New("--capture-range needs a program to run")
		}
	} else {
		calls, refused = cupti.CallArmed(found)
	}
	for _, pid := range slices.Sorted(maps.Keys(refused)) {
		why := errno.Words(refused[pid])
		if stat, running := procfs.StatOf(pid); !running || stat.Ended {
			why = "it has ended"
		}
		switch {
		case s.calls.source != CallsNone:
			s.report.remark(uint32(pid),
				fmt.Sprintf("process %d: only its calls are recorded, although it was armed: %s", pid, why))
		case len(calls) == 0:
			return fmt.Errorf("process %d cannot be recorded: %s", pid, why)
		default:
			s.report.miss(uint32(pid), fmt.Sprintf("process %d is not recorded: %s", pid, why))
		}
	}
	if len(calls) > 0 {
		s.join(calls)
	}
	return nil
}

// join serves armed processes.
func (s *session) join(calls []*cupti.ArmedCall) {
	var entrances []cupti.Entrance
	for _, c := range calls {
		entrances = append(entrances, c.Entrance)
	}
	server, err := cupti.Join(s.records(), entrances, s.pythons)
	if err != nil {
		s.report.miss(0, "only calls are recorded, although processes are armed: "+err.Error())
		for _, c := range calls {
			_ = c.Close() // the first failure is the one to report
		}
		return
	}
	s.armed = calls
	s.tell(question(func() { s.server = server }))
	go server.Serve(s)
}

// isCalled says whether a process is to connect.
func (s *session) isCalled(pid int) bool {
	return slices.ContainsFunc(s.armed, func(c *cupti.ArmedCall) bool { return slices.Contains(c.PIDs, pid) })
}

// answers waits until a process has said what becomes of CUPTI in it, and says whether CUPTI records it, now or from
// CUDA's start on.
func (s *session) answers(pid int, began time.Time) bool {
	for looks := 0; ; looks++ {
		answered, recorded := s.answered(uint32(pid))
		if answered {
			return recorded
		}
		time.Sleep(2 * time.Millisecond)
		if looks%16 != 0 { // the look behind this reads all of its mappings
			continue
		}
		p, passed := cupti.LookForArmed(pid), time.Since(began)
		switch {
		case isClosed(s.decided):
			return false
		case p.State == cupti.ArmedFresh:
			s.report.remark(uint32(pid),
				fmt.Sprintf("process %d has not started CUDA yet; its GPU work is recorded when it does", pid))
			return true
		case p.State == cupti.NotArmed: // it has ended
			return false
		case passed > armedMost, passed > armedWait && !s.server.Has(uint32(pid)):
			what := "only its calls are recorded"
			if s.calls.source == CallsNone {
				what = "nothing is recorded"
			}
			s.report.miss(uint32(pid), fmt.Sprintf("process %d: %s, although it was armed: it did not answer", pid, what))
			return false
		}
	}
}

// answered reports whether a process has said what becomes of CUPTI in it, or never will, and whether CUPTI records it.
func (s *session) answered(pid uint32) (answered, recorded bool) {
	answered = ask(s, func() bool {
		p := s.latest[pid]
		recorded = p != nil && p.recorded
		return p != nil && (p.answered || !p.runs())
	})
	return answered, recorded
}

// targets are file descriptors of processes. Each tells when its process ends, and keeps the PID
// from meaning another process.
type targets []int

func openTargets(pids []int) (targets, error) {
	var t targets
	for _, pid := range pids {
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			t.close()
			if errors.Is(err, unix.ESRCH) || errors.Is(err, unix.EINVAL) {
				return nil, fmt.Errorf("there is no process %d", pid)
			}
			return nil, fmt.Errorf("cannot watch process %d: %w", pid, err)
		}
		t = append(t, fd)
	}
	return t, nil
}

func (t targets) close() {
	for _, fd := range t {
		unix.Close(fd)
	}
}

// ended returns a channel that is closed when every process has ended.
func (t targets) ended() <-chan struct{} {
	over := make(chan struct{})
	go func() {
		defer close(over)
		for _, fd := range t {
			for {
				n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, -1)
				if n > 0 || (err != nil && !errors.Is(err, unix.EINTR)) {
					break
				}
			}
		}
	}()
	return over
}

// AttachName is the default name of the files of a recording of a running process.
func AttachName(pid int) string {
	return fmt.Sprintf("%s-%d", cmp.Or(procfs.Name(pid), "pid"), pid)
}
