package gpumetrics

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cudatrace/cudatrace/record/errno"
	"github.com/cudatrace/cudatrace/record/host"
	"github.com/cudatrace/cudatrace/record/invoker"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// Options are the options of Start. All but As and All are required.
type Options struct {
	As      *invoker.Invoker // the user that the sampler runs as; nil for our own
	All     bool             // GPUs that no recorded process uses are logged, too
	Log     *tracelog.Writer
	NextSet func() uint32         // a new number of a metric set
	Known   func(pid uint32) bool // whether a process is recorded
	Note    func(text string)     // takes a line for the log
	Miss    func(text string)     // takes a line for the log and the person: metrics are missing from here on

	environ []string                // nil for our own environment
	program []byte                  // nil for the embedded program
	now     func() uint64           // nil for host.Monotonic
	time    func(own uint64) uint64 // nil for host.Time
}

// A Sampler is the recorder's side of the sampler. Its methods may be called at any time, also when
// there is no sampler: then they do nothing.
type Sampler struct {
	options  Options
	launched chan struct{} // closed when there is a process, or there will be none
	up       chan struct{} // closed when the sampler knows the GPUs, or has failed
	over     chan struct{} // closed when nothing more comes
	exited   chan struct{} // closed when the process is gone
	isUp     sync.Once

	mu      sync.Mutex
	gpus    *gpus
	conn    *net.UnixConn // nil without a sampler
	cmd     *exec.Cmd
	deaf    bool                 // it takes no orders
	ended   bool                 // its end is expected
	devices map[[2]uint32]string // UUIDs by process and CUPTI's number
}

// Start starts the sampler, and does not wait for it.
func Start(o Options) *Sampler {
	if o.environ == nil {
		o.environ = os.Environ()
	}
	if o.program == nil {
		o.program = program
	}
	if o.now == nil {
		o.now, o.time = host.Monotonic, host.Time
	}
	s := &Sampler{
		options: o, devices: map[[2]uint32]string{},
		launched: make(chan struct{}), up: make(chan struct{}), over: make(chan struct{}), exited: make(chan struct{}),
	}
	s.gpus = newGPUs(o, s.tell)
	go s.run()
	return s
}

// run starts the process and takes in what it sends, until it ends.
func (s *Sampler) run() {
	defer close(s.over)
	defer s.setUp()
	err := s.launch()
	if err != nil {
		s.options.Note("GPU metrics are not sampled: " + err.Error())
	}
	close(s.launched)
	if err != nil {
		return
	}
	err = s.receive()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ended && err != nil {
		s.abandon(err)
	}
}

func (s *Sampler) setUp() { s.isUp.Do(func() { close(s.up) }) }

// launch starts the process.
func (s *Sampler) launch() error {
	file, err := programFile(s.options.program)
	if err != nil {
		return err
	}
	defer file.Close()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return errors.New("there is no socket: " + errno.Words(err))
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "sampler"), os.NewFile(uintptr(pair[1]), "recorder")
	defer ours.Close()
	defer theirs.Close()
	conn, err := net.FileConn(ours)
	if err != nil {
		return errors.New("there is no socket: " + errno.Words(err))
	}
	cmd := command(s.options, theirs, file)
	if err := s.start(cmd); err != nil {
		return errors.Join(errors.New("the sampler cannot be started: "+errno.Words(err)), conn.Close())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conn, s.cmd = conn.(*net.UnixConn), cmd
	return nil
}

// command is the sampler's: without our input, output and terminal, and with the rights of the user.
func command(o Options, socket, file *os.File) *exec.Cmd {
	cmd := exec.Command("/proc/self/fd/4") // file, in the new process
	cmd.Args = []string{"cudatrace-gpu"}
	cmd.ExtraFiles = []*os.File{socket, file}
	o.As.Apply(cmd)
	cmd.Env = environment(o.environ, o.As == nil && os.Geteuid() == 0)
	cmd.Dir = "/"
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setsid = true
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	return cmd
}

// start starts a command on a thread that lives as long as the command: the kernel takes the end of
// that thread for our end.
func (s *Sampler) start(cmd *exec.Cmd) error {
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // how it ended tells nothing more
		}
		close(s.exited)
	}()
	return <-started
}

// receive takes messages in until the sampler ends. The error says that it should not have.
func (s *Sampler) receive() error {
	buf := make([]byte, messageMax+1)
	for {
		n, err := s.conn.Read(buf)
		if err != nil {
			return errors.New("it has ended")
		}
		message, err := parse(buf[:n])
		if err != nil {
			return err
		}
		if last, err := s.take(message); last || err != nil {
			return err
		}
	}
}

// take takes a message in. The last message is the sampler's farewell.
func (s *Sampler) take(message any) (last bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch m := message.(type) {
	case failure:
		s.ended = true
		s.options.Note("GPU metrics are not sampled: " + strings.ToValidUTF8(m.text, "?"))
		return true, nil
	case ready:
		if m.devices > 0 {
			return false, nil
		}
	case device:
		err = s.gpus.add(m)
	case set:
		err = s.gpus.set(m)
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
	s.setUp()
	return false, err
}

// abandon ends a sampler that does not work. The caller holds mu.
func (s *Sampler) abandon(why error) {
	s.ended = true
	s.gpus.end(true)
	s.kill()
	text := fmt.Sprintf("the sampler of GPU metrics has failed (%v)", why)
	if s.gpus.begun {
		s.options.Miss(text + ": the log has no GPU metrics from here on")
	} else {
		s.options.Note(text)
	}
}

// tell gives the sampler an order. A sampler that takes no orders ends.
func (s *Sampler) tell(kind, index uint32) {
	if s.conn == nil || s.ended || s.deaf {
		return
	}
	_ = s.conn.SetWriteDeadline(time.Now().Add(10 * time.Millisecond)) // fails on a closed connection only
	if _, err := s.conn.Write(order(kind, index)); err != nil {
		s.deaf = true
		s.kill() // receive says so
	}
}

// kill ends the process. The caller holds mu.
func (s *Sampler) kill() {
	_ = s.cmd.Process.Kill() // it may have ended
}

// Begin is called when a recorded process uses CUDA. GPUs are sampled from then on.
func (s *Sampler) Begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gpus.begin()
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
	if uuid := s.devices[[2]uint32{c.PID, c.Device}]; uuid != "" && !s.ended {
		s.gpus.context(uuid, c.Device)
	}
}

// patience is how long the recorder waits for the sampler at the end.
const patience = 500 * time.Millisecond

// End takes in the last values and ends the sampler.
func (s *Sampler) End() {
	<-s.launched
	sampled := s.farewell()
	finished := sampled && within(s.over, patience)
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ended {
		s.gpus.end(sampled && !finished)
	}
	s.ended = true
	if s.conn == nil {
		return
	}
	s.kill()
	<-s.exited
	_ = s.conn.Close() // nothing is left in it
	if took := s.cmd.ProcessState.UserTime() + s.cmd.ProcessState.SystemTime(); sampled {
		s.options.Note(fmt.Sprintf("the sampler of GPU metrics took %s of processor time", took.Round(time.Millisecond)))
	}
}

// farewell asks a sampler that samples for its last values; false if there is none.
func (s *Sampler) farewell() bool {
	s.mu.Lock()
	begun := s.gpus.begun && !s.ended
	s.mu.Unlock()
	if !begun || !within(s.up, patience) {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended || len(s.gpus.all) == 0 {
		return false
	}
	s.tell(orderEnd, 0)
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
