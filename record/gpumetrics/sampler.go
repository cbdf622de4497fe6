package gpumetrics

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cudatrace/cudatrace/record/host"
	"github.com/cudatrace/cudatrace/record/invoker"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// Options are the options of Start. All but As, All, PM and Live are required.
type Options struct {
	As      *invoker.Invoker // the user that the sampler runs as; nil for our own
	All     bool             // GPUs that no recorded process uses are logged, too
	PM      *PM              // nil: no PM sampling
	Log     *tracelog.Writer
	NextSet func() uint32         // a new number of a metric set
	Known   func(pid uint32) bool // whether a process is recorded
	Live    func() []uint32       // the processes to sample on the host; nil for none
	Note    func(text string)     // takes a line for the log
	Remark  func(text string)     // takes a line for the log and the person: another source is used
	Miss    func(text string)     // takes a line for the log and the person: metrics are missing from here on

	environ []string                // nil for our own environment
	program []byte                  // nil for the embedded program
	now     func() uint64           // nil for host.Monotonic
	time    func(own uint64) uint64 // nil for host.Time
}

// complete fills in what may be nil.
func (o *Options) complete() {
	if o.environ == nil {
		o.environ = os.Environ()
	}
	if o.program == nil {
		o.program = program
	}
	if o.now == nil {
		o.now, o.time = host.Monotonic, host.Time
	}
}

// asRoot reports whether the sampler has root's rights.
func (o *Options) asRoot() bool { return o.As == nil && os.Geteuid() == 0 }

// trusts reports whether a process is of the user that the sampler runs as, and has the sampler's files: a path means
// something else in a container. What other processes load is not loaded for that user.
func (o *Options) trusts(pid uint32) bool {
	var s unix.Stat_t
	uid := uint32(os.Geteuid())
	if o.As != nil {
		uid = o.As.UID
	}
	folder := fmt.Sprintf("/proc/%d", pid)
	return unix.Stat(folder, &s) == nil && s.Uid == uid && same(folder+"/root", "/proc/self/root") &&
		same(folder+"/ns/mnt", "/proc/self/ns/mnt")
}

func same(a, b string) bool {
	first, err1 := os.Stat(a)
	second, err2 := os.Stat(b)
	return err1 == nil && err2 == nil && os.SameFile(first, second)
}

// A Sampler is the recorder's side of the sampler. Its methods may be called at any time, also when
// there is no sampler: then they do nothing.
type Sampler struct {
	options Options
	board   *samplerProcess

	mu       sync.Mutex
	counters counters // PM sampling
	gpus     *gpus
	host     *hostSampler         // nil before the first process
	finished bool                 // no further process is started
	closed   bool                 // the log takes no more
	devices  map[[2]uint32]string // UUIDs by process and CUPTI's number
}

// Start starts the sampler, and does not wait for it.
func Start(o Options) *Sampler {
	o.complete()
	s := &Sampler{options: o, board: newProcess(), devices: map[[2]uint32]string{}}
	s.gpus = newGPUs(o, s.board.tell, s.tellCounters)
	go s.run(s.board)
	if o.PM != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.tryCounters(o.libraries())
	}
	return s
}

// run starts a process and takes in what it sends, until it ends.
func (s *Sampler) run(p *samplerProcess) {
	defer close(p.over)
	defer p.setUp()
	conn, cmd, err := p.launch(s.options)
	s.mu.Lock()
	p.conn, p.cmd = conn, cmd
	if err != nil {
		p.ended = true
		s.fail(p, failure{text: err.Error()})
	} else if p != s.board && s.counters.off {
		s.countersOff() // it was not yet there
	}
	s.mu.Unlock()
	close(p.launched)
	if err != nil {
		return
	}
	err = p.receive(conn, func(message any) (bool, error) { return s.takeMessage(p, message) })
	s.mu.Lock()
	defer s.mu.Unlock()
	if !p.ended && err != nil {
		s.abandon(p, err)
	}
}

// takeMessage takes a message in. The last message is the sampler's farewell.
func (s *Sampler) takeMessage(p *samplerProcess, message any) (last bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return true, nil
	}
	switch m := message.(type) {
	case failure:
		p.ended = true
		s.fail(p, m)
		return true, nil
	case ready:
		if m.devices > 0 {
			return false, nil
		}
	case device:
		err = s.gpus.found(m, p != s.board)
	case set:
		err = s.gpus.set(m, p != s.board)
	case refused:
		err = s.gpus.refused(m)
	case rows:
		err = s.gpus.rows(m)
		s.gpus.expire(time.Now())
	case gap:
		err = s.gpus.gap(m)
	case processes:
		err = s.gpus.processes(m)
	case done:
		return true, nil
	}
	p.setUp()
	return false, err
}

// fail is called when a process does not work from the start.
func (s *Sampler) fail(p *samplerProcess, m failure) {
	text := strings.ToValidUTF8(m.text, "?")
	switch {
	case p != s.board:
		s.countersFailed(m.why, text)
	case s.options.PM != nil:
		s.countersOff()
		s.options.Remark("GPU metrics are not sampled: " + text)
	default:
		s.options.Note("GPU metrics are not sampled: " + text)
	}
}

// abandon ends a process that does not work any more. The caller holds mu.
func (s *Sampler) abandon(p *samplerProcess, why error) {
	p.ended = true
	p.kill()
	s.gpus.cut(p != s.board)
	of, rest := "GPU metrics", "the log has no GPU metrics from here on"
	pm := s.counters.process
	switch {
	case p != s.board:
		s.counters.told = true
		of = "PM sampling"
		if !s.board.ended {
			rest = instead + " from here on"
		}
	case pm != nil && !pm.ended:
		rest = "the log has no values of NVML and GPM from here on"
	}
	text := fmt.Sprintf("the sampler of %s has failed (%v)", of, why)
	if s.gpus.begun {
		s.options.Miss(text + ": " + rest)
	} else {
		s.options.Note(text)
	}
}

// Begin is called when a recorded process uses CUDA. GPUs and processes are sampled from then on.
func (s *Sampler) Begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.host == nil && !s.finished && s.options.Live != nil {
		s.host = startHost(s.options)
	}
	s.gpus.beginSampling()
	s.tryOffered()
}

// Offer takes in the files of CUPTI that a recorded process could load, before its Begin.
func (s *Sampler) Offer(pid uint32, libraries []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.options.PM != nil {
		s.counters.offer(usableLibraries(libraries, s.options.asRoot() || !s.options.trusts(pid)))
	}
}

// Device takes in the number and the UUID of a recorded process's GPU.
func (s *Sampler) Device(d *tracelog.Device) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.devices) < 1<<16 {
		s.devices[[2]uint32{d.PID, d.ID}] = d.UUID
	}
}

// Context takes in that a recorded process has a context on a GPU, whose Device came before.
func (s *Sampler) Context(c *tracelog.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if uuid := s.devices[[2]uint32{c.PID, c.Device}]; uuid != "" && !s.finished {
		s.gpus.context(uuid, c.Device)
	}
}

// patience is how long the recorder waits for the sampler at the end.
const patience = 500 * time.Millisecond

// End takes in the last values and ends the sampler. A second call does nothing.
func (s *Sampler) End() {
	s.mu.Lock()
	again, host := s.finished, s.host
	s.finished = true
	s.mu.Unlock()
	if again {
		return
	}
	if host != nil {
		host.end()
	}
	list := s.processes()
	var asked []*samplerProcess
	for _, p := range list {
		<-p.launched
		if s.farewell(p) {
			asked = append(asked, p)
		}
	}
	deadline := time.Now().Add(patience)
	late := map[*samplerProcess]bool{}
	for _, p := range asked {
		late[p] = !within(p.over, time.Until(deadline))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	var took time.Duration
	for _, p := range list {
		p.ended = true
		if late[p] {
			s.gpus.cut(p != s.board)
		}
		took += p.remove()
	}
	s.gpus.end()
	if c := &s.counters; c.process != nil && !c.off && !c.told {
		s.gpus.uncounted()
	}
	if len(asked) > 0 {
		s.options.Note(fmt.Sprintf("the sampler of GPU metrics took %s of processor time", took.Round(time.Millisecond)))
	}
}

// processes returns the processes that there are.
func (s *Sampler) processes() []*samplerProcess {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.counters.process == nil {
		return []*samplerProcess{s.board}
	}
	return []*samplerProcess{s.board, s.counters.process}
}

// farewell asks a process that samples for its last values; false if there is none.
func (s *Sampler) farewell(p *samplerProcess) bool {
	s.mu.Lock()
	begun := s.gpus.begun && !p.ended
	s.mu.Unlock()
	wait := patience
	if p != s.board {
		wait = 0 // CUPTI may still be starting
	}
	if !begun || !within(p.up, wait) {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.ended || len(s.gpus.all) == 0 {
		return false
	}
	p.tell(orderEnd, 0)
	return true
}

// within waits until a channel is closed, for a time at most.
func within(c <-chan struct{}, most time.Duration) bool {
	select {
	case <-c:
		return true
	case <-time.After(most):
		return false
	}
}
