package gpumetrics

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cudatrace/cudatrace/record/errno"
)

// A samplerProcess runs the sampler's program. The Sampler's lock guards the fields after the channels.
type samplerProcess struct {
	args     []string
	environ  []string      // beside the environment of every sampler
	launched chan struct{} // closed when there is a process, or there will be none
	up       chan struct{} // closed when it knows the GPUs, or has failed
	over     chan struct{} // closed when nothing more comes
	exited   chan struct{} // closed when the process is gone
	isUp     sync.Once

	conn  *net.UnixConn // nil without a process
	cmd   *exec.Cmd
	deaf  bool // it takes no orders
	ended bool // its end is expected
}

func newProcess(args ...string) *samplerProcess {
	return &samplerProcess{
		args: args, launched: make(chan struct{}), up: make(chan struct{}), over: make(chan struct{}),
		exited: make(chan struct{}),
	}
}

func (p *samplerProcess) setUp() { p.isUp.Do(func() { close(p.up) }) }

// launch starts the process.
func (p *samplerProcess) launch(o Options) (*net.UnixConn, *exec.Cmd, error) {
	file, err := programFile(o.program)
	if err != nil {
		return nil, nil, err
	}
	defer file.Close()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, errors.New("there is no socket: " + errno.Words(err))
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "sampler"), os.NewFile(uintptr(pair[1]), "recorder")
	defer ours.Close()
	defer theirs.Close()
	conn, err := net.FileConn(ours)
	if err != nil {
		return nil, nil, errors.New("there is no socket: " + errno.Words(err))
	}
	cmd := p.command(o, theirs, file)
	if err := p.start(cmd); err != nil {
		return nil, nil, errors.Join(errors.New("the sampler cannot be started: "+errno.Words(err)), conn.Close())
	}
	return conn.(*net.UnixConn), cmd, nil
}

// command is the sampler's: without our input, output and terminal, and with the rights of the user.
func (p *samplerProcess) command(o Options, socket, file *os.File) *exec.Cmd {
	cmd := exec.Command("/proc/self/fd/4") // file, in the new process
	cmd.Args = append([]string{"cudatrace-gpu"}, p.args...)
	cmd.ExtraFiles = []*os.File{socket, file}
	o.As.Apply(cmd)
	cmd.Env = append(environment(o.environ, o.asRoot()), p.environ...)
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
func (p *samplerProcess) start(cmd *exec.Cmd) error {
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // how it ended tells nothing more
		}
		close(p.exited)
	}()
	return <-started
}

// receive gives the messages that come to a function, until the sampler ends. The error says that it
// should not have.
func (p *samplerProcess) receive(conn *net.UnixConn, take func(message any) (last bool, err error)) error {
	buf := make([]byte, messageMax+1)
	for {
		n, err := conn.Read(buf)
		if err != nil {
			return errors.New("it has ended")
		}
		message, err := parse(buf[:n])
		if err != nil {
			return err
		}
		if last, err := take(message); last || err != nil {
			return err
		}
	}
}

// tell gives the process an order. A process that takes no orders ends.
func (p *samplerProcess) tell(kind, index uint32) {
	if p.conn == nil || p.ended || p.deaf {
		return
	}
	if p.send(order(kind, index)) != nil {
		p.deaf = true
		p.kill() // receive says so
	}
}

// send does not wait: a socket without room is that of a process that does not read.
func (p *samplerProcess) send(message []byte) error {
	raw, err := p.conn.SyscallConn()
	if err != nil {
		return err
	}
	var failure error
	err = raw.Write(func(fd uintptr) bool {
		failure = unix.Send(int(fd), message, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
		return failure != unix.EINTR
	})
	return errors.Join(err, failure)
}

func (p *samplerProcess) kill() {
	_ = p.cmd.Process.Kill() // it may have ended
}

// remove ends a process for good, and returns the processor time that it took. A process that is in a call of the
// driver ends only with the call: it is not waited for.
func (p *samplerProcess) remove() time.Duration {
	if p.conn == nil {
		return 0
	}
	p.kill()
	_ = p.conn.Close() // nothing is left in it
	if !within(p.exited, patience) {
		return 0
	}
	return p.cmd.ProcessState.UserTime() + p.cmd.ProcessState.SystemTime()
}
