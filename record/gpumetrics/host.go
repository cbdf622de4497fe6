package gpumetrics

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cudatrace/cudatrace/record/host"
	"github.com/cudatrace/cudatrace/record/metric"
	"github.com/cudatrace/cudatrace/record/metriclog"
	"github.com/cudatrace/cudatrace/record/procfs"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// hostInterval is the time between two samples. It is longer where sampling would take more than a hundredth of it.
const hostInterval = 100 * time.Millisecond

// processesMax is the most processes that are sampled.
const processesMax = 256

// A hostSampler samples what recorded processes do on the host: their use of processors, the time that
// their threads wait for one, and their page faults. It reads /proc on a goroutine of its own. Each process has a
// metric set.
type hostSampler struct {
	options   Options
	processes map[uint32]*hostProcess
	stop      chan struct{}
	stopped   sync.WaitGroup
}

// startHost starts a hostSampler.
func startHost(o Options) *hostSampler {
	s := &hostSampler{options: o, processes: map[uint32]*hostProcess{}, stop: make(chan struct{})}
	s.stopped.Go(s.run)
	return s
}

// end takes the last samples.
func (s *hostSampler) end() {
	close(s.stop)
	s.stopped.Wait()
	s.sample()
}

func (s *hostSampler) run() {
	for {
		began := time.Now()
		s.sample()
		select {
		case <-s.stop:
			return
		case <-time.After(max(hostInterval, 100*time.Since(began))):
		}
	}
}

// sample takes a sample of each process, and forgets those that have ended.
func (s *hostSampler) sample() {
	live := map[uint32]bool{}
	for _, pid := range s.options.Live() {
		if live[pid] {
			continue // two programs, one after the other
		}
		live[pid] = true
		p := s.processes[pid]
		if p == nil && len(s.processes) < processesMax {
			p = &hostProcess{pid: pid}
			s.processes[pid] = p
		}
		if p != nil {
			s.sampleProcess(p)
		}
	}
	for pid := range s.processes {
		if !live[pid] {
			delete(s.processes, pid)
		}
	}
}

// sampleProcess adds what a process did since the sample before, of which the first has none.
func (s *hostSampler) sampleProcess(p *hostProcess) {
	now := host.Monotonic()
	u, ok := p.read()
	if !ok {
		return // it has ended
	}
	before, start := p.last, p.at
	p.last, p.at = u, now
	if start == 0 || now <= start {
		return
	}
	if p.series == nil && !s.beginSeries(p) {
		return
	}
	took := float64(now - start)
	perSecond := func(before, after uint64) float64 { return float64(after-min(before, after)) * 1e9 / took }
	p.series.Add(start, now, []float64{
		perSecond(before.cpu, u.cpu) / 1e7,
		float64(u.wait) / took * 100,
		perSecond(before.minor, u.minor),
		perSecond(before.major, u.major),
	})
}

// beginSeries begins the series of a process.
func (s *hostSampler) beginSeries(p *hostProcess) bool {
	var err error
	p.series, err = metriclog.Begin(s.options.Log, metriclog.Set{
		MetricSet: tracelog.MetricSet{
			ID: s.options.NextSet(), Source: uint32(metric.Host), PID: p.pid, Device: tracelog.MetricNoDevice,
			Interval: uint64(hostInterval),
		},
		Metrics: hostMetrics,
	})
	return err == nil // the set is not empty, and small
}

var hostMetrics = []metric.Metric{
	{Name: metric.NameCPUUse, Label: "CPU use", Unit: metric.Percent, Kind: metric.Percentage},
	{Name: metric.NameRunQueueWait, Label: "Run-queue wait", Unit: metric.Percent, Kind: metric.Percentage},
	{Name: metric.NameMinorFaults, Label: "Minor page faults", Unit: metric.CountPerSec, Kind: metric.Rate},
	{Name: metric.NameMajorFaults, Label: "Major page faults", Unit: metric.CountPerSec, Kind: metric.Rate},
}

// A hostProcess is a recorded process. Of its threads those that ran most lately are watched: among them are
// the threads that launch work.
type hostProcess struct {
	pid     uint32
	series  *metriclog.Series // nil before the second sample
	at      uint64            // time of the last sample
	last    hostUsage
	threads []*hostThread
	ran     map[uint32]uint64 // how long each thread had run when the threads were chosen
	chosen  time.Time         // when that was
}

// A hostThread is a thread that is watched.
type hostThread struct {
	tid  uint32
	last procfs.Schedule
}

const (
	threadsMax  = 16              // that are watched
	choiceEvery = 2 * time.Second // between two choices
)

// hostUsage is what a process has used since its start, but for wait.
type hostUsage struct {
	cpu          uint64 // ns
	wait         uint64 // ns that the watched threads waited for a processor since the last sample
	minor, major uint64 // page faults
}

// read reads what the process has used; ok is false after its end.
func (p *hostProcess) read() (u hostUsage, ok bool) {
	var t unix.Timespec
	if unix.ClockGettime(processClock(p.pid), &t) != nil {
		return u, false
	}
	u.cpu = uint64(t.Nano())
	if u.minor, u.major, ok = procfs.Faults(p.pid); !ok {
		return u, false
	}
	for _, t := range p.threads {
		if now, ok := procfs.ThreadSchedule(p.pid, t.tid); ok {
			u.wait += now.Waited - min(now.Waited, t.last.Waited)
			t.last = now
		}
	}
	if time.Since(p.chosen) >= choiceEvery {
		p.choose()
	}
	return u, true
}

// processClock is the kernel's clock of a process's processor time.
func processClock(pid uint32) int32 { return int32(^pid<<3 | 2) }

// choose chooses the threads to watch: those that ran most since the choice before.
func (p *hostProcess) choose() {
	p.chosen = time.Now()
	ran := map[uint32]uint64{}
	var all []threadCandidate
	for tid := range procfs.Threads(p.pid) {
		if now, ok := procfs.ThreadSchedule(p.pid, tid); ok {
			ran[tid] = now.Ran
			all = append(all, threadCandidate{hostThread{tid, now}, now.Ran - min(now.Ran, p.ran[tid])})
		}
	}
	p.ran = ran
	slices.SortFunc(all, func(a, b threadCandidate) int {
		return cmp.Or(cmp.Compare(b.ran, a.ran), cmp.Compare(a.tid, b.tid))
	})
	p.threads = nil
	for _, c := range all[:min(len(all), threadsMax)] {
		p.threads = append(p.threads, &c.hostThread)
	}
}

// A threadCandidate is a thread that may be watched, with the time that it ran.
type threadCandidate struct {
	hostThread
	ran uint64
}
