package record

import (
	"os"
	"sync/atomic"

	"github.com/cudatrace/cudatrace/record/gpumetrics"
	"github.com/cudatrace/cudatrace/record/internal/cupti"
	"github.com/cudatrace/cudatrace/record/invoker"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// metrics are the samples of GPUs and processes beside calls and GPU work. The zero metrics samples
// nothing.
type metrics struct {
	gpus   *gpumetrics.Sampler // nil: not wanted
	live   func() []uint32     // the processes of the recording
	sets   atomic.Uint32       // metric sets so far
	paused atomic.Bool         // the delay is not over
}

// start starts the process that samples GPUs. It samples nothing before begin.
func (m *metrics) start(s *session, as *invoker.Invoker) {
	o, r := s.opts, s.report
	if o.GPUMetrics.Off {
		return
	}
	m.paused.Store(o.Delay > 0)
	m.live = s.live
	m.gpus = gpumetrics.Start(gpumetrics.Options{
		As: as, All: o.MetricDevices == DevicesAll, PM: pmSampling(o.GPUMetrics), Log: r.log, NextSet: m.nextSet,
		Known: s.knows, Live: m.live,
		Note:   func(text string) { r.note(0, tracelog.NoteInfo, text) },
		Remark: func(text string) { r.remark(0, text) },
		Miss:   func(text string) { r.miss(0, text) },
	})
}

// pmSampling is what is wanted of PM sampling, nil for none, with what is known of libcupti before a process runs.
func pmSampling(g GPUMetrics) *gpumetrics.PM {
	if g.Rate == 0 {
		return nil
	}
	return &gpumetrics.PM{Rate: g.Rate, Metrics: g.Metrics, Libraries: paths(cupti.LocateCUPTI(os.Getpid(), nil))}
}

func paths(found []cupti.Candidate) (paths []string) {
	for _, c := range found {
		paths = append(paths, c.Path)
	}
	return paths
}

// ListGPUMetrics asks CUPTI for the metrics of PM sampling that this machine's GPUs have.
func ListGPUMetrics() ([]gpumetrics.GPUList, error) {
	return gpumetrics.List(invoker.Find(), paths(cupti.LocateCUPTI(os.Getpid(), nil)))
}

func (m *metrics) nextSet() uint32 { return m.sets.Add(1) }

// offer is called for each process, with what it could load of CUPTI.
func (m *metrics) offer(pid uint32, found []cupti.Candidate) {
	if m.gpus != nil {
		m.gpus.Offer(pid, paths(found))
	}
}

// begin is called for each process that uses CUDA.
func (m *metrics) begin() {
	if m.gpus == nil || m.paused.Load() {
		return
	}
	m.gpus.Begin()
}

// resume begins sampling after a delay, if a process uses CUDA.
func (m *metrics) resume() {
	m.paused.Store(false)
	if m.gpus != nil && len(m.live()) > 0 {
		m.begin()
	}
}

// see learns from CUPTI's records which GPUs are used.
func (m *metrics) see(record tracelog.Record) {
	if m.gpus == nil {
		return
	}
	switch record := record.(type) {
	case *tracelog.Device:
		m.gpus.Device(record)
	case *tracelog.Context:
		m.gpus.Context(record)
	}
}

// end takes the last samples. A second call does nothing.
func (m *metrics) end() {
	if m.gpus != nil {
		m.gpus.End()
	}
}
