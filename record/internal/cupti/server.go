package cupti

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cudatrace/cudatrace/record/errno"
	"github.com/cudatrace/cudatrace/record/internal/cupti/privatefolder"
	"github.com/cudatrace/cudatrace/record/internal/pyframes"
	"github.com/cudatrace/cudatrace/record/pattern"
)

// Owner is the user that the recorded programs run as.
type Owner = privatefolder.Owner

// Options are the options of Listen. Sink is required.
type Options struct {
	Sink  Sink
	Owner *Owner // nil for the user who runs the recorder

	// Within limits recording to these NVTX ranges. Programs may begin one before they start CUDA.
	Within pattern.Ranges
	// Steps are the numbers of these ranges, at most MostSteps. A process sends NoteStep when a range with another number
	// begins.
	Steps pattern.Numbers

	// Python gives Python frames and stacks their IDs. Nil: nobody else adds any to the log.
	Python *PythonLog

	// OpenCalls has the calls of processes with GoConfig.Callers logged that have not returned for a second.
	OpenCalls bool

	library []byte   // nil for the embedded library
	bases   []string // nil for privatefolder.Bases
	private bool     // share no memory with processes
}

// A Server takes the reports of injected processes.
type Server struct {
	dir       string                // path of the private folder
	folder    *privatefolder.Folder // nil without one
	entrances []Entrance
	sink      Sink
	within    pattern.Ranges  // as of Options
	openCalls bool            // likewise
	steps     pattern.Numbers // likewise
	hub       *hub            // nil: share no memory with processes

	peers     *peerSet
	memory    peerMemory
	python    *PythonLog
	operators OperatorLog
	newcomers newcomers
	seen      sync.Mutex // held while the rings of a process are read
	closing   sync.Once
}

// newcomers is the state that processes get when they connect, in addition to the Handler's
// answer.
type newcomers struct {
	mu       sync.Mutex
	paused   bool
	ownClock bool // CUPTI keeps its own clock in them
}

func (n *newcomers) pause(paused bool) {
	n.mu.Lock()
	n.paused = paused
	n.mu.Unlock()
}

func (n *newcomers) keepOwnClock() {
	n.mu.Lock()
	n.ownClock = true
	n.mu.Unlock()
}

func (n *newcomers) config(c GoConfig) GoConfig {
	n.mu.Lock()
	defer n.mu.Unlock()
	c.Paused = c.Paused || n.paused
	c.OwnClock = c.OwnClock || n.ownClock
	return c
}

// Listen makes a private folder, writes the library there and opens a socket beside it. Close
// removes the folder and its files.
func Listen(o Options) (*Server, error) {
	if o.Sink == nil {
		return nil, errors.New("cupti: Options without a Sink")
	}
	if o.library == nil {
		o.library = library
	}
	if len(o.library) == 0 {
		return nil, errNoLibrary
	}
	if o.bases == nil {
		o.bases = privatefolder.Bases()
	}
	owner := Owner{UID: os.Geteuid(), GID: os.Getegid()}
	if o.Owner != nil {
		owner = *o.Owner
	}
	f, err := privatefolder.Make(o.bases, o.library, owner)
	if err != nil {
		return nil, err
	}
	entrances := []Entrance{{f.Listener, owner}}
	return newServer(&Server{dir: f.Path, folder: f, sink: o.Sink, entrances: entrances, within: o.Within, steps: o.Steps,
		openCalls: o.OpenCalls, peers: newPeerSet(), python: o.Python}, o.private)
}

func newServer(s *Server, private bool) (*Server, error) {
	if s.python == nil {
		s.python = &PythonLog{}
	}
	if private {
		return s, nil
	}
	var err error
	if s.hub, err = newHub(); err != nil {
		return nil, errors.Join(fmt.Errorf("there is no memory to share with processes: %w", err), s.leave())
	}
	return s, nil
}

// Serve accepts processes and answers them. It returns after Close.
func (s *Server) Serve(h Handler) {
	var all sync.WaitGroup
	for _, e := range s.entrances {
		all.Go(func() { s.accept(e, h) })
	}
	all.Wait()
}

// accept accepts the processes that come to an entrance.
func (s *Server) accept(e Entrance, h Handler) {
	var told sync.Once
	for {
		conn, err := e.Listener.AcceptUnix()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // the process waits meanwhile
			told.Do(func() {
				h.Warn(0, "processes may run unrecorded: none can be accepted now: "+errno.Words(err))
			})
			time.Sleep(10 * time.Millisecond)
			continue
		}
		p := &peer{link: link{conn: conn, hub: s.hub}, server: s, owner: e.Owner, handler: h}
		added, full := s.peers.admit(p)
		if !added {
			conn.Close()
		} else {
			go p.serve()
		}
		if full {
			h.Warn(0, fmt.Sprintf(
				"%d processes are recorded at a time: further ones run unrecorded until one of these has ended", peersMax))
		}
	}
}

// Wait waits until no process is connected or the time is over. It returns the number of
// connected processes.
func (s *Server) Wait(timeout time.Duration) int { return s.peers.wait(timeout) }

// Has reports whether a process is connected. It may not have said hello yet.
func (s *Server) Has(pid uint32) bool { return s.peers.has(pid) }

// StopAll ends recording in all processes, which run on, and waits for their last records. A
// process that connects later runs unrecorded. It returns the number of processes that have not
// finished in time.
func (s *Server) StopAll(timeout time.Duration) int {
	over := time.Now().Add(timeout)
	s.peers.close()
	s.peers.each(func(p *peer) { p.stop() })
	return s.Wait(time.Until(over))
}

// Pause stops recording in every process until Resume, and makes each send its records so far.
// A process that connects meanwhile waits for Resume, too.
func (s *Server) Pause() { s.setPaused(true, msgPause) }

// Resume resumes recording in every process, also in those with GoConfig.Paused.
func (s *Server) Resume() { s.setPaused(false, msgResume) }

func (s *Server) setPaused(paused bool, t messageType) {
	s.newcomers.pause(paused)
	s.peers.each(func(p *peer) { p.tell(t, nil) })
}

// OtherClient tells a process that another CUPTI client has registered its own buffer callbacks
// there. The process leaves CUPTI alone from then on, so that the other client is not
// disturbed, and sends its records up to here. A Note and the CUPTI record say so. See also
// GoConfig.WatchClients.
func (s *Server) OtherClient(pid uint32) {
	s.peers.each(func(p *peer) { p.tellIf(pid, msgOtherClient) })
}

// SetPython names the interpreter of a process with GoConfig.Python that had none at its hello. nil says that there is
// more than one: frames are recorded no longer.
func (s *Server) SetPython(pid uint32, i *pyframes.Interpreter) {
	s.peers.each(func(p *peer) {
		if p.known.Load() == pid {
			p.decoder.python.use(i)
			p.tellPython(i)
		}
	})
}

// Close ends all connections, waits for their End, and removes the folder with the socket and
// the library. The processes run on.
func (s *Server) Close() error {
	var err error
	s.closing.Do(func() { err = s.close() })
	return err
}

func (s *Server) close() error {
	s.peers.close()
	err := s.closeEntrances()
	s.peers.each(func(p *peer) { p.hangUp() })
	s.peers.active.Wait()
	if s.hub != nil {
		s.hub.close()
	}
	return errors.Join(err, s.leave())
}

func (s *Server) closeEntrances() (err error) {
	for _, e := range s.entrances {
		if failed := e.Listener.Close(); !errors.Is(failed, net.ErrClosed) {
			err = errors.Join(err, failed)
		}
	}
	return err
}

// leave closes the entrances and removes the folder.
func (s *Server) leave() error {
	err := s.closeEntrances()
	if s.folder != nil {
		err = errors.Join(err, s.folder.Remove())
	}
	return err
}

// peersMax is the most processes that are connected at a time. It bounds the memory that each one
// takes beside its share of a peerMemory, about 410 KiB with the memory that it shares.
const peersMax = 1024

// A peerSet is the set of connected processes.
type peerSet struct {
	mu     sync.Mutex
	change sync.Cond // all has changed
	all    map[uint64]*peer
	lastID uint64
	closed bool           // add refuses further processes
	active sync.WaitGroup // one goroutine per peer
}

func newPeerSet() *peerSet {
	s := &peerSet{all: map[uint64]*peer{}}
	s.change.L = &s.mu
	return s
}

// admit gives a process its ID and returns true. After close, and while the set is full, it returns
// false.
func (s *peerSet) admit(p *peer) (added, full bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if full = len(s.all) >= peersMax; s.closed || full {
		return false, full && !s.closed
	}
	s.lastID++
	p.ID = s.lastID
	s.all[p.ID] = p
	s.active.Add(1)
	return true, false
}

// has reports whether a process is connected.
func (s *peerSet) has(pid uint32) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.all {
		if p.known.Load() == pid {
			return true
		}
	}
	return false
}

func (s *peerSet) remove(p *peer) {
	s.mu.Lock()
	delete(s.all, p.ID)
	s.change.Broadcast()
	s.mu.Unlock()
	s.active.Done()
}

// close makes add refuse further processes.
func (s *peerSet) close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
}

// wait waits until the set is empty or the time is over, and returns how many are left.
func (s *peerSet) wait(timeout time.Duration) int {
	over := time.Now().Add(timeout)
	timer := time.AfterFunc(timeout, s.wake)
	defer timer.Stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.all) > 0 && time.Now().Before(over) {
		s.change.Wait()
	}
	return len(s.all)
}

func (s *peerSet) wake() {
	s.mu.Lock()
	s.change.Broadcast()
	s.mu.Unlock()
}

// each calls a function for all processes, each on a goroutine of its own, and waits.
func (s *peerSet) each(f func(*peer)) {
	s.mu.Lock()
	all := slices.Collect(maps.Values(s.all))
	s.mu.Unlock()
	var done sync.WaitGroup
	for _, p := range all {
		done.Go(func() { f(p) })
	}
	done.Wait()
}

// Arm makes a folder with the library for programs that wait for a recorder, and returns its path. The programs start
// under a number of filters of system calls.
func Arm(filters uint32) (path string, err error) {
	if len(library) == 0 {
		return "", errNoLibrary
	}
	return privatefolder.MakeArmed(privatefolder.Bases(), library, filters)
}

// Disarm removes what Arm made, for a program that could not be started.
func Disarm(path string) { privatefolder.RemoveArmed(path) }

// ArmedEnviron returns env with the variables that make the driver and NVTX load the library at a path. An NVTX that
// loads CUPTI itself stays so.
func ArmedEnviron(env []string, path string) []string {
	var out []string
	nvtx := NVTXVar + "=" + path
	for _, e := range env {
		switch name, value, _ := strings.Cut(e, "="); {
		case name == InjectionVar, name == NVTXVar && value == "":
			continue
		case name == NVTXVar:
			nvtx = ""
		}
		out = append(out, e)
	}
	out = append(out, InjectionVar+"="+path)
	if nvtx != "" {
		out = append(out, nvtx)
	}
	return out
}

// IsArmed reports whether an environment has programs wait for a recorder.
func IsArmed(env []string) bool {
	return slices.ContainsFunc(env, func(e string) bool {
		path, ok := strings.CutPrefix(e, InjectionVar+"=")
		return ok && privatefolder.Arms(path)
	})
}

var errNoLibrary = errors.New("there is no injected library for this processor; CUDA runs on amd64 and arm64")

// An Entrance is a socket to which processes of an owner connect.
type Entrance struct {
	Listener *net.UnixListener
	Owner    Owner
}

// Join returns a Server for processes that run already and wait for a recorder. Close closes the entrances. python is as
// in Options.
func Join(sink Sink, entrances []Entrance, python *PythonLog) (*Server, error) {
	return newServer(&Server{sink: sink, entrances: entrances, peers: newPeerSet(), python: python}, false)
}

// InjectionVar is the environment variable that names the library which the CUDA driver loads
// during cuInit.
const InjectionVar = "CUDA_INJECTION64_PATH"

// NVTXVar is the environment variable that names the library which NVTX loads at its first use.
const NVTXVar = "NVTX_INJECTION64_PATH"

// Environ returns env with the variables that make the driver and NVTX load the library.
func (s *Server) Environ(env []string) []string {
	out := make([]string, 0, len(env)+2)
	for _, e := range env {
		name, _, _ := strings.Cut(e, "=")
		if name != InjectionVar && name != NVTXVar {
			out = append(out, e)
		}
	}
	path := filepath.Join(s.dir, privatefolder.LibraryName)
	return append(out, InjectionVar+"="+path, NVTXVar+"="+path)
}

// Conflict returns the setting ("NAME=VALUE") by which another tool injects a library of its
// own, "" without one: recording through CUPTI would displace that tool. A setting by which
// NVTX loads CUPTI itself is no conflict, since a recording does the same; nor is that of 'cudatrace run --armed',
// in whose place the program is recorded.
func Conflict(env []string) string {
	for _, e := range env {
		name, value, _ := strings.Cut(e, "=")
		switch {
		case value == "":
		case privatefolder.Arms(value):
		case name == NVTXVar && strings.HasPrefix(filepath.Base(value), "libcupti.so"):
		case name == InjectionVar, name == NVTXVar:
			return e
		}
	}
	return ""
}
