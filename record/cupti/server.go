package cupti

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/cudatrace/cudatrace/record/tracelog"
)

// InjectionVar is the environment variable from which the CUDA driver takes the
// path of the library that it loads during cuInit.
const InjectionVar = "CUDA_INJECTION64_PATH"

// NVTXVar does the same for NVTX, which loads the library at its first use.
const NVTXVar = "NVTX_INJECTION64_PATH"

// Owner is the user that the recorded programs run as.
type Owner struct{ UID, GID int }

// Options are those of Listen. Sink is needed.
type Options struct {
	Sink  Sink
	Owner *Owner // nil: who runs the recorder

	library []byte   // instead of the embedded one
	bases   []string // instead of folderBases
}

// A Handler is told of processes. Its methods are called from several goroutines
// at a time; those about one peer come one after the other.
type Handler interface {
	// Hello is called when a process has initialised CUDA and waits. It has a
	// good second: 2 s after its hello the process runs on unrecorded.
	Hello(p Peer) GoConfig
	// End is called when the last record of a process has reached the sink.
	//
	// Complete is 1 if nothing is missing: the process said goodbye, or had handed all over
	// and sent nothing more, or CUPTI recorded nothing in it; and no other CUPTI client had
	// taken its records over. The counts are then CUPTI's, else those of the records that
	// arrived. Until is the last time at which CUPTI was asked for finished work. Reason is
	// "exit", "quick_exit" or "signal N (NAME)"; "" if the process cannot know it, as for _exit
	// and exec, or was not asked. Status is -1.
	End(p Peer, e tracelog.ProcessEnd)
	// Note is called with a line that a person should see; severity is one of
	// tracelog's.
	Note(p Peer, severity uint32, text string)
}

// An ExitWatcher is a Handler that can see what a process cannot: a thread on its
// way into _exit or exec, or into the program's own handler of a signal.
type ExitWatcher interface {
	// WatchExit is called when recording has begun in a process. A thread that then gets the
	// signal, if that is not 0, has all records handed over, and waits in the handler until
	// that is done. The signal may be sent only while its handler in the process is the
	// function at that address, only to threads that do not block it, and not to a process
	// that shares the memory but has another PID.
	WatchExit(p Peer, signal uint32, handler uint64)
}

// A Peer is a process that reports to the server.
type Peer struct {
	ID           uint64 // unique in the server; a process that runs another program comes again
	PID          uint32 // in the recorder's PID namespace, from the kernel
	UID, GID     uint32
	NamespacePID uint32 // in the process's own PID namespace, as it says itself
	Time         uint64 // of its hello, ns, CLOCK_MONOTONIC
	CUPTI        string // path of a libcupti that it has loaded itself, if any
	// BufferRequest is the first argument of the library's own call of
	// cuptiActivityRegisterCallbacks. A call with another argument is another client's.
	BufferRequest uint64
}

// Records are the kinds of record that a process makes, a bit each.
type Records uint32

// The kinds of record. Those of work are always made: kernels, copies, sets, the
// calls behind them, devices, contexts, streams.
const (
	RecordWork     Records = 1 << iota
	RecordSync             // calls that wait for GPU work
	RecordOverhead         // time that CUPTI and the driver take for themselves
	RecordNVTX             // marks, ranges and names
	RecordMemory           // allocations, releases and pools of memory
	RecordGraphs           // each launch of a graph as a whole, and none of its nodes

	DefaultRecords = RecordWork | RecordSync | RecordOverhead | RecordNVTX | RecordMemory
)

// A GoConfig is the answer to a process's hello. Zero values are replaced by the
// defaults below.
type GoConfig struct {
	BufferSize    uint32        // of a CUPTI buffer, bytes
	FlushInterval time.Duration // how old a record gets before it is sent
	MemoryLimit   uint64        // of all that the library allocates in the process, bytes; 3 MiB at least
	ExitWait      time.Duration // how long the process's end may wait for CUPTI or a slow recorder
	Candidates    []Candidate   // where libcupti may be, best first; see Locate
	NoCUPTI       bool          // report the process alone, record nothing

	Records Records // kinds; one that CUPTI refuses is a Note
	// Calls are the functions, of either library, whose API records are made, in
	// all their variants. None: those that create GPU work.
	Calls        []string
	Paused       bool // record nothing before Resume
	CaptureRange bool // record between cudaProfilerStart and cudaProfilerStop only
	// OwnClock leaves CUPTI its own clock, which is then measured against CLOCK_MONOTONIC. It is
	// for releases that give kernels no times on another clock.
	OwnClock bool
	// WatchClients has the process itself notice another CUPTI client. It is for a recorder
	// without the rights for a probe that notices. It takes a few FlushIntervals and needs
	// CUPTI 13; now and then a thread of the library calls cuDeviceGetCount.
	WatchClients bool
}

// The defaults of a GoConfig.
const (
	DefaultBufferSize    = 1 << 20
	DefaultFlushInterval = time.Second
	DefaultMemoryLimit   = 64 << 20
	DefaultExitWait      = 5 * time.Second
)

func (c GoConfig) withDefaults() GoConfig {
	if c.BufferSize == 0 {
		c.BufferSize = DefaultBufferSize
	}
	if c.FlushInterval == 0 {
		c.FlushInterval = DefaultFlushInterval
	}
	if c.MemoryLimit == 0 {
		c.MemoryLimit = DefaultMemoryLimit
	}
	if c.ExitWait == 0 {
		c.ExitWait = DefaultExitWait
	}
	if c.Records == 0 {
		c.Records = DefaultRecords
	}
	return c
}

// A Server is what injected processes report to.
type Server struct {
	dir      string
	lock     *os.File // held while dir is in use
	listener *net.UnixListener
	sink     Sink
	owner    Owner

	mu     sync.Mutex
	change sync.Cond // peers changed
	peers  map[uint64]*peer
	lastID uint64
	refuse bool // new connections
	closed bool
	paused bool           // new processes record nothing
	clock  bool           // new processes keep CUPTI's own clock
	active sync.WaitGroup // a goroutine a peer
}

// Listen makes a private folder, writes the library there and opens the socket
// beside it. Close removes all of it.
func Listen(o Options) (*Server, error) {
	if o.Sink == nil {
		return nil, errors.New("cupti: Options without a Sink")
	}
	if o.library == nil {
		o.library = library
	}
	if len(o.library) == 0 {
		return nil, errors.New("there is no recording library for this processor; CUDA runs on amd64 and arm64")
	}
	if o.bases == nil {
		o.bases = folderBases()
	}
	owner := Owner{os.Geteuid(), os.Getegid()}
	if o.Owner != nil {
		owner = *o.Owner
	}
	for _, base := range o.bases {
		if base != "" {
			removeStale(base, os.Geteuid(), owner.UID)
		}
	}
	dir, err := makeFolder(o.bases, owner)
	if err != nil {
		return nil, err
	}
	lock, err := lockFolder(dir)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("the recording library's folder cannot be used: %w", err), os.RemoveAll(dir))
	}
	s, err := listenIn(dir, o, owner)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir), lock.Close())
	}
	s.lock = lock
	return s, nil
}

func listenIn(dir string, o Options, owner Owner) (*Server, error) {
	if err := writeLibrary(dir, o.library, owner); err != nil {
		return nil, fmt.Errorf("the recording library cannot be written: %w", err)
	}
	path := filepath.Join(dir, socketName)
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("no socket for recorded processes: %w", err)
	}
	if err := os.Chown(path, owner.UID, owner.GID); err != nil {
		return nil, errors.Join(fmt.Errorf("no socket for recorded processes: %w", err), l.Close())
	}
	s := &Server{dir: dir, listener: l, sink: o.Sink, owner: owner, peers: map[uint64]*peer{}}
	s.change.L = &s.mu
	return s, nil
}

// Environ returns env with the variables that make the driver and NVTX load the
// library.
func (s *Server) Environ(env []string) []string {
	out := make([]string, 0, len(env)+2)
	for _, e := range env {
		name, _, _ := strings.Cut(e, "=")
		if name != InjectionVar && name != NVTXVar {
			out = append(out, e)
		}
	}
	path := filepath.Join(s.dir, libraryName)
	return append(out, InjectionVar+"="+path, NVTXVar+"="+path)
}

// Conflict returns the setting ("NAME=VALUE") by which another tool has its own library
// injected, or "". Recording would displace that library. A setting that has NVTX load libcupti
// is no conflict: libcupti gets NVTX's functions when that is recorded, too.
func Conflict(env []string) string {
	for _, e := range env {
		name, value, _ := strings.Cut(e, "=")
		switch {
		case value == "":
		case name == NVTXVar && strings.HasPrefix(filepath.Base(value), "libcupti.so"):
		case name == InjectionVar, name == NVTXVar:
			return e
		}
	}
	return ""
}

// Serve answers processes until Close, and returns when accepting has ended.
func (s *Server) Serve(h Handler) {
	for {
		conn, err := s.listener.AcceptUnix()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // too many open files, for instance; the process waits meanwhile
			time.Sleep(10 * time.Millisecond)
			continue
		}
		if p := s.add(conn, h); p != nil {
			go p.serve()
		}
	}
}

func (s *Server) add(conn *net.UnixConn, h Handler) *peer {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refuse {
		conn.Close()
		return nil
	}
	s.lastID++
	p := &peer{Peer: Peer{ID: s.lastID}, server: s, conn: conn, handler: h}
	s.peers[p.ID] = p
	s.active.Add(1)
	return p
}

func (s *Server) remove(p *peer) {
	s.mu.Lock()
	delete(s.peers, p.ID)
	s.change.Broadcast()
	s.mu.Unlock()
	s.active.Done()
}

// Wait waits until no process is connected, or until the time is over, and
// returns how many are left.
func (s *Server) Wait(timeout time.Duration) int {
	over := time.Now().Add(timeout)
	timer := time.AfterFunc(timeout, s.wake)
	defer timer.Stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.peers) > 0 && time.Now().Before(over) {
		s.change.Wait()
	}
	return len(s.peers)
}

func (s *Server) wake() {
	s.mu.Lock()
	s.change.Broadcast()
	s.mu.Unlock()
}

func (s *Server) each(f func(*peer)) {
	s.mu.Lock()
	all := make([]*peer, 0, len(s.peers))
	for _, p := range s.peers {
		all = append(all, p)
	}
	s.mu.Unlock()
	var done sync.WaitGroup
	for _, p := range all {
		done.Go(func() { f(p) })
	}
	done.Wait()
}

// StopAll ends recording in every process, which lives on, and waits for the
// last of their records. A process that comes later runs unrecorded. It returns
// how many have not finished in time.
func (s *Server) StopAll(timeout time.Duration) int {
	over := time.Now().Add(timeout)
	s.mu.Lock()
	s.refuse = true
	s.mu.Unlock()
	s.each(func(p *peer) { p.tell(msgStop) })
	return s.Wait(time.Until(over))
}

// Pause stops recording in every process until Resume, and has it send what was
// recorded so far. A process that comes meanwhile waits for Resume as well.
func (s *Server) Pause() { s.setPaused(true, msgPause) }

// Resume goes on recording in every process, those with GoConfig.Paused included.
func (s *Server) Resume() { s.setPaused(false, msgResume) }

func (s *Server) setPaused(paused bool, t messageType) {
	s.mu.Lock()
	s.paused = paused
	s.mu.Unlock()
	s.each(func(p *peer) { p.tell(t) })
}

// state is what new processes are told.
func (s *Server) state() (paused, ownClock bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.paused, s.clock
}

func (s *Server) setOwnClock() {
	s.mu.Lock()
	s.clock = true
	s.mu.Unlock()
}

// Foreign tells a process that another CUPTI client has registered its own buffer
// callbacks there: nothing is asked of CUPTI any more, so that the other is not
// disturbed, and its records up to here are sent. A Note and the CUPTI record say
// so. See also GoConfig.WatchClients.
func (s *Server) Foreign(pid uint32) {
	s.each(func(p *peer) { p.tellIf(pid, msgForeign) })
}

// Close ends all connections, waits for their End, and removes the folder with
// the socket and the library. Processes run on.
func (s *Server) Close() error {
	s.mu.Lock()
	again := s.closed
	s.closed, s.refuse = true, true
	s.mu.Unlock()
	if again {
		return nil
	}
	err := s.listener.Close()
	if errors.Is(err, net.ErrClosed) {
		err = nil
	}
	s.each(func(p *peer) { p.conn.Close() })
	s.active.Wait()
	return errors.Join(err, os.RemoveAll(s.dir), s.lock.Close())
}
