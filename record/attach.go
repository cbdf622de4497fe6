package record

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/cudatrace/cudatrace/record/cupti/libcupti"
	"github.com/cudatrace/cudatrace/record/invoker"
	"github.com/cudatrace/cudatrace/record/procfs"
)

// Attach records the calls of running processes until they end, the time is over or a signal
// comes. Then it detaches. It cannot record GPU work: CUPTI must be loaded into a process before
// the process initialises CUDA.
func Attach(o Options) (Result, error) {
	slices.Sort(o.PIDs)
	o.PIDs = slices.Compact(o.PIDs)
	if err := checkFiles(FilesToProbe + len(o.PIDs)); err != nil {
		return Result{}, err
	}
	signals := watchSignals(false)
	defer signal.Stop(signals)
	targets, err := openTargets(o.PIDs)
	if err != nil {
		return Result{}, err
	}
	defer targets.close()
	r, err := newRecording(o)
	if err != nil {
		return Result{}, err
	}
	defer r.cancel()
	defer r.close()
	r.metrics.start(o, invoker.Find(), r.tracees, r.report)
	if err := r.attachAll(); err != nil {
		r.discard()
		return Result{}, err
	}
	r.offerLibraries(o.PIDs)
	r.metrics.begin()
	r.injection.used() // or nobody knows when
	res := Result{Output: o.Output}
	over := targets.ended()
	r.wait(over, watchStop(signals, nil, over, o.Say))
	r.finish(&res, notEarly)
	return res, nil
}

// offerLibraries tells the sampler of GPUs which files of CUPTI processes could load.
func (r *recording) offerLibraries(pids []int) {
	for _, pid := range pids {
		if mapped, err := procfs.Files(pid); err == nil {
			r.metrics.offer(uint32(pid), libcupti.Locate(pid, mapped))
		}
	}
}

// attachAll probes every process. A person named the processes, so it is an error if one cannot
// be probed.
func (r *recording) attachAll() error {
	r.calls.open(r.ctx, r.injection.registered)
	if !r.calls.probed {
		return errors.New("a running process can be recorded with probes only")
	}
	for _, pid := range r.opts.PIDs {
		if os.Geteuid() == 0 && procfs.Describe(pid).Args == "" {
			return fmt.Errorf("process %d is a kernel thread or has just ended", pid)
		}
		a, err := r.calls.prober.Attach(pid)
		if err != nil {
			return fmt.Errorf("cannot attach to process %d: %w", pid, err)
		}
		r.calls.callers.begin(uint32(pid))
		if len(a.Libraries) == 0 {
			r.report.remark(uint32(pid), fmt.Sprintf("process %d has not loaded CUDA yet; it is probed when it does", pid))
		}
		mapped, err := procfs.Files(pid)
		if err != nil {
			mapped = nil // the process ends
		}
		r.tracees.add(uint64(pid), tracee{pid: uint32(pid), attached: true}, mapped)
		r.tracees.nameThreads(uint32(pid))
	}
	r.opts.Say(fmt.Sprintf("recording the calls of %s; Ctrl-C stops (to record GPU work, start the program with 'cudatrace record PROGRAM')", processList(r.opts.PIDs)))
	return nil
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
