// Package hostmetrics samples what recorded processes do on the host: their use of processors, the time
// that their threads wait for one, and their page faults. Input: the PIDs of the processes, and /proc.
// Output: a metric set for each process in a log, with a sample ten times a second.
package hostmetrics

import (
	"sync"
	"time"

	"github.com/cudatrace/cudatrace/record/host"
	"github.com/cudatrace/cudatrace/record/metric"
	"github.com/cudatrace/cudatrace/record/metriclog"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// Interval is the time between two samples. It is longer where sampling would take more than a hundredth of it.
const Interval = 100 * time.Millisecond

// processesMax is the most processes that are sampled.
const processesMax = 256

// Options are the options of Start; all are required.
type Options struct {
	Log     *tracelog.Writer
	NextSet func() uint32   // a new number of a metric set
	Live    func() []uint32 // the processes to sample
}

// A Sampler samples the recorded processes on a goroutine.
type Sampler struct {
	options   Options
	processes map[uint32]*process
	stop      chan struct{}
	stopped   sync.WaitGroup
	ending    sync.Once
}

// Start starts a Sampler.
func Start(o Options) *Sampler {
	s := &Sampler{options: o, processes: map[uint32]*process{}, stop: make(chan struct{})}
	s.stopped.Go(s.run)
	return s
}

// End takes the last samples. A second call does nothing.
func (s *Sampler) End() {
	s.ending.Do(func() {
		close(s.stop)
		s.stopped.Wait()
		s.sample()
	})
}

func (s *Sampler) run() {
	for {
		began := time.Now()
		s.sample()
		select {
		case <-s.stop:
			return
		case <-time.After(max(Interval, 100*time.Since(began))):
		}
	}
}

// sample takes a sample of each process, and forgets those that have ended.
func (s *Sampler) sample() {
	live := map[uint32]bool{}
	for _, pid := range s.options.Live() {
		if live[pid] {
			continue // two programs, one after the other
		}
		live[pid] = true
		p := s.processes[pid]
		if p == nil && len(s.processes) < processesMax {
			p = &process{pid: pid}
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
func (s *Sampler) sampleProcess(p *process) {
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
	if p.series == nil && !s.begin(p) {
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

// begin begins the series of a process.
func (s *Sampler) begin(p *process) bool {
	var err error
	p.series, err = metriclog.Begin(s.options.Log, metriclog.Set{
		MetricSet: tracelog.MetricSet{
			ID: s.options.NextSet(), Source: uint32(metric.Host), PID: p.pid, Device: tracelog.MetricNoDevice, Interval: uint64(Interval),
		},
		Metrics: metrics,
	})
	return err == nil // the set is not empty, and small
}

var metrics = []metric.Metric{
	{Name: metric.NameCPUUse, Label: "CPU use", Unit: metric.Percent, Kind: metric.Percentage},
	{Name: metric.NameRunQueueWait, Label: "Run-queue wait", Unit: metric.Percent, Kind: metric.Percentage},
	{Name: metric.NameMinorFaults, Label: "Minor page faults", Unit: metric.CountPerSec, Kind: metric.Rate},
	{Name: metric.NameMajorFaults, Label: "Major page faults", Unit: metric.CountPerSec, Kind: metric.Rate},
}
