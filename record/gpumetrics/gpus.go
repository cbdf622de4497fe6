package gpumetrics

import (
	"errors"
	"fmt"
	"time"

	"github.com/cudatrace/cudatrace/record/figures"
	"github.com/cudatrace/cudatrace/record/metric"
	"github.com/cudatrace/cudatrace/record/metriclog"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// trial is the time for which a GPU is sampled before a recorded process is known to use it.
const trial = 10 * time.Second

// heldMax is the most rows of a set of NVML that wait until the GPU is known to be used: more than come in a trial.
const heldMax = 2000

// A gpu is a GPU that the sampler has found.
type gpu struct {
	device
	ordinal uint32 // CUPTI's number, MetricNoDevice if it is not known
	sampled bool
	used    bool // by a recorded process: its samples are logged
	until   time.Time
	series  map[uint32]*series // by the sampler's number
	users   users
	since   uint64 // when it was first known to be used
	counted counted
}

// A series is the rows of one set. Until its GPU is used they are held.
type series struct {
	set  metriclog.Set
	log  *metriclog.Series // nil as long as rows are held
	held []heldRow
	idle bool   // the trial of the GPU is over: what still comes is dropped
	cut  bool   // its sampler does not go on, though it should
	last uint64 // end of the last row or gap
	most int    // rows that may be held
}

type heldRow struct {
	start, end uint64
	values     []float64 // nil: a gap
}

// addRow adds a row, or with nil a gap.
func (s *series) addRow(start, end uint64, values []float64) {
	s.last = end
	switch {
	case s.idle:
	case s.log == nil && len(s.held) < s.most:
		s.held = append(s.held, heldRow{start, end, append([]float64(nil), values...)})
	case s.log == nil:
	case values == nil:
		s.log.Lost(start, end)
	default:
		s.log.Add(start, end, values)
	}
}

// beginSet begins to log the set, with what was held.
func (s *series) beginSet(log *tracelog.Writer, id, ordinal uint32) error {
	s.set.ID, s.set.Device = id, ordinal
	l, err := metriclog.Begin(log, s.set)
	if err != nil {
		return err
	}
	s.log = l
	for _, h := range s.held {
		s.addRow(h.start, h.end, h.values)
	}
	s.held = nil
	return nil
}

// gpus are all GPUs, by NVML's index. What it wants of the sampler goes to tell, and to count for PM sampling.
type gpus struct {
	options     Options
	tell, count func(order, device uint32)
	all         map[uint32]*gpu
	begun       bool              // a recorded process uses CUDA
	early       map[string]uint32 // GPUs whose contexts came before the sampler's list, with CUPTI's numbers
	ordinals    map[string]uint32 // GPUs that PM sampling knows, with its numbers
}

func newGPUs(o Options, tell, count func(order, device uint32)) *gpus {
	return &gpus{
		options: o, tell: tell, count: count, all: map[uint32]*gpu{}, early: map[string]uint32{},
		ordinals: map[string]uint32{},
	}
}

// found takes in a GPU, as NVML numbers it, or PM sampling.
func (g *gpus) found(d device, counters bool) error {
	if !counters {
		return g.addGPU(d)
	}
	if d.index >= devicesMax || len(g.ordinals) == devicesMax || d.uuid == "" {
		return fmt.Errorf("it names GPU %d without a UUID", d.index)
	}
	g.ordinals[d.uuid] = d.index
	for _, n := range g.all {
		g.startCounters(n)
	}
	return nil
}

// addGPU adds a GPU.
func (g *gpus) addGPU(d device) error {
	if d.index >= devicesMax || g.all[d.index] != nil || d.uuid == "" {
		return fmt.Errorf("it names GPU %d twice, or without a UUID", d.index)
	}
	n := &gpu{device: d, ordinal: tracelog.MetricNoDevice, series: map[uint32]*series{}}
	g.all[d.index] = n
	if ordinal, ok := g.early[d.uuid]; ok {
		g.use(n, ordinal)
	}
	if g.begun {
		g.try(n)
	}
	for _, other := range g.all {
		g.startCounters(other) // there may be one more now
	}
	return nil
}

// beginSampling is called when a recorded process uses CUDA. It does not say on which GPU.
func (g *gpus) beginSampling() {
	g.begun = true
	for _, n := range g.all {
		g.try(n)
	}
}

// try samples a GPU, for a time if nobody is known to use it.
func (g *gpus) try(n *gpu) {
	n.until = time.Now().Add(trial)
	if n.sampled {
		return
	}
	n.sampled = true
	if n.mig {
		g.options.Note(fmt.Sprintf("%s is divided into MIG instances: its metrics are not sampled, since they are those of "+
			"the whole GPU", figures.UUID(n.uuid)))
		return
	}
	g.tell(orderStart, n.index)
	g.startCounters(n)
	if g.options.All {
		g.use(n, n.ordinal)
	}
}

// context is called for a context of a recorded process. ordinal is CUPTI's number of the GPU.
func (g *gpus) context(uuid string, ordinal uint32) {
	g.early[uuid] = ordinal
	for _, n := range g.all {
		if n.uuid == uuid {
			g.use(n, ordinal)
		}
	}
}

// use logs what is sampled of a GPU from now on, and what was held.
func (g *gpus) use(n *gpu, ordinal uint32) {
	if n.ordinal == tracelog.MetricNoDevice {
		n.ordinal = ordinal
	}
	if n.used {
		return
	}
	n.used, n.since = true, g.options.now()
	if g.begun {
		g.try(n)
		g.startCounters(n)
	}
	for _, s := range n.series {
		g.log(n, s)
	}
}

// log begins to log a series of a GPU.
func (g *gpus) log(n *gpu, s *series) {
	if err := s.beginSet(g.options.Log, g.options.NextSet(), n.ordinal); err != nil {
		g.options.Note("GPU metrics are missing: " + err.Error())
	}
}

// set begins a series.
func (g *gpus) set(m set, counters bool) error {
	n := g.of(m.device, counters)
	if n == nil || !n.sampled || len(n.series) >= 2*maxSets || counters && m.number != countersSets+m.device ||
		!counters && m.number >= countersSets {
		return fmt.Errorf("it begins a set of GPU %d, which is not sampled", m.device)
	}
	s := &series{
		most: n.held(counters, g.options.PM),
		set:  metriclog.Set{MetricSet: tracelog.MetricSet{Source: m.source, UUID: n.uuid, Interval: uint64(m.interval)}},
	}
	for _, name := range m.names {
		found, ok := known[name]
		if counters {
			found, ok = pmMetric(name)
		}
		if !ok {
			return fmt.Errorf("it has a metric %q", name)
		}
		s.set.Metrics = append(s.set.Metrics, found)
	}
	if err := s.set.Check(); err != nil || metric.Source(m.source).String() == "" ||
		counters != (metric.Source(m.source) == metric.PM) {
		return errors.Join(fmt.Errorf("it has a set of source %d", m.source), err)
	}
	again := n.series[m.number] != nil
	n.series[m.number] = s
	if n.used {
		g.log(n, s)
	}
	if counters && !again {
		g.counts(n, s)
	}
	return nil
}

// held is the most rows of a set that are held. Those of PM sampling come at the rate that was asked for, and
// samplesMax of them a second in all: of 11 metrics at 10,000 a second, a trial and a half is 23 MB.
func (n *gpu) held(counters bool, pm *PM) int {
	if !counters || n.counted != countedStarted && n.counted != countedBegun {
		return heldMax
	}
	return max(heldMax, pm.Rate*int(3*trial/2/time.Second))
}

// of returns the GPU of a number.
func (g *gpus) of(index uint32, counters bool) *gpu {
	if !counters {
		return g.all[index]
	}
	for _, n := range g.all {
		if ordinal, ok := g.ordinals[n.uuid]; ok && ordinal == index {
			return n
		}
	}
	return nil
}

// maxSets is the most sets that a GPU has.
const maxSets = 4

// find returns the series with the sampler's number.
func (g *gpus) find(number uint32) *series {
	for _, n := range g.all {
		if s := n.series[number]; s != nil {
			return s
		}
	}
	return nil
}

// span checks the time of a row or a gap, and puts it on the host's clock.
func (g *gpus) span(s *series, start, end uint64) (uint64, uint64, error) {
	start, end = g.options.time(start), g.options.time(end)
	if start > end || start < s.last || end > g.options.now()+uint64(time.Second) {
		return 0, 0, fmt.Errorf("it has values of a time from %d to %d", start, end)
	}
	return start, end, nil
}

// rows takes rows in.
func (g *gpus) rows(m rows) error {
	s := g.find(m.set)
	if s == nil {
		return fmt.Errorf("it has rows of set %d, which it has not named", m.set)
	}
	if err := m.check(len(s.set.Metrics)); err != nil {
		return err
	}
	var values [tracelog.MaxMetrics]float64
	for i := range m.count {
		start, end, row := m.row(i, len(s.set.Metrics), values[:0])
		start, end, err := g.span(s, start, end)
		if err != nil {
			return err
		}
		g.first(s, start)
		s.addRow(start, end, row)
	}
	return nil
}

// gap takes a gap in.
func (g *gpus) gap(m gap) error {
	s := g.find(m.set)
	if s == nil {
		return fmt.Errorf("it has a gap in set %d", m.set)
	}
	start, end, err := g.span(s, m.start, m.end)
	if err == nil {
		s.addRow(start, end, nil)
	}
	return err
}

// processes takes in which processes use a GPU.
func (g *gpus) processes(m processes) error {
	n := g.all[m.device]
	if n == nil {
		return fmt.Errorf("it has processes of GPU %d", m.device)
	}
	for _, u := range m.list {
		if g.options.Known(u.pid) {
			g.use(n, n.ordinal)
			n.users.own = true
		}
	}
	n.users.see(m.list, g.options)
	if n.used {
		n.users.log(n.uuid, g.options.Log)
	}
	return nil
}

// expire ends the trial of GPUs that nobody is known to use.
func (g *gpus) expire(now time.Time) {
	g.guess(now)
	for _, n := range g.all {
		if n.sampled && !n.used && now.After(n.until) {
			n.sampled = false
			g.tell(orderStop, n.index)
			g.stopCounters(n)
			for _, s := range n.series {
				s.idle, s.held = true, nil
			}
		}
	}
}

// cut marks what a process sampled that ends too early.
func (g *gpus) cut(counters bool) {
	for _, n := range g.all {
		for number, s := range n.series {
			s.cut = s.cut || counters == (number >= countersSets)
		}
	}
}

// end ends all series. Interrupted series count the remaining time as lost.
func (g *gpus) end() {
	g.guess(time.Now().Add(trial))
	if g.begun && len(g.all) > 1 && !g.anyUsed() {
		g.options.Note("GPU metrics are not in the log: which of the GPUs the recorded processes use is not known; " +
			"--gpu-metrics-devices all samples all of them")
	}
	for _, n := range g.all {
		for _, s := range n.series {
			if now := g.options.now(); s.cut && s.log != nil && s.last > 0 && now > s.last {
				s.log.Lost(s.last, now)
			}
		}
		if n.used {
			n.users.finish(n.uuid, g.options.Log)
		}
	}
}

// guess takes the only GPU of a machine for the one that the recorded processes use, where neither CUPTI
// nor NVML's list of processes has told by the end of its trial.
func (g *gpus) guess(now time.Time) {
	for _, n := range g.all {
		if g.begun && len(g.all) == 1 && now.After(n.until) {
			g.use(n, n.ordinal)
		}
	}
}

func (g *gpus) anyUsed() bool {
	for _, n := range g.all {
		if n.used {
			return true
		}
	}
	return false
}
