package gpumetrics

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cudatrace/cudatrace/record/figures"
	"github.com/cudatrace/cudatrace/record/invoker"
	"github.com/cudatrace/cudatrace/record/metric"
)

// A Use is how much a GPU was in use between two looks.
type Use struct {
	UUID string
	Busy float64 // mean of NVML's utilization, 0 to 1; NaN if it is not known
	PIDs []int   // processes with a context there, as NVML numbers them

	Unseen bool // it is divided into MIG instances, or NVML does not name it: nothing more is known
}

// A Monitor follows the use of this machine's GPUs by NVML, without a recording: a sampler whose values nobody logs.
// One that fails is started again, a minute later at the earliest.
type Monitor struct {
	options Options

	mu      sync.Mutex
	process *samplerProcess
	began   time.Time
	why     string // nothing is known, until a GPU is
	gpus    map[uint32]*monitored
	sets    map[uint32]utilization // by the sampler's number
}

// A monitored is a GPU that is monitored.
type monitored struct {
	Use
	sum, values float64
	valued      time.Time // when there was a value
	seen        time.Time // when its processes were
}

// A utilization is the place of that metric in a set of a GPU.
type utilization struct {
	device    uint32
	at, width int
}

const (
	monitorRetry = time.Minute
	// usersStay is how long a list of processes counts: the sampler sends it every two seconds, but not an empty one.
	usersStay = 5 * time.Second
	busyStays = 10 * time.Second
)

// StartMonitor starts a sampler that runs as a user, and does not wait for it.
func StartMonitor(as *invoker.Invoker) *Monitor { return startMonitor(Options{As: as}) }

func startMonitor(o Options) *Monitor {
	o.complete()
	m := &Monitor{options: o}
	m.start()
	return m
}

// start starts a process. Nobody else may hold mu.
func (m *Monitor) start() {
	p := newProcess()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.process, m.began = p, time.Now()
	m.gpus, m.sets = make(map[uint32]*monitored), make(map[uint32]utilization)
	conn, cmd, err := p.launch(m.options)
	if err != nil {
		p.ended, m.why = true, err.Error()
		return
	}
	p.conn, p.cmd = conn, cmd
	go m.follow(p)
}

// follow takes in what a process sends, until it ends.
func (m *Monitor) follow(p *samplerProcess) {
	defer close(p.over)
	err := p.receive(p.conn, func(message any) (bool, error) { return m.takeMessage(p, message) })
	m.mu.Lock()
	defer m.mu.Unlock()
	if err != nil && !p.ended {
		m.why = fmt.Sprintf("the sampler has failed (%v)", err)
	}
	p.ended = true
	p.remove()
}

// takeMessage takes a message in.
func (m *Monitor) takeMessage(p *samplerProcess, message any) (last bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch got := message.(type) {
	case failure:
		m.why = strings.ToValidUTF8(got.text, "?")
		return true, nil
	case ready:
		for i := range min(got.devices, devicesMax) {
			m.gpus[i] = &monitored{Use: Use{Busy: math.NaN(), Unseen: true}}
		}
	case device:
		if got.index >= devicesMax || got.uuid == "" {
			return false, fmt.Errorf("it names GPU %d without a UUID", got.index)
		}
		m.why = ""
		// The values of one that is divided would be those of the whole GPU.
		m.gpus[got.index] = &monitored{Use: Use{UUID: figures.UUID(got.uuid), Busy: math.NaN(), Unseen: got.mig}}
		if !got.mig {
			p.tell(orderStart, got.index)
		}
	case set:
		if at := slices.Index(got.names, metric.NameUtilization); at >= 0 && got.number < devicesMax*maxSets {
			m.sets[got.number] = utilization{got.device, at, len(got.names)}
		}
	case rows:
		err = m.rows(got)
	case processes:
		if g := m.gpus[got.device]; g != nil {
			g.PIDs, g.seen = nil, time.Now()
			for _, u := range got.list {
				g.PIDs = append(g.PIDs, int(u.pid))
			}
		}
	}
	return false, err
}

// rows takes in values of a GPU.
func (m *Monitor) rows(r rows) error {
	s, is := m.sets[r.set]
	if !is {
		return nil
	}
	if err := r.check(s.width); err != nil {
		return err
	}
	for i := range r.count {
		_, _, values := r.row(i, s.width, nil)
		if v, g := values[s.at], m.gpus[s.device]; v >= 0 && v <= 100 && g != nil { // NaN is none
			g.sum, g.values, g.valued = g.sum+v/100, g.values+1, time.Now()
		}
	}
	return nil
}

// Look returns the use of each GPU since the look before, and why nothing is known.
func (m *Monitor) Look() (list []Use, why string) {
	m.mu.Lock()
	over := m.process.ended
	m.mu.Unlock()
	if over && time.Since(m.began) > monitorRetry {
		m.start()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.process.ended {
		return nil, m.why
	}
	for _, g := range m.gpus {
		if time.Since(g.seen) > usersStay {
			g.PIDs = nil
		}
		switch {
		case g.values > 0:
			g.Busy, g.sum, g.values = g.sum/g.values, 0, 0
		case time.Since(g.valued) > busyStays:
			g.Busy = math.NaN()
		}
		list = append(list, g.Use)
	}
	slices.SortFunc(list, func(a, b Use) int { return strings.Compare(a.UUID, b.UUID) })
	return list, m.why // while it is started again, that of before
}

// End ends the sampler.
func (m *Monitor) End() {
	m.mu.Lock()
	p := m.process
	launched := p.conn != nil
	p.ended = true
	if launched {
		p.kill() // follow does the rest
	}
	m.mu.Unlock()
	if launched {
		within(p.over, patience)
	}
}
