package cupti

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cudatrace/cudatrace/record/internal/cupti/privatefolder"
	"github.com/cudatrace/cudatrace/record/must"
	"github.com/cudatrace/cudatrace/record/pipetest"
	"github.com/cudatrace/cudatrace/record/procfs"
	"github.com/cudatrace/cudatrace/record/tracelog"
)

// patience is how long a test waits for what must happen; none takes as long.
const patience = 60 * time.Second

// buildOnce runs make once for all tests, with OUT set to the path of a folder, which it returns. What an earlier run
// has built there is built again only if a source has changed.
func buildOnce(name string, arg ...string) func() (string, error) {
	return sync.OnceValues(func() (string, error) {
		dir, err := filepath.Abs(filepath.Join("../../../build/cupti-test", name))
		if err != nil {
			return "", err
		}
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return "", err
		}
		cmd := exec.Command("make", append([]string{"-s"}, arg...)...)
		cmd.Env = append(os.Environ(), "OUT="+dir)
		if out, err := cmd.CombinedOutput(); err != nil {
			return "", fmt.Errorf("%w\n%s", err, out)
		}
		return dir, nil
	})
}

// fake builds the misbehaving CUPTI and its programs.
var fake = buildOnce("fake", "-C", "testdata/fake")

func TestMain(m *testing.M) {
	pipetest.DefaultSignals()
	os.Exit(m.Run())
}

// tally is a sink that counts, and keeps one of each kind.
type tally struct {
	mu       sync.Mutex
	counts   map[string]uint64
	lost     map[string]uint64
	losses   []tracelog.Lost
	names    map[string]int
	cupti    []tracelog.CUPTI
	times    [2]uint64 // the earliest start and the latest end of a kernel
	last     map[string]any
	statuses chan string // of CUPTI records, for tests that wait for one
}

func newTally() *tally {
	return &tally{counts: map[string]uint64{}, lost: map[string]uint64{}, names: map[string]int{},
		last: map[string]any{}, statuses: make(chan string, 100)}
}

func (s *tally) Add(r tracelog.Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch r := r.(type) {
	case *tracelog.CUPTI:
		s.cupti = append(s.cupti, *r)
		s.statuses <- r.Status
		return
	case *tracelog.Lost:
		s.lost[r.Cause] += r.Count
		s.losses = append(s.losses, *r)
		return
	case *tracelog.Kernel:
		s.names[r.Name]++
		if s.times[0] == 0 || r.Start < s.times[0] {
			s.times[0] = r.Start
		}
		s.times[1] = max(s.times[1], r.Start+r.Dur)
	case *tracelog.API:
		s.names[r.Name]++
	case *tracelog.Marker:
		s.names[r.Name]++
	case *tracelog.Memcpy:
		if r.SrcDevice != r.DstDevice {
			s.keep("peer", r)
		}
	}
	s.keep(r.Kind().String(), r)
}

// keep counts a record. s.mu is held.
func (s *tally) keep(kind string, r tracelog.Record) {
	s.counts[kind]++
	s.last[kind] = copyOf(r)
}

// copyOf is the value of a record that its sender uses again.
func copyOf(r tracelog.Record) any { return reflect.ValueOf(r).Elem().Interface() }

func (s *tally) status() tracelog.CUPTI {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.cupti) == 0 {
		return tracelog.CUPTI{}
	}
	return s.cupti[len(s.cupti)-1]
}

// audience is a handler that answers with one configuration and remembers.
type audience struct {
	config GoConfig
	mu     sync.Mutex
	peers  []Peer
	ends   []End
	notes  []string
	exits  []exitSignal
	chains []Chain
	inside []OpenCall    // calls whose functions were asked for
	depth  int           // of chains, 0: not known
	gate   chan struct{} // WatchExit returns when it is closed; nil: at once
}

// exitSignal is what a process says of its exit signal.
type exitSignal struct {
	signal  uint32
	handler uint64
}

func (a *audience) WatchExit(signal uint32, handler, _ uint64) {
	if a.gate != nil {
		<-a.gate
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.exits = append(a.exits, exitSignal{signal, handler})
}

// FindCaller numbers chains from 1.
func (a *audience) FindCaller(c Chain, need func(int)) uint32 {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.chains = append(a.chains, c)
	if a.depth > 0 {
		need(a.depth)
	}
	return uint32(len(a.chains))
}

// FindFunction names all functions alike.
func (a *audience) FindFunction(c OpenCall) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.inside = append(a.inside, c)
	return "cuInner"
}

func (*audience) Wants(Peer) bool { return true }

func (a *audience) Hello(p Peer) (GoConfig, Listener) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.peers = append(a.peers, p)
	c := a.config
	if mapped, err := procfs.Files(int(p.PID)); err == nil {
		c.Candidates = append(LocateCUPTI(int(p.PID), mapped), c.Candidates...)
	}
	return c, a
}

func (*audience) Status(tracelog.CUPTI) {}

func (a *audience) End(e End) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ends = append(a.ends, e)
}

func (a *audience) Warn(_ uint32, text string) { a.Note(tracelog.NoteWarning, text) }

func (a *audience) Note(_ uint32, text string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.notes = append(a.notes, text)
}

// stage is a server and what it heard.
type stage struct {
	*tally
	*audience
	server *Server
}

func newStage(t *testing.T, o Options, c GoConfig) *stage {
	t.Helper()
	s := &stage{tally: newTally(), audience: &audience{config: c}}
	if o.Sink == nil {
		o.Sink = s.tally
	}
	o.bases = []string{t.TempDir(), "/tmp"}
	server := must.Get(Listen(o))(t)
	s.server = server
	go server.Serve(s.audience)
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// play is a program as a test runs it.
type play struct {
	program string // in the folder of the fake, or absolute
	args    []string
	env     []string
}

// started starts a command that ends within the test's patience, with pipes.
func started(t *testing.T, cmd *exec.Cmd) (input io.WriteCloser, output io.Reader) {
	t.Helper()
	input, output = pipetest.Start(t, cmd)
	timer := time.AfterFunc(patience, func() { cmd.Process.Kill() })
	t.Cleanup(func() { timer.Stop() })
	return input, output
}

func (p play) command(t *testing.T, environ []string) *exec.Cmd {
	t.Helper()
	if !filepath.IsAbs(p.program) {
		dir := must.Get(fake())(t)
		p.program = filepath.Join(dir, p.program)
	}
	cmd := exec.Command(p.program, p.args...)
	cmd.Env = append(environ, p.env...)
	cmd.Dir = t.TempDir()
	return cmd
}

// run runs a program to its end and waits until its connection has ended.
func (s *stage) run(t *testing.T, p play) (stdout, stderr string, code int) {
	t.Helper()
	cmd := p.command(t, s.server.Environ(os.Environ()))
	stdout, stderr, code = runCommand(t, cmd)
	if left := s.server.Wait(patience); left != 0 {
		t.Fatalf("%d processes are still connected", left)
	}
	return stdout, stderr, code
}

func runCommand(t *testing.T, cmd *exec.Cmd) (stdout, stderr string, code int) {
	t.Helper()
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &out, &errs, patience // a child may hang with these open
	timer := time.AfterFunc(patience, func() { cmd.Process.Kill() })
	defer timer.Stop()
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// located checks that what was lost is located between begin and now.
func (s *stage) located(t *testing.T, begin uint64) {
	t.Helper()
	for _, l := range s.losses {
		if l.From < begin || l.From > l.To || l.To > monotonic() {
			t.Errorf("lost between %d and now: %+v", begin, l)
		}
	}
}

// expect checks that the program was left in peace.
func expect(t *testing.T, stdout, stderr string, code int, wantOut string) {
	t.Helper()
	if stdout != wantOut || stderr != "" || code != 7 {
		t.Errorf("the program printed %q and %q and ended with %d, want %q and 7", stdout, stderr, code, wantOut)
	}
}

// whole checks that n launches arrived, all of them, and nothing else.
func (s *stage) whole(t *testing.T, n uint64) {
	t.Helper()
	if s.counts["kernel"] != n || s.counts["api"] != n || len(s.lost) != 0 {
		t.Errorf("%v arrived and %v was lost, want %d launches", s.counts, s.lost, n)
	}
	if len(s.ends) != 1 || s.ends[0].Complete != 1 || s.ends[0].Kernels != n || s.ends[0].APIs != n {
		t.Errorf("the end is %+v, want it complete with %d", s.ends, n)
	}
	if got := s.status(); got.Status != "on" || got.DriverVersion != 13000 || !strings.Contains(got.Path, "libcupti.so") {
		t.Errorf("CUPTI is %+v", got)
	}
	if len(s.notes) != 0 {
		t.Errorf("notes: %q", s.notes)
	}
}

// removeSocket closes a server's socket, and removes it.
func removeSocket(s *Server) error {
	return errors.Join(s.entrances[0].Listener.Close(), os.Remove(filepath.Join(s.dir, privatefolder.SocketName)))
}
